"""The commands `score` and `metrics`: score a file, list the metrics."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from alebrije.cli.paths import OutPath
from alebrije.cli.printing import print_table
from alebrije.errors import InputError

if TYPE_CHECKING:
    from alebrije.results import ResultTable
    from alebrije.results.scores import MetricResult, Scores

Format = Literal["text", "csv", "markdown", "latex", "json"]
_MOST_RESAMPLES = 100_000  # as in alebrije.scoring, which takes too long to import for a mistake
_DCI = ("disentanglement", "completeness", "informativeness")


@dataclass(frozen=True)
class Score:
    """Score the codes, segmentations, analogies or predictions in files with every metric that fits."""

    files: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="FILE...")]
    """.npz or .safetensors files with codes and factors (and factor_names); or true and pred (or masks);
    or a, b, c, d and negatives.<name>; or target and predicted. Several are models beside each other."""
    metrics: list[str] = field(default_factory=list)
    """Names from `alebrije metrics`; every metric that fits by default."""
    out: OutPath | None = None
    """JSON file to write the scores of one file to; or a folder, for the results of all files and report.html."""
    bootstrap: int | None = None
    """Resamples for the 95 % intervals; 0 for none. Default: 1000 for metrics that average cases, 10 for metrics that
    must be recomputed, and none for slow metrics such as dci."""
    seed: int = 0
    """Seed of the resampling."""
    format: Format = "text"
    """Format of the table."""

    def run(self) -> None:
        """Read the files, score them, print the scores and write them."""
        if not self.files:
            raise InputError("nothing to score; name at least one file, see `alebrije score --help`")
        if self.bootstrap is not None and (self.bootstrap < 0 or self.bootstrap == 1):
            raise InputError(f"--bootstrap must be 0 or at least 2, not {self.bootstrap}")
        if self.bootstrap is not None and self.bootstrap > _MOST_RESAMPLES:
            raise InputError(f"--bootstrap must be at most {_MOST_RESAMPLES:,}, not {self.bootstrap:,}")
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0, not {self.seed}")
        if self._into_folder:
            self._score_all()
            return
        if self.out is not None:
            self._check_out(self.out)
        from alebrije.atomic import explain_write_errors, write_atomically
        from alebrije.cli.progress import track
        from alebrije.data import read_arrays
        from alebrije.scoring import score_file

        scores = score_file(read_arrays(self.files[0]), self.metrics, self.bootstrap, self.seed, track)
        if self.format == "text":
            _print_scores(scores)
        else:
            print(_table_of(scores).render(self.format), end="")
        if self.out is not None:
            with explain_write_errors(self.out):
                write_atomically(self.out, scores.to_json())
            print(f"written to {self.out}", file=sys.stdout if self.format == "text" else sys.stderr)

    @property
    def _into_folder(self) -> bool:
        """Whether the scores become a result folder: of several files, or if `--out` is no name of a JSON file."""
        return len(self.files) > 1 or (self.out is not None and (self.out.is_dir() or not self.out.suffix))

    def _score_all(self) -> None:
        """Score all files into one table, and into a folder with a report if `--out` names one."""
        import tempfile

        if self.out is not None and self.out.suffix == ".json" and not self.out.is_dir():
            raise InputError(f"--out {self.out}: the scores of {len(self.files)} files need a folder, not a JSON file")
        from alebrije.cli.progress import track
        from alebrije.evaluate import scored_report
        from alebrije.instruments.scored_files import Options, score_files
        from alebrije.results.text_table import hide_single_seeds
        from alebrije.studies.commands import note_command
        from alebrije.studies.folder import ResultFolder

        options = Options(tuple(self.metrics), self.bootstrap, self.seed)
        with tempfile.TemporaryDirectory(prefix="alebrije-") as temporary:
            folder = ResultFolder(temporary if self.out is None else self.out)
            scored = score_files(self.files, folder, options, track)
            report = scored_report(folder, scored)
            if self.format == "text":
                print(report)
            else:
                table = report.table().over_seeds()
                in_text = self.format in ("markdown", "latex")
                print((hide_single_seeds(table) if in_text else table).render(self.format), end="")
            if self.out is None:
                return
            for study in scored.studies:
                note_command(folder, study, shlex.join(["alebrije", *sys.argv[1:]]))
            print(f"the report is {report.save(self.out / 'report.html')}", file=sys.stderr)

    def _check_out(self, out: Path) -> None:
        """Refuse a path that cannot be written, before any work."""
        if not out.parent.is_dir():
            raise InputError(f"--out {out}: the folder {out.parent} does not exist")
        if out.exists() and not out.is_file():
            raise InputError(f"--out {out}: is not a regular file")
        if out.exists() and self.files[0].exists() and out.samefile(self.files[0]):
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


def _table_of(scores: Scores) -> ResultTable:
    """A row for each metric, for files and programs."""
    from alebrije.results import ResultTable

    rows = []
    for one in scores.results:
        low, high = (None, None) if one.interval is None else (one.interval.low, one.interval.high)
        rows.append({"metric": one.metric, "score": one.score, "low": low, "high": high, "reason": one.reason})
    return ResultTable(("metric", "score", "low", "high", "reason"), tuple(rows))


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
