"""One spelling for equal values, so that equal inputs have one hash."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from alebrije.errors import InputError


def jsonable(value: Any, where: str = "inputs") -> Any:
    """A copy of `value` made of what JSON has: tuples as lists, numpy's numbers as Python's.

    What JSON cannot hold without loss is refused in one sentence that names the place: numbers that are not finite,
    keys that are not text, arrays and objects.

    >>> jsonable({"size": (64, np.int64(3))})
    {'size': [64, 3]}
    """
    try:
        return _jsonable(value, where)
    except RecursionError:
        raise InputError(f"{where} is nested too deeply, or holds itself") from None


def _jsonable(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{where} must be a finite number, not {value}")
        return float(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"{where} must have text as keys, not {key!r}")
        return {_text(key, where): _jsonable(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(item, f"{where}[{place}]") for place, item in enumerate(value)]
    raise InputError(f"{where} must be made of numbers, text, lists and tables, not {type(value).__name__}")


def _text(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{where} holds text that has no encoding: {text!a}") from None
    return str.__str__(text)


def canonical_json(value: Any) -> str:
    """The one spelling of a value that JSON can hold.

    Keys are sorted and floats written by repr. Numbers that are equal are spelled alike: 1.0 as 1, -0.0 as 0, for a
    setting typed as 1 must not be computed again when it is read back as 1.0. True is not 1.

    >>> canonical_json({"b": -0.0, "a": [1.0, 0.1, True]})
    '{"a":[1,0.1,true],"b":0}'
    """
    return json.dumps(_equal_alike(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _equal_alike(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _equal_alike(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_equal_alike(item) for item in value]
    return value


def digest(value: Any) -> str:
    """The SHA-256 of the canonical JSON of a value, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
