"""Tables for people: narrow, nothing said twice, nothing lost."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len

from alebrije.results import Estimate, Table, folded
from alebrije.results.folding import without_lone_seeds


def made(*rows: dict[str, Any]) -> Table:
    columns = dict.fromkeys(name for row in rows for name in row)
    return Table(tuple(columns), rows)


def value(number: float, n: int | None = 1) -> Estimate:
    return Estimate(number, 0.01, number - 0.02, number + 0.02, n)


def test_what_all_rows_share_is_said_once() -> None:
    table = made(
        *({"study": "neurons", "size": "tiny", "model": name, "metric": "SNC", "value": value(0.5)} for name in "ab")
    )
    lines = folded(table).split("\n")
    assert lines[0] == "study=neurons size=tiny; one seed each"
    assert lines[2].split() == ["model", "metric", "value", "95", "%", "interval"]
    assert "(n=1)" not in folded(table)
    assert folded(table).count("tiny") == 1


def test_seeds_stay_where_some_value_has_more() -> None:
    text = folded(made({"model": "a", "value": value(0.5)}, {"model": "b", "value": value(0.6, n=3)}))
    assert "(n=1)" in text
    assert "(n=3)" in text
    assert "one seed each" not in text


def test_single_seeds_are_left_out_of_other_forms_too() -> None:
    alone = Table(("model", "value"), ({"model": "ae", "value": Estimate(0.5, n=1)},))
    several = Table(("model", "value"), ({"model": "ae", "value": Estimate(0.5, n=3)},))
    assert "n=1" in alone.render("markdown")
    assert "n=1" not in without_lone_seeds(alone).render("markdown")
    assert without_lone_seeds(several) is several


def test_what_has_no_value_does_not_count_as_seeds() -> None:
    rows = {"model": "a", "value": value(0.5)}, {"model": "b", "value": Estimate(None, n=0, reason="x")}
    assert folded(made(*rows)).startswith("one seed each\n")


def test_each_study_has_its_own_columns() -> None:
    table = made(
        {"study": "analogy", "model": "a", "corpus": "occluded", "alpha": None, "metric": "coat", "value": value(0.5)},
        {"study": "analogy", "model": "b", "corpus": "occluded", "alpha": None, "metric": "coat", "value": value(0.5)},
        {"study": "imagination", "model": "a", "corpus": None, "alpha": 0.2, "metric": "gap", "value": value(0.5)},
        {"study": "imagination", "model": "a", "corpus": None, "alpha": 0.4, "metric": "gap", "value": value(0.5)},
    )
    caption, first, second = folded(table).split("\n\n")
    assert caption == "one seed each"
    assert first.split("\n")[0] == "analogy: corpus=occluded"
    assert first.split("\n")[1].split()[:2] == ["model", "metric"]
    assert second.split("\n")[0] == "imagination: model=a"
    assert second.split("\n")[1].split()[:2] == ["alpha", "metric"]


def test_a_single_row_keeps_its_labels() -> None:
    text = folded(made({"study": "neurons", "model": "a", "metric": "SNC", "value": value(0.5)}))
    assert "neurons" in text.split("\n")[4]


def test_rows_always_have_a_name() -> None:
    assert "model" in folded(made({"model": "a", "SNC": value(0.5)}, {"model": "a", "SNC": value(0.6)}))


def test_true_and_one_are_not_the_same() -> None:
    assert "x=" not in folded(made({"m": "a", "x": True, "value": value(0)}, {"m": "b", "x": 1, "value": value(0)}))


def test_what_is_too_wide_is_put_together_and_then_broken() -> None:
    labels = ("world", "setting", "feature", "held_out", "drawn_by")
    rows = [
        {"model": "a", **{name: f"{name}-{n}-{15 * 'x'}" if name == one else None for name in labels}}
        | {"metric": "SNC", "value": value(0.5)}
        for n, one in enumerate(labels)
    ]
    text = folded(made(*rows))
    assert max(map(cell_len, text.split("\n"))) <= 100
    assert "where" in text
    assert "held_out=held_out-3-xxxxxxxxxxxxxxx" in text
    long = folded(made(*({**row, "model": 200 * name} for row, name in zip(rows, "abcde", strict=True))))
    assert max(map(cell_len, long.split("\n"))) <= 100
    assert all(long.count(name) >= 200 for name in "abcde")


def test_names_do_no_harm() -> None:
    text = folded(made(*({"model": "\x1b[31m[red]x", "metric": name, "value": value(0.5)} for name in "ab")))
    assert "\x1b" not in text
    assert "[red]x" in text


def test_an_empty_table() -> None:
    assert folded(Table(("model", "value"), ())).strip("\n─ ") in ("", "model  value")
