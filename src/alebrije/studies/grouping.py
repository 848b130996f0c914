"""The study of grouping: are pixels grouped into objects, and how does that depend on the number of slots?

Zimmermann et al. 2023, Sections 3 and 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.metrics import Record, find, psnr
from alebrije.metrics.arrays import to_numpy
from alebrije.metrics.uncertainty import resample_cases
from alebrije.models import get as get_model
from alebrije.results import Cell, Value
from alebrije.results.cells import Label
from alebrije.studies.cells import Job
from alebrije.studies.folder import Folder
from alebrije.studies.grouping_grid import CORRELATIONS, after, has_number_of_slots, rows
from alebrije.studies.own_worlds import own_world
from alebrije.studies.protocol import Ask, Size, Study
from alebrije.studies.subjects import (
    REFERENCES,
    Model,
    Noise,
    Oracle,
    Pixels,
    Subject,
    Trained,
    View,
    grouped,
    reference,
    resized,
    stranger,
    subject_of,
)
from alebrije.studies.views import NotExaminedError, looking, parts, scene_arrays, scenes_of
from alebrije.train.plan import plan

GROUPING = ("fg-ari", "fg-arp", "fg-arr", "ari")
METRICS = (*GROUPING, "psnr")
DEFAULT_REFERENCES = ("pixels", "oracle", "noise")  # a projection groups as the oracle does
SAMPLES = 8  # images kept for pictures
RESAMPLES = 1000
PROTOCOL = 1  # raised when the same subject comes to other values for a reason that no other version tells
NO_GROUPS = "the model does not tell which pixels belong together"
NO_DRAWING = "the model does not draw its images again"
_AT_ONCE = 64  # images
_SEED = 0  # of the test images; training draws from streams of its own


@dataclass(frozen=True)
class Extent:
    """What a size of the study is made of."""

    world: str
    pixels: int
    images: int
    slots: tuple[int, ...]  # in training, and at the test
    seeds: int
    trained: tuple[str, ...] = ()
    initial: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # model -> how its slots begin
    settings: Mapping[str, Any] = field(default_factory=dict)  # beyond the preset


_BOTH_WAYS = {"slot-attention": ("random", "learned"), "bo-qsa": ("learned", "random")}
EXTENTS: Mapping[Size, Extent] = {
    "paper": Extent("clevr10", 128, 320, tuple(range(1, 16)), 3, ("slot-attention",), _BOTH_WAYS),
    "small": Extent("clevr6", 64, 256, (3, 5, 7, 9, 11), 1, ("slot-attention",), _BOTH_WAYS),
    "tiny": Extent("sprites", 32, 64, (2, 3, 4), 1, (), {"slot-attention": ("random",), "bo-qsa": ("learned",)}),
}


@dataclass(frozen=True)
class Pictures:
    """The images of a world on which grouping is tested."""

    world: str
    images: int
    pixels: int

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides them."""
        about = {"world": self.world, "images": self.images, "pixels": self.pixels, "seed": _SEED, "version": 1}
        return {"name": f"grouping-{self.world}", **about, **own_world(self.world)}

    def view(self, folder: Folder, device: str = "cpu") -> View:
        """The images, their masks and the scenes behind them; made when they are first asked for."""
        arrays = folder.made(self.settings, partial(_make, self, device))
        vocabulary = worlds.get(self.world).vocabulary
        images, masks = (torch.from_numpy(arrays[name]) for name in ("images", "masks"))
        return View(images, scenes_of(vocabulary, arrays), masks)


def _make(pictures: Pictures, device: str) -> Mapping[str, npt.ArrayLike]:
    world = worlds.get(pictures.world)
    scenes = world.sample(pictures.images, seed=_SEED)
    frames = world.render(scenes, pictures.pixels, device)
    return {"images": frames.images.cpu().numpy(), "masks": frames.masks.cpu().numpy(), **scene_arrays(scenes)}


