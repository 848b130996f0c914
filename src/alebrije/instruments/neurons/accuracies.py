"""How well heads read every factor, on random test sets and on held-out pairs (Mahon et al. 2024, Tables 9 to 44).

Four heads learn from the same rows: `SNC`, the single neuron aligned with each factor; `linear` and `MLP`, classifiers
on all neurons; and `knockout`, an MLP without the factor's own neuron (the paper's NK1), on random test sets alone.
Accuracies are plain, as in these tables. "both" is the share of images whose shape and size are both read correctly,
the paper's column NC.

A random test set is a third of the images, drawn with a seed. The paper reports five of them; code of its experiments
draws the same one five times, for five trainings. So the study has both: "one split" and "5 splits". Splits overlap, so
the interval over them says how much a split matters and not how other images would do. Long codes get one split and no
knockout, unless these values are requested by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from alebrije.arrays import Flags, Floats
from alebrije.instruments.neurons.codes import HUGE, LONG, EncodedCorpus, too_long
from alebrije.instruments.neurons.generalisation import Pair, adjusted_accuracy, chance, held_out, pair_rows
from alebrije.instruments.neurons.images import Corpus
from alebrije.instruments.neurons.snc import single_neuron_predictions
from alebrije.instruments.neurons.values import Heads
from alebrije.metrics import align_neurons
from alebrije.probes import knockout_accuracy, linear_predictions, mlp_predictions, split_rows
from alebrije.results import Value
from alebrije.studies.encode import NotExaminedError

Head = Literal["SNC", "linear", "knockout", "MLP"]
LeftOut = Pair | int  # a pair, or the seed of a random third of the images

HEADS: tuple[Head, ...] = ("SNC", "linear", "knockout", "MLP")
VERSION = 1  # raised when the same codes give other accuracies
ONE_SPLIT = "one split"
_WITH_BOTH: tuple[Head, ...] = ("SNC", "linear", "MLP")
MEANS = {head: f"{head} mean" for head in HEADS}
BOTH = {head: f"{head} both" for head in _WITH_BOTH}
FEW = "each factor needs its own neuron, and there are fewer neurons than factors"
VALUES = (*MEANS.values(), *BOTH.values())


def read_factors(encoded: EncodedCorpus, left_out: LeftOut, heads: Heads, any_length: bool = True) -> dict[Head, Flags]:
    """Whether each head reads each factor correctly [M, F] from each test image, computed once.

    With fewer neurons than factors there are no heads on a factor's own neuron.
    """
    codes, corpus = encoded.codes(), encoded.corpus
    knockout = isinstance(left_out, int) and (any_length or codes.width <= LONG)

    def compute() -> Mapping[str, npt.ArrayLike]:
        classes = encoded.factors()
        fit, test = (
            split_rows(len(classes), 1 / 3, seed=left_out)
            if isinstance(left_out, int)
            else pair_rows(encoded, left_out)
        )
        if (classes[fit] == classes[fit[0]]).all(0).any():
            raise NotExaminedError("a factor has a single value in the training rows; more images are needed")
        known, wanted, new, true = codes.values[fit], classes[fit], codes.values[test], classes[test]
        device = torch.device(encoded.device)
        correct = {"linear": linear_predictions(known, wanted, new, **heads.linear, device=device) == true}
        own = None if codes.width < classes.shape[1] else align_neurons(known, wanted, encoded.device)
        if own is not None:
            aligned = {"alignment": own} if device.type == "cuda" else {}  # not again on the CPU
            correct["SNC"] = single_neuron_predictions(known, wanted, new, **aligned) == true
        if knockout and own is not None:
            found = knockout_accuracy(known, wanted, own, new, true, **vars(heads), device=device)
            return correct | {"knockout": found.knockout, "MLP": found.full}
        return correct | {"MLP": mlp_predictions(known, wanted, new, **vars(heads), device=device) == true}

    about = {"subject": encoded.identity, "images": corpus.settings, "left out": stored(left_out, corpus)}
    settings = {"name": "accuracies", **about, "heads": vars(heads), "knockout": knockout, "version": VERSION}
    arrays = encoded.folder.cached(settings, compute, "fitting heads")
    return {head: np.asarray(arrays[head]) for head in HEADS if head in arrays}


def stored(left_out: LeftOut, corpus: Corpus) -> dict[str, int]:
    """What is left out, for keys: the values of a pair, or the seed of a random third."""
    found = {"random third": left_out} if isinstance(left_out, int) else held_out(left_out, corpus)
    assert isinstance(found, dict)
    return found


def accuracy_values(
    encoded: EncodedCorpus, left_out: Sequence[LeftOut], heads: Heads, any_length: bool = True
) -> dict[str, Value]:
    """The values of the cell of one or more test sets: for each head, means over factors and over test sets."""
    corpus, pairs = encoded.corpus, any(isinstance(each, Pair) for each in left_out)
    names = [MEANS[head] for head in HEADS if not (pairs and head == "knockout")]
    names += BOTH.values() if corpus.has_pairs else ()
    try:
        codes = encoded.codes()
        if not any_length and codes.width > (HUGE if len(left_out) == 1 else LONG):
            return {name: Value(score=None, reason=too_long(codes.width, name)) for name in names}
        correct = [read_factors(encoded, each, heads, any_length) for each in left_out]
    except NotExaminedError as error:
        return {name: Value(score=None, reason=str(error)) for name in names}
    details = {"settings": vars(heads), **codes.details}
    few = codes.width < len(corpus.factor_names)
    values = {}
    for name in names:
        head = next(head for head in HEADS if name.startswith(head))
        flags = [each[head] for each in correct if head in each]
        reason = FEW if few else too_long(codes.width, name)
        values[name] = _value(name, flags, corpus, details) if flags else Value(score=None, reason=reason)
    return values


def _value(name: str, flags: Sequence[Flags], corpus: Corpus, details: Mapping[str, Any]) -> Value:
    """The mean over factors, or the share of images with both features right."""
    cases: list[Floats]
    if name in BOTH.values():
        columns = [corpus.factor_names.index(corpus.feature(feature)) for feature in ("size", "shape")]
        cases = [np.asarray(each[:, columns].all(1), dtype=np.float64) for each in flags]
        details = {**details, "chance": chance(corpus, "both")}
    else:
        cases = [np.mean(each, 1) for each in flags]
        accuracies = np.array([each.mean(0) for each in flags])  # [test sets, F]
        details = {
            **details,
            "chance": float(np.mean([1 / corpus.count(factor) for factor in corpus.factor_names])),
            "per_factor": dict(zip(corpus.factor_names, accuracies.mean(0).tolist(), strict=True)),
            "per test set": accuracies.tolist(),
        }
    return adjusted_accuracy(cases, 0.0, details, over="test sets")
