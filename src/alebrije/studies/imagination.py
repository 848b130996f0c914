"""The study of imagination: what would the scene look like after a rule, where its parts are combined as never before?

Kim et al. 2023 (SVIB). Models that learn from episodes predict by themselves. Any other encoder stays as it is, and a
head learns to draw the target from the code of the source; what the code tells is then what can be imagined from it.
An encoder that is trained for this study learns from the sources of training episodes, so it meets none of the
combinations held out. The label `encoder_saw` says so; an encoder of which it is not known has no such label.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from alebrije.errors import InputError
from alebrije.metrics import find
from alebrije.models import get as get_model
from alebrije.results import Cell, Value
from alebrije.results.cells import Label
from alebrije.seeding import seeded
from alebrije.studies.cells import Job
from alebrije.studies.folder import Folder
from alebrije.studies.imagination_alphas import AFTER, ENCODER_SAW, after
from alebrije.studies.imagination_episodes import Lot, Setting, Shown
from alebrije.studies.imagination_factors import Course
from alebrije.studies.imagination_head import Drawer, Lesson, codes_of
from alebrije.studies.imagination_scores import (
    ERRORS,
    LPIPS,
    READ,
    Imagined,
    errors,
    factors_read,
    perceptual,
    perceptual_weights,
    samples,
)
from alebrije.studies.protocol import Ask, Size, Study
from alebrije.studies.subjects import REFERENCES, Model, Subject, Trained, reference, stranger, subject_of
from alebrije.studies.views import NotExaminedError
from alebrije.train.plan import Plan, plan
from alebrije.train.sources import seen

METRICS = (*ERRORS, LPIPS, *READ)
BASELINES = ("i2i-cnn", "i2i-vit", "ssm-vae", "ssm-slot", "oracle")
SVIB_ORACLE = "svib-oracle"  # `oracle` alone is the reference, as in every study
RULES = ("S-A", "M-A", "S-NA", "M-NA")
SAMPLES = 8  # episodes kept for pictures
PROTOCOL = 1  # raised when the same subject comes to other values for a reason that no other version tells
_AT_ONCE = 64  # images
_CATALOGUED = {"mse-sum": ERRORS, "gap": ("gap",), LPIPS: (LPIPS,)}  # metrics that values come from


class LeftOutWarning(UserWarning):
    """Something that was asked for is not examined; the message names it and says why."""


@dataclass(frozen=True)
class Extent:
    """What a size of the study is made of."""

    worlds: tuple[str, ...]
    alphas: tuple[float, ...]
    pixels: int  # where a head draws; models that predict by themselves have a size of their own
    counts: Mapping[Lot, int]
    lesson: Lesson
    course: Mapping[str, int]
    rules: tuple[str, ...] = RULES[:1]
    trained: tuple[str, ...] = ()  # unless models are named
    references: tuple[str, ...] = ()
    images: int | None = None  # episodes that models learn from here, where that is not as in the preset
    settings: Mapping[str, Any] = field(default_factory=dict)  # beyond the preset


EXTENTS: Mapping[Size, Extent] = {
    "paper": Extent(
        ("sprites", "clevr", "clevrtex"),
        (0.0, 0.2, 0.4, 0.6),
        128,
        {"train": 16_384, "validation": 1024, "known": 8000, "test": 8000},
        Lesson(30_000, batch=256, points=512, rate=2e-3, checks=30, width=192, hidden=128, layers=3, components=512),
        {"scenes": 32_768, "epochs": 20, "channels": 32},
        rules=RULES,
        trained=BASELINES,
    ),
    "small": Extent(
        ("sprites",),
        (0.2, 0.6),
        64,
        {"train": 8192, "validation": 256, "known": 512, "test": 512},
        Lesson(3000, batch=64, points=128, rate=5e-3, checks=15, width=96, components=512),
        {"scenes": 4096, "epochs": 8},
        trained=BASELINES,
        references=REFERENCES,
    ),
    "tiny": Extent(
        ("sprites",),
        (0.6,),
        32,
        {"train": 2048, "validation": 256, "known": 256, "test": 256},
        Lesson(),
        {"scenes": 2048, "epochs": 8},
        references=REFERENCES,
        images=512,
    ),
}


@dataclass(frozen=True)
class Examination:
    """A subject in a setting; without a lesson it predicts by itself."""

    subject: Subject
    setting: Setting
    counts: Mapping[Lot, int]
    lesson: Lesson | None
    course: Course | None  # none where no factors are to be read
    wanted: tuple[str, ...]
    device: str
    seed: int  # of the head

    @property
    def inputs(self) -> dict[str, Any]:
        """All that decides the values."""
        lots = {lot: count for lot, count in self.counts.items() if self.lesson is not None or lot in ("known", "test")}
        return {
            "subject": dict(self.subject.identity),
            "episodes": {lot: self.setting.settings(lot, count) for lot, count in lots.items()},
            "head": None if self.lesson is None else {**self.lesson.settings, "seed": self.seed},
            "metrics": self._metrics,
            "protocol": PROTOCOL,
        }

    @property
    def _metrics(self) -> dict[str, Any]:
        """What is wanted and what only that depends on: results that differ in nothing else are taken together."""
        versions = {name: find(name).version for name, values in _CATALOGUED.items() if set(values) & set(self.wanted)}
        return {
            **versions,
            "values": list(self.wanted),
            "reader": None if self.course is None else self.course.settings,
            **({"lpips weights": perceptual_weights()} if LPIPS in self.wanted else {}),
        }

    @property
    def labels(self) -> dict[str, Label]:
        """What tells its cell from others."""
        setting = self.setting
        place: dict[str, Label] = {"world": setting.world, "rule": setting.rule, "alpha": setting.alpha}
        place |= {"pixels": setting.pixels, "drawn_by": "itself" if self.lesson is None else "head", "seed": self.seed}
        saw = None if self.lesson is None else encoder_saw(self.subject, setting)
        return {**place, **({} if saw is None else {ENCODER_SAW: saw}), **self.subject.labels}


def encoder_saw(subject: Subject, setting: Setting) -> str | None:
    """Which combinations of a world an encoder learned from.

    None where that is not known, as of models from elsewhere, for references, and for models of other worlds.
    """
    learned = _learned(subject)
    if learned is None or learned.world != setting.world:
        return None
    if learned.rule is None:
        return "all combinations"
    return "training combinations" + ("" if learned.alpha == setting.alpha else f" of alpha {learned.alpha:g}")


def jobs(folder: Folder, ask: Ask) -> list[Job]:
    """A cell for each subject and setting."""
    wanted = tuple(name for name in METRICS if ask.wants(name) or (name in ERRORS and any(map(ask.wants, AFTER))))
    if not wanted:
        return []
    _see_that_alphas_are_several(ask)
    return [_job(folder, ask, each) for each in examinations(folder, ask, wanted)]


def _see_that_alphas_are_several(ask: Ask) -> None:
    """Raise an InputError where a value over several alphas is asked for by name and cannot be found."""
    named = [name for name in AFTER if ask.metrics and ask.wants(name)]
    if named and ask.only_subjects:
        raise InputError(
            f"{named[0]} is found by a study alone: alebrije study imagination --alphas 0.2 0.6 --metrics '{named[0]}'"
        )
    alphas = set(ask.alphas or EXTENTS[ask.size].alphas)
    if named and len(alphas) < 2:
        only = ", ".join(f"{alpha:g}" for alpha in alphas)
        raise InputError(f"{named[0]} needs two alphas or more, and there is only {only}; give --alphas 0.2 0.6")


def examinations(folder: Folder, ask: Ask, wanted: tuple[str, ...] = METRICS) -> Iterator[Examination]:
    """Who is examined in which setting."""
    extent = EXTENTS[ask.size]
    settings = [
        Setting(world, rule, alpha, extent.pixels)
        for world in ask.worlds or extent.worlds
        for rule in ask.rules or extent.rules
        for alpha in ask.alphas or extent.alphas
    ]
    seeds = range(1 if ask.seeds is None else ask.seeds)
    at_hand = [
        *(subject_of(name, device=ask.device) for name in _named(ask) if ":" in name),
        *ask.examined(extent.pixels),
    ]
    for setting in settings:
        for name in _named(ask):
            if ":" not in name:
                for seed in seeds:
                    yield _asked(folder, ask, wanted, setting, name, seed)
        for subject in at_hand:
            if own_plan(subject) is None:
                for seed in seeds:
                    yield _with_head(ask, wanted, setting, subject, seed)
    for subject in at_hand:
        own = own_plan(subject)
        if own is not None:
            _see_that_its_own_is_asked(ask, subject, own)
            _tell_what_is_left_out(ask, subject, own)
            yield _by_itself(ask, wanted, subject, own)


def _see_that_its_own_is_asked(ask: Ask, subject: Subject, own: Plan) -> None:
    """Raise an InputError where a model that predicts by itself is asked for other tasks than its own."""
    rule, alpha = _own_task(own)
    asked = ((own.world, ask.worlds), (rule, ask.rules), (alpha, ask.alphas))
    if any(among and each not in among for each, among in asked):
        raise InputError(
            f"{subject.labels['model']} learned {own.world} {rule} at alpha {alpha:g} and can be asked for that alone; "
            f"leave out --worlds, --rules and --alphas, or have {own.world}, {rule} and {alpha:g} among them"
        )


def _tell_what_is_left_out(ask: Ask, subject: Subject, own: Plan) -> None:
    """Warn of what is asked for by name beside the one task that a model predicts."""
    rule, alpha = _own_task(own)
    asked = dict.fromkeys(product(ask.worlds or (own.world,), ask.rules or (rule,), ask.alphas or (alpha,)))
    others = [each for each in asked if each != (own.world, rule, alpha)]
    if not others:
        return
    left_out = ", ".join(f"{'' if world == own.world else f'{world} '}{law} at {part:g}" for world, law, part in others)
    learned = f"{own.world} {rule} at alpha {alpha:g}"
    sentence = f"{subject.labels['model']} was trained on {learned} and predicts nothing else; left out: {left_out}"
    warnings.warn(sentence, LeftOutWarning, stacklevel=2)


def _own_task(own: Plan) -> tuple[str, float]:
    """The rule and the alpha of the episodes that a model learned from."""
    assert own.rule is not None
    return own.rule, 0.6 if own.alpha is None else own.alpha


def _named(ask: Ask) -> tuple[str, ...]:
    if ask.only_subjects:
        return ()
    extent = EXTENTS[ask.size]
    trained = (SVIB_ORACLE if name == "oracle" else name for name in extent.trained)
    return ask.models or (*extent.references, *trained)


def own_plan(subject: Subject) -> Plan | None:
    """The plan of a model that learned from episodes here, and so predicts by itself; else None."""
    made = _learned(subject)
    return made if made is not None and made.predicts else None


def _learned(subject: Subject) -> Plan | None:
    if isinstance(subject, Trained):
        return subject.plan
    return subject.adapted.plan if isinstance(subject, Model) else None


def _asked(folder: Folder, ask: Ask, wanted: tuple[str, ...], setting: Setting, name: str, seed: int) -> Examination:
    """The examination of a reference, or of a model that is trained for it."""
    if name in REFERENCES:
        return _with_head(ask, wanted, setting, reference(name, setting.pixels), seed)
    record = get_model("oracle" if name == SVIB_ORACLE else name)
    made = _plan(record.name, ask.size, setting.world)
    own = replace(made, rule=setting.rule, alpha=setting.alpha, seed=seed)
    subject = Trained(own, folder, ask.device)
    return _by_itself(ask, wanted, subject, own) if own.predicts else _with_head(ask, wanted, setting, subject, 0)


@cache
def _plan(model: str, size: Size, world: str) -> Plan:
    """A plan that is tried once; rules, alphas and seeds make no difference to whether it can be carried out."""
    extent, episodes = EXTENTS[size], get_model(model).learns_from == "episodes"
    images = extent.images if episodes else None
    return plan(model, preset_name=size, world=world, images=images, settings=extent.settings)


def _with_head(ask: Ask, wanted: tuple[str, ...], setting: Setting, subject: Subject, seed: int) -> Examination:
    extent = EXTENTS[ask.size]
    course = _course(extent, setting, wanted)
    return Examination(subject, setting, extent.counts, extent.lesson, course, wanted, ask.device, seed)


def _by_itself(ask: Ask, wanted: tuple[str, ...], subject: Subject, own: Plan) -> Examination:
    extent = EXTENTS[ask.size]
    setting = Setting(own.world, *_own_task(own), own.size)
    course = _course(extent, setting, wanted)
    return Examination(subject, setting, extent.counts, None, course, wanted, ask.device, own.seed)


def _course(extent: Extent, setting: Setting, wanted: tuple[str, ...]) -> Course | None:
    return Course(setting.world, setting.pixels, **extent.course) if set(READ) & set(wanted) else None


def _job(folder: Folder, ask: Ask, each: Examination) -> Job:
    cell = Cell(study="imagination", labels={"size": ask.size, **each.labels}, inputs=each.inputs)
    return Job(cell, partial(work, folder, cell, each), stranger(each.subject), each.setting.pixels)


def work(folder: Folder, cell: Cell, each: Examination) -> dict[str, Value]:
    """The values of a cell; what its pictures need is kept."""
    lots = {lot: each.setting.episodes(folder, lot, each.counts[lot], each.device) for lot in ("known", "test")}
    try:
        drawn = predictions(folder, each, lots)
    except NotExaminedError as error:
        return {name: Value(score=None, reason=str(error)) for name in each.wanted}
    known, new = (Imagined(lots[lot], drawn[lot]) for lot in ("known", "test"))
    values = errors(known, new) if set(ERRORS) & set(each.wanted) else {}
    if LPIPS in each.wanted:
        values[LPIPS] = perceptual(new)
    if each.course is not None:
        values |= factors_read(each.course.reader(folder, each.device), known, new)
    folder.keep(cell, **samples(known, new, SAMPLES))
    return {name: value for name, value in values.items() if name in each.wanted}


def predictions(folder: Folder, each: Examination, lots: Mapping[str, Shown]) -> dict[str, Tensor]:
    """What a subject imagines of the targets of some lots of episodes: floats in 0..1 [B, 3, H, W]."""
    if each.lesson is None:
        model = _model(each.subject)
        return {name: predicted(model, shown, torch.device(each.device)) for name, shown in lots.items()}
    codes = {name: codes_of(each.subject, shown) for name, shown in lots.items()}  # before anything is learned in vain
    learned = [each.setting.episodes(folder, lot, each.counts[lot], each.device) for lot in ("train", "validation")]
    train, held = ((codes_of(each.subject, shown), shown.target) for shown in learned)
    drawer = Drawer(train, held, each.lesson, each.seed, each.device)
    return {name: drawer(code) for name, code in codes.items()}


def _model(subject: Subject) -> nn.Module:
    model = subject.model() if isinstance(subject, Trained) else None
    if isinstance(subject, Model) and isinstance(subject.adapted.model, nn.Module):
        model = subject.adapted.model.eval()
    if model is None:
        raise InputError(f"{subject.labels['model']} is no model that predicts by itself")
    return model


@torch.no_grad()
def predicted(model: nn.Module, shown: Shown, device: torch.device) -> Tensor:
    """What a model that learned from episodes predicts; where it draws random numbers, always the same."""
    drawn = []
    model = model.to(device)
    for first in range(0, len(shown), _AT_ONCE):
        batch = {name: seen(tensor) for name, tensor in shown.batch(first, _AT_ONCE, device).items()}
        with seeded(first, device):
            drawn.append(model.predict(batch).float().clamp(0, 1).cpu())  # type: ignore[operator]
    return torch.cat(drawn)


STUDY = Study(
    name="imagination",
    title="Imagination",
    question="Can the model imagine what a rule makes of a scene whose parts it never saw combined?",
    cites="Kim et al. 2023",
    jobs=jobs,
    metrics=(*METRICS, *AFTER),
    after=after,
    reads=("rules", "alphas"),
)
