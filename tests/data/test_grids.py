"""dSprites, 3D Shapes and MPI3D from files in their exact format, at their true numbers of rows where that matters."""

from __future__ import annotations

import builtins
import errno
import io
import math
import os
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from alebrije.data import FactorImages, grids, read_arrays, read_dsprites, read_mpi3d, read_shapes3d
from alebrije.errors import InputError

DSPRITES, SHAPES3D = (1, 3, 6, 40, 32, 32), (10, 10, 10, 8, 4, 15)
TINY = (1, 3, 2, 2, 4, 2)
EXPLOSIVE = "unpickled"


class Explosive:
    """Raises when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return exec, (f"raise SystemError({EXPLOSIVE!r})",)


def combinations(counts: tuple[int, ...]) -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(math.prod(counts)), counts), axis=1).astype(np.int64)


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def write_npz(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def dsprites_members(counts: tuple[int, ...] = TINY) -> dict[str, np.ndarray]:
    classes = combinations(counts)
    draw = np.random.default_rng(0)
    return {
        "metadata": np.array(Explosive(), dtype=object),
        "imgs": draw.integers(0, 2, (len(classes), 64, 64), dtype=np.uint8),
        "latents_classes": classes,
        "latents_values": classes.astype(np.float64),
    }


def refusal(read: Callable[..., FactorImages], *args: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def huge_npz(
    path: Path, name: str, shape: tuple[int, ...], first: np.ndarray, more: dict[str, bytes], item: int = 1
) -> None:
    """An `.npz` whose array `name` has a shape of many gigabytes: `first`, then zeros to the end.

    Zeros deflate into one and the same block, which is repeated; the true checksum is not known, so no reader may
    get as far as the end, and `check` must be off.
    """
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1" if item == 1 else "<i8", "fortran_order": False, "shape": shape}
    )
    begin = header.getvalue() + first.tobytes()
    total = len(header.getvalue()) + math.prod(shape) * item
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(begin) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 22)) + packer.flush(zlib.Z_FULL_FLUSH)
    times, rest = divmod(total - len(begin), 1 << 22)
    packed += block * times + packer.compress(bytes(rest)) + packer.flush()
    extra = struct.pack("<HHQQ", 1, 16, total, len(packed))  # ZIP64: true sizes
    label = f"{name}.npy".encode()
    sizes = (0, 0xFFFFFFFF, 0xFFFFFFFF)  # checksum, packed, total
    local = struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0, 8, 0, 0, *sizes, len(label), len(extra)) + label + extra
    with path.open("wb") as file:
        file.write(local + packed)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        # zipfile appends behind what is there and writes the directory; the huge member is entered by hand
        info = zipfile.ZipInfo(f"{name}.npy")
        info.compress_type, info.file_size, info.compress_size, info.header_offset = 8, total, len(packed), 0
        info.CRC = 0
        archive.filelist.append(info)
        archive.NameToInfo[info.filename] = info
        for other, content in more.items():
            archive.writestr(f"{other}.npy", content)
        archive._didModify = True  # type: ignore[attr-defined]


class TestDSprites:
    @pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
    def test_whole_file(self, tmp_path: Path, compression: int) -> None:
        members = dsprites_members()
        write_npz(tmp_path / "d.npz", {name: npy(array) for name, array in members.items()}, compression)
        grid = read_dsprites(tmp_path / "d.npz")
        assert grid.names == ("color", "shape", "scale", "orientation", "position x", "position y")
        assert grid.counts == TINY
        assert (grid.images.dtype, grid.images.shape) == (torch.uint8, (96, 3, 64, 64))
        for channel in range(3):
            np.testing.assert_array_equal(grid.images[:, channel], members["imgs"] * 255)
        np.testing.assert_array_equal(grid.factors, members["latents_classes"])
        assert grid.factors.dtype == torch.int64

    def test_rows_in_the_order_asked_for(self, tmp_path: Path) -> None:
        members = dsprites_members()
        write_npz(tmp_path / "d.npz", {name: npy(array) for name, array in members.items()})
        for rows in ([95, 0, 7, 7, 3], range(40, 50), np.array([5]), torch.tensor([9, 8])):
            grid = read_dsprites(tmp_path / "d.npz", rows)
            index = np.asarray(rows)
            np.testing.assert_array_equal(grid.images[:, 0], members["imgs"][index] * 255)
            np.testing.assert_array_equal(grid.factors, members["latents_classes"][index])

    def test_rows_across_blocks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        members = dsprites_members()
        write_npz(tmp_path / "d.npz", {name: npy(array) for name, array in members.items()})
        monkeypatch.setattr(grids, "_BLOCK", 5 * 4096)
        rows = np.random.default_rng(0).permutation(96)
        np.testing.assert_array_equal(read_dsprites(tmp_path / "d.npz", rows).images[:, 1], members["imgs"][rows] * 255)

    def test_at_its_true_size_in_little_memory(self, tmp_path: Path) -> None:
        """737,280 rows; the few that are asked for are read without unpacking 3 GB or calling any pickle."""
        path = tmp_path / "dsprites.npz"
        first = np.random.default_rng(0).integers(0, 2, (50, 64, 64), dtype=np.uint8)
        more = {name: npy(dsprites_members()[name]) for name in ("metadata", "latents_values")}
        more["latents_classes"] = npy(combinations(DSPRITES))
        huge_npz(path, "imgs", (737_280, 64, 64), first, more)
        code = (
            "import resource, sys\n"
            "from alebrije.data import read_dsprites\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "grid = read_dsprites(sys.argv[1], [49, 1, 5000], check=False)\n"
            "print(grid.counts, grid.images[:, 0].sum(dim=(1, 2)).tolist(), grid.factors[2].tolist())\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
        answer, memory = done.stdout.splitlines()
        sums = [int(first[49].sum()) * 255, int(first[1].sum()) * 255, 0]
        assert answer == f"{DSPRITES} {sums} {np.stack(np.unravel_index(5000, DSPRITES)).tolist()}"
        assert int(memory) * (1 if sys.platform == "darwin" else 1024) < 400_000_000

    def test_the_pickle_would_have_gone_off(self) -> None:
        with pytest.raises(SystemError, match=EXPLOSIVE):
            pickle.loads(pickle.dumps(Explosive()))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"imgs": np.zeros((95, 64, 64), np.uint8)}, "'imgs' must be uint8"),
            ({"imgs": np.zeros((96, 64, 32), np.uint8)}, "'imgs' must be uint8"),
            ({"imgs": np.zeros((96, 64, 64), np.float32)}, "'imgs' must be uint8"),
            ({"imgs": np.array(Explosive(), dtype=object)}, "'imgs' must be uint8"),
            ({"imgs": np.asfortranarray(np.zeros((96, 64, 64), np.uint8))}, "'imgs' must be uint8"),
            ({"imgs": np.full((96, 64, 64), 2, np.uint8)}, "only 0 and 1"),
            ({"imgs": None}, "no array 'imgs'"),
            ({"latents_classes": None}, "no array 'latents_classes'"),
            ({"latents_classes": combinations(TINY)[::-1]}, "all combinations once, in order"),
            ({"latents_classes": combinations(TINY)[:-1]}, "all combinations once, in order"),
            ({"latents_classes": combinations(TINY) - 1}, "all combinations once, in order"),
            ({"latents_classes": np.zeros((0, 6), np.int64)}, "all combinations once, in order"),
            ({"latents_classes": np.array(3)}, "'latents_classes' must be int64"),
        ],
    )
    def test_another_content_is_refused(
        self, tmp_path: Path, change: dict[str, np.ndarray | None], message: str
    ) -> None:
        members = {name: npy(array) for name, array in (dsprites_members() | change).items() if array is not None}
        write_npz(tmp_path / "d.npz", members)
        answer = refusal(read_dsprites, tmp_path / "d.npz")
        assert message in answer
        assert "d.npz" in answer

    @pytest.mark.parametrize("rows", [[96], [-1], [0.5], [[0]], [], [True]])
    def test_other_rows_are_refused(self, tmp_path: Path, rows: Any) -> None:
        write_npz(tmp_path / "d.npz", {name: npy(array) for name, array in dsprites_members().items()})
        assert "indices must" in refusal(read_dsprites, tmp_path / "d.npz", rows)

    def test_damage_is_noticed(self, tmp_path: Path) -> None:
        path = tmp_path / "d.npz"
        write_npz(path, {name: npy(array) for name, array in dsprites_members().items() if name != "metadata"})
        content = path.read_bytes()
        for keep in (0, 100, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:keep])
            assert "damaged" in refusal(read_dsprites, path)
        for offset in np.linspace(200, 0.9 * content.index(b"latents_values"), 20).astype(int):
            path.write_bytes(content[:offset] + bytes([content[offset] ^ 0x20]) + content[offset + 1 :])
            assert str(path) in refusal(read_dsprites, path)
        assert "no such file" in refusal(read_dsprites, tmp_path / "missing.npz")

    def test_damage_behind_the_rows_asked_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "d.npz"
        members = dsprites_members()
        write_npz(path, {name: npy(array) for name, array in members.items()}, zipfile.ZIP_STORED)
        content = path.read_bytes()
        offset = content.index(members["imgs"][90].tobytes())
        path.write_bytes(content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1 :])
        for block in (1 << 24, 5 * 4096):
            monkeypatch.setattr(grids, "_BLOCK", block)
            for rows in ([0, 3], [95], None):
                assert f"{path}: is damaged" in refusal(read_dsprites, path, rows)
        np.testing.assert_array_equal(
            read_dsprites(path, [0, 3], check=False).images[:, 0], members["imgs"][[0, 3]] * 255
        )

    def test_a_file_that_may_not_be_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def locked(path: Path, most: int | None = None) -> None:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

        monkeypatch.setattr("alebrije.data.grids.check_regular", locked)
        for read in (read_dsprites, read_mpi3d, read_shapes3d):
            assert refusal(read, tmp_path / "d") == f"{tmp_path / 'd'}: cannot be read: Permission denied"
        monkeypatch.setattr("alebrije.data.array_files.open_regular", locked)
        with pytest.raises(InputError, match=r"a\.npz: cannot be read: Permission denied"):
            read_arrays(tmp_path / "a.npz")

    def test_a_member_shorter_than_its_header_says(self, tmp_path: Path) -> None:
        members = {name: npy(array) for name, array in dsprites_members().items()}
        write_npz(tmp_path / "d.npz", members | {"imgs": members["imgs"][:-1]})
        assert "a different size than its header" in refusal(read_dsprites, tmp_path / "d.npz")


class TestMPI3D:
    @pytest.mark.parametrize(
        ("rows", "counts"), [(1_036_800, (6, 6, 2, 3, 3, 40, 40)), (460_800, (4, 4, 2, 3, 3, 40, 40))]
    )
    def test_the_variant_shows_in_the_number_of_images(
        self, tmp_path: Path, rows: int, counts: tuple[int, ...]
    ) -> None:
        first = np.random.default_rng(0).integers(0, 256, (60, 64, 64, 3), dtype=np.uint8)
        huge_npz(tmp_path / "m.npz", "images", (rows, 64, 64, 3), first, {})
        grid = read_mpi3d(tmp_path / "m.npz", [59, 0, 41], check=False)
        assert grid.counts == counts
        assert grid.names == ("color", "shape", "size", "camera height", "background", "horizontal", "vertical")
        np.testing.assert_array_equal(grid.images.permute(0, 2, 3, 1), first[[59, 0, 41]])
        assert grid.factors.tolist() == [[0, 0, 0, 0, 0, 1, 19], [0] * 7, [0, 0, 0, 0, 0, 1, 1]]

    def test_another_number_is_refused(self, tmp_path: Path) -> None:
        write_npz(tmp_path / "m.npz", {"images": npy(np.zeros((7, 64, 64, 3), np.uint8))})
        assert "1,036,800 or 460,800 images, not 7" in refusal(read_mpi3d, tmp_path / "m.npz")
        write_npz(tmp_path / "m.npz", {"pictures": npy(np.zeros((7, 64, 64, 3), np.uint8))})
        assert "no array 'images'" in refusal(read_mpi3d, tmp_path / "m.npz")

    def test_every_row_of_a_small_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        counts = (2, 1, 2, 1, 1, 3, 2)
        monkeypatch.setattr(grids, "_MPI3D_COUNTS", (counts,))
        images = np.random.default_rng(0).integers(0, 256, (24, 64, 64, 3), dtype=np.uint8)
        write_npz(tmp_path / "m.npz", {"images": npy(images)})
        grid = read_mpi3d(tmp_path / "m.npz")
        np.testing.assert_array_equal(grid.images.permute(0, 2, 3, 1), images)
        np.testing.assert_array_equal(grid.factors, combinations(counts))

    def test_damage_behind_the_rows_asked_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(grids, "_MPI3D_COUNTS", ((2, 1, 2, 1, 1, 3, 2),))
        images = np.random.default_rng(0).integers(0, 256, (24, 64, 64, 3), dtype=np.uint8)
        write_npz(tmp_path / "m.npz", {"images": npy(images)}, zipfile.ZIP_STORED)
        content = (tmp_path / "m.npz").read_bytes()
        (tmp_path / "m.npz").write_bytes(content.replace(images[20].tobytes(), images[19].tobytes()))
        monkeypatch.setattr(grids, "_BLOCK", 5 * images[0].nbytes)
        assert "is damaged" in refusal(read_mpi3d, tmp_path / "m.npz", [3, 1])
        got = read_mpi3d(tmp_path / "m.npz", [3, 1], check=False)
        np.testing.assert_array_equal(got.images.permute(0, 2, 3, 1), images[[3, 1]])


def shape_image(row: int) -> np.ndarray:
    return np.random.default_rng(row).integers(0, 256, (64, 64, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def shapes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All 480,000 rows, of which a few hold an image; the others are not stored and read as black."""
    path = tmp_path_factory.mktemp("shapes") / "3dshapes.h5"
    steps = [np.linspace(0, 0.9, 10)] * 3 + [np.linspace(0.75, 1.25, 8), np.arange(4.0), np.linspace(-30, 30, 15)]
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", (480_000, 64, 64, 3), "u1", chunks=(1, 64, 64, 3))
        for row in (0, 1, 2, 4799, 479_999):
            images[row] = shape_image(row)
        classes = combinations(SHAPES3D)
        labels = np.stack([values[classes[:, axis]] for axis, values in enumerate(steps)], axis=1)
        file.create_dataset("labels", data=labels, compression="gzip", compression_opts=1)
    return path


