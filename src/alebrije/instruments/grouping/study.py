"""The study of grouping: sizes, and the cells of a request.

Zimmermann et al. 2023, Sections 3 and 4.1: how ARI, its precision and its recall depend on the number of slots in
training and at test time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from alebrije.data.user_images import PREFIX, world_label
from alebrije.errors import InputError
from alebrije.instruments.grouping.images import Corpus
from alebrije.instruments.grouping.slots import CORRELATIONS, has_free_slots, with_test_slots
from alebrije.instruments.grouping.user_corpus import corpus_of
from alebrije.instruments.grouping.values import METRICS, compute_values
from alebrije.metrics import find
from alebrije.results import Cell
from alebrije.results.cells import Label
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Job
from alebrije.studies.model import LoadedModel, Model, TrainedModel, plan_of
from alebrije.studies.request import Request, SizeName, learns_from_images
from alebrije.train.plan import plan

PROTOCOL = 1  # raised when values change for a reason that no other version records


@dataclass(frozen=True)
class Size:
    """What one size of the study consists of."""

    world: str
    pixels: int
    images: int
    slots: tuple[int, ...]  # numbers of slots, in training and at test time
    seeds: int = 1
    trained: tuple[str, ...] = ()  # unless the request names models
    references: tuple[str, ...] = ("pixels", "oracle", "noise")  # projection groups like oracle
    initial: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # model -> how its slots are initialised


# The ticks of Figure 10. The paper says that it tried 15 x 15 numbers of slots, and not which.
PAPER_SLOTS = (2, 3, 4, 5, 8, 11, 14, 17, 20, 26, 32, 48, 64)
_BOTH = {"slot-attention": ("random", "learned"), "bo-qsa": ("learned", "random")}
SIZES: Mapping[SizeName, Size] = {
    "paper": Size("clevr10", 128, 320, PAPER_SLOTS, seeds=3, trained=("slot-attention",), initial=_BOTH),
    "small": Size("clevr6", 64, 256, (3, 5, 7, 9, 11), trained=("slot-attention",), initial=_BOTH),
    "tiny": Size("sprites", 32, 64, (2, 3, 4), initial={"slot-attention": ("random",), "bo-qsa": ("learned",)}),
}


def jobs(folder: ResultFolder, request: Request) -> list[Job]:
    """A cell for each model in each world, with each number of test slots if the model allows several."""
    wanted = tuple(name for name in METRICS if _wants(request, name))
    if not wanted:
        return []
    size = SIZES[request.size]
    found = []
    for world in request.worlds or (size.world,):
        corpus = corpus_of(world, size.images, size.pixels)
        found += [_job(folder, request, model, corpus, wanted) for model in _models(folder, request, world)]
    return found


def _wants(request: Request, name: str) -> bool:
    """Whether the request wants a value, or a correlation that is computed from it."""
    return request.wants(name) or any(request.wants(each) and name in pair for each, pair in CORRELATIONS.items())


def _models(folder: ResultFolder, request: Request, world: str) -> Iterator[Model]:
    size = SIZES[request.size]
    train = partial(_trained, folder, request, world)
    for model in request.select_models((*size.references, *size.trained), size.pixels, train):
        yield from _at_each_number_of_slots(model, size.slots)


def _at_each_number_of_slots(model: Model, numbers: Sequence[int]) -> Sequence[Model]:
    """A model with each number of test slots if alebrije trained it and it has slots, else the model itself."""
    if isinstance(model, (TrainedModel, LoadedModel)) and has_free_slots(plan_of(model)):
        return with_test_slots(model, numbers)
    return [model]


def _trained(folder: ResultFolder, request: Request, world: str, name: str) -> Iterator[TrainedModel]:
    """A model trained with each number of slots and each seed."""
    size, record = SIZES[request.size], learns_from_images(name, "grouping")
    settings: list[dict[str, Any]] = [{}]
    if record.free_slots:
        ways = size.initial.get(record.name, ("random",)) if "initial" in record.defaults() else ()
        starts: list[dict[str, Any]] = [{"initial": way} for way in ways] or [{}]
        settings = [{"slots": slots, **start} for start in starts for slots in size.slots]
    if world.startswith(PREFIX):
        if request.models:
            raise InputError(f"{record.name} cannot be trained on {world} by a study; train it first and pass a spec")
        return
    for own in settings:
        for seed in request.training_seeds(size.seeds):
            made = plan(name, preset_name=request.size, world=world, seed=seed, settings=own)
            yield TrainedModel(made, folder, request.device)


def _job(folder: ResultFolder, request: Request, model: Model, corpus: Corpus, wanted: tuple[str, ...]) -> Job:
    labels: dict[str, Label] = {"size": request.size, "world": world_label(corpus.world), "pixels": corpus.pixels}
    inputs = {
        "subject": dict(model.identity),
        "pictures": corpus.settings,
        "metrics": {name: find(name).version for name in wanted},
        "protocol": PROTOCOL,
    }
    cell = Cell(study="grouping", labels={**labels, **model.labels}, inputs=inputs)
    work = partial(compute_values, folder, cell, model, corpus, wanted, request.device)
    return Job(cell, work, model, corpus.pixels)
