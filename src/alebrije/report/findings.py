"""Findings: the results of a folder, grouped over seeds, from which the report and the verdicts are made."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from alebrije.arrays import Array
from alebrije.results import DamagedResultWarning, Estimate, Problem, Result, Value, merge_results, published_for
from alebrije.results.canonical_json import digest
from alebrije.results.estimates import mean_over_seeds
from alebrije.results.formats import visible
from alebrije.results.merge import without_superseded_failures
from alebrije.results.published import Published
from alebrije.results.scores import ARRAYS
from alebrije.studies.commands import derived_command, noted_commands
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import trained_on
from alebrije.studies.references import ALL_REFERENCES
from alebrije.studies.untrained import architecture, kind_of_twin

Labels = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Finding:
    """The results of one study that agree in every label but the seed."""

    study: str
    model: str  # the name of the model on the page; empty if the results are about all models together
    labels: Labels
    results: tuple[Result, ...]
    with_published: bool = True

    def get(self, label: str, default: Any = None) -> Any:
        """A label."""
        found = self.labels.get(label)
        return default if found is None else found

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its values, in the order in which they were computed."""
        return tuple(dict.fromkeys(name for result in self.results for name in result.values))

    @property
    def is_file(self) -> bool:
        """Whether the model is a file of arrays."""
        model = self.results[0].cell.inputs.get("subject")
        return isinstance(model, Mapping) and ARRAYS in model

    @property
    def trained_on(self) -> str:
        """The world or task that a model trained by alebrije learned from; empty for other models."""
        label = self.get("trained_on")
        model = self.results[0].cell.inputs.get("subject")
        plan = model.get("plan") if isinstance(model, Mapping) else None
        if label is not None or not isinstance(plan, Mapping):
            return str(label or "")
        return trained_on(str(plan.get("world")), plan.get("rule"), plan.get("alpha"))

    def values(self, *metrics: str) -> list[Value]:
        """The values of all seeds under the first of these names that exists, ignoring case."""
        for metric in metrics:
            for name in self.metrics:
                if name.lower() == metric.lower():
                    return [result.values[name] for result in self.results if name in result.values]
        return []

    def estimate(self, *metrics: str) -> Estimate | None:
        """The mean over seeds; None if there is no such value."""
        values = self.values(*metrics)
        return mean_over_seeds([Estimate.from_value(value) for value in values]) if values else None

    def known(self, *metrics: str) -> Estimate | None:
        """The mean over seeds; None also if it is null."""
        found = self.estimate(*metrics)
        return None if found is None or found.value is None else found

    def reason(self, *metrics: str) -> str | None:
        """Why the mean over seeds is null; None if it is not."""
        found = self.estimate(*metrics)
        return None if found is None else found.reason

    def detail(self, name: str, *metrics: str) -> Any:
        """A detail of the first of these values that has it."""
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
        """The papers' numbers for a value."""
        return published_for(self.labels, metric) if self.with_published else []

    def one_published(self, *metrics: str) -> Published | None:
        """The paper's number for a value, if the labels single one out."""
        for metric in metrics:
            found = self.published(metric)
            if found and len({(one.value, one.standard_error) for one in found}) == 1:
                return found[0]
        return None


