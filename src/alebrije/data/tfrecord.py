"""TFRecord files of `tf.train.Example` messages, read without TensorFlow.

A TFRecord file is a sequence of records: length (8 bytes, little endian), masked CRC-32C of the length (4), the bytes,
masked CRC-32C of the bytes (4). The file may be compressed with GZIP or ZLIB. An Example is a protocol buffer that maps
names to lists of byte strings, floats or integers.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.files import open_regular

_POLYNOMIAL = 0x82F63B78  # CRC-32C (Castagnoli), bits reversed
_LONGEST = 2**31  # a protocol buffer is shorter than 2 GB
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers

Words = npt.NDArray[np.uint32]
Message = memoryview


@dataclass(frozen=True)
class ByteStrings:
    """A list of byte strings in one buffer: images in these files are lists of hundreds of thousands of them.

    >>> strings = ByteStrings(b"abc", (1, 2))
    >>> len(strings), list(strings)
    (2, [b'a', b'bc'])
    """

    joined: bytes
    lengths: tuple[int, ...] | None = None  # None: every string is one byte long

    def __len__(self) -> int:
        return len(self.joined) if self.lengths is None else len(self.lengths)

    def __iter__(self) -> Iterator[bytes]:
        start = 0
        for length in self.lengths or (1,) * len(self):
            yield self.joined[start : start + length]
            start += length


Feature = ByteStrings | npt.NDArray[np.float32] | npt.NDArray[np.int64]


def read_records(path: str | Path, *, start: int = 0, check: bool = True) -> Iterator[bytes]:
    """Iterate over the records of a TFRecord file, whether it is plain, GZIP or ZLIB.

    Records before `start` are skipped. A truncated or changed file raises an InputError when the fault is reached. The
    checksum of a record's length is always compared, that of its content unless `check` is false.
    """
    path, start = Path(path), whole_number("start", start, 0)
    number = 0
    try:
        with closing(_open(path)) as file:
            while header := file.read(12):
                length = _length(header, path, number)
                body = file.read(length + 4)
                if len(body) < length + 4:
                    raise EOFError
                content, checksum = body[:length], int.from_bytes(body[length:], "little")
                if number >= start:
                    if check and masked_crc32c(content) != checksum:
                        raise InputError(f"{path}: record {number} is damaged: its checksum is wrong")
                    yield content
                number += 1
    except EOFError as error:
        raise InputError(f"{path}: is truncated in record {number}") from error
    except (zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: is damaged in record {number} ({error})") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _length(header: bytes, path: Path, number: int) -> int:
    if len(header) < 12:
        raise EOFError
    length, checksum = struct.unpack("<QI", header)
    if masked_crc32c(header[:8]) != checksum:
        raise InputError(f"{path}: record {number} is damaged: the checksum of its length is wrong")
    if length >= _LONGEST:
        raise InputError(f"{path}: record {number} claims {length} bytes, more than an Example can have")
    return int(length)


def _open(path: Path) -> BinaryIO | gzip.GzipFile | _Inflated:
    """The file as a decompressed stream; the compression is recognised from the first bytes."""
    with open_regular(path) as file:
        head = file.read(12)
    # a plain file may begin like a compressed one, but then the checksum of its first length is correct
    plain = len(head) == 12 and masked_crc32c(head[:8]) == int.from_bytes(head[8:], "little")
    if plain or not head:
        return open_regular(path)
    if head[:2] == b"\x1f\x8b":
        return _gunzipped(path)
    if head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0:
        return _Inflated(path)
    if len(head) < 12:
        raise EOFError
    raise InputError(f"{path}: is not a TFRecord file, neither plain nor GZIP nor ZLIB")


def _gunzipped(path: Path) -> gzip.GzipFile:
    file = open_regular(path)
    unzipped = gzip.GzipFile(fileobj=file)
    unzipped.myfileobj = file  # type: ignore[assignment]  # closed with the other
    return unzipped


class _Inflated:
    """A ZLIB file, decompressed as it is read."""

    def __init__(self, path: Path) -> None:
        self._file = open_regular(path)
        self._inflate = zlib.decompressobj()
        self._ready = bytearray()

    def read(self, size: int, /) -> bytes:
        while len(self._ready) < size and not self._inflate.eof:
            packed = self._inflate.unconsumed_tail or self._file.read(1 << 16)
            if not packed:
                raise EOFError
            self._ready += self._inflate.decompress(packed, 1 << 20)
        if len(self._ready) < size and (self._inflate.unused_data or self._file.read(1)):
            raise zlib.error("there is data after the end of the ZLIB stream")
        taken = bytes(self._ready[:size])
        del self._ready[:size]
        return taken

    def close(self) -> None:
        self._file.close()


def masked_crc32c(data: bytes) -> int:
    """The checksum of TFRecord files: CRC-32C rotated by 15 bits, plus a constant."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of some bytes.

    The CRC of two pieces is that of the first, shifted past the second, plus that of the second. So the bytes are cut
    into many lanes of 2**level words, which numpy processes in parallel, and the lanes are joined in pairs.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    if len(data) < 64:
        return _crc32c_by_bytes(data)
    level = max(0, len(data).bit_length() // 2 - 3)
    lane = 4 << level
    padded = np.zeros(-(-len(data) // lane) * lane, np.uint8)  # zeros before the first byte change nothing
    first = len(padded) - len(data)
    padded[first:] = np.frombuffer(data, np.uint8)
    padded[first : first + 4] ^= 0xFF  # the CRC starts with all ones
    crcs = np.zeros(len(padded) // lane, np.uint32)
    for words in np.ascontiguousarray(padded.view("<u4").reshape(-1, lane // 4).T):
        crcs = _shifted(crcs ^ words, 0)
    while len(crcs) > 1:
        if len(crcs) % 2:
            crcs = np.concatenate([np.zeros(1, np.uint32), crcs])
        crcs = _shifted(crcs[0::2], level) ^ crcs[1::2]
        level += 1
    return int(crcs[0]) ^ 0xFFFFFFFF


def _crc32c_by_bytes(data: bytes) -> int:
    table = _byte_table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = int(table[(crc ^ byte) & 0xFF]) ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _shifted(crcs: Words, level: int) -> Words:
    """CRCs shifted past 4 * 2**level zero bytes."""
    tables = _shift_tables(level)
    parts = np.ascontiguousarray(crcs, "<u4").view(np.uint8)
    out: Words = tables[0].take(parts[..., 0::4])
    for byte in (1, 2, 3):
        out ^= tables[byte].take(parts[..., byte::4])
    return out


@cache
def _byte_table() -> Words:
    """The CRC of every byte value after a shift past 1 zero byte."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


@cache
def _shift_tables(level: int) -> Words:
    """[4, 256]: the CRC of each value of each of the four bytes of a CRC after a shift past 4 * 2**level zero bytes."""
    crcs = np.arange(256, dtype=np.uint32)[None] << np.array([[0], [8], [16], [24]], dtype=np.uint32)
    if level:
        return _shifted(_shifted(crcs, level - 1), level - 1)
    for _ in range(4):
        crcs = _byte_table()[crcs & 0xFF] ^ crcs >> np.uint32(8)
    return crcs


def parse_example(record: bytes) -> dict[str, Feature]:
    """The features of a serialized `tf.train.Example` by name, except those without a value.

    >>> parse_example(bytes.fromhex("0a0d0a0b0a017812061a040a020503"))
    {'x': array([5, 3])}
    """
    try:
        features: dict[str, Feature] = {}
        for features_message in _submessages(memoryview(record), 1):
            for entry in _submessages(features_message, 1):
                name = b"".join(bytes(part) for part in _submessages(entry, 1)).decode("utf-8")
                feature = _feature(b"".join(_submessages(entry, 2)))
                if feature is not None:
                    features[name] = feature
        return features
    except (IndexError, ValueError) as error:
        raise InputError(f"a record is not a tf.train.Example ({error})") from error


def _feature(message: bytes) -> Feature | None:
    fields = list(_fields(memoryview(message)))
    if not fields:
        return None
    kind = fields[-1][0]  # a oneof: the last one counts
    values = b"".join(content for number, _, content in fields if number == kind and isinstance(content, memoryview))
    if kind == 1:
        return _byte_strings(values)
    if kind == 2:
        return _floats(values)
    return _integers(values) if kind == 3 else None


def _byte_strings(message: bytes) -> ByteStrings:
    raw = np.frombuffer(message, np.uint8)
    if len(raw) % 3 == 0 and (raw[0::3] == 0x0A).all() and (raw[1::3] == 1).all():
        return ByteStrings(raw[2::3].tobytes())  # an image in which every byte is a separate string
    parts = list(_submessages(memoryview(message), 1))
    return ByteStrings(b"".join(parts), tuple(map(len, parts)))


def _floats(message: bytes) -> npt.NDArray[np.float32]:
    """Packed or unpacked floats; the format allows both."""
    wanted = (content for number, _, content in _fields(memoryview(message)) if number == 1)
    return np.frombuffer(b"".join(part for part in wanted if isinstance(part, memoryview)), "<f4").astype(np.float32)


def _integers(message: bytes) -> npt.NDArray[np.int64]:
    values: list[int] = []
    for number, _, content in _fields(memoryview(message)):
        if number == 1 and isinstance(content, int):
            values.append(content)
        elif number == 1 and isinstance(content, memoryview):
            offset = 0
            while offset < len(content):
                value, offset = _varint(content, offset)
                values.append(value)
    return np.array(values, np.uint64).astype(np.int64)  # negative numbers are stored modulo 2**64


def _submessages(message: Message, wanted: int) -> Iterator[Message]:
    for number, wire, content in _fields(message):
        if number == wanted and wire == _BYTES and isinstance(content, memoryview):
            yield content


def _fields(message: Message) -> Iterator[tuple[int, int, Message | int]]:
    """Number, wire type and content of every field: an integer for a varint, otherwise bytes."""
    offset = 0
    while offset < len(message):
        key, offset = _varint(message, offset)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, offset = _varint(message, offset)
            yield number, wire, value
            continue
        if wire == _BYTES:
            length, offset = _varint(message, offset)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire}")
        if offset + length > len(message):
            raise ValueError("a field extends past the end")
        yield number, wire, message[offset : offset + length]
        offset += length


def _varint(message: Message, offset: int) -> tuple[int, int]:
    """An integer of 7 bits per byte, lowest first, and the offset after it."""
    value = shift = 0
    while True:
        byte = message[offset]
        value |= (byte & 0x7F) << shift
        offset += 1
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, offset
        shift += 7
        if shift >= 70:
            raise ValueError("an integer of more than ten bytes")
