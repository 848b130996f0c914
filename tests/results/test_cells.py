"""Cells and results: one key for equal inputs, another for any other, and files that say what was found."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from alebrije.errors import InputError
from alebrije.metrics import catalog, single_neuron_classification
from alebrije.metrics.uncertainty import Interval
from alebrije.results import Cell, Machine, Result, Value
from alebrije.results.canonical_json import canonical_json
from alebrije.results.cells import RESERVED, ScoreInterval
from alebrije.results.result_file import dump_result, load_result
from alebrije.results.scores import LONGEST

MACHINE = Machine(python="3.12", torch="2.11", platform="Linux", device="cpu")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)
INPUTS = st.dictionaries(TEXT, JSON, max_size=4)


def key(**inputs: Any) -> str:
    return Cell(study="s", inputs=inputs).key


def shuffled(value: Any, draw: random.Random) -> Any:
    """The same value with every table in another order, lists as tuples, and whole numbers as floats if they fit."""
    if isinstance(value, dict):
        items = [(name, shuffled(item, draw)) for name, item in value.items()]
        draw.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return tuple(shuffled(item, draw) for item in value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value)
    return value


class TestKey:
    def test_known(self) -> None:
        """Pinned: another value would make every stored result be computed again."""
        cell = Cell(study="neurons", labels={"model": "ae"}, inputs={"seed": 0, "alpha": 0.1, "sizes": [64, 64]})
        assert cell.key == PINNED
        assert cell.seed == int(PINNED[-8:], 16) < 2**32

    @given(INPUTS, st.randoms(use_true_random=False))
    def test_order_and_kind_of_sequence_do_not_matter(self, inputs: dict[str, Any], draw: random.Random) -> None:
        assert key(x=inputs) == key(x=shuffled(inputs, draw))

    @given(INPUTS, INPUTS)
    def test_equal_keys_mean_equal_inputs(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        same = canonical_json(Cell(study="s", inputs=one).inputs) == canonical_json(
            Cell(study="s", inputs=other).inputs
        )
        assert (Cell(study="s", inputs=one).key == Cell(study="s", inputs=other).key) == same
        if same:
            assert one == other

    @given(INPUTS)
    def test_survives_a_file(self, inputs: dict[str, Any]) -> None:
        cell = Cell(study="s", inputs=inputs)
        read = Cell(study="s", inputs=json.loads(json.dumps(cell.inputs)))
        assert read.key == cell.key
        assert pickle.loads(pickle.dumps(cell)) == cell

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (1, 1.0),
            (0, -0.0),
            (0.0, -0.0),
            (2**60, 2.0**60),
            ((1, 2), [1, 2]),
            (np.float64(0.1), 0.1),
            (np.int32(3), 3),
            (np.bool_(True), True),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ],
    )
    def test_equal(self, one: Any, other: Any) -> None:
        assert key(x=one) == key(x=other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (True, 1),
            (False, 0),
            (None, 0),
            (None, "None"),
            ("1", 1),
            (0.1, 0.1 + 2**-56),
            ([1, 2], [2, 1]),
            ([], {}),
            ({"a": {"b": 1}}, {"a": 1, "b": 1}),
            ("é", "e\u0301"),
            (np.float32(0.1), 0.1),
        ],
    )
    def test_different(self, one: Any, other: Any) -> None:
        assert key(x=one) != key(x=other)

    def test_covers_study_and_inputs_and_no_label(self) -> None:
        cell = Cell(study="a", labels={"model": "x"}, inputs={"n": 1})
        assert cell.key == Cell(study="a", labels={"model": "y", "seed": 3}, inputs={"n": 1}).key
        assert cell.key != Cell(study="b", labels={"model": "x"}, inputs={"n": 1}).key
        assert cell.key != Cell(study="a", labels={"model": "x"}, inputs={"n": 1, "m": None}).key
        assert len({cell, Cell(study="a", labels={"model": "x"}, inputs={"n": 1.0})}) == 1

    @pytest.mark.parametrize("wrong", [math.nan, math.inf, {1: 2}, object(), np.zeros(3), b"x", {1}, "\udcff"])
    def test_what_has_no_one_spelling_is_refused(self, wrong: Any) -> None:
        with pytest.raises(InputError, match=r"inputs\.x") as caught:
            key(x=wrong)
        assert "\n" not in str(caught.value)

    def test_what_holds_itself_is_refused(self) -> None:
        endless: dict[str, Any] = {}
        endless["x"] = endless
        with pytest.raises(InputError, match="nested"):
            Cell(study="s", inputs=endless)


class TestCell:
    def test_labels_keep_their_kind(self) -> None:
        labels = {"model": "ae", "slots": 1, "alpha": 1.0, "occluded": True, "rule": None, "größe": np.float64(0.5)}
        found = Cell(study="s", labels=labels, inputs={}).labels
        assert found == labels
        assert [type(value) for value in found.values()] == [str, int, float, bool, type(None), float]

    @pytest.mark.parametrize("name", [*RESERVED, "", "two words", "1st", "a=b", "<b>"])
    def test_names_of_labels(self, name: str) -> None:
        with pytest.raises(InputError, match="name of a label"):
            Cell(study="s", labels={name: 1}, inputs={})

    @pytest.mark.parametrize(
        "fields",
        [
            {"study": "", "inputs": {}},
            {"study": "s"},
            {"study": "s", "inputs": {}, "x": 1},
            {"study": "s", "inputs": 3},
            {"study": "s", "inputs": {}, "labels": {"x": [1]}},
            {"study": "s", "inputs": {}, "labels": {"x": math.nan}},
        ],
    )
    def test_refused_in_one_sentence(self, fields: dict[str, Any]) -> None:
        with pytest.raises(InputError) as caught:
            Cell(**fields)
        assert "\n" not in str(caught.value)

    def test_cannot_change(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            Cell(study="s", inputs={}).study = "t"  # type: ignore[misc]


class TestValue:
    @pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, np.float32("nan")])
    def test_what_is_no_number_is_null_with_a_reason(self, score: float) -> None:
        assert Value(score=score).score is None
        assert Value(score=score).reason == f"the score is {float(score)}"
        assert Value(score=score, reason="all alike").reason == "all alike"

    def test_null_needs_a_reason(self) -> None:
        with pytest.raises(InputError, match="needs a reason"):
            Value(score=None)

    def test_spread_that_is_no_number(self) -> None:
        value = Value(score=1.0, standard_error=math.nan, interval=ScoreInterval(low=0, high=math.inf))
        assert (value.standard_error, value.interval) == (None, None)
        assert value.spread_reason
        assert Value(score=1, range=(-math.inf, 1)).range == (None, 1)

    def test_details_are_kept_small(self) -> None:
        value = Value(score=1, details={"a": np.array([1, np.nan]), "b": np.zeros(LONGEST + 1), "c": {"d": [1] * 9999}})
        assert value.details == {"a": [1, None]}
        assert value.left_out == ("b", "c")

    def test_of_a_metric(self) -> None:
        factors = np.indices((3, 3)).reshape(2, -1).T.repeat(20, axis=0)
        answer = single_neuron_classification(factors.astype(float), factors)
        value = Value.of(catalog()["snc"], answer, Interval(0.9, 1.0, "cases", 10, 0), standard_error=0.01)
        assert (value.score, value.direction, value.range) == (1.0, "higher", (0, 1))
        assert value.interval == ScoreInterval(low=0.9, high=1.0, method="cases")
        assert "per_factor" in value.details
        assert Value.of(catalog()["mse"], np.float32(0.5)).range == (0, None)
        assert load_result(dump_result(result(x=value)).encode()).values["x"] == value


def result(cell: Cell | None = None, **values: Value | float) -> Result:
    cell = cell or Cell(study="s", labels={"model": "ae", "seed": 1}, inputs={"seed": 1})
    return Result.done(cell, values or {"SNC": 0.5}, seconds=1.5, machine=MACHINE)


class TestResult:
    @given(INPUTS, st.dictionaries(TEXT, st.floats(), max_size=3), st.floats(0, 1e9))
    def test_round_trip(self, inputs: dict[str, Any], scores: dict[str, float], seconds: float) -> None:
        labels = {"model": "x", "slots": 3, "alpha": 0.5, "yes": True, "nothing": None}
        cell = Cell(study="s", labels=labels, inputs=inputs)
        values = {name: Value(score=score, details={"all": [score]}) for name, score in scores.items()}
        written = Result.done(cell, values, seconds=seconds, machine=MACHINE)
        text = dump_result(written)
        json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
        assert load_result(text.encode()) == written
        assert load_result(text.encode()).cell.labels == labels
        assert load_result(text.replace("\n", "\r\n").encode()) == written, "line ends change when files travel"

    def test_a_fault_is_told_in_the_words_of_the_error(self) -> None:
        cell = Cell(study="neurons", inputs={"seed": 0})
        assert Result.failed(cell, InputError("it is too big"), seconds=1).fault == "it is too big"
        assert Result.failed(cell, ValueError("no"), seconds=1).fault == "ValueError: no"
        assert Result.done(cell, {"SNC": 0.5}, seconds=1).fault == ""

    def test_failures_keep_the_end_of_their_traceback(self) -> None:
        def deep(n: int) -> None:
            raise ValueError("no \udcff" + "x" * 30_000 + " the end") if n == 0 else deep(n - 1)

        try:
            deep(3)
        except ValueError as error:
            failed = Result.failed(result().cell, error, seconds=0.1, machine=MACHINE)
        assert failed.traceback is not None
        assert failed.traceback.endswith("the end")
        assert len(failed.traceback) <= 20_000
        assert load_result(dump_result(failed).encode()) == failed

    def test_times_are_universal(self) -> None:
        there = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
        made = Result(cell=result().cell, status="done", seconds=0, machine=MACHINE, created=there)
        assert made.created == there
        assert made.created.tzinfo == UTC
        assert "2026-01-01T00:00:00Z" in dump_result(made)

    @pytest.mark.parametrize(
        "fields",
        [
            {"status": "failed"},
            {"status": "done", "traceback": "x"},
            {"status": "failed", "traceback": "x", "values": {"a": Value(score=1)}},
            {"status": "half"},
            {"status": "done", "seconds": -1},
            {"status": "done", "seconds": math.nan},
            {"status": "done", "key": "0" * 64},
            {"status": "done", "created": datetime(2026, 1, 1)},
        ],
    )
    def test_refused_in_one_sentence(self, fields: dict[str, Any]) -> None:
        with pytest.raises(InputError) as caught:
            Result(**({"cell": result().cell, "seconds": 0, "machine": MACHINE} | fields))
        assert "\n" not in str(caught.value)

    def test_this_machine(self) -> None:
        here = Machine.here("cuda")
        assert here.device == "cuda"
        assert here.torch
        assert here.python.startswith("3.")


CELL = {"study": "neurons", "labels": {"model": "ae"}, "inputs": {"seed": 0}}
FIRST_SCHEMA: dict[str, Any] = {
    "schema_version": 1,
    "library_version": "0.0.9",
    "cell": CELL,
    "key": Cell(**CELL).key,
    "status": "done",
    "values": {"SNC": 0.25, "NK": None},
    "reasons": {"NK": "a single neuron"},
    "traceback": None,
    "seconds": 2.0,
    "machine": "Linux, CPU",
    "created": "2025-11-01T12:00:00Z",
}


class TestOldFiles:
    def test_the_first_schema_is_read(self) -> None:
        read = load_result(json.dumps(FIRST_SCHEMA).encode())
        assert read.schema_version == 2
        assert (read.library_version, read.machine.platform, read.seconds) == ("0.0.9", "Linux, CPU", 2.0)
        assert read.values == {"SNC": Value(score=0.25), "NK": Value(score=None, reason="a single neuron")}
        assert read.cell == Cell(**CELL)
        assert load_result(dump_result(read).encode()) == read

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"schema_version": 3}, "newer alebrije"),
            ({"schema_version": "1"}, "not a result"),
            ({"schema_version": True}, "not a result"),
            ({"schema_version": 0}, "not a result"),
            ({"values": 3}, "damaged"),
            ({"values": {"SNC": "much"}}, "damaged"),
            ({"key": "0" * 64}, "key does not belong to the cell"),
            ({"surprise": 1}, "surprise"),
            ({"machine": None}, "damaged"),
            ({"schema_version": 2}, "checksum"),
        ],
    )
    def test_others_are_refused(self, change: dict[str, Any], said: str) -> None:
        with pytest.raises(InputError, match=said) as caught:
            load_result(json.dumps(FIRST_SCHEMA | change).encode())
        assert "\n" not in str(caught.value)


PINNED = "7c906bf259293faa318e581f5697b77783192e280ec24f888e94bdea3deee983"


def test_intervals_and_errors_that_no_table_could_show_are_refused() -> None:
    with pytest.raises(InputError, match="the interval is reversed: low is 0"):
        Value(score=0.5, interval={"low": 0.9, "high": 0.1})
    with pytest.raises(InputError, match="standard_error"):
        Value(score=0.5, standard_error=-0.1)


def test_a_time_before_the_first_year_is_refused() -> None:
    done = Result.done(Cell(study="a", inputs={}), {"x": 0.5}, seconds=0).model_dump(mode="json")
    with pytest.raises(InputError, match="created must be a time of the years 1 to 9999"):
        Result(**{**done, "created": "0001-01-01T00:00:00+14:00"})


@pytest.mark.parametrize("number", [True, "0.5", 1e308, -1e200])
@pytest.mark.parametrize("field", ["score", "standard_error", "low", "high"])
def test_a_stored_number_that_is_none_or_huge_is_refused(field: str, number: Any) -> None:
    """Charts and tables would overflow; the checksum is right, as in a file made on purpose."""
    result = Result.done(
        Cell(study="neurons", inputs={"seed": 0}),
        {"SNC": Value(score=0.5, interval={"low": 0.4, "high": 0.6})},
        seconds=1,
    )
    content = json.loads(dump_result(result))
    value = content["values"]["SNC"]
    (value["interval"] if field in ("low", "high") else value)[field] = number
    del content["checksum"]
    rest = json.dumps(content, indent=1)[1:] + "\n"
    checksum = hashlib.sha256(rest.encode()).hexdigest()
    with pytest.raises(InputError, match=field):
        load_result(f'{{\n "checksum": "{checksum}",{rest}'.encode())


def test_a_computed_number_that_is_huge_is_null_with_a_reason() -> None:
    value = Value(score=1e200, standard_error=1e308, interval={"low": -1e308, "high": 1e308})
    assert (value.score, value.standard_error, value.interval) == (None, None, None)
    assert value.reason == "the score is 1e+200"


def test_an_earlier_schema_with_a_checksum_is_compared_too() -> None:
    text = dump_result(Result.done(Cell(study="neurons", inputs={"seed": 0}), {"SNC": 0.5}, seconds=1))
    with pytest.raises(InputError, match="the checksum does not match"):
        load_result(text.replace('"schema_version": 2', '"schema_version": 1').encode())


def test_control_sequences_of_foreign_errors_are_not_stored() -> None:
    result = Result.failed(Cell(study="neurons", inputs={"seed": 0}), ValueError("\x1b[31mred\x1b[0m\x07"), seconds=1)
    assert result.traceback is not None
    assert result.traceback.endswith("ValueError: red")
    assert Value(score=None, reason="\x1b]0;title\x07no").reason == "no"
