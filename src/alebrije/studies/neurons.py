"""The study of neurons: is each factor held by one neuron, and does that tell who generalises to new combinations?

Subjects are shown images of a world of all combinations, dsprites or rooms, of MPI3D from its file (the world
`mpi3d:FILE.npz`), or of a user's own with the sampler `Grid`. They are the very images that
`alebrije make WORLD --n N --seed 0 --size 64` makes, so that codes that were computed elsewhere can be brought as
embeddings:

- paper: N = 15,000, of which metrics that fit something fit 10,000 and score 5,000, as disentanglement_lib does, but
  for MED, which fits one half and scores the other;
- small: N = 4,000;
- tiny: N = 1,000.

Three kinds of cells: all metrics of one subject in one world; one for each pair of values that was held out; and the
accuracy on what was held out, over all pairs, for each setting and feature. Pairs are of a shape and a size, so a world
without these has the first kind alone. After all of them, one for each metric:
its correlation with that accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from alebrije.errors import InputError
from alebrije.models.catalog import catalog, get
from alebrije.results import Cell, Result, Value
from alebrije.studies.cells import Job
from alebrije.studies.folder import Folder
from alebrije.studies.neurons_correlation import CORRELATION, correlations
from alebrije.studies.neurons_generalisation import (
    ACCURACY,
    FEATURES,
    OF_A_PAIR,
    SETTINGS,
    VERSION,
    Pair,
    generalisation_values,
    is_trained_on,
    pair_values,
    pairs_of,
    without,
)
from alebrije.studies.neurons_images import Gallery, gallery_of
from alebrije.studies.neurons_metrics import CHEAP, NAMES, Heads, metric_values, versions
from alebrije.studies.protocol import Ask, Size, Study
from alebrije.studies.subjects import REFERENCES, Subject, Trained, stranger, subject_of
from alebrije.train.plan import plan

NAME = "neurons"
PROTOCOL = 1  # raised when the same subject comes to other values for a reason that no other version tells
SEED, PIXELS = 0, 64  # of the images
SIDE = 16  # pixels a side of the reference `pixels`: 768 neurons
VAES = ("ae", "beta-vae", "beta-tcvae", "factor-vae")


@dataclass(frozen=True)
class Extent:
    """How much is done at one size."""

    n: int  # images
    pairs: int | None  # that are held out, one after another; None: all of the paper
    models: tuple[str, ...]
    seeds: int  # trainings of each model for the metrics
    general_seeds: int  # and of each with a pair held out
    worlds: tuple[str, ...] = ("dsprites", "rooms")
    metrics: tuple[str, ...] = NAMES
    heads: Heads = field(default_factory=Heads)
    held: int | None = None  # images that a model is trained on; None: as its preset says
    at_once: bool = False  # the metrics look at the very model that never met the pair, which saves its training


EXTENTS: dict[Size, Extent] = {
    "paper": Extent(15_000, None, (*VAES, *REFERENCES), seeds=5, general_seeds=1),
    # with fewer images and as many epochs, heads need the rate of the released code, ten times that of the paper
    "small": Extent(4_000, 2, (*VAES, *REFERENCES), seeds=1, general_seeds=1, heads=Heads(learning_rate=1e-2)),
    "tiny": Extent(
        1_000,
        1,
        ("beta-vae", "pixels", "oracle", "noise"),
        seeds=1,
        general_seeds=1,
        worlds=("rooms",),
        metrics=CHEAP,
        heads=Heads(epochs=30, learning_rate=2e-2, batch_size=128),
        held=1_024,
        at_once=True,
    ),
}


def jobs(folder: Folder, ask: Ask) -> list[Job]:
    """The cells that are asked for."""
    extent = EXTENTS[ask.size]
    made: list[Job] = []
    for name in ask.worlds or extent.worlds:
        gallery = gallery_of(name, extent.n, SEED, PIXELS)
        for subject in _subjects(folder, ask, extent, gallery):
            examined = _Examined(folder, ask, extent, gallery, subject)
            made += [*examined.metrics(), *examined.generalisation()]
    return made


def _subjects(folder: Folder, ask: Ask, extent: Extent, gallery: Gallery) -> Iterator[Subject]:
    """Who is examined in a world."""
    yield from ask.examined(SIDE)
    if ask.only_subjects:
        return
    for name in ask.models or extent.models:
        if name in REFERENCES or name not in catalog():
            yield subject_of(name, device=None if name in REFERENCES else ask.device, size=SIDE)
        elif get(name).learns_from != "images":
            raise InputError(
                f"{get(name).title} learns from episodes, and neurons are studied of what learns from images"
            )
        elif gallery.file is None:
            for seed in range(extent.seeds if ask.seeds is None else ask.seeds):
                made = plan(name, preset_name=ask.size, world=gallery.world, seed=seed, images=extent.held)
                if extent.at_once and gallery.has_pairs:
                    made = made.leaving_out(pairs_of(gallery, 1)[0].values(gallery))
                yield Trained(made, folder, ask.device)
        elif ask.models:
            raise InputError(f"{name} cannot be trained on images of a file; train it elsewhere and give it as a spec")


@dataclass(frozen=True)
class _Examined:
    """A subject in a world, and its cells."""

    folder: Folder
    ask: Ask
    extent: Extent
    gallery: Gallery
    subject: Subject

    def metrics(self) -> Iterator[Job]:
        """The cell of all metrics."""
        names = [name for name in NAMES if (self.ask.wants(name) if self.ask.metrics else name in self.extent.metrics)]
        if not names:
            return
        identity, heads = dict(self.subject.identity), self.extent.heads
        cell = self._cell(identity, {}, {"metrics": versions(names), "heads": asdict(heads)})
        yield self._job(
            cell, partial(metric_values, self.folder, self.subject, identity, self.gallery, names, heads, self._named)
        )

    def generalisation(self) -> Iterator[Job]:
        """The cells of held-out pairs, and those of all of them together."""
        if not (self.ask.wants(ACCURACY) and self.gallery.has_pairs):
            return
        pairs = pairs_of(self.gallery, self.extent.pairs)
        subjects = [without(self.subject, pair, self.gallery) for pair in pairs]
        identities = [dict(subject.identity) for subject in subjects]
        own = dict(self.subject.identity)
        held_out = self._seed() < (self.extent.general_seeds if self.ask.seeds is None else self.ask.seeds)
        if held_out:
            for subject, identity, pair in zip(subjects, identities, pairs, strict=True):
                yield self._of_pair(subject, identity, pair)
        for setting in SETTINGS:
            for feature in FEATURES:
                if setting == "normal test set":
                    yield self._together([self.subject], [own], [None], setting, feature)
                elif held_out:
                    yield self._together(subjects, identities, pairs, setting, feature)

    def _of_pair(self, subject: Subject, identity: dict[str, Any], pair: Pair) -> Job:
        heads = self.extent.heads
        more = {"held out": pair.values(self.gallery), "heads": asdict(heads), "version": VERSION}
        cell = self._cell(identity, {"held_out": str(pair)}, more)
        return self._job(
            cell, partial(pair_values, self.folder, subject, identity, self.gallery, pair, heads, self._named)
        )

    def _together(
        self,
        subjects: Sequence[Subject],
        identities: Sequence[dict[str, Any]],
        pairs: Sequence[Pair | None],
        setting: Any,
        feature: str,
    ) -> Job:
        heads = self.extent.heads
        more = {
            "setting": setting,
            "feature": feature,
            "held out": ["a third" if pair is None else pair.values(self.gallery) for pair in pairs],
            "encoder": "trained" if is_trained_on(self.subject, self.gallery) else "frozen",
            "heads": asdict(heads),
            "version": VERSION,
        }
        cell = self._cell(dict(self.subject.identity), {"setting": setting, "feature": feature}, more)
        asked = setting, feature, heads, self._named
        return self._job(
            cell, partial(generalisation_values, self.folder, subjects, identities, self.gallery, pairs, *asked)
        )

    def _job(self, cell: Cell, work: Callable[[], Mapping[str, Value | float]]) -> Job:
        return Job(cell, work, stranger(self.subject), self.gallery.pixels)

    def _cell(self, identity: dict[str, Any], labels: dict[str, Any], more: dict[str, Any]) -> Cell:
        told = {"size": self.ask.size, "world": self.gallery.world, **self.subject.labels, **labels}
        inputs = {"subject": identity, "images": self.gallery.settings, "protocol": PROTOCOL, **more}
        if self._named:
            inputs["metrics"] = {**inputs.get("metrics", {}), "any length": 1}
        return Cell(study=NAME, labels=told, inputs=inputs)

    @property
    def _named(self) -> bool:
        """Whether values are asked for by name: those are computed of codes of any length, where others are not."""
        return bool(self.ask.metrics)

    def _seed(self) -> int:
        return self.subject.plan.seed if isinstance(self.subject, Trained) else -1


def after(results: Sequence[Result]) -> list[Job]:
    """The correlation of every metric with generalisation."""
    return correlations(NAME, results)


STUDY = Study(
    name=NAME,
    title="Neurons",
    question="Is each factor held by one neuron and by that one alone, and does that predict generalisation?",
    cites="Mahon et al. 2024",
    jobs=jobs,
    metrics=(*NAMES, ACCURACY, *OF_A_PAIR, CORRELATION),
    after=after,
)
