"""Convolutions: the same values and gradients as torch's, also on pairs of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alebrije.models import convolutions
from alebrije.models.convolutions import (
    Convolution,
    _convolution,
    _gradient,
    conv_on_pairs,
    conv_transpose_on_pairs,
    suits_pairs,
)

OPCHECKS = ("test_schema", "test_faketensor")  # what the compiler relies on


def channels_first(maps: Tensor) -> Tensor:
    """Maps [B, H, W, C] as [B, C, H, W]."""
    return maps.permute(0, 3, 1, 2)


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_a_convolution(transposed: bool) -> None:
    torch.manual_seed(0)
    weight = (3, 4, 5, 5) if transposed else (4, 3, 5, 5)
    given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 6, 5, 3), weight)]
    settings = (transposed, [2, 2], [2, 2], [1, 1] if transposed else [0, 0])
    assert torch.autograd.gradcheck(lambda *each: Convolution.apply(*each, settings), given)
    plain = nn.functional.conv_transpose2d if transposed else nn.functional.conv2d
    expected = plain(
        channels_first(given[0]), given[1], stride=2, padding=2, **{"output_padding": 1} if transposed else {}
    )
    torch.testing.assert_close(channels_first(Convolution.apply(*given, settings)), expected)


def test_a_convolution_of_pairs_of_columns() -> None:
    torch.manual_seed(0)
    maps, weight = given = [
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 7, 8, 3), (4, 3, 5, 5))
    ]
    expected = nn.functional.conv2d(channels_first(maps), weight, padding=2)
    torch.testing.assert_close(channels_first(conv_on_pairs(maps, weight)), expected)
    assert torch.autograd.gradcheck(conv_on_pairs, given)


def test_a_transposed_convolution_of_pairs_of_columns() -> None:
    torch.manual_seed(0)
    maps, weight = given = [
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 4, 3, 3), (3, 2, 5, 5))
    ]
    expected = nn.functional.conv_transpose2d(channels_first(maps), weight, stride=2, padding=2, output_padding=1)
    torch.testing.assert_close(channels_first(conv_transpose_on_pairs(maps, weight)), expected)
    assert torch.autograd.gradcheck(conv_transpose_on_pairs, given)


@pytest.mark.parametrize("function", [conv_on_pairs, conv_transpose_on_pairs])
def test_frozen_inputs_get_no_gradient(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    maps, weight = torch.randn(1, 4, 4, 3, requires_grad=True), torch.randn(3, 3, 5, 5, requires_grad=True)
    both = torch.autograd.grad(function(maps, weight).square().sum(), (maps, weight))
    torch.testing.assert_close(torch.autograd.grad(function(maps.detach(), weight).square().sum(), weight)[0], both[1])

    def of_maps(which: int, *given: Any) -> Tensor:
        assert which == 0, "frozen weights need no gradient"
        return _gradient(which, *given)

    monkeypatch.setattr(convolutions, "_gradient", of_maps)
    torch.testing.assert_close(torch.autograd.grad(function(maps, weight.detach()).square().sum(), maps)[0], both[0])


@pytest.mark.parametrize(
    "settings", [(False, [1, 1], [2, 1], [0, 0]), (False, [2, 2], [2, 2], [0, 0]), (True, [2, 1], [2, 1], [1, 0])]
)
def test_convolution_operators_are_compilable(settings: tuple[bool, list[int], list[int], list[int]]) -> None:
    torch.manual_seed(0)
    maps, weight = torch.randn(2, 6, 8, 4), torch.randn(4, 4, 5, 3 if settings[1][1] == 1 else 5)
    result = _convolution(maps, weight, *settings)
    for op, given in ((_convolution, ()), (_gradient, (0, result)), (_gradient, (1, result))):
        report = torch.library.opcheck(op, (*given, maps, weight, *settings), test_utils=OPCHECKS)
        assert report == dict.fromkeys(OPCHECKS, "SUCCESS")


@pytest.mark.parametrize(
    ("layer", "wide", "expected"),
    [
        (nn.Conv2d(64, 64, 5, padding=2), 8, True),
        (nn.Conv2d(64, 64, 5, padding=2), 7, False),
        (nn.Conv2d(64, 64, 5, 2, padding=2), 8, False),
        (nn.Conv2d(64, 64, 5), 8, False),
        (nn.Conv2d(64, 64, 3, padding=1), 8, False),
        (nn.Conv2d(32, 64, 5, padding=2), 8, False),
        (nn.ConvTranspose2d(64, 64, 5, padding=2), 8, False),
        (nn.ConvTranspose2d(64, 64, 5, 2, 2, 1), 8, True),
        (nn.ConvTranspose2d(64, 64, 5, 2, 2, 1), 7, True),
        (nn.ConvTranspose2d(64, 32, 5, 2, 2, 1), 8, False),
        (nn.ConvTranspose2d(64, 64, 5, 2, 2, 0), 8, False),
        (nn.Conv2d(64, 64, (5, 3), padding=(2, 1)), 8, False),
    ],
)
def test_which_convolutions_use_pairs(layer: nn.Module, wide: int, expected: bool) -> None:
    assert suits_pairs(layer, torch.zeros(1, 64, 8, wide)) == expected
