"""Values as strict JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

from alebrije.results.canonical_json import json_value
from tests.results.examples import strict_json


@dataclass(frozen=True)
class Inner:
    values: Any


@dataclass(frozen=True)
class Outer:
    inner: Inner
    by_name: Any
    passed: bool


class TestJsonValue:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (np.float32(0.5), 0.5),
            (np.int64(3), 3),
            (np.bool_(True), True),
            (np.array(2.0), 2.0),
            (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
            (np.array(["a", "b"]), ["a", "b"]),
            (np.array([1.0, np.nan, np.inf, -np.inf]), [1.0, None, None, None]),
            (torch.tensor([[1.0, math.nan]]), [[1.0, None]]),
            (torch.tensor(True), True),
            (torch.tensor([1, 2], dtype=torch.int32), [1, 2]),
            (torch.tensor([0.5], dtype=torch.bfloat16), [0.5]),
            (torch.ones(2, requires_grad=True), [1.0, 1.0]),
            (math.nan, None),
            (-math.inf, None),
            (np.float64("nan"), None),
            ((1, (2.5, "x", None)), [1, [2.5, "x", None]]),
            ({3: np.arange(2), "x": {"y": math.inf}}, {"3": [0, 1], "x": {"y": None}}),
            (MappingProxyType({"a": np.float64(1)}), {"a": 1.0}),
            ([], []),
            (True, True),
            (10**30, 10**30),
        ],
    )
    def test_known(self, value: Any, expected: Any) -> None:
        found = json_value(value)
        assert found == expected
        assert type(found) is type(expected)
        assert strict_json(json.dumps(found)) == expected

    def test_dataclasses(self) -> None:
        value = Outer(Inner(np.array([np.nan, 1])), {"drop": Inner(torch.tensor(2))}, np.bool_(False))
        assert json_value(value) == {
            "inner": {"values": [None, 1.0]},
            "by_name": {"drop": {"values": 2}},
            "passed": False,
        }

    def test_does_not_change_its_input(self) -> None:
        value = {"x": np.array([np.nan, 1.0])}
        json_value(value)
        assert np.isnan(value["x"][0])
