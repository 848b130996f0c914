"""A table that puts the models of a report beside those of the zoo, whose results come with alebrije."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from alebrije import zoo
from alebrije.report.findings import Finding, Findings, read_findings
from alebrije.report.grids import estimate_entry
from alebrije.report.parts import Entry, ReportTable, slug
from alebrije.report.sections import mean_known
from alebrije.results.formats import visible
from alebrije.studies.folder import ResultFolder
from alebrije.studies.references import REFERENCES

_SETTING = ("size", "world", "corpus", "rule", "alpha", "setting", "feature")
_NOTE = (
    "The mean over the settings that the verdict of a model of this report is about. Models of the zoo are trained "
    "networks that come with alebrije; `alebrije zoo` says how each was trained."
)
Decisive = Callable[[Sequence[Finding]], Sequence[Finding]]


@cache
def zoo_findings() -> Findings:
    """What is known about the models of the zoo and the references."""
    return read_findings(ResultFolder(zoo.RESULTS), published=False)


def zoo_table(findings: Findings, study: str, decisive: Decisive, metric: str) -> list[ReportTable]:
    """A row for each model, each model of the zoo and each reference, over the settings that were examined here."""
    own = {model: decisive(findings.of(study, model)) for model in findings.models if model not in REFERENCES}
    settings = {_setting(finding) for found in own.values() for finding in found}
    known = {str(finding.get("model")) for finding in findings.all}
    beside: dict[str, list[Finding]] = {}
    for finding in zoo_findings().of(study):
        if finding.get("model") not in known and _setting(finding) in settings:
            beside.setdefault(str(finding.get("model")), []).append(finding)
    rows = [_row(found, metric) for found in own.values()]
    theirs = [_row(decisive(found), metric) for found in beside.values()]
    if not any(rows) or not any(theirs):
        return []
    shown = tuple(row for row in (*rows, *theirs) if row is not None)
    columns = ("model", "trained on", metric, "settings")
    return [ReportTable(slug(study, "zoo"), "Beside the zoo", columns, shown, _NOTE)]


def _row(found: Sequence[Finding], metric: str) -> tuple[Entry, ...] | None:
    """Name, training world, score and settings of a model; None without a score."""
    score = mean_known(found, metric)
    if score is None:
        return None
    name, trained = visible(str(found[0].get("model"))), visible(found[0].trained_on)
    small = (REFERENCES[name],) if name in REFERENCES else ()
    return Entry(name, name.lower(), small), Entry(trained, trained), estimate_entry(score), Entry(str(len(found)))


def _setting(finding: Finding) -> tuple[Any, ...]:
    return tuple(finding.get(name) for name in _SETTING)
