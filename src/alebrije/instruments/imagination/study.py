"""The study of imagination: sizes, and the cells of a request.

Kim et al. 2023 (SVIB). Models that learn from episodes predict by themselves. Any other encoder stays frozen, and a
head learns to predict the target image from the code of the source. Encoders that the study trains learn from the
sources of training episodes, so they never see a held-out combination. The label `encoder_saw` says what an encoder was
trained on; it is absent if that is unknown.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from typing import Any

import torch

from alebrije.errors import InputError
from alebrije.instruments.imagination.alphas import OVER_ALPHAS
from alebrije.instruments.imagination.examination import Examination, episode_plan
from alebrije.instruments.imagination.head import HeadSettings
from alebrije.instruments.imagination.images import Corpus, Subset
from alebrije.instruments.imagination.reader import ReaderSettings
from alebrije.instruments.imagination.scene_reader import ACCURACIES as SCENE_ACCURACIES
from alebrije.instruments.imagination.scene_reader import LABEL, SceneReaderSettings, reader_values
from alebrije.instruments.imagination.values import (
    ACCURACIES,
    ERRORS,
    METRICS,
    compute_values,
    metric_inputs,
    start_values,
)
from alebrije.models import get as get_model
from alebrije.results import Cell
from alebrije.results.cells import Label
from alebrije.scenes.rules import ANALYSIS_RULES
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Job
from alebrije.studies.model import Model, TrainedModel, identity_on
from alebrije.studies.own_metrics import own_names
from alebrije.studies.references import REFERENCES, is_pixels, reference
from alebrije.studies.request import Request, SizeName
from alebrije.studies.together import Together
from alebrije.train.plan import Plan, plan

SVIB_MODELS = ("i2i-cnn", "i2i-vit", "ssm-vae", "ssm-slot", "svib-oracle")
RULES = ("S-A", "M-A", "S-NA", "M-NA")
ANALYSIS = "analysis"  # in a request: the sixteen rules of the analysis (Figures 15 and 16)
_WITH_CAMERA = ("clevr", "clevrtex")
PROTOCOL = 1  # raised when values change for a reason that no other version records


class SkippedTasksWarning(UserWarning):
    """Some requested tasks are skipped; the message names them and says why."""


@dataclass(frozen=True)
class Size:
    """What one size of the study consists of."""

    worlds: tuple[str, ...]
    alphas: tuple[float, ...]
    pixels: int  # of images that a head predicts; models that predict by themselves have their own size
    counts: Mapping[Subset, int]  # episodes
    head: HeadSettings
    reader: Mapping[str, int]  # settings of the reader
    scene_reader: Mapping[str, int]  # settings of the network that reads whole scenes, of `scene_worlds`
    rules: tuple[str, ...] = RULES[:1]
    trained: tuple[str, ...] = ()  # unless the request names models
    references: tuple[str, ...] = ()
    training_images: int | None = None  # episodes; None: as in the preset of the model
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the plans, beyond the preset
    scene_worlds: tuple[str, ...] = ("clevrtex",)  # none: only if its values are requested by name


SIZES: Mapping[SizeName, Size] = {
    "paper": Size(
        ("sprites", "clevr", "clevrtex"),
        (0.0, 0.2, 0.4, 0.6),
        128,
        {"train": 16_384, "validation": 1024, "known": 8000, "test": 8000},
        HeadSettings(30_000, batch=256, points=512, rate=2e-3, checks=30, width=192, hidden=128, layers=3,
                     components=512),
        {"scenes": 32_768, "epochs": 20, "channels": 32},
        {"scenes": 64_000, "test_scenes": 8000, "epochs": 40, "channels": 64, "pixels": 128},
        rules=RULES,
        trained=SVIB_MODELS,
    ),
    "small": Size(
        ("sprites",),
        (0.2, 0.6),
        64,
        {"train": 8192, "validation": 256, "known": 512, "test": 512},
        HeadSettings(3000, batch=64, points=128, rate=5e-3, checks=15, width=96, components=512),
        {"scenes": 4096, "epochs": 8},
        {"scenes": 4096, "test_scenes": 1024, "epochs": 20, "channels": 32, "pixels": 64},
        trained=SVIB_MODELS,
        references=tuple(REFERENCES),
    ),
    "tiny": Size(
        ("sprites",),
        (0.6,),
        32,
        {"train": 2048, "validation": 256, "known": 256, "test": 256},
        HeadSettings(),
        {"scenes": 2048, "epochs": 8},
        {"scenes": 512, "test_scenes": 256, "epochs": 20, "channels": 16, "pixels": 32},
        references=tuple(REFERENCES),
        training_images=512,
        scene_worlds=(),
    ),
}  # fmt: skip


def jobs(folder: ResultFolder, request: Request) -> list[Job]:
    """A cell for each model, world, rule, alpha and seed, and one for each world whose whole scenes are read."""
    readers = [_reader_job(folder, request, settings) for settings in scene_readers(request)]
    wanted = (*(name for name in METRICS if _wants(request, name)), *own_names(request.metrics))
    if not wanted:
        return readers
    _check_alphas(request)
    return [*(_job(folder, request, each) for each in examinations(folder, request, wanted)), *readers]


def scene_readers(request: Request) -> list[SceneReaderSettings]:
    """The networks that read whole scenes: if a value of theirs is requested by name, or nothing else is.

    They are about worlds, so a request of models has none. Only worlds with a camera have a nearer object.
    """
    size = SIZES[request.size]
    named = bool(request.metrics) and any(map(request.wants, SCENE_ACCURACIES))
    if request.only_loaded or not (named or not (request.metrics or request.models)):
        return []
    default = size.scene_worlds or (("clevrtex",) if named else ())
    chosen = [world for world in request.worlds or default if world in _WITH_CAMERA]
    if named and not chosen:
        raise InputError(f"whole scenes are read in worlds with a camera; add --worlds {' or '.join(_WITH_CAMERA)}")
    chosen = chosen if named else [world for world in chosen if world in size.scene_worlds]
    return [SceneReaderSettings(world, **size.scene_reader) for world in chosen]


def _reader_job(folder: ResultFolder, request: Request, settings: SceneReaderSettings) -> Job:
    labels: dict[str, Label] = {
        "size": request.size,
        "world": settings.world,
        "pixels": settings.pixels,
        "reader": LABEL,
    }
    kind = torch.device(request.device).type
    device = {} if kind == "cpu" else {"device": kind}  # sums are rounded differently
    inputs = {"reader": settings.settings, "protocol": PROTOCOL, **device}
    cell = Cell(study="imagination", labels=labels, inputs=inputs)
    return Job(cell, partial(reader_values, folder, settings, request.device), None, settings.pixels)


def _wants(request: Request, name: str) -> bool:
    """Whether the request wants a value, or one over alphas that is computed from it."""
    return request.wants(name) or (name in ERRORS and any(map(request.wants, OVER_ALPHAS)))


def _check_alphas(request: Request) -> None:
    """Raise an InputError if a value over alphas is requested by name and there are not several alphas."""
    named = [name for name in OVER_ALPHAS if request.metrics and request.wants(name)]
    if named and request.only_loaded:
        raise InputError(
            f"only a study computes {named[0]}: alebrije study imagination --alphas 0.2 0.6 --metrics '{named[0]}'"
        )
    alphas = set(request.alphas or SIZES[request.size].alphas)
    if named and len(alphas) < 2:
        only = ", ".join(f"{alpha:g}" for alpha in alphas)
        raise InputError(f"{named[0]} needs at least two alphas, and there is only {only}; add --alphas 0.2 0.6")


def examinations(folder: ResultFolder, request: Request, wanted: tuple[str, ...] = METRICS) -> Iterator[Examination]:
    """Each model on each corpus. A model that predicts by itself is examined on its own task only."""
    size = SIZES[request.size]
    corpora = [
        Corpus(world, rule, alpha, size.pixels)
        for world in request.worlds or size.worlds
        for rule in _rules(request) or size.rules
        for alpha in request.alphas or size.alphas
    ]
    seeds = request.training_seeds(1)
    names = request.model_names((*size.references, *size.trained))
    loaded = [*(request.load(name) for name in names if ":" in name), *request.loaded_models(size.pixels)]
    plans = [episode_plan(model) for model in loaded]
    for corpus in corpora:
        for name in names:
            if ":" not in name:
                for seed in seeds:
                    yield _by_name(folder, request, wanted, corpus, name, seed)
        for model, own in zip(loaded, plans, strict=True):
            if own is None:
                for seed in seeds:
                    yield _examination(request, wanted, corpus, model, seed)
    for model, own in zip(loaded, plans, strict=True):
        if own is not None:
            corpus = _own_corpus(own)
            if request.yardsticks:
                yield from (_examination(request, wanted, corpus, each, 0) for each in loaded if is_pixels(each))
            else:
                _check_own_task(request, model, corpus)
            yield _examination(request, wanted, corpus, model, own.seed)


def _rules(request: Request) -> tuple[str, ...]:
    """The requested rules; `analysis` is all of the analysis, kind by kind."""
    of_analysis = tuple(rule for kind in ANALYSIS_RULES.values() for rule in kind)
    found = (each for rule in request.rules for each in (of_analysis if rule == ANALYSIS else (rule,)))
    return tuple(dict.fromkeys(found))


def _check_own_task(request: Request, model: Model, own: Corpus) -> None:
    """Raise an InputError if the request excludes the task that a model was trained on; warn about other tasks."""
    rule, alpha, rules = own.rule, own.alpha, _rules(request)
    name, trained = model.labels["model"], f"{own.world} {rule} at alpha {alpha:g}"
    asked = ((own.world, request.worlds), (rule, rules), (alpha, request.alphas))
    if any(among and each not in among for each, among in asked):
        raise InputError(
            f"{name} was trained on {trained} and predicts nothing else; leave out --worlds, --rules and --alphas, or "
            f"include {own.world}, {rule} and {alpha:g}"
        )
    tasks = dict.fromkeys(product(request.worlds or (own.world,), rules or (rule,), request.alphas or (alpha,)))
    others = [task for task in tasks if task != (own.world, rule, alpha)]
    if others:
        skipped = ", ".join(f"{'' if w == own.world else f'{w} '}{r} at {a:g}" for w, r, a in others)
        message = f"{name} was trained on {trained} and predicts nothing else; skipped: {skipped}"
        warnings.warn(message, SkippedTasksWarning, stacklevel=2)


def _own_corpus(own: Plan) -> Corpus:
    """Episodes of the task that a model learned from."""
    assert own.rule is not None
    return Corpus(own.world, own.rule, 0.6 if own.alpha is None else own.alpha, own.size)


def _by_name(
    folder: ResultFolder, request: Request, wanted: tuple[str, ...], corpus: Corpus, name: str, seed: int
) -> Examination:
    """The examination of a reference, or of a model that is trained for it."""
    if name in REFERENCES:
        return _examination(request, wanted, corpus, reference(name, corpus.pixels), seed)
    own = replace(
        _plan(get_model(name).name, request.size, corpus.world), rule=corpus.rule, alpha=corpus.alpha, seed=seed
    )
    model = TrainedModel(own, folder, request.device)
    if own.predicts:
        return _examination(request, wanted, _own_corpus(own), model, seed)
    return _examination(request, wanted, corpus, model, 0)


@cache
def _plan(model: str, size_name: SizeName, world: str) -> Plan:
    """The plan of a model, checked once: rule, alpha and seed do not decide whether it can be carried out."""
    size = SIZES[size_name]
    images = size.training_images if get_model(model).learns_from == "episodes" else None
    return plan(model, preset_name=size_name, world=world, images=images, settings=size.settings)


def _examination(request: Request, wanted: tuple[str, ...], corpus: Corpus, model: Model, seed: int) -> Examination:
    """The examination of a model: with a head, unless it predicts by itself."""
    size = SIZES[request.size]
    head = size.head if episode_plan(model) is None else None
    reads = set(ACCURACIES) & set(wanted)
    reader = ReaderSettings(corpus.world, corpus.pixels, **size.reader) if reads else None
    return Examination(model, corpus, size.counts, head, reader, wanted, request.device, seed)


def _job(folder: ResultFolder, request: Request, examination: Examination) -> Job:
    head, corpus = examination.head, examination.corpus
    counts = {name: n for name, n in examination.counts.items() if head is not None or name in ("known", "test")}
    inputs = {
        "subject": identity_on(examination.model, request.device),
        "episodes": {subset: corpus.settings(subset, count) for subset, count in counts.items()},
        "head": None if head is None else {**head.settings, "seed": examination.seed},
        "metrics": metric_inputs(examination),
        "protocol": PROTOCOL,
    }
    cell = Cell(study="imagination", labels={"size": request.size, **examination.labels}, inputs=inputs)
    work = partial(compute_values, folder, cell, examination)
    together, ahead = None, None
    if head is not None and torch.device(examination.device).type == "cuda":
        stored = partial(examination.stored_codes, folder, cell)
        ahead = stored if examination.stores_codes else examination.compile_heads
        key = ("heads", corpus.world, corpus.rule, corpus.pixels, head)
        together = Together(key, (cell, examination), partial(start_values, folder))
    return Job(cell, work, examination.model, corpus.pixels, together, ahead=ahead)
