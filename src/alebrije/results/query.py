"""A small language to choose rows: conditions on columns, all of which must hold.

    model=beta-vae metric=SNC,NK alpha>=0.4 world!=clevr rule="S-A" model=beta-*

`=` and `!=` take one value or several with commas between, without regard to case; `*` stands for any text, `none` for
nothing. `<`, `<=`, `>` and `>=` compare numbers. Nothing is ever evaluated.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alebrije.errors import InputError
from alebrije.named import nearest

_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s,"']+)"""
_CONDITION = re.compile(
    rf"\s*(?P<name>[^\W\d][\w.-]*)\s*(?P<sign>!=|<=|>=|==|=|<|>)\s*(?P<value>{_VALUE}(?:,{_VALUE})*)(?=\s|$)"
)
_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """What one column must be."""

    name: str
    sign: str
    values: tuple[str, ...]

    def holds(self, found: Any) -> bool:
        """Whether a value of the column fits."""
        if self.sign in _ORDER:
            number = isinstance(found, (int, float)) and not isinstance(found, bool)
            return number and _ORDER[self.sign](found, float(self.values[0]))
        return any(_same(found, value) for value in self.values) == (self.sign == "=")


def parse(query: str, columns: Sequence[str]) -> list[Condition]:
    """The conditions of a query; a column that there is not suggests the nearest.

    >>> parse("alpha>=0.4 model=ae", ["model", "alpha"])[0]
    Condition(name='alpha', sign='>=', values=('0.4',))
    """
    conditions, place = [], 0
    while query[place:].strip():
        found = _CONDITION.match(query, place)
        if found is None:
            raise InputError(
                f"the query cannot be read from {query[place:].strip()!r} on; "
                "a condition looks like model=beta-vae or alpha>=0.4"
            )
        conditions.append(_condition(found, columns))
        place = found.end()
    return conditions


def _condition(found: re.Match[str], columns: Sequence[str]) -> Condition:
    name, sign = found["name"], found["sign"].replace("==", "=")
    if name not in columns:
        hint = nearest(name, list(columns)) or f"; there are {', '.join(columns)}"
        raise InputError(f"there is no column {name!r}{hint}")
    values = tuple(value[1:-1] if value[0] in "\"'" else value for value in re.findall(_VALUE, found["value"]))
    if sign in _ORDER and (len(values) != 1 or _number(values[0]) is None):
        raise InputError(f"{name}{sign} wants one number, not {found['value']!r}")
    return Condition(name, sign, values)


def choose(rows: Sequence[Mapping[str, Any]], conditions: Sequence[Condition]) -> list[bool]:
    """For each row whether all conditions hold."""
    return [all(each.holds(row.get(each.name)) for each in conditions) for row in rows]


def unmet(rows: Sequence[Mapping[str, Any]], conditions: Sequence[Condition]) -> list[str]:
    """A sentence for each value that a condition names and no row has, with the nearest that there is.

    >>> unmet([{"model": "ae"}, {"model": "beta-vae"}], parse("model=betavae,ae", ["model"]))
    ["no model is 'betavae'; did you mean 'beta-vae'?"]
    """
    sentences = []
    for each in conditions:
        found = [row.get(each.name) for row in rows]
        for value in () if each.sign in _ORDER else each.values:
            if not any(_same(one, value) for one in found):
                sentences.append(f"no {each.name} is {value!r}{_instead(value, found)}")
    return sentences


def _instead(value: str, found: Sequence[Any]) -> str:
    """The end of a sentence about a value that no row has; of numbers all that there are, unless they are many."""
    known = dict.fromkeys(one for one in found if one is not None)
    if all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in known):
        return f"; there are {', '.join(f'{one:g}' for one in sorted(known))}" if 0 < len(known) <= 20 else ""
    return nearest(value, [str(one) for one in known])


def _same(found: Any, wanted: str) -> bool:
    if found is None:
        return wanted.lower() in ("none", "")
    if isinstance(found, bool):
        return wanted.lower() == str(found).lower()
    if isinstance(found, (int, float)):
        return _number(wanted) == found
    if "*" in wanted:
        pieces = [re.escape(piece) for piece in re.split(r"\*+", wanted.lower())]
        return re.fullmatch(".*?".join(pieces), str(found).lower(), re.DOTALL) is not None
    return str(found).lower() == wanted.lower()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