@pytest.mark.parametrize("read", [read_dsprites, read_mpi3d, read_shapes3d, read_arrays])
def test_a_pipe_or_a_device_is_refused(tmp_path: Path, read: Callable[..., Any]) -> None:
    os.mkfifo(tmp_path / "x.npz")
    (tmp_path / "y.npz").symlink_to("/dev/zero")
    assert "is not a regular file" in refusal(read, tmp_path / "x.npz")
    assert "is not a regular file" in refusal(read, tmp_path / "y.npz")


def test_dsprites_that_unpack_to_too_much_are_refused(tmp_path: Path) -> None:
    """Half a megabyte that claims ten million rows: 480 MB of factors."""
    huge_npz(tmp_path / "d.npz", "latents_classes", (10**7, 6), np.zeros((1, 6), np.int64), {}, item=8)
    assert "claims 10,000,000 rows, more than the 737,280" in refusal(read_dsprites, tmp_path / "d.npz")


def test_arrays_that_unpack_to_more_than_the_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "d.npz", codes=np.zeros((1 << 20, 2)))
    assert len(read_arrays(tmp_path / "d.npz").arrays["codes"]) == 1 << 20
    monkeypatch.setattr("alebrije.files.memory", lambda: 1 << 23)
    assert "d.npz: unpacks to" in refusal(read_arrays, tmp_path / "d.npz")


