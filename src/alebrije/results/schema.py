"""The file of a result: JSON with a checksum. Every layout that was ever written can be read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from alebrije.errors import InputError
from alebrije.results.cells import RESULT_SCHEMA, WRITTEN_HERE, Result, one_sentence

Content = dict[str, Any]

FIRST_WITH_CHECKSUM = 2
_START = re.compile(rb'\{\r?\n "checksum": "([0-9a-f]{64})",')


def to_text(result: Result) -> str:
    """The JSON of a result; its first entry is a checksum of every line that follows."""
    rest = json.dumps(result.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False)[1:] + "\n"
    return f'{{\n "checksum": "{_checksum(rest.encode())}",{rest}'


def from_text(text: bytes) -> Result:
    """The result that a file holds; what is no result, or not the one that was written, is refused in one sentence."""
    try:
        content = json.loads(text, parse_constant=_no_json)
    except RecursionError:
        raise InputError("is not a result: it is nested too deeply") from None
    except ValueError:  # also where bytes are no text
        raise InputError("is cut short, or is not JSON") from None
    if not isinstance(content, dict) or not {"schema_version", "cell", "key"} <= content.keys():
        raise InputError("is JSON, but not a result")
    number = content["schema_version"]
    if type(number) is not int or number < 1:
        raise InputError(f"is JSON, but not a result: its schema version is {number!r}")
    if number > RESULT_SCHEMA:
        raise InputError(
            f"was written by a newer alebrije: its schema version is {number}, and this one knows {RESULT_SCHEMA}"
        )
    content.pop("checksum", None)
    if number >= FIRST_WITH_CHECKSUM:
        start = _START.match(text)
        if start is None or start[1].decode() != _checksum(text[start.end() :]):
            raise InputError("was changed after it was written: its checksum differs")
    try:
        for old in range(number, RESULT_SCHEMA):
            content = UPGRADES[old](content)
        return Result.model_validate(content, context=WRITTEN_HERE if number == RESULT_SCHEMA else None)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"is damaged, or not a result of schema version {number}") from error
    except ValidationError as error:
        raise InputError(f"is damaged, or was changed ({one_sentence(error)})") from error


def _checksum(rest: bytes) -> str:
    return hashlib.sha256(rest.replace(b"\r\n", b"\n")).hexdigest()  # line ends change when files travel


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _from_1(content: Content) -> Content:
    """Schema 1 had bare numbers for values, their reasons apart, the machine as one line, and no checksum."""
    content = dict(content)
    reasons = content.pop("reasons", {})
    content["values"] = {
        name: {"score": score, "reason": reasons.get(name, "not told") if score is None else None}
        for name, score in content["values"].items()
    }
    content["machine"] = {"python": "not told", "torch": None, "platform": content["machine"], "device": "not told"}
    return content | {"schema_version": 2}


UPGRADES: dict[int, Callable[[Content], Content]] = {1: _from_1}
