"""Instruments are folders alike, and nothing outside them depends on a particular one."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import fields
from pathlib import Path

import pytest

import alebrije
from alebrije import instruments
from alebrije.errors import InputError
from alebrije.instruments import NAMES
from alebrije.report.findings import read_findings
from alebrije.report.verdict import Verdict
from alebrije.results import Value
from alebrije.studies.folder import ResultFolder
from tests.report.fake_studies import fail, put

SOURCE = Path(alebrije.__file__).parent
FILES = {"__init__.py", "images.py", "values.py", "study.py", "verdict.py", "section.py"}
GENERAL = sorted(path for room in ("studies", "report") for path in (SOURCE / room).rglob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_every_instrument_has_the_same_files(name: str) -> None:
    assert {path.name for path in (SOURCE / "instruments" / name).iterdir()} >= FILES


def test_every_folder_is_an_instrument() -> None:
    assert {path.parent.name for path in (SOURCE / "instruments").glob("*/__init__.py")} == set(NAMES)
    assert tuple(instruments.instruments()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_record_is_complete(name: str) -> None:
    instrument = instruments.get(name)
    assert instrument.name == name
    for each in fields(instrument):
        assert getattr(instrument, each.name) or each.name == "options", each.name
    assert re.search(r"\d{4}", instrument.cites)
    assert instrument.question.endswith("?")
    assert len(set(map(str.lower, instrument.metrics))) == len(instrument.metrics)
    assert set(instrument.options) <= {"rules", "alphas", "betas"}


@pytest.mark.parametrize("path", GENERAL, ids=lambda path: str(path.relative_to(SOURCE)))
def test_studies_and_report_name_no_instrument(path: Path) -> None:
    """Names and strings of the code; comments and docstrings may use one as an example."""
    tokens = list(tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline))
    code = [
        token.string
        for before, token in zip([None, *tokens], tokens, strict=False)
        if token.type in (tokenize.NAME, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))
        and not (token.string.startswith('"""') and (before is None or before.type in LAYOUT))
    ]
    assert not re.findall(rf"\b(?:{'|'.join(NAMES)})\b", "\n".join(code))


LAYOUT = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.COMMENT)


def test_unknown_instruments_are_refused_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="there is no instrument 'neuron'; did you mean 'neurons'"):
        instruments.get("neuron")


@pytest.mark.parametrize(
    ("study", "values", "needed"),
    [
        ("analogy", {"tre": 0.5}, "No verdict: it needs COAT, which was not requested."),
        ("imagination", {"gap": 0.5}, "No verdict: it needs skill, which was not requested."),
        ("grouping", {"ari": 0.5}, "No verdict: it needs FG-ARI, which was not requested."),
        ("neurons", {"MIG": 0.5}, "No verdict on single neurons: it needs SNC, which was not requested."),
    ],
)
def test_a_verdict_names_the_value_that_it_lacks(
    tmp_path: Path, study: str, values: dict[str, Value | float], needed: str
) -> None:
    folder = ResultFolder(tmp_path / "study")
    put(folder, study, {"model": "a"}, values)
    assert instruments.verdicts(read_findings(folder)) == {"a": {study: Verdict("none", needed)}}
    fail(folder, study, {"model": "a", "seed": 1})
    text = instruments.verdicts(read_findings(folder))["a"][study].text
    assert text == needed.replace("requested", "computed") + " One of its cells failed."


def test_a_study_that_is_no_instrument_gets_its_tables_alone(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "study")
    put(folder, "neurons", {"model": "a"}, {"SNC": 0.5})
    put(folder, "my own", {"model": "a"}, {"score": 0.5})
    neurons, own = instruments.sections_of(read_findings(folder))
    assert (neurons.name, neurons.title, bool(neurons.rule)) == ("neurons", "Neurons", True)
    assert (own.name, own.verdicts, [grid.columns for grid in own.grids]) == ("my own", (), [("model", "score")])
