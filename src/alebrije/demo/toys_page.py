"""A page that shows which metric detects which fault of synthetic representations and segmentations."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from alebrije import __version__, metrics, scoring
from alebrije.atomic import explain_write_errors, write_atomically
from alebrije.demo import gallery, toys
from alebrije.demo.figures import curves, hinton_diagram, label_maps
from alebrije.results import MetricResult
from alebrije.sheets.sheet import Card

SEED = 0


@dataclass(frozen=True)
class ScoreCell:
    """A displayed score: text, interval, hue from 0 (bad) to 1 (good), and a note."""

    text: str
    interval: str
    hue: float | None
    note: str


@dataclass(frozen=True)
class MetricRow:
    """The scores of one metric in all columns, and the faults it detects."""

    name: str
    title: str
    cites: str
    direction: str
    cells: list[ScoreCell]
    detects: list[str]


ScoreTable = dict[str, dict[str, MetricResult]]  # column -> metric -> result


@dataclass(frozen=True)
class WorldGallery:
    """The cards of the worlds, episodes and analogies on the page."""

    worlds: tuple[Card, ...] = ()
    episodes: tuple[Card, ...] = ()
    analogies: tuple[Card, ...] = ()


def write_toys_page(folder: Path, rows: int, track: Callable[[Iterable[str]], Iterable[str]]) -> Path:
    """Write `index.html` and `scores.json` to `folder`, print the tables, and return the path of the page.

    `track` can show progress.
    """
    with explain_write_errors(folder):  # fail before the work
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    repeats = max(1, round(rows / toys.VALUES ** len(toys.FACTOR_NAMES)))
    maps = toys.segmentations(images=32, seed=SEED)
    inputs = _representation_inputs(repeats) | {
        name: {"true": maps.true, "pred": pred} for name, pred in maps.predictions.items()
    }
    steps: dict[str, Callable[[], Any]] = {
        **{name: partial(_score, arrays) for name, arrays in inputs.items()},
        **{name: partial(gallery.world_card, name, SEED) for name in gallery.WORLDS},
        "episodes": partial(gallery.episode_cards, SEED),
        "analogy": partial(gallery.analogy_card, SEED),
    }
    done = {name: steps[name]() for name in track(list(steps))}
    table: ScoreTable = {name: done[name] for name in inputs}
    cards = WorldGallery(tuple(done[name] for name in gallery.WORLDS), done["episodes"], (done["analogy"],))
    representations = {name: table[name] for name in toys.REPRESENTATIONS}
    segmentations = {name: table[name] for name in maps.predictions}
    page = folder / "index.html"
    numbers, text = _as_json(table), _render(representations, segmentations, maps, repeats, cards)
    with explain_write_errors(folder):
        write_atomically(folder / "scores.json", numbers)
        write_atomically(page, text)
    for part in (representations, segmentations):
        _print(part)
    return page


def _representation_inputs(repeats: int) -> dict[str, dict[str, Any]]:
    factors = toys.all_combinations(repeats)
    return {
        name: {
            "codes": encode(factors, np.random.default_rng(SEED)),
            "factors": factors,
            **toys.analogy_codes(encode, cases=640, seed=SEED),
        }
        for name, encode in toys.REPRESENTATIONS.items()
    }


def _score(arrays: dict[str, Any]) -> dict[str, MetricResult]:
    return {call.record.name: scoring.run_metric(call, seed=SEED) for call in scoring.metric_calls(arrays)}


def _as_json(table: ScoreTable) -> str:
    content = {
        "library_version": __version__,
        "seed": SEED,
        "scores": {column: [r.model_dump(mode="json") for r in results.values()] for column, results in table.items()},
    }
    return json.dumps(content, allow_nan=False) + "\n"


def table_rows(table: ScoreTable) -> list[MetricRow]:
    """One row per metric; the first column has no fault, and the others are compared with it."""
    columns = list(table)
    return [
        MetricRow(
            name=name,
            title=best.title,
            cites=best.cites,
            direction=best.direction,
            cells=[_cell(table[column][name], best) for column in columns],
            detects=[column for column in columns[1:] if _detects(best, table[column][name])],
        )
        for name, best in table[columns[0]].items()
    ]


def _detects(best: MetricResult, other: MetricResult) -> bool:
    """A fault is detected if there is no score, a verdict changes, or the score is worse by a tenth of the best."""
    if best.score is None:
        return False
    if other.score is None or best.details.get("passed", True) > other.details.get("passed", True):
        return True
    worse = best.score - other.score if best.direction == "higher" else other.score - best.score
    return worse > 0.1 * abs(best.score)


def _cell(result: MetricResult, best: MetricResult) -> ScoreCell:
    passed = result.details.get("passed")
    note = result.reason or (
        "" if passed is None else "passes the hard negatives" if passed else "fails hard negatives"
    )
    if result.score is None:
        return ScoreCell("null", "", None, note)
    interval = result.interval
    span = "" if interval is None else f"{_rounded(interval.low)} to {_rounded(interval.high)}"
    return ScoreCell(_rounded(result.score), span, _hue(result, best), note)


def _rounded(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}"  # adding 0 turns -0 into 0


def _hue(result: MetricResult, best: MetricResult) -> float | None:
    if result.score is None or best.score is None:
        return None
    if result.direction == "higher":
        share = result.score / best.score if best.score > 0 else 0.0
    else:
        share = best.score / result.score if result.score > 0 else 1.0
    return min(max(share, 0.0), 1.0) if math.isfinite(share) else None


def _render(
    representations: ScoreTable, segmentations: ScoreTable, maps: toys.Segmentations, repeats: int, cards: WorldGallery
) -> str:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("alebrije.demo"), PackageLoader("alebrije.sheets")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    first = {"truth": maps.true[0], **{name: pred[0] for name, pred in maps.predictions.items()}}
    return environment.get_template("toys.html").render(
        version=__version__,
        seed=SEED,
        scenes=repeats * toys.VALUES ** len(toys.FACTOR_NAMES),
        images=len(maps.true),
        hintons=[_hinton(name, results) for name, results in representations.items()],
        representation_names=list(representations),
        representation_rows=table_rows(representations),
        segmentation_picture=label_maps(first),
        segmentation_names=list(segmentations),
        segmentation_rows=table_rows(segmentations),
        slot_curve=_slot_curve(),
        gallery=cards,
        rule=gallery.RULE,
    )


def _hinton(name: str, results: Mapping[str, MetricResult]) -> str:
    information = np.array(results["mig"].details["information"])
    alignment = results["snc"].details["alignment"]
    return hinton_diagram(information, alignment, toys.FACTOR_NAMES, name, full=math.log(toys.VALUES))


def _slot_curve() -> str:
    curve = toys.slot_number_curve()
    measures = {
        "ARI": metrics.adjusted_rand_index,
        "ARP": metrics.adjusted_rand_precision,
        "ARR": metrics.adjusted_rand_recall,
    }
    lines = {name: [float(f(true, pred)[0]) for true, pred in curve.values()] for name, f in measures.items()}
    return curves(list(curve), lines, "number of predicted segments (the truth has 16)", mark=16)


def _print(table: ScoreTable) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    rich_table = RichTable("metric", *table, "detects", box=None, pad_edge=False)
    for row in table_rows(table):
        rich_table.add_row(row.name, *(cell.text for cell in row.cells), ", ".join(row.detects) or "nothing")
    console = Console()
    Console(width=None if console.is_terminal else 120).print(rich_table)
