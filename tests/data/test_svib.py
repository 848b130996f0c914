"""SVIB on disk: genuine episodes are read as they are, ours come back as they went, and damage is named."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from alebrije.data import read_svib, write_svib
from alebrije.data.mask_colors import color_mask, mask_labels, mask_palette
from alebrije.errors import InputError
from alebrije.scenes import Episodes, Factor, Scenes, Vocabulary
from alebrije.worlds.vocabularies import CLEVR, CLEVR_MANY, CLEVRTEX, COAT, SPRITES

SOLID = [CLEVR, CLEVRTEX, CLEVR_MANY, COAT]
WORLDS = [SPRITES, *SOLID]
TASKS = ("Single_Atomic", "Single_Non-Atomic", "Multiple_Atomic", "Multiple_Non-Atomic")
LAST_IS_WRONG = torch.tensor([0, 2, 9], dtype=torch.uint8)[:, None, None].expand(3, 8, 12)
SPLITS = ("Test", *(f"Train/alpha-0.{alpha}" for alpha in (0, 2, 4, 6)))


def drawn_scenes(world: Vocabulary, count: int, objects: int, seed: int) -> Scenes:
    draw = np.random.default_rng(seed)
    factors = np.stack([draw.integers(0, len(factor), (count, objects)) for factor in world], axis=-1)
    solid = "material" in world
    return Scenes.of(
        world,
        factors,
        draw.uniform(-3, 3, (count, objects, 3)) if solid else draw.uniform(0, 1, (count, objects, 2)),
        background=draw.integers(0, len(world.background), count),
        camera=draw.uniform(5, 8, (count, 3)) if solid else None,
        lamps=draw.uniform(-6, 6, (count, 3, 3)) if solid else None,
    )


def drawn_episodes(world: Vocabulary, count: int = 3, objects: int = 2, size: tuple[int, int] = (8, 12)) -> Episodes:
    """Episodes with noise for images: what is tested here does not look at them."""
    draw = torch.Generator().manual_seed(0)
    images = [torch.randint(0, 256, (count, 3, *size), dtype=torch.uint8, generator=draw) for _ in range(2)]
    masks = [torch.randint(0, objects + 1, (count, *size), dtype=torch.uint8, generator=draw) for _ in range(2)]
    scenes = [drawn_scenes(world, count, objects, seed) for seed in (1, 2)]
    return Episodes(*scenes, *images, *masks)


def assert_same(got: Episodes, wanted: Episodes) -> None:
    assert got.source.equals(wanted.source)
    assert got.target.equals(wanted.target)
    for name in ("source_images", "target_images", "source_masks", "target_masks"):
        one, other = getattr(got, name), getattr(wanted, name)
        assert (one is None) == (other is None), name
        assert one is None or torch.equal(one, other), name


def refusal(*args: Any, **settings: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_svib(*args, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestGenuineEpisodes:
    @pytest.mark.parametrize("task", TASKS)
    @pytest.mark.parametrize(("name", "world"), [("dSprites", SPRITES), ("CLEVR", CLEVR), ("CLEVRTex", CLEVRTEX)])
    def test_are_read_and_written_without_loss(
        self, svib_samples: Path, tmp_path: Path, name: str, world: Vocabulary, task: str
    ) -> None:
        for split in SPLITS:
            folder = svib_samples / name / task / split
            episodes = read_svib(folder)
            assert episodes.source.vocabulary == episodes.target.vocabulary == world
            assert len(episodes) == len(list(folder.iterdir()))
            assert (episodes.source_masks is None) == (world is SPRITES)
            written = tmp_path / split
            write_svib(episodes, written)
            assert_same(read_svib(written), episodes)
            for path in sorted(folder.rglob("*.json"))[:4]:
                assert json.loads((written / path.relative_to(folder)).read_text()) == json.loads(path.read_text())
            for path in sorted(folder.rglob("*.png"))[:8]:
                with Image.open(path) as genuine, Image.open(written / path.relative_to(folder)) as ours:
                    assert ours.mode == genuine.mode
                    if world is not CLEVRTEX or "mask" not in path.name:  # their masks are anti-aliased
                        assert np.array_equal(ours, genuine)

    @pytest.mark.parametrize("name", ["CLEVR", "CLEVRTex"])
    def test_masks_show_each_object_where_it_stands(self, svib_samples: Path, name: str) -> None:
        episodes = read_svib(svib_samples / name / "Multiple_Atomic" / "Test")
        for scenes, masks in ((episodes.source, episodes.source_masks), (episodes.target, episodes.target_masks)):
            assert masks is not None
            assert scenes.pixels is not None
            assert masks.unique().tolist() == [0, 1, 2]
            assert min(int((masks[row] == k).sum()) for row in range(len(masks)) for k in (1, 2)) >= 100
            column, row = scenes.pixels[..., 0].long().clamp(0, 127), scenes.pixels[..., 1].long().clamp(0, 127)
            batch = torch.arange(len(masks))[:, None]
            found = masks[batch, row, column].long()  # label seen at each object's centre
            own = torch.tensor([1, 2])
            other = 3 - own
            # a nearer object may stand before a centre, and a torus has none; a swap of labels would turn this around
            assert int((found == own).sum()) > 4 * int((found == other).sum())

    def test_colours_of_sprites(self, svib_samples: Path) -> None:
        folder = svib_samples / "dSprites" / "Single_Atomic" / "Test"
        stored, fixed = read_svib(folder), read_svib(folder, channels="rgb")
        assert stored.source_images is not None
        assert fixed.source_images is not None
        assert torch.equal(stored.source_images.flip(1), fixed.source_images)
        seen = {tuple(color) for color in fixed.source_images.permute(0, 2, 3, 1).reshape(-1, 3).tolist()}
        used = set(fixed.source.factor("color").flatten().tolist())
        assert {SPRITES["color"].codes[index] for index in used} <= seen
        assert (0, 127, 255) not in {
            tuple(color) for color in stored.source_images.permute(0, 2, 3, 1).reshape(-1, 3).tolist()
        } or 3 in used

    def test_limit(self, svib_samples: Path) -> None:
        folder = svib_samples / "CLEVR" / "Single_Atomic" / "Test"
        few, all_of_them = read_svib(folder, limit=2), read_svib(folder)
        assert_same(few, all_of_them[:2])
        for wrong in (0, 1.5, "2", True):
            assert "limit must be" in refusal(folder, limit=wrong)
        assert len(read_svib(folder, limit=np.int64(2))) == 2  # type: ignore[arg-type]

    def test_a_folder_too_high_names_those_below(self, svib_samples: Path) -> None:
        message = refusal(svib_samples / "CLEVR" / "Single_Atomic")
        assert message.endswith("Test, Train/alpha-0.0, Train/alpha-0.2, Train/alpha-0.4, Train/alpha-0.6")
        assert "CLEVR/Single_Atomic/Test" in refusal(svib_samples)


class TestRoundTrip:
    @pytest.mark.parametrize("objects", [1, 2, 10])
    @pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
    def test_scenes_images_and_masks(self, tmp_path: Path, world: Vocabulary, objects: int) -> None:
        episodes = drawn_episodes(world, objects=objects)
        write_svib(episodes, tmp_path)
        assert_same(read_svib(tmp_path), episodes)
        assert sorted(os.listdir(tmp_path)) == ["00000000", "00000001", "00000002"]
        with Image.open(tmp_path / "00000000" / "source.png") as image:
            assert (image.mode, image.size) == ("RGB" if world is SPRITES else "RGBA", (12, 8))

    def test_colours_of_the_scene_are_stored_swapped(self, tmp_path: Path) -> None:
        episodes = drawn_episodes(SPRITES)
        write_svib(episodes, tmp_path, channels="rgb")
        assert_same(read_svib(tmp_path, channels="rgb"), episodes)
        assert episodes.source_images is not None
        stored = read_svib(tmp_path).source_images
        assert stored is not None
        assert torch.equal(stored, episodes.source_images.flip(1))
        with pytest.raises(InputError, match="'stored' or 'rgb'"):
            read_svib(tmp_path, channels="bgr")  # type: ignore[arg-type]

    def test_channels_do_not_touch_solid_worlds(self, tmp_path: Path) -> None:
        episodes = drawn_episodes(CLEVR)
        write_svib(episodes, tmp_path, channels="rgb")
        assert_same(read_svib(tmp_path), episodes)

    def test_without_masks(self, tmp_path: Path) -> None:
        episodes = replace(drawn_episodes(CLEVRTEX), source_masks=None, target_masks=None)
        write_svib(episodes, tmp_path)
        assert_same(read_svib(tmp_path), episodes)

    def test_without_targets(self, tmp_path: Path) -> None:
        whole = drawn_episodes(CLEVR)
        write_svib(replace(whole, target_images=None, target_masks=None), tmp_path)
        assert "targets=False" in refusal(tmp_path)
        got = read_svib(tmp_path, targets=False)
        assert got.source.equals(whole.source)
        assert got.target is got.source
        assert got.target_images is None
        assert got.target_masks is None

    def test_scenes_of_unequal_numbers_of_objects(self, tmp_path: Path) -> None:
        parts = [drawn_episodes(CLEVR, objects=objects) for objects in (1, 4)]
        joined = Episodes(
            *(Scenes.concatenate([getattr(part, side) for part in parts]) for side in ("source", "target")),
            *(
                torch.cat([getattr(part, f"{side}_{kind}") for part in parts])
                for kind in ("images", "masks")
                for side in ("source", "target")
            ),
        )
        write_svib(joined, tmp_path)
        assert_same(read_svib(tmp_path), joined)

    def test_a_world_of_ones_own(self, tmp_path: Path) -> None:
        world = Vocabulary("own", (Factor("shape", ("blob", "ring")), Factor("size", (1.0, 3.0))))
        write_svib(drawn_episodes(world), tmp_path)
        assert "unknown" in refusal(tmp_path) or "no 'color'" in refusal(tmp_path)
        assert_same(read_svib(tmp_path, vocabulary=world), drawn_episodes(world))


class TestMaskColours:
    def test_of_the_released_code_for_sprites(self, tmp_path: Path) -> None:
        """Red and blue, with the mixed colours of an anti-aliased edge."""
        episodes = replace(drawn_episodes(SPRITES, count=1), source_masks=None, target_masks=None)
        write_svib(episodes, tmp_path)
        row = np.array([[[255, 0, 0], [140, 0, 0], [100, 0, 0], [0, 0, 0], [3, 0, 200], [90, 0, 160], [0, 0, 60]]])
        picture = np.zeros((8, 12, 3), np.uint8)
        picture[:1, :7] = row
        for side in ("source", "target"):
            Image.fromarray(picture).save(tmp_path / "00000000" / f"{side}_mask.png")
        masks = read_svib(tmp_path).source_masks
        assert masks is not None
        assert masks[0, 0, :7].tolist() == [1, 1, 0, 0, 2, 2, 0]

    @pytest.mark.parametrize("value", [113, 114])
    def test_the_threshold_of_clevrtex(self, value: int) -> None:
        picture = np.zeros((1, 2, 3), np.uint8)
        picture[0, 0, 0] = picture[0, 1, 1] = value
        labels = mask_labels(picture, mask_palette(CLEVRTEX, 2), exact=False)
        assert labels.tolist() == ([[0, 0]] if value == 113 else [[1, 2]])

    @pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
    def test_every_object_has_its_own(self, world: Vocabulary) -> None:
        palette = mask_palette(world, 22)
        assert len({tuple(color) for color in palette.tolist()}) == 23
        assert np.array_equal(palette[:3], mask_palette(world, 2))
        labels = np.arange(23, dtype=np.uint8).reshape(1, 23)
        assert np.array_equal(mask_labels(color_mask(labels, palette), palette, exact=True), labels)
        with pytest.raises(InputError, match="colours for"):
            mask_palette(world, 100)

    def test_another_colour_in_clevr_is_refused(self, tmp_path: Path) -> None:
        write_svib(drawn_episodes(CLEVR), tmp_path)
        path = tmp_path / "00000001" / "target_mask.png"
        Image.new("RGBA", (12, 8), (1, 2, 3, 255)).save(path)
        assert f"{path}: the mask has the colour (1, 2, 3)" in refusal(tmp_path)


class TestDamage:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        write_svib(drawn_episodes(CLEVR), tmp_path / "set")
        return tmp_path / "set"

    @pytest.mark.parametrize("name", ["source.png", "target.png", "source_mask.png", "target.json", "source.json"])
    def test_a_file_that_is_missing_or_cut_short_is_named(self, folder: Path, name: str) -> None:
        path = folder / "00000002" / name
        content = path.read_bytes()
        for keep in (0, 1, len(content) // 2, len(content) - 5):
            path.write_bytes(content[:keep])
            assert str(path) in refusal(folder)
        path.unlink()
        assert str(path) in refusal(folder)

    @pytest.mark.parametrize("name", ["source.png", "target_mask.png"])
    def test_every_changed_byte_of_a_png_is_noticed(self, folder: Path, name: str) -> None:
        path = folder / "00000001" / name
        content = path.read_bytes()
        for offset in range(0, len(content), 7):
            path.write_bytes(content[:offset] + bytes([content[offset] ^ 0x55]) + content[offset + 1 :])
            assert str(path) in refusal(folder)

    @pytest.mark.parametrize(
        "change",
        [
            {"objects": 3},
            {"objects": [{"shape": "Sphere"}]},
            {"objects": ["Sphere"]},
            {"Camera": [1, 2]},
            {"Camera": None},
        ],
    )
    def test_a_scene_that_does_not_fit_is_named(self, folder: Path, change: dict[str, Any]) -> None:
        path = folder / "00000001" / "source.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        assert str(path) in refusal(folder)

    @pytest.mark.parametrize("name", ["source_mask.png", "target_mask.png", "target.json"])
    def test_what_only_some_episodes_have(self, folder: Path, name: str) -> None:
        for row in (0, 1):
            (folder / f"0000000{row}" / name).unlink()
            assert f"{folder / '00000000' / name}: is missing, but {folder}/0000000" in refusal(folder)
        (folder / "00000002" / name).unlink()
        if name.endswith(".json"):
            assert refusal(folder).startswith(f"{folder}: has no target.json; use targets=False")
        else:
            assert getattr(read_svib(folder), name.replace(".png", "s")) is None

    def test_a_scene_is_not_called_by_a_number_that_is_not_its_own(self, folder: Path) -> None:
        path = folder / "00000002" / "source.json"
        for change in ({"objects": [{"shape": "Sphere"}]}, {"Camera": None}):
            path.write_text(json.dumps(json.loads(path.read_text()) | change))
            assert "scene 0" not in refusal(folder)

    @pytest.mark.parametrize("name", ["source.png", "target_mask.png"])
    def test_a_transparent_pixel_is_refused(self, folder: Path, name: str) -> None:
        path = folder / "00000001" / name
        with Image.open(path) as image:
            image.putpixel((3, 2), (64, 64, 64, 254))
            image.save(path)
        assert f"{path}: is partly transparent" in refusal(folder)

    @pytest.mark.parametrize("call", ["stat", "listdir"])
    def test_a_folder_that_may_not_be_read(self, folder: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
        genuine = getattr(os, call)

        def locked(path: Any, *args: Any, **more: Any) -> Any:
            if str(path) == str(folder):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return genuine(path, *args, **more)

        monkeypatch.setattr(os, call, locked)
        assert refusal(folder) == f"{folder}: cannot be read: Permission denied"

    def test_a_value_outside_the_vocabulary_is_named(self, folder: Path) -> None:
        path = folder / "00000000" / "target.json"
        path.write_text(path.read_text().replace('"rotation"', '"turned"', 1))
        assert str(path) in refusal(folder)

    @pytest.mark.parametrize("name", ["source.png", "target_mask.png"])
    def test_another_size_or_mode_is_named(self, folder: Path, name: str) -> None:
        path = folder / "00000001" / name
        Image.new("RGBA", (8, 8), (0, 0, 0, 255)).save(path)
        assert "is 8 x 8, but the first is 12 x 8" in refusal(folder)
        Image.new("L", (12, 8)).save(path)
        assert "not L" in refusal(folder)

    def test_a_jpeg_under_another_name_is_refused(self, folder: Path) -> None:
        path = folder / "00000000" / "source.png"
        Image.new("RGB", (12, 8)).save(path, "JPEG")
        assert str(path) in refusal(folder)

    def test_an_unknown_world_and_empty_or_missing_folders(self, folder: Path, tmp_path: Path) -> None:
        for path in folder.rglob("*.json"):
            path.write_text('{"image_filename": "x", "objects": [{"taste": "sweet"}]}')
        assert "no known world" in refusal(folder)
        for path in folder.rglob("*.json"):
            path.write_text('{"image_filename": "x", "objects": []}')
        assert "no scene has an object" in refusal(folder)
        (tmp_path / "empty").mkdir()
        assert "has no episodes" in refusal(tmp_path / "empty")
        assert "no such folder" in refusal(tmp_path / "missing")


class TestWriting:
    def test_what_is_there_is_left_alone_and_the_rest_is_made(self, tmp_path: Path) -> None:
        episodes = drawn_episodes(CLEVR, count=6)
        write_svib(episodes, tmp_path)
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.png")}
        shutil.rmtree(tmp_path / "00000003")
        (tmp_path / "00000001" / "target.png").write_bytes(b"")  # as a power cut may leave it
        (tmp_path / ".00000003.abc.part").mkdir()
        write_svib(episodes, tmp_path)
        assert_same(read_svib(tmp_path), episodes)
        assert len(os.listdir(tmp_path)) == 6
        for path, written in before.items():
            if path.parent.name not in ("00000001", "00000003"):
                assert path.stat().st_mtime_ns == written

    def test_other_things_are_refused_and_left_alone(self, tmp_path: Path) -> None:
        episodes = drawn_episodes(CLEVR)
        for name in ("notes.txt", "00000003", "0000"):
            folder = tmp_path / name
            folder.mkdir()
            (folder / name).mkdir()
            with pytest.raises(InputError, match=f"other files, such as {name}"):
                write_svib(episodes, folder)
            assert os.listdir(folder) == [name]
        write_svib(episodes, tmp_path / "a")
        with pytest.raises(InputError, match="a different episode"):
            write_svib(replace(episodes, source=episodes.target), tmp_path / "a")
        with pytest.raises(InputError, match="files that do not belong"):
            write_svib(replace(episodes, source_masks=None), tmp_path / "a")
        assert_same(read_svib(tmp_path / "a"), episodes)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"source_images": None}, "render them first"),
            ({"source_images": torch.zeros(3, 8, 12, 3, dtype=torch.uint8)}, r"\[3, 3, height, width\]"),
            ({"source_images": torch.zeros(3, 3, 8, 12)}, "uint8"),
            ({"target_images": torch.zeros(3, 3, 9, 9, dtype=torch.uint8), "target_masks": None}, "the same size"),
            ({"target_masks": torch.zeros(3, 8, 8, dtype=torch.uint8)}, r"\[3, 8, 12\]"),
            ({"target_masks": torch.full((3, 8, 12), 3, dtype=torch.uint8)}, r"target_masks\[0\] has the label 3 in a"),
            ({"source_masks": LAST_IS_WRONG}, r"source_masks\[2\] has the label 9 in a scene of 2 objects"),
            ({"source_images": np.zeros((3, 3, 8, 12))}, "source_images must be .* array of uint8, not an array of fl"),
            ({"source_images": [[0]]}, "source_images must be a tensor or a numpy array of uint8, not a list"),
            ({"source_images": torch.zeros(3, 3, 0, 12, dtype=torch.uint8)}, r"\[3, 3, height, width\]"),
        ],
    )
    def test_what_cannot_be_written(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            write_svib(replace(drawn_episodes(CLEVR), **change), tmp_path / "set")
        assert os.listdir(tmp_path) == []

    def test_more_objects_than_mask_colours(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="colours for"):
            write_svib(drawn_episodes(CLEVR, objects=40), tmp_path / "set")
        assert os.listdir(tmp_path) == []

    def test_numpy_arrays(self, tmp_path: Path) -> None:
        episodes = drawn_episodes(CLEVR)
        names = ("source_images", "target_images", "source_masks", "target_masks")
        arrays = {name: getattr(episodes, name).numpy().copy() for name in names}
        arrays["source_images"].flags.writeable = False
        arrays["target_masks"] = arrays["target_masks"][:, ::-1].copy()[:, ::-1]
        write_svib(replace(episodes, **arrays), tmp_path)
        assert_same(read_svib(tmp_path), episodes)

    @pytest.mark.parametrize("world", [SPRITES, CLEVR], ids=lambda world: world.name)
    @pytest.mark.parametrize("name", ["source_images", "target_images", "source_masks", "target_masks"])
    def test_other_pictures_of_the_same_scenes_are_refused(self, tmp_path: Path, world: Vocabulary, name: str) -> None:
        episodes = drawn_episodes(world)
        write_svib(episodes, tmp_path)
        file = name.replace("_images", "").replace("_masks", "_mask") + ".png"
        with pytest.raises(InputError, match=rf"a different episode \({file} differs"):
            write_svib(replace(episodes, **{name: getattr(episodes, name).flip(-1)}), tmp_path)
        assert_same(read_svib(tmp_path), episodes)

    def test_another_size_or_order_of_channels_is_refused(self, tmp_path: Path) -> None:
        episodes = replace(drawn_episodes(SPRITES), source_masks=None, target_masks=None)
        write_svib(episodes, tmp_path)
        for other, channels in ((episodes, "rgb"), (drawn_episodes(SPRITES, size=(12, 8)), "stored")):
            with pytest.raises(InputError, match="differs"):
                write_svib(replace(other, source_masks=None, target_masks=None), tmp_path, channels=channels)  # type: ignore[arg-type]
        assert_same(read_svib(tmp_path), episodes)

    @pytest.mark.parametrize("name", ["source.png", "target_mask.png", "source.json"])
    def test_what_is_damaged_is_made_again(self, tmp_path: Path, name: str) -> None:
        episodes = drawn_episodes(CLEVR)
        write_svib(episodes, tmp_path)
        path = tmp_path / "00000001" / name
        content = path.read_bytes()
        for damaged in (content[: len(content) // 2], content[:-5], b"rubbish"):
            path.write_bytes(damaged)
            write_svib(episodes, tmp_path)
            assert path.read_bytes() == content
        path.write_bytes(content[:-5])
        (path.parent / "target.json").write_text('{"objects": []}')
        with pytest.raises(InputError, match=r"a different episode \(target\.json differs"):
            write_svib(episodes, tmp_path)
        assert path.read_bytes() == content[:-5]

    def test_another_encoder_of_the_same_pixels_is_left_alone(self, tmp_path: Path) -> None:
        episodes = drawn_episodes(CLEVR)
        write_svib(episodes, tmp_path)
        path = tmp_path / "00000001" / "source.png"
        with Image.open(path) as image:
            image.save(path, compress_level=0)
        stored = path.read_bytes()
        write_svib(episodes, tmp_path)
        assert path.read_bytes() == stored

    def test_absent_objects_must_come_last(self, tmp_path: Path) -> None:
        episodes = drawn_episodes(CLEVR)
        present = torch.tensor([[False, True]] * 3)
        with pytest.raises(InputError, match="absent objects"):
            write_svib(replace(episodes, source=replace(episodes.source, present=present)), tmp_path)

    def test_killed_at_any_moment_and_continued(self, tmp_path: Path) -> None:
        code = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from test_svib import CLEVR, drawn_episodes, write_svib\n"
            "episodes = drawn_episodes(CLEVR, count=600)\n"
            "print('started', flush=True)\n"
            "write_svib(episodes, sys.argv[2])\n"
        )
        command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "started\n"
            while len(os.listdir(tmp_path)) < 20:
                assert child.poll() is None
            child.send_signal(signal.SIGKILL)
        whole = [name for name in os.listdir(tmp_path) if not name.startswith(".")]
        assert 0 < len(whole) < 600
        assert all(len(os.listdir(tmp_path / name)) == 6 for name in whole)
        episodes = drawn_episodes(CLEVR, count=600)
        write_svib(episodes, tmp_path)
        assert len(os.listdir(tmp_path)) == 600
        assert_same(read_svib(tmp_path), episodes)

    def test_a_full_disk_is_one_sentence(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        episodes = drawn_episodes(CLEVR)
        written: list[Path] = []
        genuine = Path.write_bytes

        def fills_up(path: Path, data: bytes) -> int:
            written.append(path)
            if len(written) > 9:
                raise OSError(errno.ENOSPC, "No space left on device")
            return genuine(path, data)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", fills_up)
            with pytest.raises(InputError, match="the disk is full"):
                write_svib(episodes, tmp_path)
        assert all(not name.startswith(".") for name in os.listdir(tmp_path))
        write_svib(episodes, tmp_path)
        assert_same(read_svib(tmp_path), episodes)
