"""The catalog: records, building by name, and errors for unknown names and settings."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import nn

from alebrije import models
from alebrije.errors import InputError
from alebrije.models.learner import Learner

NAMES = ["ae", "beta-vae", "annealed-vae", "beta-tcvae", "factor-vae", "parted-vae", "parted-vae-ss", "weakde", "mtd"]
NAMES += ["slot-attention", "bo-qsa", "slot-attention-nvs", "bo-qsa-nvs", "osrt", "iodine"]
NAMES += ["savi", "savi-boxes", "savi-supervised", "moco"]
NAMES += ["i2i-cnn", "i2i-vit", "ssm-vae", "ssm-slot", "svib-oracle"]


def test_the_catalog_has_these_models() -> None:
    assert list(models.catalog()) == NAMES
    assert all(name == record.name for name, record in models.catalog().items())
    assert len({record.model_class for record in models.catalog().values()}) == len(NAMES)
    models.catalog().clear()
    assert len(models.catalog()) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_record_is_true_to_its_class(name: str) -> None:
    record = models.get(name)
    model = models.build(name)
    assert type(model) is record.model_class
    assert isinstance(model, Learner)
    assert hasattr(model, "predict") == (record.learns_from == "episodes")
    assert record.parameter_count() == sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert record.defaults().keys() == record.setting_types().keys()
    assert inspect.Parameter.empty not in record.defaults().values()
    assert record.title
    assert record.cites
    assert record.takes == getattr(model, "takes", "images")


SMALL: dict[str, dict[str, Any]] = {
    "slot-attention": {"size": 32, "channels": 8},
    "bo-qsa": {"size": 32, "channels": 8},
    "iodine": {"size": 32, "channels": 8},
    **{name: {"size": 16, "channels": 8, "target": "rgb"} for name in ("savi", "savi-boxes", "savi-supervised")},
    "slot-attention-nvs": {"size": 16, "channels": 8, "resnet_width": 8},
    "bo-qsa-nvs": {"size": 16, "channels": 8, "resnet_width": 8},
    "osrt": {"size": 16, "width": 64, "heads": 4, "blocks": 1},
    **{name: {"size": 32, "decoder_blocks": 1} for name in ("i2i-cnn", "i2i-vit", "ssm-vae", "ssm-slot")},
    "moco": {"architecture": "conv64"},
}


@pytest.mark.parametrize("name", [name for name in NAMES if not models.get(name).reads_scenes])
def test_a_record_is_true_to_the_encoding(name: str) -> None:
    record, settings = models.get(name), SMALL.get(name, {})
    size = settings.get("size", 64)
    model = models.build(name, **settings).eval()
    if record.takes == "views":
        encoding = model(torch.rand(1, 3, 3, size, size), torch.rand(1, 3, 3) + 1)
        assert encoding.frames == 3
    elif record.takes == "videos":
        boxes = () if name == "savi" else (torch.rand(1, 2, 4),)
        encoding = model(torch.rand(1, 2, 3, size, size), *boxes)
        assert encoding.frames == 2
    else:
        encoding = model(torch.rand(1, 3, size, size))
    assert record.has_slots == (encoding.slots is not None) == (encoding.masks is not None)
    assert record.reconstructs == (encoding.reconstruction is not None)


def test_settings_reach_the_model_and_their_defaults_are_its_own() -> None:
    assert models.build("slot-attention", slots=5).slots == 5
    assert models.get("slot-attention").defaults()["slots"] == models.build("slot-attention").slots == 7
    assert models.get("moco").setting_types()["queue"] is int


def test_counting_parameters_allocates_none_and_keeps_the_generator() -> None:
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    assert models.get("beta-vae").parameter_count(channels=1) == 502_005
    assert models.get("factor-vae").parameter_count(discriminator_width=100_000) > 4 * 10**10  # 160 GB if allocated
    assert torch.equal(torch.rand(3), expected)


def test_torch_s_generator_samples_the_weights() -> None:
    built: list[nn.Module] = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        built.append(models.build("ae"))
    first, same, other = (next(model.parameters()) for model in built)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("i2i-vti", "there is no model 'i2i-vti'; did you mean 'i2i-vit'?"),
        ("SSM-Slot", "there is no model 'SSM-Slot'; did you mean 'ssm-slot'?"),
        ("slot_attention", "did you mean 'slot-attention'?"),
        ("", "there is no model ''; choose from ae, beta-vae"),
        ("resnet50", "choose from ae, beta-vae, .*, svib-oracle"),
        (7, "there is no model 7; choose from ae"),
    ],
)
def test_an_unknown_name(wrong: str, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("?", r"\?")):
        models.get(wrong)
    with pytest.raises(InputError):
        models.build(wrong)


def test_an_unknown_setting() -> None:
    with pytest.raises(InputError, match=r"Slot Attention has no setting 'slot'; did you mean 'slots'\?"):
        models.build("slot-attention", slot=3)
    with pytest.raises(InputError, match="autoencoder has no setting 'zzz'; choose from architecture, channels"):
        models.build("ae", zzz=1)