def jobs(folder: Folder, ask: Ask) -> list[Job]:
    """A cell for each subject, and for each place of the grid of those whose number of slots is known."""
    wanted = tuple(name for name in METRICS if _wants(ask, name))
    if not wanted:
        return []
    extent = EXTENTS[ask.size]
    made = []
    for world in ask.worlds or (extent.world,):
        _see_that_it_has_objects(world)
        pictures = Pictures(worlds.get(world).name, extent.images, extent.pixels)
        made += [_job(folder, ask, subject, pictures, wanted) for subject in subjects(folder, ask, world)]
    return made


def _see_that_it_has_objects(world: str) -> None:
    """Raise an InputError for a world whose scenes hold a single object, where there is nothing to tell apart."""
    if worlds.get(world).sample(1, seed=_SEED).objects < 2:
        raise InputError(
            f"grouping needs scenes of several objects, and {world} has one in each; take sprites, clevr6 or clevr10"
        )


def _wants(ask: Ask, name: str) -> bool:
    """Whether a value is asked for, or a correlation that is found from it."""
    return ask.wants(name) or any(ask.wants(each) and name in pair for each, pair in CORRELATIONS.items())


def subjects(folder: Folder, ask: Ask, world: str) -> list[Subject]:
    """Who is examined: references, models trained here with each number of slots, and those at hand."""
    extent = EXTENTS[ask.size]
    found: list[Subject] = []
    names = () if ask.only_subjects else ask.models or (*DEFAULT_REFERENCES, *extent.trained)
    for name in names:
        if name in REFERENCES:
            found.append(reference(name, extent.pixels))
        elif ":" in name:
            found += _at_each_number(subject_of(name, device=ask.device), extent)
        else:
            found += _grid(folder, ask, name, world)
    return [*found, *(each for subject in ask.examined(extent.pixels) for each in _at_each_number(subject, extent))]


def _at_each_number(subject: Subject, extent: Extent) -> Sequence[Subject]:
    """A subject with each number of test slots if it was trained here and has slots, or else as it is."""
    if isinstance(subject, Trained) and has_number_of_slots(subject.plan):
        return rows(subject, extent.slots)
    if isinstance(subject, Model) and has_number_of_slots(subject.adapted.plan):
        return rows(subject, extent.slots)
    return [subject]


def _grid(folder: Folder, ask: Ask, name: str, world: str) -> list[Subject]:
    """A model trained with each number of slots, from each seed, and looked at with each number."""
    extent, record = EXTENTS[ask.size], get_model(name)
    if record.learns_from != "images":
        raise InputError(f"{record.title} learns from episodes, and grouping is studied of what learns from images")
    seeds = range(extent.seeds if ask.seeds is None else ask.seeds)
    own: list[dict[str, Any]] = [{}]
    if {"slots", "initial"} <= set(record.defaults()):
        ways = extent.initial.get(record.name, ("random",))
        own = [{"slots": slots, "initial": way} for way in ways for slots in extent.slots]
    found: list[Subject] = []
    for settings in own:
        for seed in seeds:
            made = plan(name, preset_name=ask.size, world=world, seed=seed, settings={**extent.settings, **settings})
            found += _at_each_number(Trained(made, folder, ask.device), extent)
    return found


def _job(folder: Folder, ask: Ask, subject: Subject, pictures: Pictures, wanted: tuple[str, ...]) -> Job:
    labels: dict[str, Label] = {"size": ask.size, "world": pictures.world, "pixels": pictures.pixels}
    inputs = {
        "subject": dict(subject.identity),
        "pictures": pictures.settings,
        "metrics": {name: find(name).version for name in wanted},
        "protocol": PROTOCOL,
    }
    cell = Cell(study="grouping", labels={**labels, **subject.labels}, inputs=inputs)
    task = partial(work, folder, cell, subject, pictures, wanted, ask.device)
    return Job(cell, task, stranger(subject), pictures.pixels)


