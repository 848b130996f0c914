"""Adam with the one-cycle schedule of torch, for weights on a GPU: it never waits for the host."""

from __future__ import annotations

import math

import torch
from torch import Tensor

RISING = 0.1  # the share of the steps in which the rate rises
_BETA_2, _EPSILON = 0.999, 1e-8


def one_cycle(rate: float, steps: int) -> list[tuple[float, float]]:
    """The rate and the first decay of each step of `torch.optim.lr_scheduler.OneCycleLR`.

    The rate rises in a tenth of the steps from a 25th, then falls to nearly nothing, along cosines; the decay does the
    opposite between 0.95 and 0.85.
    """
    top = RISING * steps - 1  # the step with the highest rate, which need not be a whole number
    found = []
    for step in range(steps):
        rising = step <= top
        done = step / top if rising else (step - top) / (steps - 1 - top)
        cosine = (1 + math.cos(math.pi * done)) / 2  # from 1 to 0
        start, end = (rate / 25, rate) if rising else (rate, rate / 25e4)
        before, after = (0.95, 0.85) if rising else (0.85, 0.95)
        found.append((end + (start - end) * cosine, after + (before - after) * cosine))
    return found


class OneCycleAdam:
    """Adam for one tensor of weights, with the rates and first decays of `one_cycle`.

    (The first use of `torch.optim` imports a compiler, which takes seconds.)
    """

    def __init__(self, weights: Tensor, rate: float, steps: int) -> None:
        self.weights = weights
        self.moments = torch.zeros_like(weights), torch.zeros_like(weights)
        self.number = torch.zeros(1, dtype=torch.int64, device=weights.device)  # of the next step
        numbered = enumerate(one_cycle(rate, steps), 1)
        # for each step: 1 - the first decay, the rate over its correction, and the root of the other correction
        rates = [(1 - decay, of / (1 - decay**step), (1 - _BETA_2**step) ** 0.5) for step, (of, decay) in numbered]
        self.rates = torch.tensor(rates, device=weights.device)

    def step(self, gradient: Tensor) -> None:
        """Change the weights by the gradient."""
        fresh, rate, correction = self.rates.index_select(0, self.number)[0].unbind()
        mean, square = self.moments
        mean.lerp_(gradient, fresh)
        square.mul_(_BETA_2).addcmul_(gradient, gradient, value=1 - _BETA_2)
        self.weights.sub_(mean.mul(rate).div_((square.sqrt() / correction).add_(_EPSILON)))
        self.number.add_(1)
