"""The study of analogies: do the codes of scenes add and subtract like the scenes do? (COAT, Xie et al. 2022)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from alebrije.errors import InputError
from alebrije.metrics import Record, find, match_slots
from alebrije.metrics.analogy import HARD_NEGATIVES
from alebrije.metrics.arrays import to_numpy
from alebrije.metrics.uncertainty import resample_cases
from alebrije.models import get as get_model
from alebrije.results import Cell, Value
from alebrije.results.cells import Label
from alebrije.studies.analogy_codes import (
    NO_SCENE,
    VARIANTS,
    Codes,
    codes_of,
    has_slots,
    processed,
    whole_scene,
)
from alebrije.studies.analogy_corpora import CORPORA, QUADRUPLE, Corpus
from alebrije.studies.analogy_curves import checkpoint_subjects
from alebrije.studies.analogy_files import Rows
from alebrije.studies.cells import Job
from alebrije.studies.folder import Folder
from alebrije.studies.protocol import Ask, Size, Study
from alebrije.studies.subjects import REFERENCES, Model, Subject, Trained, View, reference, stranger, subject_of
from alebrije.studies.views import NotExaminedError
from alebrije.train.plan import Plan, plan
from alebrije.train.sources import known_factors

COAT_METRICS = ("coat", "coat-l2", "coat-acos")
METRICS = (*COAT_METRICS, "tre", "fg-ari")
TRAIN_SETS = {"coat": "iid", "coat-correlated": "correlated"}  # worlds, and what Table 1 calls them
SAMPLES = 8  # cases kept for pictures
RESAMPLES = 1000
PROTOCOL = 1  # raised when the same subject comes to other values for a reason that no other version tells
WIDEST = 4096  # numbers of a code that TRE can compose
FINEST = 6  # parts of the ground along each side in which TRE knows places
_CHECKPOINTS = "checkpoints:"  # a spec of this study: every checkpoint of a run


@dataclass(frozen=True)
class Extent:
    """What a size of the study is made of."""

    cases: int
    pixels: int
    codes: int  # pixels a side of the reference `pixels`, whose codes are long
    trained: Mapping[str, tuple[str, ...]]  # world -> models that are trained on it
    seeds: int
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of each model, beyond its preset
    images: int | None = None  # that each model learns from


_MODELS = ("ae", "beta-tcvae", "slot-attention", "moco")
_LATENTS = {"latents": 256, "likelihood": "gaussian"}
EXTENTS: Mapping[Size, Extent] = {
    # Table 1: five seeds, and the correlated training set for models with slots
    "paper": Extent(1600, 128, 128, {"coat": _MODELS, "coat-correlated": ("slot-attention",)}, seeds=5),
    "small": Extent(
        256,
        128,
        64,
        {"coat": _MODELS, "coat-correlated": ("slot-attention",)},
        seeds=1,
        settings={"ae": _LATENTS, "beta-tcvae": {**_LATENTS, "beta": 1.0}},
        images=20_000,
    ),
    "tiny": Extent(
        32,
        64,
        64,
        {},
        seeds=1,
        settings={"ae": {"latents": 64}, "beta-tcvae": {"latents": 64}, "slot-attention": {"slots": 7, "steps": 150}},
        images=256,
    ),
}


def jobs(folder: Folder, ask: Ask) -> list[Job]:
    """A cell for each subject, corpus and variant of its slots."""
    extent = EXTENTS[ask.size]
    wanted = tuple(name for name in METRICS if ask.wants(name))
    if not wanted:
        return []
    corpora = [Corpus(name, extent.cases, extent.pixels) for name in CORPORA]
    made = []
    for subject in subjects(folder, ask):
        variants: tuple[str | None, ...] = VARIANTS if has_slots(subject, extent.pixels) else (None,)
        made += [_job(folder, ask, subject, corpus, variant, wanted) for corpus in corpora for variant in variants]
    return made


def subjects(folder: Folder, ask: Ask) -> list[Subject]:
    """Who is examined: the references and what is trained at this size, or whom the user names; and those at hand."""
    extent = EXTENTS[ask.size]
    if ask.only_subjects:
        if ask.worlds:
            raise InputError(f"analogies have scenes of their own, and cannot be asked of {', '.join(ask.worlds)}")
        return list(ask.examined(extent.codes))
    strange = [world for world in ask.worlds if world not in TRAIN_SETS]
    if strange:
        raise InputError(f"analogies are asked of models that learned from {' or '.join(TRAIN_SETS)}, not {strange[0]}")
    found: list[Subject] = []
    for name in ask.models or REFERENCES:
        if name in REFERENCES:
            found.append(reference(name, extent.codes))
        elif name.startswith(_CHECKPOINTS):
            found += checkpoint_subjects(name.removeprefix(_CHECKPOINTS), ask.device)
        elif ":" in name:
            found.append(subject_of(name, device=ask.device))
        else:
            found += [trained(folder, ask, name, world, seed) for world in _worlds(ask) for seed in _seeds(ask)]
    if not ask.models:
        found += [
            trained(folder, ask, name, world, seed)
            for world, names in extent.trained.items()
            if world in _worlds(ask)
            for name in names
            for seed in _seeds(ask)
        ]
    return [*found, *ask.examined(extent.codes)]


def _worlds(ask: Ask) -> tuple[str, ...]:
    if ask.worlds:
        return ask.worlds
    return ("coat",) if ask.size == "tiny" else tuple(TRAIN_SETS)


def _seeds(ask: Ask) -> range:
    return range(EXTENTS[ask.size].seeds if ask.seeds is None else ask.seeds)


def trained(folder: Folder, ask: Ask, name: str, world: str, seed: int) -> Trained:
    """A model that learns from one of COAT's worlds."""
    if get_model(name).learns_from != "images":
        title = get_model(name).title
        raise InputError(f"{title} learns from episodes, and analogies are studied of what learns from images")
    more: dict[str, Label] = {"train_set": TRAIN_SETS[world]}
    return Trained(_plan(name, ask.size, world, seed), folder, ask.device, more | {"model": get_model(name).name})


