"""A small query language for rows: conditions on columns that must all hold.

    model=beta-vae metric=SNC,NK alpha>=0.4 world!=clevr rule="S-A" model=beta-*

`=` and `!=` take one value or several separated by commas and ignore case; `*` matches any text, `none` an empty cell.
`<`, `<=`, `>` and `>=` compare numbers. Nothing is ever evaluated as code.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alebrije.errors import InputError
from alebrije.suggest import did_you_mean

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
    """A condition on one column."""

    name: str
    sign: str
    values: tuple[str, ...]

    def holds(self, cell: Any) -> bool:
        """Whether a cell of the column meets the condition."""
        if self.sign in _ORDER:
            return _is_number(cell) and _ORDER[self.sign](cell, float(self.values[0]))
        return any(_matches(cell, value) for value in self.values) == (self.sign == "=")


def parse_query(query: str, columns: Sequence[str]) -> list[Condition]:
    """The conditions of a query; an InputError for an unknown column suggests the closest.

    >>> parse_query("alpha>=0.4 model=ae", ["model", "alpha"])[0]
    Condition(name='alpha', sign='>=', values=('0.4',))
    """
    conditions, start = [], 0
    while query[start:].strip():
        match = _CONDITION.match(query, start)
        if match is None:
            raise InputError(
                f"cannot parse the query from {query[start:].strip()!r} on; "
                "a condition looks like model=beta-vae or alpha>=0.4"
            )
        conditions.append(_condition(match, columns))
        start = match.end()
    return conditions


def _condition(match: re.Match[str], columns: Sequence[str]) -> Condition:
    name, sign = match["name"], match["sign"].replace("==", "=")
    if name not in columns:
        raise InputError(f"there is no column {name!r}{did_you_mean(name, columns, _choose_from(columns))}")
    values = tuple(value[1:-1] if value[0] in "\"'" else value for value in re.findall(_VALUE, match["value"]))
    if sign in _ORDER and (len(values) != 1 or _number(values[0]) is None):
        raise InputError(f"{name}{sign} takes one number, not {match['value']!r}")
    return Condition(name, sign, values)


def all_hold(row: Mapping[str, Any], conditions: Sequence[Condition]) -> bool:
    """Whether a row meets all conditions."""
    return all(condition.holds(row.get(condition.name)) for condition in conditions)


def unmatched_values(rows: Sequence[Mapping[str, Any]], conditions: Sequence[Condition]) -> list[str]:
    """A sentence for each value in the conditions that no row has, with the closest one.

    >>> unmatched_values([{"model": "ae"}, {"model": "beta-vae"}], parse_query("model=betavae,ae", ["model"]))
    ["no model is 'betavae'; did you mean 'beta-vae'?"]
    """
    sentences = []
    for condition in conditions:
        cells = [row.get(condition.name) for row in rows]
        for value in () if condition.sign in _ORDER else condition.values:
            if not any(_matches(cell, value) for cell in cells):
                sentences.append(f"no {condition.name} is {value!r}{_suggestion(value, cells)}")
    return sentences


def _suggestion(value: str, cells: Sequence[Any]) -> str:
    """The end of a message about an unmatched value: all numbers if there are few, or the closest name."""
    known = dict.fromkeys(cell for cell in cells if cell is not None)
    if all(map(_is_number, known)):
        return f"; {_choose_from(f'{number:g}' for number in sorted(known))}" if 0 < len(known) <= 20 else ""
    return did_you_mean(value, map(str, known))


def _choose_from(names: Iterable[str]) -> str:
    return f"choose from {', '.join(names)}"


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _matches(cell: Any, wanted: str) -> bool:
    if cell is None:
        return wanted.lower() in ("none", "")
    if isinstance(cell, bool):
        return wanted.lower() == str(cell).lower()
    if isinstance(cell, (int, float)):
        return _number(wanted) == cell
    if "*" in wanted:
        pieces = [re.escape(piece) for piece in re.split(r"\*+", wanted.lower())]
        return re.fullmatch(".*?".join(pieces), str(cell).lower(), re.DOTALL) is not None
    return str(cell).lower() == wanted.lower()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
