"""Compositional generalisation: heads that read shape and size from codes, tried on a pair of values they never met.

One size and one shape are chosen (Mahon et al. 2024, Section 5.2). No image of training shows them together: neither
that of a model that is trained here, nor that of the heads. A model that comes from elsewhere has seen what it has
seen; then only the heads have not. Accuracy on the held-out images is averaged over several pairs and adjusted for
chance, (a - r) / (1 - r), with r = 1 / values, and at least 0: so the published numbers were made. In the setting
"normal test set" a third of the images is held out at random instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy

from alebrije.metrics.arrays import split_rows
from alebrije.metrics.uncertainty import resample_cases
from alebrije.probes import linear_predictions, mlp_predictions
from alebrije.results import Value
from alebrije.results.cells import ScoreInterval
from alebrije.studies.folder import Folder
from alebrije.studies.neurons_images import Gallery, codes_of
from alebrije.studies.neurons_metrics import HUGE, Heads, too_long
from alebrije.studies.subjects import Subject, Trained
from alebrije.studies.views import NotExaminedError

Setting = Literal["CG", "linear CG", "normal test set"]
Right = npt.NDArray[np.bool_]

ACCURACY = "CG accuracy"
SETTINGS: tuple[Setting, ...] = ("CG", "linear CG", "normal test set")
FEATURES = ("shape", "size", "both")
OF_A_PAIR = tuple(f"{setting} {feature}" for setting in SETTINGS[:2] for feature in FEATURES)
VERSION = 1  # raised when the same codes come to other accuracies
_CASES = 1000  # resamples

# size and shape, by their numbers, as the paper's Appendix G lists them
PAIRS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "dsprites": ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2)),
    "rooms": ((0, 0), (5, 2), (2, 1), (3, 1), (3, 2), (7, 3), (0, 3), (7, 1)),
    "mpi3d": ((0, 0), (1, 4), (0, 5), (1, 3), (1, 1), (0, 2)),
}


@dataclass(frozen=True)
class Pair:
    """A size and a shape that are never seen together."""

    size: int
    shape: int

    def __str__(self) -> str:
        return f"size {self.size}, shape {self.shape}"

    def values(self, gallery: Gallery) -> dict[str, int]:
        """By the names that the world gives the factors."""
        return {gallery.feature("size"): self.size, gallery.feature("shape"): self.shape}


def pairs_of(gallery: Gallery, most: int | None = None) -> tuple[Pair, ...]:
    """The pairs of a world, or the first of them; those that it does not have are left out, as of a user's own."""
    sizes, shapes = gallery.count(gallery.feature("size")), gallery.count(gallery.feature("shape"))
    known = PAIRS.get(gallery.world, PAIRS["rooms"])
    found = [Pair(size, shape) for size, shape in known if size < sizes and shape < shapes]
    return tuple(found[:most])


def without(subject: Subject, pair: Pair, gallery: Gallery) -> Subject:
    """The subject as it is when it never met a pair; one that is not trained for the study stays as it is."""
    if not is_trained_on(subject, gallery):
        return subject
    assert isinstance(subject, Trained)
    values = pair.values(gallery)
    if dict(subject.plan.without) == values:
        return subject
    return Trained(subject.plan.leaving_out(values), subject.folder, subject.device, subject.more)


def is_trained_on(subject: Subject, gallery: Gallery) -> bool:
    """Whether it is trained for the study, on images of this world, so that some can be left out."""
    return isinstance(subject, Trained) and subject.plan.rule is None and subject.plan.world == gallery.world


def tried(
    folder: Folder,
    subject: Subject,
    identity: Mapping[str, Any],
    gallery: Gallery,
    pair: Pair | None,
    heads: Heads,
    any_length: bool = True,
) -> dict[str, Right]:
    """Which held-out images heads read rightly [M, 2], size and shape, by "mlp" and "linear"; computed once."""
    found = codes_of(subject, gallery, folder, identity)
    if found.width > HUGE and not any_length:
        raise NotExaminedError(too_long(found.width, ACCURACY))
    names = gallery.feature("size"), gallery.feature("shape")

    def make() -> Mapping[str, npt.ArrayLike]:
        codes = found.values
        classes = gallery.factors(folder)[:, [gallery.factor_names.index(name) for name in names]]
        fit, test = _split(classes, pair)
        mlp = mlp_predictions(codes[fit], classes[fit], codes[test], **vars(heads))
        if pair is None:  # which no linear head is asked about
            return {"mlp": mlp == classes[test]}
        linear = linear_predictions(codes[fit], classes[fit], codes[test], **heads.linear)
        return {"mlp": mlp == classes[test], "linear": linear == classes[test]}

    held_out = "a third" if pair is None else pair.values(gallery)
    told = {"subject": identity, "images": gallery.settings, "held out": held_out, "heads": vars(heads)}
    made = folder.made({"name": "heads", **told, "version": VERSION}, make)
    return {name: np.asarray(right) for name, right in made.items()}


