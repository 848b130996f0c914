"""Table formats: every value survives, and hostile names do no harm."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from alebrije.errors import InputError
from alebrije.results import ResultTable, Value, result_table
from tests.results.examples import RESULTS, result

HOSTILE = [
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


class TestFormats:
    @pytest.fixture
    def wild(self) -> ResultTable:
        values = {"<b>": Value(score=-0.25, standard_error=0.01)}
        return result_table([result(seed, values, model=name) for seed in range(2) for name in HOSTILE])

    def test_csv_comes_back_and_runs_nothing(self, wild: ResultTable) -> None:
        rows = list(csv.DictReader(io.StringIO(wild.render("csv"))))
        assert len(rows) == len(wild)
        for row, name in zip(rows, HOSTILE, strict=False):
            assert row["model"] in (name, f"'{name}")
            assert not row["model"].strip().startswith(("=", "+", "-", "@"))
            assert (float(row["value"]), row["standard_error"], row["low"]) == (-0.25, "0.01", "")
        assert rows[0]["model"] == "'=cmd()"

    def test_csv_keeps_every_digit(self) -> None:
        value = 0.1 + 2**-55
        (row,) = csv.DictReader(io.StringIO(result_table([result(0, {"x": value})]).render("csv")))
        assert float(row["value"]) == value

    def test_json_comes_back(self, wild: ResultTable) -> None:
        read = json.loads(wild.render("json"))
        assert [row["model"] for row in read["rows"][: len(HOSTILE)]] == HOSTILE
        assert read["rows"][0]["value"]["value"] == -0.25
        assert read["columns"] == list(wild.columns)

    def test_markdown_has_its_columns_and_no_tags(self, wild: ResultTable) -> None:
        text = wild.over_seeds().render("markdown")
        lines = text.strip().split("\n")
        assert len(lines) == 2 + len(HOSTILE)
        for line in lines:
            bare = re.sub(r"\\.", "", line)  # a backslash takes what follows out of play
            assert bare.count("|") == lines[1].count("|"), line
            assert not re.search(r"[<>`*\[\]\x1b\u202e]", bare)
        assert "&lt;script&gt;" in text
        assert "&amp;lt;" in text

    def test_latex_has_its_columns_and_no_commands(self, wild: ResultTable) -> None:
        text = wild.over_seeds().render("latex")
        body = text.split("\\midrule\n")[1].split("\\bottomrule")[0].strip().split("\n")
        assert len(body) == len(HOSTILE)
        words = r"\\text(?:backslash|asciitilde|asciicircum|less|greater|bar|quotedbl)\{\}"
        known = words + r"|\{[\[\]*]\}|\\[&%$#_{}]|\$\\pm\$| \\\\$"
        for line in body:
            assert len(re.findall(r"(?<!\\)&", line)) == 4, line
            rest = re.sub(known, "", line)
            assert not re.search(r"[\\$#_^~{}%\[*]", rest), line
        assert r"\textbackslash{}input\{x\}" in text

    def test_text_shows_names_unchanged_but_escapes_control_characters(self, wild: ResultTable) -> None:
        assert "[red]x[/red]" in str(wild)
        assert "<script>" in str(wild)
        assert "\\u001b[31mred" in str(wild)
        assert "\u202e" not in str(wild)
        assert "\x1b" not in str(wild)

    def test_text_is_aligned(self) -> None:
        text = str(result_table([result(0, model="模型"), result(1, model="beta-vae")]))
        lines = text.split("\n")
        assert lines[0].split() == ["study", "model", "seed", "metric", "value"]
        assert lines[2].index("SNC") + 2 == lines[3].index("SNC")  # two signs that are two wide

    def test_intervals_are_told(self) -> None:
        text = result_table(RESULTS, "metric=SNC model=ae").over_seeds().render("markdown")
        assert "| 0.300 ± 0.058 (n=3) | 0.05 to 0.55 |" in text

    def test_the_verdict_on_a_difference_says_what_it_is_to_people(self) -> None:
        columns = ("a", "b", "b - a", "b - a within", "c within")
        whole = ResultTable(columns, (dict.fromkeys(columns, True),))
        for form in ("text", "markdown", "latex"):
            assert "may be chance" in whole.render(form)
            assert "b - a within" not in whole.render(form)
            assert "c within" in whole.render(form)
        assert "b - a within" in whole.render("csv")
        assert "b - a within" in whole.render("json")

    def test_an_unknown_rendering(self) -> None:
        with pytest.raises(InputError, match="latex"):
            result_table(RESULTS).render("word")  # type: ignore[arg-type]

    def test_nothing(self) -> None:
        for form in ("text", "csv", "markdown", "latex", "json"):
            assert result_table([]).render(form)  # type: ignore[arg-type]
