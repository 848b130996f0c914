"""`alebrije show`: the sheets hold what they should, and what cannot be shown is one sentence."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from alebrije import data, worlds
from alebrije.cli import main
from alebrije.data.datasets import Dataset, write_dataset
from alebrije.sheets.sheet import colored_mask
from tests.sheets.page import Page, parsed


def show(*arguments: Any) -> tuple[int, str, list[str]]:
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(["show", *map(str, arguments)])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return code, out.getvalue(), err.getvalue().splitlines()


def shown(folder: Path, *arguments: Any) -> Page:
    """The page of a sheet that was drawn without complaint; the PNG beside it opens."""
    code, out, complaints = show(*arguments, "--out", folder / "sheet")
    assert (code, complaints) == (0, [])
    assert out == f"written to {folder / 'sheet.png'} and {folder / 'sheet.html'}\n"
    with Image.open(folder / "sheet.png") as picture:
        picture.load()
        assert picture.width >= 800
    return parsed((folder / "sheet.html").read_text(encoding="utf-8"))


def refusal(*arguments: Any) -> str:
    code, out, (sentence,) = show(*arguments)
    assert (code, out) == (2, "")
    assert sentence.startswith("alebrije: ")
    return sentence


class TestWorlds:
    @pytest.mark.parametrize("world", ["rooms", "clevr", "dsprites"])
    def test_images_masks_and_words(self, tmp_path: Path, world: str) -> None:
        page = shown(tmp_path, world, "--n", 2, "--size", 64, "--seed", 5)
        scenes = worlds.get(world).sample(2, seed=5)
        frames = worlds.get(world).render(scenes, size=64)
        assert page.cards == 2
        assert len(page.images) == 4
        for row in range(2):
            np.testing.assert_array_equal(page.pixels(2 * row), frames.images[row].permute(1, 2, 0))
            np.testing.assert_array_equal(page.pixels(2 * row + 1), colored_mask(frames.masks[row]))
        shapes = {worlds.get(world).vocabulary["shape"].values[index] for index in scenes.factor("shape").flatten()}
        assert all(shape in page.words for shape in shapes)
        assert "Seed 5, 64 x 64 pixels" in page.words

    def test_numbers_stand_under_their_names(self, tmp_path: Path) -> None:
        assert re.search(r"floor hue 0\.?\d*, wall hue [\d.]+, object hue", shown(tmp_path, "rooms", "--n", 1).words)

    def test_the_ground_is_named_where_it_varies(self, tmp_path: Path) -> None:
        assert ", on " in shown(tmp_path, "coat", "--n", 1, "--size", 16).words

    def test_sprites_have_the_colours_of_their_words(self, tmp_path: Path) -> None:
        page = shown(tmp_path, "sprites", "--n", 1, "--size", 64)
        scenes = worlds.get("sprites").sample(1)
        true = worlds.get("sprites").render(scenes, size=64, channels="rgb")
        np.testing.assert_array_equal(page.pixels(0), true.images[0].permute(1, 2, 0))
        assert "red and blue are exchanged" in page.words
        assert scenes.describe()[0].split(",")[0] in page.words


class TestTasks:
    def test_source_target_and_what_changes(self, tmp_path: Path) -> None:
        page = shown(tmp_path, "sprites/M-NA", "--n", 3, "--size", 32, "--alpha", 0.2, "--split", "test")
        episodes = worlds.task("sprites", "M-NA", 0.2).test(3)
        assert len(page.images) == 12
        target = worlds.get("sprites").render(episodes.target, size=32, channels="rgb")
        np.testing.assert_array_equal(page.pixels(2), target.images[0].permute(1, 2, 0))
        np.testing.assert_array_equal(page.pixels(3), colored_mask(target.masks[0]))
        changed = (episodes.source.factors != episodes.target.factors).sum()
        assert len(page.marked) == int(changed)
        assert "sprites/M-NA, test" in page.words
        assert "Alpha 0.2: training shows 16 of 64 combinations, the test 12 others." in page.words

    def test_all_splits_under_their_names(self, tmp_path: Path) -> None:
        page = shown(tmp_path, "sprites", "--rule", "CP", "--n", 1, "--size", 16, "--split", "all")
        assert page.cards == 3
        assert page.headings == ["train", "test", "omni"]
        assert page.marked == ["moved"] * 6


def test_analogies_with_their_negatives(tmp_path: Path) -> None:
    page = shown(tmp_path, "analogies", "--n", 1, "--size", 32)
    cases = worlds.analogies("clevr", 1)
    draw = worlds.get("coat").render
    names = ["A", "B", "C", "D", *cases.negatives, "pixel"]
    assert len(page.images) == len(names) == 11
    images = [draw(scenes, size=32).images for scenes in (cases.a, cases.b, cases.c, cases.d)]
    for number, image in enumerate(images):
        np.testing.assert_array_equal(page.pixels(number), image[0].permute(1, 2, 0))
    pixel = cases.pixel_negative(*images[:3])
    np.testing.assert_array_equal(page.pixels(10), pixel[0].permute(1, 2, 0))
    assert [picture["alt"].split(":")[0] for picture in page.images[4:]] == [
        f"hard negative {name}" for name in names[4:]
    ]
    assert "→ gone" in page.words


class TestFolders:
    def test_a_cache_looks_like_its_world(self, tmp_path: Path) -> None:
        write_dataset(Dataset("sprites", size=24, seed=2), 70, tmp_path / "x")
        of_folder = shown(tmp_path, tmp_path / "x", "--n", 3)
        of_world = shown(tmp_path, "sprites", "--n", 3, "--size", 24, "--seed", 2)
        assert [one["src"] for one in of_folder.images] == [one["src"] for one in of_world.images]
        assert "An image cache of 70 rows (world sprites, seed 2), 24 x 24 pixels" in of_folder.words

    @pytest.mark.parametrize("format", ["cache", "svib"])
    def test_episodes(self, tmp_path: Path, format: Any) -> None:
        write_dataset(Dataset("sprites", "S-A", size=24), 3, tmp_path / "x", format=format)
        of_folder = shown(tmp_path, tmp_path / "x", "--n", 2)
        of_task = shown(tmp_path, "sprites/S-A", "--n", 2, "--size", 24)
        assert [one["src"] for one in of_folder.images] == [one["src"] for one in of_task.images]
        assert of_folder.marked == of_task.marked

    def test_sources_alone(self, tmp_path: Path) -> None:
        write_dataset(Dataset("sprites", size=24), 3, tmp_path / "x", format="svib")
        assert len(shown(tmp_path, tmp_path / "x").images) == 6

    @pytest.mark.parametrize("format", ["cache", "svib"])
    def test_several_splits(self, tmp_path: Path, format: Any) -> None:
        for split in ("train", "test"):
            write_dataset(Dataset("sprites", "S-A", split=split, size=16), 2, tmp_path / "x" / split, format=format)
        page = shown(tmp_path, tmp_path / "x", "--n", 1)
        assert page.cards == 2
        assert page.headings == ["train", "test"]

    def test_without_masks(self, tmp_path: Path, svib_samples: Path) -> None:
        released = svib_samples / "dSprites" / "Single_Atomic" / "Test"
        if not released.is_dir():
            pytest.skip(f"there is no {released}")
        assert len(shown(tmp_path, released, "--n", 1).images) == 2

    def test_a_world_comes_before_a_folder_of_its_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        write_dataset(Dataset("sprites", size=16), 1, "rooms")
        assert "floor hue" in shown(tmp_path, "rooms", "--n", 1, "--size", 16).words
        assert "floor hue" not in shown(tmp_path, "./rooms", "--n", 1).words
        assert "floor hue" not in shown(tmp_path, "rooms/", "--n", 1).words

    @pytest.mark.parametrize("format", ["cache", "svib"])
    def test_a_dataset_comes_before_folders_in_it(self, tmp_path: Path, format: Any) -> None:
        write_dataset(Dataset("sprites", "S-A", size=16), 2, tmp_path / "x", format=format)
        (tmp_path / "x" / "test").mkdir()
        page = shown(tmp_path, tmp_path / "x")
        assert (page.headings, page.cards) == ([], 2)


class TestDamage:
    @pytest.fixture
    def episodes(self, tmp_path: Path) -> Path:
        write_dataset(Dataset("sprites", "S-A", size=16), 2, tmp_path / "x", format="svib")
        return tmp_path / "x"

    @pytest.fixture
    def cache(self, tmp_path: Path) -> Path:
        write_dataset(Dataset("sprites", size=16), 2, tmp_path / "x")
        return tmp_path / "x"

    def test_json_that_was_cut_short(self, episodes: Path) -> None:
        path = episodes / "00000001" / "target.json"
        path.write_text(path.read_text()[:-20])
        assert f"{path}: is not JSON" in refusal(episodes)

    def test_a_colour_outside_the_vocabulary(self, episodes: Path) -> None:
        path = episodes / "00000000" / "source.json"
        record = json.loads(path.read_text())
        record["objects"][0]["color"] = [1, 2, 3]
        path.write_text(json.dumps(record))
        sentence = refusal(episodes)
        assert str(path) in sentence
        assert "color" in sentence

    def test_a_picture_that_is_none(self, episodes: Path) -> None:
        (episodes / "00000000" / "source.png").write_bytes(b"not a picture")
        assert "is not a PNG image" in refusal(episodes)

    def test_an_interrupted_cache(self, cache: Path) -> None:
        manifest = json.loads((cache / "manifest.json").read_text())
        (cache / "manifest.json").write_text(json.dumps(manifest | {"arrays": None, "files": None, "checksum": None}))
        assert "shards exist" in refusal(cache)

    def test_a_damaged_manifest(self, cache: Path) -> None:
        (cache / "manifest.json").write_text("{")
        assert "is damaged" in refusal(cache)

    def test_an_array_that_was_cut_short(self, cache: Path) -> None:
        path = cache / "00000" / "images.npy"
        path.write_bytes(path.read_bytes()[:-5])
        assert f"{path}: has" in refusal(cache)

    @pytest.mark.parametrize("settings", [{}, {"world": "atlantis"}, {"world": ["sprites"]}], ids=str)
    def test_a_cache_of_no_world(self, tmp_path: Path, settings: dict[str, Any]) -> None:
        data.write_cache(tmp_path, settings=settings, total=1, make=lambda *_: {"images": np.zeros((1, 3, 8, 8))})
        assert "none of alebrije's worlds" in refusal(tmp_path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"factors": np.full((1, 2, 3), 9)}, "color must lie in 0..3"),
            ({"images": np.zeros((1, 3, 8, 8))}, "images must be a uint8 array with 4 dimensions"),
            ({"images": np.zeros((1, 1, 8, 8), np.uint8)}, "an image must be uint8"),
            ({"masks": np.zeros((1, 8), np.uint8)}, "masks must be a uint8 array with 3 dimensions"),
            ({"masks": None}, "masks must be a uint8 array with 3 dimensions"),
            ({"position": None}, "scenes need the array position"),
        ],
        ids=str,
    )
    def test_a_cache_that_claims_to_be_of_a_world(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        arrays = Dataset("sprites", size=8).arrays(0, 1) | change
        kept = {name: array for name, array in arrays.items() if array is not None}
        data.write_cache(tmp_path, settings={"world": "sprites"}, total=1, make=lambda *_: kept)
        assert message in refusal(tmp_path)


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("atlantis",), "there is no world, task or folder 'atlantis'; worlds are sprites"),
            (("sprites/S-B",), "there is no rule 'S-B'"),
            (("sprites/S-A", "--alpha", "2"), "alpha must be a number from 0 to 1"),
            (("sprites", "--n", "0"), "--n must be at least 1, not 0"),
            (("sprites", "--size", "4"), "size must be 8 to 1024"),
            (("analogies", "--size", "4"), "size must be 8 to 1024"),
            (("sprites", "--seed", "-1"), "seed must be at least 0"),
            (("/dev/null",), "is not a folder"),
            *(
                ((".", f"--{option}", value), f"--{option} {value} is for worlds")
                for option, value in {"rule": "S-A", "split": "all", "alpha": "0.2", "size": "9", "seed": "1"}.items()
            ),
            (("analogies", "--rule", "S-A"), "--rule S-A is for tasks"),
            (("analogies", "--split", "all"), "--split all is for tasks"),
            (("analogies", "--alpha", "0.2"), "--alpha 0.2 is for tasks"),
            (("sprites", "--split", "all"), "--split all needs a task"),
            (("sprites", "--alpha", "0.2"), "--alpha 0.2 needs a task"),
            (("sprites", "--n", "201"), "--n must be at most 200, not 201"),
            (("sprites/",), "there is no folder 'sprites/'"),
        ],
        ids=str,
    )
    def test_one_sentence(self, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
        assert message in refusal(*arguments, "--out", tmp_path / "sheet")
        assert os.listdir(tmp_path) == []

    def test_a_folder_of_nothing(self, tmp_path: Path) -> None:
        assert "has no episodes" in refusal(tmp_path)

    def test_where_it_cannot_be_written(self, tmp_path: Path) -> None:
        assert "does not exist" in refusal("sprites", "--out", tmp_path / "no" / "sheet")
        (tmp_path / "sheet.html").mkdir()
        assert "is a folder" in refusal("sprites", "--out", tmp_path / "sheet")
        assert os.listdir(tmp_path) == ["sheet.html"]

    def test_a_full_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "sheet.png").write_bytes(b"old")

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Image.Image, "save", full)
        assert "the disk is full" in refusal("sprites", "--n", 1, "--size", 8, "--out", tmp_path / "sheet")
        assert os.listdir(tmp_path) == ["sheet.png"]


class TestPages:
    def test_settings_of_a_cache_are_escaped(self, tmp_path: Path) -> None:
        evil = {"world": "sprites", "rule": "<img src=x onerror=alert(1)>"}
        arrays = Dataset("sprites", size=8).arrays(0, 1)
        data.write_cache(tmp_path / "x", settings=evil, total=1, make=lambda *_: arrays)
        page = shown(tmp_path, tmp_path / "x")
        assert len(page.images) == 2
        assert "<img src=x" in page.words

    def test_nothing_is_asked_of_anybody(self, tmp_path: Path) -> None:
        shown(tmp_path, "sprites", "--n", 1, "--size", 16)
        text = (tmp_path / "sheet.html").read_text()
        assert "default-src 'none'" in text
        assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:)""", text)
        assert "url(" not in text
        assert "prefers-color-scheme: dark" in text
        assert 'name="viewport"' in text


def test_the_most_that_is_shown(tmp_path: Path) -> None:
    assert shown(tmp_path, "sprites", "--n", 200, "--size", 8).cards == 200


def test_help_tells_folders_from_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["show", "--help"])
    assert "./name" in capsys.readouterr().out
