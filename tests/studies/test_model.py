"""Models as a study sees them: loaded ones, and ones that are trained once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alebrije import adapters, worlds
from alebrije.adapters import Encoder
from alebrije.encoding import Encoding
from alebrije.studies import model as model_module
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, TrainedModel, View, plan_of, trained_on, user_encoder
from alebrije.studies.references import Noise
from alebrije.train.plan import plan


@pytest.fixture(scope="module")
def view() -> View:
    """Eight images."""
    world = worlds.get("clevr6")
    return View(world.render(world.sample(8, seed=5), 48).images)


class Halves(nn.Module):
    """Two slots, left and right, at half the resolution."""

    def forward(self, images: Tensor) -> Encoding:
        masks = torch.zeros(len(images), 2, images.shape[2] // 2, images.shape[3] // 2)
        masks[:, 0, :, : masks.shape[3] // 2] = 1
        masks[:, 1, :, masks.shape[3] // 2 :] = 1
        return Encoding(slots=images.mean((2, 3))[:, None].expand(-1, 2, -1), masks=masks)


def test_masks_are_resized_to_the_images(view: View) -> None:
    groups = LoadedModel(adapters.load(Halves())).group(view)
    assert groups is not None
    assert groups.shape == (8, 48, 48)
    assert groups[0, 0].tolist() == [0] * 24 + [1] * 24


def test_a_model_without_masks_does_not_group(view: View) -> None:
    model = LoadedModel(adapters.load(lambda images: images.mean((2, 3)), name="mean"))
    assert model.group(view) is None
    assert model.decode(torch.zeros(1, 3)) is None
    assert model.labels == {"model": "mean"}


def test_a_model_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan("ae", preset_name="tiny", world="dsprites", settings={"steps": 3, "batch": 4}, images=8)
    model = TrainedModel(made, ResultFolder(tmp_path))
    world = worlds.get("dsprites")
    view = View(world.render(world.sample(3), 64).images)
    codes = model.encode(view).codes
    assert len(list((tmp_path / "runs").iterdir())) == 1
    monkeypatch.setattr(model_module, "_TRAINED", {})
    monkeypatch.setattr("alebrije.train.run.train", lambda *_, **__: pytest.fail("it was trained again"))
    assert torch.equal(TrainedModel(made, ResultFolder(tmp_path)).encode(view).codes, codes)
    assert model.labels["seed"] == 0
    decoded = model.decode(codes)
    assert decoded is not None
    assert decoded.shape == (3, 3, 64, 64)


def test_a_loaded_checkpoint_says_what_it_was_trained_on() -> None:
    made = plan("ae", preset_name="tiny", world="dsprites")
    loaded = LoadedModel(Encoder(made.new_model(), name="mine", plan=made), more={"layer": "last"})
    assert loaded.labels == {"model": "mine", "trained_on": "dsprites", "layer": "last"}
    assert trained_on("sprites", None, None) == "sprites"
    assert plan_of(loaded) is made
    assert user_encoder(loaded) is None


def test_only_models_trained_elsewhere_need_a_precheck() -> None:
    encoder = Encoder(nn.Flatten(), name="mine")
    assert user_encoder(LoadedModel(encoder)) is encoder
    assert user_encoder(Noise()) is None
    assert plan_of(LoadedModel(encoder)) is None


def test_batch_size_and_device_are_part_of_the_identity() -> None:
    identities = [LoadedModel(Encoder(nn.Flatten(), batch=batch)).identity for batch in (8, 64)]
    assert identities[0] != identities[1]
    assert identities[0]["device"] == "cpu"


def test_another_version_of_training_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan("slot-attention", preset_name="tiny", settings={"slots": 4})
    model = TrainedModel(made, ResultFolder(tmp_path))
    stored = {name: value for name, value in made.to_json().items() if name != "alebrije"}
    assert model.path == ResultFolder(tmp_path).run_path({**stored, "device": "cpu"})  # version 1 is not in the name
    paths = []
    for version in (1, 2, 3, 2):
        monkeypatch.setattr(model_module, "TRAINING", version)
        assert model.identity["training"] == version
        paths.append(model.path)
    assert len(set(paths)) == 3
    assert paths[1] == paths[3]


def test_fingerprints_are_kept_in_a_block_alone() -> None:
    network = nn.Linear(3, 2)
    model = LoadedModel(adapters.load(network))
    with model_module.fingerprints_kept():
        before = model.identity
        with torch.no_grad():
            network.weight.add_(1)
        assert model.identity == before
    assert model.identity != before
