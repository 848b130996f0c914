"""The study of neurons: sizes, and the cells of a request.

Mahon et al. 2024. At size paper, metrics that fit something fit 10,000 images and score 5,000, as disentanglement_lib
does; MED fits one half and scores the other. There are four kinds of cells: all metrics of a model in a world; the
accuracies for each held-out pair of a shape and a size; the accuracy over all pairs for each setting and feature; and
the accuracies of heads on every factor, for random test sets and for each held-out pair. A world without shapes and
sizes has no pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product
from typing import Any

from alebrije.data.user_images import world_label
from alebrije.errors import InputError
from alebrije.instruments.neurons import accuracies, generalisation
from alebrije.instruments.neurons.accuracies import ONE_SPLIT, LeftOut
from alebrije.instruments.neurons.codes import EncodedCorpus
from alebrije.instruments.neurons.generalisation import Pair, Setting, held_out, pairs_in
from alebrije.instruments.neurons.images import Corpus
from alebrije.instruments.neurons.user_corpus import corpus_of
from alebrije.instruments.neurons.values import FAST, METRICS, Heads, compute_values, versions
from alebrije.models.catalog import catalog
from alebrije.results import Cell, Value
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Job
from alebrije.studies.model import Model, TrainedModel, identity_on
from alebrije.studies.own_metrics import own_names, own_versions
from alebrije.studies.references import REFERENCES
from alebrije.studies.request import Request, SizeName, learns_from_images
from alebrije.train.plan import plan

PROTOCOL = 1  # raised when values change for a reason that no other version records
_REFERENCE_PIXELS = 16  # side of the image that the reference `pixels` uses as its code: 768 neurons
_Work = Callable[[], dict[str, Value]]
_AUTOENCODERS = ("ae", "beta-vae", "beta-tcvae", "factor-vae")
_WITH_LABELS_OR_CAPACITY = ("annealed-vae", "parted-vae", "parted-vae-ss", "weakde", "mtd")  # those the catalog has


@dataclass(frozen=True)
class Size:
    """What one size of the study consists of."""

    images: int
    pairs: int | None  # held out one after another; None: all of the paper
    trained: tuple[str, ...]  # unless the request names models
    references: tuple[str, ...] = tuple(REFERENCES)
    seeds: int = 1  # trainings of each model for the metrics
    pair_seeds: int = 1  # and of each model without each pair
    worlds: tuple[str, ...] = ("dsprites", "rooms")
    metrics: tuple[str, ...] = METRICS
    splits: int = 5  # random test sets of `accuracies`
    heads: Heads = field(default_factory=Heads)
    training_images: int | None = None  # None: as in the preset of the model
    single_training: bool = False  # compute the metrics on the model trained without the first pair, to save a training


SIZES: dict[SizeName, Size] = {
    "paper": Size(
        15_000,
        None,
        (*_AUTOENCODERS, *_WITH_LABELS_OR_CAPACITY),
        seeds=5,
        worlds=("dsprites", "rooms", "arm"),
    ),
    # with fewer images per epoch, heads need the learning rate of the released code, ten times that of the paper
    "small": Size(4_000, 2, _AUTOENCODERS, heads=Heads(learning_rate=1e-2)),
    "tiny": Size(
        1_000,
        1,
        ("beta-vae",),
        ("pixels", "oracle", "noise"),
        worlds=("rooms",),
        metrics=FAST,
        splits=2,
        heads=Heads(epochs=30, learning_rate=2e-2, batch_size=128),
        training_images=1_024,
        single_training=True,
    ),
}


def jobs(folder: ResultFolder, request: Request) -> list[Job]:
    """The cells of each model in each world."""
    size = SIZES[request.size]
    found: list[Job] = []
    for world in request.worlds or size.worlds:
        corpus = corpus_of(world, size.images)
        train = partial(_trained, folder, request, corpus)
        default = (*_trainable(size.trained), *size.references)
        for model in request.select_models(default, _REFERENCE_PIXELS, train):
            cells = _Cells(folder, request, corpus, model, identity_on(model, request.device))
            found += [*cells.metrics(), *cells.generalisation(), *cells.accuracies()]
    return found


def _trainable(names: Sequence[str]) -> Iterator[str]:
    """Those of these models that the catalog has and that learn from images."""
    for name in names:
        if name in catalog():
            with suppress(InputError):
                yield learns_from_images(name, "neurons", labelled=True).name


def _trained(folder: ResultFolder, request: Request, corpus: Corpus, name: str) -> Iterator[TrainedModel]:
    """A model trained on the world of the corpus with each seed; none if its images come from a file."""
    size, record = SIZES[request.size], learns_from_images(name, "neurons", labelled=True)
    if corpus.file is not None:
        if request.models:
            raise InputError(f"{record.name} cannot be trained on images of a file; train it elsewhere and pass a spec")
        return
    for seed in request.training_seeds(size.seeds):
        made = plan(name, preset_name=request.size, world=corpus.world, seed=seed, images=size.training_images)
        if size.single_training and corpus.has_pairs:
            made = made.leaving_out(pairs_in(corpus, 1)[0].values(corpus))
        yield TrainedModel(made, folder, request.device)


@dataclass(frozen=True)
class _Cells:
    """The cells of one model in one world."""

    folder: ResultFolder
    request: Request
    corpus: Corpus
    model: Model
    identity: dict[str, Any]

    def metrics(self) -> Iterator[Job]:
        """The cell of all metrics."""
        usual = self._size.metrics
        wanted = [name for name in METRICS if (self.request.wants(name) if self.request.metrics else name in usual)]
        wanted += own_names(self.request.metrics)
        if wanted:
            work = partial(compute_values, self._encoded(self.model), wanted, self._size.heads, self._by_name)
            yield self._job(work, self.identity, {}, {"metrics": {**versions(wanted), **own_versions(wanted)}})

    def generalisation(self) -> Iterator[Job]:
        """The cell of each held-out pair, and those over all pairs."""
        if not (self.request.wants(generalisation.ACCURACY) and self.corpus.has_pairs):
            return
        pairs = self._pairs
        models = [self._without(pair) for pair in pairs]
        for encoded, pair in zip(models, pairs, strict=True):
            work = partial(generalisation.pair_values, encoded, pair, self._size.heads, self._by_name)
            more = {"held out": held_out(pair, self.corpus), "version": generalisation.VERSION}
            yield self._job(work, encoded.identity, {"held_out": str(pair)}, more)
        for setting, feature in product(generalisation.SETTINGS, generalisation.FEATURES):
            if setting == "normal test set":
                yield self._over_pairs([self._encoded(self.model)], [None], setting, feature)
            elif pairs:
                yield self._over_pairs(models, pairs, setting, feature)

    def accuracies(self) -> Iterator[Job]:
        """The cell of one random test set, that of several, and that of each held-out pair."""
        if not any(self.request.wants(name) for name in accuracies.VALUES):
            return
        splits = range(self._size.splits)
        yield self._test_set(ONE_SPLIT, self._encoded(self.model), splits[:1])
        yield self._test_set(f"{len(splits)} splits", self._encoded(self.model), splits)
        for pair in self._pairs:
            yield self._test_set(str(pair), self._without(pair), [pair])

    def _test_set(self, name: str, encoded: EncodedCorpus, left_out: Sequence[LeftOut]) -> Job:
        work = partial(accuracies.accuracy_values, encoded, left_out, self._size.heads, self._by_name)
        stored = [accuracies.stored(each, self.corpus) for each in left_out]
        more = {"test sets": stored, "version": accuracies.VERSION}
        return self._job(work, encoded.identity, {"test_set": name}, more)

    def _over_pairs(
        self, encoded: Sequence[EncodedCorpus], pairs: Sequence[Pair | None], setting: Setting, feature: str
    ) -> Job:
        compute = generalisation.generalisation_values
        work = partial(compute, encoded, pairs, setting, feature, self._size.heads, self._by_name)
        labels = {"setting": setting, "feature": feature}
        more = {
            **labels,
            "held out": [held_out(pair, self.corpus) for pair in pairs],
            "encoder": "trained" if generalisation.is_trained_on(self.model, self.corpus) else "frozen",
            "version": generalisation.VERSION,
        }
        return self._job(work, self.identity, labels, more)

    def _job(self, work: _Work, identity: Mapping[str, Any], labels: Mapping[str, str], more: Mapping[str, Any]) -> Job:
        shared = {"size": self.request.size, "world": world_label(self.corpus.world), **self.model.labels}
        inputs = {"subject": dict(identity), "images": self.corpus.settings, "protocol": PROTOCOL, **more}
        inputs["heads"] = asdict(self._size.heads)
        if self._by_name:
            inputs["metrics"] = {**inputs.get("metrics", {}), "any length": 1}
        cell = Cell(study="neurons", labels={**shared, **labels}, inputs=inputs)
        return Job(cell, work, self.model, self.corpus.pixels)

    @property
    def _pairs(self) -> tuple[Pair, ...]:
        """The pairs held out from this model."""
        found = self.corpus.has_pairs and self._holds_out_pairs
        return pairs_in(self.corpus, self._size.pairs) if found else ()

    def _without(self, pair: Pair) -> EncodedCorpus:
        return self._encoded(generalisation.without_pair(self.model, pair, self.corpus))

    def _encoded(self, model: Model) -> EncodedCorpus:
        identity = self.identity if model is self.model else identity_on(model, self.request.device)
        return EncodedCorpus(self.folder, self.corpus, model, identity, self.request.device)

    @property
    def _size(self) -> Size:
        return SIZES[self.request.size]

    @property
    def _by_name(self) -> bool:
        """Whether a user requests values by name; those are computed for codes of any length."""
        return bool(self.request.metrics) and not self.request.yardsticks

    @property
    def _holds_out_pairs(self) -> bool:
        """Whether pairs are held out: from every model, but with fewer training seeds than the metrics may have."""
        seeds = self.request.training_seeds(self._size.pair_seeds)
        return not isinstance(self.model, TrainedModel) or self.model.plan.seed in seeds