class TestShapes3D:
    def test_rows_in_the_order_asked_for(self, shapes_file: Path) -> None:
        rows = [479_999, 1, 0, 1, 4799, 2, 3]
        grid = read_shapes3d(shapes_file, rows)
        assert grid.names == ("floor hue", "wall hue", "object hue", "scale", "shape", "orientation")
        assert grid.counts == SHAPES3D
        for index, row in enumerate(rows[:-1]):
            np.testing.assert_array_equal(grid.images[index].permute(1, 2, 0), shape_image(row))
        assert int(grid.images[-1].sum()) == 0
        np.testing.assert_array_equal(grid.factors, np.stack(np.unravel_index(rows, SHAPES3D), axis=1))

    def test_a_small_one_whole(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        counts = (2, 1, 3, 2, 2, 2)
        images = np.random.default_rng(0).integers(0, 256, (48, 64, 64, 3), dtype=np.uint8)
        with h5py.File(tmp_path / "s.h5", "w") as file:
            file["images"], file["labels"] = images, combinations(counts) * 0.1
        monkeypatch.setattr(grids, "_BLOCK", 5 * images[0].nbytes)
        grid = read_shapes3d(tmp_path / "s.h5")
        assert grid.counts == counts
        np.testing.assert_array_equal(grid.images.permute(0, 2, 3, 1), images)
        np.testing.assert_array_equal(grid.factors, combinations(counts))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"images": np.zeros((8, 64, 32, 3), np.uint8)}, r"'images' of the shape [rows, 64, 64, 3]"),
            ({"images": np.zeros((7, 64, 64, 3), np.uint8)}, "8 uint8 images"),
            ({"images": np.zeros((8, 64, 64, 3), np.float32)}, "8 uint8 images"),
            ({"labels": combinations((1, 1, 1, 2, 2, 2))[::-1] * 0.5}, "all combinations once"),
            ({"labels": np.zeros((8, 5))}, "'labels' of the shape"),
            ({"labels": None}, "'labels' of the shape"),
        ],
    )
    def test_another_content_is_refused(
        self, tmp_path: Path, change: dict[str, np.ndarray | None], message: str
    ) -> None:
        images, labels = np.zeros((8, 64, 64, 3), np.uint8), combinations((1, 1, 1, 2, 2, 2)) * 0.5
        with h5py.File(tmp_path / "s.h5", "w") as file:
            for name, array in ({"images": images, "labels": labels} | change).items():
                if array is not None:
                    file[name] = array
        answer = refusal(read_shapes3d, tmp_path / "s.h5")
        assert message in answer
        assert "s.h5" in answer

    def test_huge_arrays_are_refused_before_they_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "s.h5"
        for shape, name in (((10**12, 6), "labels"), ((10**12, 64, 64, 3), "images")):
            with h5py.File(path, "w") as file:
                file.create_dataset(name, shape, "f8" if name == "labels" else "u1", chunks=True)
                other, rest = ("images", (8, 64, 64, 3)) if name == "labels" else ("labels", (8, 6))
                file.create_dataset(other, rest, "u1" if name == "labels" else "f8")
            assert "claims 1,000,000,000,000 rows, more than the 480,000 of the format" in refusal(read_shapes3d, path)

    def test_data_in_other_files_are_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        path = tmp_path / "s.h5"
        for kind in ("link", "external", "virtual", "text"):
            with h5py.File(path, "w") as file:
                file["images"] = np.zeros((8, 64, 64, 3), np.uint8)
                if kind == "link":
                    file["labels"] = h5py.ExternalLink(tmp_path / "pipe", "labels")
                elif kind == "external":
                    file.create_dataset("labels", (8, 6), "f8", external=[(str(tmp_path / "pipe"), 0, 384)])
                elif kind == "virtual":
                    file.create_virtual_dataset("labels", h5py.VirtualLayout((8, 6), "f8"))
                else:
                    file["labels"] = np.full((8, 6), b"x")
            assert "'labels'" in refusal(read_shapes3d, path)

    def test_damage_and_absence(self, tmp_path: Path) -> None:
        assert "no such file" in refusal(read_shapes3d, tmp_path / "missing.h5")
        (tmp_path / "s.h5").write_bytes(b"\x89HDF\r\n\x1a\n and then nothing of the kind")
        assert "damaged" in refusal(read_shapes3d, tmp_path / "s.h5")

    def test_without_h5py_the_message_says_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        genuine = builtins.__import__

        def without(name: str, *rest: Any, **more: Any) -> Any:
            if name == "h5py":
                raise ImportError(name)
            return genuine(name, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", without)
        assert "pip install 'alebrije[shapes3d]'" in refusal(read_shapes3d, tmp_path / "s.h5")
