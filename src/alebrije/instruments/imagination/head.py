"""A head that predicts the target image from the frozen code of the source.

It mixes two heads. One is linear and has a closed-form solution. The other predicts part by part
(`models.head.PartsHead`) and is trained by gradient descent. Both learn from training combinations only. The penalty of
the first, the stopping point of the second and the mixture are chosen on validation episodes, also of training
combinations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from alebrije.instruments.imagination.images import ShownEpisodes
from alebrije.instruments.imagination.parts_training import PartsTraining, train_together
from alebrije.models.head import PartsHead, pixel_points
from alebrije.seeding import default_generator, seeded
from alebrije.studies.encode import batches, check_codes_finite, examining, join_codes, on_device
from alebrije.studies.model import Model

Examples = tuple[Tensor, Tensor]  # codes of sources, and target images uint8 [B, 3, H, W]

VERSION = 1  # raised when the same codes give other predictions than before
_ENCODE_BATCH, _SUM_BATCH = 64, 256  # images
_PREDICT_BATCH = (256, 16)  # images: on a GPU, on a CPU
_POINTS_AT_ONCE = (2**21, 2**12)  # points of all parts of a batch: on a GPU, on a CPU
_PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e4)  # times the variance; the last ignores the code
_MOST_SLOTS = 32  # more are tokens of patches, not objects, and become one vector
_MOST_ON_DEVICE = 2**26  # numbers
_LEAST_SPREAD = 0.1  # of the median: numbers that vary less are not scaled up to the variance of the others


@dataclass(frozen=True)
class HeadSettings:
    """How a head is trained."""

    steps: int = 500
    batch: int = 64
    points: int = 96  # of each image per step, shared among the parts
    rate: float = 6e-3
    checks: int = 5  # on validation episodes
    width: int = 64
    hidden: int = 64
    layers: int = 2
    parts: int = 4  # of a vector
    components: int = 256  # of longer vectors, principal components are used

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides what a head learns, except its data and seed."""
        return {**asdict(self), "version": VERSION}


def encode_sources(model: Model, episodes: ShownEpisodes) -> Tensor:
    """The codes of the sources: [B, D], or [B, K, D] for up to 32 slots. More slots are flattened to one vector."""
    with examining(model):
        view = on_device(model, episodes.view)
        encoded = [model.encode(batch).codes.detach().float() for batch in batches(view, _ENCODE_BATCH)]
        codes = join_codes(encoded).cpu()
    check_codes_finite(codes)
    return codes.flatten(1) if codes.ndim == 3 and codes.shape[1] > _MOST_SLOTS else codes


@dataclass(frozen=True, eq=False)
class Scaling:
    """Scales codes to mean 0 and variance 1 over training, and projects long vectors to principal components."""

    mean: Tensor
    spread: Tensor
    directions: Tensor | None

    @classmethod
    def fit(cls, codes: Tensor, components: int) -> Scaling:
        """The scaling of training codes."""
        rows = codes.reshape(-1, codes.shape[-1])
        mean, spread = rows.mean(0), rows.std(0)
        varies = spread > 1e-6 * spread.max()
        median = spread[varies].median() if bool(varies.any()) else torch.ones(())
        spread = torch.where(varies, spread.clamp_min(_LEAST_SPREAD * float(median)), torch.full_like(spread, math.inf))
        if codes.ndim == 3 or codes.shape[1] <= components:
            return cls(mean, spread, None)
        _, lengths, directions = torch.svd_lowrank((codes - mean) / spread, min(components, len(codes)))
        return cls(mean, spread, directions / (lengths[0] / len(codes) ** 0.5).clamp_min(1e-6))

    def __call__(self, codes: Tensor) -> Tensor:
        """Codes [B, D] or [B, K, D], scaled."""
        scaled = (codes - self.mean) / self.spread
        return scaled if self.directions is None else scaled @ self.directions


def _mean_slot(codes: Tensor) -> Tensor:
    return codes.mean(1) if codes.ndim == 3 else codes


def _floats(images: Tensor) -> Tensor:
    """uint8 [B, 3, H, W] -> [B, 3 H W] in 0..1."""
    return images.flatten(1).float() / 255


def mean_image(images: Tensor) -> Tensor:
    """uint8 [B, 3, H, W] -> [3 H W] in 0..1."""
    total = torch.zeros(images[0].numel(), device=images.device)
    for batch in torch.split(images, _SUM_BATCH):
        total += _floats(batch).sum(0)
    return total / len(images)


def linear_head(train: Examples, validation: Examples) -> Callable[[Tensor], Tensor]:
    """Ridge regression from codes [N, D] to images. The penalty with the smallest validation error is used.

    Returns a function from codes [B, D] to images [B, 3 H W]. If codes say nothing, it predicts the mean image.
    """
    codes, target = train
    mean, centre = mean_image(target), codes.mean(0)
    covariance = (codes - centre).T @ (codes - centre) / len(codes)
    with_pixels = torch.zeros(codes.shape[1], len(mean), device=codes.device)  # covariance of codes and pixels
    for some, images in zip(torch.split(codes, _SUM_BATCH), torch.split(target, _SUM_BATCH), strict=True):
        with_pixels.addmm_((some - centre).T, _floats(images) - mean, alpha=1 / len(codes))
    centred, true = validation[0] - centre, _floats(validation[1]) - mean
    best, least = torch.zeros_like(with_pixels), math.inf
    for penalty in _PENALTIES:
        identity = torch.eye(len(covariance), device=codes.device)
        weights = torch.linalg.solve(covariance + penalty * identity, with_pixels)
        error = float((centred @ weights - true).square().sum())
        if error < least:
            best, least = weights, error
    return lambda wanted: (wanted - centre) @ best + mean


