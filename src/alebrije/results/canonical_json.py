"""Values as JSON, with one canonical text and one hash for equal values."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

from alebrije.errors import InputError


def json_value(value: Any) -> Any:
    """`value` as JSON: arrays become lists, dataclasses objects, NaN and infinity None.

    >>> json_value({"x": np.array([1.0, np.nan])})
    {'x': [1.0, None]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return json_value(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if hasattr(value, "tolist"):
        return json_value(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def exact_json_value(value: Any, name: str = "inputs") -> Any:
    """A copy of `value` as JSON without any loss: tuples become lists, numpy scalars Python numbers.

    Raise an InputError that names the item for NaN, infinity, keys that are not text, arrays and objects.

    >>> exact_json_value({"size": (64, np.int64(3))})
    {'size': [64, 3]}
    """
    try:
        return _exact(value, name)
    except RecursionError:
        raise InputError(f"{name} is nested too deeply or contains itself") from None


def _exact(value: Any, name: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return _text(value, name)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{name} must be a finite number, not {value}")
        return float(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"the keys of {name} must be text, not {key!r}")
        return {_text(key, name): _exact(item, f"{name}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exact(item, f"{name}[{index}]") for index, item in enumerate(value)]
    raise InputError(f"{name} must consist of numbers, text, lists and dictionaries, not {type(value).__name__}")


def _text(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} contains text that cannot be encoded: {text!a}") from None
    return str.__str__(text)


def canonical_json(value: Any) -> str:
    """The canonical JSON text of a value: sorted keys, floats by repr.

    Equal numbers have one spelling, 1.0 as 1 and -0.0 as 0: a setting typed as 1 and read back as 1.0 must keep its
    hash. True is not 1.

    >>> canonical_json({"b": -0.0, "a": [1.0, 0.1, True]})
    '{"a":[1,0.1,true],"b":0}'
    """
    return json.dumps(_whole_floats_as_ints(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _whole_floats_as_ints(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_floats_as_ints(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_floats_as_ints(item) for item in value]
    return value


def digest(value: Any) -> str:
    """The SHA-256 of a value's canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
