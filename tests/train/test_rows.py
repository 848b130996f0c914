"""Rows: parameters in one tensor learn as they do apart."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

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


def test_a_parameter_without_a_gradient_stays() -> None:
    model = network()
    rows = Recipe(steps=1, batch=1, lr=0.1).optimiser_of(model)
    before = copy.deepcopy(model.get_parameter("0.weight"))
    model.scale.grad = torch.tensor(1.0)
    rows.gather()
    rows.step()
    assert torch.equal(model.get_parameter("0.weight"), before)
    assert model.scale.item() == pytest.approx(0.4)
