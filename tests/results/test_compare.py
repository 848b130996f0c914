"""Runs beside each other and beside the papers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alebrije.errors import InputError
from alebrije.results import Cell, Machine, Result, Store, Value, compare

MACHINE = Machine(python="3.12", torch="2.11", platform="Linux", device="cpu")


def filled(folder: Path, scores: list[float], metric: str = "SNC", **labels: Any) -> Store:
    labels = {"model": "beta-vae", "world": "dsprites"} | labels
    store = Store(folder)
    for seed, score in enumerate(scores):
        cell = Cell(study="neurons", labels=labels | {"seed": seed}, inputs=labels | {"seed": seed, "run": folder.name})
        store.put(Result.done(cell, {metric: score}, seconds=1, machine=MACHINE))
    return store


class TestRuns:
    def test_differences(self, tmp_path: Path) -> None:
        filled(tmp_path / "a", [0.20, 0.22, 0.24])
        filled(tmp_path / "b", [0.21, 0.23, 0.25])
        filled(tmp_path / "c", [0.50, 0.52, 0.54])
        (row,) = (compared := compare([tmp_path / name for name in "abc"])).rows
        assert compared.columns[:6] == ("study", "model", "world", "metric", "a", "b")
        assert row["b - a"].value == pytest.approx(0.01)
        assert row["c - a"].value == pytest.approx(0.30)
        assert (row["b - a within"], row["c - a within"]) == (True, False)
        assert row["a"].n == 3
        assert "published" not in compared.columns

    def test_rows_that_only_one_run_has(self, tmp_path: Path) -> None:
        compared = compare({"one": filled(tmp_path / "a", [1]), "two": filled(tmp_path / "b", [2], model="ae")})
        assert len(compared) == 2
        assert compared.rows[0].get("two") is None
        assert compared.rows[0].get("two - one") is None
        for form in ("text", "csv", "markdown", "latex", "json"):
            assert compared.render(form)  # type: ignore[arg-type]
        assert len(json.loads(compared.render("json"))["rows"]) == 2

    def test_names_tell_folders_apart(self, tmp_path: Path) -> None:
        for name in ("x", "y"):
            filled(tmp_path / name / "results", [1.0])
        compared = compare([tmp_path / "x" / "results", tmp_path / "y" / "results"])
        assert compared.columns[4:6] == ("x/results", "y/results")
        filled(tmp_path / "metric", [1.0])
        assert "metric (run)" in compare([tmp_path / "metric"]).columns
        (row,) = compare([filled(tmp_path / "model", [1.0], model="ae")]).rows
        assert (row["model"], row["model (run)"].value) == ("ae", 1.0)

    def test_a_query(self, tmp_path: Path) -> None:
        store = filled(tmp_path / "a", [1])
        filled(tmp_path / "a", [1], model="ae")
        assert len(compare([store], query="model=ae")) == 1

    @pytest.mark.parametrize("stores", [[], {}])
    def test_nothing_to_compare(self, stores: Any) -> None:
        with pytest.raises(InputError, match="nothing to compare"):
            compare(stores)

    def test_refusals(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="contains no results"):
            compare([tmp_path / "missing"])
        filled(tmp_path / "a", [1])
        with pytest.raises(InputError, match="with itself"):
            compare([tmp_path / "a", Store(tmp_path / "x" / ".." / "a")])


class TestPapers:
    def test_a_number_beside_ours(self, tmp_path: Path) -> None:
        compared = compare([filled(tmp_path / "a", [0.23, 0.25, 0.27])], published=True)
        (row,) = compared.rows
        assert (row["published"].value, row["source"]) == (0.248, "Mahon et al. 2024, Table 2")
        assert row["a - published"].value == pytest.approx(0.002)
        assert row["a - published within"] is True
        far = compare([filled(tmp_path / "b", [0.53, 0.55, 0.57])], published=True).rows[0]
        assert far["b - published within"] is False

    def test_sizes_and_doubts_are_told(self, tmp_path: Path) -> None:
        (row,) = compare([filled(tmp_path / "a", [0.2], world="rooms", size="small")], published=True).rows
        assert "chance" in row["notes"]
        assert "'small'" in row["notes"]

    def test_a_number_without_spread_against_one_seed(self, tmp_path: Path) -> None:
        labels = {"model": "i2i-vit", "world": "sprites", "rule": "S-A", "alpha": 0.6}
        store = filled(tmp_path / "a", [30.0], "out-of-distribution error", **labels)
        (row,) = compare([store], published=True).rows
        assert row["a - published"].value == pytest.approx(5.28)
        assert row["a - published within"] is None
        cell = Cell(study="imagination", labels=labels, inputs={})
        value = Value(score=30.0, interval={"low": 20.0, "high": 40.0})
        other = Store(tmp_path / "b")
        other.put(Result.done(cell, {"mse-sum": value}, seconds=1, machine=MACHINE))
        (row,) = compare([other], published=True).rows
        assert row["b - published within"] is True

    def test_several_are_named_and_none_chosen(self, tmp_path: Path) -> None:
        labels = {"model": "slot-attention", "occluded": True, "world": None}
        (row,) = compare([filled(tmp_path / "a", [0.5, 0.6], "coat", **labels)], published=True).rows
        assert row["source"].startswith("4 numbers match")
        assert "published" not in row

    def test_several_that_are_equal_are_one(self, tmp_path: Path) -> None:
        labels = {"model": "slot-attention", "occluded": True, "train_set": "iid", "world": None}
        (row,) = compare([filled(tmp_path / "a", [0.9], "fg-ari", **labels)], published=True).rows
        assert row["published"].value == 0.9553

    def test_what_no_paper_has(self, tmp_path: Path) -> None:
        compared = compare([filled(tmp_path / "a", [0.5], model="<script>")], published=True)
        assert compared.rows[0].get("published") is None
        assert "<script>" not in compared.render("markdown")


class TestModelsWithoutAPublishedNumber:
    """A user's model stays in the table, and the papers' models follow."""

    def test_the_papers_rows_follow(self, tmp_path: Path) -> None:
        labels = {"model": "mine", "world": "dsprites", "size": "small"}
        compared = compare([filled(tmp_path / "a", [0.3], **labels)], published=True)
        mine, *theirs = compared.rows
        assert (mine["model"], mine["a"].value, mine.get("published")) == ("mine", 0.3, None)
        by_model = {row["model"]: row for row in theirs}
        assert by_model["beta-TCVAE"]["published"].value == 0.413
        assert by_model["beta-TCVAE"]["notes"] == "our size is 'small', not the paper's"
        assert all(row["world"] == "dsprites" and row["metric"] == "SNC" for row in theirs)

    def test_the_papers_rows_of_one_model_can_be_told_apart(self, tmp_path: Path) -> None:
        labels = {"model": "mine", "corpus": "occluded", "size": "small"}  # no variant: its codes are vectors
        compared = compare([filled(tmp_path / "a", [0.3], "coat", **labels)], published=True)
        shown = [tuple(row.get(name) for name in compared.columns if name != "published") for row in compared.rows]
        assert {"variant", "train_set"} <= set(compared.columns)
        assert len(set(shown)) == len(shown) > 4

    def test_differences_of_the_protocol_are_in_words(self, tmp_path: Path) -> None:
        labels = {"model": "mine", "world": "sprites", "rule": "S-A", "alpha": 0.6, "pixels": 64, "drawn_by": "head"}
        compared = compare([filled(tmp_path / "a", [80.0], "out-of-distribution error", **labels)], published=True)
        theirs = next(row for row in compared.rows if row["model"] == "I2I-ViT")
        assert theirs["published"].value == 24.72
        assert "our pixels: 64, the paper's: 128" in theirs["notes"]
        assert "a head draws our images from frozen codes" in theirs["notes"]
        assert "our sprites is a rendering of dsprites" in theirs["notes"]

    def test_another_world_has_no_rows(self, tmp_path: Path) -> None:
        compared = compare([filled(tmp_path / "a", [0.3], model="mine", world="clevr6")], published=True)
        assert len(compared) == 1


class TestZoo:
    def test_models_of_the_zoo_follow_in_the_same_setting(self, tmp_path: Path) -> None:
        mine = filled(tmp_path / "mine", [0.2], size="small")
        filled(tmp_path / "mine", [0.3], size="small", world="rooms")
        shipped = filled(tmp_path / "zoo", [0.4], model="zoo:annealed-vae", size="small")
        filled(tmp_path / "zoo", [0.5], model="zoo:annealed-vae", size="small", world="arm")
        filled(tmp_path / "zoo", [0.6], model="zoo:annealed-vae", size="tiny")
        filled(tmp_path / "zoo", [0.1], model="beta-vae", size="small")
        compared = compare({"mine": mine}, zoo=shipped)
        assert compared.columns[-2:] == ("mine", "zoo")
        shown = [(row["model"], row["world"], row.get("mine"), row.get("zoo")) for row in compared.rows]
        assert [(model, world, mine and mine.value, zoo and zoo.value) for model, world, mine, zoo in shown] == [
            ("beta-vae", "dsprites", 0.2, None),
            ("zoo:annealed-vae", "dsprites", None, 0.4),
            ("beta-vae", "rooms", 0.3, None),
        ]

    def test_without_it_nothing_changes(self, tmp_path: Path) -> None:
        store = filled(tmp_path / "a", [1])
        assert "zoo" not in compare([store]).columns
