"""Commands about results: tables of them, comparisons, and the page."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from alebrije.cli.places import Place
from alebrije.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alebrije.results import Table

Format = Literal["text", "csv", "markdown", "latex", "json"]
Folders = Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="DIR...")]


@dataclass(frozen=True)
class Results:
    """Print what was found: a row for each value, chosen by a query."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """A folder that `eval` or `study` filled."""
    query: str | None = None
    """Conditions that must hold, such as 'study=neurons metric=SNC,NK seed<3 model=*vae'."""
    seeds: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Each seed in a row of its own, instead of mean, standard error and 95 % interval."""
    rows: tuple[str, ...] = ()
    """With --columns: labels that make the rows of a table with two sides."""
    columns: tuple[str, ...] = ()
    """With --rows: labels that make its columns, such as metric."""
    format: Format = "text"
    """How the table is written."""

    def run(self) -> None:
        """Reads and prints; damaged files are named on standard error."""
        if bool(self.rows) != bool(self.columns):
            raise InputError("a table with two sides needs both --rows and --columns")
        from alebrije.results import latest, table
        from alebrije.studies.folder import opened

        store = opened(self.folder).store
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # problems are listed below
            results, older = latest(store.all())
        whole = table(results)
        found = whole.where(self.query or "")
        _see_that_it_can_be_met(found, whole, self.query)
        if self.rows:
            found = found.pivot(self.rows, self.columns)
        elif not self.seeds:
            found = found.over_seeds()
        _print(found, self.format)
        if older:
            _trouble([f"{older} older results have the labels of others, of other weights or settings: left out"])
        _trouble([f"{problem}" for problem in store.problems()])
        failed = [result for result in results if result.status == "failed"]
        _trouble([f"failed: {each.cell}: {each.fault}" for each in failed])


@dataclass(frozen=True)
class Compare:
    """Set runs beside each other, and beside the numbers of the papers."""

    folders: Folders
    """Folders that `eval` or `study` filled; the first is what the others are compared with."""
    published: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Beside the papers' tables, which come with alebrije."""
    query: str | None = None
    """Conditions that must hold, as in `results`."""
    format: Format = "text"
    """How the table is written."""

    def run(self) -> None:
        """Compares and prints."""
        if not self.folders:
            raise InputError("there is nothing to compare; name at least one folder of results")
        if len(self.folders) == 1 and not self.published:
            raise InputError(f"{self.folders[0]} alone has nothing beside it; name another folder, or give --published")
        from alebrije.results import compare, latest, table
        from alebrije.studies.folder import opened

        stores = [opened(folder).store for folder in self.folders]
        named = {str(folder): store for folder, store in zip(self.folders, stores, strict=True)}
        if len(named) < len(stores):
            raise InputError("a run cannot be compared with itself; name each folder once")
        found = compare(named, self.published, self.query)
        if len(named) > 1 and len(found) and not any(set(named) <= {*_given(row)} for row in found.rows):
            _trouble([f"{' and '.join(named)} have no value in common"])
        if self.published and (beside := [row for row in found.rows if row.get("source")]):
            left = len(found) - len(beside)
            _trouble([f"{left} values that no paper printed are left out"] if left else [])
            found = type(found)(found.columns, tuple(beside))
        elif self.published and len(found):
            _trouble(["no paper printed a number for these; `alebrije eval pixels` examines one of which some did"])
        if not len(found):
            whole = table([result for store in stores for result in latest(store.all())[0]])
            _see_that_it_can_be_met(found, whole, self.query)
        _print(found, self.format)


@dataclass(frozen=True)
class Report:
    """Make one web page of everything in a folder: in words, pictures and tables. It opens offline."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """A folder that `eval` or `study` filled."""
    out: Place | None = None
    """Where to write the page; DIR/report.html unless given."""
    figures: Place | None = None
    """A folder for the figures as SVG and PDF, for papers."""

    def run(self) -> None:
        """Writes the page and says where it is."""
        from alebrije.report.page import write_figures, write_report
        from alebrije.studies.folder import opened

        folder = opened(self.folder)
        page = write_report(folder, self.out or self.folder / "report.html")
        print(f"written to {page}")
        if self.figures is not None:
            print(f"{len(write_figures(folder, self.figures))} figures written to {self.figures}")


def _given(row: Mapping[str, object]) -> list[str]:
    """The columns of a row that hold something."""
    return [name.removesuffix(" (run)") for name, value in row.items() if value is not None]


def _print(found: Table, form: Format) -> None:
    """A table for people as wide as their terminal, and else as files and other programs want it."""
    import shutil
    import sys

    from alebrije.results import folded
    from alebrije.results.folding import WIDTH, without_lone_seeds

    if not len(found):
        return
    known = [name for name in found.columns if any(row.get(name) is not None for row in found.rows)]
    shown = type(found)(tuple(name for name in known if name != "key"), found.rows)
    if form == "text":
        wide = shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
        print(folded(shown, wide), end="")
    elif form in ("markdown", "latex"):
        print(without_lone_seeds(shown).render(form), end="")
    else:
        print(shown.render(form), end="")


def _see_that_it_can_be_met(found: Table, whole: Table, query: str | None) -> None:
    """Raise an InputError if a query finds nothing because of what it names; tell what else it does not find."""
    sentences = whole.unmet(query) if query else []
    if not len(found) and sentences:
        raise InputError(f"no values fit: {'; '.join(sentences)}")
    if not len(found):
        sentences = [f"no values fit {query!r}" if len(whole) else "there are no values here"]
    _trouble(sentences)


def _trouble(lines: list[str]) -> None:
    import sys

    for line in lines:
        print(line, file=sys.stderr)
