"""`read_arrays`: what was written is read back, and nothing else ever gets through or falls over."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save, save_file

from alebrije.data import read_arrays
from alebrije.errors import InputError

Arrays = dict[str, np.ndarray]
DTYPES = ("float16", "float32", "float64", ">f4", "int8", "uint8", "int32", "int64", "uint64", "bool")


def example() -> Arrays:
    draw = np.random.default_rng(0)
    codes, factors = draw.normal(size=(6, 2)), draw.integers(0, 3, (6, 2))
    return {"codes": codes, "factors": factors, "factor_names": np.array(["color", "größe"])}


def npz_bytes(arrays: Arrays, write: Callable[..., None] = np.savez) -> bytes:
    buffer = io.BytesIO()
    write(buffer, **arrays)
    return buffer.getvalue()


def safetensors_bytes() -> bytes:
    arrays = example()
    tensors = {name: torch.from_numpy(arrays[name]) for name in ("codes", "factors")}
    return save(tensors, {"factor_names": json.dumps(arrays["factor_names"].tolist())})


def read_or_refuse(path: Path) -> Arrays | None:
    """The arrays, or None where the file was refused in one sentence; any other exception fails the test."""
    try:
        return read_arrays(path).arrays
    except InputError as error:
        sentence = str(error)
    assert "\n" not in sentence
    assert path.name in sentence
    return None


def assert_part_of(got: Arrays, whole: Arrays) -> None:
    assert got.keys() <= whole.keys()
    for name, array in got.items():
        np.testing.assert_array_equal(array, whole[name])


class TestWhole:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
    def test_npz(self, tmp_path: Path, dtype: str, write: Callable[..., None]) -> None:
        array = np.arange(24).reshape(2, 3, 4).astype(dtype)
        path = tmp_path / "x.npz"
        write(
            path, **{"c": array, "negatives.drop": np.asfortranarray(array), "none": array[:0], "one": array[0, 0, 0]}
        )
        file = read_arrays(path)
        assert file.path == path
        assert set(file.arrays) == {"c", "negatives.drop", "none", "one"}
        for name in ("c", "negatives.drop"):
            assert file.arrays[name].dtype == array.dtype
            np.testing.assert_array_equal(file.arrays[name], array)
        assert file.arrays["none"].shape == (0, 3, 4)
        assert file.arrays["one"].shape == ()

    @pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in (">f4", "uint64")])
    def test_safetensors(self, tmp_path: Path, dtype: str) -> None:
        array = np.arange(24).reshape(2, 3, 4).astype(dtype)
        save_file(
            {"c": torch.from_numpy(array), "negatives.drop": torch.from_numpy(array[:1])}, tmp_path / "x.safetensors"
        )
        arrays = read_arrays(tmp_path / "x.safetensors").arrays
        assert set(arrays) == {"c", "negatives.drop"}
        assert arrays["c"].dtype == array.dtype
        np.testing.assert_array_equal(arrays["c"], array)
        np.testing.assert_array_equal(arrays["negatives.drop"], array[:1])

    def test_bfloat16_becomes_float32_exactly(self, tmp_path: Path) -> None:
        tensor = torch.tensor([[1.5, -2.0, 3.140625], [1e38, 1e-38, 0.0]], dtype=torch.bfloat16)
        save_file({"codes": tensor}, tmp_path / "x.safetensors")
        codes = read_arrays(tmp_path / "x.safetensors").arrays["codes"]
        assert codes.dtype == np.float32
        np.testing.assert_array_equal(codes, tensor.float().numpy())

    def test_factor_names(self, tmp_path: Path) -> None:
        (tmp_path / "x.npz").write_bytes(npz_bytes(example()))
        (tmp_path / "x.safetensors").write_bytes(safetensors_bytes())
        for name in ("x.npz", "x.safetensors"):
            assert read_arrays(tmp_path / name).arrays["factor_names"].tolist() == ["color", "größe"]

    def test_other_metadata_is_no_array(self, tmp_path: Path) -> None:
        save_file({"codes": torch.ones(2, 2)}, tmp_path / "x.safetensors", {"format": "pt"})
        assert set(read_arrays(tmp_path / "x.safetensors").arrays) == {"codes"}

    @pytest.mark.parametrize("name", ["x.npz", "x.safetensors"])
    def test_checksum_and_kinds_of_path(self, tmp_path: Path, name: str) -> None:
        content = npz_bytes(example()) if name == "x.npz" else safetensors_bytes()
        path = tmp_path / name
        path.write_bytes(content)
        assert read_arrays(path).sha256 == hashlib.sha256(content).hexdigest()
        assert read_arrays(str(path)).sha256 == read_arrays(path).sha256
        assert path.read_bytes() == content


class TestNoFile:
    @pytest.mark.parametrize("name", ["x.npz", "x.safetensors"])
    def test_missing_and_folder_and_empty(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        with pytest.raises(InputError, match="no such file"):
            read_arrays(path)
        path.touch()
        assert read_or_refuse(path) is None
        path.unlink()
        path.mkdir()
        assert read_or_refuse(path) is None

    @pytest.mark.parametrize("name", ["x.npy", "x.pt", "x.pkl", "x.npz.gz", "x", ".npz"])
    def test_other_kinds(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(npz_bytes(example()))
        with pytest.raises(InputError, match=r"only \.npz and \.safetensors"):
            read_arrays(tmp_path / name)

    @pytest.mark.parametrize("name", ["x.npz", "x.safetensors"])
    @pytest.mark.parametrize("content", [b"\0" * 100, b"hello" * 50, pickle.dumps([1, 2, 3]), b"PK\x05\x06", b"{}"])
    def test_another_content(self, tmp_path: Path, name: str, content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        assert read_or_refuse(tmp_path / name) is None

    def test_one_kind_under_the_name_of_the_other(self, tmp_path: Path) -> None:
        (tmp_path / "x.npz").write_bytes(safetensors_bytes())
        (tmp_path / "x.safetensors").write_bytes(npz_bytes(example()))
        assert read_or_refuse(tmp_path / "x.npz") is None
        assert read_or_refuse(tmp_path / "x.safetensors") is None

    @pytest.mark.parametrize("name", ["x.npz", "x.safetensors"])
    def test_no_arrays(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(npz_bytes({}) if name == "x.npz" else save({}))
        with pytest.raises(InputError, match="no arrays"):
            read_arrays(tmp_path / name)


class TestDamagedNpz:
    @pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
    def test_cut_short_anywhere(self, tmp_path: Path, write: Callable[..., None]) -> None:
        content, path = npz_bytes(example(), write), tmp_path / "x.npz"
        for cut in range(0, len(content), 3):
            path.write_bytes(content[:cut])
            got = read_or_refuse(path)
            if got is not None:
                assert_part_of(got, example())

    @pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
    def test_a_flipped_bit_anywhere_never_gives_other_numbers(self, tmp_path: Path, write: Callable[..., None]) -> None:
        """The checksum of each member guards its data; what is left readable is what was written."""
        content, path = npz_bytes(example(), write), tmp_path / "x.npz"
        for offset in range(len(content)):
            damaged = bytearray(content)
            damaged[offset] ^= 1 << (offset * 5 % 8)
            path.write_bytes(damaged)
            got = read_or_refuse(path)
            if got is not None:
                assert_part_of(got, example())

    def test_flipped_bits_in_member_data_are_found(self, tmp_path: Path) -> None:
        codes = np.random.default_rng(1).normal(size=(50, 4))
        content, path = npz_bytes({"codes": codes}), tmp_path / "x.npz"
        start = content.index(codes.tobytes())
        for offset in range(start, start + codes.nbytes, 37):
            for bit in range(8):
                damaged = bytearray(content)
                damaged[offset] ^= 1 << bit
                path.write_bytes(damaged)
                with pytest.raises(InputError, match="'codes' is damaged"):
                    read_arrays(path)

    @pytest.mark.parametrize(
        ("offset", "value"),
        [
            pytest.param(0, 0, id="name of the central directory"),
            pytest.param(6, 255, id="zip version"),
            pytest.param(8, 1, id="encrypted"),
            pytest.param(8, 64, id="strongly encrypted"),
            pytest.param(10, 77, id="compression"),
            pytest.param(30, 200, id="extra field"),
        ],
    )
    def test_damaged_directory(self, tmp_path: Path, offset: int, value: int) -> None:
        content = bytearray(npz_bytes(example()))
        content[content.index(b"PK\x01\x02") + offset] = value
        (tmp_path / "x.npz").write_bytes(content)
        assert read_or_refuse(tmp_path / "x.npz") is None

    @pytest.mark.parametrize(
        "header",
        [
            pytest.param("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }", id="petabytes"),
            pytest.param("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }", id="2^64"),
            pytest.param("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", id="negative"),
            pytest.param("{'descr': '<f8', 'fortran_order': False, 'shape': (1000,), }", id="more than there is"),
            pytest.param("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), ", id="open brace"),
            pytest.param("{'descr': '<q9', 'fortran_order': False, 'shape': (2,), }", id="no such dtype"),
            pytest.param("{'descr': '<f8'}", id="keys missing"),
            pytest.param("(" * 5000, id="parentheses"),
            pytest.param("-" * 9000 + "1", id="deep expression"),
            pytest.param("__import__('os').abort()", id="code"),
            pytest.param("'''", id="open string"),
            pytest.param("x" * 20000, id="long"),
            pytest.param("\0", id="zero"),
        ],
    )
    def test_lying_member_header(self, tmp_path: Path, header: str) -> None:
        text = header.encode()
        member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(16)
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("codes.npy", member)
        assert read_or_refuse(tmp_path / "x.npz") is None


class Trap:
    """Unpickling it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


