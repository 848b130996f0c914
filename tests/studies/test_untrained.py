"""Untrained twins of models, and the cells of yardsticks that an evaluation plans."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.untrained import ALLOWED, KINDS
from torch import nn

import alebrije
from alebrije import instruments
from alebrije.adapters import Encoder
from alebrije.encoding import Encoding
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, TrainedModel, View
from alebrije.studies.references import Noise, Oracle, Pixels
from alebrije.studies.request import Request
from alebrije.studies.run import PlannedStudy, plan_study
from alebrije.studies.untrained import (
    PROJECTION,
    SAME_ARCHITECTURE,
    TWINS,
    RandomProjection,
    Untrained,
    kind_of_twin,
    untrained_twins,
)
from alebrije.train.plan import plan

VIEW = View(torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)))


def loaded(model: object, **options: object) -> LoadedModel:
    return LoadedModel(Encoder(model, **options))  # type: ignore[arg-type]


def planned(name: str, *models: object, **options: object) -> PlannedStudy:
    request = Request(size="tiny", loaded=models, only_loaded=True, **options)  # type: ignore[arg-type]
    return plan_study(instruments.get(name), ResultFolder("nowhere"), request)


def test_references_have_no_twins() -> None:
    assert [untrained_twins(model) for model in (Pixels(), Oracle(), Oracle(project=8), Noise())] == [[], [], [], []]


def test_a_network_has_twins_with_different_weights() -> None:
    model = loaded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()), name="mine")
    twins = untrained_twins(model)
    codes = [twin.encode(VIEW).codes for twin in twins]
    assert len(twins) == TWINS
    assert all(not torch.allclose(one, model.encode(VIEW).codes) for one in codes)
    assert len({one.numpy().tobytes() for one in codes}) == TWINS
    assert len({str(twin.identity) for twin in twins}) == TWINS
    assert torch.equal(twins[0].encode(VIEW).codes, codes[0]), "drawn again, the weights are the same"
    assert {twin.labels["model"] for twin in twins} == {"untrained twin of mine"}


def test_a_function_has_random_projections_of_the_same_form() -> None:
    vectors = untrained_twins(loaded(lambda images: images.mean((2, 3)), name="mean"))
    assert all(twin.identity["untrained"] == PROJECTION for twin in vectors)
    assert vectors[0].encode(VIEW).codes.shape == (4, 3)

    def grouped(images: torch.Tensor) -> Encoding:
        masks = torch.ones(len(images), 5, *images.shape[2:])
        return Encoding(slots=images.mean((2, 3))[:, None].expand(-1, 5, -1), masks=masks)

    (first, *_) = untrained_twins(loaded(grouped, name="grouped"))
    assert isinstance(first, RandomProjection)
    assert first.encode(VIEW).codes.shape == (4, 5, 3)
    groups = first.group(VIEW)
    assert groups is not None
    assert groups.shape == (4, 32, 32)
    assert set(groups.unique().tolist()) <= set(range(5))


def test_the_twins_of_a_plan_do_not_depend_on_its_training(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    first, second = (
        TrainedModel(plan("beta-vae", preset_name="tiny", world=world, seed=seed), folder)
        for world, seed in (("rooms", 0), ("rooms", 3))
    )
    assert [twin.identity for twin in untrained_twins(first)] == [twin.identity for twin in untrained_twins(second)]
    assert not list(tmp_path.iterdir()), "nothing was trained"


@pytest.mark.yardsticks
def test_an_evaluation_plans_pixels_and_twins_in_the_settings_of_the_model() -> None:
    model = loaded(KINDS["cnn"](), name="mine")
    for name, score in (("neurons", "SNC"), ("grouping", "fg-ari")):
        study = planned(name, model)
        assert {str(job.cell.labels["model"]) for job in study.yardsticks} == {"pixels", "untrained twin of mine"}
        twins = [job.cell for job in study.yardsticks if kind_of_twin(job.cell)]
        assert {kind_of_twin(cell) for cell in twins} == {SAME_ARCHITECTURE}
        assert {cell.labels["seed"] for cell in twins} == set(range(TWINS))
        assert all(list(job.cell.inputs["metrics"])[:1] == [score] for job in study.yardsticks)
    assert not planned("grouping", model, metrics=("psnr",)).yardsticks, "the compared score was not requested"
    assert not planned("neurons", Pixels()).yardsticks
    names = [job.cell.labels["model"] for job in planned("neurons", model, Pixels()).yardsticks]
    assert "pixels" not in names, "they are examined anyway"


@pytest.mark.yardsticks
def test_pixels_are_examined_only_where_a_model_is() -> None:
    own = plan("i2i-cnn", preset_name="tiny")
    model = LoadedModel(Encoder(own.new_model(), plan=own, name="i2i"))
    study = planned("imagination", model, metrics=("skill",))
    assert {(job.cell.labels["rule"], job.cell.labels["alpha"]) for job in study.yardsticks} == {("S-A", 0.6)}
    assert len(study.yardsticks) == 1 + TWINS


@pytest.mark.slow
@pytest.mark.yardsticks
@pytest.mark.parametrize("kind", KINDS)
def test_an_untrained_network_earns_nothing(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(2000)
    pixels = 32 if kind == "slots" else 64  # the others need 64
    report = alebrije.evaluate(KINDS[kind](), ("fg-ari", "snc"), "tiny", out=tmp_path, pixels=pixels, name="random")
    words = {study: verdict.word.removesuffix(" (try-out)") for study, verdict in report.verdicts["random"].items()}
    assert set(words) == {"grouping", "neurons"}
    assert set(words.values()) <= set(ALLOWED)
    assert np.isfinite(report.score("snc") or 0.0)
    assert {result.cell.labels["model"] for result in report.results} == {"random", "pixels"}


@pytest.mark.slow
@pytest.mark.yardsticks
def test_the_oracle_earns_good(tmp_path: Path) -> None:
    report = alebrije.evaluate("oracle", ("fg-ari", "snc"), "tiny", out=tmp_path)
    assert {verdict.word for verdict in report.verdicts["oracle"].values()} == {"good (try-out)"}


def test_the_key_of_a_twin_on_a_gpu_says_how_it_multiplies() -> None:
    subject = {"encoder": "1234", "batch": 64, "device": "cuda"}
    model = loaded(nn.Linear(3, 2))
    on_gpu, on_cpu = (Untrained(model, {**subject, "device": device}, 0).identity for device in ("cuda", "cpu"))
    assert on_gpu["products"] == "tf32"
    assert "products" not in on_cpu
    assert Untrained(model, model.identity, 0).encoder().tf32
    assert not model.encoder.tf32


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_twins_on_a_gpu_have_the_codes_of_the_cpu_within_tf32() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 64), nn.ReLU(), nn.Linear(64, 16))
    models = [loaded(copy.deepcopy(network), device=device) for device in ("cpu", "cuda", "cuda")]
    codes = [untrained_twins(model, 1)[0].encode(VIEW).codes for model in models]
    torch.testing.assert_close(codes[0], codes[1], rtol=0, atol=5e-3 * float(codes[0].abs().max()))
    assert torch.equal(codes[1], codes[2])
    assert torch.get_float32_matmul_precision() == "highest"
