"""The loop: one step, repeated, on one device or on several, that can be killed at any moment and goes on.

On a GPU the whole step, from the uint8 images to the updated weights, is compiled and then captured as one CUDA graph:
at the papers' batch sizes most of a plain step is spent on launching kernels. The graph is replayed without asking the
device for anything, so losses are added up there and read every `log_every` steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from alebrije.errors import DivergedError, InputError
from alebrije.models.learner import Batch, Losses
from alebrije.train.checkpoints import checkpoints, load, save
from alebrije.train.compiling import compiled
from alebrije.train.crew import Crew
from alebrije.train.history import History
from alebrije.train.recipe import Recipe
from alebrije.train.rows import Rows
from alebrije.train.sources import Source, in_parts, seen
from alebrije.train.stopping import Stopping

Check = Callable[[nn.Module], dict[str, float]]
Progress = Callable[[int, int, float, dict[str, float]], object]  # step, of how many, images per second, losses

PLAIN_STEPS = 3  # before the step is captured: compiling, tuning and the optimiser's first state happen there


def train(
    model: nn.Module,
    source: Source,
    recipe: Recipe,
    folder: Path,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    check: Check | None = None,
    check_every: int = 1000,
    log_every: int = 50,
    save_every: int = 1000,
    progress: Progress | None = None,
    fast: bool = True,
    until: int | None = None,
    keep_every: int = 0,
) -> nn.Module:
    """Train a model in place, from the last checkpoint in `folder` if there is one.

    `history.jsonl` gets a line with the mean losses every `log_every` steps and what `check` says of the model every
    `check_every`. `seed` is that of dropout, noise and the like; the data have their own. Without `fast` a GPU runs the
    plain step. `until` ends the sitting at that step, while the schedule is that of all steps: the same call goes on.
    Of the checkpoints the last two stay, and those whose step is a multiple of `keep_every`. Ctrl-C and SIGTERM save
    one first; several processes do so at the next line of the history.
    """
    crew = Crew.of(torch.device(device))
    crew.see_that_it_can_share(model, recipe.batch, recipe.accumulate)
    if min(log_every, check_every, save_every, keep_every + 1) < 1:
        raise InputError("log_every, check_every and save_every must be at least 1, and keep_every at least 0")
    share, last = recipe.batch // crew.size, recipe.steps if until is None else min(until, recipe.steps)
    layout = torch.channels_last if crew.device.type == "cuda" else torch.preserve_format  # before optimiser and load
    model.to(crew.device, memory_format=layout).train()  # type: ignore[call-overload]
    optimiser = recipe.optimiser_of(model)
    folder.mkdir(parents=True, exist_ok=True)
    with crew.own_random_numbers(seed), crew.own_stream(), Stopping(patient=crew.size > 1) as stopping:
        step, newest = 0, checkpoints(folder)
        if newest:
            step, states = load(newest[-1], model, optimiser)
            if len(states) != crew.size:
                raise InputError(f"{folder} was trained by {len(states)} processes and cannot go on with {crew.size}")
            crew.set_random_state(states, seed + step)
        crew.make_equal(model)
        stride = Stride(model, optimiser, recipe, crew, fast, step)
        history = History(folder / "history.jsonl", step, crew.rank == 0)
        clock, since = time.perf_counter(), step
        while step < last:
            stride.take(source.batch(step * recipe.batch + crew.rank * share, share))
            step += 1
            logs, looks, saves = (step % every == 0 or step == last for every in (log_every, check_every, save_every))
            if logs or saves:
                losses = stride.losses_so_far(newest[-1] if newest else None)
                seconds, clock = time.perf_counter() - clock, time.perf_counter()
                speed, since = (step - since) * recipe.batch / seconds, step
                history.add(step, losses | {"lr": stride.rate, "images per second": speed, "seconds": seconds})
                if progress is not None and crew.rank == 0:
                    progress(step, recipe.steps, speed, losses)
            paused = time.perf_counter()  # looking and saving are not training
            if looks and check is not None:
                stride.see_that_all_are_numbers(newest[-1] if newest else None)
                history.add(step, looked_at(model, check, crew))
                optimiser.adopt()
            stops = crew.hears(stopping.asked, logs or saves)
            if saves or stops:
                stride.see_that_all_are_numbers(newest[-1] if newest else None)
                states = crew.random_states()
                if crew.rank == 0:
                    save(folder, step, model, optimiser, states, keep_every)
                crew.wait()
                newest = checkpoints(folder)
            clock += time.perf_counter() - paused
            if stops:
                crew.leave()
                stopping.obey(anyway=True)
        crew.leave()
    optimiser.release()
    return model.eval()


def looked_at(model: nn.Module, check: Check, crew: Crew) -> dict[str, float]:
    """What a check says of the model as it is, without a trace in the training."""
    model.eval()
    with torch.no_grad(), crew.own_random_numbers(0):
        found = check(model)
    model.train()
    return found


@dataclass(eq=False)
class Stride:
    """One step of training: the loss, its gradients, the update. `take` does it, plainly or as a CUDA graph."""

    model: nn.Module
    optimiser: Rows
    recipe: Recipe
    crew: Crew
    fast: bool
    number: int  # of the next step
    totals: Losses = field(default_factory=dict)  # sums of the losses since they were last read
    taken: int = 0  # steps since then
    plain: int = 0
    rate: float = 0.0  # the learning rate of the last step, of the first group
    graph: torch.cuda.CUDAGraph | None = None
    batch: Batch = field(default_factory=dict)  # where the graph reads

    def __post_init__(self) -> None:
        device = self.crew.device
        self.fast = self.fast and device.type == "cuda"
        self.weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.step = torch.tensor(float(self.number), device=device)
        self.bad = torch.tensor(float("inf"), device=device)  # the first step whose loss was no number
        loss: Any = self.model.training_loss
        self.loss: Callable[[Batch, Tensor], Losses] = compiled(loss) if self.fast else loss

    def take(self, batch: Batch) -> None:
        """Learn from a batch of uint8 images and what else there is."""
        for group in self.optimiser.param_groups:
            group["lr"].fill_(group["peak"] * self.recipe.rate(self.number))
        self.rate = self.optimiser.param_groups[0]["peak"] * self.recipe.rate(self.number)
        if self.graph is None and self.fast and self.crew.size == 1 and self.plain >= PLAIN_STEPS:
            self.batch = {name: tensor.clone() for name, tensor in batch.items()}
            self.graph = torch.cuda.CUDAGraph()  # other threads may draw while it is captured
            with torch.cuda.graph(self.graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
                self._learn(self.batch)
        if self.graph is None:
            self._learn(batch)
            self.plain += 1
        else:
            for name, tensor in batch.items():
                self.batch[name].copy_(tensor, non_blocking=True)
            self.graph.replay()
        self.number, self.taken = self.number + 1, self.taken + 1

    def _learn(self, batch: Batch) -> None:
        self.optimiser.zero_grad()
        low = torch.autocast(self.crew.device.type, torch.bfloat16, self.recipe.precision == "bfloat16", False)
        for part in in_parts(batch, self.recipe.accumulate):
            with low:
                losses = self.loss({name: seen(tensor) for name, tensor in part.items()}, self.step)
            (losses["loss"] / self.recipe.accumulate).backward()  # type: ignore[no-untyped-call]
            for name, value in losses.items():
                if name not in self.totals:
                    self.totals[name] = torch.zeros((), device=self.crew.device)
                self.totals[name].add_(value.detach(), alpha=1 / self.recipe.accumulate)
            fine = losses["loss"].isfinite() | self.bad.isfinite()
            self.bad.copy_(torch.where(fine, self.bad, self.step))
        parts = self.optimiser.gather()
        self.crew.average([row.grad for rows in parts.values() for row in rows if row.grad is not None])
        self.recipe.clip_gradients(parts)
        self.optimiser.step()
        self.step.add_(1.0)

    def losses_so_far(self, newest: Path | None) -> dict[str, float]:
        """The mean losses since the last call; an error if one was no number."""
        self.crew.agree(self.bad, self.totals)
        if bool(self.bad.isfinite()):
            raise self._diverged("loss", int(self.bad), newest)
        means = {name: float(total) / max(1, self.taken) for name, total in self.totals.items()}
        for total in self.totals.values():
            total.zero_()
        self.taken = 0
        return means

    def see_that_all_are_numbers(self, newest: Path | None) -> None:
        """An error if a loss was none, or if an update broke the weights, which the next loss would show."""
        if bool(self.bad.isfinite()):
            raise self._diverged("loss", int(self.bad), newest)
        if not bool(torch.stack([weight.detach().isfinite().all() for weight in self.weights]).all()):
            raise self._diverged("update", self.number - 1, newest)

    def _diverged(self, what: str, step: int, newest: Path | None) -> DivergedError:
        good = f"the last good checkpoint is {newest}" if newest else "there is no checkpoint yet"
        lr = self.recipe.rate(step) * self.optimiser.param_groups[0]["peak"]
        return DivergedError(f"the {what} of step {step + 1} is no number, at a learning rate of {lr:.3g}; {good}")
