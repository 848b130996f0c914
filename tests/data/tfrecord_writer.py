"""A TFRecord file of tf.train.Example messages, written by the book and without looking at the reader."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

Values = Sequence[bytes] | Sequence[float] | Sequence[int] | np.ndarray

TABLE = []
for entry in range(256):
    for _ in range(8):
        entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
    TABLE.append(entry)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) % 2**32)


def framed(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


def write_tfrecord(path: Path, records: Sequence[bytes], compression: str = "none") -> None:
    squeeze = {"none": bytes, "gzip": gzip.compress, "zlib": zlib.compress}[compression]
    path.write_bytes(squeeze(b"".join(map(framed, records))))


def varint(value: int) -> bytes:
    value %= 2**64
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number * 8 + 2) + varint(len(content)) + content


def feature(values: Values, packed: bool = True) -> bytes:
    """A Feature of byte strings, floats or integers, by the type of its values."""
    if isinstance(values, np.ndarray):  # an image: each byte a string of its own
        triples = np.full((values.size, 3), (0x0A, 1, 0), np.uint8)
        triples[:, 2] = values.reshape(-1)
        return field(1, triples.tobytes())
    if not values:
        return b""
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))  # type: ignore[arg-type]
    if isinstance(values[0], float):
        floats = [struct.pack("<f", value) for value in values]
        return field(2, field(1, b"".join(floats)) if packed else b"".join(b"\x0d" + one for one in floats))
    integers = [varint(value) for value in values]  # type: ignore[arg-type]
    return field(3, field(1, b"".join(integers)) if packed else b"".join(b"\x08" + one for one in integers))


def example(features: Mapping[str, Values], packed: bool = True) -> bytes:
    entries = (field(1, name.encode()) + field(2, feature(values, packed)) for name, values in features.items())
    return field(1, b"".join(field(1, entry) for entry in entries))
