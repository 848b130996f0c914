"""One row per model: the score of each instrument that its verdict depends on, and the mark of the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from alebrije.instruments import NAMES, get, verdicts
from alebrije.report.findings import Finding, Findings
from alebrije.report.sections import mean_known
from alebrije.report.verdict import SIGNS
from alebrije.results import ResultTable, fit_to_width
from alebrije.results.text_table import hide_single_seeds

MODEL, VERDICT = "model", "verdict"


def summary_table(findings: Findings) -> ResultTable:
    """A row for each model, references last: each instrument's score with its interval, and its verdict.

    The score is the mean over the settings that the verdict is about, such as the worlds and alphas of imagination.
    """
    found = verdicts(findings)
    shown = [name for name in NAMES if name in findings.studies]
    rows = []
    for model, by_study in found.items():
        row: dict[str, Any] = {MODEL: model}
        for name in shown:
            own = findings.of(name, model)
            row[_score_column(name)] = _score(name, own) if own else None
            row[_verdict_column(name)] = by_study[name].word if name in by_study and own else None
        rows.append(row)
    columns = [column for name in shown for column in (_score_column(name), _verdict_column(name))]
    return ResultTable((MODEL, *columns), tuple(rows))


def summary_text(findings: Findings) -> str:
    """The summary for a terminal: one column for each instrument, with the sign of the verdict before the score."""
    table, found = summary_table(findings), verdicts(findings)
    shown = [name for name in NAMES if name in findings.studies]
    used: set[str] = set()
    rows = []
    for row in hide_single_seeds(table).rows:
        line = {MODEL: row[MODEL]}
        for name in shown:
            verdict = found[row[MODEL]].get(name) if row[_verdict_column(name)] is not None else None
            score = row[_score_column(name)]
            line[_score_column(name)] = f"{verdict.sign} {'' if score is None else score}".strip() if verdict else ""
            used |= {verdict.sign} if verdict else set()
        rows.append(line)
    legend = "   ".join(f"{sign} {words}" for sign, words in SIGNS.values() if sign in used)
    return f"{fit_to_width(ResultTable((MODEL, *map(_score_column, shown)), tuple(rows)))}\n{legend}\n"


def _score(name: str, own: Sequence[Finding]) -> Any:
    instrument = get(name)
    return mean_known(instrument.decisive(own), instrument.score)


def _score_column(name: str) -> str:
    """Such as "analogy: COAT"."""
    return f"{name}: {get(name).score}"


def _verdict_column(name: str) -> str:
    return f"{name}: {VERDICT}"
