"""The commands `results`, `compare`, `merge` and `report`: tables, comparisons, and the report page."""

from __future__ import annotations

import shlex
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from alebrije.cli.paths import OutPath
from alebrije.errors import InputError, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alebrije.results import ResultTable

Format = Literal["text", "csv", "markdown", "latex", "json"]
Folders = Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="DIR...")]


@dataclass(frozen=True)
class Results:
    """Print the results of a folder as a table, filtered by a query."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """A folder that `eval` or `study` filled."""
    summary: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """One row per model: the score of each instrument with its interval, and the verdict."""
    query: str | None = None
    """Conditions on rows, such as 'study=neurons metric=SNC,NK seed<3 model=*vae'."""
    seeds: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """One row per seed, instead of mean, standard error and 95 % interval."""
    rows: tuple[str, ...] = ()
    """With --columns: labels for the rows of a pivot table."""
    columns: tuple[str, ...] = ()
    """With --rows: labels for its columns, such as metric."""
    format: Format = "text"
    """Format of the table."""

    def run(self) -> None:
        """Print the table; list damaged files and failures on standard error."""
        if bool(self.rows) != bool(self.columns):
            raise InputError("a pivot table needs both --rows and --columns")
        if self.summary:
            self._print_summary()
            return
        from alebrije.results import latest_results, result_table
        from alebrije.studies.folder import open_results

        store = open_results(self.folder).store
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # problems are listed below
            results, older = latest_results(store.all())
        everything = result_table(results)
        table = everything.where(self.query or "")
        _check_query(table, everything, self.query)
        if self.rows:
            table = table.pivot(self.rows, self.columns)
        elif not self.seeds:
            table = table.over_seeds()
        _print(table, self.format)
        if older:
            plural = "s" if older > 1 else ""
            _warn(f"Skipped {older} older result{plural} with the same labels but different weights or settings.")
        _warn(*map(str, store.problems()))
        _warn(*(f"failed: {result.cell}: {result.fault}" for result in results if result.status == "failed"))

    def _print_summary(self) -> None:
        if self.query or self.rows or self.seeds:
            raise InputError("--summary shows every model; leave out --query, --seeds, --rows and --columns")
        from alebrije.instruments.summary import summary_table, summary_text
        from alebrije.report.findings import read_findings
        from alebrije.studies.folder import open_results

        findings = read_findings(open_results(self.folder), published=False)
        if self.format == "text":
            print(summary_text(findings), end="")
        else:
            _print(summary_table(findings), self.format)
        _warn(*map(str, findings.problems))
        _warn(*(f"failed: {result.cell}: {result.fault}" for result in findings.failed))


@dataclass(frozen=True)
class Compare:
    """Compare runs with each other, with published numbers and with the models of the zoo."""

    folders: Folders
    """Folders that `eval` or `study` filled; the others are compared with the first."""
    published: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Compare with the papers' tables, which come with alebrije."""
    zoo: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Put the models of the zoo and the references beside yours; their results come with alebrije."""
    query: str | None = None
    """Conditions on rows, as in `results`."""
    format: Format = "text"
    """Format of the table."""

    def run(self) -> None:
        """Print the comparison."""
        if not self.folders:
            raise InputError("nothing to compare; name at least one folder of results")
        if len(self.folders) == 1 and not (self.published or self.zoo):
            raise InputError(
                f"{self.folders[0]} cannot be compared alone; name another folder, or add --published or --zoo"
            )
        from alebrije import zoo
        from alebrije.results import compare, latest_results, result_table
        from alebrije.studies.folder import open_results

        stores = [open_results(folder).store for folder in self.folders]
        named = {str(folder): store for folder, store in zip(self.folders, stores, strict=True)}
        if len(named) < len(stores):
            raise InputError("a run cannot be compared with itself; name each folder once")
        shipped = open_results(zoo.RESULTS).store if self.zoo else None
        table = compare(named, self.published, self.query, shipped)
        if self.zoo and not any(row.get("zoo") for row in table.rows):
            _warn("The zoo was not examined in these settings; see `alebrije zoo`.")
        if len(named) > 1 and len(table) and not any(set(named) <= {*_filled(row)} for row in table.rows):
            _warn(f"{' and '.join(named)} have no value in common")
        compared = {(row["metric"], row.get("world"), row.get("corpus")) for row in table.rows if row.get("source")}
        matched = [row for row in table.rows if (row["metric"], row.get("world"), row.get("corpus")) in compared]
        if self.published and matched:
            if skipped := len(table) - len(matched):
                _warn(f"Skipped {skipped} value{'s' if skipped > 1 else ''} without a published number.")
            table = type(table)(table.columns, tuple(matched))
        elif self.published and len(table):
            _warn("The papers report no model on the same instrument, world and metric.")
        if not len(table):
            everything = result_table([result for store in stores for result in latest_results(store.all())[0]])
            _check_query(table, everything, self.query)
        _print(table, self.format)


@dataclass(frozen=True)
class Merge:
    """Merge folders of results, such as those of machines without a shared disk, into one. It may be new."""

    folders: Folders
    """Folders that `eval` or `study` filled. They are not changed."""
    into: OutPath
    """The folder to add to. The same command continues a merge that was stopped."""

    def run(self) -> None:
        """Copy what is missing, and name cells that were computed twice with different values."""
        from alebrije.cli.progress import track
        from alebrije.studies.merging import merge_folders

        merged = merge_folders(self.folders, self.into, track)
        print(f"{merged}; see them with: {shlex.join(['alebrije', 'results', str(self.into)])}")
        _warn(*merged.damaged)
        _warn(*(f"computed twice with different values, the first are kept: {cell}" for cell in merged.different))


@dataclass(frozen=True)
class Report:
    """Write everything in a folder to one web page with text, pictures and tables. It works offline."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """A folder that `eval` or `study` filled."""
    out: OutPath | None = None
    """File to write the page to; default DIR/report.html."""
    figures: OutPath | None = None
    """Folder to write the figures to, as SVG and PDF."""

    def run(self) -> None:
        """Write the page and print its path."""
        from alebrije.evaluate import write_figures, write_report
        from alebrije.studies.folder import open_results

        folder = open_results(self.folder)
        page = write_report(folder, self.out or self.folder / "report.html")
        print(f"written to {page}")
        if self.figures is not None:
            print(f"{len(write_figures(folder, self.figures))} figures written to {self.figures}")


def _filled(row: Mapping[str, object]) -> list[str]:
    """The columns of a row that are not empty."""
    return [name.removesuffix(" (run)") for name, value in row.items() if value is not None]


def _print(table: ResultTable, form: Format) -> None:
    """Print text as wide as the terminal, or another format for files and programs."""
    import shutil

    from alebrije.results import fit_to_width
    from alebrije.results.text_table import WIDTH, hide_single_seeds

    if not len(table):
        return
    filled = [name for name in table.columns if any(row.get(name) is not None for row in table.rows)]
    shown = type(table)(tuple(name for name in filled if name != "key"), table.rows)
    if form == "text":
        width = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
        print(fit_to_width(shown, width), end="")
    elif form in ("markdown", "latex"):
        print(hide_single_seeds(shown).render(form), end="")
    else:
        print(shown.render(form), end="")


def _check_query(table: ResultTable, everything: ResultTable, query: str | None) -> None:
    """Warn about values in a query that no row has; an InputError if the table is empty because of them."""
    sentences = everything.unmet(query) if query else []
    if not len(table) and sentences:
        raise InputError(f"no values match: {'; '.join(sentences)}")
    if not len(table):
        sentences = [f"no values match {query!r}" if len(everything) else "there are no values here"]
    _warn(*sentences)


def _warn(*lines: str) -> None:
    for line in lines:
        print(plain(line), file=sys.stderr)
