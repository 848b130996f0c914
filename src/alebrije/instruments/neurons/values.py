"""From codes to the values of a cell: SNC, NK and the other disentanglement metrics, and accuracies of probes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from alebrije import metrics
from alebrije.arrays import Integers
from alebrije.errors import InputError
from alebrije.instruments.neurons.codes import HUGE, LONG, Codes, EncodedCorpus, too_long
from alebrije.instruments.neurons.snc import balanced_snc, hinton_details
from alebrije.metrics.uncertainty import resample_rows
from alebrije.probes import linear_predictions, split_rows
from alebrije.results import Value
from alebrije.results.cells import ScoreInterval
from alebrije.results.scores import MetricResult
from alebrije.scoring import ROW_RESAMPLES, MetricCall, run_metric
from alebrije.studies.encode import NotExaminedError
from alebrije.studies.own_metrics import own_names, own_value

_MLP, _LINEAR = "MLP accuracy", "linear accuracy"
_DCI_PARTS = {"DCI-D": "disentanglement", "DCI-C": "completeness", "DCI-I": "informativeness"}
_OTHERS = ("modularity", "explicitness", "beta-vae", "factor-vae")
METRICS = ("SNC", "NK", "MIG", "SAP", "IRS", "DCI", *_DCI_PARTS, "MED", *_OTHERS, _MLP, _LINEAR)
FAST = ("SNC", "NK", "MIG", "IRS", "modularity", _MLP, _LINEAR)
# the metric of the catalog that each value is read from
_CATALOG: Mapping[str, str] = {
    **{name: name.lower() for name in METRICS if name != _LINEAR},
    **dict.fromkeys(_DCI_PARTS, "dci"),
    _MLP: "nk",
}
SHUFFLED = "score of shuffled codes"  # a detail of SNC: its score by chance, with so few rows and so many neurons
_RESAMPLED = ("mig", "irs", "modularity")  # fast enough to be computed again on resampled rows
_NOT_FOR_LONG = ("sap", "dci", "med", "explicitness", "beta-vae", "factor-vae")
_FOR_HUGE = ("mig",)
_SHUFFLE_SEED = 1
_PER_FACTOR = ("per_factor", "accuracy", "chance", "full_accuracy", "knockout_accuracy")
_PER_ROW = ("drops", "correct")


@dataclass(frozen=True)
class Heads:
    """How classifiers on codes are trained. The defaults are the paper's, which does not give a batch size."""

    hidden: int = 256
    epochs: int = 75
    learning_rate: float = 1e-3
    batch_size: int = 64

    @property
    def linear(self) -> dict[str, Any]:
        """The settings of a classifier without a hidden layer."""
        return {name: value for name, value in vars(self).items() if name != "hidden"}


def versions(names: Collection[str]) -> dict[str, int]:
    """The versions of the metrics that values are read from."""
    found = {name: metrics.find(_CATALOG[name]).version for name in names if name in _CATALOG}
    return found | {name: 1 for name in names if name == _LINEAR}


def compute_values(encoded: EncodedCorpus, wanted: Sequence[str], heads: Heads, any_length: bool) -> dict[str, Value]:
    """The values of a cell. Without `any_length`, those that take long for long codes are null."""
    factors = encoded.factors()
    try:
        codes = encoded.codes()
    except NotExaminedError as error:
        return {name: Value(score=None, reason=str(error)) for name in wanted}
    computed = _Metrics(codes, factors, encoded.corpus.factor_names, heads, any_length, encoded.device)
    return {name: computed.value(name) for name in wanted}


