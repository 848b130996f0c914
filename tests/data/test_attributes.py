"""Attributes of a user's images: every column becomes a factor, is left out with a note, or is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from alebrije.data.attributes import MISSING, encode_attributes, read_table
from alebrije.errors import InputError


def test_words_and_numbers_are_values_alike() -> None:
    found = encode_attributes(
        {"hair": ["red", "black", "red"], "age": ["10", "9", "10"], "glasses": [True, False, True]}
    )
    assert found.names == ("hair", "age", "glasses")
    assert found.values == (("black", "red"), ("9", "10"), ("0", "1")), "numbers are sorted by size"
    assert found.indices.tolist() == [[1, 1, 1], [0, 0, 0], [1, 1, 1]]
    assert found.notes == ()


def test_missing_values_leave_out_rows() -> None:
    found = encode_attributes({"a": ["x", "", "y", "x"], "b": [1, 2, None, float("nan")]})
    assert found.indices.tolist() == [[0, 0], [MISSING, 1], [1, MISSING], [0, MISSING]]
    assert found.complete.tolist() == [0]
    assert found.notes == ("3 of 4 rows lack a value and are left out",)


@given(st.lists(st.floats(-1e6, 1e6), min_size=60, max_size=300, unique=True))
def test_continuous_attributes_are_divided_into_equal_bins(numbers: list[float]) -> None:
    assume(any(number != round(number) for number in numbers))
    found = encode_attributes({"x": numbers, "label": [row % 2 for row in range(len(numbers))]})
    counts = np.bincount(found.indices[:, 0])
    assert len(counts) == len(found.values[0]) == 10
    assert counts.max() - counts.min() <= 2
    order = np.argsort(numbers)
    assert (np.diff(found.indices[order, 0]) >= 0).all(), "bins are in the order of the numbers"
    assert "continuous" in found.notes[0]


def test_equal_numbers_share_a_bin() -> None:
    numbers = np.concatenate([np.zeros(500), np.linspace(0.1, 1, 500)])
    found = encode_attributes({"x": numbers})
    assert len(set(found.indices[:500, 0])) == 1


def test_ids_and_empty_columns_are_left_out_with_a_note() -> None:
    rows = 50
    found = encode_attributes(
        {"id": [f"a{row}" for row in range(rows)], "rare": ["x"] * 5 + [""] * 45, "kind": ["a", "b"] * 25}
    )
    assert found.names == ("kind",)
    assert ["id" in found.notes[0], "rare" in found.notes[1]] == [True, True]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"a": [1, 1, 1]}, "the attribute 'a' is 1 in every row; remove the column"),
        ({str(number): [0, 1] for number in range(10_000)}, "there are 10,000 attributes, more than the 256"),
        ({}, "there are no attributes"),
        ({"id": [f"a{row}" for row in range(9)]}, "no attribute can be used; id is left out"),
    ],
)
def test_what_cannot_be_examined_is_refused(columns: dict[str, list[object]], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        encode_attributes(columns)
    assert sentence in str(caught.value)


def test_tables_are_read(tmp_path: Path) -> None:
    csv, tsv = tmp_path / "a.csv", tmp_path / "a.tsv"
    csv.write_text('\ufeffimage,colour\n1.png,"red, dark"\n\n2.png,blue\n', encoding="utf-8")
    tsv.write_text("image\tcolour\n1.png\tred\n")
    assert read_table(csv) == {"image": ["1.png", "2.png"], "colour": ["red, dark", "blue"]}
    assert read_table(tsv) == {"image": ["1.png"], "colour": ["red"]}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"image,a\n", "needs a line of column names and a line for each image"),
        (b"image,image\n1,2\n", "every column needs a name of its own"),
        (b"image,a\n1\n", "line 2 has 1 cells, and the first has 2"),
        (b"image,a\n\xff\xfe,2\n", "is not a table in UTF-8"),
    ],
)
def test_damaged_tables_are_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_table(tmp_path / "a.csv")


def test_parquet_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="pip install pyarrow"):
        read_table(tmp_path / "a.parquet")


def test_close_numbers_have_words_of_their_own() -> None:
    found = encode_attributes({"id": [1000001, 1000002, 1000001], "share": [0.1234567, 0.1234568, 0.1]})
    assert found.values == (("1000001", "1000002"), ("0.1", "0.1234567", "0.1234568"))
