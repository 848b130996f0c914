"""Every disentanglement metric on the codes of a subject, and what a Hinton diagram shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from alebrije import metrics
from alebrije.errors import InputError
from alebrije.metrics import align_neurons, single_neuron_classification
from alebrije.metrics.arrays import split_rows
from alebrije.metrics.information import entropy, information_matrix
from alebrije.metrics.uncertainty import resample_rows
from alebrije.probes import linear_predictions
from alebrije.results import Value
from alebrije.results.cells import ScoreInterval
from alebrije.results.scores import MetricResult
from alebrije.studies.battery import ROW_RESAMPLES, Call, run
from alebrije.studies.folder import Folder
from alebrije.studies.neurons_images import Codes, Floats, Gallery, Integers, codes_of
from alebrije.studies.subjects import Subject
from alebrije.studies.views import NotExaminedError

# names of values, in the words of the papers' tables, and the metric of the catalog that each is read from
CATALOG: Mapping[str, str] = {
    "SNC": "snc",
    "NK": "nk",
    "MIG": "mig",
    "SAP": "sap",
    "IRS": "irs",
    "DCI": "dci",
    "DCI-D": "dci",
    "DCI-C": "dci",
    "DCI-I": "dci",
    "MED": "med",
    "modularity": "modularity",
    "explicitness": "explicitness",
    "beta-vae": "beta-vae",
    "factor-vae": "factor-vae",
    "MLP accuracy": "nk",
}
LINEAR = "linear accuracy"
NAMES = (*CATALOG, LINEAR)
CHEAP = ("SNC", "NK", "MIG", "IRS", "modularity", "MLP accuracy", LINEAR)
_PARTS = {"DCI-D": "disentanglement", "DCI-C": "completeness", "DCI-I": "informativeness"}
_RESAMPLED = ("mig", "irs", "modularity")  # cheap enough to be computed anew on resampled rows

LONG = 256  # neurons; beyond it what fits a model to each neuron, or to all of them, is left out unless asked for
HUGE = 4096  # neurons; beyond it nothing that takes minutes is computed unless asked for, and heads are not trained
_NOT_FOR_LONG = ("sap", "dci", "med", "explicitness", "beta-vae", "factor-vae")
_FOR_HUGE = ("mig",)
SHOWN = 32  # neurons in a diagram
SHUFFLE = 1  # seed of the codes that are dealt out to other images
_PER_FACTOR = ("per_factor", "accuracy", "chance", "full_accuracy", "knockout_accuracy")
_PER_ROW = ("drops", "correct")


@dataclass(frozen=True)
class Heads:
    """How the classifiers on codes are trained; the paper's unless told otherwise, which leaves the batch open."""

    hidden: int = 256
    epochs: int = 75
    learning_rate: float = 1e-3
    batch_size: int = 64

    @property
    def linear(self) -> dict[str, Any]:
        """What of it a classifier without a hidden layer has."""
        return {name: value for name, value in vars(self).items() if name != "hidden"}


def versions(names: Collection[str]) -> dict[str, int]:
    """The versions of the metrics that values are read from."""
    found = {name: metrics.find(CATALOG[name]).version for name in names if name in CATALOG}
    return found | {name: 1 for name in names if name == LINEAR}


def metric_values(
    folder: Folder,
    subject: Subject,
    identity: Mapping[str, Any],
    gallery: Gallery,
    names: Sequence[str],
    heads: Heads,
    any_length: bool,
) -> dict[str, Value]:
    """The values of a cell: metrics by name on the codes of a subject."""
    factors = gallery.factors(folder)
    try:
        codes = codes_of(subject, gallery, folder, identity)
    except NotExaminedError as error:
        return {name: Value(score=None, reason=str(error)) for name in names}
    examined = _Examined(codes, factors, gallery.factor_names, heads, any_length)
    return {name: examined.value(name) for name in names}


