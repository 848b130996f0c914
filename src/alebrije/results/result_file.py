"""The file of a result: JSON with a checksum. Files of every earlier schema can be read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from alebrije.errors import InputError
from alebrije.results.cells import RESULT_SCHEMA, TRUSTED, Result, first_fault

Content = dict[str, Any]

FIRST_WITH_CHECKSUM = 2
_START = re.compile(rb'\{\r?\n "checksum": "([0-9a-f]{64})",')


def dump_result(result: Result) -> str:
    """The JSON of a result. Its first entry is a checksum of all lines that follow."""
    rest = json.dumps(result.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False)[1:] + "\n"
    return f'{{\n "checksum": "{_checksum(rest.encode())}",{rest}'


def load_result(text: bytes) -> Result:
    """The result in a file; an InputError if it is not a result, or was changed after it was written."""
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise InputError("is not a result: it is nested too deeply") from None
    except ValueError:  # also for bytes that are not text
        raise InputError("is truncated, or is not JSON") from None
    if not isinstance(content, dict) or not {"schema_version", "cell", "key"} <= content.keys():
        raise InputError("is JSON, but not a result")
    number = content["schema_version"]
    if type(number) is not int or number < 1:
        raise InputError(f"is JSON, but not a result: its schema version is {number!r}")
    if number > RESULT_SCHEMA:
        raise InputError(
            f"was written by a newer alebrije: its schema version is {number}, this version reads up to {RESULT_SCHEMA}"
        )
    if content.pop("checksum", None) is not None or number >= FIRST_WITH_CHECKSUM:
        start = _START.match(text)
        if start is None or start[1].decode() != _checksum(text[start.end() :]):
            raise InputError("was changed after it was written: the checksum does not match")
    try:
        for version in range(number, RESULT_SCHEMA):
            content = UPGRADES[version](content)
        return Result.model_validate(content, context=TRUSTED if number == RESULT_SCHEMA else None)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"is damaged, or not a result of schema version {number}") from error
    except ValidationError as error:
        raise InputError(f"is damaged, or was changed ({first_fault(error)})") from error


def _checksum(rest: bytes) -> str:
    return hashlib.sha256(rest.replace(b"\r\n", b"\n")).hexdigest()  # copying between systems may change line ends


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _upgrade_1(content: Content) -> Content:
    """Schema 1 had bare numbers as values, separate reasons, the machine as one line, and no checksum."""
    content = dict(content)
    reasons = content.pop("reasons", {})
    content["values"] = {
        name: {"score": score, "reason": reasons.get(name, "not told") if score is None else None}
        for name, score in content["values"].items()
    }
    content["machine"] = {"python": "not told", "torch": None, "platform": content["machine"], "device": "not told"}
    return content | {"schema_version": 2}


UPGRADES: dict[int, Callable[[Content], Content]] = {1: _upgrade_1}
