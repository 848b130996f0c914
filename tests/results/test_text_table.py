"""Tables for people: narrow, nothing said twice, nothing lost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from alebrije.results import Estimate, ResultTable, fit_to_width
from alebrije.results.text_table import _pieces, hide_single_seeds


def made(*rows: dict[str, Any]) -> ResultTable:
    columns = dict.fromkeys(name for row in rows for name in row)
    return ResultTable(tuple(columns), rows)


def value(number: float, n: int | None = 1) -> Estimate:
    return Estimate(number, 0.01, number - 0.02, number + 0.02, n)


def test_what_all_rows_share_is_said_once() -> None:
    table = made(
        *({"study": "neurons", "size": "tiny", "model": name, "metric": "SNC", "value": value(0.5)} for name in "ab")
    )
    lines = fit_to_width(table).split("\n")
    assert lines[0] == "study=neurons size=tiny; one seed each"
    assert lines[2].split() == ["model", "metric", "value", "95", "%", "interval"]
    assert "(n=1)" not in fit_to_width(table)
    assert fit_to_width(table).count("tiny") == 1


def test_seeds_stay_where_some_value_has_more() -> None:
    text = fit_to_width(made({"model": "a", "value": value(0.5)}, {"model": "b", "value": value(0.6, n=3)}))
    assert "(n=1)" in text
    assert "(n=3)" in text
    assert "one seed each" not in text


def test_single_seeds_are_left_out_of_other_forms_too() -> None:
    alone = ResultTable(("model", "value"), ({"model": "ae", "value": Estimate(0.5, n=1)},))
    several = ResultTable(("model", "value"), ({"model": "ae", "value": Estimate(0.5, n=3)},))
    assert "n=1" in alone.render("markdown")
    assert "n=1" not in hide_single_seeds(alone).render("markdown")
    assert hide_single_seeds(several) is several


def test_what_has_no_value_does_not_count_as_seeds() -> None:
    rows = {"model": "a", "value": value(0.5)}, {"model": "b", "value": Estimate(None, n=0, reason="x")}
    assert fit_to_width(made(*rows)).startswith("one seed each\n")


def test_each_study_has_its_own_columns() -> None:
    table = made(
        {"study": "analogy", "model": "a", "corpus": "occluded", "alpha": None, "metric": "coat", "value": value(0.5)},
        {"study": "analogy", "model": "b", "corpus": "occluded", "alpha": None, "metric": "coat", "value": value(0.5)},
        {"study": "imagination", "model": "a", "corpus": None, "alpha": 0.2, "metric": "gap", "value": value(0.5)},
        {"study": "imagination", "model": "a", "corpus": None, "alpha": 0.4, "metric": "gap", "value": value(0.5)},
    )
    caption, first, second = fit_to_width(table).split("\n\n")
    assert caption == "one seed each"
    assert first.split("\n")[0] == "analogy: corpus=occluded"
    assert first.split("\n")[1].split()[:2] == ["model", "metric"]
    assert second.split("\n")[0] == "imagination: model=a"
    assert second.split("\n")[1].split()[:2] == ["alpha", "metric"]


def test_a_single_row_keeps_its_labels() -> None:
    text = fit_to_width(made({"study": "neurons", "model": "a", "metric": "SNC", "value": value(0.5)}))
    assert "neurons" in text.split("\n")[4]


def test_rows_always_have_a_name() -> None:
    assert "model" in fit_to_width(made({"model": "a", "SNC": value(0.5)}, {"model": "a", "SNC": value(0.6)}))


def test_true_and_one_are_not_the_same() -> None:
    assert "x=" not in fit_to_width(
        made({"m": "a", "x": True, "value": value(0)}, {"m": "b", "x": 1, "value": value(0)})
    )


LABELS = ("world", "setting", "feature", "held_out", "drawn_by")


def widest(text: str) -> int:
    return max(map(cell_len, text.split("\n")))


def test_what_is_too_wide_is_put_together() -> None:
    rows = [
        {"model": "a", **{name: f"{name}-{n}-{15 * 'x'}" if name == one else None for name in LABELS}}
        | {"metric": "SNC", "value": value(0.5)}
        for n, one in enumerate(LABELS)
    ]
    text = fit_to_width(made(*rows))
    assert widest(text) <= 100
    assert "where" in text
    assert "held_out=held_out-3-xxxxxxxxxxxxxxx" in text
    long = fit_to_width(made(*({**row, "model": 200 * name} for row, name in zip(rows, "abcde", strict=True))))
    assert all(200 * name in long for name in "abcde")  # wider than it should be, and whole


def test_labels_that_would_break_stand_above_their_values() -> None:
    labels = {"setting": "linear CG", "held_out": "size 0, shape 0", "filters": "no-duplicates+no-invisible"}
    rows = [
        {"model": "my_models:Unseeded", **labels, "input_size": size, "metric": metric, "value": value(size / 100, 3)}
        for size in (64, 128)
        for metric in ("gap_to_oracle", "MSE")
    ]
    text = fit_to_width(made(*rows, {**rows[0], **dict.fromkeys(labels, "another one that is long"), "model": "b"}))
    lines = text.split("\n")
    assert widest(text) <= 100
    assert text.count("input_size=128") == 1
    place = next(n for n, line in enumerate(lines) if "input_size=128" in line)
    assert [line.split()[:2] for line in lines[place + 1 : place + 3]] == [["gap_to_oracle", "1.280"], ["MSE", "1.280"]]
    assert all(name in text for name in ("my_models:Unseeded", "'linear CG'", "'size 0, shape 0'"))


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("my_models:Unseeded", ["my_models:", "Unseeded"]),
        ("no-duplicates+no-invisible", ["no-", "duplicates+", "no-", "invisible"]),
        ("input_size=64", ["input_size=64"]),
        ("1e-07", ["1e-07"]),
        ("2,000/3,000", ["2,000/3,000"]),
        ("-0.5", ["-0.5"]),
        ("/tmp/tables/a", ["/tmp/", "tables/", "a"]),
        ("setting='linear CG'", ["setting='linear ", "CG'"]),
    ],
)
def test_where_a_name_may_break(name: str, pieces: list[str]) -> None:
    assert _pieces(name) == pieces


WORD = st.text("abc019.", min_size=1, max_size=12)


@given(
    st.lists(st.tuples(*[st.lists(WORD, min_size=1, max_size=6).map(" ".join)] * 4), min_size=2, max_size=5),
    st.integers(20, 100),
)
def test_words_and_numbers_are_never_cut(cells: list[tuple[str, ...]], width: int) -> None:
    names = ["model", "one", "other", "metric"]
    rows = [dict(zip(names, row, strict=True)) | {"value": value(0.25, 3)} for row in cells]
    shown = fit_to_width(made(*rows), width)
    for row in rows:
        for cell in row.values():
            if isinstance(cell, str):
                assert all(re.search(rf"(?<![a-z0-9.]){re.escape(word)}(?![a-z0-9.])", shown) for word in cell.split())
    assert shown.count("0.250 ± 0.010 (n=3)") == shown.count("0.230 to 0.270") == len(rows)


def compared(runs: str, length: int = 1, **labels: str) -> ResultTable:
    """A comparison of runs with the first, as `compare` makes it."""
    first, *others = (f"{length * run}" for run in runs)
    rows: list[dict[str, Any]] = []
    for metric in ("SNC", "NK"):
        row: dict[str, Any] = {"model": "pixels", **labels, "metric": metric, first: value(0.5, 3)}
        row |= {name: value(0.6, 3) for name in others}
        for name in others:
            row |= {f"{name} - {first}": value(0.1, None), f"{name} - {first} within": False}
        rows.append(row)
    return made(*rows)


def test_a_comparison_that_fits_is_one_table() -> None:
    text = fit_to_width(compared("ab"))
    assert text.count("metric") == 1
    assert "within" not in text
    assert text.split("\n")[2].split()[-3:] == ["may", "be", "chance"]
    assert text.endswith("may be chance: yes if the 95 % interval of the difference to its left includes zero\n")


def test_the_verdict_is_never_above_the_table() -> None:
    assert "within=" not in fit_to_width(compared("ab")) + fit_to_width(compared("abcd"))


def test_a_comparison_that_does_not_fit_has_a_table_for_each_run() -> None:
    text = fit_to_width(compared("abcd"))
    _, *tables, _ = text.split("\n\n")
    assert widest(text) <= 100
    assert [table.split("\n")[0].split()[1:6] for table in tables] == [["a", x, x, "-", "a"] for x in "bcd"]
    assert all(table.count("0.500 ± 0.010 (n=3)") == table.count("no") == 2 for table in tables)


def test_nothing_of_a_comparison_is_lost() -> None:
    table = compared("abcd")
    rows = ({**table.rows[0], "e": value(0.9, 3), "source": "Table 1"}, *table.rows[1:])
    text = fit_to_width(ResultTable((*table.columns[:2], "a", "b", "c", "d", "e", *table.columns[6:], "source"), rows))
    assert "0.900 ± 0.010 (n=3)" in text  # of a run that has no difference
    assert "Table 1" in text


def test_sources_that_do_not_fit_stand_below_once() -> None:
    table = compared("abc", world="rooms")
    long = "Mahon et al. 2024, Table 2: beta-vae without anything held out"
    text = fit_to_width(
        ResultTable((*table.columns, "source", "notes"), tuple({**row, "source": long} for row in table.rows * 2))
    )
    assert text.count(long) == 1  # the same in all rows
    rows = [{**row, "source": long, "notes": note} for note in ("one, ", "other") for row in table.rows]
    text = fit_to_width(
        ResultTable((*table.columns, "source", "notes"), (*rows, {**rows[0], "source": None, "notes": None}))
    )
    assert widest(text) <= 100
    assert f"\n[1] {long}; one,\n[2] {long}; other\n" in text
    assert text.count("[1]\n") == text.count("[2]\n") == 4


def test_many_columns_of_values_stand_below_each_other() -> None:
    names = [f"model {n}" for n in range(12)]
    text = fit_to_width(
        made(*({"metric": metric} | {name: value(0.5, 3) for name in names} for metric in ("SNC", "NK")))
    )
    assert widest(text) <= 100
    assert all(text.count(f"{name} ") + text.count(f"{name}\n") == 1 for name in names)
    assert text.count("SNC") == 3


def test_reasons_stand_below() -> None:
    none = [Estimate(None, n=0, reason=f"reason {n}") for n in range(7)]
    few = fit_to_width(
        made(*({"model": name, "metric": metric, "value": none[0]} for name in "ab" for metric in ("SNC", "NK")))
    )
    assert few.endswith("\n\nn/a: a SNC, a NK, b SNC and 1 more: reason 0\n")
    many = fit_to_width(made(*({"model": "a", "metric": f"m{n}", "value": one} for n, one in enumerate(none))))
    assert many.endswith("n/a: m4: reason 4\nand 2 more: --format csv\n")
    assert many.count("reason") == 5
    turned = fit_to_width(made({"model": "a", "SNC": none[0]}, {"model": "b", "SNC": value(0.5)}))
    assert turned.endswith("n/a: a SNC: reason 0\n")
    assert "n/a" not in fit_to_width(made({"model": "a", "value": value(0.5)}))


def test_a_reason_does_no_harm() -> None:
    text = fit_to_width(made({"model": "a", "metric": "SNC", "value": Estimate(None, reason="\x1b[31m\nred")}))
    assert "\x1b" not in text
    assert text.split("\n")[-2].startswith("n/a: SNC: ")


def test_names_do_no_harm() -> None:
    text = fit_to_width(made(*({"model": "\x1b[31m[red]x", "metric": name, "value": value(0.5)} for name in "ab")))
    assert "\x1b" not in text
    assert "[red]x" in text


def test_an_empty_table() -> None:
    assert fit_to_width(ResultTable(("model", "value"), ())).strip("\n─ ") in ("", "model  value")