class _Examined:
    """Codes under examination; what several values are read from is computed once."""

    def __init__(
        self, codes: Codes, factors: Integers, names: Sequence[str], heads: Heads, any_length: bool = False
    ) -> None:
        self.codes, self.factors, self.names, self.heads = codes, factors, list(names), heads
        self.long = codes.width > LONG
        self.any_length = any_length
        self.found: dict[str, MetricResult] = {}

    def value(self, name: str) -> Value:
        metric, huge = CATALOG.get(name), self.codes.width > HUGE
        if not self.any_length and ((self.long and metric in _NOT_FOR_LONG) or (huge and metric not in _FOR_HUGE)):
            return Value(score=None, reason=too_long(self.codes.width, name))
        if name == LINEAR:
            return self._linear()
        if name == "SNC":
            return self._single_neurons()
        result, record = self._result(CATALOG[name]), metrics.find(CATALOG[name])
        details = {**result.details, "settings": result.settings, **self.codes.details}
        value = Value(
            score=result.score,
            reason=result.reason,
            interval=_interval(result),
            spread_reason=result.interval_reason,
            direction=record.direction,
            range=record.range,
            details={key: self._named(key, item) for key, item in details.items() if key not in _PER_ROW},
            left_out=tuple(result.left_out),
        )
        if name in _PARTS and value.score is not None:
            return value.model_copy(update={"score": float(result.details[_PARTS[name]])})
        if name == "MLP accuracy" and value.score is not None:
            return _accuracy(dict(zip(self.names, result.details["full_accuracy"], strict=True)), value.details)
        return value

    def _result(self, metric: str) -> MetricResult:
        if metric not in self.found:
            record = metrics.find(metric)
            if metric == "nk":
                record = replace(record, settings={**record.settings, **vars(self.heads)})
            cheap = metric == "nk" or (metric in _RESAMPLED and not self.long)
            call = Call(record, {"codes": self.codes.values, "factors": self.factors})
            self.found[metric] = run(call, None if cheap else 0, forgive=True)
        return self.found[metric]

    def _single_neurons(self) -> Value:
        record = metrics.find("snc")
        codes = self.codes.values
        try:
            score, details = single_neurons(codes, self.factors)
        except InputError as error:
            return Value(score=None, reason=str(error))
        interval = None
        if not self.long:
            interval = resample_rows(
                lambda rows: single_neurons(codes[rows], self.factors[rows])[0], len(codes), score, ROW_RESAMPLES
            )
        if interval is not None:
            interval = replace(interval, low=max(interval.low, 0.0), high=min(interval.high, 1.0))
        shuffled = codes[np.random.default_rng(SHUFFLE).permutation(len(codes))]
        details = {key: self._named(key, item) for key, item in details.items()}
        details |= {"score of shuffled codes": single_neurons(shuffled, self.factors)[0], **self.codes.details}
        return Value.of(
            record,
            score,
            interval,
            spread_reason=None if interval is not None else "too many neurons to be resampled",
            details=details | diagram(codes, self.factors, details["alignment"]) | {"factor_names": self.names},
        )

    def _linear(self) -> Value:
        codes, factors = self.codes.values, self.factors
        fit, test = split_rows(len(codes), 1 / 3, seed=0)
        right = linear_predictions(codes[fit], factors[fit], codes[test], **self.heads.linear) == factors[test]
        return _accuracy(
            dict(zip(self.names, right.mean(0).tolist(), strict=True)),
            {"settings": self.heads.linear, **self.codes.details},
        )

    def _named(self, key: str, item: Any) -> Any:
        each = key in _PER_FACTOR and isinstance(item, (list, np.ndarray)) and len(item) == len(self.names)
        return dict(zip(self.names, item, strict=True)) if each else item


def too_long(width: int, name: str) -> str:
    """Why something is not computed that would take long."""
    return f"not computed for codes of {width} neurons; ask for {name} by its name"


def _interval(result: MetricResult) -> ScoreInterval | None:
    found = result.interval
    return None if found is None else ScoreInterval(low=found.low, high=found.high, method=found.method)


def _accuracy(per_factor: dict[str, float], more: Mapping[str, Any]) -> Value:
    """A plain accuracy, averaged over factors, as the paper's tables print it."""
    details = {"per_factor": per_factor, **{key: more[key] for key in ("settings", "codes") if key in more}}
    return Value(score=float(np.mean(list(per_factor.values()))), direction="higher", range=(0, 1), details=details)


def single_neurons(codes: Floats, factors: Integers) -> tuple[float, dict[str, Any]]:
    """SNC where every value of a factor is as frequent as the others, as in the complete grids of the paper.

    In a sample some values are more frequent, and bins of equal count would not fit even a perfect neuron. So each
    factor is judged on as many rows of each of its values as its rarest has. Neurons are aligned on all rows.

    >>> factors = np.random.default_rng(0).integers(0, 5, (300, 2))
    >>> single_neurons(factors[:, ::-1] / 5, factors)[0]
    1.0
    """
    alignment = align_neurons(codes, factors)
    answers = []
    for column, neuron in zip(factors.T, alignment, strict=True):
        rows = evenly(column)
        answers.append(single_neuron_classification(codes[rows][:, [neuron]], column[rows, None]))
    details = {key: [float(getattr(each, key)[0]) for each in answers] for key in ("per_factor", "accuracy", "chance")}
    return float(np.mean(details["per_factor"])), {**details, "alignment": alignment.tolist()}


def evenly(classes: Integers) -> Integers:
    """The first rows of each class, of all as many as the rarest has.

    >>> evenly(np.array([0, 1, 1, 0, 0, 2, 1, 2])).tolist()
    [0, 1, 2, 3, 5, 7]
    """
    rows = [np.flatnonzero(classes == kind) for kind in np.unique(classes)]
    least = min(map(len, rows))
    return np.sort(np.concatenate([each[:least] for each in rows]))


def diagram(codes: Floats, factors: Integers, alignment: Sequence[int]) -> dict[str, Any]:
    """What a Hinton diagram shows: the information [L][F] of neurons about factors, in nats, and the alignment.

    Of many neurons those that are aligned and those that tell most are kept. `neurons` are their numbers; `alignment`
    says which of the kept ones belongs to each factor.
    """
    classes = np.stack([np.unique(column, return_inverse=True)[1] for column in factors.T], 1)
    information = information_matrix(codes, classes, bins=20)
    kept = np.arange(len(information))
    if len(kept) > SHOWN:
        strongest = [neuron for neuron in np.argsort(-information.max(1), kind="stable") if neuron not in alignment]
        kept = np.sort(np.array([*alignment, *strongest])[: max(SHOWN, len(alignment))])
    return {
        "information": information[kept].tolist(),
        "alignment": np.searchsorted(kept, alignment).tolist(),
        "neurons": kept.tolist(),
        "entropies": [entropy(np.bincount(column)) for column in classes.T],
    }
