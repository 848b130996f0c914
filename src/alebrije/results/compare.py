"""Runs beside each other and beside the papers: differences, and whether they may be chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alebrije.errors import InputError
from alebrije.results.cells import RESERVED
from alebrije.results.estimates import Estimate, difference, within
from alebrije.results.merging import latest
from alebrije.results.published import Published, published_for
from alebrije.results.store import Store
from alebrije.results.tables import SEED, Row, Table, table

PUBLISHED = "published"
SIZE = "size"  # the label of a study's size, of which only "paper" is the papers' own


def compare(
    stores: Mapping[str, Store | str | Path] | Sequence[Store | str | Path],
    published: bool = False,
    query: str | None = None,
) -> Table:
    """One row for all labels but the seed and metric, a column for each run, and differences.

    The first run is what the others are compared with; with `published` so is every run with the number that a paper
    printed for the same thing. `within` says whether zero lies in the 95 % interval of the difference (Welch's t over
    seeds): nothing where neither side has a spread. Where several published numbers fit, they are named and none is
    chosen.
    """
    found = {name: _means(store, query) for name, store in _named(stores).items()}
    labels = tuple(dict.fromkeys(name for run in found.values() for name in run.columns if name != "value"))
    runs = {f"{name} (run)" if name in labels else name: run for name, run in found.items()}
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name, run in runs.items():
        for row in run.rows:
            place = tuple((isinstance(row.get(label), bool), row.get(label)) for label in labels)
            line = rows.setdefault(place, {label: row.get(label) for label in labels})
            line[name] = row["value"]
    first, *others = runs
    columns = [*labels, *runs]
    for other in others:
        columns += _differences(rows.values(), other, first)
    if published:
        for line in rows.values():
            line |= _beside(line, labels)
        columns.append(PUBLISHED)
        for name in runs:
            columns += _differences(rows.values(), name, PUBLISHED)
        columns += ["source", "notes"]
    return Table(tuple(columns), tuple(rows.values()))


def _named(stores: Mapping[str, Store | str | Path] | Sequence[Store | str | Path]) -> dict[str, Store]:
    """Stores by name; folders are named by the end of their path that tells them apart."""
    if isinstance(stores, (str, Path, Store)):
        stores = [stores]
    if isinstance(stores, Mapping):
        return _checked({name: _opened(store) for name, store in stores.items()})
    opened = [_opened(store) for store in stores]
    parts = [store.folder.resolve().parts for store in opened]
    if len(set(parts)) < len(parts):
        raise InputError("a run cannot be compared with itself; name each folder once")
    length = 1
    while len({part[-length:] for part in parts}) < len(parts):
        length += 1
    return _checked({"/".join(part[-length:]): store for part, store in zip(parts, opened, strict=True)})


def _opened(store: Store | str | Path) -> Store:
    return store if isinstance(store, Store) else Store(store)


def _checked(stores: dict[str, Store]) -> dict[str, Store]:
    if not stores:
        raise InputError("there is nothing to compare; name at least one folder of results")
    return {
        f"{name} (run)" if name in (*RESERVED, PUBLISHED, "source", "notes") else name: store
        for name, store in stores.items()
    }


def _means(store: Store, query: str | None) -> Table:
    results = store.all()
    if not results:
        raise InputError(f"{store.folder}: there are no results here")
    return table(latest(results)[0], query).over_seeds(SEED)


def _differences(rows: Any, ours: str, theirs: str) -> list[str]:
    """Adds `ours` less `theirs` to every row that has both, and gives the names of the columns."""
    apart, may_be_none = f"{ours} - {theirs}", f"{ours} - {theirs} within"
    for row in rows:
        if isinstance(row.get(ours), Estimate) and isinstance(row.get(theirs), Estimate):
            row[apart] = difference(row[ours], row[theirs])
            row[may_be_none] = within(row[apart])
    return [apart, may_be_none]


def _beside(row: Row, labels: Sequence[str]) -> dict[str, Any]:
    """The published number for a row, or the names of those among which the labels do not choose."""
    found = published_for({name: row[name] for name in labels if name not in ("study", "metric")}, row["metric"])
    if not found:
        return {}
    if len({(one.value, one.standard_error) for one in found}) > 1:
        return {"source": f"{len(found)} numbers fit: " + "; ".join(map(_told, found))}
    notes = list(found[0].notes)
    if row.get(SIZE) not in (None, "paper"):
        notes.append(f"ours is of the size {row[SIZE]!r}, not the paper's")
    return {PUBLISHED: found[0].estimate, "source": f"{found[0].paper}, {found[0].source}", "notes": "; ".join(notes)}


def _told(one: Published) -> str:
    words = [str(cell) for name, cell in one.row.items() if isinstance(cell, str) and name != "source"]
    return f"{one.estimate} ({one.source}: {', '.join(words)})"
