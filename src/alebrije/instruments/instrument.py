"""The record of an instrument: everything the runner, the report and the command line know about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from alebrije.report.findings import Finding, Findings
from alebrije.report.parts import Section
from alebrije.report.verdict import Verdict
from alebrije.studies.run import Study


@dataclass(frozen=True, kw_only=True)
class Instrument(Study):
    """One way to examine a model: how it is studied, judged and shown."""

    score: str
    title: str
    question: str
    cites: str
    verdict: Callable[[Sequence[Finding]], Verdict]  # on one model
    rule: str  # how its marks are given, in words
    decisive: Callable[[Sequence[Finding]], Sequence[Finding]]  # those whose `score` is compared with the yardsticks
    section: Callable[[Findings], Section]  # charts, tables, galleries and remarks of its section
