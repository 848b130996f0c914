"""Worlds that a user has written: what is found in one is not taken for what another version of it gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from alebrije.errors import InputError
from alebrije.instruments import get
from alebrije.instruments.grouping.images import Corpus as GroupingCorpus
from alebrije.instruments.imagination.images import Corpus as EpisodeCorpus
from alebrije.results import Value
from alebrije.studies.folder import ResultFolder
from alebrije.studies.request import Request
from alebrije.worlds.user_worlds import user_world_inputs
from tests.programs import Program, Programs

WORLD = """
from dataclasses import replace

from alebrije import worlds
from alebrije.render.sprites import render_sprites


def dimmed(images):
    return images // {level}


def paint(scenes, **look):
    frames = render_sprites(scenes, **look)
    drawn.append(len(scenes))
    return replace(frames, images=dimmed(frames.images))


drawn = []
WORLD = replace(worlds.get("sprites"), painter=paint)
"""

KEYS = """
import json, sys
from alebrije import worlds
from alebrije.errors import InputError
from alebrije.results import Value
from alebrije.instruments import get
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import TrainedModel
from alebrije.studies.request import Request
from alebrije.train.plan import plan

name, folder = "my_own_world:WORLD", ResultFolder(sys.argv[1])
found = {}
for study in ("grouping", "imagination"):
    request = Request(size="tiny", models=("noise",), worlds=(name,))
    found[study] = [job.cell.key for job in get(study).jobs(folder, request)]
world = worlds.get(name)
world.render(world.sample(1), 8)
found["trained"] = str(TrainedModel(plan("ae", preset_name="tiny", world=name), folder).path)
found["again"] = [job.cell.key for job in get("grouping").jobs(folder, request)]
print(json.dumps(found))
"""


def keys(folder: Path, level: int, seed: str) -> dict[str, object]:
    """The keys of cells and the place of a run in a world of one's own, found by a fresh process."""
    (folder / "my_own_world.py").write_text(WORLD.format(level=level))
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    around = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", KEYS, str(folder / "results")]
    done = subprocess.run(command, capture_output=True, text=True, env=around, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_an_edited_world_has_keys_of_its_own(tmp_path: Path) -> None:
    first, same, other = (keys(tmp_path, *each) for each in ((2, "1"), (2, "2"), (3, "1")))
    assert first == same
    assert first["again"] == first["grouping"]  # to draw does not make another world of it
    for name in ("grouping", "imagination", "trained"):
        assert first[name]
        assert first[name] != other[name]


def test_what_an_edited_world_shows_is_not_mixed_with_what_it_was(tmp_path: Path, programs: Programs) -> None:
    """Neither in a folder of images nor in a run, be it finished or not."""
    make = ["make", "my_own_world:WORLD", "--n", "4", "--size", "16", "--out", "images"]
    train = ["train", "ae", "--world", "my_own_world:WORLD", "--preset", "tiny", "--set", "steps=2", "--out", "run"]
    said = tmp_path / "said"
    for level, expected in ((2, (0, 0)), (2, (0, 0)), (3, (2, 2))):
        (tmp_path / "my_own_world.py").write_text(WORLD.format(level=level))
        around = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        for command, code, words in zip((make, train), expected, ("world contents", "edited since"), strict=True):
            found = programs.run(Program(["alebrije", *command], tmp_path, around, said))
            assert found == [code], said.read_text()
            assert (words in said.read_text()) == (code == 2)


@pytest.mark.parametrize("name", ["sprites", "clevr6"])
def test_the_names_of_our_worlds_are_enough(name: str) -> None:
    assert user_world_inputs(name) == {}
    about = {"world": name, "images": 4, "pixels": 32, "seed": 0, "version": 1}
    assert GroupingCorpus(name, 4, 32).settings == {"name": f"grouping-{name}", **about}


def test_episodes_of_our_worlds_are_told_as_before(tmp_path: Path) -> None:
    told = {"world": "sprites", "rule": "S-A", "pixels": 32, "lot": "known", "count": 4}
    settings = {"name": "episodes-sprites-S-A", **told, "alpha": 0.6, "seed": 2, "version": 1}
    assert EpisodeCorpus("sprites", "S-A", 0.6, 32).settings("known", 4) == settings
    for study in ("grouping", "imagination"):
        for job in get(study).jobs(ResultFolder(tmp_path), Request(size="tiny")):
            assert "world contents" not in json.dumps(job.cell.inputs)


@pytest.mark.parametrize(("code", "cells"), [("replace(worlds.get('rooms'), size=32)", 14), ("DOTS", 3)])
def test_neurons_in_a_grid_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, cells: int) -> None:
    """Pairs of shape and size are held out where there are such."""
    page = (Path(__file__).parents[2] / "docs" / "add-a-world.md").read_text()
    dots = page.partition('title="my_worlds.py"\n')[2].partition("```")[0]
    name = f"grid_{tmp_path.name}"
    given = f"{dots}\nfrom dataclasses import replace\nfrom alebrije import worlds\nDOTS = dots\nWORLD = {code}\n"
    (tmp_path / f"{name}.py").write_text(given)
    monkeypatch.syspath_prepend(str(tmp_path))
    request = Request(size="tiny", models=("oracle",), worlds=(f"{name}:WORLD",))
    jobs = get("neurons").jobs(ResultFolder(tmp_path), request)
    assert len(jobs) == cells
    assert all("world contents" in json.dumps(job.cell.inputs) for job in jobs)
    found = jobs[0].work()["SNC"]
    assert isinstance(found, Value)
    assert found.score == 1


def test_neurons_are_not_studied_where_a_combination_has_many_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"many_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(WORLD.format(level=2))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="or a world of your own with the sampler Grid"):
        get("neurons").jobs(ResultFolder(tmp_path), Request(size="tiny", models=("oracle",), worlds=(f"{name}:WORLD",)))
