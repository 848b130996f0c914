"""Sources: the same index gives the same item, streamed or preloaded."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any

import pytest
import torch

from alebrije import worlds
from alebrije.models import Batch
from alebrije.train import Images, PreloadedSource, StreamedSource, TaskEpisodes, preload

CPU = torch.device("cpu")


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_a_stream_does_not_depend_on_batch_sizes() -> None:
    scene_set = Images(worlds.get("sprites"), 16, seed=3)
    whole = StreamedSource(scene_set, CPU, block=16).batch(0, 40)
    stream = StreamedSource(scene_set, CPU, block=16)
    parts = [stream.batch(first, 8) for first in range(0, 40, 8)]
    assert torch.equal(whole["images"], torch.cat([part["images"] for part in parts]))
    assert equal(StreamedSource(scene_set, CPU, block=16).batch(24, 10), stream.batch(24, 10))
    assert torch.equal(whole["images"], worlds.get("sprites").render(scene_set.scenes(0, 40), 16).images)
    assert not torch.equal(
        whole["images"], StreamedSource(Images(worlds.get("sprites"), 16, seed=4), CPU).batch(0, 40)["images"]
    )


def test_every_epoch_shows_every_item_once_in_another_order() -> None:
    preloaded = PreloadedSource({"images": torch.arange(10)}, seed=1)
    epochs = [preloaded.batch(first, 10)["images"] for first in (0, 10)]
    for epoch in epochs:
        assert sorted(epoch.tolist()) == list(range(10))
    assert epochs[0].tolist() != epochs[1].tolist()
    assert preloaded.batch(7, 6)["images"].tolist() == [*epochs[0][7:].tolist(), *epochs[1][:3].tolist()]
    assert PreloadedSource({"images": torch.arange(10)}, seed=1).batch(10, 10)["images"].tolist() == epochs[1].tolist()
    assert PreloadedSource({"images": torch.arange(10)}, seed=2).batch(0, 10)["images"].tolist() != epochs[0].tolist()


def test_a_preloaded_set_is_the_start_of_the_stream() -> None:
    scene_set = TaskEpisodes(worlds.task("sprites", "S-A"), 16, seed=5)
    reported: list[tuple[int, int]] = []
    items = preload(scene_set, 300, CPU, progress=lambda done, total: reported.append((done, total)))
    assert reported == [(min(done, 300), 300) for done in range(16, 316, 16)]
    assert equal(items, StreamedSource(scene_set, CPU, block=300).batch(0, 300))


def test_processes_sample_the_same_scenes() -> None:
    scene_set = Images(worlds.get("clevr6"), 16, seed=0)
    assert equal(preload(scene_set, 65, CPU), preload(scene_set, 65, CPU, workers=2))


def test_a_closed_stream_stops_rendering() -> None:
    class Counted(Images):
        def render(self, scenes: Any, device: torch.device) -> Batch:
            rendered.append(len(scenes))
            if len(rendered) > 2:
                stream.close()
            return super().render(scenes, device)

    rendered: list[int] = []
    stream = StreamedSource(Counted(worlds.get("sprites"), 8, 0), torch.device("cpu"), block=320)
    with pytest.raises(CancelledError):
        stream.batch(0, 8)
    stream._thread.shutdown()
    assert rendered == [16, 16, 16]
