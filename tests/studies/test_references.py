"""References: their codes and groups are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from alebrije import adapters, metrics, worlds
from alebrije.errors import InputError
from alebrije.studies.model import LoadedModel, View
from alebrije.studies.references import (
    REFERENCES,
    Noise,
    Oracle,
    Pixels,
    colour_clusters,
    factor_slots,
    reference,
    with_pixels,
)


@pytest.fixture(scope="module")
def crowd() -> View:
    """Eight scenes of up to six objects."""
    world = worlds.get("clevr6")
    scenes = world.sample(8, seed=5)
    frames = world.render(scenes, 48)
    return View(frames.images, scenes, frames.masks)


def test_groups_of_references(crowd: View) -> None:
    scores = {}
    for name in REFERENCES:
        groups = reference(name).group(crowd)
        assert groups is not None
        assert groups.shape == crowd.images[:, 0].shape
        scores[name] = float(metrics.adjusted_rand_index(crowd.masks, groups).mean())
    assert scores["oracle"] == scores["projection"] == 1
    assert abs(scores["noise"]) < 0.01
    assert 0.05 < scores["pixels"] < 0.95


def test_an_image_has_the_same_noise_in_any_batch(crowd: View) -> None:
    whole = Noise().encode(crowd).codes
    assert torch.equal(Noise().encode(View(crowd.images[3:5])).codes, whole[3:5])
    assert not torch.equal(Noise(seed=1).encode(crowd).codes, whole)
    assert abs(float(np.corrcoef(whole[0], whole[1])[0, 1])) < 0.6


def test_pixels_are_the_image(crowd: View) -> None:
    codes = Pixels(48).encode(crowd).codes
    assert torch.equal((codes.reshape(-1, 3, 48, 48) * 255).round().to(torch.uint8), crowd.images)
    decoded = Pixels(48).decode(codes)
    assert decoded is not None
    assert torch.equal((decoded * 255).round().to(torch.uint8), crowd.images)


@pytest.mark.parametrize("project", [None, 128])
def test_the_codes_of_the_oracle_add_up(project: int | None) -> None:
    cases = worlds.analogies("clevr", 16, seed=2, occluded=False)
    blank = torch.zeros(16, 3, 4, 4, dtype=torch.uint8)
    oracle = Oracle(project=project)
    a, b, c, d = (oracle.encode(View(blank, getattr(cases, name))).codes for name in "abcd")
    negatives = {name: oracle.encode(View(blank, scenes)).codes for name, scenes in cases.negatives.items()}
    found = metrics.coat(a, b, c, d, negatives)
    assert found.score == pytest.approx(1, abs=1e-6)
    assert found.passed


def test_with_one_object_the_oracle_has_one_number_per_factor() -> None:
    scenes = worlds.get("dsprites").sample(300, seed=1)
    codes = Oracle().encode(View(torch.zeros(300, 3, 4, 4, dtype=torch.uint8), scenes)).codes
    assert codes.shape == scenes.factors[:, 0].shape
    assert float(codes.max()) == 1
    assert (codes[:, 1].argsort(stable=True) == scenes.factors[:, 0, 1].argsort(stable=True)).all()


def test_the_oracle_needs_scenes(crowd: View) -> None:
    with pytest.raises(InputError, match="needs the scenes"):
        Oracle().encode(View(crowd.images))


def test_clusters_of_two_colours_are_exact() -> None:
    images = torch.zeros(2, 3, 10, 10, dtype=torch.uint8)
    images[:, 0, 2:5, 3:7] = 250
    truth = images[:, 0] > 0
    assert float(metrics.adjusted_rand_index(truth.long(), colour_clusters(images, 2)).min()) == 1
    assert float(metrics.adjusted_rand_index(truth.long(), colour_clusters(images, 5)).min()) == 1  # three are empty


def test_different_models_have_different_identities() -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    references = [Pixels(16), Pixels(32), Oracle(), Oracle(project=8), Noise(), Noise(seed=1)]
    models = [LoadedModel(adapters.load(nn.Sequential(nn.Flatten(), each), name="same")) for each in (first, second)]
    identities = [str(sorted(each.identity.items())) for each in [*references, *models]]
    assert len(set(identities)) == len(identities)


def test_only_pixels_without_a_size_get_one() -> None:
    assert with_pixels(Pixels(), 32) == Pixels(32) == reference("pixels", 32)
    assert with_pixels(Pixels(16), 32) == Pixels(16)
    assert with_pixels(Noise(), 32) == Noise()


def test_absent_objects_have_empty_slots(crowd: View) -> None:
    assert crowd.scenes is not None
    slots = factor_slots(crowd.scenes)
    assert torch.equal(slots.abs().sum(2) > 0, crowd.scenes.present)


def test_unknown_references_are_refused_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="there is no reference 'pixel'; did you mean 'pixels'"):
        reference("pixel")
