"""Reduce on plateau: the learning rate falls when the loss no longer does.

Everything happens on the device, as part of a captured step, so nothing waits for a value of the loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PlateauRule:
    """When the learning rate falls, and by how much.

    The mean loss of `window` steps is compared with the lowest mean so far. It counts as lower only by the share
    `threshold` of it. After more than `patience` windows without a lower mean, the rate is multiplied by `drop`, and
    the next `cooldown` windows are not counted. These are the rules of torch's `ReduceLROnPlateau`.
    """

    window: int
    patience: int
    threshold: float
    cooldown: int
    drop: float


class Plateau:
    """The state of a rule: the factor of the learning rate, and what the next decisions depend on.

    >>> plateau = Plateau(PlateauRule(window=2, patience=0, threshold=0.0, cooldown=0, drop=0.5), torch.device("cpu"))
    >>> for loss in (1.0, 3.0, 2.0, 4.0):  # the means of the two windows are 2 and 3
    ...     plateau.update(torch.tensor(loss))
    >>> float(plateau.factor)
    0.5
    """

    title = "decay `plateau`"

    def __init__(self, rule: PlateauRule, device: torch.device) -> None:
        self.rule = rule
        self.factor = torch.ones((), device=device)
        self._lowest = torch.full((), torch.inf, dtype=torch.float64, device=device)  # mean loss of a window
        self._sum = torch.zeros((), dtype=torch.float64, device=device)  # of the losses of this window
        self._steps = torch.zeros((), device=device)  # of this window
        self._waited = torch.zeros((), device=device)  # windows without a lower mean
        self._cooling = torch.zeros((), device=device)  # windows left that are not counted

    def update(self, loss: Tensor) -> None:
        """Add the loss of a step; at the end of a window, decide about the rate of the next steps."""
        rule = self.rule
        self._sum.add_(loss.detach())
        self._steps.add_(1.0)
        ends = self._steps >= rule.window
        mean = self._sum / self._steps
        lower = mean < self._lowest * (1.0 - rule.threshold)
        cooling = self._cooling > 0
        waited = torch.where(lower | cooling, 0.0, self._waited + 1.0)
        drops = waited > rule.patience
        cooled = torch.where(drops, float(rule.cooldown), (self._cooling - 1.0).clamp(min=0.0))
        self.factor.copy_(torch.where(ends & drops, self.factor * rule.drop, self.factor))
        self._lowest.copy_(torch.where(ends & lower, mean, self._lowest))
        self._waited.copy_(torch.where(ends, torch.where(drops, 0.0, waited), self._waited))
        self._cooling.copy_(torch.where(ends, cooled, self._cooling))
        self._sum.copy_(torch.where(ends, 0.0, self._sum))
        self._steps.copy_(torch.where(ends, 0.0, self._steps))

    def state(self) -> dict[str, Tensor]:
        """Return all tensors of the state, by name."""
        return {name.lstrip("_"): value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def fits(self, state: dict[str, Tensor]) -> bool:
        """Whether a state can be loaded."""
        return state.keys() == self.state().keys()

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore a state."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])
