"""The four instruments, each in a folder of its own. A fifth is one more folder and one more name here."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from alebrije.errors import InputError
from alebrije.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alebrije.instruments.instrument import Instrument
    from alebrije.report.findings import Finding, Findings
    from alebrije.report.parts import Section
    from alebrije.report.verdict import Verdict

NAMES = ("analogy", "imagination", "grouping", "neurons")


def get(name: str) -> Instrument:
    """An instrument by its name."""
    if name not in NAMES:
        raise InputError(f"there is no instrument {name!r}{did_you_mean(name, NAMES)}")
    instrument: Instrument = import_module(f"alebrije.instruments.{name}").INSTRUMENT
    return instrument


def instruments() -> dict[str, Instrument]:
    """All instruments by name."""
    return {name: get(name) for name in NAMES}


def verdicts(findings: Findings) -> dict[str, dict[str, Verdict]]:
    """The verdict of each instrument that has cells on each model: by model, then by instrument."""
    found = {name: dict(_verdicts(get(name), findings)) for name in NAMES if name in findings.studies}
    return {model: {name: by_model[model] for name, by_model in found.items()} for model in findings.models}


def sections_of(findings: Findings) -> list[Section]:
    """A section for each study that has cells. A study that is not an instrument gets its tables alone."""
    from alebrije.report.parts import Section
    from alebrije.report.sections import full_grids

    studies = findings.studies
    others = [study for study in studies if study not in NAMES]
    plain = [Section(study, study, grids=full_grids(findings, study)) for study in others]
    return [*(_section(get(name), findings) for name in NAMES if name in studies), *plain]


def _section(instrument: Instrument, findings: Findings) -> Section:
    """The section of an instrument, completed from its record."""
    from alebrije.report.yardsticks import yardsticks_table
    from alebrije.report.zoo_table import zoo_table

    made = instrument.section(findings)
    own = {model: findings.of(instrument.name, model) for model in findings.models}
    beside = yardsticks_table(
        findings, instrument.score, {model: instrument.decisive(each) for model, each in own.items()}
    )
    return replace(
        made,
        name=instrument.name,
        title=instrument.title,
        question=instrument.question,
        verdicts=_verdicts(instrument, findings),
        front=[*beside, *zoo_table(findings, instrument.name, instrument.decisive, instrument.score), *made.front],
        rule=instrument.rule,
        commands=findings.commands_of(instrument.name),
    )


def _verdicts(instrument: Instrument, findings: Findings) -> list[tuple[str, Verdict]]:
    """The verdict on every model, beside its yardsticks."""
    from alebrije.report.sections import verdicts_of
    from alebrije.report.yardsticks import compare_with_yardsticks, judge_beside

    def judge(own: Sequence[Finding]) -> Verdict:
        beside = compare_with_yardsticks(findings, instrument.decisive(own), instrument.score)
        return judge_beside(instrument.verdict(own), beside, str(own[0].get("model")))

    return verdicts_of(findings, instrument.name, judge)
