"""The cache of the machine: shared by result folders and processes, bounded, and never a reason to fail."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alebrije.arrays import Array
from alebrije.data import array_store, machine_cache
from alebrije.data.machine_cache import FOLDER, LIMIT, CacheUnusableError, MachineCache
from alebrije.errors import InputError
from alebrije.studies.folder import ResultFolder
from alebrije.worlds.user_worlds import CONTENTS
from tests.damages import DAMAGES

SETTINGS = {"name": "grouping-sprites", "seed": 3}
KILOBYTE = 1000


class Render:
    """Counts how often images are rendered."""

    def __init__(self, size: int = 600) -> None:
        self.size, self.calls = size, 0

    def __call__(self) -> dict[str, Array]:
        self.calls += 1
        return {"images": np.arange(self.size, dtype=np.uint8), "masks": np.ones((10, 4), np.uint8)}


@pytest.fixture
def render() -> Render:
    return Render()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, which is empty."""
    monkeypatch.setenv(FOLDER, str(tmp_path / "cache"))
    monkeypatch.delenv(LIMIT, raising=False)
    monkeypatch.delenv("ALEBRIJE_CACHE_WARNED", raising=False)
    return tmp_path / "cache" / "world-images"


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("alebrije"), "propagate", True)
    return caplog


def messages(warnings: pytest.LogCaptureFixture) -> list[str]:
    """What was logged; two handlers may see one record."""
    return list({id(record): record.getMessage() for record in warnings.records}.values())


def entry(kept: Path) -> Path:
    """The only entry."""
    (found,) = (path for path in kept.iterdir() if not path.name.startswith("."))
    return found


def images(folder: Path, render: Render, **more: Any) -> Array:
    return ResultFolder(folder).images({**SETTINGS, **more}, render)["images"]


def test_result_folders_share_images(tmp_path: Path, kept: Path, render: Render) -> None:
    for name in ("one", "two"):
        np.testing.assert_array_equal(images(tmp_path / name, render), Render()()["images"])
    assert render.calls == 1
    assert not (tmp_path / "one" / "data").exists()
    assert entry(kept).name.startswith("grouping-sprites-")


