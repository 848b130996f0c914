"""Models whose tokens are clustered: their cells, their yardsticks, and the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alebrije import adapters, evaluate
from alebrije.instruments.grouping.images import Corpus, object_counts
from alebrije.instruments.grouping.tokens import PixelsWithPositions, clustered, is_clustered
from alebrije.instruments.grouping.verdict import OBJECTS, TOKENS
from alebrije.metrics import adjusted_rand_index
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, View
from alebrije.studies.references import POSITIONS, Noise, Pixels
from alebrije.studies.untrained import untrained_twins


def vit(**settings: Any) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    model: nn.Module = transformers.ViTModel(transformers.ViTConfig(**small, image_size=32, patch_size=4, **settings))
    return model.eval()


@pytest.mark.yardsticks
def test_a_random_vit_beside_its_yardsticks(tmp_path: Path) -> None:
    report = evaluate(vit(), "grouping", "tiny", out=tmp_path, beside="pixels", pixels=32, name="vit")
    scores = {number: report.score("fg-ari", clusters=number) for number in (2, 3, 4, OBJECTS)}
    assert all(score is not None for score in scores.values())
    assert scores[OBJECTS] == scores[3]  # scenes of sprites have two objects
    about = report.value("fg-ari", clusters=OBJECTS).details[TOKENS]
    assert about == "64 tokens (8 x 8), without 1 class or register token"
    best = max((2, 3, 4), key=lambda number: scores[number] or 0.0)
    verdict = report.verdicts["vit"]["grouping"]
    assert f"k-means clustered its {about}, with K = objects + 1. The best K for all images is {best}" in verdict.text
    assert verdict.mark in ("below", "chance", "unclear")
    twins = [finding for finding in report.findings.twins if finding.get("clusters") == OBJECTS]
    assert [len(finding.results) for finding in twins] == [3]
    assert report.findings.models == ("vit", "pixels", POSITIONS)
    page = report.save(tmp_path / "page.html").read_text()
    assert "By number of clusters" in page


def test_masks_and_vectors_are_not_clustered() -> None:
    def slots(images: Tensor) -> dict[str, Tensor]:
        return {"slots": torch.ones(len(images), 25, 4), "masks": torch.rand(len(images), 25, 5, 5)}

    for model in (slots, lambda images: images.mean((2, 3))):
        assert not is_clustered(LoadedModel(adapters.load(model)))
    assert is_clustered(LoadedModel(adapters.load(lambda images: images[:, :, ::4, ::4])))
    assert not is_clustered(Noise())
    assert not is_clustered(Pixels())


def test_images_are_encoded_once_for_all_numbers_of_clusters(tmp_path: Path) -> None:
    seen = []

    def patches(images: Tensor) -> Tensor:
        seen.append(len(images))
        return nn.functional.avg_pool2d(images, 4)

    report = evaluate(patches, "grouping", "tiny", out=tmp_path, pixels=32)
    assert len(report.results) == 4
    assert seen.count(64) == 1  # the corpus; the others are noise and the precheck


def test_pixels_with_positions_separate_halves_of_one_colour() -> None:
    masks = torch.ones(1, 24, 96, dtype=torch.uint8)
    masks[:, :, 48:] = 2
    view = View(torch.full((1, 3, 24, 96), 200, dtype=torch.uint8), None, masks)
    assert object_counts(view).tolist() == [2]
    (halves, thirds), about = clustered(PixelsWithPositions(), view, [2, OBJECTS])
    assert about == ""
    assert float(adjusted_rand_index(masks.long(), halves)[0]) == pytest.approx(1.0)
    assert thirds.unique().numel() == 3
    colours = Pixels().group(view)
    assert colours is not None
    assert colours.unique().numel() == 1


def test_a_model_without_torch_weights_has_random_features_as_its_twin(tmp_path: Path) -> None:
    model = LoadedModel(adapters.load(lambda images: images[:, :, ::8, ::8], size=32, name="mine"))
    twins = untrained_twins(model)
    assert [is_clustered(twin) for twin in twins] == [True] * 3
    view = Corpus.of("sprites", 4, 32).view(ResultFolder(tmp_path))
    (groups,), about = clustered(twins[0], view, [3])
    assert about == "16 tokens (4 x 4)"
    assert groups.shape == (4, 32, 32)
