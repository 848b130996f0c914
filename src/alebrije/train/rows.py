"""Rows: many parameters laid one after another in one tensor, so that an optimiser takes all of them in one kernel.

A network of SVIB has two hundred parameters, most of them small. Adam's kernels take some thirty at a time and are over
before a GPU is busy; on one long row they are as quick as its memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

_ALIGNED = 64  # values: every parameter starts where kernels can read it in whole pieces

State = dict[str, Tensor]  # what an optimiser remembers of a parameter, by name


class Row:
    """Parameters that are from now on views of `values`, and whose gradients go to `values.grad`."""

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        self.weights = list(weights)
        sizes = [-(-weight.numel() // _ALIGNED) * _ALIGNED for weight in self.weights]
        self.starts = [sum(sizes[:index]) for index in range(len(sizes))]
        self.values = nn.Parameter(self.weights[0].new_zeros(sum(sizes)))
        self.values.grad = torch.zeros_like(self.values)
        self.slopes = self.parts(self.values.grad)
        for weight, part in zip(self.weights, self.parts(self.values.data), strict=True):
            weight.data = part.copy_(weight.data)

    def parts(self, row: Tensor) -> list[Tensor]:
        """The part of a row that belongs to each parameter, laid out as it is."""
        pairs = zip(self.weights, self.starts, strict=True)
        return [row.as_strided(weight.shape, weight.stride(), start) for weight, start in pairs]

    def gather(self) -> None:
        """Bring the gradients of the parameters together; where there is none, it is zero."""
        slopes = [weight.new_zeros(weight.shape) if weight.grad is None else weight.grad for weight in self.weights]
        torch._foreach_copy_(self.slopes, slopes)

    def states(self, state: State) -> list[State]:
        """What is remembered of each parameter, where `state` is what is remembered of the row."""
        shared = {key: tensor for key, tensor in state.items() if tensor.shape != self.values.shape}
        own = {key: self.parts(tensor) for key, tensor in state.items() if key not in shared}
        return [shared | {key: parts[index] for key, parts in own.items()} for index in range(len(self.weights))]

    def state(self, states: Sequence[State]) -> State:
        """The other way round."""
        made: State = {}
        for key, first in states[0].items():
            if first.shape != self.weights[0].shape or key == "step":
                made[key] = first.to(self.values.device)
                continue
            made[key] = torch.zeros_like(self.values.data)
            for part, state in zip(self.parts(made[key]), states, strict=True):
                part.copy_(state[key])
        return made


@dataclass(eq=False)
class Rows:
    """The learned parameters of a model in rows, one for each learning rate and clipped part, and what moves them."""

    rows: dict[str, list[Row]]  # by the part that is clipped by itself
    optimiser: Optimizer  # of the values of all rows

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Those of the optimiser, one for each row."""
        return self.optimiser.param_groups

    @property
    def all(self) -> list[Row]:
        """Every row."""
        return [row for rows in self.rows.values() for row in rows]

    def zero_grad(self) -> None:
        """Forget the gradients of the parameters."""
        for row in self.all:
            for weight in row.weights:
                weight.grad = None

    def gather(self) -> dict[str, list[nn.Parameter]]:
        """Bring the gradients together: the values of all rows, with their gradients, by the part they belong to."""
        for row in self.all:
            row.gather()
        return {part: [row.values for row in rows] for part, rows in self.rows.items()}

    def step(self) -> None:
        """Move the parameters by the gradients that were gathered."""
        self.optimiser.step()

    def states(self) -> dict[nn.Parameter, State]:
        """What is remembered of every parameter."""
        found: dict[nn.Parameter, State] = {}
        for row in self.all:
            found |= zip(row.weights, row.states(self.optimiser.state[row.values]), strict=True)
        return found

    def remember(self, states: Mapping[nn.Parameter, State]) -> None:
        """Go on from there."""
        for row in self.all:
            if row.weights[0] in states:
                self.optimiser.state[row.values] = row.state([states[weight] for weight in row.weights])
