"""The study of grouping: sizes, and the cells of a request.

Zimmermann et al. 2023, Sections 3 and 4.1: how ARI, its precision and its recall depend on the number of slots in
training and at test time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

from alebrije import worlds
from alebrije.data.user_images import PREFIX, world_label
from alebrije.encoding import Shows
from alebrije.errors import InputError
from alebrije.instruments.grouping.images import Corpus
from alebrije.instruments.grouping.parts import metric_names, record_of
from alebrije.instruments.grouping.slots import CORRELATIONS, has_free_slots, with_test_slots
from alebrije.instruments.grouping.tokens import (
    Clusters,
    PixelsWithPositions,
    TokenCell,
    cluster_inputs,
    is_clustered,
)
from alebrije.instruments.grouping.user_corpus import corpus_of
from alebrije.instruments.grouping.values import compute_values
from alebrije.instruments.grouping.verdict import CLUSTERS, OBJECTS
from alebrije.models import ModelRecord
from alebrije.models import get as get_model
from alebrije.results import Cell
from alebrije.results.cells import Label
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Job
from alebrije.studies.model import LoadedModel, Model, TrainedModel, plan_of, takes_of
from alebrije.studies.own_metrics import own_names, own_versions
from alebrije.studies.references import REFERENCES
from alebrije.studies.request import Request, SizeName, learns_from_images
from alebrije.train.plan import plan

Settings = Mapping[str, Any]
ONE_VIEW = "one view"  # the label of images that are one view of each scene
PROTOCOL = 1  # raised when values change for a reason that no other version records


@dataclass(frozen=True)
class Several:
    """What one size of the study shows of worlds of videos, or of several views."""

    world: str
    pixels: int
    scenes: int
    slots: tuple[int, ...]
    trained: tuple[str, ...] = ()
    frames: int | None = None  # the first of each video; None: all


@dataclass(frozen=True)
class Size:
    """What one size of the study consists of."""

    world: str
    pixels: int
    images: int
    slots: tuple[int, ...]  # numbers of slots, in training and at test time
    videos: Several
    views: Several
    seeds: int = 1
    trained: tuple[str, ...] = ()  # unless the request names models
    references: tuple[str, ...] = ("pixels", "oracle", "noise")  # projection groups like oracle
    variants: Mapping[str, tuple[Settings, ...]] = field(default_factory=dict)  # of models, by random slots otherwise
    pixels_of: Mapping[str, int] = field(default_factory=dict)  # worlds that need others

    def shown(self, shows: Shows) -> Several:
        """What is shown of worlds of images, videos or views."""
        images = Several(self.world, self.pixels, self.images, self.slots, self.trained)
        return {"images": images, "videos": self.videos, "views": self.views}[shows]

    def of_world(self, world: str) -> Several:
        """What is shown of a world."""
        shown = self.shown(shown_by(world))
        return replace(shown, pixels=self.pixels_of.get(world, shown.pixels))


# The ticks of Figure 10. The paper says that it tried 15 x 15 numbers of slots, and not which. It says even less about
# its other figures: "up to 48" for several views, and no number above 11 for videos.
PAPER_SLOTS = (2, 3, 4, 5, 8, 11, 14, 17, 20, 26, 32, 48, 64)
VIEW_SLOTS = PAPER_SLOTS[:-1]
VIDEO_SLOTS = (3, *PAPER_SLOTS[2:-2])
_RANDOM, _LEARNED = {"initial": "random"}, {"initial": "learned"}
_VARIANTS: Mapping[str, tuple[Settings, ...]] = {
    "slot-attention": (_RANDOM, _LEARNED),
    "bo-qsa": (_LEARNED, _RANDOM),
    "slot-attention-nvs": (_RANDOM, _LEARNED, {**_RANDOM, "inputs": 2}),
    "bo-qsa-nvs": (_LEARNED, _RANDOM),
}
SIZES: Mapping[SizeName, Size] = {
    "paper": Size(
        "clevr10",
        128,
        320,
        PAPER_SLOTS,
        Several("moving", 64, 250, VIDEO_SLOTS, trained=("savi",)),
        Several("furniture", 64, 320, VIEW_SLOTS, trained=("slot-attention-nvs",)),
        seeds=3,
        trained=("slot-attention",),
        variants=_VARIANTS,
    ),
    "small": Size(
        "clevr6",
        64,
        256,
        (3, 5, 7, 9, 11),
        Several("moving", 64, 64, (3, 5, 11, 24), trained=("savi",)),
        Several("furniture", 64, 128, (3, 5, 11, 24), trained=("slot-attention-nvs",)),
        trained=("slot-attention",),
        variants=_VARIANTS,
    ),
    "tiny": Size(
        "sprites",
        32,
        64,
        (2, 3, 4),
        Several("moving", 32, 12, (2, 4), frames=12),
        Several("furniture", 32, 24, (2, 5)),
        variants={**_VARIANTS, "slot-attention": (_RANDOM,), "bo-qsa": (_LEARNED,), "bo-qsa-nvs": (_LEARNED,)},
        pixels_of=dict.fromkeys(("clevr6", "clevr10", "coat"), 64),  # objects of four pixels would have no shape
    ),
}


def jobs(folder: ResultFolder, request: Request) -> list[Job]:
    """A cell for each model in each world, with each number of test slots if the model allows several."""
    request = _loaded_once(request)
    found = []
    for world in request.worlds or _default_worlds(request):
        models = list(_models(folder, request, world))
        taken = {takes_of(model) for model in models}
        for corpus in _corpora(request, world, taken):
            wanted = _wanted(request, corpus.shows)
            fitting = [model for model in models if wanted and _fits(request, model, corpus)]
            found += [job for model in fitting for job in _jobs_of(folder, request, model, corpus, wanted)]
            if request.yardsticks and corpus.shows == "images" and any(map(is_clustered, fitting)):
                found += _jobs_of(folder, request, PixelsWithPositions(), corpus, wanted)
    return found


def shown_by(world: str) -> Shows:
    """What a world shows; images of the user are images."""
    return "images" if world.startswith(PREFIX) else worlds.get(world).shows


def _loaded_once(request: Request) -> Request:
    """The same request with the models of its specs loaded."""
    specs = [name for name in request.models if ":" in name]
    if request.only_loaded or not specs:
        return request
    names = tuple(name for name in request.models if name not in specs)
    loaded = (*(request.load(spec) for spec in specs), *request.loaded)
    return replace(request, models=names, loaded=loaded, only_loaded=not names)


def _default_worlds(request: Request) -> list[str]:
    """The world of the size for each kind of model of a request; references alone are examined on images."""
    names = () if request.only_loaded else request.models
    kinds = {takes_of(model) for model in request.loaded}
    kinds |= {get_model(name).takes for name in names if name not in REFERENCES}
    size = SIZES[request.size]
    return [size.shown(kind).world for kind in get_args(Shows) if kind in kinds] or [size.world]


def _corpora(request: Request, world: str, taken: set[Shows | None]) -> list[Corpus]:
    """What is shown of a world: its images, videos or views, and one view of each scene to models of images."""
    shows, size = shown_by(world), SIZES[request.size].of_world(world)
    whole = [corpus_of(world, size.scenes, size.pixels, size.frames)]
    if shows != "views" or "images" not in taken:
        return whole
    one_view = [corpus_of(world, size.scenes, size.pixels, one_view=True)]
    return one_view if taken <= {"images", None} else [*one_view, *whole]


def _fits(request: Request, model: Model, corpus: Corpus) -> bool:
    """Whether a model is shown a corpus; if its world was requested, a model that takes something else is refused."""
    takes = takes_of(model)
    if takes is None or takes == corpus.shows:
        return True
    if shown_by(corpus.world) == "views" and takes == "images":
        return corpus.one_view
    return bool(request.worlds) and not corpus.one_view


def _wanted(request: Request, shows: Shows) -> tuple[str, ...]:
    names = (name for name in metric_names(shows, bool(request.metrics)) if _wants(request, name))
    return (*names, *own_names(request.metrics))


def _wants(request: Request, name: str) -> bool:
    """Whether the request wants a value, or a correlation that is computed from it."""
    return request.wants(name) or any(request.wants(each) and name in pair for each, pair in CORRELATIONS.items())


def _models(folder: ResultFolder, request: Request, world: str) -> Iterator[Model]:
    size = SIZES[request.size]
    shown = size.of_world(world)
    train = partial(_trained, folder, request, world)
    for model in request.select_models((*size.references, *shown.trained), shown.pixels, train):
        yield from _at_each_number_of_slots(model, shown.slots)


def _at_each_number_of_slots(model: Model, numbers: Sequence[int]) -> Sequence[Model]:
    """A model with each number of test slots if alebrije trained it and it has slots, else the model itself."""
    if isinstance(model, (TrainedModel, LoadedModel)) and has_free_slots(plan_of(model)):
        return with_test_slots(model, numbers)
    return [model]


def _trained(folder: ResultFolder, request: Request, world: str, name: str) -> Iterator[TrainedModel]:
    """A model trained with each number of slots and each seed."""
    size, record = SIZES[request.size], _learns(name)
    settings: list[dict[str, Any]] = [{}]
    if record.free_slots:
        usual: Settings = _RANDOM if "initial" in record.defaults() else {}
        variants = size.variants.get(record.name, (usual,))
        settings = [{"slots": slots, **variant} for variant in variants for slots in size.of_world(world).slots]
    if world.startswith(PREFIX):
        if request.models:
            raise InputError(f"{record.name} cannot be trained on {world} by a study; train it first and pass a spec")
        return
    for own in settings:
        for seed in request.training_seeds(size.seeds):
            made = plan(name, preset_name=request.size, world=world, seed=seed, settings=own)
            yield TrainedModel(made, folder, request.device)


def _learns(name: str) -> ModelRecord:
    """The record of a model that learns from images, videos or views; an InputError for others."""
    record = get_model(name)
    return record if record.learns_from in ("videos", "views") else learns_from_images(name, "grouping")


def _jobs_of(
    folder: ResultFolder, request: Request, model: Model, corpus: Corpus, wanted: tuple[str, ...]
) -> list[Job]:
    """The cell of a model, or one for each number of clusters if its tokens are clustered."""
    clustered = corpus.shows == "images" and is_clustered(model)
    fixed = () if request.yardsticks or not clustered else SIZES[request.size].slots
    numbers: tuple[Clusters | None, ...] = (OBJECTS, *fixed) if clustered else (None,)
    return [_job(folder, request, model, corpus, wanted, clusters) for clusters in numbers]


def _job(
    folder: ResultFolder,
    request: Request,
    model: Model,
    corpus: Corpus,
    wanted: tuple[str, ...],
    clusters: Clusters | None,
) -> Job:
    labels: dict[str, Label] = {"size": request.size, "world": world_label(corpus.world), "pixels": corpus.pixels}
    labels |= {"corpus": ONE_VIEW} if corpus.one_view else {}
    inputs = {
        "subject": dict(model.identity),
        "pictures": corpus.settings,
        "metrics": {name: record_of(name).version for name in wanted} | own_versions(wanted),
        "protocol": PROTOCOL,
    }
    labels |= model.labels
    if clusters is None:
        cell = Cell(study="grouping", labels=labels, inputs=inputs)
        work = partial(compute_values, folder, cell, model, corpus, wanted, request.device)
        return Job(cell, work, model, corpus.pixels, shows=corpus.shows)
    labels[CLUSTERS], inputs["tokens"] = clusters, cluster_inputs(clusters)
    cell = Cell(study="grouping", labels=labels, inputs=inputs)
    tokens = TokenCell(folder, cell, model, corpus, wanted, request.device, clusters)
    return Job(cell, tokens.compute, model, corpus.pixels, together=tokens.together)
