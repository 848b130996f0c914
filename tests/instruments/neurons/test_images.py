"""The corpus of the study, and codes of its images."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from alebrije import data, worlds
from alebrije.adapters import Encoder
from alebrije.adapters.embeddings import Embeddings
from alebrije.cli import main
from alebrije.data import grids, open_cache
from alebrije.errors import InputError
from alebrije.instruments.neurons import study
from alebrije.instruments.neurons.codes import EncodedCorpus
from alebrije.instruments.neurons.images import SEED, Corpus
from alebrije.instruments.neurons.values import compute_values
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel
from alebrije.studies.request import Request
from tests.instruments.neurons.running import QUICK, run_neurons, values_of


class TestImages:
    @pytest.mark.parametrize("world", ["dsprites", "rooms", "arm"])
    def test_the_same_images_as_make(self, world: str, tmp_path: Path) -> None:
        corpus = Corpus.of(world, 70)
        command = corpus.command.replace("DIR", str(tmp_path / "made"))
        main(command.split()[1:])
        view = corpus.view(ResultFolder(tmp_path / "study"))
        cache = open_cache(tmp_path / "made")
        assert np.array_equal(np.asarray(cache["images"][:]), view.images.numpy())
        assert view.scenes is not None
        assert view.scenes.equals(worlds.get(world).sample(70, seed=SEED))
        chosen = view.scenes.factors[:, 0, 1:] if world == "dsprites" else view.scenes.factors[:, 0]
        assert np.array_equal(corpus.factors(ResultFolder(tmp_path / "study")), chosen.numpy())

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("clevr", "dsprites, rooms, arm, mpi3d:FILE.npz, shapes3d:FILE.h5, or a world of your own"),
            ("shapes3d", "3D Shapes is read from its file: give its path, as in shapes3d:FILE.h5"),
            ("shapes3d:/nowhere.h5", "there is no file /nowhere.h5; shapes3d:PATH needs the released .h5 file"),
            ("mpi3d", "give its path"),
            ("mpi3d:/nowhere/real.npz", "there is no file /nowhere/real.npz"),
        ],
    )
    def test_unusable_worlds(self, name: str, words: str, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=words):
            study.jobs(ResultFolder(tmp_path), Request(size="tiny", worlds=(name,)))

    def test_mpi3d_from_its_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        counts = (2, 4, 2, 3, 1, 3, 2)
        monkeypatch.setattr(grids, "_MPI3D_COUNTS", (counts,))
        images = np.random.default_rng(0).integers(0, 256, (math.prod(counts), 64, 64, 3), dtype=np.uint8)
        np.savez(tmp_path / "small.npz", images=images)
        world = f"mpi3d:{tmp_path / 'small.npz'}"
        monkeypatch.setitem(study.SIZES, "tiny", replace(study.SIZES["tiny"], images=250, heads=QUICK))
        folder = ResultFolder(tmp_path / "study")
        summary = run_neurons(folder, Request(size="tiny", worlds=(world,)))  # nothing is trained on a file
        assert not summary.failed
        results = folder.store.all()
        assert {result.cell.labels["model"] for result in results} == {"pixels", "oracle", "noise"}
        assert {result.cell.labels["world"] for result in results} == {"mpi3d"}
        oracle = values_of([result for result in results if result.cell.labels["model"] == "oracle"])["SNC"]
        assert oracle.score == 1.0
        assert oracle.details["factor_names"] == ["color", "shape", "size", "camera height", "horizontal", "vertical"]
        corpus = Corpus.of(world, 250)
        rows = np.random.default_rng(0).choice(math.prod(counts), 250, replace=False)
        grid = data.read_mpi3d(tmp_path / "small.npz", rows)
        assert torch.equal(corpus.view(folder).images, grid.images)
        with pytest.raises(InputError, match="cannot be trained on images of a file"):
            study.jobs(folder, Request(size="tiny", worlds=(world,), models=("ae",)))
        (tmp_path / "small.npz").write_bytes(b"PK")
        with pytest.raises(InputError, match="is damaged"):
            Corpus.of(world, 250).settings  # noqa: B018

    def test_shapes3d_from_its_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        counts = (2, 3, 1, 3, 4, 2)
        classes = np.stack(np.unravel_index(np.arange(math.prod(counts)), counts), 1)
        images = np.random.default_rng(0).integers(0, 256, (len(classes), 64, 64, 3), dtype=np.uint8)
        with h5py.File(tmp_path / "small.h5", "w") as file:
            file["images"], file["labels"] = images, classes * 0.5
        world = f"shapes3d:{tmp_path / 'small.h5'}"
        monkeypatch.setitem(study.SIZES, "tiny", replace(study.SIZES["tiny"], images=140, heads=QUICK))
        folder = ResultFolder(tmp_path / "study")
        assert not run_neurons(folder, Request(size="tiny", worlds=(world,), models=("oracle",))).failed
        results = folder.store.all()
        assert {result.cell.labels["world"] for result in results} == {"shapes3d"}
        snc = values_of(results)["SNC"]
        assert snc.score == 1.0
        assert snc.details["factor_names"] == ["floor hue", "wall hue", "scale", "shape", "orientation"]
        assert any(result.cell.labels.get("held_out") == "size 0, shape 0" for result in results)
        corpus = Corpus.of(world, 140)
        rows = np.random.default_rng(0).choice(len(classes), 140, replace=False)
        assert np.array_equal(corpus.view(folder).images.numpy(), images[rows].transpose(0, 3, 1, 2))
        assert corpus.command == f"data.read_shapes3d({str(tmp_path / 'small.h5')!r}, rows)"
        with h5py.File(tmp_path / "other.h5", "w") as file:
            file["images"], file["labels"] = images[::-1], classes * 0.5
        other = Corpus.of(f"shapes3d:{tmp_path / 'other.h5'}", 140).settings
        assert other["checksum"] != corpus.settings["checksum"]
        moved = (tmp_path / "small.h5").rename(tmp_path / "moved.h5")
        assert Corpus.of(f"shapes3d:{moved}", 140).settings == corpus.settings
        with pytest.raises(InputError, match="cannot be trained on images of a file"):
            study.jobs(folder, Request(size="tiny", worlds=(f"shapes3d:{moved}",), models=("ae",)))

    def test_embeddings_of_these_and_of_other_images(self, tmp_path: Path) -> None:
        folder, corpus = ResultFolder(tmp_path), Corpus("dsprites", 300)
        view = corpus.view(folder)
        codes = corpus.factors(folder).astype(np.float32)
        for rows, good in ((slice(None), True), (slice(0, 200), False)):
            table = Embeddings("codes.npz", {"codes": codes[rows], "images": view.images[rows].numpy()})
            model = LoadedModel(Encoder(table, name="codes"))
            encoded = EncodedCorpus(folder, corpus, model, model.identity)
            values = compute_values(encoded, ("SNC", "MIG"), QUICK, False)
            assert (values["SNC"].score == 1.0) is good
            if not good:
                reason = str(values["MIG"].reason)
                assert "alebrije make dsprites --n 300 --seed 0 --size 64" in reason
                assert "not one of them" in reason
