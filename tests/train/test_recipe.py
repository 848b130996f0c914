"""Recipes: schedules, parameter groups and clipping."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from alebrije.errors import InputError
from alebrije.train import Recipe


def test_warm_up_is_linear() -> None:
    recipe = Recipe(steps=1000, batch=1, lr=1.0, warmup=100)
    assert recipe.lr_factor(0) == pytest.approx(0.01)
    assert recipe.lr_factor(49) == pytest.approx(0.5)
    assert recipe.lr_factor(99) == recipe.lr_factor(500) == 1.0


def test_halving_begins_at_the_first_step() -> None:
    """As the released Slot Attention: the rate is linear warm-up times 0.5 ^ (step / half-life)."""
    recipe = Recipe(steps=500_000, batch=64, lr=4e-4, warmup=10_000, decay="halving", half_life=100_000)
    assert recipe.lr_factor(100_000) == pytest.approx(0.5)
    assert recipe.lr_factor(300_000) == pytest.approx(0.125)
    assert recipe.lr_factor(4_999) == pytest.approx(0.5 * 0.5 ** (4_999 / 100_000))


def test_cosine_ends_at_zero_and_tail_at_a_fiftieth() -> None:
    cosine = Recipe(steps=1000, batch=1, lr=1.0, decay="cosine")
    assert cosine.lr_factor(0) == 1.0
    assert cosine.lr_factor(500) == pytest.approx(0.5)
    assert cosine.lr_factor(1000) == pytest.approx(0.0, abs=1e-12)
    tail = Recipe(steps=1000, batch=1, lr=1.0, decay="tail")
    assert tail.lr_factor(700) == pytest.approx(1.0)
    assert tail.lr_factor(850) == pytest.approx(0.51)
    assert tail.lr_factor(1000) == pytest.approx(0.02)


def test_the_longest_matching_prefix_sets_the_rate() -> None:
    model = nn.ModuleDict({"encoder": nn.Linear(2, 3), "decoder": nn.Linear(3, 2, bias=False)})
    recipe = Recipe(
        steps=1,
        batch=1,
        lr={"": 3e-4, "encoder": 1e-4, "encoder.bias": 7e-4},
        betas={"": (0.9, 0.999), "decoder": (0.5, 0.9)},
    )
    optimizer = recipe.make_optimizer(model)
    pairs = zip(optimizer.all, optimizer.param_groups, strict=True)
    found = {id(weight): (group["peak"], group["betas"]) for flat, group in pairs for weight in flat.weights}
    assert found[id(model["encoder"].weight)] == (1e-4, (0.9, 0.999))
    assert found[id(model["encoder"].bias)] == (7e-4, (0.9, 0.999))
    assert found[id(model["decoder"].weight)] == (3e-4, (0.5, 0.9))
    with pytest.raises(InputError, match=r"no learning rate for the parameter decoder\.weight"):
        Recipe(steps=1, batch=1, lr={"encoder": 1e-4}).make_optimizer(model)


def test_frozen_parameters_are_left_out() -> None:
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    (flat,) = Recipe(steps=1, batch=1, lr=1e-3).make_optimizer(model).all
    assert [weight is model.weight for weight in flat.weights] == [True]


def with_gradients(**gradients: list[float]) -> nn.Module:
    model = nn.ModuleDict({name: nn.ParameterDict({"weight": torch.zeros(2)}) for name in gradients})
    for name, values in gradients.items():
        model.get_parameter(f"{name}.weight").grad = torch.tensor(values)
    return model


def clipped(model: nn.Module, recipe: Recipe) -> dict[str, list[float]]:
    """The gradients of each part of a model after clipping."""
    optimizer = recipe.make_optimizer(model)
    recipe.clip_gradients(optimizer.gather_gradients())
    groups = optimizer.all
    names = {weight: name.partition(".")[0] for name, weight in model.named_parameters()}
    return {
        names[each]: gradient.tolist()
        for flat in groups
        for each, gradient in zip(flat.weights, flat.gradients, strict=True)
    }


@pytest.mark.parametrize(
    ("by", "expected"),
    [("norm", [0.6, -0.8]), ("largest", [0.75, -1.0]), ("value", [1.0, -1.0])],
)
def test_clipping(by: str, expected: list[float]) -> None:
    recipe = Recipe(steps=1, batch=1, lr=1.0, clip=1.0, clip_by=by)  # type: ignore[arg-type]
    assert clipped(with_gradients(a=[3.0, -4.0]), recipe)["a"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("lr", [1.0, {"": 1.0, "b": 0.1}])  # also when the parts lie in different groups
def test_parts_are_clipped_together_or_each_by_itself(lr: float | dict[str, float]) -> None:
    together, each = (
        clipped(
            with_gradients(a=[30.0, -40.0], b=[0.3, 0.4]), Recipe(steps=1, batch=1, lr=lr, clip=1.0, clip_each=apart)
        )
        for apart in (False, True)
    )
    assert together["b"] == pytest.approx([0.006, 0.008], rel=1e-3)
    assert each["b"] == pytest.approx([0.3, 0.4])
    assert together["a"] == pytest.approx(each["a"], rel=1e-3)


@pytest.mark.parametrize("by", ["norm", "largest", "value"])
def test_small_gradients_are_not_stretched(by: str) -> None:
    recipe = Recipe(steps=1, batch=1, lr=1.0, clip=1.0, clip_by=by)  # type: ignore[arg-type]
    assert clipped(with_gradients(a=[0.03, -0.04]), recipe)["a"] == pytest.approx([0.03, -0.04])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"lr": 0.0}, "lr must be a positive number"),
        ({"lr": math.nan}, "lr must be a positive number"),
        ({"lr": {"": 1e-3, "decoder": -1.0}}, "lr must be a positive number"),
        ({"clip": 0.0}, "clip must be positive"),
        ({"warmup": -1}, "warmup must be at least 0"),
        ({"warmup": 1}, "a warmup of 1 steps never ends in 1"),
        ({"decay": "halving"}, "half_life"),
        ({"decay": "linear"}, "decay must be one of constant, halving, cosine, tail, plateau, not 'linear'"),
        ({"decay": "plateau"}, "the decay `plateau` needs a window of steps"),
        ({"decay": "plateau", "window": 0}, "needs a window of steps"),
        ({"patience": -1}, "patience must be at least 0, not -1"),
        ({"cooldown": -1}, "cooldown must be at least 0, not -1"),
        ({"threshold": 1.0}, "threshold must be at least 0 and less than 1, not 1.0"),
        ({"drop": 1.0}, "drop must be between 0 and 1, not 1.0"),
        ({"optimiser": "adamw"}, "optimiser must be one of adam, sgd"),
        ({"precision": "float16"}, "precision must be one of float32, bfloat16"),
        ({"clip_by": "l2"}, "clip_by must be one of norm, largest, value"),
        ({"betas": (0.9, 1.0)}, "betas must be at least 0 and less than 1"),
        ({"betas": {"": (0.9, 0.999), "decoder": (-0.1, 0.9)}}, "betas must be at least 0"),
        ({"batch": 9, "accumulate": 2}, "cannot be split into 2 equal parts"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Recipe(**({"steps": 1, "batch": 8, "lr": 1e-3} | settings))  # type: ignore[arg-type]
