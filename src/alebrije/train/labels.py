"""Labels: the factors of an image that a model learns from, chosen by a short text such as `shape`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.models.learner import Batch
from alebrije.scenes import Scenes
from alebrije.suggest import did_you_mean

ALL = "all"
CHOICES = 100  # scenes among which each of the balanced ones is chosen, if training has no fixed number


@dataclass(frozen=True)
class Labels:
    """Columns of factors, and the number of values of each label; a factor in bins has fewer than the factor."""

    columns: tuple[int, ...]
    factor_counts: tuple[int, ...]  # of the columns
    counts: tuple[int, ...]

    @classmethod
    def parse(cls, text: str, names: Sequence[str], counts: Sequence[int], setting: str = "labels") -> Labels:
        """Read names of factors, separated by commas, each with an optional number of bins; or `all` that vary.

        `setting` is the name of the setting in error messages.

        >>> Labels.parse("shape,position x/3", ("shape", "position x"), (3, 32)).counts
        (3, 3)
        """
        if text == ALL:
            text = ",".join(name for name, count in zip(names, counts, strict=True) if count > 1)
        columns, bins = [], []
        for part in text.split(","):
            name, slash, number = part.strip().partition("/")
            if name not in names:
                raise InputError(f"{setting} has no factor {name!r}{did_you_mean(name, list(names))}")
            columns.append(names.index(name))
            count = counts[columns[-1]]
            if slash and not (number.isdecimal() and 2 <= int(number) <= count):
                raise InputError(
                    f"{setting} can divide the {count} values of {name} into 2 to {count} bins, not {number!r}"
                )
            bins.append(int(number) if slash else count)
        if len(set(columns)) < len(columns):
            raise InputError(f"{setting} names a factor twice: {text!r}")
        return cls(tuple(columns), tuple(counts[column] for column in columns), tuple(bins))

    def of(self, factors: Tensor) -> Tensor:
        """Return the labels [B, L] of factors [B, F]; bins are of about equal width."""
        chosen = factors[:, list(self.columns)]
        return chosen * torch.tensor(self.counts) // torch.tensor(self.factor_counts)


@dataclass(frozen=True)
class LabelledImages:
    """Images of one object each, with labels."""

    images: Any  # a scene set of images
    labels: Labels

    def scenes(self, first: int, count: int) -> Scenes:
        """Return scenes `first` to `first + count`."""
        scenes: Scenes = self.images.scenes(first, count)
        return scenes

    def render(self, scenes: Scenes, device: torch.device) -> Batch:
        """Render scenes as uint8 images, with their labels."""
        batch: Batch = self.images.render(scenes, device)
        return batch | {"labels": self.labels.of(scenes.factors[:, 0]).to(device)}


def balanced_rows(strata: Labels, scenes: Scenes, count: int, seed: int) -> Tensor:
    """Choose `count` rows of scenes with one object, so that all combinations of the factors `strata` are as frequent.

    Where the count is not a multiple of the number of combinations, some at random have one scene more; where there are
    too few scenes of a combination, all of them are chosen.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(scenes), generator=generator)
    groups = torch.unique(strata.of(scenes.factors[order, 0]), dim=0, return_inverse=True)[1]
    by_group, sizes = groups.argsort(stable=True), groups.bincount()
    places = torch.empty_like(order)  # of each scene among those of its group
    places[by_group] = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[groups[by_group]]
    lots = torch.rand(len(sizes), generator=generator)[groups]
    return order[torch.argsort(places + lots)[:count]]
