"""`alebrije make`, as a user meets it: what is in the folder, what continues, what is refused."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from filecmp import dircmp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alebrije import __version__, data, worlds
from alebrije.cli import main
from alebrije.data import datasets
from alebrije.data.datasets import Dataset, scenes_from_arrays, write_dataset
from alebrije.scenes.placement import place_at_once
from tests.cli.command import Outcome, call

PROGRESS = re.compile(r"\[(\d+)/(\d+)\] [\d.]+ images/s")


def make(*arguments: Any) -> Outcome:
    """Run the command in this process; catch only SystemExit."""
    return call("make", *arguments, progress_line=PROGRESS)


def refusal(*arguments: Any) -> str:
    """The one sentence with which the command refuses."""
    outcome = make(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    (sentence,) = outcome.complaints
    assert sentence.startswith("alebrije: ")
    return sentence


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_same_files(one: Path, other: Path) -> None:
    assert files_of(one) == files_of(other)
    assert not dircmp(one, other).left_only


class TestCaches:
    @pytest.mark.parametrize("world", ["sprites", "rooms", "arm", "clevr", "clevr6"])
    def test_a_world_is_what_sample_and_render_give(self, tmp_path: Path, world: str) -> None:
        outcome = make(world, "--n", 5, "--out", tmp_path / "new" / "x", "--size", 24, "--seed", 3)
        assert (outcome.code, outcome.complaints) == (0, [])
        cache = data.open_cache(tmp_path / "new" / "x")
        assert cache.settings == {"world": world, "size": 24, "seed": 3}
        scenes = worlds.get(world).sample(5, seed=3)
        frames = worlds.get(world).render(scenes, size=24)
        np.testing.assert_array_equal(cache["images"], frames.images)
        np.testing.assert_array_equal(cache["masks"], frames.masks)
        for name, tensor in scenes.tensors():
            np.testing.assert_array_equal(cache[name], tensor)
        assert set(cache.arrays) == {"images", "masks", *dict(scenes.tensors())}
        assert scenes_from_arrays({name: cache[name][:] for name in cache.arrays}, world).equals(scenes)

    @pytest.mark.parametrize("split", ["train", "test", "omni"])
    def test_a_task_has_sources_and_targets(self, tmp_path: Path, split: str) -> None:
        assert make("sprites/M-NA", "--n", 3, "--out", tmp_path, "--size", 16, "--split", split).code == 0
        cache = data.open_cache(tmp_path)
        task = worlds.task("sprites", "M-NA", alpha=0.6)
        episodes = getattr(task, split)(3)
        for side, scenes in (("source", episodes.source), ("target", episodes.target)):
            frames = task.world.render(scenes, size=16)
            np.testing.assert_array_equal(cache[f"{side}_images"], frames.images)
            np.testing.assert_array_equal(cache[f"{side}_masks"], frames.masks)
            np.testing.assert_array_equal(cache[f"{side}_factors"], scenes.factors)
        assert not {"images", "masks", "factors"} & set(cache.arrays)
        wanted = {"world": "sprites", "rule": "M-NA", "split": split, "size": 16, "seed": 0}
        assert cache.settings == wanted | ({"alpha": 0.6} if split == "train" else {})

    def test_all_splits_have_a_folder_each(self, tmp_path: Path) -> None:
        outcome = make("sprites", "--rule", "S-A", "--n", 2, "--out", tmp_path, "--size", 16, "--split", "all")
        assert outcome.code == 0
        assert sorted(os.listdir(tmp_path)) == ["omni", "test", "train"]
        assert [data.open_cache(tmp_path / part).settings["split"] for part in ("train", "test")] == ["train", "test"]
        assert outcome.out.startswith("12 images in ")

    def test_alpha_decides_what_training_shows(self, tmp_path: Path) -> None:
        assert make("sprites/S-A", "--n", 64, "--out", tmp_path, "--size", 8, "--alpha", 0).code == 0
        seen = data.open_cache(tmp_path)["source_factors"][:].reshape(-1, 3)
        assert {tuple(one) for one in seen.tolist()} == set(worlds.task("sprites", "S-A", 0.0).split.core)

    def test_the_settings_tell_of_the_content_alone(self, tmp_path: Path) -> None:
        """What was begun elsewhere, with other workers, continues here."""
        assert make("sprites", "--n", 2, "--out", tmp_path, "--size", 8, "--workers", 1).code == 0
        assert make("sprites", "--n", 2, "--out", tmp_path, "--size", 8, "--workers", 2).code == 0
        assert not {"device", "workers", "format"} & data.open_cache(tmp_path).settings.keys()

    @pytest.mark.parametrize(
        ("size", "rule", "rows"),
        [(8, None, 512), (64, None, 512), (128, None, 256), (128, "M-NA", 128), (150, None, 128), (1024, "M-NA", 64)],
    )
    def test_shards_are_sized_by_bytes(self, size: int, rule: str | None, rows: int) -> None:
        assert Dataset("clevr", rule, size=size).shard == rows

    @pytest.mark.parametrize("device", ["cpu", "elsewhere"])
    def test_the_manifest_tells_the_shard(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
        """An accelerator is asked for a shard at a time, whatever its size."""
        dataset = Dataset("rooms", size=8)
        monkeypatch.setattr(datasets, "SHARD_BYTES", 70 * 256)
        monkeypatch.setattr(datasets, "usable_device", str)
        genuine = Dataset.arrays
        monkeypatch.setattr(Dataset, "arrays", lambda self, start, stop, *_: genuine(self, start, stop))
        write_dataset(dataset, 130, tmp_path, device=device)
        cache = data.open_cache(tmp_path)
        assert cache.manifest.shard == 64
        np.testing.assert_array_equal(cache["factors"][:], worlds.get("rooms").sample(130).factors)

    def test_rows_do_not_depend_on_how_many_there_are(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets, "ROWS", 64)
        for n in (5, 130):
            assert make("rooms", "--n", n, "--out", tmp_path / f"{n}", "--size", 8).code == 0
        few, many = (data.open_cache(tmp_path / f"{n}") for n in (5, 130))
        for name in few.arrays:
            np.testing.assert_array_equal(few[name][:], many[name][:5])
        np.testing.assert_array_equal(many["factors"][:], worlds.get("rooms").sample(130).factors)


class TestSvib:
    @pytest.mark.parametrize("world", ["sprites", "clevr"])
    def test_a_task_reads_back(self, tmp_path: Path, world: str) -> None:
        assert make(f"{world}/M-NA", "--n", 3, "--out", tmp_path, "--size", 32, "--format", "svib").code == 0
        read, task = data.read_svib(tmp_path), worlds.task(world, "M-NA")
        episodes = task.train(3)
        assert read.source.equals(episodes.source)
        assert read.target.equals(episodes.target)
        frames = task.world.render(episodes.target, size=32)
        assert torch.equal(read.target_images, frames.images)
        assert torch.equal(read.target_masks, frames.masks)
        assert read.source.names == ("00000000", "00000001", "00000002")

    def test_a_world_has_sources_alone(self, tmp_path: Path) -> None:
        assert make("sprites", "--n", 70, "--out", tmp_path, "--size", 16, "--format", "svib").code == 0
        read = data.read_svib(tmp_path, targets=False)
        assert read.source.equals(worlds.get("sprites").sample(70))
        assert sorted(os.listdir(tmp_path / "00000069")) == ["source.json", "source.png", "source_mask.png"]
        visible = [name for name in os.listdir(tmp_path) if not name.startswith(".")]
        assert len(visible) == 70

    def test_only_what_is_missing_or_empty_is_made(self, tmp_path: Path) -> None:
        arguments = ("sprites", "--n", 70, "--out", tmp_path, "--size", 16, "--format", "svib")
        make(*arguments)
        before = files_of(tmp_path)
        for path in (tmp_path / "00000066").iterdir():
            path.write_bytes(b"")
        outcome = make(*arguments)
        assert "(6 made now" in outcome.out
        assert files_of(tmp_path) == before
        assert "all were already there" in make(*arguments).out

    @pytest.mark.parametrize("name", ["source.json", "target.png", "source_mask.png"])
    def test_what_was_cut_short_is_made_again(self, tmp_path: Path, name: str) -> None:
        arguments = ("sprites/S-A", "--n", 66, "--out", tmp_path, "--size", 16, "--format", "svib")
        make(*arguments)
        before = files_of(tmp_path)
        path = tmp_path / "00000065" / name
        path.write_bytes(path.read_bytes()[:-5])
        assert "(4 made now" in make(*arguments).out
        assert files_of(tmp_path) == before

    def test_the_refusal_names_what_differs(self, tmp_path: Path) -> None:
        arguments = ("sprites", "--n", 2, "--out", tmp_path, "--size", 8, "--format", "svib")
        make(*arguments)
        sentence = refusal(*arguments, "--seed", 1)
        assert sentence.endswith("""was written with different settings: {"seed": 0} there, {"seed": 1} here""")
        (tmp_path / datasets.SETTINGS).write_text("{")
        assert f"{tmp_path / datasets.SETTINGS}: is damaged" in refusal(*arguments)

    @pytest.mark.parametrize("library", ["0.0.0", None])
    def test_another_version_continues_nothing(self, tmp_path: Path, library: str | None) -> None:
        arguments = ("sprites", "--n", 2, "--out", tmp_path, "--size", 8, "--format", "svib")
        make(*arguments)
        path = tmp_path / datasets.SETTINGS
        settings = json.loads(path.read_text())
        del settings["library"]
        path.write_text(json.dumps(settings | ({"library": library} if library else {})))
        assert "all were already there" in make(*arguments).out
        (tmp_path / "00000001" / "source.png").unlink()
        before = files_of(tmp_path)
        assert f"was started by alebrije {library or '(unknown version)'}, but this is" in refusal(*arguments)
        assert files_of(tmp_path) == before

    @pytest.mark.parametrize("world", ["rooms", "dsprites", "arm"])
    def test_worlds_without_the_layout(self, tmp_path: Path, world: str) -> None:
        assert "a shape and a size" in refusal(world, "--n", 1, "--out", tmp_path / "x", "--format", "svib")
        assert not (tmp_path / "x").exists()


class TestFilesOfMpi3d:
    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("arm", "--n", 10), "every image of arm: --n 1036800 --size 64"),
            (("arm", "--n", 1_036_800), "every image of arm: --n 1036800 --size 64"),
            (("rooms", "--n", 480_000, "--size", 64), "its seven factors in every combination, as arm does; rooms"),
            (("clevr", "--n", 10), "its seven factors in every combination, as arm does; clevr"),
            (("arm", "--n", 10, "--alpha", 0.5), "--alpha 0.5 needs a task"),
        ],
    )
    def test_what_they_cannot_hold(self, tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
        assert sentence in refusal(*arguments, "--out", tmp_path / "x", "--format", "mpi3d")
        assert not (tmp_path / "x").exists()

    def test_the_command_reports_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("alebrije.data.mpi3d_file.write_mpi3d", lambda *given, **options: 0)
        outcome = make("arm", "--n", 1_036_800, "--size", 64, "--out", tmp_path, "--format", "mpi3d")
        assert "mpi3d_arm.npz (all were already there)" in outcome.out


class TestWorkers:
    @pytest.mark.parametrize("format", ["cache", "svib"])
    def test_two_make_the_same_files_as_one(self, tmp_path: Path, format: str) -> None:
        for workers in (1, 2):
            outcome = make(
                "clevr/M-NA", "--n", 70, "--out", tmp_path / f"{workers}", "--size", 8,
                "--format", format, "--workers", workers,
            )  # fmt: skip
            assert (outcome.code, outcome.complaints) == (0, [])
        assert_same_files(tmp_path / "1", tmp_path / "2")

    def test_a_worker_that_is_ended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets, "_begin_worker", _die)
        sentence = refusal("sprites", "--n", 1, "--out", tmp_path, "--size", 8, "--workers", 2)
        assert "repeat the command to continue" in sentence

    def test_errors_in_a_worker_are_sentences_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets, "make_piece", _refuse)
        assert "no room" in refusal("sprites", "--n", 1, "--out", tmp_path, "--size", 8, "--workers", 2)

    def test_elsewhere_they_are_left_aside(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets, "write_dataset", lambda *_, **__: 4)
        outcome = make("sprites", "--n", 4, "--out", tmp_path, "--device", "cuda", "--workers", 2)
        assert outcome.code == 0
        assert outcome.complaints == ["alebrije: --workers is ignored, because cuda renders in one process"]


def _die() -> None:
    os._exit(1)


def _refuse(*_: Any, **__: Any) -> None:
    from alebrije.errors import InputError

    raise InputError("there is no room for these objects")


def begin(*arguments: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "alebrije", "make", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    # tests that run in the background ignore interrupts and would pass that on
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, preexec_fn=heed
    )


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.002)


def descendants(parent: int) -> list[int]:
    """Processes whose parent it is, and theirs."""
    pairs = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pairs.append((int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])))
    found = [child for child, owner in pairs if owner == parent]
    return found + [further for child in found for further in descendants(child)]


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class TestContinuing:
    def test_a_killed_cache(self, tmp_path: Path) -> None:
        arguments = ("sprites", "--n", 6000, "--out", tmp_path / "x", "--size", 32)
        process = begin(*arguments)
        wait_for(tmp_path / "x" / "00001", process)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert not (tmp_path / "x" / "00011").exists()
        kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "x").glob("0*/*")}
        assert len(kept) >= 16
        outcome = make(*arguments)
        assert outcome.code == 0
        assert int(re.search(r"\(([\d,]+) made now", outcome.out)[1].replace(",", "")) <= 6000 - 2 * 512
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        cache = data.open_cache(tmp_path / "x")
        assert len(cache) == 6000
        rows = [0, 511, 512, 1024, 5999]
        scenes = worlds.get("sprites").sample(6000)[torch.tensor(rows)]
        np.testing.assert_array_equal(cache["images"][rows], worlds.get("sprites").render(scenes, size=32).images)
        assert not list((tmp_path / "x").glob(".*"))

    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="children are looked up in /proc")
    def test_killed_episodes_and_their_workers(self, tmp_path: Path) -> None:
        arguments = ("sprites/S-A", "--n", 1000, "--out", tmp_path / "x", "--size", 32, "--format", "svib")
        process = begin(*arguments, "--workers", 2)
        wait_for(tmp_path / "x" / "00000063", process)
        children = descendants(process.pid)
        process.kill()
        process.wait()
        assert len(children) >= 2
        limit = time.monotonic() + 10
        while any(map(is_alive, children)):
            assert time.monotonic() < limit
            time.sleep(0.01)
        kept = len(list((tmp_path / "x").glob("0*")))
        assert kept < 1000
        assert make(*arguments).code == 0
        assert write_dataset(Dataset("sprites", "S-A", size=32), 1000, tmp_path / "y", format="svib") == 2000
        assert_same_files(tmp_path / "x", tmp_path / "y")

    @pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_an_interrupt_is_one_sentence(self, tmp_path: Path, sent: signal.Signals, code: int) -> None:
        process = begin("sprites", "--n", 100_000, "--out", tmp_path / "x", "--size", 32, "--workers", 2)
        wait_for(tmp_path / "x" / "00000", process)
        process.send_signal(sent)
        _, complaints = process.communicate(timeout=30)
        assert process.returncode == code, complaints
        assert [line for line in complaints.decode().splitlines() if not PROGRESS.fullmatch(line)] == [
            "alebrije: stopped; run the same command to continue"
        ]

    @pytest.mark.parametrize("format", ["cache", "svib"])
    def test_a_full_disk_loses_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
        monkeypatch.setattr(datasets, "ROWS", 64)
        genuine, calls = os.rename, []

        def fills_up(*arguments: Any) -> None:
            calls.append(1)
            if len(calls) > 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            genuine(*arguments)

        arguments = ("sprites", "--n", 130, "--out", tmp_path / "x", "--size", 8, "--format", format)
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", fills_up)
            sentence = refusal(*arguments)
        assert f"{tmp_path / 'x'}: the disk is full" in sentence
        assert ".part" not in sentence
        kept = {path for path in files_of(tmp_path / "x") if path.startswith("0")}
        assert make(*arguments).code == 0
        assert kept <= files_of(tmp_path / "x").keys()
        made = data.open_cache(tmp_path / "x") if format == "cache" else data.read_svib(tmp_path / "x", targets=False)
        assert len(made) == 130

    @pytest.mark.parametrize("format", ["cache", "svib"])
    @pytest.mark.parametrize(
        "change",
        [("--seed", 1), ("--size", 9), ("--n", 3), ("--rule", "S-A"), ("--rule", "M-A", "--split", "test")],
        ids=str,
    )
    def test_another_dataset_in_the_folder(self, tmp_path: Path, format: str, change: tuple[Any, ...]) -> None:
        arguments = ["sprites", "--n", 2, "--out", tmp_path, "--size", 8, "--format", format]
        assert make(*arguments).code == 0
        before = files_of(tmp_path)
        sentence = refusal(*arguments, *change)
        larger = (*change, format) == ("--n", 3, "cache")
        fault = "holds a cache of 2 rows, which cannot become 3; choose" if larger else "was written with different "
        assert f"{tmp_path}: {fault}" in sentence
        assert files_of(tmp_path) == before

    @pytest.mark.parametrize("format", ["cache", "svib"])
    def test_other_things_in_the_folder(self, tmp_path: Path, format: str) -> None:
        (tmp_path / "thesis.tex").write_text("mine")
        assert "is not empty" in refusal("sprites", "--n", 2, "--out", tmp_path, "--format", format)
        assert files_of(tmp_path) == {"thesis.tex": b"mine"}

    def test_splits_do_not_go_into_a_dataset(self, tmp_path: Path) -> None:
        assert make("sprites", "--n", 1, "--out", tmp_path, "--size", 8).code == 0
        before = files_of(tmp_path)
        assert "is itself a dataset" in refusal("sprites/S-A", "--n", 1, "--out", tmp_path, "--split", "all")
        assert files_of(tmp_path) == before


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("sprites", "--n", 0), "--n must be at least 1, not 0"),
            (("sprites", "--n", -3), "--n must be at least 1, not -3"),
            (("sprites", "--size", 7), "--size must be at least 8, not 7"),
            (("sprites", "--size", 100_000), "size must be 8 to 1024 pixels"),
            (("sprites", "--workers", 0), "--workers must be at least 1, not 0"),
            (("sprites", "--seed", -1), "seed must be at least 0, not -1"),
            (("sprites/S-A", "--alpha", 1.5), "alpha must be a number from 0 to 1"),
            (("sprites/S-A", "--alpha", "nan"), "alpha must be a number from 0 to 1"),
            (("sprites", "--alpha", 0.2), "--alpha 0.2 needs a task"),
            (("clevr7",), "there is no world 'clevr7'; did you mean 'clevr'"),
            (("/",), "there is no world ''"),
            (("sprites/",), "sprites/ has no rule"),
            (("sprites/S-B",), "there is no rule 'S-B'; did you mean 'S-A'"),
            (("sprites", "--rule", "S-B"), "there is no rule 'S-B'"),
            (("sprites/S-A", "--rule", "M-A"), "already has a rule"),
            (("rooms/S-A",), "rules need two objects"),
            *((("sprites", "--split", part), f"--split {part} needs a task") for part in ("test", "omni", "all")),
        ],
        ids=str,
    )
    def test_one_sentence_and_nothing_written(self, tmp_path: Path, arguments: tuple[Any, ...], message: str) -> None:
        what, *others = arguments
        given = ["--n", 1, *others] if "--n" not in others else others
        assert message in refusal(what, *given, "--out", tmp_path / "x")
        assert not (tmp_path / "x").exists()

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
    def test_a_device_that_is_not_there(self, tmp_path: Path) -> None:
        sentence = refusal("sprites", "--n", 1, "--out", tmp_path / "x", "--device", "cuda")
        assert sentence.startswith("alebrije: torch cannot use the device 'cuda'")
        assert not (tmp_path / "x").exists()

    def test_more_objects_than_fit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        class Full:
            pairs = False

            def block(self, generator: np.random.Generator, *_: Any) -> None:
                place_at_once(generator, np.full((1, 40), 0.4), 0.0, 1.0, apart=1.0, retries=3)

        full = replace(worlds.get("sprites"), name="full", sampler=Full())
        monkeypatch.setitem(worlds.world._WORLDS, "full", full)
        assert "40 objects of these sizes do not fit" in refusal("full", "--n", 1, "--out", tmp_path)

    def test_a_file_where_the_folder_would_be(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_text("mine")
        for format in ("cache", "svib"):
            assert "x: cannot be written" in refusal(
                "sprites", "--n", 1, "--out", tmp_path / "x", "--format", format, "--size", 8
            )
        assert (tmp_path / "x").read_text() == "mine"

    def test_compiling_that_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise RuntimeError("no compiler")

        monkeypatch.setattr(Dataset, "arrays", fail)
        assert "run without --compile" in refusal("sprites", "--n", 1, "--out", tmp_path, "--compile")

    def test_a_size_that_does_not_fit_into_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise torch.OutOfMemoryError("tried to allocate")

        monkeypatch.setattr(Dataset, "arrays", fail)
        assert "too little memory" in refusal("sprites", "--n", 1, "--out", tmp_path)


class TestWhatIsSaid:
    def test_progress_counts_images(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("alebrije.cli.progress.SECONDS_A_LINE", 0.0)
        outcome = make("sprites/S-A", "--n", 130, "--out", tmp_path, "--size", 8)
        counts = [tuple(map(int, PROGRESS.fullmatch(line).groups())) for line in outcome.progress]
        assert counts == [(128, 260), (256, 260), (260, 260)]

    def test_a_bar_on_a_terminal(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        terminal = Terminal()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setattr(sys, "stderr", terminal)
        main(["make", "sprites", "--n", "70", "--out", str(tmp_path), "--size", "8"])
        assert "70/70" in terminal.getvalue()
        assert "images/s" in terminal.getvalue()
        assert not any(map(PROGRESS.fullmatch, terminal.getvalue().splitlines()))

    def test_the_last_line(self, tmp_path: Path) -> None:
        outcome = make("sprites", "--n", 3, "--out", tmp_path / "x", "--size", 8)
        assert re.fullmatch(rf"3 images in {tmp_path}/x \(3 made now, [\d.,]+ images/s\)\n", outcome.out)
        again = make("sprites", "--n", 3, "--out", tmp_path / "x", "--size", 8)
        assert again.out == f"3 images in {tmp_path}/x (all were already there)\n"

    def test_help_names_every_world_and_loads_nothing_heavy(self) -> None:
        code = (
            "import sys\nfrom alebrije.cli import main\n"
            "try: main(['make', '--help'])\n"
            "except SystemExit: print('torch' in sys.modules, 'numpy' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.endswith("False False\n")
        words = re.findall(r"[\w-]+", done.stdout)
        assert {*worlds.names(), "--workers", "--format", "svib", "M-NA", "omni", "--compile"} <= set(words)


def test_settings_of_a_folder_are_json(tmp_path: Path) -> None:
    write_dataset(Dataset("sprites", "S-A", size=8), 2, tmp_path, format="svib")
    settings = json.loads((tmp_path / datasets.SETTINGS).read_text())
    assert settings == {"library": __version__, "total": 2, **Dataset("sprites", "S-A", size=8).settings}
