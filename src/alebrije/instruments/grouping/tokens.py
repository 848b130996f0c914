"""Models without masks whose tokens are clustered: networks with a vector for each patch of the image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

from alebrije.adapters.tokens import Tokens
from alebrije.errors import InputError
from alebrije.instruments.grouping.clusters import VERSION, cluster_tokens, kmeans, label_maps
from alebrije.instruments.grouping.images import Corpus, object_counts
from alebrije.instruments.grouping.values import null_values, score_groups
from alebrije.instruments.grouping.verdict import TOKENS
from alebrije.results import Cell, Value
from alebrije.results.canonical_json import digest
from alebrije.results.cells import Label
from alebrije.studies.encode import NotExaminedError, batches, examining
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, Model, View
from alebrije.studies.references import POSITIONS, Pixels
from alebrije.studies.together import Together
from alebrije.studies.untrained import RandomProjection, Untrained

NO_TOKENS = "the model returned no tokens for these images"
Clusters = int | str  # a number, or OBJECTS
_BATCH = 64
_SIDE = 64  # pixels at most of the images whose pixels are clustered with their positions


@dataclass(frozen=True)
class PixelsWithPositions(Pixels):
    """Pixels, described by their colour in 0..1 and their position, where 1 is the longer side of the image.

    This is the yardstick of clustered tokens.
    """

    @property
    def labels(self) -> Mapping[str, Label]:
        """Its name."""
        return {"model": POSITIONS}

    @property
    def identity(self) -> Mapping[str, Any]:
        """The size at which pixels are clustered."""
        return {"reference": POSITIONS, "version": 1, "size": _SIDE}

    def clusters_of(self, view: View, clusters: Tensor) -> Tensor:
        """The cluster of each pixel [B, H, W]."""
        height, width = view.images.shape[-2:]
        scale = min(1.0, _SIDE / max(height, width))
        size = (round(height * scale), round(width * scale))
        colours = F.interpolate(view.images.float() / 255, size, mode="bilinear", antialias=True)
        ends = (length / max(height, width) for length in (height, width))
        rows, columns = (
            torch.linspace(0, end, length, device=colours.device) for end, length in zip(ends, size, strict=True)
        )
        positions = torch.stack(torch.meshgrid(rows, columns, indexing="ij")).expand(len(colours), -1, -1, -1)
        labels = kmeans(torch.cat([colours, positions], 1).flatten(2).transpose(1, 2), clusters)
        return label_maps(labels, size, (height, width))


@runtime_checkable
class HasTokens(Protocol):
    """A model that may return tokens."""

    def tokens(self, view: View) -> Tokens | None:
        """The tokens of the images; None if there are none."""


def is_clustered(model: Model) -> bool:
    """Whether the tokens of a model are clustered, because it has tokens and no masks."""
    if isinstance(model, PixelsWithPositions):
        return True
    if isinstance(model, (Untrained, RandomProjection)):
        return is_clustered(model.of)
    if not isinstance(model, LoadedModel):
        return False
    try:
        return bool(model.encoder.token_shape)
    except InputError:  # raised again, and stored, by the cells of the model
        return False


def cluster_inputs(clusters: Clusters) -> dict[str, Any]:
    """The part of a cell's inputs that decides how tokens are clustered."""
    return {"clusters": clusters, "version": VERSION}


def clustered(model: Model, view: View, numbers: Sequence[Clusters]) -> tuple[list[Tensor], str]:
    """The groups [B, H, W] for each number of clusters, and a description of the tokens. Images are encoded once."""
    groups: list[list[Tensor]] = [[] for _ in numbers]
    about = ""
    for batch in batches(view, _BATCH):
        counts = [_counts(batch, clusters) for clusters in numbers]
        if isinstance(model, PixelsWithPositions):
            found: Iterable[Tensor] = (model.clusters_of(batch, each) for each in counts)
        else:
            tokens = _tokens(model, batch)
            about = str(tokens)
            size = (view.images.shape[-2], view.images.shape[-1])
            found = (cluster_tokens(tokens.grid, each.to(tokens.grid.device), size) for each in counts)
        for labels, part in zip(groups, found, strict=True):
            labels.append(part.to(torch.uint8).cpu())
    return [torch.cat(parts).long() for parts in groups], about


@dataclass(frozen=True)
class TokenCell:
    """A cell whose groups are clusters of tokens."""

    folder: ResultFolder
    cell: Cell
    model: Model
    corpus: Corpus
    wanted: tuple[str, ...]
    device: str
    clusters: Clusters

    def compute(self) -> dict[str, Value]:
        """The values of this cell alone."""
        (work,) = start_together([self])
        return work()

    @property
    def together(self) -> Together:
        """How it is computed beside the other numbers of clusters: images are encoded once."""
        subject = digest({"subject": dict(self.model.identity), "corpus": self.corpus.settings})
        return Together(("clustered tokens", subject, self.wanted), self, start_together)


def start_together(cells: Sequence[TokenCell]) -> list[Callable[[], dict[str, Value]]]:
    """The work that is left for each of the cells of one model when its tokens are clustered."""
    first = cells[0]
    view = first.corpus.view(first.folder, first.device)
    try:
        groups, about = clustered(first.model, view, [one.clusters for one in cells])
    except NotExaminedError as error:
        return [partial(null_values, one.wanted, str(error)) for one in cells]
    details: dict[str, Any] = {TOKENS: about} if about else {}
    return [
        partial(score_groups, one.folder, one.cell, view, one.wanted, found, **details)
        for one, found in zip(cells, groups, strict=True)
    ]


def _tokens(model: Model, batch: View) -> Tokens:
    assert isinstance(model, HasTokens)
    with examining(model):
        tokens = model.tokens(batch)
    if tokens is None:
        raise NotExaminedError(NO_TOKENS)
    if not bool(tokens.grid.isfinite().all()):
        raise NotExaminedError("some tokens are NaN or infinite")
    return tokens


def _counts(view: View, clusters: Clusters) -> Tensor:
    """The number of clusters of each image."""
    if isinstance(clusters, int):
        return torch.full((len(view),), clusters)
    return torch.as_tensor(object_counts(view)) + 1
