"""The demo: its verdicts are right, and it computes only what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from alebrije import zoo
from alebrije.demo import run as demo
from alebrije.evaluate import Report
from alebrije.report.page import in_words
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import Model, TrainedModel
from alebrije.studies.references import Noise, Oracle, Pixels
from alebrije.studies.untrained import untrained_twins
from alebrije.train.plan import plan
from tests.conftest import YARDSTICKS, yardstick_jobs

pytestmark = pytest.mark.yardsticks


def brief_models(folder: ResultFolder) -> tuple[Model, ...]:
    """The models of the demo, with one that is hardly trained."""
    brief = plan("beta-vae", preset_name="tiny", settings={"steps": 4, "batch": 8}, images=16)
    return Oracle(), TrainedModel(brief, folder, more={"trained_on": "dsprites"}), Pixels(size=16), Noise()


@pytest.fixture(scope="module", autouse=True)
def _one_twin() -> Iterator[None]:
    """One untrained twin of the trained model, not three: no test here reads its verdict."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(untrained_twins, "__defaults__", (1,))
        yield


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "trained_models", brief_models)
        patch.setattr(YARDSTICKS, yardstick_jobs)
        return demo.run_trained_demo(tmp_path_factory.mktemp("demo"))


def test_every_cell_is_done(report: Report) -> None:
    assert not report.summary.failed
    assert report.summary.done > 30


@pytest.mark.parametrize("instrument", ["analogy", "imagination", "grouping", "neurons"])
def test_the_oracle_wins_and_noise_is_at_chance(report: Report, instrument: str) -> None:
    assert report.verdicts["oracle"][instrument].mark == "good"
    assert report.verdicts["noise"][instrument].mark == "chance"
    assert report.verdicts["pixels"][instrument].mark not in ("good", "chance")


def test_pixels_add_up_better_without_occlusion(report: Report) -> None:
    found = report.table("model=pixels metric=coat,coat-acos")
    scores = {(row["metric"], row["corpus"]): row["value"].value for row in found.rows}
    for metric in ("coat", "coat-acos"):
        assert scores[metric, "unoccluded"] > scores[metric, "occluded"] + 0.05
    assert scores["coat", "unoccluded"] > 0.95


def test_the_page_and_the_verdicts_in_words(report: Report, tmp_path: Path) -> None:
    page = report.save(tmp_path / "report.html").read_text(encoding="utf-8")
    words = in_words(report.requested, report.verdicts)
    for name in ("oracle", "beta-vae", "pixels", "noise"):
        assert f">{name}<" in page
        assert f"\n{name} (" in f"\n{words}"
    assert "alebrije demo --train" in page


def test_nothing_is_computed_twice(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "trained_models", brief_models)
    again = demo.run_trained_demo(report.folder.path)
    assert again.summary.done == 0
    assert again.summary.kept == report.summary.done


def test_the_models_that_the_demo_trains(tmp_path: Path) -> None:
    names = [model.labels["model"] for model in demo.trained_models(ResultFolder(tmp_path))]
    assert names == ["oracle", "beta-vae", "slot-attention", "pixels", "noise"]


def test_each_instrument_examines_a_model_of_the_zoo_beside_references() -> None:
    names = [model.labels["model"] for model in demo.zoo_models("neurons")]
    assert names == ["zoo:annealed-vae", "oracle", "pixels", "noise"]
    assert set(demo.chosen().values()) <= set(zoo.names())


def test_without_a_model_references_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "names", lambda: ())
    assert [model.labels["model"] for model in demo.zoo_models("grouping")] == ["oracle", "pixels", "noise"]
