"""One training step: the loss, its gradients and the update.

On a GPU the whole step, from the uint8 images to the updated weights, is compiled and then captured as one CUDA graph:
at the papers' batch sizes most of a plain step is spent on launching kernels. Replaying the graph never waits for the
device, so losses are summed there and read every `log_every` steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from alebrije.errors import DivergedError
from alebrije.models.learner import Batch, Losses
from alebrije.train.flat_optimizer import FlatOptimizer
from alebrije.train.process_group import ProcessGroup
from alebrije.train.recipe import Recipe
from alebrije.train.sources import split_batch, to_float

Function = TypeVar("Function", bound=Callable[..., Any])

PLAIN_STEPS = 3  # before the capture; compiling, tuning and the optimizer's first state happen there
# fuse many small kernels into one, and autotune the split of layer-norm reductions
COMPILE_OPTIONS = ("combo_kernels", "triton.mix_order_reduction_autotune_split_size")


@dataclass(eq=False)
class TrainStep:
    """One training step; `run` takes it, plainly or as a CUDA graph."""

    model: nn.Module
    optimizer: FlatOptimizer
    recipe: Recipe
    group: ProcessGroup
    fast: bool
    number: int  # of the next step
    totals: Losses = field(default_factory=dict)  # sums of the losses since they were last read
    steps_in_totals: int = 0
    plain_steps: int = 0
    graph: torch.cuda.CUDAGraph | None = None
    graph_batch: Batch = field(default_factory=dict)  # the tensors that the graph reads

    def __post_init__(self) -> None:
        device = self.group.device
        self.fast = self.fast and device.type == "cuda"
        self.weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.number_on_device = torch.tensor(float(self.number), device=device)
        self.bad_step = torch.tensor(float("inf"), device=device)  # the first step whose loss was not finite
        loss: Any = self.model.training_loss
        self.loss: Callable[[Batch, Tensor], Losses] = loss
        if self.fast:  # a model that repeats a part may compile that part instead of the whole
            in_parts: Any = getattr(self.model, "compiled_loss", None)
            self.loss = _compiled(loss) if in_parts is None else in_parts(_compiled)

    def run(self, batch: Batch) -> None:
        """Learn from a batch with uint8 images, after the labelled images that are due."""
        if self.optimizer.labelled is not None:
            self.optimizer.labelled.before(self.number)
        factor = self.recipe.lr_factor(self.number)
        for group in self.optimizer.param_groups:
            group["lr"].fill_(group["peak"] * factor)
        if self.graph is None and self.fast and self.group.size == 1 and self.plain_steps >= PLAIN_STEPS:
            self.graph_batch = {name: tensor.clone() for name, tensor in batch.items()}
            self.graph = torch.cuda.CUDAGraph()  # thread_local: another thread may render during the capture
            with torch.cuda.graph(self.graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
                self._learn(self.graph_batch)
        if self.graph is None:
            self._learn(batch)
            self.plain_steps += 1
        else:
            for name, tensor in batch.items():
                self.graph_batch[name].copy_(tensor, non_blocking=True)
            self.graph.replay()
        self.number, self.steps_in_totals = self.number + 1, self.steps_in_totals + 1

    def _learn(self, batch: Batch) -> None:
        self.optimizer.zero_grad()
        loss = torch.zeros((), device=self.group.device)
        autocast = torch.autocast(self.group.device.type, torch.bfloat16, self.recipe.precision == "bfloat16", False)
        for part in split_batch(batch, self.recipe.accumulate):
            with autocast:
                losses = self.loss({name: to_float(tensor) for name, tensor in part.items()}, self.number_on_device)
            (losses["loss"] / self.recipe.accumulate).backward()  # type: ignore[no-untyped-call]
            loss = loss + losses["loss"].detach() / self.recipe.accumulate
            for name, value in losses.items():
                if name not in self.totals:
                    self.totals[name] = torch.zeros((), device=self.group.device)
                self.totals[name].add_(value.detach(), alpha=1 / self.recipe.accumulate)
            keep = losses["loss"].isfinite() | self.bad_step.isfinite()
            self.bad_step.copy_(torch.where(keep, self.bad_step, self.number_on_device))
        parts = self.optimizer.gather_gradients()
        self.group.average([flat.grad for values in parts.values() for flat in values if flat.grad is not None])
        self.recipe.clip_gradients(parts)
        if self.optimizer.plateau is not None:
            for group in self.optimizer.param_groups:
                group["lr"].mul_(self.optimizer.plateau.factor)
        self.optimizer.step()
        if self.optimizer.plateau is not None:
            self.group.average([loss])
            self.optimizer.plateau.update(loss)
        self.number_on_device.add_(1.0)

    @property
    def lr(self) -> float:
        """The learning rate of the last step, for the first parameter group; waits for a GPU."""
        first = self.optimizer.param_groups[0]
        if self.optimizer.plateau is not None:
            return float(first["lr"])
        return float(first["peak"] * self.recipe.lr_factor(self.number - 1))

    def mean_losses(self, newest: Path | None) -> dict[str, float]:
        """Return the mean losses since the last call; raise a DivergedError if one was NaN or infinite."""
        self.group.reduce_losses(self.bad_step, self.totals)
        if bool(self.bad_step.isfinite()):
            raise self._diverged("loss", int(self.bad_step), newest)
        means = {name: float(total) / max(1, self.steps_in_totals) for name, total in self.totals.items()}
        for total in self.totals.values():
            total.zero_()
        self.steps_in_totals = 0
        return means

    def recent_losses(self) -> dict[str, float]:
        """Return the mean losses of this process since the last call of `mean_losses`, and keep adding to them."""
        return {name: float(total) / max(1, self.steps_in_totals) for name, total in self.totals.items()}

    def check_finite(self, newest: Path | None) -> None:
        """Raise a DivergedError if a loss or, after the last update, a weight is NaN or infinite."""
        if bool(self.bad_step.isfinite()):
            raise self._diverged("loss", int(self.bad_step), newest)
        if not bool(torch.stack([weight.detach().isfinite().all() for weight in self.weights]).all()):
            raise self._diverged("update", self.number - 1, newest)

    def _diverged(self, what: str, step: int, newest: Path | None) -> DivergedError:
        good = f"the last good checkpoint is {newest}" if newest else "there is no checkpoint yet"
        lr = self.recipe.lr_factor(step) * self.optimizer.param_groups[0]["peak"]
        return DivergedError(
            f"the {what} of step {step + 1} is NaN or infinite, at a learning rate of {lr:.3g}; {good}"
        )


def _compiled(function: Function) -> Function:
    """Compile a function, with those options that this version of torch has."""
    options: dict[str, Any] = dict.fromkeys(set(COMPILE_OPTIONS) & set(torch._inductor.list_options()), True)
    compiled: Any = with_constant_numbers(torch.compile(function, options=options))
    return compiled  # type: ignore[no-any-return]


def with_constant_numbers(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled function to which the floats of a model, such as an epsilon, are constants.

    Where a second model in the process has other floats, torch's compiler makes them variables, for which some models
    cannot be compiled.
    """

    @functools.wraps(compiled)
    def call(*arguments: Any) -> Any:
        with torch._dynamo.config.patch(specialize_float=True):
            return compiled(*arguments)

    return call