def work(
    folder: Folder, cell: Cell, subject: Subject, pictures: Pictures, wanted: Sequence[str], device: str
) -> dict[str, Value]:
    """The values of a cell; what its pictures need is kept."""
    view = pictures.view(folder, device)
    assert view.scenes is not None
    assert view.masks is not None
    objects = view.scenes.present.sum(1).numpy()
    try:
        groups, drawn = seen(subject, view, draws="psnr" in wanted)
    except NotExaminedError as error:
        return {name: _null(find(name), str(error)) for name in wanted}
    values: dict[str, Value] = {}
    for name in wanted:
        record = find(name)
        if name == "psnr":
            scores = None if drawn is None else _likeness(view, drawn)
            values[name] = _mean(record, scores, objects, NO_DRAWING)
        else:
            scores = None if groups is None else to_numpy(record(view.masks.long(), groups))
            values[name] = _mean(record, scores, objects, NO_GROUPS)
    _keep(folder, cell, view, groups, drawn)
    return values


def seen(subject: Subject, view: View, draws: bool = True) -> tuple[Tensor | None, Tensor | None]:
    """The group of each pixel [B, H, W] and the images drawn again [B, 3, h, w]; None where the subject has none."""
    groups, drawn = [], []
    draws = draws and not isinstance(subject, (Pixels, Oracle, Noise))
    for part in parts(view, _AT_ONCE):
        with looking(subject):
            encoding = subject.encode(part) if draws else None
            # what it draws and how it groups are of one look, where it is known from it
            group = None if encoding is None else grouped(encoding, part)
            group = subject.group(part) if group is None else group
            again = None if encoding is None else encoding.reconstruction
        groups += [] if group is None else [group.cpu().long()]
        drawn += [] if again is None else [again.detach().float().clamp(0, 1).cpu()]
    return torch.cat(groups) if groups else None, torch.cat(drawn) if drawn else None


def _likeness(view: View, drawn: Tensor) -> npt.NDArray[np.float64]:
    """PSNR of each image at the size at which the model draws."""
    target = resized(view.images, drawn.shape[-1])
    return np.asarray(to_numpy(psnr(target, drawn.expand_as(target))), dtype=np.float64)


def _mean(record: Record, scores: npt.NDArray[Any] | None, objects: npt.NDArray[Any], reason: str) -> Value:
    """The mean over images with its standard error and interval, and the mean by number of objects."""
    if scores is None:
        return _null(record, reason)
    defined = ~np.isnan(scores)
    each, counts = scores[defined].astype(np.float64), objects[defined]
    if not len(each):
        return _null(record, "no image shows an object")
    by_objects = {str(count): float(each[counts == count].mean()) for count in np.unique(counts).tolist()}
    details = {"images": len(each), "by objects": by_objects}
    mean = float(each.mean())
    if len(each) < 2 or not np.isfinite(mean):
        return Value.of(record, mean, spread_reason="there are no images to resample", details=details)
    error = float(each.std(ddof=1) / len(each) ** 0.5)
    return Value.of(record, mean, resample_cases(each, RESAMPLES), standard_error=error, details=details)


def _null(record: Record, reason: str) -> Value:
    return Value(score=None, reason=reason, direction=record.direction, range=record.range)


def _keep(folder: Folder, cell: Cell, view: View, groups: Tensor | None, drawn: Tensor | None) -> None:
    """The first images for pictures."""
    assert view.masks is not None
    arrays = {"images": view.images[:SAMPLES].numpy(), "true": view.masks[:SAMPLES].numpy()}
    if groups is not None:
        arrays["groups"] = _numbered(groups[:SAMPLES]).numpy()
    if drawn is not None:
        arrays["reconstruction"] = (drawn[:SAMPLES] * 255).round().byte().numpy()
    folder.keep(cell, **arrays)


def _numbered(groups: Tensor) -> Tensor:
    """Groups with any numbers as groups from 0 that fit into a byte."""
    numbers: Tensor = torch.unique(groups, return_inverse=True)[1]
    return (numbers % 256).byte()


STUDY = Study(
    name="grouping",
    title="Grouping",
    question="Are pixels grouped into objects: too coarsely, rightly, or too finely?",
    cites="Zimmermann et al. 2023",
    jobs=jobs,
    metrics=(*METRICS, *CORRELATIONS),
    after=after,
)
