"""The image cache: killed, filled up, changed or shared, it gives what was made or says why not."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alebrije.data import Cache, cache, open_cache, write_cache
from alebrije.errors import InputError

SETTINGS = {"world": "sprites", "seed": 3, "size": [8, 8], "alpha": 0.2}
TOTAL, SHARD = 23, 5


def rows(start: int, stop: int) -> dict[str, np.ndarray]:
    """Rows that tell their number and depend on nothing else."""
    draws = [np.random.default_rng(row) for row in range(start, stop)]
    return {
        "images": np.stack([draw.integers(0, 256, (3, 8, 8), dtype=np.uint8) for draw in draws]),
        "masks": np.stack([draw.integers(0, 3, (8, 8), dtype=np.uint8) for draw in draws]),
        "factors": np.stack([draw.integers(0, 9, 4) for draw in draws]),
        "row": np.arange(start, stop),
    }


def write(folder: Path, make: Callable[..., Any] = rows, **change: Any) -> Cache:
    return write_cache(folder, **({"settings": SETTINGS, "total": TOTAL, "shard": SHARD, "make": make} | change))


def write_at(moment: float, folder: Path) -> int:
    """Waits, so that several processes begin together."""
    while time.time() < moment:
        pass
    return len(write(folder))


def forbidden(start: int, stop: int) -> dict[str, np.ndarray]:
    raise AssertionError(f"rows {start} to {stop} were made again")


def assert_whole(got: Cache, total: int = TOTAL) -> None:
    wanted = rows(0, total)
    assert len(got) == total
    assert set(got.arrays) == set(wanted)
    for name, array in wanted.items():
        assert got[name].dtype == array.dtype
        np.testing.assert_array_equal(got[name][:], array)


def refusal(call: Callable[..., Any], *args: Any, **settings: Any) -> str:
    with pytest.raises(InputError) as caught:
        call(*args, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestReading:
    @pytest.fixture
    def cached(self, tmp_path: Path) -> Cache:
        return write(tmp_path)

    def test_what_was_made_is_there(self, cached: Cache, tmp_path: Path) -> None:
        assert_whole(cached)
        assert_whole(open_cache(tmp_path, verify=False))
        assert cached.settings == SETTINGS
        assert "images" in cached
        assert "depth" not in cached
        assert "it has images, masks, factors, row" in refusal(cached.__getitem__, "depth")
        assert sorted(os.listdir(tmp_path)) == [*(f"{number:05d}" for number in range(5)), "manifest.json"]

    @pytest.mark.parametrize(
        "index",
        [
            0,
            22,
            -1,
            np.int64(7),
            slice(None),
            slice(3, 17, 4),
            slice(20, 2, -3),
            slice(5, 5),
            [22, 0, 7, 7, -23],
            np.array([4, 5]),
            [],
            np.arange(23) % 3 == 0,
            torch.tensor([9, 1]),
        ],
        ids=str,
    )
    def test_any_index_numpy_has(self, cached: Cache, index: Any) -> None:
        plain = index if isinstance(index, slice) else np.asarray(index, dtype=int if isinstance(index, list) else None)
        for name, array in rows(0, TOTAL).items():
            np.testing.assert_array_equal(cached[name][index], array[plain])

    @pytest.mark.parametrize(
        "index", [23, -24, [0, 23], 2**64 - 1, np.uint64(2**64 - 1), np.array([2**63], np.uint64), 2**70, -(2**70)]
    )
    def test_rows_that_are_not_there(self, cached: Cache, index: Any) -> None:
        with pytest.raises(IndexError, match="23 rows"):
            cached["images"][index]

    @pytest.mark.parametrize("index", [0.5, [[0, 1]], "images", [True, False]])
    def test_what_is_no_index(self, cached: Cache, index: Any) -> None:
        assert "integer" in refusal(cached["images"].__getitem__, index)

    def test_behaves_like_an_array(self, cached: Cache) -> None:
        images = cached["images"]
        assert images.shape == (23, 3, 8, 8)
        assert len(images) == 23
        np.testing.assert_array_equal(np.asarray(images), rows(0, TOTAL)["images"])
        assert np.asarray(cached["masks"], dtype=np.float32).dtype == np.float32
        assert [int(row) for row in cached["row"]] == list(range(23))

    def test_rows_are_copies_that_may_be_changed(self, cached: Cache) -> None:
        for index in (0, slice(0, 3), [0, 1]):
            part = cached["images"][index]
            part[...] = 0
        assert_whole(cached)

    def test_travels_to_another_process(self, cached: Cache) -> None:
        packed = pickle.dumps(cached)
        assert len(packed) < 10_000
        assert_whole(pickle.loads(packed))

    def test_more_shards_than_open_maps(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        small = write(tmp_path / "small", shard=1)
        monkeypatch.setattr(cache, "_memory_map", cache.lru_cache(maxsize=2)(cache._memory_map.__wrapped__))
        assert_whole(small)


class TestContinuing:
    def test_a_complete_one_is_only_opened(self, tmp_path: Path) -> None:
        write(tmp_path)
        assert_whole(write(tmp_path, forbidden))

    def test_only_what_is_missing_is_made(self, tmp_path: Path) -> None:
        write(tmp_path)
        shutil.rmtree(tmp_path / "00002")
        assert "00002" in refusal(open_cache, tmp_path)
        asked: list[tuple[int, int]] = []

        def noted(start: int, stop: int) -> dict[str, np.ndarray]:
            asked.append((start, stop))
            return rows(start, stop)

        assert_whole(write(tmp_path, noted))
        assert asked == [(10, 15)]

    def test_an_error_in_the_middle_loses_nothing(self, tmp_path: Path) -> None:
        def fails(start: int, stop: int) -> dict[str, np.ndarray]:
            if start >= 10:
                raise RuntimeError("the renderer broke down")
            return rows(start, stop)

        with pytest.raises(RuntimeError, match="broke down"):
            write(tmp_path, fails)
        assert "only 2 of 5 shards" in refusal(open_cache, tmp_path)
        done: list[int] = []

        def rest(start: int, stop: int) -> dict[str, np.ndarray]:
            assert start >= 10
            return rows(start, stop)

        assert_whole(write(tmp_path, rest, progress=lambda count, total: done.append(count)))
        assert done == [5, 10, 15, 20, 23]

    @pytest.mark.parametrize("moment", ["os.rename", "os.fsync", "np.lib.format.write_array", "os.replace", "os.link"])
    def test_killed_and_continued(self, tmp_path: Path, moment: str) -> None:
        """The child stops for good in its third call of `moment`, and is killed there."""
        code = (
            "import os, sys, time; import numpy as np; sys.path.insert(0, sys.argv[1])\n"
            "from test_cache import Path, write\n"
            f"genuine, calls = {moment}, []\n"
            "def stops(*a, **k):\n"
            "    calls.append(1)\n"
            f"    if len(calls) == {1 if moment in ('os.replace', 'os.link') else 3}:\n"
            "        print('stopped', flush=True); time.sleep(60)\n"
            "    return genuine(*a, **k)\n"
            f"{moment} = stops\n"
            "write(Path(sys.argv[2]))\n"
        )
        command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path / "cache")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "stopped\n"
            child.send_signal(signal.SIGKILL)
        assert child.returncode == -signal.SIGKILL
        refusal(open_cache, tmp_path / "cache")
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("0*/*")}
        assert_whole(write(tmp_path / "cache"))
        assert all(path.stat().st_mtime_ns == time for path, time in before.items())
        assert len(os.listdir(tmp_path / "cache")) == 6, "something was left behind"

    def test_three_real_processes_on_one_new_folder(self, tmp_path: Path) -> None:
        with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
            for number in range(25):
                folder = tmp_path / f"{number}"
                moment = time.time() + (1 if number == 0 else 0.01)
                for done in [pool.submit(write_at, moment, folder) for _ in range(3)]:
                    assert done.result() == TOTAL
                assert_whole(open_cache(folder))
                assert len(os.listdir(folder)) == 6

    def test_another_begins_between_two_looks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Just when this one lists the folder, in which there was no manifest, another one writes the whole cache."""
        folder, genuine = tmp_path / "cache", Path.iterdir

        def late(path: Path) -> Any:
            monkeypatch.setattr(Path, "iterdir", genuine)
            if path == folder:
                write(folder)
            return genuine(path)

        monkeypatch.setattr(Path, "iterdir", late)
        assert_whole(write(folder, forbidden))
        shutil.rmtree(folder)
        monkeypatch.setattr(Path, "iterdir", late)
        assert "different settings" in refusal(write, folder, settings={})

    @pytest.mark.parametrize("call", ["link", "replace"])
    def test_overtaken_while_writing_the_manifest(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
    ) -> None:
        """Another one finishes, and takes what this one was about to rename for a leftover."""
        genuine = getattr(os, call)

        def late(source: Any, target: Any) -> None:
            monkeypatch.setattr(os, call, genuine)
            write(tmp_path)
            assert not Path(source).exists()
            genuine(source, target)

        monkeypatch.setattr(os, call, late)
        assert_whole(write(tmp_path, rows))
        assert len(os.listdir(tmp_path)) == 6

    @pytest.mark.parametrize("fault", [errno.EPERM, errno.ENOTSUP])
    def test_a_file_system_without_links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int) -> None:
        def fails(source: Any, target: Any) -> None:
            raise OSError(fault, "no links here")

        monkeypatch.setattr(os, "link", fails)
        assert_whole(write(tmp_path))
        assert len(os.listdir(tmp_path)) == 6

    def test_two_at_once(self, tmp_path: Path) -> None:
        """While one makes its third shard another comes, makes all and cleans up."""

        def overtaken(start: int, stop: int) -> dict[str, np.ndarray]:
            if start == 10:
                write(tmp_path)
            return rows(start, stop)

        assert_whole(write(tmp_path, overtaken))

    def test_overtaken_while_writing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        genuine = cache._write_shard

        def slow(folder: Path, arrays: Any) -> None:
            monkeypatch.setattr(cache, "_write_shard", genuine)
            write(tmp_path)  # which also removes the folder that this one is writing to
            genuine(folder, arrays)

        monkeypatch.setattr(cache, "_write_shard", slow)
        assert_whole(write(tmp_path))
        assert len(os.listdir(tmp_path)) == 6

    @pytest.mark.parametrize("call", ["fsync", "rename", "mkdir"])
    def test_a_full_disk_is_one_sentence_and_loses_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
    ) -> None:
        genuine, calls = getattr(os, call), []

        def fills_up(*args: Any, **more: Any) -> Any:
            calls.append(1)
            if len(calls) > 3:
                raise OSError(errno.ENOSPC, "No space left on device")
            return genuine(*args, **more)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, fills_up)
            assert "the disk is full" in refusal(write, tmp_path / "cache")
        kept = len(list((tmp_path / "cache").glob("0*")))
        assert not list((tmp_path / "cache").glob(".*"))
        assert_whole(write(tmp_path / "cache"))
        assert kept == {"fsync": 0, "rename": 3, "mkdir": 2}[call]

    def test_a_disk_that_is_really_full(self, tmp_path: Path) -> None:
        """The system refuses to let any file grow past 500 bytes."""
        code = (
            "import resource, signal, sys; sys.path.insert(0, sys.argv[1])\n"
            "from test_cache import InputError, Path, write\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\n"
            "try: write(Path(sys.argv[2]))\n"
            "except InputError as error: print(error)\n"
        )
        command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path / "cache")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == f"{tmp_path / 'cache'}: cannot be written: File too large\n"
        assert_whole(write(tmp_path / "cache"))


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"settings": {**SETTINGS, "seed": 4}}, 'different settings: {"seed": 3} there, {"seed": 4} here'),
            ({"settings": {"world": "sprites"}}, "different settings"),
            ({"settings": {**SETTINGS, "new": None}}, 'different settings: {} there, {"new": null} here'),
            ({"total": 24}, "holds a cache of 23 rows, which cannot become 24"),
            ({"shard": 6}, "different shard: 5 there, 6 here"),
        ],
    )
    def test_other_settings(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        write(tmp_path)
        assert message in refusal(write, tmp_path, forbidden, **change)
        assert_whole(write(tmp_path, forbidden))

    def test_another_version_does_not_continue(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path)
        monkeypatch.setattr(cache, "__version__", "99.0")
        assert_whole(write(tmp_path, forbidden))  # what is complete stays what it is
        shutil.rmtree(tmp_path / "00001")
        assert "this is 99.0" in refusal(write, tmp_path, forbidden)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"total": 0}, "total must be at least 1"),
            ({"shard": 0}, "shard must be at least 1"),
            ({"total": 2.0}, "total must be a whole number"),
            ({"total": "23"}, "total must be a whole number"),
            ({"total": True}, "total must be a whole number"),
            ({"shard": 1.5}, "shard must be a whole number"),
            ({"shard": None}, "shard must be a whole number"),
            ({"shard": False}, "shard must be a whole number"),
            ({"make": lambda start, stop: np.zeros(5)}, "mapping of arrays, not ndarray"),
            ({"make": lambda start, stop: {3: np.zeros(5)}}, "an array 3"),
            ({"make": lambda start, stop: {"a\n": np.zeros(5)}}, r"an array 'a\n'"),
            (
                {"make": lambda start, stop: {"a": [[1], [1, 2], 3, 4, 5]}},
                "make returned 'a', which numpy cannot convert",
            ),
            ({"make": lambda start, stop: {"a": torch.zeros(5, dtype=torch.bfloat16)}}, "BFloat16"),
            ({"make": lambda start, stop: {"a": torch.zeros(5, requires_grad=True)}}, "make returned 'a'"),
            ({"settings": {"x": float("nan")}}, "JSON"),
            ({"settings": {"x": object()}}, "JSON"),
            ({"make": lambda start, stop: {}}, "no arrays"),
            ({"make": lambda start, stop: {"a": np.zeros(4)}}, "but 5 rows"),
            ({"make": lambda start, stop: {"a": np.float64(4)}}, "but 5 rows"),
            ({"make": lambda start, stop: {"../a": np.zeros(5)}}, "an array '../a'"),
            ({"make": lambda start, stop: {"a": np.array(["x"] * 5)}}, "holds numbers"),
            ({"make": lambda start, stop: {"a": np.array([None] * 5)}}, "holds numbers"),
            ({"make": lambda start, stop: {"a": np.zeros((stop - start, 1 + start // 10))}}, "different arrays"),
        ],
    )
    def test_what_cannot_be_cached(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        assert message in refusal(write, tmp_path / "cache", **change)

    def test_a_folder_with_other_things(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("precious")
        assert "is not empty" in refusal(write, tmp_path)
        assert os.listdir(tmp_path) == ["thesis.tex"]
        assert "no cache here" in refusal(open_cache, tmp_path)
        assert "cannot be written" in refusal(write, tmp_path / "thesis.tex")

    def test_numbers_of_numpy(self, tmp_path: Path) -> None:
        assert_whole(write(tmp_path, total=np.int64(TOTAL), shard=np.uint8(SHARD)))
        assert_whole(write(tmp_path, forbidden))

    def test_a_folder_that_may_not_be_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path)
        path, genuine = str(tmp_path / "manifest.json"), os.stat

        def locked(file: Any, *args: Any, **more: Any) -> os.stat_result:
            if str(file) == path:
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return genuine(file, *args, **more)

        monkeypatch.setattr(os, "stat", locked)
        assert refusal(open_cache, tmp_path) == f"{path}: cannot be read: Permission denied"
        assert "Permission denied" in refusal(write, tmp_path, forbidden)

    def test_fortran_order_and_tensors(self, tmp_path: Path) -> None:
        values = np.asfortranarray(np.arange(12.0).reshape(4, 3))
        made = write_cache(
            tmp_path, settings={}, total=4, make=lambda start, stop: {"a": values, "b": torch.ones(4, 2)}
        )
        np.testing.assert_array_equal(made["a"][:], values)
        assert made["b"].dtype == np.float32


class TestDamage:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        write(tmp_path)
        return tmp_path

    @pytest.mark.parametrize("name", ["images", "masks", "row"])
    def test_a_changed_byte(self, folder: Path, name: str) -> None:
        path = folder / "00003" / f"{name}.npy"
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
        assert f"{path}: has changed" in refusal(open_cache, folder)
        assert "has changed" in refusal(write, folder, forbidden)
        shutil.rmtree(folder / "00003")  # as the message says
        assert_whole(write(folder))

    def test_a_changed_header_even_without_verifying(self, folder: Path) -> None:
        path = folder / "00003" / "images.npy"
        content = path.read_bytes()
        for old, new in ((b"(5, 3, 8, 8)", b"(5, 8, 3, 8)"), (b"|u1", b"|i1"), (b"|u1", b"|O "), (b"NUMPY", b"NUMPI")):
            path.write_bytes(content.replace(old, new, 1))
            assert str(path) in refusal(open_cache, folder, verify=False)

    @pytest.mark.parametrize("verify", [True, False])
    def test_a_file_cut_short_or_missing(self, folder: Path, verify: bool) -> None:
        path = folder / "00004" / "factors.npy"
        content = path.read_bytes()
        for changed in (content[:-1], content + b"x", b""):
            path.write_bytes(changed)
            assert f"{path}: has {len(changed)} bytes" in refusal(open_cache, folder, verify=verify)
        path.unlink()
        assert f"{path}: cannot be read" in refusal(open_cache, folder, verify=verify)

    def test_cut_short_after_it_was_opened(self, folder: Path) -> None:
        """Reading a map past the end of its file would kill the process."""
        opened = open_cache(folder)
        os.truncate(folder / "00001" / "images.npy", 10)
        assert "has 10 bytes" in refusal(opened["images"].__getitem__, 7)

    def test_made_again_under_the_same_name(self, folder: Path) -> None:
        assert int(open_cache(folder)["row"][3]) == 3
        shutil.rmtree(folder)
        again = write(folder, lambda start, stop: {"row": np.arange(start, stop) + 100})
        assert int(again["row"][3]) == 103

    def test_a_pickle_is_never_loaded(self, folder: Path) -> None:
        path = folder / "00000" / "images.npy"
        size = path.stat().st_size
        np.save(path, np.array([print], dtype=object), allow_pickle=True)
        path.write_bytes(path.read_bytes().ljust(size, b" "))
        assert "not an array file" in refusal(open_cache, folder, verify=False)

    @pytest.mark.parametrize(
        "change",
        [
            {"format": 2},
            {"total": 28},
            {"total": 0},
            {"shard": -1},
            {"files": []},
            {"arrays": {}},
            {"arrays": {"images": {"dtype": "|O", "shape": [3]}}},
            {"surprise": 1},
            {"settings": None},
        ],
        ids=str,
    )
    def test_a_changed_manifest(self, folder: Path, change: dict[str, Any]) -> None:
        path = folder / "manifest.json"
        content = json.loads(path.read_text()) | change
        for checksum in (content["checksum"], None):  # older caches have none
            path.write_text(json.dumps(content | {"checksum": checksum}))
            assert "damaged" in refusal(open_cache, folder)

    def test_a_manifest_cut_short(self, folder: Path) -> None:
        path = folder / "manifest.json"
        content = path.read_bytes()
        for keep in (0, 1, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:keep])
            assert str(path) in refusal(open_cache, folder)
            assert str(path) in refusal(write, folder, forbidden)

    def test_names_in_a_manifest_cannot_leave_the_folder(self, folder: Path) -> None:
        path = folder / "manifest.json"
        content = re.sub(r'"checksum": "\w+"', '"checksum": null', path.read_text())  # as in older caches
        for name in ("../../row", r"row\n"):
            path.write_text(content.replace('"row"', f'"{name}"'))
            assert "damaged" in refusal(open_cache, folder)


class TestOddFiles:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        write(tmp_path)
        return tmp_path

    @pytest.mark.parametrize("name", ["manifest.json", "00000/images.npy"])
    @pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
    def test_are_refused_at_once(self, folder: Path, name: str, kind: str) -> None:
        path = folder / name
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero")
        for verify in (True, False):
            sentence = refusal(open_cache, folder, verify=verify)
            assert "is not a regular file" in sentence or "is a folder" in sentence

    def test_a_changed_manifest_is_noticed(self, folder: Path) -> None:
        path = folder / "manifest.json"
        content = json.loads(path.read_text())
        content["settings"]["a setting"] = "changed"
        path.write_text(json.dumps(content))
        assert "its checksum differs" in refusal(open_cache, folder)

    def test_a_manifest_of_an_older_version_has_no_checksum(self, folder: Path) -> None:
        path = folder / "manifest.json"
        content = json.loads(path.read_text())
        del content["checksum"]
        path.write_text(json.dumps(content))
        assert len(open_cache(folder)) > 0

    def test_a_changed_byte_is_noticed_when_its_rows_are_read(self, folder: Path) -> None:
        path = folder / "00000" / "images.npy"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(bytes(content))
        cache = open_cache(folder, verify=False)
        with pytest.raises(InputError, match="has changed since it was written"):
            cache["images"][0]
