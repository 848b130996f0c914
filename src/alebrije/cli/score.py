"""The commands `score` and `metrics`: score a file, list the metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from alebrije.cli.paths import OutPath
from alebrije.cli.printing import print_table
from alebrije.errors import InputError

if TYPE_CHECKING:
    from alebrije.results.scores import MetricResult, Scores

_MOST_RESAMPLES = 100_000  # as in alebrije.scoring, which takes too long to import for a mistake
_DCI = ("disentanglement", "completeness", "informativeness")


@dataclass(frozen=True)
class Score:
    """Score the codes, segmentations, analogies or predictions in a file with every metric that fits."""

    file: tyro.conf.Positional[Path]
    """An .npz or .safetensors file with codes and factors (and factor_names); or true and pred (or masks);
    or a, b, c, d and negatives.<name>; or target and predicted."""
    metrics: list[str] = field(default_factory=list)
    """Names from `alebrije metrics`; every metric that fits by default."""
    out: OutPath | None = None
    """JSON file to write the scores to."""
    bootstrap: int | None = None
    """Resamples for the 95 % intervals; 0 for none. Default: 1000 for metrics that average cases, 10 for metrics that
    must be recomputed, and none for slow metrics such as dci."""
    seed: int = 0
    """Seed of the resampling."""

    def run(self) -> None:
        """Read the file, score it, print the scores and write them."""
        if self.bootstrap is not None and (self.bootstrap < 0 or self.bootstrap == 1):
            raise InputError(f"--bootstrap must be 0 or at least 2, not {self.bootstrap}")
        if self.bootstrap is not None and self.bootstrap > _MOST_RESAMPLES:
            raise InputError(f"--bootstrap must be at most {_MOST_RESAMPLES:,}, not {self.bootstrap:,}")
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0, not {self.seed}")
        if self.out is not None:
            self._check_out(self.out)
        from alebrije.atomic import explain_write_errors, write_atomically
        from alebrije.cli.progress import track
        from alebrije.data import read_arrays
        from alebrije.scoring import score_file

        scores = score_file(read_arrays(self.file), self.metrics, self.bootstrap, self.seed, track)
        _print_scores(scores)
        if self.out is not None:
            with explain_write_errors(self.out):
                write_atomically(self.out, scores.to_json())
            print(f"written to {self.out}")

    def _check_out(self, out: Path) -> None:
        """Refuse a path that cannot be written, before any work."""
        if not out.parent.is_dir():
            raise InputError(f"--out {out}: the folder {out.parent} does not exist")
        if out.exists() and not out.is_file():
            raise InputError(f"--out {out}: is {'a folder' if out.is_dir() else 'not a regular file'}")
        if out.exists() and self.file.exists() and out.samefile(self.file):
            raise InputError(f"--out {out}: is the input file")
        from alebrije.atomic import check_writable

        check_writable(out.parent)


@dataclass(frozen=True)
class Metrics:
    """List every metric with its inputs, range, direction and source."""

    def run(self) -> None:
        """Print the catalog."""
        from rich.table import Table

        from alebrije.metrics import catalog

        table = Table("name", "metric", "needs", "range", "better", "source", title="Metrics", box=None, pad_edge=False)
        for record in catalog().values():
            low, high = (f"{end:g}" for end in record.range)
            table.add_row(
                record.name, record.title, ", ".join(record.inputs), f"{low}..{high}", record.direction, record.cites
            )
        print_table(table)


def _print_scores(scores: Scores) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("metric", "score", "95 % interval", "better", "notes", box=None, pad_edge=False)
    table.title = Text(f"{scores.input.file}  (sha256 {scores.input.sha256[:12]})")
    for result in scores.results:
        table.add_row(result.metric, *_cells(result), result.direction, Text("; ".join(_notes(result))))
    print_table(table)


def _cells(result: MetricResult) -> tuple[str, str]:
    interval = result.interval
    span = "-" if interval is None else f"{interval.low:.4g} .. {interval.high:.4g}"
    return ("null" if result.score is None else f"{result.score:.4f}"), span


def _notes(result: MetricResult) -> list[str]:
    notes = [reason for reason in (result.reason, result.interval_reason) if reason]
    tests = result.details.get("tests")
    if tests is not None:
        failed = [name for name, test in tests.items() if not test["passed"]]
        verdict = "passes every hard negative" if tests and not failed else f"fails {', '.join(failed)}"
        notes.append(verdict if tests else "no hard negatives, so the score may rest on a shortcut")
    if "disentanglement" in result.details:
        parts = {name[0].upper(): result.details[name] for name in _DCI}
        notes.append(" ".join(f"{k} {'null' if v is None else format(v, '.3f')}" for k, v in parts.items()))
    return notes
