"""Training the parts heads of `head`: one at a time on a CPU, several at once on a GPU.

A step on random points of random images is many short kernels, which a GPU runs for several heads nearly as fast as for
one, so heads of the same shape are trained side by side (`stacked_heads`). Steps are replayed as CUDA graphs, and
everything that they read, random numbers too, is put on the device beforehand.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from alebrije.graphs import Repeated
from alebrije.instruments.imagination.one_cycle import OneCycleAdam
from alebrije.instruments.imagination.stacked_heads import StackedHeads
from alebrije.models.head import PartsHead

if TYPE_CHECKING:
    from alebrije.instruments.imagination.head import HeadSettings

AT_ONCE = 8  # heads; also fewer are trained as so many, so that a head does not depend on what is trained beside it
_TABLE = 2**28  # most random numbers that are drawn at once


@dataclass(frozen=True, eq=False)
class PartsTraining:
    """What one parts head learns from, on its device, and the random numbers that choose the points."""

    head: PartsHead
    codes: Tensor  # [N, D] or [N, K, D]
    pixels: Tensor  # uint8 [N, 3, P]
    points: Tensor  # [P, 2]
    background: Tensor  # [P, 3]
    points_per_image: int
    parts: int
    generator: torch.Generator
    error: Callable[[], Tensor]  # on validation episodes

    def run(self, settings: HeadSettings) -> None:
        """Train on random points of random images. Keep the weights with the smallest validation error."""
        weights = list(self.head.parameters())
        flat = torch.cat([weight.detach().flatten() for weight in weights])
        for weight, part in zip(weights, torch.split(flat, [weight.numel() for weight in weights]), strict=True):
            weight.data = part.view_as(weight)
        adam = OneCycleAdam(flat, settings.rate, settings.steps)
        best, least = copy.deepcopy(self.head.state_dict()), math.inf
        checks = _checks(settings)
        for step in range(settings.steps):
            rows, at = self.draw(settings.batch)
            true = self.pixels[rows[:, None], :, at].float() / 255  # [B, P, 3]
            loss = F.mse_loss(self.head(self.codes[rows], self.points[at], self.background[at]), true)
            gradients = torch.autograd.grad(loss, weights)
            length = torch.stack([gradient.norm() for gradient in gradients]).norm()
            scale = (1 / (length + 1e-6)).clamp_max(1.0)
            adam.step(torch.cat([gradient.flatten() for gradient in gradients]).mul_(scale))
            if step + 1 in checks:
                error = float(self.error())
                if error < least:
                    best, least = copy.deepcopy(self.head.state_dict()), error
        self.head.load_state_dict(best)
        self.head.eval()

    def draw(self, batch: int) -> tuple[Tensor, Tensor]:
        """The random images [B] of a step and the random points [B, P] of each."""
        rows = torch.randint(len(self.codes), (batch,), generator=self.generator)
        return rows, torch.randint(len(self.points), (batch, self.points_per_image), generator=self.generator)

    def draw_into(self, numbers: Tensor) -> None:
        """Put what `draw` returns into the columns of a tensor [B, 1 + P]."""
        numbers[:, 0].random_(0, len(self.codes), generator=self.generator)
        numbers[:, 1:].random_(0, len(self.points), generator=self.generator)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Trainings of the same shape can run at once."""
        return tuple(self.codes.shape), tuple(self.pixels.shape), self.points_per_image


def train_together(trainings: Sequence[PartsTraining], settings: HeadSettings) -> None:
    """`PartsTraining.run` for several heads on a GPU, those of the same shape at once."""
    by_shape: dict[tuple[Any, ...], list[PartsTraining]] = {}
    for training in trainings:
        by_shape.setdefault(training.shape, []).append(training)
    for alike in by_shape.values():
        for first in range(0, len(alike), AT_ONCE):
            _Stack(alike[first : first + AT_ONCE], settings).run()


def _checks(settings: HeadSettings) -> list[int]:
    """The numbers of steps after which the validation error is computed."""
    every = max(settings.steps // settings.checks, 1)
    return list(dict.fromkeys((*range(every, settings.steps + 1, every), settings.steps)))


class _Stack:
    """The training of up to AT_ONCE parts heads."""

    def __init__(self, trainings: Sequence[PartsTraining], settings: HeadSettings) -> None:
        self.trainings, self.settings = trainings, settings
        self.device = trainings[0].codes.device
        # unused rows learn the same as the first one
        self.heads = StackedHeads([*trainings, *[trainings[0]] * (AT_ONCE - len(trainings))])
        self.weights = self.heads.weights
        self.adam = OneCycleAdam(self.weights, settings.rate, settings.steps)
        each = (AT_ONCE, settings.batch, 1 + trainings[0].points_per_image)
        steps = max(min(_checks(settings)[0], _TABLE // math.prod(each)), 1)
        # the random images and points of some steps, and which of them is next
        self.table = torch.zeros((steps, *each), dtype=torch.int32, device=self.device)
        self.drawn = torch.empty((steps, *each[1:]), dtype=torch.int32)
        self.row = torch.zeros(1, dtype=torch.int64, device=self.device)

    def run(self) -> None:
        """Train all heads, and give each its weights with the smallest validation error."""
        best, least = self.weights.clone(), torch.full((len(self.trainings),), math.inf, device=self.device)
        repeated, done = Repeated(self._step, self.device), 0
        for check in _checks(self.settings):
            while done < check:
                steps = min(check - done, len(self.table))
                self._draw(steps)
                repeated.run(steps)
                done += steps
            self._hand_out(self.weights)
            errors = torch.stack([each.error() for each in self.trainings])
            better = errors < least
            used = slice(len(self.trainings))
            best[used] = torch.where(better[:, None], self.weights[used], best[used])
            least = torch.where(better, errors, least)
        self._hand_out(best)
        for each in self.trainings:
            each.head.eval()

    def _step(self) -> None:
        """One step of every head, as in `PartsTraining.run`."""
        gradient = self.heads.gradient(self.table, self.row)
        gradient *= (1 / (gradient.norm(dim=1, keepdim=True) + 1e-6)).clamp_max(1.0)
        self.adam.step(gradient)
        self.row.add_(1)

    def _draw(self, steps: int) -> None:
        """Put the random images and points of the next steps into the table."""
        known: dict[bytes, tuple[int, Tensor]] = {}  # models with equal seeds draw the same
        for row, training in enumerate(self.trainings):
            state = training.generator.get_state().numpy().tobytes()
            if state in known:
                same, after = known[state]
                self.table[:steps, row] = self.table[:steps, same]
                training.generator.set_state(after)
                continue
            for numbers in self.drawn[:steps]:
                training.draw_into(numbers)
            self.table[:steps, row] = self.drawn[:steps].to(self.device)
            known[state] = row, training.generator.get_state()
        self.table[:steps, len(self.trainings) :] = self.table[:steps, :1]
        self.row.zero_()

    def _hand_out(self, weights: Tensor) -> None:
        """Give each head its row of the weights."""
        with torch.no_grad():
            for training, row in zip(self.trainings, weights, strict=False):
                for own, part in zip(training.head.parameters(), self.heads.split(row), strict=True):
                    own.copy_(part.view_as(own))
