"""The papers' tables: whole, in range, and beside the right numbers of ours."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from alebrije.errors import InputError
from alebrije.metrics import catalog
from alebrije.models import catalog as models
from alebrije.results import published, published_for
from alebrije.results.published import parse_table, published_models, published_words
from alebrije.results.published_notes import NOTES, STAND_INS
from alebrije.results.published_tables import LINKS, PAPERS, TABLES

COUNTS = {
    "coat": 12,
    "tre": 7,
    "svib": 420,
    "slots": 6,
    "disentanglement": 234,
    "compositional_generalisation": 180,
    "metric_cg_correlation": 36,
    "metric_toy_models": 6,
    "metric_variants": 324,
    "single_runs": 4265,
    "svib_means": 45,
    "svib_factors": 7,
}


def text_of(name: str) -> str:
    return files("alebrije.results").joinpath("published", f"{name}.csv").read_text("utf-8")


class TestTables:
    @pytest.mark.parametrize("name", TABLES)
    def test_every_row_is_there_with_its_source(self, name: str) -> None:
        rows = published(name)
        assert len(rows) == COUNTS[name]
        assert all(row["source"] for row in rows)
        assert len({tuple(row.values()) for row in rows}) == len(rows)

    def test_every_file_is_a_table(self) -> None:
        folder = files("alebrije.results").joinpath("published")
        assert {file.name for file in folder.iterdir()} == {f"{name}.csv" for name in TABLES}
        assert PAPERS.keys() == TABLES.keys()

    def test_rows_cannot_change(self) -> None:
        with pytest.raises(TypeError):
            published("svib")[0]["value"] = 0  # type: ignore[index]

    def test_unknown(self) -> None:
        with pytest.raises(InputError, match="did you mean 'svib'"):
            published("svip")

    @pytest.mark.parametrize(
        ("name", "old", "new", "said"),
        [
            ("svib", "24.72", "-24.72", "line .*, value: must be in 0 to inf"),
            ("svib", "24.72", "nan", "must be in"),
            ("svib", "24.72", "much", "must be a number"),
            ("svib", "24.72", "", "is empty"),
            ("svib", "I2I-ViT", "I2I-VIT", "must be one of"),
            ("svib", "environment", "world", "has the columns"),
            ("coat", "75.47", "175.47", "must be in 0 to 100"),
            ("coat", "97.18,,", "97.18,", "too many or too few"),
            ("metric_cg_correlation", "0.849", "1.849", "must be in -1 to 1"),
            ("disentanglement", "Table 2", "", "source: is empty"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, name: str, old: str, new: str, said: str) -> None:
        text = text_of(name)
        assert old in text
        with pytest.raises(InputError, match=said):
            parse_table(name, text.replace(old, new, 1))

    def test_links_name_what_there_is(self) -> None:
        for link in LINKS:
            columns = TABLES[link.table].keys()
            assert {link.value, *link.columns, *link.needs, *link.only, *link.words} <= columns
            assert link.spread is None or link.spread in columns
            assert any(link.only.items() <= row.items() for row in published(link.table)), link
        for table, rows, _ in NOTES:
            assert any(rows.items() <= row.items() for row in published(table))


def test_table_1_of_svib_is_the_mean_over_its_tasks() -> None:
    """Table 1 averages Tables 8 to 10 over the four rules, to one unit of the last digit."""
    apart = []
    for row in published("svib_means"):
        each = [
            float(one["value"] or 0) for one in published("svib")
            if one["metric"] == "lpips" and all(one[name] == row[name] for name in ("environment", "alpha", "model"))
        ]  # fmt: skip
        assert len(each) == 4
        apart += [row] if abs(sum(each) / 4 - float(row["lpips"] or 0)) > 0.0001 else []
    assert apart == []


SVIB = {"model": "i2i-vit", "world": "sprites", "rule": "S-A", "alpha": 0.6}
BETA = {"model": "beta-vae", "world": "dsprites", "seed": 3, "size": "small"}


class TestBeside:
    @pytest.mark.parametrize(
        ("labels", "metric", "value", "source"),
        [
            (SVIB, "out-of-distribution error", 24.72, "Table 11"),
            (SVIB, "mse-sum", 24.72, "Table 11"),
            (SVIB | {"pixels": 128}, "mse-sum", 24.72, "Table 11"),
            (SVIB, "lpips", 0.0036, "Table 8"),
            (
                SVIB | {"model": "svib-oracle", "world": "clevr", "rule": "M-NA", "alpha": 0},
                "mse_sum",
                851.99,
                "Table 11",
            ),
            (
                SVIB | {"world": "clevrtex", "model": "ssm-slot", "rule": "S-NA", "alpha": 0.2},
                "LPIPS",
                0.3546,
                "Table 10",
            ),
            (BETA, "SNC", 0.248, "Table 2"),
            (BETA, "nk", 0.399, "Table 2"),
            (BETA, "MIG", 0.0853, "Table 7"),
            (BETA, "dci-d", 0.574, "Table 7"),
            (BETA | {"model": "factor-vae", "world": "rooms"}, "sap", 0.0297, "Table 7"),
            (BETA, "linear accuracy", 0.462, "Table 2"),
            (BETA | {"world": "rooms", "setting": "CG", "feature": "both"}, "CG accuracy", 0.1475, "Table 3"),
            ({"model": "pixels", "corpus": "occluded"}, "coat", 0.7547, "Table 1"),
            ({"model": "pixels", "occluded": False, "train_set": "iid"}, "coat", 0.9718, "Table 1"),
            ({"model": "pixels", "occluded": True}, "coat-acos", 0.3628, "Table 1"),
            ({"model": "moco", "occluded": True}, "coat-acos", 0.1405, "Table 1"),
            (
                {"model": "slot-attention", "occluded": True, "trained_on": "coat-correlated"},
                "fg-ari",
                0.6912,
                "Table 1",
            ),
            ({"model": "beta-vae", "variant": "beta=2"}, "tre", 2.75, "Table 2 (appendix D)"),
            ({"predictor": "snc", "world": "all"}, "correlation with generalisation", 0.85, "Table 4"),
            ({"predictor": "MIG mean of 2", "scope": "rooms"}, "correlation with generalisation", 0.786, "Table 6"),
            (BETA, "mig product of 2", 0.012, "Table 8"),
            (BETA, "NK product of 2", 0.00072, "Table 8"),
            ({"model": "M2"}, "snc", 0.225, "Table 1"),
            ({}, "pearson(PSNR, FG-ARP)", 0.88, "Section 4.1"),
        ],
    )
    def test_known(self, labels: dict[str, Any], metric: str, value: float, source: str) -> None:
        (found,) = published_for(labels, metric)
        assert (found.value, found.source) == (value, source)
        assert found.row["source"] == source
        assert found.paper
        assert found.unit

    @pytest.mark.parametrize(
        ("labels", "metric"),
        [
            (SVIB, "in-distribution error"),
            (SVIB, "mse"),  # a mean over pixels is not the paper's sum
            (SVIB | {"pixels": 64}, "mse-sum"),
            (SVIB | {"alpha": 0.5}, "mse-sum"),
            (SVIB | {"alpha": "much"}, "mse-sum"),
            (SVIB | {"world": "dsprites-like"}, "mse-sum"),
            ({name: label for name, label in SVIB.items() if name != "alpha"}, "mse-sum"),
            ({"model": "beta-vae"}, "SNC"),
            ({"model": "pixels"}, "coat"),
            ({"model": "pixels", "occluded": True}, "coat-l2"),  # the paper's L2 is squared
            ({"model": "ae", "occluded": True}, "coat"),  # it failed, so no number was printed
            ({"model": "=cmd()", "world": "<script>"}, "SNC"),
            (BETA, ""),
            ({}, "SNC"),
        ],
    )
    def test_none(self, labels: dict[str, Any], metric: str) -> None:
        assert published_for(labels, metric) == []

    def test_labels_that_leave_the_choice_open(self) -> None:
        found = published_for({"model": "slot-attention", "occluded": True, "train_set": "iid"}, "coat")
        assert [one.value for one in found] == [0.4855, 0.607, 0.7707]
        assert [one.row["variant"] for one in found] == ["raw", "no-duplicates", "no-duplicates+no-invisible"]

    def test_spreads(self) -> None:
        (snc,) = published_for(BETA, "SNC")
        assert (snc.n, snc.standard_error) == (5, pytest.approx(0.032 / 5**0.5))
        assert snc.estimate.high == pytest.approx(0.248 + 2.776445 * 0.032 / 5**0.5)
        labels = {"model": "slot-attention", "occluded": True, "train_set": "iid", "variant": "raw"}
        (coat,) = published_for(labels, "coat")
        assert (coat.n, coat.standard_error) == (5, pytest.approx(0.1411))
        (pixels,) = published_for({"model": "pixels", "occluded": True}, "coat")
        assert (pixels.n, pixels.standard_error, pixels.estimate.low) == (None, None, None)
        (tre,) = published_for({"model": "beta-vae", "variant": "beta=2"}, "tre")
        assert tre.standard_error is None, "the paper does not say what its spread is"

    def test_doubts_are_told(self) -> None:
        (snc,) = published_for(BETA | {"world": "rooms"}, "SNC")
        assert "chance" in snc.notes[0]
        assert published_for(BETA, "SNC")[0].notes == ()

    def test_worlds_that_stand_for_a_dataset_say_so(self) -> None:
        (snc,) = published_for(BETA | {"world": "arm"}, "SNC")
        assert (snc.value, snc.source) == (0.326, "Table 2")
        assert snc.notes[-1] == STAND_INS["arm"]
        assert STAND_INS["rooms"] in published_for(BETA | {"world": "rooms"}, "MIG")[0].notes
        assert STAND_INS["arm"] in published_models({"model": "mine", "world": "arm"}, "SNC")[0].notes
        assert not set(STAND_INS.values()) & set(published_for(BETA | {"world": "mpi3d"}, "SNC")[0].notes)

    def test_hard_negatives_of_table_1_in_words(self) -> None:
        iodine = {"model": "iodine", "corpus": "occluded", "variant": "raw"}
        for train_set, words in (("iid", ("pass", "pass")), ("correlated", ("fail", "pass"))):
            labels = iodine | {"train_set": train_set}
            found = published_words(labels, "coat", "hn_l2"), published_words(labels, "coat-acos", "hn_acos")
            assert found == tuple((word,) for word in words)
        assert published_words(iodine | {"corpus": "white"}, "coat", "hn_l2") == ()
        assert published_words(iodine | {"train_set": "iid", "step": 100}, "coat", "hn_l2") == ()

    def test_the_sweep_of_beta_stands_beside_table_2(self) -> None:
        for beta, value in ((0.0, 10.32), (1, 2.25), (2.0, 2.75), (3, 2.15)):
            (tre,) = published_for({"model": "beta-tcvae", "beta": beta}, "tre")
            assert tre.value == value
        assert published_for({"model": "beta-tcvae", "beta": 4.0}, "tre") == []

    def test_our_models_are_found(self) -> None:
        """The models of SVIB under our names, on all tasks and alphas."""
        ours = [name for name, record in models().items() if record.learns_from == "episodes"]
        assert len(ours) == 5
        for model in ours:
            for world in ("sprites", "clevr", "clevrtex"):
                for rule in ("S-A", "M-A", "S-NA", "M-NA"):
                    for alpha in (0.0, 0.2, 0.4, 0.6):
                        labels = {"model": model, "world": world, "rule": rule, "alpha": alpha}
                        assert len(published_for(labels, "mse-sum")) == 1

    def test_a_reference_is_no_model_of_the_papers(self) -> None:
        assert published_for({"model": "oracle", "world": "sprites", "rule": "S-A", "alpha": 0.6}, "mse-sum") == []

    def test_our_metrics_are_found(self) -> None:
        names = {"snc", "nk", "mig", "sap", "irs", "med"} & catalog().keys()
        assert len(names) == 6
        for name in names:
            (found,) = published_for(BETA, name)
            low, high = catalog()[name].range
            assert low <= found.value <= high
