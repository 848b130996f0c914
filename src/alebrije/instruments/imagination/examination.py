"""An examination: one model predicts the targets of one corpus, by itself or through a head."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from alebrije.arrays import Array
from alebrije.errors import InputError
from alebrije.instruments.imagination.head import HeadSettings, ImageHead, encode_sources, fit_heads
from alebrije.instruments.imagination.images import Corpus, ShownEpisodes, Subset
from alebrije.instruments.imagination.parts_training import train_together
from alebrije.instruments.imagination.reader import ReaderSettings
from alebrije.results import Cell
from alebrije.results.cells import Label
from alebrije.seeding import seeded
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, Model, TrainedModel, plan_of
from alebrije.studies.stages import in_stage
from alebrije.studies.untrained import Untrained
from alebrije.train.plan import Plan
from alebrije.train.sources import to_float

ENCODER_SAW = "encoder_saw"  # a label: which combinations the encoder under a head was trained on
ALL_COMBINATIONS, TRAINING_COMBINATIONS = "all combinations", "training combinations"  # its values
TESTED: tuple[Subset, ...] = ("known", "test")
LEARNED: tuple[Subset, ...] = ("train", "validation")
Codes = Mapping[Subset, Tensor]
_VERSION = 1  # of stored codes, raised when the same model gives others
_MOST_STORED = 2**24  # numbers of all codes of a cell that are kept in the result folder
_BATCH = 64  # images


@dataclass(frozen=True)
class Examination:
    """A model on a corpus. Without a head, the model predicts by itself."""

    model: Model
    corpus: Corpus
    counts: Mapping[Subset, int]  # episodes
    head: HeadSettings | None
    reader: ReaderSettings | None  # None if no factors are read
    wanted: tuple[str, ...]  # names of values
    device: str
    seed: int  # of the head

    @property
    def labels(self) -> dict[str, Label]:
        """The labels of its cell."""
        corpus = self.corpus
        labels: dict[str, Label] = {"world": corpus.world, "rule": corpus.rule, "alpha": corpus.alpha}
        labels |= {"pixels": corpus.pixels, "drawn_by": "itself" if self.head is None else "head", "seed": self.seed}
        saw = None if self.head is None else encoder_saw(self.model, corpus)
        return {**labels, **({} if saw is None else {ENCODER_SAW: saw}), **self.model.labels}

    def episodes(self, folder: ResultFolder, subset: Subset) -> ShownEpisodes:
        """The episodes of a subset."""
        return self.corpus.episodes(folder, subset, self.counts[subset], self.device)

    def predict(self, folder: ResultFolder, tested: Mapping[Subset, ShownEpisodes]) -> dict[Subset, Tensor]:
        """The target images that the model predicts for some subsets: floats in 0..1 [B, 3, H, W]."""
        if self.head is None:
            module = _module(self.model)
            return {subset: predict_targets(module, shown, self.device) for subset, shown in tested.items()}
        started = self.start(partial(self.episodes, folder))
        with in_stage("fitting heads"):
            fit_heads([started.head])
        return started.predict()

    def start(self, episodes: Callable[[Subset], ShownEpisodes], codes: Codes | None = None) -> StartedExamination:
        """The codes of all episodes, and a head that is to be fitted to some of them."""
        assert self.head is not None
        # encode first: a model that cannot be examined fails here, before a head is trained
        codes = codes or self.encode(episodes)
        train, validation = ((codes[subset], episodes(subset).target_images) for subset in LEARNED)
        with in_stage("fitting heads"):
            head = ImageHead(train, validation, self.head, self.seed, self.device, fitted=False)
        return StartedExamination(head, {subset: codes[subset] for subset in TESTED})

    def encode(self, episodes: Callable[[Subset], ShownEpisodes]) -> Codes:
        """The codes of the sources of all subsets."""
        return {subset: encode_sources(self.model, episodes(subset)) for subset in (*TESTED, *LEARNED)}

    def stored_codes(
        self, folder: ResultFolder, cell: Cell, episodes: Callable[[Subset], ShownEpisodes] | None = None
    ) -> Codes:
        """`encode`, kept in the result folder, so that another process can do it while this one does something else."""
        about = {"subject": cell.inputs["subject"], "episodes": cell.inputs["episodes"], "version": _VERSION}
        encode = partial(self.encode, episodes or partial(self.episodes, folder))
        arrays = folder.cached({"name": "episode-codes", **about}, lambda: _as_arrays(encode()), "encoding")
        return {subset: torch.from_numpy(np.asarray(arrays[subset])) for subset in (*TESTED, *LEARNED)}

    def compile_heads(self) -> None:
        """Take a step of a head of this shape on nothing, so that its kernels are compiled for all processes."""
        assert self.head is not None
        with seeded(0, torch.device(self.device)):
            settings, side = replace(self.head, steps=1, checks=1), self.corpus.pixels
            images = torch.zeros(self.counts["train"], 3, side, side, dtype=torch.uint8, device=self.device)
            codes = torch.randn(len(images), settings.components, device=self.device)
            head = ImageHead((codes, images), (codes[:1], images[:1]), settings, 0, self.device, fitted=False)
            train_together([head.training()], settings)

    @property
    def stores_codes(self) -> bool:
        """Whether its codes are worth keeping: a network on a GPU makes them, and they are short."""
        model = self.model.of if isinstance(self.model, Untrained) else self.model
        if not isinstance(model, LoadedModel) or model.encoder.device.type != "cuda":
            return False
        try:
            return model.encoder.sample().codes[0].numel() * sum(self.counts.values()) <= _MOST_STORED
        except InputError:  # raised again, and stored, by its cell
            return False


@dataclass(frozen=True, eq=False)
class StartedExamination:
    """A head that is to be fitted, and the codes of the sources that it will then predict the targets of."""

    head: ImageHead
    codes: Mapping[Subset, Tensor]

    def predict(self) -> dict[Subset, Tensor]:
        """The target images of each subset: floats in 0..1 [B, 3, H, W]."""
        return {subset: self.head(codes) for subset, codes in self.codes.items()}


def start_together(folder: ResultFolder, cells: Sequence[tuple[Cell, Examination]]) -> list[StartedExamination | None]:
    """Examinations whose heads are fitted at once; None for a model that cannot be examined.

    Those of one corpus share the images that their heads learn from.
    """
    shown: dict[tuple[Corpus, Subset], ShownEpisodes] = {}

    def episodes(examination: Examination, subset: Subset) -> ShownEpisodes:
        key = examination.corpus, subset
        if key not in shown:
            found = examination.episodes(folder, subset)
            shown[key] = replace(found, target_images=found.target_images.to(examination.device))
        return shown[key]

    started: dict[int, StartedExamination] = {}
    # model by model, because the weights of an untrained twin are drawn again when another model was encoded
    order = list(dict.fromkeys(id(each.model) for _, each in cells))
    for number, (cell, each) in sorted(enumerate(cells), key=lambda pair: order.index(id(pair[1][1].model))):
        own = partial(episodes, each)
        with suppress(InputError):
            started[number] = each.start(own, each.stored_codes(folder, cell, own) if each.stores_codes else None)
    with in_stage("fitting heads", f"of {len(started)} models and alphas"):
        if started:
            fit_heads([each.head for each in started.values()])
    return [started.get(number) for number in range(len(cells))]


def _as_arrays(codes: Codes) -> dict[str, Array]:
    return {subset: each.numpy() for subset, each in codes.items()}


def encoder_saw(model: Model, corpus: Corpus) -> str | None:
    """The combinations of the world that an encoder was trained on.

    None for references, for models trained elsewhere or on another world.
    """
    plan = plan_of(model)
    if plan is None or plan.world != corpus.world or isinstance(model, Untrained):
        return None
    if plan.rule is None:
        return ALL_COMBINATIONS
    return TRAINING_COMBINATIONS + ("" if plan.alpha == corpus.alpha else f" of alpha {plan.alpha:g}")


def episode_plan(model: Model) -> Plan | None:
    """The plan of a model that learns from episodes and so predicts by itself; None for all others."""
    plan = plan_of(model)
    return plan if plan is not None and plan.predicts else None


def _module(model: Model) -> nn.Module:
    """The network of a model that predicts by itself."""
    if isinstance(model, TrainedModel):
        return model.module()
    model = LoadedModel(model.encoder()) if isinstance(model, Untrained) else model
    if isinstance(model, LoadedModel) and isinstance(model.encoder.model, nn.Module):
        return model.encoder.model.eval()
    raise InputError(f"{model.labels['model']} does not predict images by itself")


@torch.no_grad()
def predict_targets(module: nn.Module, episodes: ShownEpisodes, device: str) -> Tensor:
    """The targets that a network trained on episodes predicts. Its random numbers are seeded."""
    predicted, on = [], torch.device(device)
    module = module.to(on)
    for first in range(0, len(episodes), _BATCH):
        batch = {name: to_float(tensor) for name, tensor in episodes.batch(first, _BATCH, on).items()}
        with seeded(first, on):
            predicted.append(module.predict(batch).float().clamp(0, 1).cpu())  # type: ignore[operator]
    return torch.cat(predicted)
