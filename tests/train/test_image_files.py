"""Training from files: rows, sizes and labels of released files and folders, and whole runs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image

from alebrije.adapters import load
from alebrije.data import grids
from alebrije.errors import InputError
from alebrije.train import RunOptions
from alebrije.train.image_files import FileImages, ImageFile, data_name, is_image_file
from alebrije.train.plan import plan
from alebrije.train.run import run_plan
from alebrije.train.run_folder import read_plan

CPU = torch.device("cpu")


def combinations(counts: tuple[int, ...]) -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(int(np.prod(counts))), counts), 1).astype(np.int64)


def pixels(count: int, channels: int) -> np.ndarray:
    """Noise, in which the first pixel is the row."""
    images = np.random.default_rng(0).integers(0, 256, (count, 64, 64, channels), dtype=np.uint8)
    images[:, 0, 0] = np.arange(count)[:, None]
    return images


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Small files in the three released formats, and a folder with attributes and masks."""
    counts = (1, 3, 2, 2, 2, 2)
    classes = combinations(counts)
    shapes = np.zeros((len(classes), 64, 64), np.uint8)
    shapes[:, :4, :12] = np.arange(len(classes))[:, None, None] >> np.arange(12) & 1  # the row in bits
    np.savez(tmp_path / "d.npz", imgs=shapes, latents_classes=classes, latents_values=classes.astype(float))
    counts = (2, 2, 2, 2, 4, 1)
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["images"], file["labels"] = pixels(64, 3), combinations(counts) * 0.1
    monkeypatch.setattr(grids, "_MPI3D_COUNTS", ((2, 3, 2, 1, 2, 2, 2), (4, 4, 2, 3, 3, 40, 40)))
    np.savez(tmp_path / "m.npz", images=pixels(96, 3))
    folder = tmp_path / "photos"
    (folder / "images").mkdir(parents=True)
    (folder / "masks").mkdir()
    with (folder / "attributes.csv").open("w") as file:
        table = csv.writer(file)
        table.writerow(("image", "animal"))
        for row, image in enumerate(pixels(12, 3)):
            Image.fromarray(np.repeat(image, 2, 1)).save(folder / f"images/{row:02}.png")
            Image.fromarray(np.repeat([[1, 2]], 64, 1).repeat(64, 0).astype(np.uint8)).save(
                folder / f"masks/{row:02}.png"
            )
            table.writerow((f"{row:02}.png", ("cat", "dog", "bird")[row % 3]))
    named = {"dsprites": "d.npz", "shapes3d": "s.h5", "mpi3d": "m.npz", "data": "photos"}
    return {kind: f"{kind}:{tmp_path / name}" for kind, name in named.items()}


def test_names() -> None:
    assert not is_image_file("clevr")
    assert not is_image_file("my_module:world")
    assert data_name("birds") == "data:birds"
    assert data_name("shapes3d:x.h5") == "shapes3d:x.h5"