def test_everything_that_decides_the_images_is_in_the_address(
    tmp_path: Path, kept: Path, render: Render, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = MachineCache(tmp_path / "cache")
    cache.get(SETTINGS, render)
    cache.get({**SETTINGS, "seed": 4}, render)
    cache.get(SETTINGS, render, device="cuda:1")
    cache.get(SETTINGS, render, device="cuda:0")  # the same kind of device
    assert render.calls == 3
    monkeypatch.setattr(machine_cache, "version", lambda package: f"{package} of tomorrow")
    cache.get(SETTINGS, render)
    monkeypatch.setattr(machine_cache, "_code", lambda: "edited")
    cache.get(SETTINGS, render)
    assert render.calls == 5
    assert len(cache.entries()) == 5


def test_the_code_counts_that_samples_and_renders() -> None:
    package = Path(machine_cache.__file__).parents[1]
    counted = {path.relative_to(package).as_posix() for path in machine_cache._code_files(package)}
    assert counted > {"render/rays.py", "worlds/samplers.py", "scenes/placement.py", "instruments/analogy/images.py"}
    assert {"instruments/imagination/reader.py", "instruments/imagination/scene_reader.py", "graphs.py"} <= counted
    assert "instruments/imagination/one_cycle.py" in counted
    assert any(name.startswith("render/assets/") for name in counted)


def test_compiled_code_does_not_count(tmp_path: Path) -> None:
    for name in ("rays.py", "__pycache__/rays.cpython-311.pyc", "__pycache__/rays.trace-20.py311.1.nbc"):
        path = tmp_path / "render" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert [path.name for path in machine_cache._code_files(tmp_path)] == ["rays.py"]


def test_images_of_a_user_world_stay_in_the_result_folder(tmp_path: Path, kept: Path, render: Render) -> None:
    for name in ("one", "two"):
        images(tmp_path / name, render, **{CONTENTS: "fingerprint"})
    assert render.calls == 2
    assert not kept.exists()


def test_images_that_a_result_folder_has_are_used(
    tmp_path: Path, kept: Path, render: Render, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, "off")
    images(tmp_path / "old", render)
    monkeypatch.setenv(FOLDER, str(kept.parent))
    images(tmp_path / "old", render)
    assert render.calls == 1


@pytest.mark.parametrize("name", ["masks.npy", "checksums.json"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed_repaired_and_mentioned_once(
    tmp_path: Path, kept: Path, render: Render, warnings: pytest.LogCaptureFixture, damage: str, name: str
) -> None:
    images(tmp_path / "one", render)
    DAMAGES[damage](entry(kept) / name)
    for folder in ("two", "three"):
        arrays = ResultFolder(tmp_path / folder).images(SETTINGS, render)
        np.testing.assert_array_equal(arrays["masks"], np.ones((10, 4)))
    assert render.calls == 2
    (mention,) = messages(warnings)
    assert mention.endswith("; the arrays are computed again")


@pytest.mark.parametrize("damage", ["pipe", "folder", "device"])
def test_a_damaged_lock_means_no_cache(
    tmp_path: Path, kept: Path, render: Render, warnings: pytest.LogCaptureFixture, damage: str
) -> None:
    images(tmp_path / "one", render)
    shutil.rmtree(entry(kept))
    DAMAGES[damage](next((kept / ".locks").glob("grouping-*.lock")))
    images(tmp_path / "two", render)
    images(tmp_path / "two", render)
    assert render.calls == 2
    assert [message for message in messages(warnings) if "kept in the result folder instead" in message]


def test_an_exception_of_the_renderer_is_raised_and_leaves_nothing(tmp_path: Path, kept: Path, render: Render) -> None:
    def broken() -> dict[str, Array]:
        raise InputError("the world is flat")

    with pytest.raises(InputError, match="the world is flat"):
        ResultFolder(tmp_path / "one").images(SETTINGS, broken)
    images(tmp_path / "one", render)
    assert render.calls == 1


def test_the_least_recently_used_are_removed_first(tmp_path: Path) -> None:
    cache = MachineCache(tmp_path, limit=4 * KILOBYTE)
    renders = {seed: Render(KILOBYTE) for seed in range(4)}
    long_ago = time.time() - 1000
    for seed in (0, 1):  # about 1.6 kB each with settings and checksums
        cache.get({**SETTINGS, "seed": seed}, renders[seed])
        for path in (tmp_path / "world-images").glob("grouping-*"):
            os.utime(path / "checksums.json", (long_ago + seed, long_ago + seed))
    cache.get({**SETTINGS, "seed": 0}, renders[0])  # used again
    cache.get({**SETTINGS, "seed": 2}, renders[2])
    assert {one.settings["seed"] for one in cache.entries()} == {0, 2}
    assert sum(one.bytes for one in cache.entries()) <= cache.limit
    cache.get({**SETTINGS, "seed": 1}, renders[1])
    assert [renders[seed].calls for seed in (0, 1, 2)] == [1, 2, 1]


def test_images_larger_than_the_cache_stay_in_the_result_folder(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, warnings: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(LIMIT, "0.000002")
    render = Render(5 * KILOBYTE)
    for _ in range(2):
        images(tmp_path / "one", render)
    assert render.calls == 1
    assert messages(warnings) == []
    assert not [path for path in kept.iterdir() if path.name != ".locks"]


@pytest.mark.parametrize("folder", ["off", " OFF ", "0", ""])
def test_it_can_be_switched_off(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setenv(FOLDER, folder)
    render = Render()
    for name in ("one", "two"):
        images(tmp_path / name, render)
    assert render.calls == 2
    assert not kept.exists()


@pytest.mark.parametrize("limit", ["many", "-1", "nan", "inf", ""])
def test_a_limit_that_is_no_size_is_refused(kept: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setenv(LIMIT, limit)
    with pytest.raises(InputError, match="ALEBRIJE_CACHE_LIMIT must be a number of gigabytes"):
        machine_cache.machine_cache()


def check_works_without(folder: Path, warnings: pytest.LogCaptureFixture) -> None:
    """Images come from the result folder, rendered once, and one warning says so."""
    render = Render()
    for seed in (3, 3, 4):
        np.testing.assert_array_equal(images(folder, render, seed=seed), Render()()["images"])
    assert render.calls == 2
    (mention,) = messages(warnings)
    assert mention.endswith("images are kept in the result folder instead (ALEBRIJE_CACHE=DIR chooses another cache)")


def test_a_file_in_place_of_the_cache(tmp_path: Path, kept: Path, warnings: pytest.LogCaptureFixture) -> None:
    kept.parent.write_text("mine")
    check_works_without(tmp_path / "one", warnings)
    assert kept.parent.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("ALEBRIJE_CACHE_WARNED", raising=False)
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    monkeypatch.setenv("HOME", str(home))
    check_works_without(tmp_path / "one", warnings)


def test_a_full_disk(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, warnings: pytest.LogCaptureFixture
) -> None:
    write = array_store.write_array

    def full(path: Path, array: Array) -> Any:
        if kept in path.parents:
            raise OSError(28, "No space left on device", str(path))
        return write(path, array)

    monkeypatch.setattr(array_store, "write_array", full)
    check_works_without(tmp_path / "one", warnings)
    assert not [path for path in kept.iterdir() if path.name != ".locks"]


SLOW_RENDER = """
import sys, time
import numpy as np
from pathlib import Path
from alebrije.data.machine_cache import MachineCache

def render():
    with open(sys.argv[2], "a") as log:
        log.write("x")
    print("rendering", flush=True)
    time.sleep(float(sys.argv[3]))
    return {"images": np.arange(600, dtype=np.uint8)}

print(int(MachineCache(Path(sys.argv[1])).get({"name": "grouping-sprites", "seed": 3}, render)["images"].sum()))
"""


def slow(cache: Path, log: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SLOW_RENDER, str(cache), str(log), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_render_once(tmp_path: Path) -> None:
    processes = [slow(tmp_path / "cache", tmp_path / "log", 1.0) for _ in range(2)]
    sums = [process.communicate()[0].split()[-1] for process in processes]
    assert sums == [str(np.arange(600, dtype=np.uint8).sum())] * 2
    assert (tmp_path / "log").read_text() == "x"


def test_a_killed_process_leaves_no_entry_and_no_lock(tmp_path: Path, render: Render) -> None:
    with slow(tmp_path / "cache", tmp_path / "log", 60.0) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "rendering\n"
        process.send_signal(signal.SIGKILL)
    cache = MachineCache(tmp_path / "cache")
    assert cache.entries() == []
    np.testing.assert_array_equal(cache.get(SETTINGS, render)["images"], render()["images"])


def test_what_a_killed_process_wrote_is_removed(tmp_path: Path, render: Render) -> None:
    cache = MachineCache(tmp_path)
    cache.get(SETTINGS, render)
    found = entry(tmp_path / "world-images")
    half = found.with_name(f".{found.name}.0123456789ab.part")
    shutil.move(found, half)
    (half / "checksums.json").unlink()
    cache.get(SETTINGS, render)
    assert render.calls == 2
    assert not half.exists()


def test_clearing_keeps_other_files(tmp_path: Path, render: Render) -> None:
    cache = MachineCache(tmp_path)
    cache.get(SETTINGS, render)
    (tmp_path / "world-images" / "notes.txt").write_text("mine")
    cache.clear()
    assert cache.entries() == []
    assert (tmp_path / "world-images" / "notes.txt").read_text() == "mine"
    MachineCache(tmp_path / "never used").clear()


def test_images_that_cannot_be_kept_are_handed_over(tmp_path: Path, render: Render) -> None:
    with pytest.raises(CacheUnusableError, match="larger than the cache") as refused:
        MachineCache(tmp_path, limit=1).get(SETTINGS, render)
    assert refused.value.arrays is not None
    assert refused.value.arrays["images"].shape == (600,)
