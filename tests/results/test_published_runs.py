"""Tables 8 to 47 of Mahon et al. 2024: numbers recomputed from the single runs, and where the tables disagree."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from alebrije.results import published, published_for
from alebrije.results.published_runs import NOTES_ON_RUNS, OVER_TWO, SWAPPED

VAES = ("beta-VAE", "beta-TCVAE", "FactorVAE", "PartedVAE", "PartedVAE-ss", "WeakDE")
COUNTS = {
    "dsprites": {"x": 32, "y": 32, "size": 6, "orient": 40, "shape": 3},
    "3dshapes": {"floor h": 10, "wall h": 10, "size": 8, "orient": 15, "shape": 4, "obj h": 10},
    "mpi3d": {"hor": 40, "vert": 40, "size": 2, "obj h": 6, "shape": 6, "cam he": 3, "bg h": 3},
}
PAIRS = {"dsprites": 5, "3dshapes": 8, "mpi3d": 6}
GRIDS = tuple(COUNTS)
CELLS = tuple(product(GRIDS, VAES))

Row = dict[str, float]


def rows_of(**cells: str) -> dict[tuple[str, str, str, float], Row]:
    """Accuracies by factor of each printed row, by its source, test set, head and run."""
    found: dict[tuple[str, str, str, float], Row] = defaultdict(dict)
    for row in published("single_runs"):
        if cells.items() <= row.items():
            key = str(row["source"]), str(row["test_set"]), str(row["head"]), float(row["run"] or 0)
            found[key][str(row["factor"])] = float(row["accuracy"] or 0)
    return found


def means(grid: str, model: str, head: str) -> list[float]:
    """The mean over factors of each of the five runs."""
    rows = rows_of(dataset=grid, model=model, head=head, test_set="normal").values()
    return [statistics.fmean(value for name, value in row.items() if name != "both") for row in rows]


def printed(table: str, column: str, **cells: str) -> float:
    (row,) = [row for row in published(table) if cells.items() <= row.items()]
    value = row[column]
    assert isinstance(value, float)
    return value


def adjusted(percent: float, chance: float) -> float:
    return 100 * max(0.0, (percent / 100 - chance) / (1 - chance))


def test_all_rows_are_there() -> None:
    for grid, model in CELLS:
        for head in ("SNC", "linear", "NK1", "MLP"):
            rows = rows_of(dataset=grid, model=model, head=head, test_set="normal")
            assert [run for *_, run in rows] == [0, 1, 2, 3, 4]
        for head in ("linear", "MLP"):
            rows = rows_of(dataset=grid, model=model, head=head)
            assert len({test_set for _, test_set, _, _ in rows} - {"normal"}) == PAIRS[grid]
    wanted = {name: set(counts) | {"both"} for name, counts in COUNTS.items()}
    lacking = [
        (source, test_set, head, run, name)
        for grid in GRIDS
        for (source, test_set, head, run), row in rows_of(dataset=grid).items()
        for name in sorted(wanted[grid] - set(row) - ({"both"} if head == "NK1" else set()))
    ]
    assert lacking == [  # printed as a dash
        ("Table 13", "normal", "SNC", 0.0, "both"),
        ("Table 13", "normal", "MLP", 3.0, "both"),
        ("Table 16", "normal", "linear", 3.0, "wall h"),
        ("Table 18", "normal", "SNC", 1.0, "both"),
        ("Table 18", "normal", "SNC", 2.0, "both"),
        ("Table 35", "2-1", "MLP", 0.0, "floor h"),
        ("Table 35", "2-1", "MLP", 0.0, "wall h"),
    ]


class TestTable2:
    """Means over runs and factors."""

    def test_mlp_linear_and_knockout(self) -> None:
        wrong = []
        for grid, model in CELLS:
            full, alone = means(grid, model, "MLP"), means(grid, model, "NK1")
            ours = {
                "MLP": statistics.fmean(full),
                "linear": statistics.fmean(means(grid, model, "linear")),
                "NK": statistics.fmean(full) - statistics.fmean(alone),
            }
            for metric, value in ours.items():
                theirs = printed("disentanglement", "value", dataset=grid, model=model, metric=metric, source="Table 2")
                wrong += [(grid, model, metric)] if abs(value - theirs) > 0.06 else []
        weakde = [("dsprites", "WeakDE", metric) for metric in ("MLP", "linear", "NK")]
        assert wrong == [*weakde, ("3dshapes", "beta-TCVAE", "linear")]
        runs = list(rows_of(source="Table 16", head="linear").values())
        runs[3]["wall h"] = 99.0  # printed as a dash
        whole = statistics.fmean(v for row in runs for name, v in row.items() if name != "both")
        assert whole == pytest.approx(76.3, abs=0.06)

    def test_snc_is_adjusted_for_chance(self) -> None:
        for model in VAES:
            runs = rows_of(dataset="dsprites", model=model, head="SNC", test_set="normal").values()
            each = [
                adjusted(statistics.fmean(run[name] for run in runs), 1 / count)
                for name, count in COUNTS["dsprites"].items()
            ]
            theirs = printed(
                "disentanglement", "value", dataset="dsprites", model=model, metric="SNC", source="Table 2"
            )
            assert (abs(statistics.fmean(each) - theirs) < 0.06) is (model != "WeakDE")

    def test_the_spreads_of_mlp_and_knockout_look_swapped(self) -> None:
        swapped = 0
        for grid, model in CELLS:
            full, alone = means(grid, model, "MLP"), means(grid, model, "NK1")
            mlp = statistics.stdev(full)
            nk = statistics.stdev([a - b for a, b in zip(full, alone, strict=True)])
            theirs = printed("disentanglement", "std", dataset=grid, model=model, metric="MLP", source="Table 2")
            swapped += abs(theirs - nk) < abs(theirs - mlp)
        assert swapped == 14  # of 18


class TestTable3:
    def joint(self, grid: str, model: str, head: str) -> float:
        """The mean over pairs of the accuracy on both features, adjusted for chance."""
        rows = rows_of(dataset=grid, model=model, head=head)
        both = [row["both"] for (_, test_set, _, _), row in rows.items() if test_set != "normal"]
        return adjusted(statistics.fmean(both), 1 / (COUNTS[grid]["size"] * COUNTS[grid]["shape"]))

    def test_both_features_on_held_out_pairs(self) -> None:
        wrong = []
        for (grid, model), (setting, head) in product(CELLS, (("CG", "MLP"), ("linear CG", "linear"))):
            theirs = printed(
                "compositional_generalisation", "accuracy", dataset=grid, model=model, setting=setting, feature="both"
            )
            wrong += [(grid, model, setting)] if abs(self.joint(grid, model, head) - theirs) > 0.035 else []
        assert wrong == [
            ("dsprites", "FactorVAE", "linear CG"),  # printed without adjustment
            ("3dshapes", "PartedVAE", "CG"),
            ("3dshapes", "PartedVAE", "linear CG"),
            ("mpi3d", "beta-VAE", "CG"),
        ]
        for grid in GRIDS:
            assert self.joint(grid, "MTD", "model") == 0

    def test_both_on_the_normal_test_set_is_the_mean_over_factors(self) -> None:
        wrong, joint = [], []
        for grid, model in CELLS:
            theirs = printed(
                "compositional_generalisation", "accuracy",
                dataset=grid, model=model, setting="normal test set", feature="both",
            )  # fmt: skip
            wrong += [(grid, model)] if abs(statistics.fmean(means(grid, model, "MLP")) - theirs) > 0.03 else []
            (found,) = published_for(
                {"model": model, "world": grid, "test_set": "5 splits"}, "MLP both"
            )  # not adjusted for chance
            joint += [(grid, model)] if abs(100 * found.value - theirs) < 0.1 else []
        assert wrong == [("dsprites", "WeakDE")]
        assert joint == [("3dshapes", "beta-VAE")]  # where everything is near 100


def swapped_row(source: str, row: Row) -> Row:
    names = SWAPPED.get(source, {})
    return {names.get(name, name): value for name, value in row.items()}


def impossible(row: Row) -> bool:
    """Whether `both` cannot be, given the accuracies of shape and size."""
    size, shape, both = row["size"], row["shape"], row["both"]
    return not size + shape - 100 - 0.02 <= both <= min(size, shape) + 0.02


class TestSingleRuns:
    def test_the_swapped_columns(self) -> None:
        rows = {key: row for key, row in rows_of().items() if {"size", "shape", "both"} <= set(row)}
        as_printed = {source for (source, *_), row in rows.items() if impossible(row)}
        assert set(SWAPPED) <= as_printed
        left = [
            (source, test_set, head, run)
            for (source, test_set, head, run), row in rows.items()
            if impossible(swapped_row(source, row))
        ]
        assert left == [
            ("Table 15", "normal", "MLP", 1.0),
            ("Table 16", "normal", "MLP", 0.0),
            *[("Table 24", "normal", "SNC", float(run)) for run in range(5)],
            ("Table 45", "normal", "model", 1.0),
            ("Table 45", "normal", "model", 4.0),
        ]
        for (source, _, head, _), row in rows.items():  # SNC there is right with the columns as printed
            assert source != "Table 24" or head != "SNC" or not impossible(row)

    def test_the_repeated_rows(self) -> None:
        later = set()
        for left_out in ("", "both"):
            alike: dict[tuple[float, ...], list[tuple[str, str, str, float]]] = defaultdict(list)
            for key, row in rows_of().items():
                values = tuple(sorted(value for name, value in row.items() if name != left_out))
                if values != (100.0,) * len(values):
                    alike[values].append(key)
            later |= {key for keys in alike.values() for key in keys[1:]}
        noted = {
            tuple(cells.get(name, 0) for name in ("source", "test_set", "head", "run"))
            for _, cells, text in NOTES_ON_RUNS
            if text.startswith("the same as")
        }
        noted |= {
            (cells["source"], cells["test_set"], "MLP", 0.0)
            for _, cells, text in NOTES_ON_RUNS
            if text.startswith("its linear")
        }
        noted.discard(("Table 12", "normal", "NK1", 2))  # noted at both places
        assert later == noted

    def test_beside_ours(self) -> None:
        labels = {"model": "factor-vae", "world": "dsprites"}
        (found,) = published_for(labels | {"test_set": "one split"}, "linear both")
        each = [20.45, 22.90, 27.48, 24.15, 27.40]
        assert found.value == pytest.approx(statistics.fmean(each) / 100)
        assert (found.n, found.standard_error) == (5, pytest.approx(statistics.stdev(each) / 100 / math.sqrt(5)))
        assert found.source == "Table 11, mean of 5 runs"
        (pair,) = published_for(labels | {"test_set": "size 2, shape 1"}, "MLP both")
        assert (pair.value, pair.n, pair.source) == (0.0157, None, "Table 29")
        assert pair.notes == ("its linear and its MLP row are the same",)
        assert published_for(labels | {"test_set": "size 2, shape 1"}, "MLP mean") == []
        assert published_for(labels, "MLP both") == []
        (mean,) = published_for(labels | {"test_set": "5 splits"}, "MLP mean")
        assert (mean.value, mean.source) == (0.771, "Table 2")

    def test_mtd_reads_by_itself(self) -> None:
        labels = {"model": "mtd", "world": "rooms", "test_set": "size 0, shape 0"}
        (both,) = published_for(labels, "MLP both")
        each = {str(one.row["factor"]): one for one in published_for(labels, "MLP of each factor")}
        assert both.source == each["both"].source == "Table 46"
        assert set(each) == {*COUNTS["3dshapes"], "both"}
        assert any("MTD itself" in note for note in both.notes)
        vae = published_for(labels | {"model": "beta-vae"}, "MLP of each factor")
        assert {one.row["head"] for one in vae} == {"MLP"}


class TestTable8:
    def test_the_rows_over_all_factors_are_table_7(self) -> None:
        for metric in ("MIG", "SAP", "IRS", "DCI-D", "DCI-C", "DCI-I", "MED"):
            for grid, model in CELLS:
                cells = {"dataset": grid, "model": model, "metric": metric}
                theirs = printed("disentanglement", "value", **cells)
                assert printed("metric_variants", "value", over="all factors", **cells) == pytest.approx(
                    theirs / 100, abs=0.00051
                )

    def test_no_product_exceeds_the_mean(self) -> None:
        noted = {
            (cells["dataset"], cells["model"], cells["metric"]) for _, cells, text in NOTES_ON_RUNS if "exceed" in text
        }
        found = set()
        for metric, (grid, model) in product(("MIG", "SAP", "DCI-C", "DCI-I"), CELLS):
            of = {"dataset": grid, "model": model, "metric": metric}
            two, mean = (printed("metric_variants", "value", over=over, **of) for over in OVER_TWO)
            if two > mean + 0.0005:
                found.add((grid, model, metric))
        assert found == noted

    def test_snc_is_the_product_of_the_runs(self) -> None:
        for model in VAES[:3]:
            runs = rows_of(dataset="dsprites", model=model, head="SNC", test_set="normal").values()
            two = [adjusted(statistics.fmean(run[n] for run in runs), 1 / k) for n, k in (("size", 6), ("shape", 3))]
            (found,) = published_for({"model": model, "world": "dsprites"}, "SNC product of 2")
            assert found.value == pytest.approx(math.prod(two) / 1e4, abs=2e-3)

    def values(self, metric: str, over: str) -> list[float]:
        named = {"metric": metric, "over": over}
        return [printed("metric_variants", "value", dataset=grid, model=model, **named) for grid, model in CELLS]

    def predictors(self) -> Iterator[tuple[str, list[float]]]:
        for metric in ("SNC", "NK"):
            yield metric, self.values(metric, OVER_TWO[0])
        for metric in ("MIG", "SAP", "IRS", "DCI-D", "DCI-C", "DCI-I", "DCI", "MED"):
            yield metric, self.values(metric, "all factors")
        for metric, over in product(("MIG", "SAP", "DCI-C", "DCI-I"), OVER_TWO):
            yield f"{metric} {over}", self.values(metric, over)

    def test_the_correlations_of_tables_4_and_6(self) -> None:
        """Pearson's r of Table 8 with Table 3, both features on held-out pairs."""
        accuracy = [
            printed("compositional_generalisation", "accuracy", dataset=g, model=m, setting="CG", feature="both")
            for g, m in CELLS
        ]
        wrong = []
        for name, scores in self.predictors():
            for scope, rows, most in (("all", slice(None), 0.0125), ("3dshapes", slice(6, 12), 0.026)):
                r = float(np.corrcoef(scores[rows], accuracy[rows])[0, 1])
                theirs = printed("metric_cg_correlation", "pearson", metric=name, scope=scope)
                wrong += [(name, scope)] if abs(r - theirs) > most else []
        parts = [(name, scope) for name in ("DCI-D", "DCI-C", "DCI-I", "DCI") for scope in ("all", "3dshapes")]
        assert set(wrong) == set(parts) - {("DCI-C", "all")}
