"""CLEVR (with masks) and Multi-dSprites from files in their exact format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alebrije.data import ObjectImages, read_clevr_with_masks, read_multi_dsprites
from alebrije.errors import InputError
from tests.data.tfrecord_writer import Values, example, field, write_tfrecord

VARIANTS = [("binarized", 4, 1), ("colored_on_grayscale", 6, 3), ("colored_on_colored", 5, 3)]


def rising(entities: int, width: int = 1, scale: float = 0.5) -> list[float]:
    return [scale * value for value in range(entities * width)]


def clevr_scene(seed: int) -> tuple[dict[str, Values], dict[str, Any]]:
    """The features of a record, and the arrays that they tell of."""
    draw = np.random.default_rng(seed)
    image = draw.integers(0, 256, (240, 320, 3), dtype=np.uint8)
    labels = np.repeat(np.repeat(draw.integers(0, 5, (24, 32)), 10, 0), 10, 1)
    mask = (labels == np.arange(11)[:, None, None]).astype(np.uint8)[..., None] * 255
    codes = np.array([0, 1, 2, 3, 1, 0, 0, 0, 0, 0, 0], np.uint8)
    features: dict[str, Values] = {"image": image, "mask": mask, "pixel_coords": rising(11, 3)}
    features |= {name: rising(11) for name in ("x", "y", "z", "rotation")}
    features |= dict.fromkeys(("size", "material", "shape", "color"), codes)
    features["visibility"] = [1.0] * 5 + [0.0] * 6
    return features, {"image": image, "labels": labels, "codes": codes}


def sprites_scene(entities: int, channels: int, seed: int) -> tuple[dict[str, Values], dict[str, Any]]:
    draw = np.random.default_rng(seed)
    image = draw.integers(0, 256, (64, 64, channels), dtype=np.uint8)
    labels = draw.integers(0, entities, (64, 64))
    mask = (labels[..., None] == np.arange(entities)).astype(np.uint8)[..., None] * 255  # [H, W, entities, 1]
    features: dict[str, Values] = {"image": image, "mask": mask, "color": rising(entities, channels)}
    features |= {name: rising(entities) for name in ("x", "y", "shape", "orientation", "scale")}
    features["visibility"] = [1.0] * (entities - 1) + [0.0]
    return features, {"image": image, "labels": labels}


def assert_kinds(scenes: ObjectImages, count: int, entities: int, height: int, width: int) -> None:
    assert len(scenes) == count
    assert (scenes.images.dtype, scenes.images.shape) == (torch.uint8, (count, 3, height, width))
    assert (scenes.masks.dtype, scenes.masks.shape) == (torch.uint8, (count, height, width))
    assert (scenes.visibility.dtype, scenes.visibility.shape) == (torch.bool, (count, entities))
    assert all(values.shape[:2] == (count, entities) for values in scenes.attributes.values())


@pytest.fixture(scope="module")
def clevr_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clevr") / "clevr_with_masks_train.tfrecords"
    write_tfrecord(path, [example(clevr_scene(seed)[0]) for seed in range(3)], "gzip")
    return path


def test_clevr_with_masks(clevr_file: Path) -> None:
    scenes = read_clevr_with_masks(clevr_file)
    assert_kinds(scenes, 3, 11, 240, 320)
    for row in range(3):
        truth = clevr_scene(row)[1]
        np.testing.assert_array_equal(scenes.images[row].permute(1, 2, 0), truth["image"])
        np.testing.assert_array_equal(scenes.masks[row], truth["labels"])
    assert scenes.visibility[0].tolist() == [True] * 5 + [False] * 6
    assert set(scenes.attributes) == {
        *("x", "y", "z", "rotation", "pixel_coords", "size", "material", "shape", "color"),
    }
    for name in ("size", "material", "shape", "color"):
        assert scenes.attributes[name].dtype == torch.uint8
        assert scenes.attributes[name][2].tolist() == [0, 1, 2, 3, 1, 0, 0, 0, 0, 0, 0]
    assert scenes.attributes["pixel_coords"].shape == (3, 11, 3)
    assert scenes.attributes["pixel_coords"][1, 1].tolist() == [1.5, 2.0, 2.5]
    assert scenes.attributes["x"].dtype == torch.float32


def test_a_part_of_clevr(clevr_file: Path) -> None:
    one = read_clevr_with_masks(clevr_file, 1, start=1, check=False)
    np.testing.assert_array_equal(one.images[0].permute(1, 2, 0), clevr_scene(1)[1]["image"])
    assert len(read_clevr_with_masks(clevr_file, 2)) == 2
    with pytest.raises(InputError, match="no record 3"):
        read_clevr_with_masks(clevr_file, start=3)
    for wrong in ({"limit": 0}, {"start": -1}):
        with pytest.raises(InputError, match="at least"):
            read_clevr_with_masks(clevr_file, **wrong)
    for not_whole in ({"limit": 1.0}, {"limit": "1"}, {"limit": True}, {"start": 0.5}, {"start": None}):
        with pytest.raises(InputError, match="must be a whole number"):
            read_clevr_with_masks(clevr_file, **not_whole)
    assert len(read_clevr_with_masks(clevr_file, np.int64(1), start=np.int32(1))) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(("variant", "entities", "channels"), VARIANTS)
def test_multi_dsprites(tmp_path: Path, variant: str, entities: int, channels: int) -> None:
    path = tmp_path / f"multi_dsprites_{variant}.tfrecords"
    write_tfrecord(path, [example(sprites_scene(entities, channels, seed)[0]) for seed in range(3)], "gzip")
    scenes = read_multi_dsprites(path)
    assert_kinds(scenes, 3, entities, 64, 64)
    for row in range(3):
        truth = sprites_scene(entities, channels, row)[1]
        np.testing.assert_array_equal(scenes.images[row].permute(1, 2, 0), np.broadcast_to(truth["image"], (64, 64, 3)))
        np.testing.assert_array_equal(scenes.masks[row], truth["labels"])
    assert set(scenes.attributes) == {"x", "y", "shape", "orientation", "scale", "color"}
    assert scenes.attributes["color"].shape == (3, entities, channels)
    assert scenes.visibility.sum(dim=1).tolist() == [entities - 1] * 3
    assert len(read_multi_dsprites(path, 2, start=2)) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": np.zeros(100, np.uint8)}, "'image' has 100 values, but must have 64 x 64 x any"),
        ({"image": np.zeros((64, 64, 2), np.uint8)}, "2 channels"),
        ({"mask": np.zeros((64, 64, 4), np.uint8)}, "'mask' has 16384 values, but must have 64 x 64 x 5"),
        ({"mask": [1.0]}, "no feature 'mask' of bytes"),
        ({"x": [1, 2, 3, 4, 5]}, "no feature 'x' of floats"),
        ({"x": []}, "no feature 'x' of floats"),
        ({"scale": [1.0, 2.0]}, "'scale' has 2 values, but must have 5"),
        ({"visibility": [1.0] * 4}, "but must have 4"),
    ],
)
def test_an_invalid_record_is_named(tmp_path: Path, change: dict[str, Values], message: str) -> None:
    path = tmp_path / "a.tfrecords"
    scene = sprites_scene(5, 3, 0)[0]
    write_tfrecord(path, [example(scene), example(scene | change)])
    with pytest.raises(InputError, match=f"a.tfrecords: record 1 is invalid: .*{message}"):
        read_multi_dsprites(path)


@pytest.mark.parametrize(("entities", "fits"), [(1, True), (255, True), (256, False), (300, False)])
def test_as_many_entities_as_a_byte_can_hold(tmp_path: Path, entities: int, fits: bool) -> None:
    path = tmp_path / "a.tfrecords"
    features, truth = sprites_scene(entities, 3, 0)
    write_tfrecord(path, [example(features)])
    if fits:
        np.testing.assert_array_equal(read_multi_dsprites(path).masks[0], truth["labels"])
    else:
        with pytest.raises(
            InputError, match=f"record 0 is invalid: .* has {entities} entities, but must have 1 to 255"
        ):
            read_multi_dsprites(path)


def test_a_scene_without_an_entity(tmp_path: Path) -> None:
    """Every list is there and holds nothing."""
    path = tmp_path / "a.tfrecords"
    nothing = {name: field(2, field(1, b"")) for name in ("x", "y", "shape", "orientation", "scale", "color")}
    nothing |= {"visibility": field(2, field(1, b"")), "mask": field(1, b"")}
    entries = [field(1, name.encode()) + field(2, content) for name, content in nothing.items()]
    image = example({"image": np.zeros((64, 64, 3), np.uint8)})
    write_tfrecord(path, [image + field(1, b"".join(field(1, entry) for entry in entries))])
    with pytest.raises(InputError, match=r"record 0 is invalid: .*0 entities"):
        read_multi_dsprites(path)


def test_other_files_are_refused(tmp_path: Path, clevr_file: Path) -> None:
    path = tmp_path / "a.tfrecords"
    for content, message in ((b"", "holds no records"), (b"not a record at all", "not a TFRecord file")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_multi_dsprites(path)
    path.write_bytes(clevr_file.read_bytes()[:-1000])
    assert len(read_clevr_with_masks(path, 2)) == 2
    with pytest.raises(InputError, match="truncated in record 2"):
        read_clevr_with_masks(path)
    with pytest.raises(InputError, match="record 0 is invalid"):
        read_multi_dsprites(clevr_file)
    write_tfrecord(path, [example(sprites_scene(5, 3, 0)[0]), example(sprites_scene(6, 3, 0)[0])])
    with pytest.raises(InputError, match="record 1 is invalid: its shapes differ"):
        read_multi_dsprites(path)