class _Metrics:
    """The metrics of one array of codes. A metric that several values are read from is computed once."""

    def __init__(
        self, codes: Codes, factors: Integers, names: Sequence[str], heads: Heads, any_length: bool, device: str
    ) -> None:
        self.codes, self.factors, self.names, self.heads = codes, factors, list(names), heads
        self.device = device
        self.long = codes.width > LONG
        self.any_length = any_length
        self.results: dict[str, MetricResult] = {}

    def value(self, name: str) -> Value:
        if own_names([name]):
            return own_value(name, {"codes": self.codes.values, "factors": self.factors})
        metric, huge = _CATALOG.get(name), self.codes.width > HUGE
        if not self.any_length and ((self.long and metric in _NOT_FOR_LONG) or (huge and metric not in _FOR_HUGE)):
            return Value(score=None, reason=too_long(self.codes.width, name))
        if name == _LINEAR:
            return self._linear()
        if name == "SNC":
            return self._snc()
        result, record = self._result(_CATALOG[name]), metrics.find(_CATALOG[name])
        details = {**result.details, "settings": result.settings, **self.codes.details}
        value = Value(
            score=result.score,
            reason=result.reason,
            interval=_interval(result),
            spread_reason=result.interval_reason,
            direction=record.direction,
            range=record.range,
            details={key: self._by_factor(key, item) for key, item in details.items() if key not in _PER_ROW},
            left_out=tuple(result.left_out),
        )
        if name in _DCI_PARTS and value.score is not None:
            return value.model_copy(update={"score": float(result.details[_DCI_PARTS[name]])})
        if name == _MLP and value.score is not None:
            return _accuracy(dict(zip(self.names, result.details["full_accuracy"], strict=True)), value.details)
        return value

    def _result(self, metric: str) -> MetricResult:
        if metric not in self.results:
            record = metrics.find(metric)
            if metric == "nk":
                record = replace(record, settings={**record.settings, **vars(self.heads), "device": self.device})
            resample = metric == "nk" or (metric in _RESAMPLED and not self.long)
            call = MetricCall(record, {"codes": self.codes.values, "factors": self.factors})
            self.results[metric] = run_metric(call, None if resample else 0, forgive=True)
        return self.results[metric]

    def _snc(self) -> Value:
        codes, factors, device = self.codes.values, self.factors, self.device
        try:
            score, details = balanced_snc(codes, factors, device)
        except InputError as error:
            return Value(score=None, reason=str(error))
        interval = None
        if not self.long:
            interval = resample_rows(
                lambda rows: balanced_snc(codes[rows], factors[rows], device)[0], len(codes), score, ROW_RESAMPLES
            )
        if interval is not None:
            interval = replace(interval, low=max(interval.low, 0.0), high=min(interval.high, 1.0))
        shuffled = codes[np.random.default_rng(_SHUFFLE_SEED).permutation(len(codes))]
        details = {key: self._by_factor(key, item) for key, item in details.items()}
        details |= {SHUFFLED: balanced_snc(shuffled, factors, device)[0], **self.codes.details}
        return Value.of(
            metrics.find("snc"),
            score,
            interval,
            spread_reason=None if interval is not None else "too many neurons to resample",
            details=details
            | hinton_details(codes, factors, details["alignment"], device)
            | {"factor_names": self.names},
        )

    def _linear(self) -> Value:
        codes, factors = self.codes.values, self.factors
        fit, test = split_rows(len(codes), 1 / 3, seed=0)
        fitted = codes[fit], factors[fit], codes[test]
        correct = linear_predictions(*fitted, **self.heads.linear, device=torch.device(self.device)) == factors[test]
        return _accuracy(
            dict(zip(self.names, correct.mean(0).tolist(), strict=True)),
            {"settings": self.heads.linear, **self.codes.details},
        )

    def _by_factor(self, key: str, item: Any) -> Any:
        """A detail by the names of the factors if it has one number per factor."""
        each = key in _PER_FACTOR and isinstance(item, (list, np.ndarray)) and len(item) == len(self.names)
        return dict(zip(self.names, item, strict=True)) if each else item


def _interval(result: MetricResult) -> ScoreInterval | None:
    found = result.interval
    return None if found is None else ScoreInterval(low=found.low, high=found.high, method=found.method)


def _accuracy(per_factor: dict[str, float], more: Mapping[str, Any]) -> Value:
    """An accuracy averaged over factors and not adjusted for chance, as in the paper's tables."""
    details = {"per_factor": per_factor, **{key: more[key] for key in ("settings", "codes") if key in more}}
    return Value(score=float(np.mean(list(per_factor.values()))), direction="higher", range=(0, 1), details=details)
