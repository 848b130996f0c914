"""Cells whose work is done for all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from alebrije.results import Cell, Store, Value
from alebrije.studies.jobs import Job, Workers, run_jobs
from alebrije.studies.together import Together

Start = Callable[[Sequence[int]], list[Callable[[], Mapping[str, Value | float]] | None]]


def _square(number: int) -> Mapping[str, Value | float]:
    return {"square": float(number**2)}


class Squares:
    """Starts the squares of even numbers, and remembers which numbers were given."""

    def __init__(self) -> None:
        self.given: list[list[int]] = []

    def start(self, numbers: Sequence[int]) -> list[Callable[[], Mapping[str, Value | float]] | None]:
        self.given.append(list(numbers))
        return [None if number % 2 else partial(_square, number) for number in numbers]


def _broken(numbers: Sequence[int]) -> list[Callable[[], Mapping[str, Value | float]] | None]:
    raise MemoryError


def _job(number: int, start: Start, key: str, alone: list[int]) -> Job:
    def work() -> Mapping[str, Value | float]:
        alone.append(number)
        return _square(number)

    cell = Cell(study="squares", labels={"number": number}, inputs={"number": number})
    return Job(cell, work, together=Together(key, number, start))


def _scores(store: Store) -> dict[object, float | None]:
    return {result.cell.labels["number"]: result.values["square"].score for result in store.all()}


def test_missing_cells_with_the_same_key_are_started_once(tmp_path: Path) -> None:
    squares, alone, store = Squares(), list[int](), Store(tmp_path)
    jobs = [_job(number, squares.start, "low" if number < 4 else "high", alone) for number in range(6)]
    run_jobs(jobs[:1], store)
    assert (squares.given, alone) == ([], [0])  # a single cell is computed by itself
    assert run_jobs(jobs, store).done == 5
    assert squares.given == [[1, 2, 3], [4, 5]]
    assert alone == [0, 1, 3, 5]  # odd numbers could not be started
    assert _scores(store) == {number: float(number**2) for number in range(6)}


def test_cells_that_cannot_be_started_are_computed_one_by_one(tmp_path: Path) -> None:
    alone, store = list[int](), Store(tmp_path)
    assert run_jobs([_job(number, _broken, "all", alone) for number in range(3)], store).done == 3
    assert alone == [0, 1, 2]
    assert _scores(store) == {0: 0.0, 1: 1.0, 2: 4.0}


@pytest.mark.slow
def test_several_processes_compute_each_cell_by_itself(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cells = [Cell(study="squares", labels={"number": number}, inputs={"number": number}) for number in range(3)]
    jobs = [
        Job(cell, partial(_square, number), together=Together("all", number, _broken))
        for number, cell in enumerate(cells)
    ]
    assert run_jobs(jobs, store, Workers(2)).done == 3
    assert _scores(store) == {0: 0.0, 1: 1.0, 2: 4.0}
