"""Who is examined: references answer as they must, models through one door, trained ones once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from alebrije import adapters, metrics, worlds
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.studies.folder import Folder
from alebrije.studies.subjects import (
    REFERENCES,
    Model,
    Noise,
    Oracle,
    Pixels,
    Trained,
    View,
    clustered,
    reference,
    subject_of,
)
from alebrije.train.plan import plan


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


def test_the_same_image_has_the_same_noise_in_any_batch(crowd: View) -> None:
    whole = Noise().encode(crowd).codes
    assert torch.equal(Noise().encode(View(crowd.images[3:5])).codes, whole[3:5])
    assert not torch.equal(Noise(seed=1).encode(crowd).codes, whole)
    assert abs(float(np.corrcoef(whole[0], whole[1])[0, 1])) < 0.6


def test_pixels_are_the_image(crowd: View) -> None:
    codes = Pixels(48).encode(crowd).codes
    assert torch.equal((codes.reshape(-1, 3, 48, 48) * 255).round().to(torch.uint8), crowd.images)
    drawn = Pixels(48).decode(codes)
    assert drawn is not None
    assert torch.equal((drawn * 255).round().to(torch.uint8), crowd.images)


@pytest.mark.parametrize("project", [None, 128])
def test_codes_of_the_truth_add_up(project: int | None) -> None:
    cases = worlds.analogies("clevr", 16, seed=2, occluded=False)
    blank = torch.zeros(16, 3, 4, 4, dtype=torch.uint8)
    oracle = Oracle(project=project)
    a, b, c, d = (oracle.encode(View(blank, getattr(cases, name))).codes for name in "abcd")
    negatives = {name: oracle.encode(View(blank, scenes)).codes for name, scenes in cases.negatives.items()}
    found = metrics.coat(a, b, c, d, negatives)
    assert found.score == pytest.approx(1, abs=1e-6)
    assert found.passed


def test_the_truth_of_one_object_is_a_number_for_each_factor() -> None:
    scenes = worlds.get("dsprites").sample(300, seed=1)
    codes = Oracle().encode(View(torch.zeros(300, 3, 4, 4, dtype=torch.uint8), scenes)).codes
    assert codes.shape == scenes.factors[:, 0].shape
    assert float(codes.max()) == 1
    assert (codes[:, 1].argsort(stable=True) == scenes.factors[:, 0, 1].argsort(stable=True)).all()


def test_the_oracle_needs_a_scene(crowd: View) -> None:
    with pytest.raises(InputError, match="reads scenes"):
        Oracle().encode(View(crowd.images))


def test_clusters_of_two_colours_are_exact() -> None:
    images = torch.zeros(2, 3, 10, 10, dtype=torch.uint8)
    images[:, 0, 2:5, 3:7] = 250
    truth = images[:, 0] > 0
    assert float(metrics.adjusted_rand_index(truth.long(), clustered(images, 2)).min()) == 1
    assert float(metrics.adjusted_rand_index(truth.long(), clustered(images, 5)).min()) == 1  # empty clusters are none


class Halves(nn.Module):
    """Two slots, left and right, at half the resolution."""

    def forward(self, images: Tensor) -> Encoding:
        masks = torch.zeros(len(images), 2, images.shape[2] // 2, images.shape[3] // 2)
        masks[:, 0, :, : masks.shape[3] // 2] = 1
        masks[:, 1, :, masks.shape[3] // 2 :] = 1
        return Encoding(slots=images.mean((2, 3))[:, None].expand(-1, 2, -1), masks=masks)


def test_masks_of_a_model_at_the_size_of_the_images(crowd: View) -> None:
    groups = Model(adapters.load(Halves())).group(crowd)
    assert groups is not None
    assert groups.shape == (8, 48, 48)
    assert groups[0, 0].tolist() == [0] * 24 + [1] * 24


def test_a_model_without_masks_does_not_group(crowd: View) -> None:
    subject = Model(adapters.load(lambda images: images.mean((2, 3)), name="mean"))
    assert subject.group(crowd) is None
    assert subject.decode(torch.zeros(1, 3)) is None
    assert subject.labels == {"model": "mean"}


def test_identities_tell_subjects_apart() -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    everyone = [Pixels(16), Pixels(32), Oracle(), Oracle(project=8), Noise(), Noise(seed=1)]
    models = [Model(adapters.load(nn.Sequential(nn.Flatten(), each), name="same")) for each in (first, second)]
    identities = [str(sorted(each.identity.items())) for each in [*everyone, *models]]
    assert len(set(identities)) == len(identities)


def test_a_model_is_trained_once_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan("ae", preset_name="tiny", world="dsprites", settings={"steps": 3, "batch": 4}, images=8)
    subject = Trained(made, Folder(tmp_path))
    world = worlds.get("dsprites")
    view = View(world.render(world.sample(3), 64).images)
    codes = subject.encode(view).codes
    assert len(list((tmp_path / "runs").iterdir())) == 1
    monkeypatch.setattr("alebrije.studies.subjects._TRAINED", {})
    monkeypatch.setattr("alebrije.train.loop.train", lambda *_, **__: pytest.fail("it was trained again"))
    assert torch.equal(Trained(made, Folder(tmp_path)).encode(view).codes, codes)
    assert subject.labels["seed"] == 0
    drawn = subject.decode(codes)
    assert drawn is not None
    assert drawn.shape == (3, 3, 64, 64)


def test_unknown_names_suggest() -> None:
    with pytest.raises(InputError, match="did you mean 'pixels'"):
        reference("pixel")
    with pytest.raises(InputError, match="names no model"):
        subject_of("nothing")
