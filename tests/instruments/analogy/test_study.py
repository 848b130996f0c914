"""The cells of a request for analogy."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from alebrije.errors import InputError
from alebrije.instruments.analogy import INSTRUMENT, study
from alebrije.instruments.analogy.codes import VARIANTS
from alebrije.instruments.analogy.images import WHITE
from alebrije.instruments.analogy.slot_galleries import slot_strips
from alebrije.instruments.analogy.study import SIZES
from alebrije.instruments.analogy.trained import checkpoint_models
from alebrije.models.catalog import catalog
from alebrije.studies.folder import ResultFolder
from alebrije.studies.references import Pixels
from alebrije.studies.request import SIZES as SIZE_NAMES
from alebrije.studies.request import Request
from alebrije.studies.run import plan_study, run_study
from alebrije.train.options import RunOptions
from alebrije.train.plan import plan
from alebrije.train.run import run_plan
from tests.instruments.analogy.running import Results, results_of, score


def test_the_same_request_again_computes_nothing(references: Results, folder: ResultFolder) -> None:
    summary = run_study(plan_study(INSTRUMENT, folder, Request(size="tiny")), folder)
    assert (summary.done, summary.kept) == (0, len(references))


def test_loaded_pixels_are_the_reference_pixels(folder: ResultFolder) -> None:
    for size, side in zip(SIZE_NAMES, (64, 64, 128), strict=True):
        named = [
            job
            for job in INSTRUMENT.jobs(folder, Request(size=size, models=("pixels",)))
            if job.cell.labels["corpus"] != WHITE  # an experiment of studies alone
        ]
        loaded = INSTRUMENT.jobs(folder, Request(size=size, loaded=(Pixels(),), only_loaded=True))
        assert [job.cell for job in loaded] == [job.cell for job in named]
        assert {job.cell.inputs["subject"]["size"] for job in loaded} == {side}


def test_only_requested_metrics_are_computed(folder: ResultFolder, references: Results) -> None:
    request = Request(size="tiny", models=("oracle",), metrics=("COAT",))
    results = results_of(folder, request, "model", "corpus")
    assert all(list(result.values) == ["coat"] for result in results.values())
    assert {result.key for result in results.values()}.isdisjoint(result.key for result in references.values())
    assert INSTRUMENT.jobs(folder, replace(request, metrics=("SNC",))) == []


def test_requests_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    with pytest.raises(InputError, match="not sprites"):
        INSTRUMENT.jobs(folder, Request(size="tiny", worlds=("sprites",)))
    with pytest.raises(InputError, match="has its own scenes and cannot use coat"):
        INSTRUMENT.jobs(folder, Request(size="tiny", worlds=("coat",), loaded=(Pixels(),), only_loaded=True))
    with pytest.raises(InputError, match="slot-attention"):
        INSTRUMENT.jobs(folder, Request(size="tiny", models=("slot-atention",)))
    with pytest.raises(InputError, match="learns from episodes; analogy"):
        INSTRUMENT.jobs(folder, Request(size="tiny", models=("svib-oracle",)))
    with pytest.raises(InputError, match="betas are weights of beta-tcvae"):
        INSTRUMENT.jobs(folder, Request(size="tiny", models=("ae",), betas=(0.0, 1.0)))
    with pytest.raises(InputError, match="no run with checkpoints"):
        INSTRUMENT.jobs(folder, Request(size="tiny", models=(f"checkpoints:{tmp_path}",)))


def test_the_size_paper_trains_the_models_of_table_1(tmp_path: Path) -> None:
    jobs = INSTRUMENT.jobs(ResultFolder(tmp_path), Request(size="paper", seeds=1))
    labels = ("model", "train_set", "corpus", "variant", "beta", "step")
    by_labels = {tuple(job.cell.labels.get(name) for name in labels): job for job in jobs}
    with_slots = [name for name in ("slot-attention", "iodine") if name in catalog()]
    # on each corpus: four references, five models with vectors, and slots in three variants from two training sets
    vectors, slots = 5, 3 * 2 * len(with_slots)
    earlier = 9 * (vectors + slots)  # checkpoints, under occlusion
    assert len(by_labels) == len(jobs) == 3 * (4 + vectors + slots) + earlier
    for variant in VARIANTS:
        assert ("slot-attention", "correlated", "occluded", variant, None, None) in by_labels
    assert {own[4] for own in by_labels if own[0] == "beta-tcvae"} == {1.0, 2.0, 3.0}  # at 0 it is the autoencoder
    steps = {own[5] for own in by_labels if own[0] == "ae"}
    assert steps == {None, *range(5_400, 54_000, 5_400)}
    inputs = by_labels["ae", "iid", "occluded", None, None, None].cell.inputs
    assert inputs["corpus"]["cases"] == 1600
    trained = inputs["subject"]["plan"]
    assert (trained["model"], trained["settings"]["beta"], trained["settings"]["gamma"]) == ("beta-tcvae", 0, 0)


def test_the_size_tiny_trains_nothing(tmp_path: Path) -> None:
    jobs = INSTRUMENT.jobs(ResultFolder(tmp_path), Request(size="tiny"))
    assert not [job for job in jobs if "seed" in job.cell.labels]


def test_a_named_model_is_trained_on_all_worlds(tmp_path: Path) -> None:
    jobs = INSTRUMENT.jobs(ResultFolder(tmp_path), Request(size="small", models=("moco",), seeds=2))
    found = {(job.cell.labels["train_set"], job.cell.labels["seed"]) for job in jobs}
    assert found == {("iid", 0), ("iid", 1), ("correlated", 0), ("correlated", 1)}


def test_a_model_is_trained_for_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"slot-attention": {"slots": 3, "steps": 2, "warmup": 0}}
    few = replace(SIZES["tiny"], cases=3, settings=settings, training_images=4, checkpoints=2)
    monkeypatch.setattr(study, "SIZES", {**SIZES, "tiny": few})
    monkeypatch.setattr(study, "CORPORA", ("unoccluded",))
    monkeypatch.setattr(study, "WHITE", "occluded")
    monkeypatch.setattr(
        "alebrije.studies.model.run_plan",
        lambda made, run, options: run_plan(made, run, replace(options, check_size=1)),
    )
    folder = ResultFolder(tmp_path)
    request = Request(size="tiny", models=("slot-attention",), worlds=("coat-correlated",))
    results = results_of(folder, request, "model", "train_set", "seed", "variant", "corpus", "step")
    finished = {labels: result for labels, result in results.items() if labels[5] is None}
    own = ("slot-attention", "correlated", 0)
    assert {labels[:4] for labels in finished} == {(*own, variant) for variant in VARIANTS}
    assert {labels for labels in results if labels[5] is not None} == {
        (*own, variant, "unoccluded", 1) for variant in VARIANTS
    }
    for labels, result in finished.items():
        assert set(result.values) == set(INSTRUMENT.metrics)
        assert -0.5 <= score(result, "fg-ari") <= 1
        samples = folder.samples(result.cell)
        assert samples["decoded"].shape == (3, 3, 64, 64)
        assert samples["slot_masks"].shape == (5, 3, 32, 32)
        np.testing.assert_allclose(samples["slot_masses"].sum(1), 1, atol=1e-5)
        assert slot_strips(samples)
        earlier = results[*own, labels[3], "unoccluded", 1]
        assert set(earlier.values) == {"coat", "coat-acos"}
        assert folder.samples(earlier.cell) == {}
        assert labels[4] != "unoccluded" or earlier.values["coat"].score != result.values["coat"].score


def test_each_checkpoint_of_a_run_is_examined(folder: ResultFolder, tmp_path: Path) -> None:
    autoencoder = plan("ae", preset_name="tiny", world="coat", images=2, settings={"steps": 4, "batch": 2})
    run_plan(autoencoder, tmp_path, RunOptions(check_size=1, save_every=1, keep_every=2))
    assert len(checkpoint_models(tmp_path)) == 3  # step 2, and the last two
    spec = f"checkpoints:{tmp_path}"
    results = results_of(
        folder,
        Request(size="tiny", models=(spec,), metrics=("coat",)),
        *("model", "trained_on", "train_set", "seed", "step", "corpus"),
    )
    assert {labels[4] for labels in results} == {2, 3, 4}
    assert {labels[:4] for labels in results} == {("ae", "coat", "iid", 0)}
    scores = {labels[4]: score(result) for labels, result in results.items() if labels[5] == "occluded"}
    assert len(set(scores.values())) == 3
    assert all(map(math.isfinite, scores.values()))
    both = INSTRUMENT.jobs(folder, Request(size="tiny", models=("oracle", spec)))
    assert {job.cell.labels["model"] for job in both} == {"oracle", "ae"}
