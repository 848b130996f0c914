"""Values of grouping: known groupings, reconstructions, and models that have none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from alebrije import adapters
from alebrije.adapters import Encoder
from alebrije.adapters.embeddings import Embeddings
from alebrije.encoding import Encoding
from alebrije.instruments.grouping.images import Corpus
from alebrije.instruments.grouping.study import SIZES
from alebrije.instruments.grouping.values import NO_GROUPS, NO_RECONSTRUCTION, group_and_reconstruct
from alebrije.results.cells import Label
from alebrije.studies.encode import READS_SCENES
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, TrainedModel, View
from alebrije.train.plan import plan
from tests.instruments.grouping.running import ARI, Results, results_of_model, scores


def test_the_oracle_is_perfect_and_noise_is_at_chance(references: Results) -> None:
    assert set(references) == {("pixels",), ("oracle",), ("noise",)}
    for name in ARI:
        assert scores(references[("oracle",)])[name] == 1.0
        assert scores(references[("noise",)])[name] == pytest.approx(0.0, abs=0.02)
        pixels = scores(references[("pixels",)])[name]
        assert pixels is not None
        assert 0.1 < pixels < 1.0


def test_labels_and_details(references: Results) -> None:
    for (model,), result in references.items():
        assert result.cell.labels == {"size": "tiny", "world": "sprites", "pixels": 32, "model": model}
        value = result.values["fg-ari"]
        assert value.interval is not None
        assert value.interval.low <= (value.score or 0.0) <= value.interval.high
        assert value.details["by objects"] == {"2": pytest.approx(value.score)}
        assert result.values["psnr"].score is None
        assert result.values["psnr"].reason == NO_RECONSTRUCTION


def test_samples_are_kept(references: Results, folder: ResultFolder) -> None:
    kept = folder.samples(references[("oracle",)].cell)
    assert sorted(kept) == ["groups", "images", "true"]
    assert kept["images"].shape == (8, 3, 32, 32)
    assert {kept[name].dtype for name in kept} == {np.dtype(np.uint8)}
    assert np.array_equal(kept["true"], kept["groups"])


@dataclass(frozen=True)
class Wrong:
    """True masks that are merged into one, or split at every second column."""

    how: str
    labels: Mapping[str, Label] = field(default_factory=lambda: {"model": "wrong"})

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"wrong": self.how}

    def encode(self, view: View) -> Encoding:
        return Encoding(vector=torch.zeros(len(view), 1), reconstruction=view.images.float() / 255 + 0.1)

    def group(self, view: View) -> Tensor | None:
        assert view.masks is not None
        if self.how == "merged":
            return (view.masks > 0).long()
        return view.masks.long() * 2 + torch.arange(view.masks.shape[-1]) % 2

    def decode(self, codes: Tensor) -> Tensor | None:
        return None


class Counting(nn.Module):
    """A model that counts the images it is shown."""

    count = 0

    def forward(self, images: Tensor) -> Encoding:
        type(self).count += len(images)
        masks = torch.nn.functional.one_hot((images.mean(1) > 0.3).long(), 2).movedim(-1, 1).float()
        return Encoding(slots=torch.zeros(len(images), 2, 1), masks=masks, reconstruction=images)


def test_a_model_is_shown_each_image_once() -> None:
    encoder = Encoder(Counting())
    Counting.count = 0
    view = View(torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8))
    groups, reconstruction = group_and_reconstruct(LoadedModel(encoder), view)
    assert Counting.count == 5
    assert groups is not None
    assert torch.equal(groups, (view.images.float().div(255).mean(1) > 0.3).long())
    assert reconstruction is not None


def test_merging_lowers_precision_and_splitting_lowers_recall(folder: ResultFolder) -> None:
    """Definition 3 and Figure 9 of Zimmermann et al."""
    (merged,) = results_of_model(folder, Wrong("merged")).values()
    (split,) = results_of_model(folder, Wrong("split")).values()
    assert scores(merged)["fg-arp"] == pytest.approx(0.0, abs=1e-9)
    assert scores(merged)["fg-arr"] == 1.0
    assert scores(split)["fg-arp"] == 1.0
    recall = scores(split)["fg-arr"]
    assert recall is not None
    assert 0.2 < recall < 0.6
    for result in (merged, split):
        low, middle, high = sorted([scores(result)["fg-arp"], scores(result)["fg-arr"], scores(result)["fg-ari"]])  # type: ignore[type-var]
        assert low <= middle <= high
        assert middle == scores(result)["fg-ari"]


def test_psnr_of_reconstructions(folder: ResultFolder) -> None:
    (result,) = results_of_model(folder, Wrong("split")).values()
    view = Corpus("sprites", SIZES["tiny"].images, 32).view(folder)
    target = view.images.double() / 255
    error = ((target + 0.1).clamp(0, 1) - target).square().mean((1, 2, 3))
    assert scores(result)["psnr"] == pytest.approx(float((-10 * error.log10()).mean()), abs=1e-3)
    assert folder.samples(result.cell)["reconstruction"].shape == (8, 3, 32, 32)


class Means(nn.Module):
    """The mean colour of an image."""

    def forward(self, images: Tensor) -> Tensor:
        return images.mean((2, 3))


def test_models_that_do_not_group_have_a_reason(folder: ResultFolder) -> None:
    (result,) = results_of_model(folder, LoadedModel(adapters.load(Means()))).values()
    for name in ARI:
        assert (result.values[name].score, result.values[name].reason) == (None, NO_GROUPS)
    assert result.values["psnr"].reason == NO_RECONSTRUCTION


def test_models_that_cannot_see_the_images_have_a_reason(folder: ResultFolder) -> None:
    codes = {"codes": np.arange(30, dtype="f4").reshape(2, 3, 5), "masks": np.ones((2, 3, 4, 4), "f4")}
    table = Embeddings("codes.npz", {**codes, "images": np.zeros((2, 3, 4, 4), "u1")})
    (stored,) = results_of_model(folder, LoadedModel(Encoder(table, name="table"))).values()
    assert all(value.score is None and "codes.npz" in str(value.reason) for value in stored.values.values())
    learned = plan("svib-oracle", preset_name="tiny", world="sprites", images=4, settings={"steps": 1})
    (oracle,) = results_of_model(folder, TrainedModel(learned, folder)).values()
    assert {value.reason for value in oracle.values.values()} == {READS_SCENES}
    assert set(oracle.values) == set(stored.values) == {*ARI, "psnr"}
