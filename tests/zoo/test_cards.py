"""The zoo that comes with alebrije: every entry is whole, small and says how it was trained."""

from __future__ import annotations

import shlex

import pytest

from alebrije import adapters, zoo
from alebrije.data.checked_arrays import check_file
from alebrije.models import get
from alebrije.zoo.cards import MODELS, WEIGHTS

MOST, MOST_OF_IMAGINATION, MOST_IN_ALL = 2e6, 16e6, 45e6  # bytes
NAMES = zoo.names()


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_are_those_of_the_card(name: str) -> None:
    card = zoo.card(name)
    assert card.name == name
    check_file(MODELS / name / WEIGHTS, card.weights)
    learned = get(card.plan["model"]).learns_from
    large = learned == "episodes" or card.plan["model"] == "moco"
    assert card.weights.size <= (MOST_OF_IMAGINATION if large else MOST)


@pytest.mark.parametrize("name", NAMES)
def test_the_card_names_the_command(name: str) -> None:
    card = zoo.card(name)
    plan = card.read_plan()
    words = shlex.split(card.training.command)
    assert words[:3] == ["alebrije", "train", plan.model]
    assert f"steps={card.training.steps}" in words or card.training.steps == plan.recipe.steps
    assert name == plan.model or name.startswith(f"{plan.model}-")


def test_all_models_together_are_small() -> None:
    assert sum(zoo.card(name).weights.size for name in NAMES) <= MOST_IN_ALL


def test_a_spec_of_the_zoo() -> None:
    encoder = adapters.load(f"zoo:{NAMES[0]}")
    assert encoder.spec == f"zoo:{NAMES[0]}"
    assert encoder.plan == zoo.card(NAMES[0]).read_plan()
    assert encoder.preprocessing.size == encoder.plan.size
