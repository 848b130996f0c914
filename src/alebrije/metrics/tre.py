"""TRE: tree reconstruction error, the distance of codes from a composition of their scene's parts (Andreas 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from alebrije.arrays import ArrayOrTensor, Flags, Floats, Integers, to_numpy
from alebrije.errors import InputError
from alebrije.metrics.inputs import answer_like, check_classes, check_codes
from alebrije.metrics.reasons import join_reasons, which_vary
from alebrije.metrics.record import Score, register
from alebrije.probes import split_rows
from alebrije.probes.on_device import FusedAdam
from alebrije.seeding import seeded


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeReconstructionError(Score):
    """`score` is the mean distance of held-out codes from their composition, `per_row` [M] the distance of each.

    `relative` divides by the distance from the mean code: 0 is a perfect composition, 1 is no better than a constant.
    """

    relative: float
    per_row: Any

    @property
    def cases(self) -> Any:
        """The distance of each held-out row."""
        return self.per_row


@register(
    "tre",
    title="Tree reconstruction error",
    instrument="analogy",
    inputs=("codes", "factors"),
    range=(0.0, math.inf),
    direction="lower",
    cites="Andreas 2019; Xie et al. 2022, Appendix D",
    invariances=("dtype", "device"),
    version=2,
)
def tree_reconstruction_error(
    codes: ArrayOrTensor,
    factors: ArrayOrTensor,
    present: ArrayOrTensor | None = None,
    seed: int = 0,
    steps: int = 250,
    batch_size: int = 128,
    held_out: float = 1 / 3,
) -> TreeReconstructionError:
    """Mean Euclidean distance between codes and a learned composition of their parts, on held-out rows.

    `factors` is [N, F], one part per factor, or [N, M, F], one part per object with its F attributes. `present` [N, M]
    says which parts exist.

    A factor with a single value (for objects: among those present) does not distinguish scenes. It is left out, so the
    error depends on the other factors only: it is high if the codes contain more than the given factors. The factor is
    kept only if whole factors are absent from some scenes, because it then gives the number of parts. If no factor
    varies there is nothing to compose and the score is NaN.

    Xie et al. say only that a transformer composes. Our choices: every value of every factor has a learned embedding of
    32; an object is the sum of the embeddings of its attributes; one pre-norm layer with 4 heads reads all parts, and
    the mean of its outputs is mapped linearly to the code; Adam (1e-2, cosine to 0) minimises the squared distance to
    standardised codes for 250 batches of 128. The distance is measured in the units of the code, on a held-out third of
    the rows, because a learned composition can memorise.

    >>> rng = np.random.default_rng(0)
    >>> factors = rng.integers(0, 4, (600, 3))
    >>> tree_reconstruction_error(factors @ rng.normal(size=(3, 5)), factors).relative < 0.2
    True
    """
    values = check_codes(codes)
    parts, exists, left_out = _parts(factors, present, len(values))
    fit, test = split_rows(len(values), held_out, seed)
    mean = values[fit].mean(0)
    deviation = float(np.sqrt(np.square(values[fit] - mean).mean())) or 1.0
    baseline = np.linalg.norm(values[test] - mean, axis=1).mean()
    if parts.size:
        scaled = torch.from_numpy((values - mean) / deviation).float()
        distances = _distances(parts, exists, scaled, (fit, test), steps, batch_size, seed) * deviation
    else:
        distances = np.full(len(test), math.nan)
    return TreeReconstructionError(
        score=float(distances.mean()),
        reason=join_reasons(None if baseline > 0 else "the codes are constant, so `relative` is NaN", left_out),
        relative=float(distances.mean() / baseline) if baseline > 0 else math.nan,
        per_row=answer_like(codes, distances),
        settings={"steps": steps, "batch_size": batch_size, "held_out": held_out, "seed": seed},
    )


def _distances(
    parts: Integers,
    exists: Flags,
    codes: torch.Tensor,
    split: tuple[Integers, Integers],
    steps: int,
    batch_size: int,
    seed: int,
) -> Floats:
    """Distances of the held-out codes from the output of a composer fitted on the other rows."""
    fit, test = split
    with seeded(seed):
        composer = _Composer(int(parts.max()) + 1, codes.shape[1])
    inputs, mask = torch.from_numpy(parts), torch.from_numpy(exists)
    weights = list(composer.parameters())
    optimizer = FusedAdam(weights, rate=1e-2)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        rows = fit[torch.randint(len(fit), (batch_size,), generator=generator).numpy()]
        loss = (composer(inputs[rows], mask[rows]) - codes[rows]).square().mean()
        optimizer.step(torch.autograd.grad(loss, weights))
        # a cosine to 0
        optimizer.rate *= (1 + math.cos(math.pi * (step + 1) / steps)) / (1 + math.cos(math.pi * step / steps))
    with torch.no_grad():
        batches = zip(torch.split(inputs[test], 4096), torch.split(mask[test], 4096), strict=True)
        composed = torch.cat([composer(*batch) for batch in batches])
    return np.asarray((composed - codes[test]).double().norm(dim=1).numpy())


def _parts(factors: ArrayOrTensor, present: ArrayOrTensor | None, rows: int) -> tuple[Integers, Flags, str | None]:
    """The primitives of every part [N, M, A], which parts exist [N, M], and a reason that names left-out factors."""
    given = to_numpy(factors)
    if given.ndim not in (2, 3) or given.shape[0] != rows or 0 in given.shape:
        raise InputError(
            f"factors must have shape [N, F] or [N, M, F] with as many rows as codes, got {list(given.shape)}"
        )
    flat = given.reshape(-1, given.shape[-1])
    classes = check_classes(flat, len(flat), "TRE")
    exists = np.ones(given.shape[:2], dtype=bool) if present is None else to_numpy(present)
    if exists.dtype.kind not in "biuf":
        raise InputError(f"present must hold booleans, got dtype {exists.dtype}")
    exists = exists.astype(bool)
    if exists.shape != given.shape[:2]:
        raise InputError(f"present must have shape {list(given.shape[:2])}, got {list(exists.shape)}")
    if not exists.any(1).all():
        raise InputError("every scene must have at least one part that is present")
    if given.ndim == 2 and not exists.all():
        return _numbered(classes)[:, :, None], exists, None
    varied, left_out = which_vary(classes if given.ndim == 2 else classes[exists.ravel()])
    parts = _numbered(classes[:, varied])
    if given.ndim == 2:
        return parts[:, :, None], exists[:, varied], left_out
    return parts.reshape(*exists.shape, parts.shape[1]), exists, left_out


def _numbered(classes: Integers) -> Integers:
    """The values of all factors [N, F], numbered consecutively over factors."""
    first = np.cumsum([0, *(classes.max(0) + 1)])[:-1]  # the first number of each factor
    return np.asarray(classes + first, dtype=np.int64)


class _Composer(nn.Module):
    """Maps the parts of a scene [B, M, A] to its code [B, D]."""

    def __init__(self, primitives: int, code_size: int, width: int = 32) -> None:
        super().__init__()
        self.primitives = nn.Embedding(primitives, width)
        self.layer = nn.TransformerEncoderLayer(
            width, nhead=4, dim_feedforward=2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.read = nn.Linear(width, code_size)

    def forward(self, parts: torch.Tensor, exists: torch.Tensor) -> torch.Tensor:
        tokens = self.primitives(parts).sum(2)  # [B, M, W]
        absent = None if bool(exists.all()) else ~exists  # attention without a mask is faster
        tokens = self.layer(tokens, src_key_padding_mask=absent)
        weight = exists.float()[:, :, None]
        code: torch.Tensor = self.read((tokens * weight).sum(1) / weight.sum(1))
        return code
