"""A user's own images: folders with masks and attributes, images in memory, and everything that does not fit."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from alebrije import worlds
from alebrije.data.datasets import datasets_for, write_dataset
from alebrije.data.user_arrays import write_user_images
from alebrije.data.user_images import UserImages, user_images
from alebrije.errors import InputError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
MASKS = RNG.integers(0, 3, (6, 8, 8), dtype=np.uint8)
TABLE = "image,colour,age\n" + "".join(f"{n}.png,{'red' if n % 2 else 'blue'},{n // 2}\n" for n in range(6))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six images with masks and attributes."""
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    for number in range(6):
        Image.fromarray(IMAGES[number]).save(tmp_path / f"images/{number}.png")
        Image.fromarray(MASKS[number]).save(tmp_path / f"masks/{number}.png")
    (tmp_path / "attributes.csv").write_text(TABLE)
    return tmp_path


def test_a_folder_has_images_masks_and_attributes(folder: Path) -> None:
    data = UserImages(folder)
    assert len(data) == 6
    assert data.has_masks
    frames = data.read(range(6))
    assert torch.equal(frames.images, torch.from_numpy(IMAGES).permute(0, 3, 1, 2))
    assert frames.masks is not None
    assert torch.equal(frames.masks, torch.from_numpy(MASKS))
    assert data.attributes is not None
    assert data.attributes.names == ("colour", "age")
    assert frames.factors is not None
    assert frames.factors.tolist() == [[n % 2, n // 2] for n in range(6)]


def test_images_may_be_in_the_folder_itself_and_lack_the_rest(tmp_path: Path) -> None:
    Image.fromarray(IMAGES[0]).convert("L").save(tmp_path / "a.jpg")
    data = UserImages(tmp_path)
    assert (len(data), data.has_masks, data.attributes) == (1, False, None)
    assert data.read([0]).images.shape == (1, 3, 8, 8), "grey images have three equal channels"


def test_labels_of_masks_are_numbered_and_the_background_stays(folder: Path) -> None:
    sparse = np.where(MASKS[0] == 0, 0, MASKS[0].astype(np.int32) * 500)
    Image.fromarray(sparse.astype(np.uint16)).save(folder / "masks/0.png")
    masks = UserImages(folder).read([0]).masks
    assert masks is not None
    assert torch.equal(masks[0], torch.from_numpy(MASKS[0]))


def test_rows_are_sampled_with_a_seed_and_have_all_attributes(folder: Path) -> None:
    (folder / "attributes.csv").write_text(TABLE.replace("2.png,blue", "2.png,"))
    data = UserImages(folder)
    assert data.rows(10, 0, with_attributes=True).tolist() == [0, 1, 3, 4, 5]
    some = data.rows(3, 0).tolist()
    assert some == sorted(set(some)) == data.rows(3, 0).tolist()
    assert any(data.rows(3, seed).tolist() != some for seed in range(1, 5))


def test_the_checksum_depends_on_content_alone(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    first = UserImages(folder).checksum(range(6))
    moved = tmp_path_factory.mktemp("b") / "elsewhere"
    folder.rename(moved)
    assert UserImages(moved).checksum(range(6)) == first
    (moved / "attributes.csv").write_text(TABLE.replace("red", "green"))
    assert UserImages(moved).checksum(range(6)) != first
    (moved / "attributes.csv").write_text(TABLE)
    Image.fromarray(MASKS[1]).save(moved / "masks/0.png")
    assert UserImages(moved).checksum(range(6)) != first
    assert UserImages(moved).checksum(range(1, 6)) == UserImages(moved).checksum([1, 2, 3, 4, 5])


@pytest.mark.parametrize("world", ["rooms", "sprites"])
def test_what_make_wrote_is_what_the_world_renders(tmp_path: Path, world: str) -> None:
    (dataset,) = datasets_for(world, size=32, seed=0).values()
    write_dataset(dataset, 9, tmp_path / "made")
    data = UserImages(tmp_path / "made")
    scenes = worlds.get(world).sample(9, seed=0)
    frames = worlds.get(world).render(scenes, 32)
    found = data.read(data.rows(4, seed=3))
    assert torch.equal(found.images, frames.images[:4]), "the first, which are in random order"
    assert found.masks is not None
    assert torch.equal(found.masks, frames.masks[:4])
    if world == "rooms":
        assert data.attributes is not None
        assert data.attributes.names == worlds.get(world).vocabulary.names
        assert np.array_equal(data.attributes.indices, scenes.factors[:, 0].numpy())
    else:
        assert data.attributes is None, "several objects"


def test_images_in_memory_come_back(tmp_path: Path) -> None:
    attributes = {"colour": ["red", "blue", None] * 2, "age": [1, 2, 1, 2, 1, 2]}
    ways = {
        "arrays": (IMAGES, MASKS),
        "tensors": (torch.from_numpy(IMAGES).permute(0, 3, 1, 2), torch.from_numpy(MASKS).long()),
        "floats": (IMAGES / 255, MASKS),
        "pillow": ([Image.fromarray(one) for one in IMAGES], [Image.fromarray(one) for one in MASKS]),
    }
    for name, (images, masks) in ways.items():
        data = write_user_images(tmp_path / name, images, masks, attributes)
        frames = data.read(data.rows(6, 0))
        assert torch.equal(frames.images, torch.from_numpy(IMAGES).permute(0, 3, 1, 2)), name
        assert frames.masks is not None
        assert torch.equal(frames.masks, torch.from_numpy(MASKS)), name
        assert data.attributes is not None
        assert data.attributes.names == ("colour", "age")
        assert data.attributes.complete.tolist() == [0, 1, 3, 4]
    write_user_images(tmp_path / "arrays", IMAGES, MASKS, attributes)  # the same call again
    with pytest.raises(InputError, match="different settings"):
        write_user_images(tmp_path / "arrays", IMAGES[::-1], MASKS, attributes)


def remove(name: str) -> Callable[[Path], object]:
    return lambda folder: os.remove(folder / name)


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def save(name: str, array: np.ndarray, kind: str = "PNG") -> Callable[[Path], object]:
    return lambda folder: Image.fromarray(array).save(folder / name, kind)


def only_masks(folder: Path) -> None:
    for number in range(6):
        os.remove(folder / f"images/{number}.png")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (remove("masks/3.png"), "1 of 6 images have no mask, such as 3.png"),
        (remove("images/3.png"), "1 masks have no image, such as 3.png"),
        (only_masks, "holds no images, only masks"),
        (save("images/2.png", IMAGES[0][:4]), "all images must have one size: 0.png is 8 x 8, and 2.png is 8 x 4"),
        (save("masks/2.png", MASKS[0][:4]), "2.png: is 8 x 4, and its image 2.png is 8 x 8"),
        (save("masks/2.png", IMAGES[0]), "2.png: is an image of colours (RGB); a mask has one label per pixel"),
        (save("images/2.png", IMAGES[0], "EPS"), "2.png: is not an image that can be read"),
        (save("images/2.png", IMAGES[0], "GIF"), "2.png: is not an image that can be read"),
        (write("images/2.png", "text"), "2.png: is not an image that can be read"),
        (write("other.csv", "image,a\n1,2\n"), ""),
        (write("attributes.csv", TABLE.replace("image", "picture")), "has no column 'image' with the names"),
        (
            write("attributes.csv", TABLE.replace("3.png", "9.png")),
            "1 rows name no image of the folder",
        ),
        (write("attributes.csv", TABLE.replace("3.png", "2.png")), "names an image twice, such as '2.png'"),
        (write("attributes.csv", TABLE.replace("red", "blue")), "the attribute 'colour' is blue in every row"),
    ],
)
def test_what_does_not_fit_is_one_sentence(folder: Path, damage: Callable[[Path], object], sentence: str) -> None:
    damage(folder)
    data = UserImages(folder)
    if not sentence:  # `attributes.csv` is the table even if there are others
        assert data.attributes is not None
        return
    with pytest.raises(InputError) as caught:
        data.read(range(len(data)))
    assert sentence in str(caught.value)


def test_folders_without_images_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("text")
    for world, sentence in (
        (f"data:{tmp_path}", "holds no images; an image is a file that ends in .png"),
        (f"data:{tmp_path / 'none'}", "there is no such folder"),
        ("data:", "needs a folder of images"),
    ):
        with pytest.raises(InputError, match=sentence):
            len(user_images(world) or ())
    assert user_images("sprites") is None
    for images, sentence in (
        (IMAGES[..., :2], "images must be"),
        (IMAGES.astype(float), "floats in 0..1"),
        ([IMAGES[0], IMAGES[1][:4]], "of one size"),
    ):
        with pytest.raises(InputError, match=sentence):
            write_user_images(tmp_path / "x", images)
    with pytest.raises(InputError, match="masks must be integers"):
        write_user_images(tmp_path / "x", IMAGES, MASKS[:3])
    with pytest.raises(InputError, match="has 3 values for 6 images"):
        write_user_images(tmp_path / "x", IMAGES, attributes={"a": [1, 2, 3]})


def test_images_that_differ_only_in_their_endings_are_refused(folder: Path) -> None:
    Image.fromarray(IMAGES[0]).save(folder / "images/3.bmp")
    with pytest.raises(InputError, match="two images are called '3', apart from their endings"):
        len(UserImages(folder))
