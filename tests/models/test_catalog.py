"""The catalog: every model by its name, and what is said of names and settings that are none."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from alebrije import models
from alebrije.errors import InputError
from alebrije.models.catalog import suggestion
from alebrije.models.learner import Imagines, Learner

NAMES = ["ae", "beta-vae", "beta-tcvae", "factor-vae", "slot-attention", "bo-qsa", "moco"]
NAMES += ["i2i-cnn", "i2i-vit", "ssm-vae", "ssm-slot", "oracle"]


def test_there_are_twelve() -> None:
    assert list(models.catalog()) == NAMES
    assert all(name == record.name for name, record in models.catalog().items())
    assert len({record.kind for record in models.catalog().values()}) == 12
    models.catalog().clear()
    assert len(models.catalog()) == 12


@pytest.mark.parametrize("name", NAMES)
def test_a_record_is_true_to_its_class(name: str) -> None:
    record = models.get(name)
    model = models.build(name)
    assert type(model) is record.kind
    assert isinstance(model, Learner)
    assert isinstance(model, Imagines) == (record.learns_from == "episodes")
    assert record.parameters() == sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert record.defaults().keys() == record.kinds().keys()
    assert inspect.Parameter.empty not in record.defaults().values()
    assert record.title
    assert record.cites


def test_settings_reach_the_model_and_their_defaults_are_its_own() -> None:
    assert models.build("slot-attention", slots=5).slots == 5
    assert models.get("slot-attention").defaults()["slots"] == models.build("slot-attention").slots == 7
    assert models.get("moco").kinds()["queue"] is int


def test_counting_makes_nothing_and_leaves_the_random_numbers_alone() -> None:
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    assert models.get("beta-vae").parameters(channels=1) == 502_005
    assert models.get("factor-vae").parameters(discriminator_width=100_000) > 4 * 10**10  # 160 GB if it were made
    assert torch.equal(torch.rand(3), expected)


def test_weights_come_from_the_generator_of_torch() -> None:
    made: list[nn.Module] = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        made.append(models.build("ae"))
    first, same, other = (next(model.parameters()) for model in made)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("i2i-vti", "there is no model 'i2i-vti'; did you mean 'i2i-vit'?"),
        ("SSM-Slot", "there is no model 'SSM-Slot'; did you mean 'ssm-slot'?"),
        ("slot_attention", "did you mean 'slot-attention'?"),
        ("", "there is no model ''; there are ae, beta-vae"),
        ("resnet50", "there are ae, beta-vae, .*, oracle"),
        (7, "there is no model 7; there are ae"),
    ],
)
def test_a_name_that_is_none(wrong: str, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("?", r"\?")):
        models.get(wrong)
    with pytest.raises(InputError):
        models.build(wrong)


def test_a_setting_that_is_none() -> None:
    with pytest.raises(InputError, match=r"Slot Attention has no setting 'slot'; did you mean 'slots'\?"):
        models.build("slot-attention", slot=3)
    with pytest.raises(InputError, match="autoencoder has no setting 'zzz'; there are architecture, channels"):
        models.build("ae", zzz=1)


def test_suggestions() -> None:
    assert suggestion("Sead", ["seed", "size"]) == "; did you mean 'seed'?"
    assert suggestion("xyz", ["seed", "size"]) == "; there are seed, size"
