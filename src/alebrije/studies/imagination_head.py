"""What follows from a frozen code: two heads learn to draw the target from the code of the source, and are mixed.

One is linear, found in closed form. The other draws part by part (`models.head.PartsHead`) and learns by steps. Both
learn from the training combinations alone. How strongly the linear one is held back, when the other stops, and how much
each counts is decided on further episodes of training combinations, never on the test.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alebrije.models.head import PartsHead, pixel_points
from alebrije.seeding import seeded
from alebrije.studies.imagination_episodes import Shown
from alebrije.studies.subjects import Subject
from alebrije.studies.views import check_finite, joined, looking
from alebrije.studies.views import parts as in_parts

VERSION = 1  # raised when the same code comes to another drawing
_AT_ONCE, _MANY = 64, 256  # images that are encoded at once, and that are added up
_FEW, _PLACES = 16, (2**22, 2**12)  # images that are drawn at once, and points of their parts: on a GPU, on a CPU
_STRENGTHS = (
    1e-6,
    1e-5,
    1e-4,
    1e-3,
    1e-2,
    1e-1,
    1.0,
    10.0,
    1e4,
)  # of the penalty, in units of the code's variance; the last is no code
_MOST = 32  # slots; more than these are no set of objects but one long code
_FLAT = 0.1  # numbers that vary less than this part of the median are not blown up to the variance of the others


@dataclass(frozen=True)
class Lesson:
    """How a head learns."""

    steps: int = 500
    batch: int = 64
    points: int = 96  # of each image in a step, shared among the parts
    rate: float = 6e-3
    checks: int = 5
    width: int = 64
    hidden: int = 64
    layers: int = 2
    parts: int = 4  # of a vector
    components: int = 256  # of a vector that is longer

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides what it learns."""
        return {**asdict(self), "version": VERSION}


def codes_of(subject: Subject, shown: Shown) -> Tensor:
    """The codes of the sources: [B, D], or [B, K, D]; a great many tokens, as of patches, are one long vector."""
    with looking(subject):
        parts = [subject.encode(part).codes.detach().float().cpu() for part in in_parts(shown.view, _AT_ONCE)]
    found = joined(parts)
    check_finite(found)
    return found.flatten(1) if found.ndim == 3 and found.shape[1] > _MOST else found


@dataclass(frozen=True, eq=False)
class Scaling:
    """Codes with mean 0 and variance 1 over training, long vectors by their principal components."""

    mean: Tensor
    spread: Tensor
    directions: Tensor | None

    @classmethod
    def of(cls, codes: Tensor, components: int) -> Scaling:
        """That of the codes of training."""
        rows = codes.reshape(-1, codes.shape[-1])
        mean, spread = rows.mean(0), rows.std(0)
        varied = spread > 1e-6 * spread.max()
        usual = spread[varied].median() if bool(varied.any()) else torch.ones(())
        spread = torch.where(varied, spread.clamp_min(_FLAT * float(usual)), torch.full_like(spread, math.inf))
        if codes.ndim == 3 or codes.shape[1] <= components:
            return cls(mean, spread, None)
        _, lengths, directions = torch.svd_lowrank((codes - mean) / spread, min(components, len(codes)))
        return cls(mean, spread, directions / (lengths[0] / len(codes) ** 0.5).clamp_min(1e-6))

    def __call__(self, codes: Tensor) -> Tensor:
        """Codes [B, D] or [B, K, D], scaled."""
        scaled = (codes - self.mean) / self.spread
        return scaled if self.directions is None else scaled @ self.directions


def _pooled(codes: Tensor) -> Tensor:
    return codes.mean(1) if codes.ndim == 3 else codes


def _floats(images: Tensor) -> Tensor:
    """uint8 [B, 3, H, W] -> [B, 3 H W] in 0..1."""
    return images.flatten(1).float() / 255


def mean_image(images: Tensor) -> Tensor:
    """uint8 [B, 3, H, W] -> [3 H W] in 0..1."""
    total = torch.zeros(images[0].numel())
    for part in torch.split(images, _MANY):
        total += _floats(part).sum(0)
    return total / len(images)


def linear_head(codes: Tensor, target: Tensor, held: Tensor, held_target: Tensor) -> Callable[[Tensor], Tensor]:
    """Ridge regression from codes [N, D] to images; its penalty is the one that does best on the codes held back.

    The answer draws images [B, 3 H W] of codes [B, D]. Where codes tell nothing it draws the mean image.
    """
    mean, about = mean_image(target), codes.mean(0)
    products = (codes - about).T @ (codes - about) / len(codes)
    shared = torch.zeros(codes.shape[1], len(mean))
    for some, images in zip(torch.split(codes, _MANY), torch.split(target, _MANY), strict=True):
        shared.addmm_((some - about).T, _floats(images) - mean, alpha=1 / len(codes))
    held_about = held - about
    true = _floats(held_target) - mean
    best, least = torch.zeros_like(shared), math.inf
    for strength in _STRENGTHS:
        weights = torch.linalg.solve(products + strength * torch.eye(len(products)), shared)
        error = float((held_about @ weights - true).square().sum())
        if error < least:
            best, least = weights, error
    return lambda wanted: (wanted - about) @ best + mean


