"""Commands about metrics: score a file, list the metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from alebrije.cli.places import Place
from alebrije.cli.printing import show
from alebrije.errors import InputError

if TYPE_CHECKING:
    from alebrije.results.scores import MetricResult, Scores

_DCI = ("disentanglement", "completeness", "informativeness")


@dataclass(frozen=True)
class Score:
    """Score the codes, segmentations, analogies or predictions in a file with every metric that fits."""

    file: tyro.conf.Positional[Path]
    """An .npz or .safetensors file with codes and factors (and factor_names); or true and pred (or masks);
    or a, b, c, d and negatives.<name>; or target and predicted."""
    metrics: list[str] = field(default_factory=list)
    """Names from `alebrije metrics`; all that fit if none is given."""
    out: Place | None = None
    """Where to write the result as JSON."""
    bootstrap: int | None = None
    """Resamples for the 95 % intervals; 0 for none. Unless given, 1000 where cases are averaged, 10 where the metric is
    computed anew, and none where that takes long, as with dci."""
    seed: int = 0
    """Seed of the resampling."""

    def run(self) -> None:
        """Reads, scores, writes, prints."""
        if self.bootstrap is not None and (self.bootstrap < 0 or self.bootstrap == 1):
            raise InputError(f"--bootstrap must be 0 or at least 2, got {self.bootstrap}")
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0, got {self.seed}")
        if self.out is not None:
            self._check_out(self.out)
        from alebrije.data import read_arrays
        from alebrije.report.bars import watched
        from alebrije.results import write_atomically
        from alebrije.studies.battery import score_file

        scores = score_file(read_arrays(self.file), self.metrics, self.bootstrap, self.seed, watched)
        _print_scores(scores)
        if self.out is not None:
            write_atomically(self.out, scores.to_json())
            print(f"written to {self.out}")

    def _check_out(self, out: Path) -> None:
        """What would fail at the end is refused before the work."""
        if not out.parent.is_dir():
            raise InputError(f"--out {out}: the folder {out.parent} does not exist")
        if out.exists() and not out.is_file():
            raise InputError(f"--out {out}: is {'a folder' if out.is_dir() else 'not a regular file'}")
        if out.exists() and self.file.exists() and out.samefile(self.file):
            raise InputError(f"--out {out}: is the file to be scored")


@dataclass(frozen=True)
class Metrics:
    """List every metric: what it needs, its range and direction, its source."""

    def run(self) -> None:
        """Prints the catalog."""
        from rich.table import Table

        from alebrije.metrics import catalog

        table = Table("name", "metric", "needs", "range", "better", "source", title="Metrics", box=None, pad_edge=False)
        for record in catalog().values():
            low, high = (f"{end:g}" for end in record.range)
            table.add_row(
                record.name, record.title, ", ".join(record.inputs), f"{low}..{high}", record.direction, record.cites
            )
        show(table)


def _print_scores(scores: Scores) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("metric", "score", "95 % interval", "better", "notes", box=None, pad_edge=False)
    table.title = Text(f"{scores.input.file}  (sha256 {scores.input.sha256[:12]})")
    for result in scores.results:
        table.add_row(result.metric, *_cells(result), result.direction, Text("; ".join(_notes(result))))
    show(table)


def _cells(result: MetricResult) -> tuple[str, str]:
    interval = result.interval
    span = "-" if interval is None else f"{interval.low:.4g} .. {interval.high:.4g}"
    return ("null" if result.score is None else f"{result.score:.4f}"), span


def _notes(result: MetricResult) -> list[str]:
    notes = [each for each in (result.reason, result.interval_reason) if each]
    tests = result.details.get("tests")
    if tests is not None:
        failed = [name for name, test in tests.items() if not test["passed"]]
        verdict = "passes every hard negative" if tests and not failed else f"fails {', '.join(failed)}"
        notes.append(verdict if tests else "no hard negatives given, so the score may rest on a shortcut")
    if "disentanglement" in result.details:
        parts = {name[0].upper(): result.details[name] for name in _DCI}
        notes.append(" ".join(f"{k} {'null' if v is None else format(v, '.3f')}" for k, v in parts.items()))
    return notes