@dataclass(frozen=True)
class Findings:
    """Everything the report says comes from this."""

    folder: ResultFolder
    results: tuple[Result, ...]  # done
    failed: tuple[Result, ...]
    problems: tuple[Problem, ...]
    all: tuple[Finding, ...]
    older: int  # results replaced by later ones with the same labels
    commands: Mapping[str, tuple[str, ...]]
    twins: tuple[Finding, ...] = ()  # of untrained twins, which are yardsticks and not models

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies that have cells."""
        return tuple(dict.fromkeys(result.cell.study for result in (*self.results, *self.failed)))

    @property
    def models(self) -> tuple[str, ...]:
        """The models examined, then the references, including those whose cells all failed."""
        names = dict.fromkeys(finding.model for finding in self.all if finding.model)
        labels = {finding.model: finding.get("model") for finding in self.all}
        known = {str(finding.get("model")) for finding in self.all}
        models = [result.cell.labels for result in self.failed if kind_of_twin(result.cell) is None]
        lost = dict.fromkeys(str(labels.get("model") or "") for labels in models)
        names |= {name: None for name in lost if name and name not in known}
        return tuple(sorted(names, key=lambda name: _rank(labels.get(name, name))))

    @property
    def times(self) -> tuple[datetime, datetime] | None:
        """When the first and the last cell were stored."""
        created = [result.created for result in (*self.results, *self.failed)]
        return (min(created), max(created)) if created else None

    def label_values(self, label: str, study: str | None = None, model: str | None = None) -> list[str]:
        """The different values of a label, in order of appearance."""
        chosen = [f for f in self.all if study in (None, f.study) and model in (None, f.model)]
        return list(dict.fromkeys(str(f.get(label)) for f in chosen if f.get(label) is not None))

    def of(self, study: str, model: str | None = None) -> list[Finding]:
        """The findings of a study, for one model or all."""
        return [finding for finding in self.all if finding.study == study and model in (None, finding.model)]

    def twins_of(self, finding: Finding) -> list[Finding]:
        """The findings of the untrained twins of a model in the study of a finding."""
        subject = finding.results[0].cell.inputs.get("subject")
        if not isinstance(subject, Mapping):
            return []
        own = digest(architecture(subject))
        return [
            twin for twin in self.twins
            if twin.study == finding.study and isinstance(of := twin.results[0].cell.inputs.get("subject"), Mapping)
            and digest(of.get("of")) == own
        ]  # fmt: skip

    def failures(self, study: str, model: str) -> int:
        """How many cells of a model failed. Models that share a name are counted together."""
        names = {str(finding.get("model")) for finding in self.all if finding.model == model} or {model}
        return sum(
            result.cell.study == study and str(result.cell.labels.get("model")) in names for result in self.failed
        )

    def commands_of(self, study: str) -> tuple[str, ...]:
        """The commands that computed the cells of a study, or one that would."""
        sizes = self.label_values("size", study)
        return self.commands.get(study) or (derived_command(study, sizes[0] if sizes else None, self.folder.path),)

    def samples(self, finding: Finding) -> dict[str, Array]:
        """The samples of the first cell of a finding that has some."""
        return next((kept for result in finding.results if (kept := self.folder.samples(result.cell))), {})

    def only(self, keys: Container[str]) -> Findings:
        """The findings of these cells alone."""
        everything = [result for result in (*self.results, *self.failed) if result.key in keys]
        with_published = all(finding.with_published for finding in self.all)
        return _findings(self.folder, everything, self.problems, with_published)


def first_reason(findings: Iterable[Finding], *metrics: str) -> str | None:
    """Why a value is null, from the first finding that says so."""
    return next((visible(reason) for finding in findings if (reason := finding.reason(*metrics))), None)


def read_findings(folder: ResultFolder, *, published: bool = True) -> Findings:
    """Read a result folder. Damaged files are listed as problems; they never stop the report.

    `published` puts the papers' numbers beside ours.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedResultWarning)  # they are among the problems
        everything = list(folder.store.all())
        problems = tuple(folder.store.problems())
    return _findings(folder, everything, problems, published)


def _findings(
    folder: ResultFolder, everything: Sequence[Result], problems: tuple[Problem, ...], published: bool
) -> Findings:
    done = [result for result in everything if result.status == "done"]
    whole = merge_results(done)
    latest, names = _latest_and_names(whole)
    groups: dict[tuple[Any, ...], list[Result]] = defaultdict(list)
    for result in latest:
        groups[_but_the_seed(result, names[result.key])].append(result)
    found = tuple(_finding(results, names, published) for results in groups.values())
    return Findings(
        folder=folder,
        results=tuple(done),
        failed=tuple(result for result in without_superseded_failures(everything) if result.status == "failed"),
        problems=problems,
        all=tuple(sorted((one for one in found if kind_of_twin(one.results[0].cell) is None), key=_order)),
        older=len(whole) - len(latest),
        commands=noted_commands(folder),
        twins=tuple(one for one in found if kind_of_twin(one.results[0].cell) is not None),
    )


def _latest_and_names(results: Sequence[Result]) -> tuple[list[Result], dict[str, str]]:
    """The latest result for each set of labels, and the name of its model by key.

    Models with the same name but different weights get a part of their digest; the size is named if there are several.
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
    """A digest of the model without its batch size and device."""
    model = result.cell.inputs.get("subject")
    if isinstance(model, Mapping):
        model = {name: value for name, value in model.items() if name not in ("batch", "device")}
    return digest(model)


def _exact(labels: Labels) -> Iterator[tuple[str, bool, Any]]:
    return ((name, isinstance(value, bool), value) for name, value in sorted(labels.items()))


def _but_the_seed(result: Result, name: str) -> tuple[Any, ...]:
    shown = {label: value for label, value in result.cell.labels.items() if label != "seed"}
    return (result.cell.study, name, *_exact(shown))


def _finding(results: Iterable[Result], names: Mapping[str, str], published: bool) -> Finding:
    rows = sorted(results, key=lambda result: str(result.cell.labels.get("seed")))
    labels = {name: value for name, value in rows[0].cell.labels.items() if name != "seed"}
    return Finding(rows[0].cell.study, names[rows[0].key], labels, tuple(rows), published)


def _order(finding: Finding) -> tuple[Any, ...]:
    values = [value for name, value in finding.labels.items() if name != "model"]
    known = [(0, value, "") if isinstance(value, (int, float)) else (1, 0.0, str(value)) for value in values]
    return (finding.study, *_rank(finding.get("model")), finding.model, known)


def _rank(model: Any) -> tuple[int, str]:
    """Models by name, then references in their own order."""
    name = str(model)
    return (1 + list(ALL_REFERENCES).index(name), "") if name in ALL_REFERENCES else (0, name.lower())
