"""Images rendered before training: kept when a run is stopped, and used by the same call."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from alebrije import worlds
from alebrije.train import Images, RunOptions, preload, preloading
from alebrije.train.plan import plan
from alebrije.train.preloading import Store
from alebrije.train.run import run_plan

CPU = torch.device("cpu")
COUNT = 200


class Watched(Images):
    """Images that count what is rendered, and may stop after some."""

    rendered: ClassVar[list[int]] = []
    most = 10**9

    def render(self, scenes: Any, device: torch.device) -> Any:
        if sum(self.rendered) >= self.most:
            raise KeyboardInterrupt
        self.rendered.append(len(scenes))
        return super().render(scenes, device)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    monkeypatch.setattr(Watched, "rendered", [])
    monkeypatch.setattr(Watched, "most", 10**9)
    monkeypatch.setattr(preloading, "_MOST", 64)  # items in a part
    return Watched


def test_rendering_continues_where_it_was_stopped(tmp_path: Path, watched: type[Watched]) -> None:
    images, store = watched(worlds.get("sprites"), 8, 0), Store(tmp_path / "images", {"seed": 0})
    watched.most = 150
    with pytest.raises(KeyboardInterrupt):
        preload(images, COUNT, CPU, store=store)
    watched.most, before = 10**9, sum(watched.rendered)
    found = preload(images, COUNT, CPU, store=store)
    assert sum(watched.rendered) - before == COUNT - 2 * 64 + 1  # two parts were finished; one image shows the size
    assert torch.equal(found["images"], images.render(images.scenes(0, COUNT), CPU)["images"])
    before = sum(watched.rendered)
    preload(images, COUNT, CPU, store=store)
    assert sum(watched.rendered) - before == 1


def test_damaged_and_other_images_are_rendered_again(
    tmp_path: Path, watched: type[Watched], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preloading._LOG, "propagate", True)
    images, folder = watched(worlds.get("sprites"), 8, 0), tmp_path / "images"
    with caplog.at_level("INFO", "alebrije"):
        right = preload(images, COUNT, CPU, store=Store(folder, {"seed": 0}))["images"]
        path = folder / "00001" / "images.npy"
        damaged = bytearray(path.read_bytes())
        damaged[-1] ^= 1
        path.write_bytes(damaged)
        assert torch.equal(preload(images, COUNT, CPU, store=Store(folder, {"seed": 0}))["images"], right)
        assert "rendering all images again" in caplog.text
        caplog.clear()
        other = watched(worlds.get("sprites"), 8, 1)
        assert not torch.equal(preload(other, COUNT, CPU, store=Store(folder, {"seed": 1}))["images"], right)
        assert "different settings" in caplog.text


def test_without_room_images_are_not_kept(
    tmp_path: Path, watched: type[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preloading.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 10})())
    images = watched(worlds.get("sprites"), 8, 0)
    assert len(preload(images, COUNT, CPU, store=Store(tmp_path / "images", {}))["images"]) == COUNT
    assert not (tmp_path / "images").exists()


def test_progress_shows_every_few_images(watched: type[Watched]) -> None:
    shown: list[tuple[int, int]] = []
    preload(watched(worlds.get("sprites"), 8, 0), 40, CPU, progress=lambda done, total: shown.append((done, total)))
    assert shown == [(16, 40), (32, 40), (40, 40)]


def test_a_run_keeps_its_images_until_it_is_complete(tmp_path: Path) -> None:
    made = plan("i2i-cnn", preset_name="tiny", settings={"steps": 2})
    run_plan(made, tmp_path, RunOptions(check_size=4, until=1))
    assert (tmp_path / "images" / "manifest.json").is_file()
    run_plan(made, tmp_path, RunOptions(check_size=4))
    assert not (tmp_path / "images").exists()
