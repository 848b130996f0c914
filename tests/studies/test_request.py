"""Requests: which models and values they name."""

from __future__ import annotations

import pytest

from alebrije.errors import InputError
from alebrije.studies.model import LoadedModel, Model
from alebrije.studies.references import Noise, Oracle, Pixels
from alebrije.studies.request import Request, learns_from_images


def trained(name: str) -> list[Model]:
    """In place of training: the oracle for every name."""
    assert name == "ae"
    return [Oracle()]


def test_models_come_in_the_order_of_the_request_and_loaded_ones_last() -> None:
    asked = Request(models=("noise", "ae", "torch.nn:Flatten"), loaded=(Pixels(),))
    noise, oracle, loaded, pixels = asked.select_models(("oracle",), 32, trained)
    assert (noise, oracle, pixels) == (Noise(), Oracle(), Pixels(32))
    assert isinstance(loaded, LoadedModel)
    assert loaded.labels == {"model": "torch.nn:Flatten"}


def test_without_names_the_defaults_are_examined() -> None:
    assert list(Request().select_models(("noise",), 32, trained)) == [Noise()]
    assert list(Request(loaded=(Noise(),), only_loaded=True).select_models(("oracle",), 32, trained)) == [Noise()]


def test_names_of_values_ignore_case() -> None:
    assert Request().wants("SNC")
    assert Request(metrics=("snc",)).wants("SNC")
    assert not Request(metrics=("snc",)).wants("MIG")


def test_seeds() -> None:
    assert list(Request().training_seeds(3)) == [0, 1, 2]
    assert list(Request(seeds=1).training_seeds(3)) == [0]


def test_unknown_models_are_refused_with_a_suggestion() -> None:
    Request(models=("noise", "ae", "any:thing")).check_models()
    with pytest.raises(InputError, match=r"there is no model 'nois'; did you mean 'noise'\? \(a spec is one of "):
        Request(models=("nois",)).check_models()


def test_models_that_learn_from_episodes_are_refused() -> None:
    assert learns_from_images("ae", "grouping").name == "ae"
    with pytest.raises(InputError, match="I2I-CNN learns from episodes; grouping examines models that learn from im"):
        learns_from_images("i2i-cnn", "grouping")