class Drawer:
    """Both heads for one size of images, and how much the second counts."""

    def __init__(
        self, train: tuple[Tensor, Tensor], held: tuple[Tensor, Tensor], lesson: Lesson, seed: int, device: str
    ):
        (codes, target), (held_codes, held_target) = train, held
        self.pixels = target.shape[-1]
        self.place = torch.device(device)
        self.ground = mean_image(target).reshape(3, -1).T.to(self.place)  # [P, 3]
        self.points = pixel_points(self.pixels).to(self.place)
        with seeded(seed, self.place):  # components are found by chance too
            self.scaling = Scaling.of(codes, lesson.components)
            scaled, held_scaled = self.scaling(codes), self.scaling(held_codes)
            self.head = self._new(scaled, lesson)
            self._learn(scaled, target, held_scaled, held_target, lesson)
        self.linear = linear_head(_pooled(scaled), target, _pooled(held_scaled), held_target)
        self.share = self._share(held_scaled, held_target)

    def __call__(self, codes: Tensor) -> Tensor:
        """The images [B, 3, H, W] in 0..1 that follow from codes."""
        scaled = self.scaling(codes)
        drawn = torch.lerp(self.linear(_pooled(scaled)), self._by_parts(scaled), self.share)
        return drawn.clamp(0, 1).reshape(-1, 3, self.pixels, self.pixels)

    def _new(self, codes: Tensor, lesson: Lesson) -> PartsHead:
        shape = {"width": lesson.width, "hidden": lesson.hidden, "layers": lesson.layers, "parts": lesson.parts}
        fineness = max(int(math.log2(self.pixels)) - 1, 1)
        head = PartsHead(codes.shape[-1], slots=codes.ndim == 3, frequencies=fineness, **shape)
        return head.to(self.place)

    def _learn(self, codes: Tensor, target: Tensor, held: Tensor, held_target: Tensor, lesson: Lesson) -> None:
        """Steps on a few points of a few images each; the state that does best on what is held back is kept."""
        parts = codes.shape[1] if codes.ndim == 3 else lesson.parts
        count = max(lesson.points // parts, 8)
        optimiser = torch.optim.Adam(self.head.parameters(), lesson.rate)
        rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, lesson.rate, total_steps=lesson.steps, pct_start=0.1)
        codes, pixels = codes.to(self.place), target.flatten(2).to(self.place)
        best, least = copy.deepcopy(self.head.state_dict()), math.inf
        for step in range(lesson.steps):
            rows = torch.randint(len(codes), (lesson.batch,)).to(self.place)
            where = torch.randint(len(self.points), (lesson.batch, count)).to(self.place)
            true = pixels[rows[:, None], :, where].float() / 255  # [B, P, 3]
            loss = F.mse_loss(self.head(codes[rows], self.points[where], self.ground[where]), true)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
            optimiser.step()
            rates.step()
            if (step + 1) % max(lesson.steps // lesson.checks, 1) == 0 or step + 1 == lesson.steps:
                error = self._error(held, held_target)
                if error < least:
                    best, least = copy.deepcopy(self.head.state_dict()), error
        self.head.load_state_dict(best)
        self.head.eval()

    def _error(self, codes: Tensor, target: Tensor) -> float:
        """The mean squared error at every seventh point."""
        some = torch.arange(0, len(self.points), 7)
        true = target.flatten(2)[..., some].transpose(1, 2).float() / 255
        return float(F.mse_loss(self._colours(codes, some), true))

    def _by_parts(self, codes: Tensor) -> Tensor:
        """[B, 3 H W]"""
        return self._colours(codes, torch.arange(len(self.points))).transpose(1, 2).flatten(1)

    @torch.no_grad()
    def _colours(self, codes: Tensor, points: Tensor) -> Tensor:
        """What the second head draws of scaled codes at some points, in pieces that fit a cache. [B, P, 3]"""
        drawn = []
        for some in torch.split(codes.to(self.place), _FEW):
            parts = self.head.parts_of(some)
            most = _PLACES[self.place.type == "cpu"] // (_FEW * parts.shape[1])
            pieces = torch.split(points.to(self.place), max(most, 1))
            grounds = (self.ground[where].expand(len(some), -1, -1) for where in pieces)
            each = (self.head.draw(parts, self.points[where], g) for where, g in zip(pieces, grounds, strict=True))
            drawn.append(torch.cat(list(each), 1).cpu())
        return torch.cat(drawn)

    def _share(self, codes: Tensor, target: Tensor) -> float:
        """The mixture with the least squared error."""
        linear = self.linear(_pooled(codes))
        more, wanted = self._by_parts(codes) - linear, _floats(target) - linear
        size = float(more.square().sum())
        return min(max(float((more * wanted).sum()) / size, 0.0), 1.0) if size > 0 else 0.0
