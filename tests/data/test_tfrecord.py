"""TFRecord files: every framing and packing is read, and damage is noticed where it lies."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alebrije.data.tfrecord import ByteStrings, crc32c, masked_crc32c, parse_example, read_records
from alebrije.errors import InputError
from tests.data import tfrecord_writer as writer
from tests.data.tfrecord_writer import example, framed, write_tfrecord

KINDS = ("none", "gzip", "zlib")
RECORDS = [b"", b"one", bytes(range(256)) * 40, b"last"]


def fault(path: Path, check: bool = True) -> str:
    with pytest.raises(InputError) as caught:
        list(read_records(path, check=check))
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def read_or_refused(data: bytes) -> bool:
    """Whether an example is read into named features, or refused in one sentence."""
    try:
        features = parse_example(data)
    except InputError as refusal:
        return "\n" not in str(refusal)
    return all(isinstance(name, str) for name in features)


class TestChecksum:
    @pytest.mark.parametrize(
        ("data", "crc"),
        [  # RFC 3720, B.4
            (bytes(32), 0x8A9136AA),
            (b"\xff" * 32, 0x62A8AB43),
            (bytes(range(32)), 0x46DD794E),
            (bytes(range(31, -1, -1)), 0x113FDB5C),
            (b"123456789", 0xE3069283),
            (b"", 0),
        ],
    )
    def test_known_answers(self, data: bytes, crc: int) -> None:
        assert crc32c(data) == crc

    def test_agrees_with_the_plain_way_at_every_length(self) -> None:
        data = np.random.default_rng(0).bytes(70_000)
        for length in (*range(600), 4095, 4096, 4097, 65_535, 65_536, 70_000):
            assert crc32c(data[:length]) == writer.crc32c(data[:length]), length

    def test_mask(self) -> None:
        assert struct.pack("<I", masked_crc32c(b"abc")) == writer.masked(b"abc")


class TestRecords:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("start", [0, 1, 3, 4, 9])
    def test_come_back_in_order(self, tmp_path: Path, kind: str, start: int) -> None:
        write_tfrecord(tmp_path / "a.tfrecords", RECORDS, kind)
        assert list(read_records(tmp_path / "a.tfrecords", start=start)) == RECORDS[start:]

    def test_a_plain_file_that_begins_like_a_compressed_one(self, tmp_path: Path) -> None:
        """The length 35,615 is written 1f 8b, as GZIP begins, and 40,056 is 78 9c, as ZLIB does."""
        for length, magic in ((0x8B1F, b"\x1f\x8b"), (0x9C78, b"\x78\x9c")):
            write_tfrecord(tmp_path / "a.tfrecords", [bytes(length)])
            assert (tmp_path / "a.tfrecords").read_bytes().startswith(magic)
            assert list(read_records(tmp_path / "a.tfrecords")) == [bytes(length)]

    def test_gzip_of_several_members(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tfrecords"
        path.write_bytes(b"".join(gzip.compress(framed(record)) for record in RECORDS))
        assert list(read_records(path)) == RECORDS

    @pytest.mark.parametrize("kind", ["gzip", "zlib"])
    @pytest.mark.parametrize("size", [1, 100_000])
    def test_what_follows_a_compressed_stream_is_refused(self, tmp_path: Path, kind: str, size: int) -> None:
        path = tmp_path / "a.tfrecords"
        write_tfrecord(path, RECORDS, kind)
        path.write_bytes(path.read_bytes() + b"x" * size)
        assert fault(path)
        write_tfrecord(path, [np.random.default_rng(0).bytes((1 << 16) - 16 - 11 - 5)], kind)
        content = path.read_bytes()
        for more in range(10):  # wherever the stream ends within what is read at a time
            path.write_bytes(content + b"x" * (more + 1))
            assert fault(path)

    @pytest.mark.parametrize("start", [-1, 0.5, "1", True, None])
    def test_a_start_that_is_no_number_of_a_record(self, tmp_path: Path, start: Any) -> None:
        write_tfrecord(tmp_path / "a.tfrecords", RECORDS)
        with pytest.raises(InputError, match="start must be"):
            next(read_records(tmp_path / "a.tfrecords", start=start))

    def test_an_empty_file_has_none(self, tmp_path: Path) -> None:
        (tmp_path / "a.tfrecords").touch()
        assert list(read_records(tmp_path / "a.tfrecords")) == []

    def test_only_what_is_asked_for_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tfrecords"
        path.write_bytes(framed(b"first") + b"rubbish")
        assert next(read_records(path)) == b"first"

    @pytest.mark.parametrize("kind", KINDS)
    def test_truncated_at_any_byte(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "a.tfrecords"
        records = [b"one", b"two and more"]
        write_tfrecord(path, records, kind)
        content = path.read_bytes()
        whole = {0, len(content), len(framed(b"one")) if kind == "none" else 0}
        for length in range(len(content)):
            path.write_bytes(content[:length])
            if length not in whole:
                assert "truncated" in fault(path)

    @pytest.mark.parametrize("kind", KINDS)
    def test_every_changed_byte_is_noticed(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "a.tfrecords"
        write_tfrecord(path, [b"one", bytes(100)], kind)
        content = path.read_bytes()
        harmless = range(3, 10) if kind == "gzip" else range(0)  # flags, time and system in the GZIP header
        for offset in set(range(len(content))) - set(harmless):
            path.write_bytes(content[:offset] + bytes([content[offset] ^ 0x41]) + content[offset + 1 :])
            assert fault(path)

    def test_check_off_reads_a_changed_record_but_not_a_changed_length(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tfrecords"
        content = bytearray(framed(b"one") + framed(b"two"))
        content[12] ^= 1
        path.write_bytes(content)
        assert "record 0" in fault(path)
        assert list(read_records(path, check=False)) == [b"nne", b"two"]
        content[len(framed(b"one"))] ^= 1
        path.write_bytes(content)
        assert "record 1" in fault(path, check=False)

    def test_an_impossible_length_asks_for_no_memory(self, tmp_path: Path) -> None:
        length = struct.pack("<Q", 2**62)
        (tmp_path / "a.tfrecords").write_bytes(length + writer.masked(length) + bytes(100))
        assert "more than an Example" in fault(tmp_path / "a.tfrecords")

    def test_what_is_no_tfrecord(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tfrecords"
        path.write_text("a page of text, not a record")
        assert "not a TFRecord file" in fault(path)
        path.write_bytes(zlib.compress(b"a page of text, not a record"))
        assert "record 0" in fault(path)
        assert "No such file" in fault(tmp_path / "missing")


class TestExample:
    @pytest.mark.parametrize("packed", [True, False])
    def test_every_kind(self, packed: bool) -> None:
        features = parse_example(
            example(
                {
                    "größe": [1.5, -2.0, 0.1],
                    "count": [0, 1, -1, 127, 128, 2**63 - 1, -(2**63)],
                    "words": [b"", b"ab", b"\x0a\x01c"],
                    "letters": [b"x", b"y"],
                    "nothing": [],
                },
                packed,
            )
        )
        assert set(features) == {"größe", "count", "words", "letters"}
        np.testing.assert_array_equal(features["größe"], np.array([1.5, -2.0, 0.1], np.float32))
        np.testing.assert_array_equal(features["count"], [0, 1, -1, 127, 128, 2**63 - 1, -(2**63)])
        words, letters = features["words"], features["letters"]
        assert isinstance(words, ByteStrings)
        assert isinstance(letters, ByteStrings)
        assert list(words) == [b"", b"ab", b"\x0a\x01c"]
        assert (list(letters), letters.joined, len(letters)) == ([b"x", b"y"], b"xy", 2)

    def test_packed_and_single_values_may_be_mixed(self) -> None:
        floats = writer.field(2, writer.field(1, struct.pack("<2f", 1, 2)) + b"\x0d" + struct.pack("<f", 3))
        integers = writer.field(3, b"\x08\x05" + writer.field(1, b"\x06\x07"))
        entries = [writer.field(1, b"f") + writer.field(2, floats), writer.field(1, b"i") + writer.field(2, integers)]
        features = parse_example(writer.field(1, b"".join(writer.field(1, entry) for entry in entries)))
        assert np.asarray(features["f"]).tolist() == [1, 2, 3]
        assert np.asarray(features["i"]).tolist() == [5, 6, 7]

    def test_unknown_fields_are_passed_over(self) -> None:
        unknown = b"\x48\x96\x01" + b"\x51" + bytes(8) + b"\x5d" + bytes(4) + writer.field(12, b"x")
        assert np.asarray(parse_example(unknown + example({"a": [7]}) + unknown)["a"]).tolist() == [7]

    def test_an_image_of_strings_of_one_byte(self) -> None:
        image = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
        feature = parse_example(example({"image": image}))["image"]
        assert isinstance(feature, ByteStrings)
        assert len(feature) == image.size
        np.testing.assert_array_equal(np.frombuffer(feature.joined, np.uint8).reshape(image.shape), image)

    @given(st.binary(max_size=60))
    def test_anything_else_is_refused_or_read(self, data: bytes) -> None:
        assert read_or_refused(data)

    @given(st.integers(0, 200), st.integers(0, 255))
    def test_a_changed_example_is_refused_or_read(self, offset: int, byte: int) -> None:
        data = bytearray(example({"x": [1.0, 2.0], "y": [-3], "z": [b"ab", b"c"]}))
        data[offset % len(data)] = byte
        assert read_or_refused(bytes(data))
