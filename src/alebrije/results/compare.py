"""Compare runs with each other and with the papers: differences, and whether they may be chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alebrije.errors import InputError
from alebrije.results.cells import RESERVED
from alebrije.results.estimates import Estimate, difference, includes_zero
from alebrije.results.formats import Row
from alebrije.results.merge import latest_results
from alebrije.results.published import Published, published_for, published_models
from alebrije.results.store import Store
from alebrije.results.tables import SEED, ResultTable, result_table

PUBLISHED, ZOO = "published", "zoo"
_SETTING = ("world", "corpus", "rule", "alpha", "setting", "feature")  # labels of what a model is examined on
_PROTOCOL = ("variant", "train_set")  # labels that tell a paper's rows of one model apart
SIZE = "size"  # the label of a study's size; only "paper" matches the published setting


def compare(
    stores: Mapping[str, Store | str | Path] | Sequence[Store | str | Path],
    published: bool = False,
    query: str | None = None,
    zoo: Store | str | Path | None = None,
) -> ResultTable:
    """A table with one row per metric and set of labels, averaged over seeds, and one column per run.

    The other runs are compared with the first, and with `published` each run with the published number for the same
    labels. A model without such a number stays, and the papers' models in the same setting follow, with the differences
    of the protocol among their `notes`.

    `zoo` is a folder of further models: those examined in the same settings follow each run, in a column of their own.

    `within` says whether the 95 % interval of the difference (Welch's t over seeds) includes zero; it is empty
    if neither side has a spread. If several published numbers match, `source` lists them and none is chosen.
    """
    means = {name: _means(store, query) for name, store in _named_stores(stores).items()}
    shipped = ResultTable((), ()) if zoo is None else _means(_as_store(zoo), query)
    every = (*means.values(), shipped)
    labels = tuple(dict.fromkeys(name for run in every for name in run.columns if name != "value"))
    runs = {f"{name} (run)" if name in labels else name: run for name, run in means.items()}
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name, run in runs.items():
        for row in run.rows:
            key = tuple((isinstance(row.get(label), bool), row.get(label)) for label in labels)
            line = rows.setdefault(key, {label: row.get(label) for label in labels})
            line[name] = row["value"]
    first, *others = runs
    columns = [*labels, *runs]
    if zoo is not None:
        rows = _with_zoo(rows, shipped, labels)
        columns.append(ZOO)
    for other in others:
        columns += _differences(rows.values(), other, first)
    if published:
        labels_of_papers: dict[str, None] = {}
        unmatched = []
        for line in rows.values():
            beside = _published_beside(line, labels)
            line |= beside
            unmatched += [] if beside else [line]
        for line in unmatched:
            for theirs in _published_models(line, labels):
                rows.setdefault(tuple(sorted((name, str(cell)) for name, cell in theirs.items())), theirs)
                labels_of_papers |= dict.fromkeys(name for name in _PROTOCOL if name in theirs and name not in labels)
        columns[len(labels) : len(labels)] = labels_of_papers
        columns.append(PUBLISHED)
        for name in runs:
            columns += _differences(rows.values(), name, PUBLISHED)
        columns += ["source", "notes"]
    return ResultTable(tuple(columns), tuple(rows.values()))


def _with_zoo(
    rows: Mapping[tuple[Any, ...], dict[str, Any]], theirs: ResultTable, labels: Sequence[str]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows, each setting followed by the models of the zoo that were examined in it."""
    settings: dict[tuple[Any, ...], dict[tuple[Any, ...], dict[str, Any]]] = {}
    for key, row in rows.items():
        settings.setdefault(_setting(row), {})[key] = row
    models = {row.get("model") for row in rows.values()}
    for number, line in enumerate(theirs.rows):
        if line.get("model") not in models and (beside := settings.get(_setting(line))) is not None:
            beside[ZOO, number] = {**{label: line.get(label) for label in labels}, ZOO: line["value"]}
    return {key: row for beside in settings.values() for key, row in beside.items()}


def _setting(row: Row) -> tuple[Any, ...]:
    """What was measured on what, but not of which model."""
    return tuple(row.get(name) for name in ("study", "metric", SIZE, *_SETTING))


def _named_stores(stores: Mapping[str, Store | str | Path] | Sequence[Store | str | Path]) -> dict[str, Store]:
    """Stores by name; a folder is named by the shortest end of its path that is unique."""
    if isinstance(stores, (str, Path, Store)):
        stores = [stores]
    if isinstance(stores, Mapping):
        return _without_reserved({name: _as_store(store) for name, store in stores.items()})
    opened = [_as_store(store) for store in stores]
    parts = [store.folder.resolve().parts for store in opened]
    if len(set(parts)) < len(parts):
        raise InputError("a run cannot be compared with itself; name each folder once")
    length = 1
    while len({part[-length:] for part in parts}) < len(parts):
        length += 1
    return _without_reserved({"/".join(part[-length:]): store for part, store in zip(parts, opened, strict=True)})


def _as_store(store: Store | str | Path) -> Store:
    return store if isinstance(store, Store) else Store(store)


def _without_reserved(stores: dict[str, Store]) -> dict[str, Store]:
    if not stores:
        raise InputError("nothing to compare; name at least one folder of results")
    return {
        f"{name} (run)" if name in (*RESERVED, PUBLISHED, ZOO, "source", "notes") else name: store
        for name, store in stores.items()
    }


def _means(store: Store, query: str | None) -> ResultTable:
    results = store.all()
    if not results:
        raise InputError(f"{store.folder}: contains no results")
    return result_table(latest_results(results)[0], query).over_seeds(SEED)


def _differences(rows: Any, ours: str, theirs: str) -> list[str]:
    """Add `ours` minus `theirs` to every row that has both; return the names of the new columns."""
    gap, within = f"{ours} - {theirs}", f"{ours} - {theirs} within"
    for row in rows:
        if isinstance(row.get(ours), Estimate) and isinstance(row.get(theirs), Estimate):
            row[gap] = difference(row[ours], row[theirs])
            row[within] = includes_zero(row[gap])
    return [gap, within]


def _published_beside(row: Row, labels: Sequence[str]) -> dict[str, Any]:
    """The cells of the published number for a row; only `source` if several different numbers match."""
    matches = published_for({name: row[name] for name in labels if name not in ("study", "metric")}, row["metric"])
    if not matches:
        return {}
    first = matches[0]
    if len({(match.value, match.standard_error) for match in matches}) > 1:
        return {"source": f"{len(matches)} numbers match: " + "; ".join(map(_described, matches))}
    notes = list(first.notes)
    if row.get(SIZE) not in (None, "paper"):
        notes.append(f"our size is {row[SIZE]!r}, not the paper's")
    return {PUBLISHED: first.estimate, "source": f"{first.paper}, {first.source}", "notes": "; ".join(notes)}


def _published_models(row: Row, labels: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each model that the papers report in the setting of a row of ours."""
    setting = {name: row[name] for name in labels if name not in ("study", "metric")}
    shared = {name: row.get(name) for name in ("study", "metric", *_SETTING) if name in labels}
    rows = []
    for number in published_models(setting, str(row["metric"])):
        theirs = {name: number.row[name] for name in _PROTOCOL if number.row.get(name) is not None}
        about = {"source": f"{number.paper}, {number.source}", "notes": "; ".join(number.notes)}
        rows.append({**shared, **theirs, "model": number.row["model"], PUBLISHED: number.estimate, **about})
    return rows


def _described(number: Published) -> str:
    words = [str(cell) for name, cell in number.row.items() if isinstance(cell, str) and name != "source"]
    return f"{number.estimate} ({number.source}: {', '.join(words)})"