def _plan(name: str, size: Size, world: str, seed: int) -> Plan:
    extent = EXTENTS[size]
    settings = dict(extent.settings.get(name, {}))
    if size == "paper" and name == "ae":  # COAT's autoencoder is its beta-TCVAE with these weights
        name, settings = "beta-tcvae", {"beta": 0.0, "gamma": 0.0}
    return plan(name, preset_name=size, world=world, seed=seed, images=extent.images, settings=settings)


def _job(folder: Folder, ask: Ask, subject: Subject, corpus: Corpus, variant: str | None, wanted: Sequence[str]) -> Job:
    labels: dict[str, Label] = {"size": ask.size, **_told(subject), "corpus": corpus.name, "pixels": corpus.pixels}
    if variant is not None:
        labels["variant"] = variant
    inputs = {
        "subject": dict(subject.identity),
        "corpus": corpus.settings,
        "variant": variant,
        "metrics": {name: find(name).version for name in wanted},
        "protocol": PROTOCOL,
    }
    cell = Cell(study="analogy", labels=labels, inputs=inputs)
    task = partial(work, folder, cell, subject, corpus, variant, tuple(wanted), ask.device)
    return Job(cell, task, stranger(subject), corpus.pixels)


def _told(subject: Subject) -> dict[str, Label]:
    """The labels of a subject, and what it learned from if that is one of COAT's worlds."""
    learned = subject.adapted.plan if isinstance(subject, Model) else None
    train_set = TRAIN_SETS.get(learned.world) if learned is not None else None
    return {**({} if train_set is None else {"train_set": train_set}), **subject.labels}


def work(
    folder: Folder,
    cell: Cell,
    subject: Subject,
    corpus: Corpus,
    variant: str | None,
    wanted: Sequence[str],
    device: str,
) -> dict[str, Value]:
    """The values of a cell; what its pictures need is kept."""
    views = corpus.views(folder, device)
    values: dict[str, Value] = {}
    try:
        seen = codes_of(subject, corpus, folder, device, kept=variant is not None)
        if "fg-ari" in wanted:
            values["fg-ari"] = _grouping(views["d"], seen)
        codes = processed(seen, variant)
    except NotExaminedError as error:
        return {name: values[name] if name in values else _null(find(name), str(error)) for name in wanted}
    values |= {name: _analogy(find(name), codes) for name in COAT_METRICS if name in wanted}
    if "tre" in wanted:
        values["tre"] = _composition(views, codes)
    _keep(folder, cell, subject, views, codes)
    return {name: values[name] for name in wanted}


def _analogy(record: Record, codes: Mapping[str, Rows]) -> Value:
    """COAT with the verdict of its hard negatives."""
    negatives = {name: codes[name] for name in HARD_NEGATIVES if name in codes}
    answer = record(*(codes[role] for role in QUADRUPLE), negatives)
    told = {
        "passed": answer.passed,
        "tests": answer.tests,
        "negatives": HARD_NEGATIVES,
        "left out negatives": {name: NO_SCENE for name in HARD_NEGATIVES if name not in codes},
        "cases": len(codes["d"]),
        "settings": answer.settings,
    }
    return _mean(record, answer.cases, score=answer.score, reason=answer.reason, details=told)


