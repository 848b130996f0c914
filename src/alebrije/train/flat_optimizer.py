"""An optimizer on flat parameters: many parameters in one tensor, so that one kernel updates all of them.

An SVIB network has two hundred parameters, most of them small. Adam's kernels take about thirty at a time and finish
before a GPU is busy; on one long tensor they run at the speed of its memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from alebrije.train.labelled_pass import LabelledPass
from alebrije.train.plateau import Plateau

_ALIGNMENT = 64  # values; each parameter starts at a multiple, for vectorised reads

State = dict[str, Tensor]  # the optimizer state of a parameter, by name


class FlatParameters:
    """Turns parameters into views of `values`; `gather_gradients` copies their gradients to `values.grad`."""

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        self.weights = list(weights)
        self.strides = [torch.empty_like(weight).stride() for weight in self.weights]  # its memory order without gaps
        sizes = [-(-weight.numel() // _ALIGNMENT) * _ALIGNMENT for weight in self.weights]
        self.starts = [sum(sizes[:index]) for index in range(len(sizes))]
        self.values = nn.Parameter(self.weights[0].new_zeros(sum(sizes)))
        self.values.grad = torch.zeros_like(self.values)
        self.gradients = self.views(self.values.grad)
        for weight, view in zip(self.weights, self.views(self.values.data), strict=True):
            weight.data = view.copy_(weight.data)

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return the view of a flat tensor that belongs to each parameter, in its shape and memory order."""
        layouts = zip(self.weights, self.strides, self.starts, strict=True)
        return [flat.as_strided(weight.shape, stride, start) for weight, stride, start in layouts]

    def gather_gradients(self) -> None:
        """Copy the gradients of the parameters to `values.grad`; a missing gradient is zero."""
        gradients = [weight.new_zeros(weight.shape) if weight.grad is None else weight.grad for weight in self.weights]
        torch._foreach_copy_(self.gradients, gradients)

    def split_state(self, state: State) -> list[State]:
        """Return the optimizer state of each parameter, given the state of `values`."""
        shared = {key: tensor for key, tensor in state.items() if tensor.shape != self.values.shape}
        own = {key: self.views(tensor) for key, tensor in state.items() if key not in shared}
        return [shared | {key: views[index] for key, views in own.items()} for index in range(len(self.weights))]

    def join_states(self, states: Sequence[State]) -> State:
        """Return the state of `values`, given the state of each parameter; an empty state becomes zeros."""
        known = [(weight, state) for weight, state in zip(self.weights, states, strict=True) if state]
        joined: State = {}
        for key, tensor in known[0][1].items() if known else ():
            if tensor.shape != known[0][0].shape or key == "step":
                joined[key] = tensor.to(self.values.device)
                continue
            joined[key] = torch.zeros_like(self.values.data)
            for view, state in zip(self.views(joined[key]), states, strict=True):
                if key in state:
                    view.copy_(state[key])
        return joined


@dataclass(eq=False)
class FlatOptimizer:
    """Flat parameters, one group for each learning rate and clipped part of the model, with their optimizer."""

    groups: dict[str, list[FlatParameters]]  # by the part of the model that is clipped by itself
    optimizer: Optimizer  # of the `values` of all groups
    plateau: Plateau | None = None  # lowers the learning rates
    labelled: LabelledPass | None = None  # updates the same parameters between the steps

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The optimizer's parameter groups, one for each group of flat parameters."""
        return self.optimizer.param_groups

    @property
    def all(self) -> list[FlatParameters]:
        """All groups of flat parameters."""
        return [flat for groups in self.groups.values() for flat in groups]

    @property
    def companions(self) -> dict[str, Plateau | LabelledPass]:
        """What is stored beside the state of the parameters, by name."""
        named = {"plateau": self.plateau, "labelled": self.labelled}
        return {name: part for name, part in named.items() if part is not None}

    def zero_grad(self) -> None:
        """Drop the gradients of the parameters."""
        for flat in self.all:
            for weight in flat.weights:
                weight.grad = None

    def gather_gradients(self) -> dict[str, list[nn.Parameter]]:
        """Copy all gradients to the flat values; return these by the part they belong to."""
        for flat in self.all:
            flat.gather_gradients()
        return {part: [flat.values for flat in groups] for part, groups in self.groups.items()}

    def step(self) -> None:
        """Update the parameters from the gathered gradients; parameters without a gradient stay as they are."""
        unchanged = [weight.data for flat in self.all for weight in flat.weights if weight.grad is None]
        before = [values.clone() for values in unchanged]
        self.optimizer.step()
        for values, old in zip(unchanged, before, strict=True):
            values.copy_(old)

    def reattach(self) -> None:
        """Make parameters views again that were moved, for example to another dtype and back."""
        for flat in self.all:
            for weight, view in zip(flat.weights, flat.views(flat.values.data), strict=True):
                if weight.data_ptr() != view.data_ptr():
                    weight.data = view.copy_(weight.data)

    def release(self) -> None:
        """Give every parameter its own memory again, so that a part of the model does not keep all of it."""
        for flat in self.all:
            for weight in flat.weights:
                weight.data = weight.data.clone()

    def states(self) -> dict[nn.Parameter, State]:
        """Return the optimizer state of every parameter."""
        states: dict[nn.Parameter, State] = {}
        for flat in self.all:
            states |= zip(flat.weights, flat.split_state(self.optimizer.state[flat.values]), strict=True)
        return states

    def load_states(self, states: Mapping[nn.Parameter, State]) -> None:
        """Restore the optimizer state of every parameter."""
        for flat in self.all:
            if state := flat.join_states([states.get(weight, {}) for weight in flat.weights]):
                self.optimizer.state[flat.values] = state
