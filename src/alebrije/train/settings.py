"""Settings of models and recipes, given as values or as text from a command line."""

from __future__ import annotations

import math
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from alebrije.errors import InputError


def parse_setting(name: str, value: Any, annotation: Any) -> Any:
    """Convert `value` to the first type of its annotation that fits; raise an InputError if none does.

    >>> parse_setting("clip", "none", float | None), parse_setting("betas", "0.5,0.9", tuple[float, float])
    (None, (0.5, 0.9))
    """
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    for kind in kinds:
        try:
            return _converted(value, kind)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    expected = [words for kind in kinds if (words := _in_words(kind))]
    raise InputError(f"{name} must be {' or '.join(expected)}, not {value!r}")


def _converted(value: Any, kind: Any) -> Any:
    """Convert a value to one type; raises any error if that is impossible."""
    is_text = isinstance(value, str)
    if get_origin(kind) is Literal:
        return {str(choice): choice for choice in get_args(kind)}[value]
    if get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
        return tuple(int(number) for number in (value.split(",") if is_text else value))
    if get_origin(kind) is tuple:
        first, second = value.split(",") if is_text else value
        return _converted(first, float), _converted(second, float)
    if get_origin(kind) is not None:  # a table from prefixes of parameter names
        return {str(prefix): _converted(entry, get_args(kind)[1]) for prefix, entry in value.items()}
    if kind is NoneType and (value is None or value.lower() == "none"):
        return None
    if kind is bool:
        return {"true": True, "false": False}[value.lower()] if is_text else {True: True, False: False}[value]
    if kind is str and is_text:
        return value
    if kind is int and (is_text or (isinstance(value, int) and not isinstance(value, bool))):
        return int(value)
    if kind is float and not isinstance(value, bool) and math.isfinite(float(value)):
        return float(value)
    raise ValueError


def _in_words(kind: Any) -> str:
    """Describe a type for an error message; tables cannot be typed on a command line and are left out."""
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
        return "whole numbers separated by commas"
    if get_origin(kind) is tuple:
        return "two numbers separated by a comma"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "none"}
    return words.get(kind, "")