class ImageHead:
    """Both heads for images of one size, and the share of the second in the mixture.

    It is fitted at once; with ``fitted=False`` it waits for `fit_heads`. On a GPU everything happens there.
    """

    def __init__(
        self,
        train: Examples,
        validation: Examples,
        settings: HeadSettings,
        seed: int,
        device: str,
        *,
        fitted: bool = True,
    ) -> None:
        self.device, self.settings = torch.device(device), settings
        (codes, target), (validation_codes, validation_target) = (
            (each.to(self.device), images.to(self.device)) for each, images in (train, validation)
        )
        self.pixels = target.shape[-1]
        self.background = mean_image(target).reshape(3, -1).T  # [P, 3]
        self.points = pixel_points(self.pixels).to(self.device)
        with seeded(seed, self.device):  # the principal components are random too
            self.scaling = Scaling.fit(codes, settings.components)
            scaled, validation_scaled = self.scaling(codes), self.scaling(validation_codes)
            self.parts_head = self._new_parts_head(scaled)
            self.generator = torch.Generator()
            self.generator.set_state(default_generator(torch.device("cpu")).get_state())
        self.examples: tuple[Examples, Examples] | None = (scaled, target), (validation_scaled, validation_target)
        if fitted:
            fit_heads([self])

    def __call__(self, codes: Tensor) -> Tensor:
        """The images [B, 3, H, W] in 0..1 predicted from codes; on a GPU they stay there, unless they are many."""
        scaled = self.scaling(codes.to(self.device))
        mixed = torch.lerp(self.linear(_mean_slot(scaled)), self._by_parts(scaled), self.share)
        images = mixed.clamp(0, 1).reshape(-1, 3, self.pixels, self.pixels)
        return images if images.numel() <= _MOST_ON_DEVICE else images.cpu()

    def _new_parts_head(self, codes: Tensor) -> PartsHead:
        settings = self.settings
        shape = {"width": settings.width, "hidden": settings.hidden, "layers": settings.layers, "parts": settings.parts}
        frequencies = max(int(math.log2(self.pixels)) - 1, 1)
        return PartsHead(codes.shape[-1], slots=codes.ndim == 3, frequencies=frequencies, **shape).to(self.device)

    def training(self) -> PartsTraining:
        """The training of the parts head."""
        assert self.examples is not None
        (codes, target), (validation_codes, validation_target) = self.examples
        at = torch.arange(0, len(self.points), 7, device=self.device)
        true = validation_target.flatten(2)[..., at].transpose(1, 2).float() / 255  # [B, P, 3]
        parts = codes.shape[1] if codes.ndim == 3 else self.settings.parts
        return PartsTraining(
            head=self.parts_head,
            codes=codes,
            pixels=target.flatten(2),
            points=self.points,
            background=self.background,
            points_per_image=max(self.settings.points // parts, 8),
            parts=parts,
            generator=self.generator,
            error=lambda: F.mse_loss(self._colours(validation_codes, at), true),
        )

    def mix(self) -> None:
        """Fit the linear head, and find the share of the parts head."""
        assert self.examples is not None
        (codes, target), (validation_codes, validation_target) = self.examples
        validation_slot = _mean_slot(validation_codes)
        self.linear = linear_head((_mean_slot(codes), target), (validation_slot, validation_target))
        self.share = self._best_share(validation_codes, validation_target)
        self.examples = None

    def _by_parts(self, codes: Tensor) -> Tensor:
        """The images [B, 3 H W] that the parts head predicts."""
        return self._colours(codes, torch.arange(len(self.points), device=self.device)).transpose(1, 2).flatten(1)

    @torch.no_grad()
    def _colours(self, codes: Tensor, points: Tensor) -> Tensor:
        """The colours [B, P, 3] that the parts head predicts at some points, computed in pieces that fit a cache."""
        colours, on_cpu = [], self.device.type == "cpu"
        for some in torch.split(codes, _PREDICT_BATCH[on_cpu]):
            parts = self.parts_head.parts_of(some)
            pieces = torch.split(points, max(_POINTS_AT_ONCE[on_cpu] // (_PREDICT_BATCH[on_cpu] * parts.shape[1]), 1))
            behind = (self.background[at].expand(len(some), -1, -1) for at in pieces)
            each = (self.parts_head.render(parts, self.points[at], b) for at, b in zip(pieces, behind, strict=True))
            colours.append(torch.cat(list(each), 1))
        return torch.cat(colours)

    def _best_share(self, codes: Tensor, target: Tensor) -> float:
        """The share of the parts head with the smallest squared error."""
        linear = self.linear(_mean_slot(codes))
        change, wanted = self._by_parts(codes) - linear, _floats(target) - linear
        size = float(change.square().sum())
        return min(max(float((change * wanted).sum()) / size, 0.0), 1.0) if size > 0 else 0.0


def fit_heads(heads: Sequence[ImageHead]) -> None:
    """Fit heads with the same settings on the same device. On a GPU, heads of the same shape are trained at once."""
    trainings = [head.training() for head in heads]
    if heads[0].device.type == "cuda":
        train_together(trainings, heads[0].settings)
    else:
        for training in trainings:
            training.run(heads[0].settings)
    for head in heads:
        head.mix()
