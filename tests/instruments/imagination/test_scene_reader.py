"""The network that reads all factors from whole scenes."""

from __future__ import annotations

import pytest
import torch

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.instruments.imagination.scene_reader import (
    ACCURACIES,
    LABEL,
    SceneReaderSettings,
    reader_values,
    scene_factors,
)
from alebrije.instruments.imagination.study import jobs, scene_readers
from alebrije.results import published_for
from alebrije.studies.folder import ResultFolder
from alebrije.studies.request import Request


def test_the_nearer_object_comes_first() -> None:
    scenes = worlds.get("clevrtex").sample(40, seed=0)
    assert scenes.camera is not None
    found = scene_factors(scenes)
    assert found.shape == (40, 7)
    swapped = 0
    for scene in range(40):
        distances = (scenes.position[scene] - scenes.camera[scene]).norm(dim=1)
        near, far = (0, 1) if distances[0] < distances[1] else (1, 0)
        expected = [int(scenes.factors[scene, each, at]) for at in range(3) for each in (near, far)]
        assert found[scene].tolist() == [*expected, int(scenes.background[scene])]
        swapped += near
    assert 0 < swapped < 40
    assert scene_factors(worlds.get("clevr").sample(3, seed=0)).shape == (3, 8)  # one background only


def test_names_are_those_of_the_published_table() -> None:
    names = SceneReaderSettings("clevrtex", 128).names
    assert names[::2] == ("shape of object 1", "size of object 1", "material of object 1", "material of the background")
    published = [published_for({"world": "clevrtex", "pixels": 128}, name) for name in names]
    assert [each[0].value for each in published] == pytest.approx(
        [0.9281, 0.8839, 0.9499, 0.9346, 0.9567, 0.9298, 0.9999]
    )
    assert published_for({"world": "clevrtex", "pixels": 64}, names[0]) == []
    assert set(SceneReaderSettings("clevr", 32).names) <= set(ACCURACIES)


@pytest.mark.slow
def test_it_learns(folder: ResultFolder) -> None:
    """A few small images are enough for the background, which is most of the image."""
    settings = SceneReaderSettings("clevrtex", 16, scenes=96, test_scenes=48, epochs=60, rate=5e-3, channels=8)
    values = reader_values(folder, settings, "cpu")
    assert tuple(values) == settings.names
    ground = values["material of the background"]
    assert ground.score is not None
    assert ground.interval is not None
    assert ground.details["chance"] == 1 / 8
    assert ground.interval.low > 0.25
    again = reader_values(folder, settings, "cpu")
    assert {name: value.score for name, value in again.items()} == {name: value.score for name, value in values.items()}


@pytest.mark.parametrize(
    ("request_", "read"),
    [
        (Request(size="small"), ["clevrtex"]),
        (Request(size="paper"), ["clevrtex"]),
        (Request(size="tiny"), []),
        (Request(size="small", models=("oracle",)), []),
        (Request(size="small", metrics=("skill",)), []),
        (Request(size="small", worlds=("sprites",)), []),
        (Request(size="tiny", metrics=("shape of object 1",)), ["clevrtex"]),
        (Request(size="tiny", metrics=("shape of object 1",), worlds=("clevr", "sprites")), ["clevr"]),
        (Request(size="small", only_loaded=True), []),
    ],
)
def test_when_scenes_are_read(folder: ResultFolder, request_: Request, read: list[str]) -> None:
    assert [settings.world for settings in scene_readers(request_)] == read
    named = request_.metrics == ("shape of object 1",)
    labels = [job.cell.labels for job in jobs(folder, request_)] if named else []
    assert all("model" not in each and each["reader"] == LABEL for each in labels)


def test_worlds_without_a_camera(folder: ResultFolder) -> None:
    with pytest.raises(InputError, match="camera"):
        jobs(folder, Request(size="tiny", metrics=("shape of object 1",), worlds=("sprites",)))


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="scenes"):
        SceneReaderSettings("clevrtex", 32, scenes=0)
    assert torch.equal(
        scene_factors(worlds.get("clevr").sample(5, seed=1)), scene_factors(worlds.get("clevr").sample(5, seed=1))
    )
