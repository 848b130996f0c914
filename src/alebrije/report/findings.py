"""What a folder of results holds, as the report needs it: cells that are alike but for the seed, taken together."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from alebrije.report.commands import derived_command, noted_commands
from alebrije.results import DamagedResultWarning, Estimate, Problem, Result, Value, merged, published_for
from alebrije.results.canonical import digest
from alebrije.results.estimates import mean_over_seeds
from alebrije.results.merging import without_outlived
from alebrije.results.published import Published
from alebrije.results.tables import estimate
from alebrije.studies.folder import Array, Folder
from alebrije.studies.protocol import STUDY_NAMES
from alebrije.studies.subjects import REFERENCES

Labels = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Group:
    """Results of one study that are alike in every label but the seed."""

    study: str
    subject: str  # how the model is called on the page; empty where a result is of all models together
    labels: Labels
    results: tuple[Result, ...]
    beside: bool = True  # whether the papers' numbers are wanted

    def get(self, name: str, default: Any = None) -> Any:
        """A label."""
        found = self.labels.get(name)
        return default if found is None else found

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its values, in the order in which they were computed."""
        return tuple(dict.fromkeys(name for result in self.results for name in result.values))

    def values(self, *metrics: str) -> list[Value]:
        """The value of every seed under the first of these names that there is, in any case."""
        for metric in metrics:
            for name in self.metrics:
                if name.lower() == metric.lower():
                    return [result.values[name] for result in self.results if name in result.values]
        return []

    def estimate(self, *metrics: str) -> Estimate | None:
        """The mean over seeds; None where no seed has such a value at all."""
        values = self.values(*metrics)
        return mean_over_seeds([estimate(value) for value in values]) if values else None

    def known(self, *metrics: str) -> Estimate | None:
        """The mean over seeds; None also where it is null."""
        found = self.estimate(*metrics)
        return None if found is None or found.value is None else found

    def detail(self, name: str, *metrics: str) -> Any:
        """A detail of the values under the first of these names in which there is one."""
        for metric in metrics:
            for value in self.values(metric):
                if value.details.get(name) is not None:
                    return value.details[name]
        return None

    def mean_detail(self, name: str, metric: str) -> Estimate | None:
        """The mean over seeds of a detail that is a number."""
        found = [value.details.get(name) for value in self.values(metric)]
        known = [Estimate(float(one)) for one in found if isinstance(one, (int, float)) and not isinstance(one, bool)]
        return mean_over_seeds(known) if known else None

    def published(self, metric: str) -> list[Published]:
        """The papers' numbers that belong beside a value."""
        return published_for(self.labels, metric) if self.beside else []

    def one_published(self, *metrics: str) -> Published | None:
        """The paper's number that belongs beside a value, where the labels choose one."""
        for metric in metrics:
            found = self.published(metric)
            if found and len({(one.value, one.standard_error) for one in found}) == 1:
                return found[0]
        return None


@dataclass(frozen=True)
class Findings:
    """All that the report says is derived from this."""

    folder: Folder
    results: tuple[Result, ...]  # that were done
    failed: tuple[Result, ...]
    problems: tuple[Problem, ...]
    groups: tuple[Group, ...]
    older: int  # results that later ones with the same labels stand for
    commands: Mapping[str, tuple[str, ...]]

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies that have cells: the four instruments in their order, then any others."""
        there = dict.fromkeys(result.cell.study for result in (*self.results, *self.failed))
        return (*(name for name in STUDY_NAMES if name in there), *(name for name in there if name not in STUDY_NAMES))

    @property
    def subjects(self) -> tuple[str, ...]:
        """Who was examined: models, then references; also those all of whose cells failed."""
        names = dict.fromkeys(group.subject for group in self.groups if group.subject)
        models = {group.subject: group.get("model") for group in self.groups}
        known = {str(group.get("model")) for group in self.groups}
        lost = dict.fromkeys(str(result.cell.labels.get("model") or "") for result in self.failed)
        names |= {name: None for name in lost if name and name not in known}
        return tuple(sorted(names, key=lambda name: _rank(models.get(name, name))))

    @property
    def times(self) -> tuple[datetime, datetime] | None:
        """When the first and the last cell were stored."""
        created = [result.created for result in (*self.results, *self.failed)]
        return (min(created), max(created)) if created else None

    def of(self, study: str, subject: str | None = None) -> list[Group]:
        """The groups of a study, of one subject or of all."""
        return [group for group in self.groups if group.study == study and subject in (None, group.subject)]

    def failures(self, study: str, subject: str) -> int:
        """How many cells of a subject failed; of models that share a name, those of all of them."""
        names = {str(group.get("model")) for group in self.groups if group.subject == subject} or {subject}
        return sum(
            result.cell.study == study and str(result.cell.labels.get("model")) in names for result in self.failed
        )

    def command(self, study: str, labels: Labels | None = None) -> str:
        """The command that made the cells of a study: as it was given, else as it would be given."""
        given = self.commands.get(study, ())
        if given:
            fitting = [one for one in given if labels and str(labels.get("size")) in one.split()]
            return (fitting or list(given))[-1]
        sizes = [group.get("size") for group in self.of(study)]
        size = labels.get("size") if labels and labels.get("size") else next((one for one in sizes if one), None)
        return derived_command(study, size, self.folder.path)

    def samples(self, group: Group) -> dict[str, Array]:
        """The arrays kept for the first of a group's cells that has some."""
        return next((kept for result in group.results if (kept := self.folder.samples(result.cell))), {})


