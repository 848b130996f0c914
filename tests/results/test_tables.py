"""Tables of results: the right rows, the right means, the right pivots."""

from __future__ import annotations

import contextlib
import math
import re
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alebrije.errors import InputError
from alebrije.results import Cell, Estimate, Result, Value, result_table
from alebrije.results.estimates import mean_over_seeds
from tests.results.examples import MACHINE, RESULTS, result


class TestTidy:
    def test_one_row_for_each_value(self) -> None:
        whole = result_table(RESULTS)
        assert whole.columns == ("study", "model", "alpha", "seed", "metric", "value", "key")
        assert len(whole) == 36
        assert whole.rows[0]["value"] == Estimate(0.6)
        assert whole.rows[1]["value"].reason == "none"

    def test_failures_have_no_rows(self) -> None:
        failed = Result.failed(RESULTS[0].cell, ValueError("x"), seconds=1, machine=MACHINE)
        assert len(result_table([failed])) == 0
        assert result_table([failed]).over_seeds().render("csv") == "study,metric,value\n"

    def test_labels_of_one_study_are_empty_in_another(self) -> None:
        both = result_table([result(model="ae"), result(study="grouping", slots=3)])
        assert [row["slots"] for row in both.rows] == [None, 3]
        assert len(both.over_seeds()) == 2

    @pytest.mark.parametrize(
        ("query", "count"),
        [
            ("", 36),
            ("model=beta-vae", 18),
            ("model=BETA-vae metric=snc", 9),
            ("model=beta-*", 18),
            ("model=*ae", 36),
            ("model=ae,beta-vae metric=SNC", 18),
            ("model!=ae", 18),
            ("alpha>=0.4", 24),
            ("alpha > 0.4", 12),
            ("alpha<0.4 seed=0", 4),
            ("alpha==0.40", 12),
            ("seed!=0,1", 12),
            ("value>0.75", 2),
            ("value=none", 18),
            ('model="beta-vae"', 18),
            ("study='neurons' alpha<=0.2", 12),
            ("model=nobody", 0),
            ("alpha=much", 0),
        ],
    )
    def test_queries(self, query: str, count: int) -> None:
        assert len(result_table(RESULTS, query)) == count

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ("modle=ae", "did you mean 'model'"),
            ("Model=ae", "did you mean 'model'"),
            ("zzz=1", "choose from study, model"),
            ("model", "a condition looks like"),
            ("model=", "a condition looks like"),
            ("model=ae alpha~3", "alpha~3"),
            ("alpha>=much", "takes one number"),
            ("alpha>1,2", "takes one number"),
            ("__import__('os')", "a condition looks like"),
            ("model=ae; rm -rf", "cannot parse the query from"),
            ("model='ae", "a condition looks like"),
        ],
    )
    def test_queries_that_cannot_be_read(self, query: str, said: str) -> None:
        with pytest.raises(InputError, match=re.escape(said)) as caught:
            result_table(RESULTS, query)
        assert "\n" not in str(caught.value)

    @given(st.text(max_size=30))
    def test_a_query_is_answered_or_refused(self, query: str) -> None:
        everything = result_table(RESULTS[:3])
        with contextlib.suppress(InputError):  # any other error fails
            assert len(result_table(RESULTS[:3], query)) <= len(everything)

    @given(st.text(st.characters(exclude_characters='"*', exclude_categories=["Cs"]), min_size=1, max_size=20))
    def test_every_model_can_be_asked_for(self, name: str) -> None:
        assert len(result_table([result(model=name), result(model=name + "2")], f'model="{name}"')) == 1

    def test_true_is_not_one(self) -> None:
        both = result_table([result(x=True), result(x=1)])
        assert len(both.over_seeds()) == 2
        assert len(both.where("x=true")) == len(both.where("x=1")) == 1


