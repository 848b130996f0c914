"""What the sections of all instruments share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from alebrije.report.findings import read_findings
from alebrije.report.sections import difference_picture, images_in, titled, varied, verdicts_of
from alebrije.report.verdict import NOT_REQUESTED, Verdict
from alebrije.studies.folder import ResultFolder
from tests.report.fake_studies import fail, put


def test_titles_and_labels(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    for alpha in (0.2, 0.6):
        put(folder, "imagination", {"model": "vae", "world": "sprites", "alpha": alpha}, {"skill": 0.5})
    findings = read_findings(folder).all
    assert [titled(finding, "world", "alpha", "rule") for finding in findings] == [
        "vae: sprites, alpha 0.2",
        "vae: sprites, alpha 0.6",
    ]
    assert titled(findings[0]) == "vae"
    assert varied(findings, "world", "alpha", "rule") == ["alpha"]


def test_every_model_has_a_verdict(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    put(folder, "neurons", {"model": "done"}, {"SNC": 0.5})
    fail(folder, "neurons", {"model": "done", "seed": 1})
    fail(folder, "neurons", {"model": "failed", "seed": 0})
    fail(folder, "neurons", {"model": "failed", "seed": 1})
    put(folder, "grouping", {"model": "other"}, {"fg-ari": 0.5})
    lacking = Verdict("none", f"It needs NK, {NOT_REQUESTED}.")
    verdicts = verdicts_of(read_findings(folder), "neurons", lambda own: lacking)
    assert dict(verdicts) == {
        "done": Verdict("none", "It needs NK, which was not computed. One of its cells failed."),
        "failed": Verdict("failed", "2 of its cells failed."),
        "other": Verdict("none", "Not examined."),
    }


def test_differences_are_dark() -> None:
    left, right = np.zeros((3, 2, 2), np.uint8), np.zeros((3, 2, 2), np.uint8)
    right[1, 0, 0], right[2, 0, 1] = 200, 10
    assert difference_picture(left, right)[..., 0].tolist() == [[0, 235], [255, 255]]
    assert np.array_equal(difference_picture(left, right), difference_picture(right, left))


def test_only_complete_arrays_of_images_are_used() -> None:
    images = np.zeros((2, 3, 8, 8), np.uint8)
    assert images_in({"a": images, "b": images}, "a", "b") is not None
    for wrong in ({}, {"b": images[:1]}, {"b": images.astype(float)}, {"b": images[0]}, {"b": images[:0]}):
        assert images_in({"a": images, **wrong}, "a", "b") is None
