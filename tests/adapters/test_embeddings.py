"""Files of codes: which images they belong to, and files that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import Tensor

from alebrije.adapters import load
from alebrije.data.datasets import Dataset, write_dataset
from alebrije.errors import InputError


def write(path: Path, **arrays: Any) -> str:
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        save_file(arrays, path)
    return f"embeddings:{path}"


CODES = np.random.default_rng(0).normal(size=(7, 5)).astype("f4")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_images_in_the_file(suffix: str, tmp_path: Path, images: Tensor) -> None:
    encoder = load(write(tmp_path / f"codes{suffix}", codes=CODES, images=images.numpy()), batch=3)
    order = [6, 0, 0, 3]
    assert encoder(images[order]).codes.numpy() == pytest.approx(CODES[order])
    assert encoder(images[order] / 255).codes.numpy() == pytest.approx(CODES[order])
    words = "codes of 7 different images, and the requested image is not one of them; embeddings cannot encode"
    with pytest.raises(InputError, match=words):
        encoder(images.flip(3))


def test_images_of_a_folder(tmp_path: Path) -> None:
    """The workflow of a user: make images, encode them elsewhere, and look up the codes of newly rendered images."""
    folder, dataset = tmp_path / "images", Dataset("sprites", size=16)
    write_dataset(dataset, 7, folder)
    spec = write(tmp_path / "codes.npz", codes=CODES)
    encoder = load(f"{spec}?images={folder}")
    rendered = torch.from_numpy(dataset.arrays(0, 7)["images"])
    assert encoder(rendered).codes.numpy() == pytest.approx(CODES)
    with pytest.raises(InputError, match="does not say which images its codes belong to"):
        load(spec)(rendered)


def test_episodes(tmp_path: Path) -> None:
    folder, dataset = tmp_path / "images", Dataset("sprites", "S-A", size=16)
    write_dataset(dataset, 7, folder)
    spec = write(tmp_path / "codes.npz", source_codes=CODES, target_codes=-CODES)
    rendered = dataset.arrays(0, 7)
    both = torch.from_numpy(np.concatenate((rendered["target_images"][:3], rendered["source_images"])))
    assert load(f"{spec}?images={folder}")(both).codes.numpy() == pytest.approx(np.concatenate((-CODES[:3], CODES)))


def test_slots_with_masks(tmp_path: Path, images: Tensor) -> None:
    masks = np.random.default_rng(0).random((7, 2, 4, 4))
    arrays = {"codes": np.ones((7, 2, 3)), "masks": masks, "images": images.numpy()}
    encoder = load(write(tmp_path / "codes.npz", **arrays))
    assert (encoder.kind, encoder.parameters) == ("slots", 0)
    encoding = encoder(images[2:4])
    assert encoding.slots is not None
    assert encoding.masks is not None
    assert encoding.masks.numpy() == pytest.approx(masks[2:4])


def test_the_fingerprint_depends_on_codes_and_images(tmp_path: Path, images: Tensor) -> None:
    def fingerprint(name: str, codes: Any, images: Any) -> str:
        return load(write(tmp_path / name, codes=codes, images=images)).fingerprint

    first = fingerprint("a.npz", CODES, images.numpy())
    assert fingerprint("b.safetensors", CODES, images.numpy()) == first
    assert fingerprint("a.npz", np.nextafter(CODES, np.float32(9)), images.numpy()) != first
    assert fingerprint("a.npz", CODES, 255 - images.numpy()) != first


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"features": CODES}, "the file has no 'codes'; it has features"),
        ({"codes": CODES[0]}, r"codes must be floats \[N, D\]"),
        ({"codes": CODES.astype(int)}, r"codes must be floats \[N, D\]"),
        ({"codes": np.zeros((0, 5), "f4")}, r"codes must be floats \[N, D\]"),
        ({"codes": CODES[:4], "images": np.zeros((7, 3, 4, 4), "u1")}, "there are 4 codes but 7 images"),
        ({"codes": CODES, "images": np.zeros((7, 4, 4, 3), "u1")}, r"images must be uint8 \[N, 3, H, W\]"),
    ],
)
def test_wrong_files(arrays: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        load(write(tmp_path / "codes.npz", **arrays))


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pickled objects, which are never loaded"):
        load(write(tmp_path / "codes.npz", codes=np.array([{"a": 1}], dtype=object)))


def test_other_options(tmp_path: Path) -> None:
    spec = write(tmp_path / "codes.npz", codes=CODES)
    with pytest.raises(InputError, match="embeddings are codes, not a model"):
        load(spec, size=16)
    with pytest.raises(InputError, match=r"are images=\.\.\., not 'image=x'"):
        load(f"{spec}?image=x")
    with pytest.raises(InputError, match="there is no cache here"):
        load(f"{spec}?images={tmp_path}")
    with pytest.raises(InputError, match="there is no such file"):
        load("embeddings:nowhere.npz")