def _composition(views: Mapping[str, View], codes: Mapping[str, Rows]) -> Value:
    """TRE of scenes A and D, which share no object; fitted from one seed, so that variants can be compared.

    The parts of a scene are its objects, each with its factors, the colour of its ground and where it stands, by the
    columns and rows of a grid.
    """
    record = find("tre")
    width = codes["d"].shape[-1]
    if width > WIDEST:
        return _null(record, f"codes of {width:,} numbers are too long to be composed; {WIDEST:,} is the most")
    vectors = torch.cat([whole_scene(codes[role][:]) for role in ("a", "d")])
    if not bool((vectors != vectors[:1]).any()):
        return _null(record, "all codes are the same, so there is nothing to compose")
    scenes = [views[role].scenes for role in ("a", "d")]
    factors, present = [], []
    for each in scenes:
        assert each is not None
        place = ((each.position[..., :2] / 6 + 0.5) * FINEST).floor().clamp(0, FINEST - 1).long()
        factors.append(torch.cat([known_factors(each), place], -1))
        present.append(each.present)
    parts = _numbered(torch.cat(factors))
    answer = record(vectors, parts, present=torch.cat(present))
    details = {"relative": answer.relative, "settings": answer.settings, "scenes": len(vectors)}
    return _mean(record, answer.cases, score=answer.score, reason=answer.reason, details=details)


def _numbered(factors: Tensor) -> Tensor:
    """Each factor's values [B, N, F] numbered from 0 without gaps."""
    columns = [torch.unique(column, return_inverse=True)[1] for column in factors.unbind(-1)]
    return torch.stack(columns, -1)


def _grouping(view: View, seen: Codes) -> Value:
    """FG-ARI of D."""
    record = find("fg-ari")
    if seen.groups is None:
        return _null(record, "the model does not tell which pixels belong together")
    assert view.masks is not None
    scores = to_numpy(record(view.masks.long(), seen.groups.long()))
    scores = scores[~np.isnan(scores)]
    return _mean(record, scores, score=float(scores.mean()), details={"images": len(scores)})


def _mean(record: Record, cases: Any, *, score: float, **fields: Any) -> Value:
    """A score that is the mean of its cases, with its standard error and an interval over resampled cases."""
    each = to_numpy(cases).astype(np.float64)
    if not np.isfinite(score) or len(each) < 2:
        return Value.of(record, score, spread_reason="there are no cases to resample", **fields)
    error = float(each.std(ddof=1) / len(each) ** 0.5)
    return Value.of(record, score, resample_cases(each, RESAMPLES), standard_error=error, **fields)


def _null(record: Record, reason: str) -> Value:
    return Value(score=None, reason=reason, direction=record.direction, range=record.range)


def _keep(folder: Folder, cell: Cell, subject: Subject, views: Mapping[str, View], codes: Mapping[str, Rows]) -> None:
    """The first cases for pictures: the scenes, what the subject draws for b - a + c, and the loss of each answer."""
    count = min(SAMPLES, len(codes["d"]))
    some = {role: each[:count] for role, each in codes.items()}
    a, b, c, d = (some[role] for role in QUADRUPLE)
    arrays: dict[str, Any] = {role: views[role].images[:count].numpy() for role in QUADRUPLE}
    arrays["negatives"] = np.stack([views[name].images[:count].numpy() for name in HARD_NEGATIVES], 1)
    loss = partial(find("coat"), a, b, c)
    arrays["losses"] = to_numpy(loss(d, {}).losses)
    none = np.full(count, np.nan)
    arrays["negative_losses"] = np.stack(
        [to_numpy(loss(some[name], {}).losses) if name in some else none for name in HARD_NEGATIVES], 1
    )
    if d.ndim == 3:
        matched = match_slots(a, b, c, d)
        a, b, c = matched.a, matched.b, matched.c
    drawn = subject.decode((b - a + c).float())
    if drawn is not None:
        shape = views["d"].images.shape[-2:]
        drawn = drawn if drawn.shape[-2:] == shape else F.interpolate(drawn, tuple(shape), mode="bilinear")
        arrays["decoded"] = (drawn.clamp(0, 1) * 255).round().byte().cpu().numpy()
    folder.keep(cell, **arrays)


STUDY = Study(
    name="analogy",
    title="Analogy",
    question="Do the codes of scenes add and subtract like the scenes do?",
    cites="Xie et al. 2022",
    jobs=jobs,
    metrics=METRICS,
)