def read_findings(folder: Folder, *, published: bool = True, keys: Container[str] | None = None) -> Findings:
    """Reads a folder. What is damaged is listed and not read; nothing that is found there stops the report.

    With `keys` only the results of these cells are read.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedResultWarning)  # they are among the problems
        everything = [result for result in folder.store.all() if keys is None or result.key in keys]
        problems = folder.store.problems()
    done = [result for result in everything if result.status == "done"]
    whole = merged(done)
    latest, names = _told_apart(whole)
    groups: dict[tuple[Any, ...], list[Result]] = defaultdict(list)
    for result in latest:
        groups[_place(result, names[result.key])].append(result)
    made = tuple(_group(results, names, published) for results in groups.values())
    return Findings(
        folder=folder,
        results=tuple(done),
        failed=tuple(result for result in without_outlived(everything) if result.status == "failed"),
        problems=tuple(problems),
        groups=tuple(sorted(made, key=_order)),
        older=len(whole) - len(latest),
        commands=noted_commands(folder),
    )


def _told_apart(results: Sequence[Result]) -> tuple[list[Result], dict[str, str]]:
    """One result for each set of labels, the latest, and the name of its subject.

    Models of one name but other weights are told apart by a part of their digest; the size is named where there are
    several.
    """
    sizes = {result.cell.labels.get("size") for result in results}
    alike: dict[tuple[Any, ...], list[Result]] = defaultdict(list)
    for result in results:
        alike[(result.cell.study, *_exact(result.cell.labels))].append(result)
    doubles = {
        result.cell.labels.get("model")
        for rows in alike.values()
        if len({_identity(row) for row in rows}) > 1
        for result in rows
    }
    names = {result.key: _name(result, doubles, len(sizes) > 1) for result in results}
    latest: dict[tuple[Any, ...], Result] = {}
    for result in sorted(results, key=lambda result: result.created):
        latest[(names[result.key], result.cell.study, *_exact(result.cell.labels))] = result
    return list(latest.values()), names


def _name(result: Result, doubles: set[Any], several_sizes: bool) -> str:
    labels = result.cell.labels
    if labels.get("model") is None:
        return ""
    name = str(labels["model"])
    if labels["model"] in doubles:
        name += f" [{_identity(result)[:6]}]"
    return f"{name} ({labels.get('size')})" if several_sizes and labels.get("size") else name


def _identity(result: Result) -> str:
    """The model itself, which how many images it sees at a time, and where, does not change."""
    subject = result.cell.inputs.get("subject")
    if isinstance(subject, Mapping):
        subject = {name: value for name, value in subject.items() if name not in ("batch", "device")}
    return digest(subject)


def _exact(labels: Labels) -> Iterator[tuple[str, bool, Any]]:
    return ((name, isinstance(value, bool), value) for name, value in sorted(labels.items()))


def _place(result: Result, name: str) -> tuple[Any, ...]:
    shown = {label: value for label, value in result.cell.labels.items() if label != "seed"}
    return (result.cell.study, name, *_exact(shown))


def _group(results: Iterable[Result], names: Mapping[str, str], beside: bool) -> Group:
    rows = sorted(results, key=lambda result: str(result.cell.labels.get("seed")))
    labels = {name: value for name, value in rows[0].cell.labels.items() if name != "seed"}
    return Group(rows[0].cell.study, names[rows[0].key], labels, tuple(rows), beside)


def _order(group: Group) -> tuple[Any, ...]:
    values = [value for name, value in group.labels.items() if name != "model"]
    known = [(0, value, "") if isinstance(value, (int, float)) else (1, 0.0, str(value)) for value in values]
    return (group.study, *_rank(group.get("model")), group.subject, known)


def _rank(model: Any) -> tuple[int, str]:
    """Models before references, these in their own order."""
    name = str(model)
    return (1 + REFERENCES.index(name), "") if name in REFERENCES else (0, name.lower())
