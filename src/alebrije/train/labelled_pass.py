"""Passes over a few labelled images, between the steps on all images.

A model with `labelled_loss` learns from them with an Adam of its own, whose rate falls on a plateau of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from alebrije.models.learner import Batch
from alebrije.train.plateau import Plateau, PlateauRule
from alebrije.train.sources import PreloadedSource, to_float

_PLAIN = 3  # updates before the capture; the first state of the optimizer is made there
_PATIENCE, _THRESHOLD, _COOLDOWN, _DROP = 1, 0.1, 2, 0.5  # of the plateau, in passes, as in PartedVAE's release


@dataclass(frozen=True)
class LabelledSet:
    """Labelled images on the device, and when they are learned: `updates` batches before every `every`-th step."""

    items: Batch  # `images` and `labels`
    batch: int
    every: int
    updates: int
    seed: int = 0


class LabelledPass:
    """Takes the labelled updates that are due before a step; on a GPU as a CUDA graph."""

    title = "passes over labelled images"

    def __init__(self, model: nn.Module, labelled: LabelledSet, lr: float, precision: str, fast: bool) -> None:
        loss: Any = model.labelled_loss
        self.loss: Callable[[Batch], Tensor] = loss
        self.labelled, self.precision = labelled, precision
        self.source = PreloadedSource(labelled.items, labelled.seed)
        self.names = _reached(model, self._part(0))
        weights = dict(model.named_parameters())
        self.weights = [weights[name] for name in self.names]
        device = self.weights[0].device
        self.fast = fast and device.type == "cuda"
        self.peak, rate = lr, torch.tensor(lr, device=device)
        self.adam = torch.optim.Adam(self.weights, rate, fused=True, capturable=device.type == "cuda")
        in_passes = labelled.every > 1 or labelled.updates > 1  # a window of the plateau is a pass over the images
        window = labelled.updates if in_passes else max(1, len(self.source) // labelled.batch)
        self.plateau = Plateau(PlateauRule(window, _PATIENCE, _THRESHOLD, _COOLDOWN, _DROP), device)
        self.plain_updates = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.graph_batch: Batch = {}

    def before(self, step: int) -> None:
        """Take the updates that are due before a step, counted from 0."""
        if step % self.labelled.every == 0:
            first = step // self.labelled.every * self.labelled.updates
            for update in range(first, first + self.labelled.updates):
                self._update(self._part(update))

    def state(self) -> dict[str, Tensor]:
        """Return the state of the optimizer and of the plateau, by name."""
        moments = {
            f"{key}/{name}": value
            for name, weight in zip(self.names, self.weights, strict=True)
            for key, value in self.adam.state[weight].items()
        }
        return moments | {f"plateau/{name}": value for name, value in self.plateau.state().items()}

    def fits(self, state: dict[str, Tensor]) -> bool:
        """Whether a state can be loaded."""
        plateau = {f"plateau/{name}" for name in self.plateau.state()}
        steps = {f"step/{name}" for name in self.names}  # none before the first update
        return plateau <= state.keys() and (steps <= state.keys() or state.keys() == plateau)

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore a state."""
        self.plateau.load({name: state[f"plateau/{name}"] for name in self.plateau.state()})
        for name, weight in zip(self.names, self.weights, strict=True):
            stored = {key.partition("/")[0]: value for key, value in state.items() if key.partition("/")[2] == name}
            if stored:
                self.adam.state[weight] = {key: _laid_out_as(weight, value) for key, value in stored.items()}

    def _part(self, update: int) -> Batch:
        return self.source.batch(update * self.labelled.batch, self.labelled.batch)

    def _update(self, batch: Batch) -> None:
        if self.graph is None and self.fast and self.plain_updates >= _PLAIN:
            self.graph_batch = {name: tensor.clone() for name, tensor in batch.items()}
            self.graph = torch.cuda.CUDAGraph()  # thread_local: another thread may render during the capture
            with torch.cuda.graph(self.graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
                self._learn(self.graph_batch)
        if self.graph is None:
            self._learn(batch)
            self.plain_updates += 1
            return
        for name, tensor in batch.items():
            self.graph_batch[name].copy_(tensor, non_blocking=True)
        self.graph.replay()

    def _learn(self, batch: Batch) -> None:
        device = self.weights[0].device.type
        with torch.autocast(device, torch.bfloat16, self.precision == "bfloat16", False):
            loss = self.loss({name: to_float(tensor) for name, tensor in batch.items()})
        gradients = torch.autograd.grad(loss, self.weights)
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad = gradient.detach()
        self.adam.param_groups[0]["lr"].copy_(self.plateau.factor * self.peak)
        self.adam.step()
        self.plateau.update(loss)
        for weight in self.weights:
            weight.grad = None


def _laid_out_as(weight: Tensor, value: Tensor) -> Tensor:
    """A stored moment on the device and in the memory format of its weight, as fused Adam needs it; a step as it is."""
    if value.shape != weight.shape:
        return value.to(weight.device)
    return torch.empty_like(weight).copy_(value)


def _reached(model: nn.Module, batch: Batch) -> list[str]:
    """Return the names of the parameters that the labelled loss has a gradient for."""
    named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    loss = model.labelled_loss({name: to_float(tensor) for name, tensor in batch.items()})  # type: ignore[operator]
    gradients = torch.autograd.grad(loss, [weight for _, weight in named], allow_unused=True)
    return [name for (name, _), gradient in zip(named, gradients, strict=True) if gradient is not None]
