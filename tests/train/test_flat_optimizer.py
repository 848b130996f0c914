"""Flat parameters learn exactly as separate ones do."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from alebrije.errors import InputError
from alebrije.train.flat_optimizer import FlatParameters
from alebrije.train.recipe import Recipe


def network() -> nn.Sequential:
    """Parameters of many shapes: a channels-last kernel, a bias, a matrix, a scalar."""
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 16, 7))
    made.register_parameter("scale", nn.Parameter(torch.tensor(0.5)))
    return made.to(memory_format=torch.channels_last)


def loss(model: nn.Sequential, step: int) -> torch.Tensor:
    images = torch.rand(4, 3, 4, 4, generator=torch.Generator().manual_seed(step))
    return (model(images) * model.scale - 1).square().mean()


def test_flat_parameters_keep_values_and_memory_order() -> None:
    model, before = network(), network()
    flat = FlatParameters(list(model.parameters()))
    for ours, theirs in zip(model.parameters(), before.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        assert ours.stride() == theirs.stride()
        assert ours.untyped_storage().data_ptr() == flat.values.untyped_storage().data_ptr()
    with torch.no_grad():
        flat.values.mul_(2)
    assert torch.equal(model.get_parameter("3.weight"), 2 * before.get_parameter("3.weight"))


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_flat_parameters_learn_as_separate_ones(kind: str) -> None:
    ours, theirs = network(), network()
    recipe = Recipe(steps=20, batch=4, lr=0.01, optimiser=kind, clip=0.1, momentum=0.9)  # type: ignore[arg-type]
    optimizer = recipe.make_optimizer(ours)
    plain: torch.optim.Optimizer = (
        torch.optim.Adam(theirs.parameters(), 0.01)
        if kind == "adam"
        else torch.optim.SGD(theirs.parameters(), 0.01, momentum=0.9)
    )
    for step in range(20):
        optimizer.zero_grad()
        loss(ours, step).backward()
        recipe.clip_gradients(optimizer.gather_gradients())
        optimizer.step()
        plain.zero_grad()
        loss(theirs, step).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.1)
        plain.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_states_are_split_and_joined() -> None:
    model = network()
    optimizer = Recipe(steps=3, batch=4, lr={"": 0.01, "3": 0.02}).make_optimizer(model)
    loss(model, 0).backward()
    optimizer.gather_gradients()
    optimizer.step()
    states = optimizer.states()
    assert {weight.shape for weight in states} == {weight.shape for weight in model.parameters()}
    for weight, state in states.items():
        assert state["exp_avg"].shape == weight.shape
        torch.testing.assert_close(state["exp_avg"], 0.1 * weight.grad)
        assert float(state["step"]) == 1
    again = copy.deepcopy(model)
    others = Recipe(steps=3, batch=4, lr={"": 0.01, "3": 0.02}).make_optimizer(again)
    pairs = zip(model.parameters(), again.parameters(), strict=True)
    others.load_states(
        {copied: {key: value.clone() for key, value in states[weight].items()} for weight, copied in pairs}
    )
    for copied, current in ((model, optimizer), (again, others)):
        current.zero_grad()
        loss(copied, 1).backward()
        current.gather_gradients()
        current.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_a_parameter_without_a_gradient_stays(kind: str) -> None:
    """Also if it had one before, and with weight decay."""
    model = network()
    recipe = Recipe(steps=1, batch=1, lr=0.1, optimiser=kind, weight_decay=0.1, momentum=0.9)  # type: ignore[arg-type]
    optimizer = recipe.make_optimizer(model)
    loss(model, 0).backward()
    optimizer.gather_gradients()
    optimizer.step()
    before, scale = copy.deepcopy(model.get_parameter("0.weight")), model.scale.item()
    optimizer.zero_grad()
    model.scale.grad = torch.tensor(1.0)
    optimizer.gather_gradients()
    optimizer.step()
    assert torch.equal(model.get_parameter("0.weight"), before)
    assert model.scale.item() != scale


def test_states_of_some_parameters_only() -> None:
    """As in an old checkpoint of a model with a part that had no gradient."""
    for known in (0, 1):
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
        weights = list(model.parameters())[2 * known : 2 * known + 2]
        optimizer = Recipe(steps=3, batch=4, lr=0.01).make_optimizer(model)
        moments = {weight: dict.fromkeys(("exp_avg", "exp_avg_sq"), torch.ones_like(weight)) for weight in weights}
        optimizer.load_states({weight: {"step": torch.tensor(7.0)} | moments[weight] for weight in weights})
        for weight, state in optimizer.states().items():
            assert float(state["step"]) == 7
            assert (state["exp_avg"] == float(any(weight is each for each in weights))).all()


def test_moved_parameters_are_reattached() -> None:
    model = network()
    optimizer = Recipe(steps=3, batch=4, lr=0.01).make_optimizer(model)
    model.double().float()
    optimizer.reattach()
    before = copy.deepcopy(model.get_parameter("3.weight"))
    loss(model, 0).backward()
    optimizer.gather_gradients()
    optimizer.step()
    assert not torch.equal(model.get_parameter("3.weight"), before)


def test_released_parameters_have_their_own_memory() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(1000, 1000))
    optimizer = Recipe(steps=3, batch=4, lr=0.01).make_optimizer(model)
    optimizer.release()
    assert model[0].weight.untyped_storage().nbytes() == 4 * 6


def test_parameters_with_gaps_and_of_two_dtypes() -> None:
    model = nn.ParameterList([torch.randn(10, 10)[:, :5], torch.randn(7), torch.randn(3, dtype=torch.float64)])
    before = [weight.detach().clone() for weight in model]
    optimizer = Recipe(steps=3, batch=4, lr=0.01).make_optimizer(model)
    assert len(optimizer.all) == 2
    for weight, value in zip(model, before, strict=True):
        assert weight.dtype == value.dtype
        assert torch.equal(weight, value)


def test_a_frozen_model_is_refused() -> None:
    with pytest.raises(InputError, match="Linear has no trainable parameters"):
        Recipe(steps=3, batch=4, lr=0.01).make_optimizer(nn.Linear(2, 2).requires_grad_(False))
