"""The demonstration: its verdicts are right, and it goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from alebrije.report import demo
from alebrije.results import table
from alebrije.studies.folder import Folder
from alebrije.studies.subjects import Noise, Oracle, Pixels, Subject, Trained
from alebrije.train.plan import plan


def shorter(folder: Folder) -> tuple[Subject, ...]:
    """The subjects of the demonstration, with a model that is trained for a moment."""
    brief = plan("beta-vae", preset_name="tiny", settings={"steps": 4, "batch": 8}, images=16)
    return Oracle(), Trained(brief, folder, more={"trained_on": "dsprites"}), Pixels(size=16), Noise()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> demo.Shown:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "demo_subjects", shorter)
        return demo.run_demo(tmp_path_factory.mktemp("demo"))


def test_every_cell_is_done(shown: demo.Shown) -> None:
    assert not shown.tally.failed
    assert shown.tally.done > 30


@pytest.mark.parametrize("instrument", ["analogy", "imagination", "grouping", "neurons"])
def test_the_oracle_wins_and_noise_is_at_chance(shown: demo.Shown, instrument: str) -> None:
    assert shown.verdicts["oracle"][instrument].mark == "good"
    assert shown.verdicts["noise"][instrument].mark == "chance"
    assert shown.verdicts["pixels"][instrument].mark not in ("good", "chance")


def test_pixels_add_up_until_objects_hide_each_other(shown: demo.Shown) -> None:
    found = table(Folder(shown.page.parent).store.all(), "model=pixels metric=coat,coat-acos")
    scores = {(row["metric"], row["corpus"]): row["value"].value for row in found.rows}
    for metric in ("coat", "coat-acos"):
        assert scores[metric, "unoccluded"] > scores[metric, "occluded"] + 0.05
    assert scores["coat", "unoccluded"] > 0.95


def test_the_page_and_the_words(shown: demo.Shown) -> None:
    page = shown.page.read_text(encoding="utf-8")
    for name in ("oracle", "beta-vae", "pixels", "noise"):
        assert f">{name}<" in page
        assert f"\n{name}\n" in f"\n{shown.words}"
    assert "alebrije demo" in page


def test_nothing_is_computed_twice(shown: demo.Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "demo_subjects", shorter)
    again = demo.run_demo(shown.page.parent)
    assert again.tally.done == 0
    assert again.tally.kept == shown.tally.done


def test_the_subjects_are_those_that_are_promised(tmp_path: Path) -> None:
    names = [subject.labels["model"] for subject in demo.demo_subjects(Folder(tmp_path))]
    assert names == ["oracle", "beta-vae", "slot-attention", "pixels", "noise"]
