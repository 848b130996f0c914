"""Generalisation to new combinations (CG): heads read shape and size from codes, tested on a held-out pair.

A pair is one size and one shape (Mahon et al. 2024, Section 5.2). No training image shows them together: neither when
alebrije trains the model nor when the heads are trained. A model trained elsewhere may have seen the pair; then only
the heads have not. As in the paper, accuracy on the held-out images is averaged over several pairs and adjusted for
chance: (a - r) / (1 - r) with r = 1 / number of values, and at least 0. The setting "normal test set" holds out a
random third of the images instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

import numpy as np
import numpy.typing as npt
import scipy
import torch

from alebrije.arrays import Flags, Floats, Integers
from alebrije.instruments.neurons.codes import HUGE, EncodedCorpus, too_long
from alebrije.instruments.neurons.images import Corpus
from alebrije.instruments.neurons.values import Heads
from alebrije.metrics.uncertainty import resample_cases
from alebrije.probes import linear_predictions, mlp_predictions, split_rows
from alebrije.results import Value
from alebrije.results.cells import ScoreInterval
from alebrije.studies.encode import NotExaminedError
from alebrije.studies.model import Model, TrainedModel
from alebrije.studies.values import RESAMPLES

Setting = Literal["CG", "linear CG", "normal test set"]

ACCURACY = "CG accuracy"
SETTINGS: tuple[Setting, ...] = ("CG", "linear CG", "normal test set")
FEATURES = ("shape", "size", "both")
PAIR_ACCURACIES = tuple(f"{setting} {feature}" for setting in SETTINGS[:2] for feature in FEATURES)
VERSION = 1  # raised when the same codes give other accuracies

# indices of size and shape, from the paper's Appendix G
PAIRS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "dsprites": ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2)),
    "rooms": ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2), (7, 3), (0, 3), (7, 1)),
    "shapes3d": ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2), (7, 3), (0, 3), (7, 1)),
    "mpi3d": ((0, 0), (1, 4), (0, 5), (1, 3), (1, 1), (0, 2)),
    "arm": ((0, 0), (1, 4), (0, 5), (1, 3), (1, 1), (0, 2)),
}


@dataclass(frozen=True)
class Pair:
    """A size and a shape that training never shows together."""

    size: int
    shape: int

    def __str__(self) -> str:
        return f"size {self.size}, shape {self.shape}"

    def values(self, corpus: Corpus) -> dict[str, int]:
        """The two values by the corpus's names of their factors."""
        return {corpus.feature("size"): self.size, corpus.feature("shape"): self.shape}


def pairs_in(corpus: Corpus, most: int | None = None) -> tuple[Pair, ...]:
    """The pairs to hold out, at most `most`. A world of the user has those of rooms that exist in it."""
    sizes, shapes = corpus.count(corpus.feature("size")), corpus.count(corpus.feature("shape"))
    known = PAIRS.get(corpus.world, PAIRS["rooms"])
    found = [Pair(size, shape) for size, shape in known if size < sizes and shape < shapes]
    return tuple(found[:most])


def held_out(pair: Pair | None, corpus: Corpus) -> dict[str, int] | str:
    """What is held out, for keys: the values of a pair, or a random third of the images."""
    return "a third" if pair is None else pair.values(corpus)


def without_pair(model: Model, pair: Pair, corpus: Corpus) -> Model:
    """The model trained without a pair. A model that the study does not train stays as it is."""
    if not is_trained_on(model, corpus):
        return model
    values = pair.values(corpus)
    if dict(model.plan.without) == values:
        return model
    return TrainedModel(model.plan.leaving_out(values), model.folder, model.device, model.more)


def is_trained_on(model: Model, corpus: Corpus) -> TypeGuard[TrainedModel]:
    """Whether the study trains the model on images of this world, so that some can be left out."""
    return isinstance(model, TrainedModel) and model.plan.rule is None and model.plan.world == corpus.world


def evaluate_heads(
    encoded: EncodedCorpus, pair: Pair | None, heads: Heads, any_length: bool = True
) -> dict[Literal["mlp", "linear"], Flags]:
    """Whether heads read size and shape correctly [M, 2] from each held-out image, computed once.

    There is no linear head for the normal test set.
    """
    codes, corpus = encoded.codes(), encoded.corpus
    if codes.width > HUGE and not any_length:
        raise NotExaminedError(too_long(codes.width, ACCURACY))

    def compute() -> Mapping[str, npt.ArrayLike]:
        classes = _shape_and_size(encoded)
        fit, test = split_rows(len(classes), 1 / 3, seed=0) if pair is None else pair_rows(encoded, pair)
        train_and_test = codes.values[fit], classes[fit], codes.values[test]
        device = torch.device(encoded.device)
        correct = {"mlp": mlp_predictions(*train_and_test, **vars(heads), device=device) == classes[test]}
        if pair is not None:
            correct["linear"] = linear_predictions(*train_and_test, **heads.linear, device=device) == classes[test]
        return correct

    about = {"subject": encoded.identity, "images": corpus.settings, "held out": held_out(pair, corpus)}
    settings = {"name": "heads", **about, "heads": vars(heads), "version": VERSION}
    arrays = encoded.folder.cached(settings, compute, "fitting heads")
    return {name: np.asarray(arrays[name]) for name in ("mlp", "linear") if name in arrays}


