"""Results of one thing that was examined several times for other metrics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from alebrije.results import Cell, Result, merge_results, result_table
from alebrije.results.merge import latest_results, without_superseded_failures

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def found(metrics: dict[str, int], values: dict[str, float], later: int = 0, **inputs: object) -> Result:
    cell = Cell(study="analogy", labels={"model": "mine"}, inputs={"metrics": metrics, **inputs})
    return Result.done(cell, values, seconds=1).model_copy(update={"created": NOW + timedelta(seconds=later)})


def test_values_are_taken_together() -> None:
    first, second = found({"a": 1, "b": 1}, {"a": 0.1, "b": 0.2}), found({"c": 1}, {"c": 0.3}, later=5)
    for rows in ([first, second], [second, first]):
        (one,) = merge_results(rows)
        assert {name: value.score for name, value in one.values.items()} == {"a": 0.1, "b": 0.2, "c": 0.3}
    assert len(result_table([first, second])) == 3
    assert len(result_table([first, second]).over_seeds()) == 3


def test_the_higher_version_counts_and_then_the_later() -> None:
    old, new = found({"a": 2}, {"a": 0.5}, later=0), found({"a": 1, "b": 1}, {"a": 0.1, "b": 0.2}, later=9)
    (one,) = merge_results([old, new])
    assert one.values["a"].score == 0.5
    same = found({"a": 2, "b": 1}, {"a": 0.6, "b": 0.2}, later=10)
    assert merge_results([old, same])[0].values["a"].score == 0.6


def test_other_inputs_stay_apart() -> None:
    assert len(merge_results([found({"a": 1}, {"a": 0.1}, seed=0), found({"b": 1}, {"b": 0.1}, seed=1)])) == 2


def test_a_failure_is_outlived_by_what_was_done_later() -> None:
    cell = Cell(study="analogy", labels={"model": "mine"}, inputs={"other": 1})
    failed = Result.failed(cell, ValueError("no"), seconds=1).model_copy(update={"created": NOW})
    earlier, later = found({"a": 1}, {"a": 0.1}, later=-5), found({"a": 1}, {"a": 0.1}, later=5)
    assert without_superseded_failures([failed, later]) == [later]
    assert without_superseded_failures([earlier, failed]) == [earlier, failed]
    assert latest_results([failed, later]) == ([later], 0)


def test_failures_are_not_mixed_with_what_was_done() -> None:
    done = found({"a": 1}, {"a": 0.1})
    failed = Result.failed(
        Cell(study="analogy", labels={"model": "mine"}, inputs={"metrics": {"b": 1}}), ValueError("x"), seconds=1
    )
    assert len(merge_results([done, failed])) == 2
