"""Files in the format of MPI3D, of a world with few combinations, and the existing reader on them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from alebrije import data, worlds
from alebrije.data import datasets, grids, mpi3d_file
from alebrije.data.mpi3d_file import EveryImage, mpi3d_path, write_mpi3d
from alebrije.errors import InputError
from alebrije.scenes import Factor, Vocabulary
from alebrije.worlds import Grid, World

COUNTS = (2, 3, 2, 1, 2, 3, 3)
ARM = worlds.get("arm")
FACTORS = [Factor(each.name, each.values[:n], each.codes[:n]) for each, n in zip(ARM.vocabulary, COUNTS, strict=True)]
FEW = Vocabulary("few", tuple(FACTORS), ARM.vocabulary.background)
few = World("few", FEW, Grid(FEW, columns=3), ARM.painter, size=64)
NAME = f"{__name__}:few"


@pytest.fixture(autouse=True)
def few_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "_MPI3D_COUNTS", (COUNTS,))


def test_the_reader_reads_every_image_in_order(tmp_path: Path) -> None:
    assert write_mpi3d(NAME, tmp_path / "new") == FEW.size == 216
    path = mpi3d_path(tmp_path / "new", NAME)
    assert [file.name for file in (tmp_path / "new").iterdir()] == [path.name] == ["mpi3d_few.npz"]
    found = data.read_mpi3d(path)
    world = worlds.get(NAME)
    scenes = world.grid(range(FEW.size))
    assert torch.equal(found.images, world.render(scenes).images)
    assert torch.equal(found.factors, scenes.factors[:, 0])
    assert (found.names, found.counts) == (FEW.names, COUNTS)
    with np.load(path) as stored:
        assert stored.files == ["images"]
        assert stored["images"].shape == (216, 64, 64, 3)
    assert write_mpi3d(NAME, tmp_path / "new") == 0


def test_an_interrupted_file_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "ROWS", 64)
    done: list[int] = []
    original = EveryImage.arrays

    def interrupted(self: EveryImage, start: int, *more: object) -> object:
        if done.append(start) or len(done) == 3:
            raise KeyboardInterrupt
        return original(self, start, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(EveryImage, "arrays", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_mpi3d(NAME, tmp_path)
    assert not mpi3d_path(tmp_path, NAME).exists()
    assert write_mpi3d(NAME, tmp_path) == 216 - 128
    assert done == [0, 64, 128, 128, 192]
    monkeypatch.setattr(EveryImage, "arrays", original)
    write_mpi3d(NAME, tmp_path / "whole")
    assert torch.equal(
        data.read_mpi3d(mpi3d_path(tmp_path, NAME)).images, data.read_mpi3d(mpi3d_path(tmp_path / "whole", NAME)).images
    )


def test_other_worlds_have_other_factors(tmp_path: Path) -> None:
    for name in ("rooms", "clevr"):
        with pytest.raises(InputError, match=f"seven factors in every combination, as arm does; {name} does not"):
            write_mpi3d(name, tmp_path)


def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mpi3d_file.np.lib.format, "write_array_header_1_0", full)
    with pytest.raises(InputError, match="the disk is full"):
        write_mpi3d(NAME, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [".rows"]
