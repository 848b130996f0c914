"""Findings: results grouped over seeds, names of models, commands."""

from __future__ import annotations

import re

import pytest

from alebrije.report.findings import read_findings
from alebrije.studies.commands import derived_command, note_command
from alebrije.studies.folder import ResultFolder
from tests.report.fake_studies import analogies, fail, neurons, put


def test_a_finding_is_the_mean_over_seeds(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    neurons(folder, {"vae": 0.35})
    (finding,) = [one for one in read_findings(folder).of("neurons", "vae") if one.known("SNC")]
    found = finding.known("SNC")
    assert found.n == 3
    assert found.value == pytest.approx(0.35 * 0.9 + 0.02)


def test_models_with_the_same_name_get_a_part_of_their_digest(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    for weights in ("aa", "bb"):
        put(folder, "neurons", {"model": "mine"}, {"SNC": 0.5}, subject={"encoder": weights})
    assert len({one for one in read_findings(folder).models if re.fullmatch(r"mine \[[0-9a-f]{6}\]", one)}) == 2


def test_values_of_one_model_from_several_requests_are_joined(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    put(folder, "neurons", {"model": "mine"}, {"SNC": 0.5, "NK": 0.1}, metrics={"SNC": 1, "NK": 1})
    put(folder, "neurons", {"model": "mine"}, {"SNC": 0.6}, metrics={"SNC": 2})
    (finding,) = read_findings(folder).all
    assert (finding.known("SNC").value, finding.known("NK").value) == (0.6, 0.1)


def test_the_latest_result_counts(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    for version, score in ((1, 0.5), (2, 0.7)):
        put(folder, "neurons", {"model": "mine"}, {"SNC": score}, rows={"snc": version})
    findings = read_findings(folder)
    (finding,) = findings.all
    assert (finding.known("SNC").value, findings.older, findings.models) == (0.7, 1, ("mine",))


def test_sizes_are_not_mixed(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    for size, score in (("tiny", 0.5), ("small", 0.7)):
        put(folder, "neurons", {"model": "mine", "size": size}, {"SNC": score})
    assert set(read_findings(folder).models) == {"mine (tiny)", "mine (small)"}


def test_references_come_last_and_models_that_failed_are_listed(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    for model in ("noise", "zebra", "pixels", "ape"):
        put(folder, "neurons", {"model": model}, {"SNC": 0.5})
    fail(folder, "neurons", {"model": "lost"})
    findings = read_findings(folder)
    assert findings.models == ("ape", "lost", "zebra", "pixels", "noise")
    assert (findings.failures("neurons", "lost"), findings.failures("neurons", "ape")) == (1, 0)


def test_findings_of_some_cells_alone(tmp_path):
    folder = ResultFolder(tmp_path / "study")
    cells = [put(folder, "neurons", {"model": model}, {"SNC": 0.5}) for model in ("one", "two")]
    assert read_findings(folder).only({cells[1].key}).models == ("two",)


@pytest.mark.parametrize(
    ("labels", "inputs", "world"),
    [
        ({"trained_on": "dsprites"}, {}, "dsprites"),
        ({}, {"subject": {"plan": {"world": "sprites", "rule": "S-A", "alpha": 0.6}}}, "sprites/S-A at alpha 0.6"),
        ({}, {}, ""),
    ],
)
def test_what_a_model_was_trained_on(tmp_path, labels, inputs, world):
    folder = ResultFolder(tmp_path / "study")
    put(folder, "neurons", {"model": "mine", **labels}, {"SNC": 0.5}, **inputs)
    assert read_findings(folder).all[0].trained_on == world


def test_a_command_is_derived_unless_some_are_stored(tmp_path):
    folder = ResultFolder(tmp_path / "my study")
    analogies(folder, {"vae": 0.5}, 32, 1)
    derived = f"alebrije study analogy --size tiny --out '{folder.path}'"
    assert read_findings(folder).commands_of("analogy") == (derived,)
    assert derived == derived_command("analogy", "tiny", folder.path)
    stored = tuple(f"alebrije eval my:model --size {size} --out x" for size in ("tiny", "small"))
    for command in stored:
        note_command(folder, "analogy", command)
    assert read_findings(folder).commands_of("analogy") == stored