class TestHostileNpz:
    @pytest.fixture
    def trap(self, tmp_path: Path) -> Path:
        sprung = tmp_path / "test-of-the-trap"
        pickle.loads(pickle.dumps(Trap(sprung)))
        assert sprung.exists()
        return tmp_path / "sprung"

    def test_pickled_objects(self, tmp_path: Path, trap: Path) -> None:
        objects = np.array([Trap(trap), None], dtype=object)
        for number, arrays in enumerate(({"codes": objects}, {**example(), "extra": objects})):
            path = tmp_path / f"{number}.npz"
            path.write_bytes(npz_bytes(arrays))
            with pytest.raises(InputError, match="pickled objects, which are never loaded"):
                read_arrays(path)
        assert not trap.exists()

    def test_bare_pickle_as_a_member(self, tmp_path: Path, trap: Path) -> None:
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("codes.npy", pickle.dumps(Trap(trap)))
        assert read_or_refuse(tmp_path / "x.npz") is None
        assert not trap.exists()

    @pytest.mark.parametrize("tail", [b"", npz_bytes(example())], ids=["alone", "with an npz behind it"])
    def test_bare_pickle_as_the_file(self, tmp_path: Path, trap: Path, tail: bytes) -> None:
        """numpy looks at the first bytes, zipfile at the last."""
        (tmp_path / "x.npz").write_bytes(pickle.dumps(Trap(trap)) + tail)
        assert read_or_refuse(tmp_path / "x.npz") is None
        assert not trap.exists()

    def test_pickled_objects_in_a_structured_dtype(self, tmp_path: Path, trap: Path) -> None:
        array = np.zeros(2, dtype=[("x", "f8"), ("y", object)])
        array["y"][0] = Trap(trap)
        (tmp_path / "x.npz").write_bytes(npz_bytes({"codes": array}))
        assert read_or_refuse(tmp_path / "x.npz") is None
        assert not trap.exists()

    @pytest.mark.parametrize("name", ["notes.txt", "codes", "folder/"])
    def test_a_member_that_is_no_array(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / "x.npz"
        path.write_bytes(npz_bytes(example()))
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(name, "" if name.endswith("/") else "hello")
        assert read_or_refuse(path) is None


class TestDamagedSafetensors:
    def test_cut_short_anywhere(self, tmp_path: Path) -> None:
        content, path = safetensors_bytes(), tmp_path / "x.safetensors"
        for cut in range(len(content)):
            path.write_bytes(content[:cut])
            assert read_or_refuse(path) is None, cut
        path.write_bytes(content)
        assert_part_of(read_arrays(path).arrays, example())

    def test_something_behind_the_end(self, tmp_path: Path) -> None:
        (tmp_path / "x.safetensors").write_bytes(safetensors_bytes() + b"x")
        assert read_or_refuse(tmp_path / "x.safetensors") is None

    def test_a_flipped_bit_in_the_header_never_falls_over(self, tmp_path: Path) -> None:
        """The format has no checksum, so some flips are read; none may end in another exception."""
        content, path = safetensors_bytes(), tmp_path / "x.safetensors"
        for offset in range(8 + int.from_bytes(content[:8], "little")):
            for bit in range(8):
                damaged = bytearray(content)
                damaged[offset] ^= 1 << bit
                path.write_bytes(damaged)
                found = read_or_refuse(path)
                assert found is None or all(isinstance(array, np.ndarray) for array in found.values())

    @pytest.mark.parametrize(
        "header",
        [
            pytest.param({"codes": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 1 << 40]}}, id="offset"),
            pytest.param({"codes": {"dtype": "F32", "shape": [9, 9], "data_offsets": [0, 16]}}, id="shape"),
            pytest.param({"codes": {"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 16]}}, id="overflow"),
            pytest.param({"codes": {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]}}, id="negative"),
            pytest.param({"codes": {"dtype": "F32", "shape": [2, 2], "data_offsets": [16, 0]}}, id="reversed"),
            pytest.param({"codes": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}, id="hole"),
            pytest.param({"codes": {"dtype": "OBJECT", "shape": [2, 2], "data_offsets": [0, 16]}}, id="dtype"),
            pytest.param({"codes": [1, 2, 3]}, id="no description"),
            pytest.param([1, 2, 3], id="a list"),
            pytest.param(
                {name: {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]} for name in "ab"}, id="overlap"
            ),
        ],
    )
    def test_lying_header(self, tmp_path: Path, header: Any) -> None:
        text = json.dumps(header).encode()
        (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))
        assert read_or_refuse(tmp_path / "x.safetensors") is None

    @pytest.mark.parametrize("length", [0, 1, 10_000, 1 << 40, (1 << 64) - 1])
    def test_lying_header_length(self, tmp_path: Path, length: int) -> None:
        (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", length) + safetensors_bytes()[8:])
        assert read_or_refuse(tmp_path / "x.safetensors") is None

    @pytest.mark.parametrize("names", ["not json", '"color"', "3", '{"color": 1}', '[["a"], ["b", "c"]]', "null"])
    def test_factor_names_that_are_no_list_of_names(self, tmp_path: Path, names: str) -> None:
        save_file({"codes": torch.ones(2, 2)}, tmp_path / "x.safetensors", {"factor_names": names})
        with pytest.raises(InputError, match="JSON list of names"):
            read_arrays(tmp_path / "x.safetensors")

    def test_a_dtype_numpy_has_not(self, tmp_path: Path) -> None:
        save_file({"codes": torch.ones(2, 2).to(torch.float8_e4m3fn)}, tmp_path / "x.safetensors")
        assert read_or_refuse(tmp_path / "x.safetensors") is None