def pair_rows(encoded: EncodedCorpus, pair: Pair) -> tuple[Integers, Integers]:
    """The rows to train heads on, and the held-out rows, which show the pair."""
    classes = _shape_and_size(encoded)
    shown = (classes == (pair.size, pair.shape)).all(1)
    if not shown.any():
        raise NotExaminedError(f"none of the {len(classes):,} images shows {pair}; more images are needed")
    return np.flatnonzero(~shown), np.flatnonzero(shown)


def _shape_and_size(encoded: EncodedCorpus) -> Integers:
    """The values [N, 2] of size and of shape."""
    corpus = encoded.corpus
    columns = [corpus.factor_names.index(corpus.feature(name)) for name in ("size", "shape")]
    return encoded.factors()[:, columns]


def pair_values(encoded: EncodedCorpus, pair: Pair, heads: Heads, any_length: bool = True) -> dict[str, Value]:
    """The values of the cell of a pair: accuracies of all heads on the held-out images, not adjusted for chance."""
    try:
        correct = evaluate_heads(encoded, pair, heads, any_length)
    except NotExaminedError as error:
        return {name: Value(score=None, reason=str(error)) for name in PAIR_ACCURACIES}
    values = {}
    for setting in SETTINGS[:2]:
        for feature in FEATURES:
            cases = _cases(correct, setting, feature)
            details = {"chance": chance(encoded.corpus, feature), "images": len(cases)}
            accuracy = float(cases.mean())
            values[f"{setting} {feature}"] = Value(score=accuracy, direction="higher", range=(0, 1), details=details)
    return values


def generalisation_values(
    encoded: Sequence[EncodedCorpus],
    pairs: Sequence[Pair | None],
    setting: Setting,
    feature: str,
    heads: Heads,
    any_length: bool = True,
) -> dict[str, Value]:
    """The value of the cell of a setting and a feature: the accuracy over all pairs, adjusted for chance.

    `encoded` has the model trained without each pair.
    """
    cases = {}
    try:
        for own, pair in zip(encoded, pairs, strict=True):
            cases[str(pair)] = _cases(evaluate_heads(own, pair, heads, any_length), setting, feature)
    except NotExaminedError as error:
        return {ACCURACY: Value(score=None, reason=str(error))}
    corpus = encoded[0].corpus
    details: dict[str, Any] = {"encoder": _training([own.model for own in encoded], corpus)}
    if pairs[0] is not None:
        details["per pair"] = {name: float(each.mean()) for name, each in cases.items()}
    return {ACCURACY: adjusted_accuracy(list(cases.values()), chance(corpus, feature), details)}


def _training(models: Sequence[Model], corpus: Corpus) -> str:
    """Which combinations the model was trained on, in words."""
    first = models[0]
    if not is_trained_on(first, corpus):
        return "frozen"
    if len(models) > 1:
        return "trained without the held-out pair, once for each pair"
    left_out = ", ".join(f"{name} {value}" for name, value in first.plan.without)
    return f"trained without {left_out}" if left_out else "trained on all combinations"


def adjusted_accuracy(
    cases: Sequence[Floats], by_chance: float, details: Mapping[str, Any], over: str = "held-out pairs"
) -> Value:
    """The mean over pairs, or over other test sets, of their accuracies, adjusted for chance, with its interval.

    If all images are right or all are wrong, resampling shows no variation; then the interval is Wilson's.

    >>> adjusted_accuracy([np.array([1, 1, 0, 0])], 0.25, {}).score
    0.3333333333333333
    """
    means = np.array([each.mean() for each in cases])
    plain = float(means.mean())
    every = np.concatenate(cases)
    if plain in (0.0, 1.0):
        wilson = scipy.stats.binomtest(int(every.sum()), len(every)).proportion_ci(method="wilson")
        ends, method = (wilson.low, wilson.high), "Wilson's over held-out images"
    elif len(means) > 1:
        reach = float(scipy.stats.t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / len(means) ** 0.5)
        ends, method = (plain - reach, plain + reach), f"Student's t over {over}"
    else:
        found = resample_cases(cases[0].astype(np.float64), RESAMPLES)
        ends, method = (found.low, found.high), found.method

    def adjusted(accuracy: float) -> float:
        return min(1.0, max(0.0, (accuracy - by_chance) / (1 - by_chance)))

    interval = ScoreInterval(low=adjusted(ends[0]), high=adjusted(ends[1]), method=method)
    about = {"accuracy": plain, "chance": by_chance, "images": len(every), **details}
    return Value(score=adjusted(plain), direction="higher", range=(0, 1), interval=interval, details=about)


def chance(corpus: Corpus, feature: str) -> float:
    """The accuracy of guessing."""
    counts = {name: corpus.count(corpus.feature(name)) for name in ("size", "shape")}
    return 1 / (counts["size"] * counts["shape"] if feature == "both" else counts[feature])


def _cases(correct: Mapping[Literal["mlp", "linear"], Flags], setting: Setting, feature: str) -> Floats:
    """Whether each held-out image is read correctly [M], as numbers."""
    right = correct["linear" if setting == "linear CG" else "mlp"]  # [M, 2]
    columns = {"size": right[:, 0], "shape": right[:, 1], "both": right.all(1)}
    return np.asarray(columns[feature], dtype=np.float64)