@pytest.mark.parametrize(("kind", "total"), [("dsprites", 48), ("shapes3d", 64), ("mpi3d", 96), ("data", 12)])
def test_training_has_every_row_once(files: dict[str, str], kind: str, total: int) -> None:
    file = ImageFile(files[kind])
    images = FileImages(file, 64, 0, len(file))
    batch = images.all(CPU)["images"]
    assert (len(file), len(batch), batch.dtype) == (total, total, torch.uint8)
    if kind == "dsprites":
        rows = ((batch[:, 0, 0, :12] // 255).long() << torch.arange(12)).sum(1)
    else:
        rows = batch[:, 0, 0, 0].long()
    if kind != "data":  # images of the folder are resized
        assert sorted(rows.tolist()) == list(range(total))
        assert rows.tolist() != sorted(rows.tolist())
        assert torch.equal(images.render(images.scenes(5, 3), CPU)["images"], batch[5:8])
    assert not torch.equal(FileImages(file, 64, 1, len(file)).all(CPU)["images"], batch)


def test_labels_belong_to_their_images(files: dict[str, str]) -> None:
    made = plan("mtd", preset_name="tiny", world=files["mpi3d"], settings={"labels": "shape,size"})
    batch = made.scene_set().all(CPU)
    factors = np.stack(np.unravel_index(batch["images"][:, 0, 0, 0].numpy(), (2, 3, 2, 1, 2, 2, 2)), 1)
    assert batch["labels"].tolist() == factors[:, 1:3].tolist()
    assert made.settings["counts"] == (3, 2)


def test_files_have_the_recipe_of_their_world(files: dict[str, str]) -> None:
    for kind, world in (("dsprites", "dsprites"), ("shapes3d", "rooms")):
        ours, theirs = (
            plan("beta-vae", preset_name="paper", world=name, dry_run=False) for name in (files[kind], world)
        )
        assert ours.recipe == theirs.recipe
        assert ours.settings == theirs.settings
        assert ours.images == len(ImageFile(files[kind]))
    with pytest.raises(InputError, match="no paper trained beta-VAE on mpi3d"):
        plan("beta-vae", preset_name="paper", world=files["mpi3d"], dry_run=False)


def test_images_and_masks_are_resized(files: dict[str, str]) -> None:
    images = FileImages(ImageFile(files["data"]), 32, 0, 12, masks=True)
    batch = images.render(images.scenes(0, 6), CPU)
    assert (batch["images"].shape, batch["masks"].shape) == ((6, 3, 32, 32), (6, 32, 32))
    held_out = FileImages(ImageFile(files["data"]), 32, 0, 12, held_out=True)
    assert "masks" not in held_out.render(held_out.scenes(0, 30), CPU)


@pytest.mark.parametrize("kind", ["dsprites", "shapes3d", "mpi3d", "data"])
def test_a_model_is_trained_and_encodes(files: dict[str, str], kind: str, tmp_path: Path) -> None:
    made = plan("beta-vae", preset_name="tiny", world=files[kind], settings={"steps": 2, "batch": 8})
    assert made.settings["channels"] == (1 if kind == "dsprites" else 3)
    run_plan(made, tmp_path / "run", RunOptions(check_size=20, save_every=2))
    stored, expected = (json.dumps(one.to_json()) for one in (read_plan(tmp_path / "run"), made))
    assert stored == expected
    lines = (tmp_path / "run/history.jsonl").read_text()
    assert "reconstruction error" in lines
    encoder = load(f"checkpoint:{tmp_path / 'run'}")
    assert encoder(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).vector.shape == (2, 10)


def test_a_slot_model_is_checked_with_the_masks_of_a_folder(files: dict[str, str], tmp_path: Path) -> None:
    settings = {"steps": 2, "batch": 4, "warmup": 0, "size": 16, "channels": 8, "decoder_layers": 1}
    made = plan("slot-attention", preset_name="tiny", world=files["data"], settings=settings)
    run_plan(made, tmp_path / "run", RunOptions(check_size=8, save_every=2))
    assert "FG-ARI" in (tmp_path / "run/history.jsonl").read_text()


def test_what_cannot_be_learned_from_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file nowhere\.npz"):
        plan("ae", preset_name="tiny", world="mpi3d:nowhere.npz")
    with pytest.raises(InputError, match="needs a path"):
        plan("ae", preset_name="tiny", world="mpi3d:")
    with pytest.raises(InputError, match="images must be 1 to 96"):
        plan("ae", preset_name="tiny", world=files["mpi3d"], images=97)
    with pytest.raises(InputError, match="learns from episodes of a task"):
        plan("i2i-vit", preset_name="tiny", world=files["mpi3d"])
    with pytest.raises(InputError, match="a rule makes episodes of scenes"):
        plan("i2i-vit", preset_name="tiny", world=files["mpi3d"], rule="S-A")
    Path(files["data"].removeprefix("data:"), "attributes.csv").unlink()
    with pytest.raises(InputError, match="has no table of attributes"):
        plan("mtd", preset_name="tiny", world=files["data"])
    with pytest.raises(InputError, match="learns from labels of one object"):
        plan("mtd", preset_name="tiny", world="clevr6")


def test_rows_without_a_label_are_not_learned(files: dict[str, str]) -> None:
    table = Path(files["data"].partition(":")[2]) / "attributes.csv"
    lines = table.read_text().splitlines()
    lines = [f"{lines[0]},colour", *(f"{line},{'red' if row % 2 else ''}" for row, line in enumerate(lines[1:]))]
    lines[2] = lines[2].replace("red", "blue")
    table.write_text("\n".join(lines))
    made = plan("mtd", preset_name="tiny", world=files["data"], settings={"labels": "animal"}, dry_run=False)
    assert made.distinct_images == 12  # a gap in another column does not matter
    made = plan("mtd", preset_name="tiny", world=files["data"], settings={"labels": "colour"}, dry_run=False)
    assert made.distinct_images == 6
    images = FileImages(ImageFile(files["data"]), 16, 0, 12, labels=made.labels).all(CPU)
    assert len(images["images"]) == len(images["labels"]) == 6


def test_no_row_with_all_labels_is_one_sentence(files: dict[str, str]) -> None:
    table = Path(files["data"].partition(":")[2]) / "attributes.csv"
    head, *rows = table.read_text().splitlines()
    values = [f"{row % 2}," if row < 6 else f",{row % 2}" for row in range(12)]
    table.write_text("\n".join([f"{head},a,b", *(f"{row},{value}" for row, value in zip(rows, values, strict=True))]))
    made = plan("mtd", preset_name="tiny", world=files["data"], settings={"labels": "a,b"})
    with pytest.raises(InputError, match=r"no image of data:.*photos has a value of every label"):
        made.scene_set().scenes(0, 1)


@pytest.mark.parametrize("kind", ["data", "mpi3d"])
def test_a_run_does_not_continue_on_other_data(files: dict[str, str], tmp_path: Path, kind: str) -> None:
    made = plan("ae", preset_name="tiny", world=files[kind], settings={"steps": 2, "warmup": 1}, dry_run=False)
    run_plan(made, tmp_path / "run", RunOptions(check_every=9, until=1, save_every=1))
    path = Path(files[kind].partition(":")[2])
    if kind == "data":
        Image.fromarray(np.zeros((64, 128, 3), np.uint8)).save(path / "images/03.png")
    else:
        np.savez(path, images=pixels(96, 3)[::-1])
    with pytest.raises(InputError, match="edited since"):
        run_plan(made, tmp_path / "run", RunOptions(check_every=9, save_every=1))