class TestSeeds:
    def test_known(self) -> None:
        row = result_table(RESULTS, "model=ae metric=SNC alpha=0.2").over_seeds().rows[0]
        over = row["value"]
        assert "seed" not in row
        assert (over.n, over.spread, over.left_out) == (3, "seeds", 0)
        assert over.value == pytest.approx(0.3)
        assert over.standard_error == pytest.approx(0.1 / math.sqrt(3))
        assert over.high - over.value == pytest.approx(4.30265 * 0.1 / math.sqrt(3), rel=1e-5)
        assert str(over) == "0.300 ± 0.058 (n=3)"

    def test_one_seed_keeps_its_own_interval(self) -> None:
        value = Value(score=0.5, standard_error=0.01, interval={"low": 0.48, "high": 0.52})
        over = result_table([result(0, {"SNC": value})]).over_seeds().rows[0]["value"]
        assert (over.n, over.spread, over.low, over.high) == (1, "cases", 0.48, 0.52)
        assert mean_over_seeds([Estimate(0.5)]).spread is None

    def test_cells_that_differ_in_no_label_are_refused(self) -> None:
        cells = [Cell(study="s", labels={"seed": 0}, inputs={"lr": lr}) for lr in (1, 2)]
        results = [Result.done(cell, {"SNC": 1.0}, seconds=0, machine=MACHINE) for cell in cells]
        assert len(result_table(results)) == 2
        with pytest.raises(InputError, match="different inputs"):
            result_table(results).over_seeds()
        with pytest.raises(InputError, match="different inputs"):
            result_table(results).pivot("seed", "metric")


class TestPivot:
    def test_known(self) -> None:
        turned = result_table(RESULTS, "metric=SNC").pivot("model", "alpha")
        assert turned.columns == ("model", "0.2", "0.4", "0.6")
        assert [row["model"] for row in turned.rows] == ["beta-vae", "ae"]
        assert turned.rows[1]["0.2"].value == pytest.approx(0.3)
        both = result_table(RESULTS, "alpha=0.2").pivot(["model"], ["metric", "seed"])
        assert both.columns == ("model", "SNC / 0", "SNC / 1", "SNC / 2", "NK / 0", "NK / 1", "NK / 2")

    def test_holes(self) -> None:
        turned = result_table([result(model="a", x=1), result(model="b", x=2)]).pivot("model", "x")
        assert turned.rows[0].get("2") is None
        assert turned.render("csv").split("\n")[1].startswith("a,0.5,,,,1,,")
        assert "a" in turned.render("text")

    def test_what_stands_for_several_values_is_refused(self) -> None:
        with pytest.raises(InputError, match="metric has 2 values"):
            result_table(RESULTS).pivot("model", "alpha")
        with pytest.raises(InputError, match="did you mean 'model'"):
            result_table(RESULTS, "metric=SNC").pivot("modell", "alpha")

    def test_heads_that_look_alike(self) -> None:
        turned = result_table([result(x="1"), result(x=1), result(x="study")]).pivot("study", "x")
        assert len(set(turned.columns)) == 4


class TestNotebooks:
    def test_html_is_escaped_and_has_every_row(self) -> None:
        html = result_table([result(model="<script>"), result(model="ae")])._repr_html_()
        assert "<script>" not in html
        assert "&lt;script&gt;" in html
        assert html.count("<tr>") == 3
        assert "key" not in html

    def test_latex_is_the_rendered_form(self) -> None:
        table = result_table(RESULTS)
        assert table.to_latex() == table.render("latex")

    def test_pandas_gets_every_digit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Frame:
            def __init__(self, rows: list[dict[str, object]], columns: list[str]) -> None:
                self.rows, self.columns = rows, columns

        stand_in = types.ModuleType("pandas")
        stand_in.DataFrame = Frame  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pandas", stand_in)
        frame = result_table(RESULTS).over_seeds().to_pandas()
        assert frame.columns[:4] == ["study", "model", "alpha", "metric"]
        assert "standard_error" in frame.columns
        assert frame.rows[0]["value"] == pytest.approx(0.7)
        assert frame.rows[0]["n"] == 3

    def test_without_pandas_it_says_how_to_install_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(InputError, match="pip install pandas"):
            result_table(RESULTS).to_pandas()
