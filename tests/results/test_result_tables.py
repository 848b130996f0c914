"""Tables of results: the right rows, the right means, and names that do no harm wherever they are shown."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy import stats

from alebrije.errors import InputError
from alebrije.results import Cell, Estimate, Machine, Result, Table, Value, table
from alebrije.results.estimates import difference, digits, mean_over_seeds, within

MACHINE = Machine(python="3.12", torch="2.11", platform="Linux", device="cpu")
FINITE = st.integers(-(10**6), 10**6).map(lambda number: number / 1000)


def found(seed: int = 0, values: dict[str, Any] | None = None, study: str = "neurons", **labels: Any) -> Result:
    cell = Cell(study=study, labels={**labels, "seed": seed}, inputs={"seed": seed, "labels": labels})
    return Result.done(cell, values or {"SNC": 0.5}, seconds=1, machine=MACHINE)


RESULTS = [
    found(seed, {"SNC": 0.1 * seed + alpha, "NK": Value(score=None, reason="none")}, model=model, alpha=alpha)
    for model in ("beta-vae", "ae")
    for alpha in (0.6, 0.2, 0.4)
    for seed in range(3)
]


class TestTidy:
    def test_one_row_for_each_value(self) -> None:
        whole = table(RESULTS)
        assert whole.columns == ("study", "model", "alpha", "seed", "metric", "value", "key")
        assert len(whole) == 36
        assert whole.rows[0]["value"] == Estimate(0.6)
        assert whole.rows[1]["value"].reason == "none"

    def test_failures_have_no_rows(self) -> None:
        failed = Result.failed(RESULTS[0].cell, ValueError("x"), seconds=1, machine=MACHINE)
        assert len(table([failed])) == 0
        assert table([failed]).over_seeds().render("csv") == "study,metric,value\n"

    def test_labels_of_one_study_are_empty_in_another(self) -> None:
        both = table([found(model="ae"), found(study="grouping", slots=3)])
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
        assert len(table(RESULTS, query)) == count

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ("modle=ae", "did you mean 'model'"),
            ("Model=ae", "did you mean 'model'"),
            ("zzz=1", "there are study, model"),
            ("model", "a condition looks like"),
            ("model=", "a condition looks like"),
            ("model=ae alpha~3", "alpha~3"),
            ("alpha>=much", "wants one number"),
            ("alpha>1,2", "wants one number"),
            ("__import__('os')", "a condition looks like"),
            ("model=ae; rm -rf", "cannot be read from"),
            ("model='ae", "a condition looks like"),
        ],
    )
    def test_queries_that_cannot_be_read(self, query: str, said: str) -> None:
        with pytest.raises(InputError, match=re.escape(said)) as caught:
            table(RESULTS, query)
        assert "\n" not in str(caught.value)

    @given(st.text(max_size=30))
    def test_a_query_is_answered_or_refused(self, query: str) -> None:
        everything = table(RESULTS[:3])
        with contextlib.suppress(InputError):  # any other error fails
            assert len(table(RESULTS[:3], query)) <= len(everything)

    @given(st.text(st.characters(exclude_characters='"*', exclude_categories=["Cs"]), min_size=1, max_size=20))
    def test_every_model_can_be_asked_for(self, name: str) -> None:
        assert len(table([found(model=name), found(model=name + "2")], f'model="{name}"')) == 1

    def test_true_is_not_one(self) -> None:
        both = table([found(x=True), found(x=1)])
        assert len(both.over_seeds()) == 2
        assert len(both.where("x=true")) == len(both.where("x=1")) == 1


class TestSeeds:
    def test_known(self) -> None:
        row = table(RESULTS, "model=ae metric=SNC alpha=0.2").over_seeds().rows[0]
        over = row["value"]
        assert "seed" not in row
        assert (over.n, over.spread, over.left_out) == (3, "seeds", 0)
        assert over.value == pytest.approx(0.3)
        assert over.standard_error == pytest.approx(0.1 / math.sqrt(3))
        assert over.high - over.value == pytest.approx(4.30265 * 0.1 / math.sqrt(3), rel=1e-5)
        assert str(over) == "0.300 ± 0.058 (n=3)"

    @given(st.lists(FINITE, min_size=2, max_size=9))
    def test_agrees_with_scipy(self, values: list[float]) -> None:
        over = mean_over_seeds([Estimate(value) for value in values])
        scale = max(map(abs, values)) + 1e-300
        assert over.value == pytest.approx(np.mean(values), abs=1e-9 * scale)
        assert over.standard_error == pytest.approx(stats.sem(values), abs=1e-9 * scale)
        if stats.sem(values) > 1e-9 * scale:
            low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
            assert (over.low, over.high) == pytest.approx((low, high), abs=1e-6 * scale)

    def test_equal_values_have_no_spread(self) -> None:
        over = mean_over_seeds([Estimate(0.1)] * 3)
        assert (over.value, over.standard_error, over.low, over.high) == (0.1, 0.0, 0.1, 0.1)
        assert str(over) == "0.100 ± 0 (n=3)"

    def test_what_has_no_value_is_counted(self) -> None:
        over = mean_over_seeds([Estimate(1.0), Estimate(None, reason="nan"), Estimate(2.0)])
        assert (over.value, over.n, over.left_out) == (1.5, 2, 1)
        none = mean_over_seeds([Estimate(None, reason="nan")])
        assert (none.value, none.n, none.reason, str(none)) == (None, 0, "nan", "n/a")

    def test_one_seed_keeps_its_own_interval(self) -> None:
        value = Value(score=0.5, standard_error=0.01, interval={"low": 0.48, "high": 0.52})
        over = table([found(0, {"SNC": value})]).over_seeds().rows[0]["value"]
        assert (over.n, over.spread, over.low, over.high) == (1, "cases", 0.48, 0.52)
        assert mean_over_seeds([Estimate(0.5)]).spread is None

    def test_cells_that_differ_in_no_label_are_refused(self) -> None:
        cells = [Cell(study="s", labels={"seed": 0}, inputs={"lr": lr}) for lr in (1, 2)]
        results = [Result.done(cell, {"SNC": 1.0}, seconds=0, machine=MACHINE) for cell in cells]
        assert len(table(results)) == 2
        with pytest.raises(InputError, match="other inputs"):
            table(results).over_seeds()
        with pytest.raises(InputError, match="other inputs"):
            table(results).pivot("seed", "metric")


class TestDifference:
    @given(st.lists(FINITE, min_size=2, max_size=6), st.lists(FINITE, min_size=2, max_size=6))
    def test_agrees_with_welch(self, one: list[float], other: list[float]) -> None:
        scale = max(map(abs, one + other)) + 1e-300
        if min(np.std(one), np.std(other)) < 1e-6 * scale:
            return
        apart = difference(*(mean_over_seeds([Estimate(v) for v in values]) for values in (one, other)))
        low, high = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
        assert (apart.low, apart.high) == pytest.approx((low, high), abs=1e-6 * scale)

    def test_one_side_alone(self) -> None:
        ours = mean_over_seeds([Estimate(value) for value in (1.0, 2.0, 3.0)])
        assert ours.low is not None
        assert within(difference(ours, Estimate(ours.low + 0.01))) is True
        assert within(difference(ours, Estimate(ours.low - 0.01))) is False
        assert within(difference(Estimate(1.0), Estimate(1.0))) is None
        assert within(difference(Estimate(None, reason="x"), ours)) is None

    def test_no_spread_at_all_must_be_equal(self) -> None:
        exact = mean_over_seeds([Estimate(0.5)] * 2)
        assert within(difference(exact, exact)) is True
        assert within(difference(exact, Estimate(0.6))) is False


class TestDigits:
    @pytest.mark.parametrize(
        ("estimate", "text"),
        [
            (Estimate(0.8132, 0.0117, n=5), "0.813 ± 0.012 (n=5)"),
            (Estimate(0.8132), "0.813"),
            (Estimate(0.8, 0.0996), "0.80 ± 0.10"),
            (Estimate(2493.24, 123.4), "2493 ± 123"),
            (Estimate(24.72, 1.5), "24.7 ± 1.5"),
            (Estimate(-0.5, 0.25), "-0.50 ± 0.25"),
            (Estimate(0.8, 1e-12), "0.800 ± 1.0e-12"),
            (Estimate(1.0), "1.00"),
            (Estimate(0.0), "0"),
        ],
    )
    def test_known(self, estimate: Estimate, text: str) -> None:
        assert str(estimate) == text

    @given(st.floats(-1e300, 1e300))
    def test_close_to_the_number(self, value: float) -> None:
        assert float(digits(value)) == pytest.approx(value, rel=6e-3)
        assert len(digits(value)) < 12


class TestPivot:
    def test_known(self) -> None:
        turned = table(RESULTS, "metric=SNC").pivot("model", "alpha")
        assert turned.columns == ("model", "0.2", "0.4", "0.6")
        assert [row["model"] for row in turned.rows] == ["beta-vae", "ae"]
        assert turned.rows[1]["0.2"].value == pytest.approx(0.3)
        both = table(RESULTS, "alpha=0.2").pivot(["model"], ["metric", "seed"])
        assert both.columns == ("model", "SNC / 0", "SNC / 1", "SNC / 2", "NK / 0", "NK / 1", "NK / 2")

    def test_holes(self) -> None:
        turned = table([found(model="a", x=1), found(model="b", x=2)]).pivot("model", "x")
        assert turned.rows[0].get("2") is None
        assert turned.render("csv").split("\n")[1].startswith("a,0.5,,,,1,,")
        assert "a" in turned.render("text")

    def test_what_stands_for_several_values_is_refused(self) -> None:
        with pytest.raises(InputError, match="metric has 2 values"):
            table(RESULTS).pivot("model", "alpha")
        with pytest.raises(InputError, match="did you mean 'model'"):
            table(RESULTS, "metric=SNC").pivot("modell", "alpha")

    def test_heads_that_look_alike(self) -> None:
        turned = table([found(x="1"), found(x=1), found(x="study")]).pivot("study", "x")
        assert len(set(turned.columns)) == 4


EVIL = [
    "=cmd()",
    "+1",
    "-2",
    "@SUM(A1)",
    "\t=1",
    " =1",
    "<script>alert(1)</script>",
    "a|b",
    "a\nb",
    "[red]x[/red]",
    "`x`",
    "**b**",
    "[a](http://x)",
    r"\input{x}",
    "50% & $x_1^2$ #~{}",
    "\x1b[31mred",
    "\u202eevil",
    'say "hi", ok',
    "&lt;",
    "模型",
    "a\\",
]


class TestRendering:
    @pytest.fixture
    def wild(self) -> Table:
        values = {"<b>": Value(score=-0.25, standard_error=0.01)}
        return table([found(seed, values, model=name) for seed in range(2) for name in EVIL])

    def test_csv_comes_back_and_runs_nothing(self, wild: Table) -> None:
        rows = list(csv.DictReader(io.StringIO(wild.render("csv"))))
        assert len(rows) == len(wild)
        for row, name in zip(rows, EVIL, strict=False):
            assert row["model"] in (name, f"'{name}")
            assert not row["model"].strip().startswith(("=", "+", "-", "@"))
            assert (float(row["value"]), row["standard_error"], row["low"]) == (-0.25, "0.01", "")
        assert rows[0]["model"] == "'=cmd()"

    def test_csv_keeps_every_digit(self) -> None:
        value = 0.1 + 2**-55
        (row,) = csv.DictReader(io.StringIO(table([found(0, {"x": value})]).render("csv")))
        assert float(row["value"]) == value

    def test_json_comes_back(self, wild: Table) -> None:
        read = json.loads(wild.render("json"))
        assert [row["model"] for row in read["rows"][: len(EVIL)]] == EVIL
        assert read["rows"][0]["value"]["value"] == -0.25
        assert read["columns"] == list(wild.columns)

    def test_markdown_has_its_columns_and_no_tags(self, wild: Table) -> None:
        text = wild.over_seeds().render("markdown")
        lines = text.strip().split("\n")
        assert len(lines) == 2 + len(EVIL)
        for line in lines:
            bare = re.sub(r"\\.", "", line)  # a backslash takes what follows out of play
            assert bare.count("|") == lines[1].count("|"), line
            assert not re.search(r"[<>`*\[\]\x1b\u202e]", bare)
        assert "&lt;script&gt;" in text
        assert "&amp;lt;" in text

    def test_latex_has_its_columns_and_no_commands(self, wild: Table) -> None:
        text = wild.over_seeds().render("latex")
        body = text.split("\\midrule\n")[1].split("\\bottomrule")[0].strip().split("\n")
        assert len(body) == len(EVIL)
        words = r"\\text(?:backslash|asciitilde|asciicircum|less|greater|bar|quotedbl)\{\}"
        known = words + r"|\{[\[\]*]\}|\\[&%$#_{}]|\$\\pm\$| \\\\$"
        for line in body:
            assert len(re.findall(r"(?<!\\)&", line)) == 4, line
            rest = re.sub(known, "", line)
            assert not re.search(r"[\\$#_^~{}%\[*]", rest), line
        assert r"\textbackslash{}input\{x\}" in text

    def test_text_and_terminal_show_names_as_they_are(self, wild: Table) -> None:
        console = Console(width=200, file=io.StringIO(), record=True, force_terminal=True)
        console.print(wild.rich())
        for shown in (str(wild), console.export_text()):
            assert "[red]x[/red]" in shown
            assert "<script>" in shown
            assert "\\u001b[31mred" in shown
            assert "\u202e" not in shown
        assert "\x1b" not in str(wild)

    def test_text_is_aligned(self) -> None:
        text = str(table([found(0, model="模型"), found(1, model="beta-vae")]))
        lines = text.split("\n")
        assert lines[0].split() == ["study", "model", "seed", "metric", "value"]
        assert lines[2].index("SNC") + 2 == lines[3].index("SNC")  # two signs that are two wide

    def test_intervals_are_told(self) -> None:
        text = table(RESULTS, "metric=SNC model=ae").over_seeds().render("markdown")
        assert "| 0.300 ± 0.058 (n=3) | 0.05 to 0.55 |" in text

    def test_the_verdict_on_a_difference_says_what_it_is_to_people(self) -> None:
        columns = ("a", "b", "b - a", "b - a within", "c within")
        whole = Table(columns, (dict.fromkeys(columns, True),))
        for form in ("text", "markdown", "latex"):
            assert "may be chance" in whole.render(form)
            assert "b - a within" not in whole.render(form)
            assert "c within" in whole.render(form)
        assert "b - a within" in whole.render("csv")
        assert "b - a within" in whole.render("json")

    def test_an_unknown_rendering(self) -> None:
        with pytest.raises(InputError, match="latex"):
            table(RESULTS).render("word")  # type: ignore[arg-type]

    def test_nothing(self) -> None:
        for form in ("text", "csv", "markdown", "latex", "json"):
            assert table([]).render(form)  # type: ignore[arg-type]
