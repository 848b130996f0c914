"""The study of analogy: sizes, and the cells of a request (COAT, Xie et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

from alebrije.errors import InputError
from alebrije.instruments.analogy.codes import VARIANTS, has_slots
from alebrije.instruments.analogy.images import CORPORA, WHITE, Corpus
from alebrije.instruments.analogy.trained import (
    SWEPT,
    checkpoint_models,
    earlier_checkpoints,
    keep_some,
    swept_settings,
)
from alebrije.instruments.analogy.values import METRICS, OVER_TRAINING, RELATIVE_TRE, compute_values, versions
from alebrije.models.catalog import catalog
from alebrije.results import Cell
from alebrije.results.cells import Label
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Job
from alebrije.studies.model import LoadedModel, Model, TrainedModel
from alebrije.studies.own_metrics import own_names, own_versions
from alebrije.studies.references import REFERENCES
from alebrije.studies.request import Request, SizeName, learns_from_images
from alebrije.train.plan import Plan, plan

TRAIN_SETS = {"coat": "iid", "coat-correlated": "correlated"}  # worlds, and their names in Table 1
PROTOCOL = 2  # raised when values change for a reason that no other version records
_CHECKPOINTS = "checkpoints:"  # a spec of this study alone: all checkpoints of a run


@dataclass(frozen=True)
class Size:
    """What one size of the study consists of."""

    cases: int
    pixels: int
    reference_pixels: int  # side of the image that the reference `pixels` uses as its code
    trained: Mapping[str, tuple[str, ...]]  # model -> worlds it is trained on, unless the request names models
    seeds: int
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # model -> changes to its preset
    training_images: int | None = None  # None: as in the preset of the model
    betas: tuple[float, ...] = ()  # that the beta-TCVAE is trained with, unless the request names models
    checkpoints: int = 0  # about how many of each training are examined besides the last


_IID = ("coat",)
_TABLE_1 = {"ae": _IID, "beta-tcvae": _IID, "slot-attention": tuple(TRAIN_SETS), "moco": _IID}
_TABLE_1["iodine"] = tuple(TRAIN_SETS)  # if the catalog has it
_BETAS = (0.0, 1.0, 2.0, 3.0)  # Section 5.1
_LATENTS = {"latents": 256, "likelihood": "gaussian"}
_SMALL = {"ae": _LATENTS, "beta-tcvae": {**_LATENTS, "beta": 1.0}}
_TINY = {"ae": {"latents": 64}, "beta-tcvae": {"latents": 64}, "slot-attention": {"slots": 7, "steps": 150}}
_TINY["iodine"] = _TINY["slot-attention"]
SIZES: Mapping[SizeName, Size] = {
    "paper": Size(1600, 128, 128, _TABLE_1, seeds=5, betas=_BETAS, checkpoints=10),
    "small": Size(
        256, 128, 64, _TABLE_1, seeds=1, settings=_SMALL, training_images=20_000, betas=_BETAS, checkpoints=5
    ),
    "tiny": Size(32, 64, 64, {}, seeds=1, settings=_TINY, training_images=256, checkpoints=3),
}


def jobs(folder: ResultFolder, request: Request) -> list[Job]:
    """A cell for each model, corpus and variant of its slots."""
    wanted = (*(name for name in METRICS if _wants(request, name)), *own_names(request.metrics))
    if not wanted:
        return []
    size = SIZES[request.size]
    names = CORPORA if request.only_loaded else (*CORPORA, WHITE)
    corpora = [Corpus(name, size.cases, size.pixels) for name in names]
    found: list[Job] = []
    for model in _models(folder, request):
        variants: tuple[str | None, ...] = VARIANTS if has_slots(model, size.pixels) else (None,)
        found += [_job(folder, request, model, corpus, variant, wanted) for corpus in corpora for variant in variants]
        over_training = tuple(name for name in wanted if name in OVER_TRAINING)
        for checkpoint in earlier_checkpoints(model) if over_training else ():
            found += [_job(folder, request, checkpoint, corpora[0], variant, over_training) for variant in variants]
    return list({job.cell.key: job for job in reversed(found)}.values())[::-1]  # at beta 0 two names have one plan


def _wants(request: Request, name: str) -> bool:
    """Whether the request wants a value. TRE comes with its relative form, which does not depend on scale."""
    return request.wants(name) or (name == RELATIVE_TRE and request.wants("tre"))


def _models(folder: ResultFolder, request: Request) -> Iterator[Model]:
    size = SIZES[request.size]
    if request.only_loaded and request.worlds and not request.yardsticks:
        raise InputError(f"analogy has its own scenes and cannot use {', '.join(request.worlds)}; leave out worlds")
    unknown = [world for world in request.worlds if world not in TRAIN_SETS]
    if unknown:
        raise InputError(f"analogy trains its models on {' or '.join(TRAIN_SETS)}, not {unknown[0]}")
    train = partial(_trained, folder, request)
    default = (*REFERENCES, *(name for name in size.trained if name in catalog()))
    if request.betas and not request.only_loaded and SWEPT not in request.model_names(default):
        raise InputError(f"betas are weights of {SWEPT}; add it to the models")
    return _with_checkpoints(request).select_models(default, size.reference_pixels, train)


def _with_checkpoints(request: Request) -> Request:
    """The request, with the models of each spec `checkpoints:DIR` among the loaded models."""
    specs = [name for name in request.models if name.startswith(_CHECKPOINTS)]
    if not specs or request.only_loaded:
        return request
    others = tuple(name for name in request.models if name not in specs)
    models = [checkpoint_models(spec.removeprefix(_CHECKPOINTS), request.device) for spec in specs]
    loaded = (*(model for run in models for model in run), *request.loaded)
    return replace(request, models=others, loaded=loaded, only_loaded=not others)


def _trained(folder: ResultFolder, request: Request, name: str) -> Iterator[TrainedModel]:
    """A model trained on each of its worlds with each seed."""
    size, record = SIZES[request.size], learns_from_images(name, "analogy")
    worlds = request.worlds or (("coat",) if request.size == "tiny" else tuple(TRAIN_SETS))
    if not request.models:
        worlds = tuple(world for world in worlds if world in size.trained[name])
    swept = request.betas or (() if request.models else size.betas)
    betas: tuple[float | None, ...] = swept if swept and name == SWEPT else (None,)
    for world, beta, seed in product(worlds, betas, request.training_seeds(size.seeds)):
        more: dict[str, Label] = {"train_set": TRAIN_SETS[world], "model": record.name}
        if beta is not None:
            more["beta"] = beta
        made = _plan(name, request.size, world, seed, beta)
        yield TrainedModel(made, folder, request.device, more, keep_some(made.recipe.steps, size.checkpoints))


def _plan(name: str, size_name: SizeName, world: str, seed: int, beta: float | None = None) -> Plan:
    size = SIZES[size_name]
    settings = {**size.settings.get(name, {}), **swept_settings(beta)}
    if size_name == "paper" and name == "ae":  # COAT's autoencoder is its beta-TCVAE with these weights
        name, settings = SWEPT, swept_settings(0.0)
    return plan(name, preset_name=size_name, world=world, seed=seed, images=size.training_images, settings=settings)


def _job(
    folder: ResultFolder, request: Request, model: Model, corpus: Corpus, variant: str | None, wanted: tuple[str, ...]
) -> Job:
    labels = {"size": request.size, **_labels(model), "corpus": corpus.name, "pixels": corpus.pixels}
    if variant is not None:
        labels["variant"] = variant
    inputs = {
        "subject": dict(model.identity),
        "corpus": corpus.settings,
        "variant": variant,
        "metrics": versions(wanted) | own_versions(wanted),
        "protocol": PROTOCOL,
    }
    cell = Cell(study="analogy", labels=labels, inputs=inputs)
    work = partial(compute_values, folder, cell, model, corpus, variant, wanted, request.device)
    return Job(cell, work, model, corpus.pixels)


def _labels(model: Model) -> dict[str, Label]:
    """The labels of a model, and the training set of a checkpoint that learned from one of COAT's worlds."""
    learned = model.encoder.plan if isinstance(model, LoadedModel) else None
    train_set = None if learned is None else TRAIN_SETS.get(learned.world)
    return {**({} if train_set is None else {"train_set": train_set}), **model.labels}
