"""Rows: parameters in one tensor learn as they do apart."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from alebrije.errors import InputError
from alebrije.train.recipe import Recipe
from alebrije.train.rows import Row


def network() -> nn.Sequential:
    """Parameters of many shapes: a map that lies channels-last, a bias, a matrix, a single number."""
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 16, 7))
    made.register_parameter("scale", nn.Parameter(torch.tensor(0.5)))
    return made.to(memory_format=torch.channels_last)


def loss(model: nn.Sequential, step: int) -> torch.Tensor:
    images = torch.rand(4, 3, 4, 4, generator=torch.Generator().manual_seed(step))
    return (model(images) * model.scale - 1).square().mean()


def test_a_row_leaves_the_values_and_their_layout() -> None:
    model, before = network(), network()
    row = Row(list(model.parameters()))
    for ours, theirs in zip(model.parameters(), before.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        assert ours.stride() == theirs.stride()
        assert ours.untyped_storage().data_ptr() == row.values.untyped_storage().data_ptr()
    with torch.no_grad():
        row.values.mul_(2)
    assert torch.equal(model.get_parameter("3.weight"), 2 * before.get_parameter("3.weight"))


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_rows_learn_as_parameters_do(kind: str) -> None:
    ours, theirs = network(), network()
    recipe = Recipe(steps=20, batch=4, lr=0.01, optimiser=kind, clip=0.1, momentum=0.9)  # type: ignore[arg-type]
    rows = recipe.optimiser_of(ours)
    plain: torch.optim.Optimizer = (
        torch.optim.Adam(theirs.parameters(), 0.01)
        if kind == "adam"
        else torch.optim.SGD(theirs.parameters(), 0.01, momentum=0.9)
    )
    for step in range(20):
        rows.zero_grad()
        loss(ours, step).backward()
        recipe.clip_gradients(rows.gather())
        rows.step()
        plain.zero_grad()
        loss(theirs, step).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.1)
        plain.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_what_is_remembered_goes_from_rows_to_parameters_and_back() -> None:
    model = network()
    rows = Recipe(steps=3, batch=4, lr={"": 0.01, "3": 0.02}).optimiser_of(model)
    loss(model, 0).backward()
    rows.gather()
    rows.step()
    states = rows.states()
    assert {weight.shape for weight in states} == {weight.shape for weight in model.parameters()}
    for weight, state in states.items():
        assert state["exp_avg"].shape == weight.shape
        torch.testing.assert_close(state["exp_avg"], 0.1 * weight.grad)
        assert float(state["step"]) == 1
    again = copy.deepcopy(model)
    others = Recipe(steps=3, batch=4, lr={"": 0.01, "3": 0.02}).optimiser_of(again)
    pairs = zip(model.parameters(), again.parameters(), strict=True)
    others.remember({copied: {key: value.clone() for key, value in states[weight].items()} for weight, copied in pairs})
    for each, optimiser in ((model, rows), (again, others)):
        optimiser.zero_grad()
        loss(each, 1).backward()
        optimiser.gather()
        optimiser.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_a_parameter_without_a_gradient_stays(kind: str) -> None:
    """Also if it had one before, and where weights decay."""
    model = network()
    recipe = Recipe(steps=1, batch=1, lr=0.1, optimiser=kind, weight_decay=0.1, momentum=0.9)  # type: ignore[arg-type]
    rows = recipe.optimiser_of(model)
    loss(model, 0).backward()
    rows.gather()
    rows.step()
    before, scale = copy.deepcopy(model.get_parameter("0.weight")), model.scale.item()
    rows.zero_grad()
    model.scale.grad = torch.tensor(1.0)
    rows.gather()
    rows.step()
    assert torch.equal(model.get_parameter("0.weight"), before)
    assert model.scale.item() != scale


def test_what_is_remembered_of_some_parameters_only() -> None:
    """As in a checkpoint of a model, a part of which had no gradient when each parameter was moved by itself."""
    for known in (0, 1):
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
        weights = list(model.parameters())[2 * known : 2 * known + 2]
        rows = Recipe(steps=3, batch=4, lr=0.01).optimiser_of(model)
        moments = {weight: dict.fromkeys(("exp_avg", "exp_avg_sq"), torch.ones_like(weight)) for weight in weights}
        rows.remember({weight: {"step": torch.tensor(7.0)} | moments[weight] for weight in weights})
        for weight, state in rows.states().items():
            assert float(state["step"]) == 7
            assert (state["exp_avg"] == float(any(weight is each for each in weights))).all()


def test_parameters_that_were_put_elsewhere_are_taken_back() -> None:
    model = network()
    rows = Recipe(steps=3, batch=4, lr=0.01).optimiser_of(model)
    model.double().float()
    rows.adopt()
    before = copy.deepcopy(model.get_parameter("3.weight"))
    loss(model, 0).backward()
    rows.gather()
    rows.step()
    assert not torch.equal(model.get_parameter("3.weight"), before)


def test_a_part_of_a_model_is_stored_alone() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(1000, 1000))
    rows = Recipe(steps=3, batch=4, lr=0.01).optimiser_of(model)
    rows.release()
    assert model[0].weight.untyped_storage().nbytes() == 4 * 6


def test_parameters_with_gaps_and_of_two_precisions() -> None:
    model = nn.ParameterList([torch.randn(10, 10)[:, :5], torch.randn(7), torch.randn(3, dtype=torch.float64)])
    before = [weight.detach().clone() for weight in model]
    rows = Recipe(steps=3, batch=4, lr=0.01).optimiser_of(model)
    assert len(rows.all) == 2
    for weight, value in zip(model, before, strict=True):
        assert weight.dtype == value.dtype
        assert torch.equal(weight, value)


def test_a_model_that_is_frozen_is_refused() -> None:
    with pytest.raises(InputError, match="Linear has no parameters that could learn"):
        Recipe(steps=3, batch=4, lr=0.01).optimiser_of(nn.Linear(2, 2).requires_grad_(False))
