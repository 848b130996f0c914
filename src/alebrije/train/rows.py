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
        self.strides = [torch.empty_like(weight).stride() for weight in self.weights]  # as it lies, but without gaps
        sizes = [-(-weight.numel() // _ALIGNED) * _ALIGNED for weight in self.weights]
        self.starts = [sum(sizes[:index]) for index in range(len(sizes))]
        self.values = nn.Parameter(self.weights[0].new_zeros(sum(sizes)))
        self.values.grad = torch.zeros_like(self.values)
        self.slopes = self.parts(self.values.grad)
        for weight, part in zip(self.weights, self.parts(self.values.data), strict=True):
            weight.data = part.copy_(weight.data)

    def parts(self, row: Tensor) -> list[Tensor]:
        """The part of a row that belongs to each parameter, laid out as it is."""
        places = zip(self.weights, self.strides, self.starts, strict=True)
        return [row.as_strided(weight.shape, stride, start) for weight, stride, start in places]

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
        """The other way round; a parameter of which nothing is remembered has zeros."""
        known = [(weight, state) for weight, state in zip(self.weights, states, strict=True) if state]
        made: State = {}
        for key, tensor in known[0][1].items() if known else ():
            if tensor.shape != known[0][0].shape or key == "step":
                made[key] = tensor.to(self.values.device)
                continue
            made[key] = torch.zeros_like(self.values.data)
            for part, state in zip(self.parts(made[key]), states, strict=True):
                if key in state:
                    part.copy_(state[key])
        return made

    def idle(self) -> list[Tensor]:
        """The values of the parameters that have no gradient."""
        return [weight.data for weight in self.weights if weight.grad is None]


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
        """Move the parameters by the gradients that were gathered; those that have none stay."""
        idle = [(part, part.clone()) for row in self.all for part in row.idle()]
        self.optimiser.step()
        for part, before in idle:
            part.copy_(before)

    def adopt(self) -> None:
        """Take back parameters that were put elsewhere, as by a change of device or precision and back."""
        for row in self.all:
            for weight, part in zip(row.weights, row.parts(row.values.data), strict=True):
                if weight.data_ptr() != part.data_ptr():
                    weight.data = part.copy_(weight.data)

    def release(self) -> None:
        """Give every parameter memory of its own again: a part of a model should not hold, or store, all of it."""
        for row in self.all:
            for weight in row.weights:
                weight.data = weight.data.clone()

    def states(self) -> dict[nn.Parameter, State]:
        """What is remembered of every parameter."""
        found: dict[nn.Parameter, State] = {}
        for row in self.all:
            found |= zip(row.weights, row.states(self.optimiser.state[row.values]), strict=True)
        return found

    def remember(self, states: Mapping[nn.Parameter, State]) -> None:
        """Go on from there."""
        for row in self.all:
            if state := row.state([states.get(weight, {}) for weight in row.weights]):
                self.optimiser.state[row.values] = state