def _split(classes: npt.NDArray[np.int64], pair: Pair | None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows that heads learn from, and those that they are tried on."""
    if pair is None:
        return split_rows(len(classes), 1 / 3, seed=0)
    held = (classes == (pair.size, pair.shape)).all(1)
    if not held.any():
        raise NotExaminedError(f"none of the {len(classes):,} images shows {pair}; take more of them")
    return np.flatnonzero(~held), np.flatnonzero(held)


def pair_values(
    folder: Folder,
    subject: Subject,
    identity: Mapping[str, Any],
    gallery: Gallery,
    pair: Pair,
    heads: Heads,
    any_length: bool = True,
) -> dict[str, Value]:
    """The values of the cell of a pair: plain accuracies of all heads on what was held out."""
    try:
        right = tried(folder, subject, identity, gallery, pair, heads, any_length)
    except NotExaminedError as error:
        return {name: Value(score=None, reason=str(error)) for name in OF_A_PAIR}
    values = {}
    for setting, head in (("CG", "mlp"), ("linear CG", "linear")):
        for feature in FEATURES:
            cases = _cases(right[head], feature)
            values[f"{setting} {feature}"] = Value(
                score=float(cases.mean()),
                direction="higher",
                range=(0, 1),
                details={"chance": chance(gallery, feature), "images": len(cases)},
            )
    return values


def generalisation_values(
    folder: Folder,
    subjects: Sequence[Subject],
    identities: Sequence[Mapping[str, Any]],
    gallery: Gallery,
    pairs: Sequence[Pair | None],
    setting: Setting,
    feature: str,
    heads: Heads,
    any_length: bool = True,
) -> dict[str, Value]:
    """The value of the cell of a setting and a feature: the accuracy over all pairs, adjusted for chance."""
    cases = {}
    try:
        for subject, identity, pair in zip(subjects, identities, pairs, strict=True):
            right = tried(folder, subject, identity, gallery, pair, heads, any_length)
            cases[str(pair)] = _cases(right["linear" if setting == "linear CG" else "mlp"], feature)
    except NotExaminedError as error:
        return {ACCURACY: Value(score=None, reason=str(error))}
    details: dict[str, Any] = {"encoder": _encoder(subjects, gallery)}
    if pairs[0] is not None:
        details["per pair"] = {name: float(each.mean()) for name, each in cases.items()}
    return {ACCURACY: adjusted(list(cases.values()), chance(gallery, feature), details)}


def _encoder(subjects: Sequence[Subject], gallery: Gallery) -> str:
    """What the encoder has met, in words."""
    first = subjects[0]
    if not (isinstance(first, Trained) and is_trained_on(first, gallery)):
        return "frozen"
    if len(subjects) > 1:
        return "trained without what is held out, anew for each pair"
    left_out = ", ".join(f"{name} {value}" for name, value in first.plan.without)
    return f"trained without {left_out}" if left_out else "trained on all combinations"


def adjusted(cases: Sequence[npt.NDArray[Any]], by_chance: float, details: Mapping[str, Any]) -> Value:
    """The mean over pairs of the accuracies of their cases, adjusted for chance, with its interval.

    Where all images are read rightly, or none, nothing varies that could be resampled: the interval is Wilson's.

    >>> adjusted([np.array([1, 1, 0, 0])], 0.25, {}).score
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
        ends, method = (plain - reach, plain + reach), "Student's t over held-out pairs"
    else:
        found = resample_cases(cases[0].astype(np.float64), _CASES)
        ends, method = (found.low, found.high), found.method

    def above(accuracy: float) -> float:
        return min(1.0, max(0.0, (accuracy - by_chance) / (1 - by_chance)))

    told = {"accuracy": plain, "chance": by_chance, "images": len(every), **details}
    interval = ScoreInterval(low=above(ends[0]), high=above(ends[1]), method=method)
    return Value(score=above(plain), direction="higher", range=(0, 1), interval=interval, details=told)


def chance(gallery: Gallery, feature: str) -> float:
    """How often a guess is right."""
    counts = {name: gallery.count(gallery.feature(name)) for name in ("size", "shape")}
    return 1 / (counts["size"] * counts["shape"] if feature == "both" else counts[feature])


def _cases(right: Right, feature: str) -> npt.NDArray[np.float64]:
    columns = {"size": right[:, 0], "shape": right[:, 1], "both": right.all(1)}
    return np.asarray(columns[feature], dtype=np.float64)
