"""Merging result folders, such as those of machines without a shared disk."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from alebrije.atomic import explain_write_errors, is_leftover, new_folder
from alebrije.errors import InputError
from alebrije.files import WEIGHTS, open_regular
from alebrije.results import Cell, Result, Store
from alebrije.studies.commands import note_command, noted_commands
from alebrije.studies.folder import ResultFolder, open_results


@dataclass(frozen=True)
class Merged:
    """What a merge did. Only results that were new are counted as added."""

    added: int
    known: int  # equal in both folders, or failed and computed elsewhere
    different: tuple[Cell, ...]  # computed in both folders with different values; the first folder's are kept
    runs: int  # trained models that were copied
    damaged: tuple[str, ...]

    def __str__(self) -> str:
        parts = [f"{self.added:,} results added", f"{self.known:,} known already"]
        parts += [f"{self.runs:,} trained models copied"] if self.runs else []
        parts += [f"{len(self.damaged):,} damaged files skipped"] if self.damaged else []
        return ", ".join(parts)


def merge_folders(
    sources: Sequence[str | Path], into: str | Path, track: Callable[[Iterable[Path]], Iterable[Path]] = iter
) -> Merged:
    """Copy results, their pictures, trained models and commands of several folders into one, which may be new.

    Nothing in the target is replaced, except a failure by a computed result. The same call continues a merge that was
    stopped. Codes and corpora are not copied; they are computed again when a new cell needs them.
    """
    if not sources:
        raise InputError("nothing to merge; name at least one folder of results")
    folders = [open_results(source) for source in sources]
    target = ResultFolder(into)
    if any(folder.path.resolve() == target.path.resolve() for folder in folders):
        raise InputError(f"{into}: cannot be merged into itself; name it only with --into")
    target.ready()
    added, known, runs = 0, 0, 0
    different: list[Cell] = []
    damaged: list[str] = []
    for folder in map(ResultFolder, track([folder.path for folder in folders])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # listed as damaged
            results = folder.store.all()
        damaged += map(str, folder.store.problems())
        for result in results:
            if _add(result, folder, target):
                added += 1
            elif _differs(target.store, result):
                different.append(result.cell)
            else:
                known += 1
        runs += _copy_runs(folder, target)
        for study, commands in noted_commands(folder).items():
            for command in commands:
                note_command(target, study, command)
    return Merged(added, known, tuple(different), runs, tuple(damaged))


def _add(result: Result, source: ResultFolder, target: ResultFolder) -> bool:
    """Store a result and its samples unless the cell is computed there, or failed there as well."""
    kept = target.store.get(result.cell)
    if kept is not None and (kept.status == "done" or result.status == "failed"):
        return False
    samples = source.samples(result.cell)
    if samples:
        target.keep_samples(result.cell, **samples)
    target.store.put(result)
    return True


def _differs(store: Store, result: Result) -> bool:
    """Whether a cell is stored with other values."""
    kept = store.get(result.cell)
    return kept is not None and kept.status == result.status == "done" and kept.values != result.values


def _copy_runs(source: ResultFolder, target: ResultFolder) -> int:
    """Copy the folders of training runs that the target lacks."""
    copied = 0
    runs = source.path / "runs"
    for run in sorted(runs.iterdir()) if runs.is_dir() else ():
        to = target.path / "runs" / run.name
        if not run.is_dir() or run.is_symlink() or is_leftover(run) or to.exists():
            continue
        with explain_write_errors(target.path):
            to.parent.mkdir(exist_ok=True)
            with new_folder(to) as fresh:
                _copy_files(run, fresh)
        copied += 1
    return copied


def _copy_files(source: Path, to: Path) -> None:
    """Copy regular files and folders, not links or what killed processes left."""
    for path in source.iterdir():
        if path.is_symlink() or is_leftover(path):
            continue
        if path.is_dir():
            (to / path.name).mkdir()
            _copy_files(path, to / path.name)
        elif path.is_file():
            with open_regular(path, WEIGHTS) as content, (to / path.name).open("wb") as copy:
                shutil.copyfileobj(content, copy)
