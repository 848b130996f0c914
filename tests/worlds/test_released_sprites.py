from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from alebrije.errors import InputError
from alebrije.scenes import scenes_from_json, split
from alebrije.worlds.released_sprites import TEST_SCENES, TRAIN_SCENES, released_sprites
from alebrije.worlds.vocabularies import SPRITES

PARTS: dict[str, float | str] = {
    "Train/alpha-0.0": 0.0,
    "Train/alpha-0.2": 0.2,
    "Train/alpha-0.4": 0.4,
    "Train/alpha-0.6": 0.6,
    "Test": "test",
}


@pytest.mark.parametrize("folder", PARTS)
def test_scenes_equal_the_released_files(svib_samples: Path, folder: str) -> None:
    for task in ("Single_Atomic", "Single_Non-Atomic", "Multiple_Atomic", "Multiple_Non-Atomic"):
        files = sorted((svib_samples / "dSprites" / task / folder).rglob("source.json"))
        genuine = scenes_from_json(SPRITES, [json.loads(file.read_text()) for file in files])
        numbers = [int(name) for name in genuine.names or ()]
        drawn = released_sprites(PARTS[folder], max(numbers) + 1)[numbers]  # type: ignore[arg-type]
        assert drawn.equals(genuine)
        assert drawn.names == genuine.names


@pytest.mark.parametrize("part", PARTS.values())
def test_scenes_use_the_combinations_of_the_released_split(part: float | str) -> None:
    scenes = released_sprites(part, 1000)  # type: ignore[arg-type]
    used = set(map(tuple, scenes.factors.flatten(0, 1).tolist()))
    found = split(SPRITES, 0.0 if isinstance(part, str) else part)
    assert used == set(found.test if part == "test" else found.train)


@pytest.mark.parametrize("part", [0.4, "test"])
def test_a_later_start_gives_the_same_scenes(part: float | str) -> None:
    whole = released_sprites(part, 50)  # type: ignore[arg-type]
    later = released_sprites(part, 20, start=30)  # type: ignore[arg-type]
    assert later.equals(whole[30:])
    assert later.names == (whole.names or ())[30:]
    assert len(released_sprites(part, 0)) == 0  # type: ignore[arg-type]


def test_drawing_disturbs_no_other_stream() -> None:
    state = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]  # noqa: NPY002
    released_sprites(0.2, 10)
    assert np.array_equal(np.random.get_state()[1], state)  # type: ignore[index]  # noqa: NPY002


def test_the_very_last_test_scenes_are_there_and_apart() -> None:
    scenes = released_sprites("test", 500, start=TEST_SCENES - 500)
    distance = (scenes.position[:, 0] - scenes.position[:, 1]).norm(dim=-1)
    assert (distance >= 0.4 * scenes.codes("size").sum(1) - 1e-12).all()
    assert scenes.position.dtype == torch.float64
    assert (scenes.names or ())[-1] == "00007999"


@pytest.mark.parametrize("part", [0.3, -0.2, 1.0, float("nan"), "train", "0.2"])
def test_parts_that_were_not_released_are_refused(part: float | str) -> None:
    with pytest.raises(InputError, match=r"sprites were released for the alphas 0, 0.2, 0.4 and 0.6 and for"):
        released_sprites(part, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "count", "start"), [(0.2, TRAIN_SCENES, 1), ("test", 8001, 0), (0.2, -1, 5), (0, 1, -1)]
)
def test_scenes_that_were_not_released_are_refused(part: float | str, count: int, start: int) -> None:
    with pytest.raises(InputError, match=r"the released sprites of .* are 0 to"):
        released_sprites(part, count, start)  # type: ignore[arg-type]
