"""One section of the report for each instrument."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from alebrije.report.findings import Findings
from alebrije.report.parts import Section
from alebrije.report.sections.analogy import analogy_section
from alebrije.report.sections.grouping import grouping_section
from alebrije.report.sections.imagination import imagination_section
from alebrije.report.sections.neurons import neurons_section
from alebrije.report.sections.tables import full_grids

INSTRUMENTS: Mapping[str, Callable[[Findings], Section]] = {
    "analogy": analogy_section,
    "imagination": imagination_section,
    "grouping": grouping_section,
    "neurons": neurons_section,
}


def sections_of(findings: Findings) -> list[Section]:
    """A section for each study that has cells; one that is no instrument has its tables alone."""
    made = []
    for study in findings.studies:
        if study in INSTRUMENTS:
            made.append(INSTRUMENTS[study](findings))
        else:
            made.append(Section(study, study, "", (), grids=full_grids(findings, study)))
    return made


__all__ = ["INSTRUMENTS", "sections_of"]
