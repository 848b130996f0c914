"""From the codes of a corpus to the values of a cell: COAT with its hard negatives, TRE and FG-ARI."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from alebrije.arrays import to_numpy
from alebrije.instruments.analogy.codes import CorpusCodes, apply_variant, encode_corpus, scene_vectors
from alebrije.instruments.analogy.images import QUADRUPLE, WHITE, Corpus
from alebrije.instruments.analogy.long_codes import Codes
from alebrije.instruments.analogy.slot_pictures import slot_arrays
from alebrije.instruments.analogy.stability import first_cases
from alebrije.instruments.analogy.trained import Checkpoint
from alebrije.metrics import Record, find, match_slots
from alebrije.metrics.coat import HARD_NEGATIVES
from alebrije.results import Cell, Value
from alebrije.studies.encode import NotExaminedError
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import Model, View
from alebrije.studies.own_metrics import own_names, own_value
from alebrije.studies.values import mean_value, null_value
from alebrije.train.scene_sets import known_factors

COAT_METRICS = ("coat", "coat-l2", "coat-acos")
OVER_TRAINING = ("coat", "coat-acos")  # of earlier checkpoints
RELATIVE_TRE = "relative tre"
METRICS = (*COAT_METRICS, "tre", RELATIVE_TRE, "fg-ari")
NO_GROUPS = "the model does not group pixels"
NO_SCENE = "there is no scene behind it, and this model reads scenes"
SAMPLES = 8  # cases kept for pictures
LONGEST_FOR_TRE = 4096  # numbers per code
POSITION_BINS = 6  # along each side of the ground, for TRE
_GROUND_SIDE = 6  # in the units of positions


def compute_values(
    folder: ResultFolder,
    cell: Cell,
    model: Model,
    corpus: Corpus,
    variant: str | None,
    wanted: Sequence[str],
    device: str,
) -> dict[str, Value]:
    """The values of a cell. Keeps samples for its pictures, if the report shows any."""
    views = corpus.views(folder, device)
    values: dict[str, Value] = {}
    try:
        encoded = encode_corpus(model, corpus, folder, device, cache=variant is not None, group="fg-ari" in wanted)
        if "fg-ari" in wanted:
            values["fg-ari"] = _fg_ari(views["d"], encoded)
        codes = apply_variant(encoded, variant)
    except NotExaminedError as error:
        return {name: values[name] if name in values else null_value(_record(name), str(error)) for name in wanted}
    of_codes = {name: _coat(find(name), codes) for name in COAT_METRICS if name in wanted}
    if {"tre", RELATIVE_TRE} & set(wanted):
        of_codes |= _tre(views, codes)
    of_codes |= {name: _own(name, codes) for name in own_names(wanted)}
    for name, value in of_codes.items():
        values[name] = value.model_copy(update={"details": {**value.details, **encoded.details}})
    if not isinstance(model, Checkpoint) and corpus.name != WHITE:
        _keep_samples(folder, cell, None if encoded.pooled else model, views, codes, encoded.codes)
    return {name: values[name] for name in wanted}


def _coat(record: Record, codes: Mapping[str, Codes]) -> Value:
    """COAT, with the tests against hard negatives among its details."""
    negatives = {name: codes[name] for name in HARD_NEGATIVES if name in codes}
    answer = record(*(codes[role] for role in QUADRUPLE), negatives)
    details = {
        "passed": answer.passed,
        "tests": answer.tests,
        "negatives": HARD_NEGATIVES,
        "left out negatives": {name: NO_SCENE for name in HARD_NEGATIVES if name not in codes},
        "cases": len(codes["d"]),
        "first cases": first_cases(answer),
        "settings": answer.settings,
    }
    return mean_value(record, answer.cases, answer.score, reason=answer.reason, details=details)


def _own(name: str, codes: Mapping[str, Codes]) -> Value:
    """The value of a user's metric on the codes of the four scenes and of the hard negatives."""
    whole = {role: each if isinstance(each, Tensor) else each[:] for role, each in codes.items()}
    negatives = {each: whole[each] for each in HARD_NEGATIVES if each in whole}
    return own_value(name, {**{role: whole[role] for role in QUADRUPLE}, "negatives": negatives})


def versions(names: Sequence[str]) -> dict[str, int]:
    """The versions of the metrics that values are read from."""
    return {name: _record(name).version for name in names}


def _record(name: str) -> Record:
    """The metric of the catalog that a value is read from."""
    return find("tre" if name == RELATIVE_TRE else name)


def _tre(views: Mapping[str, View], codes: Mapping[str, Codes]) -> dict[str, Value]:
    """TRE of the scenes A and D, which share no object, and TRE relative to the distance from the mean code.

    The parts of a scene are its objects. Each is described by its factors, the colour of the ground, and the column
    and row of its position in a grid. Only the relative TRE does not depend on the scale of the codes.
    """
    found = _raw_tre(views, codes)
    relative = found.details.get("relative")
    if found.score is None or not isinstance(relative, float) or not math.isfinite(relative):
        reason = found.reason or "the codes are constant, so TRE has no scale"
        return {"tre": found, RELATIVE_TRE: null_value(find("tre"), reason)}
    scale = relative / found.score if found.score else 0.0
    interval = found.interval
    if interval is not None:
        interval = interval.model_copy(update={"low": interval.low * scale, "high": interval.high * scale})
    error = None if found.standard_error is None else found.standard_error * scale
    update = {"score": relative, "interval": interval, "standard_error": error}
    return {"tre": found, RELATIVE_TRE: found.model_copy(update=update)}


def _raw_tre(views: Mapping[str, View], codes: Mapping[str, Codes]) -> Value:
    """TRE in the units of the codes, as published."""
    record, roles = find("tre"), ("a", "d")
    width = codes["d"].shape[-1]
    if width > LONGEST_FOR_TRE:
        return null_value(record, f"codes of {width:,} numbers are too long for TRE; the limit is {LONGEST_FOR_TRE:,}")
    vectors = torch.cat([scene_vectors(codes[role][:]) for role in roles])
    if not bool((vectors != vectors[:1]).any()):
        return null_value(record, "all codes are the same, so there is nothing to compose")
    factors, present = [], []
    for role in roles:
        scenes = views[role].scenes
        assert scenes is not None
        position = (scenes.position[..., :2] / _GROUND_SIDE + 0.5) * POSITION_BINS
        bins = position.floor().clamp(0, POSITION_BINS - 1).long()
        factors.append(torch.cat([known_factors(scenes), bins], -1))
        present.append(scenes.present)
    answer = record(vectors, _renumbered(torch.cat(factors)), present=torch.cat(present))
    details = {"relative": answer.relative, "settings": answer.settings, "scenes": len(vectors)}
    return mean_value(record, answer.cases, answer.score, reason=answer.reason, details=details)


def _renumbered(factors: Tensor) -> Tensor:
    """The values of each factor [B, N, F], numbered from 0 without gaps."""
    columns = [torch.unique(column, return_inverse=True)[1] for column in factors.unbind(-1)]
    return torch.stack(columns, -1)


def _fg_ari(view: View, encoded: CorpusCodes) -> Value:
    """FG-ARI of D."""
    record = find("fg-ari")
    if encoded.groups is None:
        return null_value(record, NO_GROUPS)
    assert view.masks is not None
    scores = to_numpy(record(view.masks.long(), encoded.groups.long()))
    scores = scores[~np.isnan(scores)]
    return mean_value(record, scores, float(scores.mean()), noun="images", details={"images": len(scores)})


def _keep_samples(
    folder: ResultFolder,
    cell: Cell,
    model: Model | None,
    views: Mapping[str, View],
    codes: Mapping[str, Codes],
    raw: Mapping[str, Codes],
) -> None:
    """Keep the images of the first cases, the loss of each answer, and b - a + c decoded if a model can decode it.

    The slots of the case with the median loss are kept as well; `raw` are the codes before clean-up.
    """
    count = min(SAMPLES, len(codes["d"]))
    first = {role: each[:count] for role, each in codes.items()}
    a, b, c, d = (first[role] for role in QUADRUPLE)
    arrays: dict[str, Any] = {role: views[role].images[:count].numpy() for role in QUADRUPLE}
    arrays["negatives"] = np.stack([views[name].images[:count].numpy() for name in HARD_NEGATIVES], 1)
    coat = partial(find("coat"), a, b, c)
    arrays["losses"] = to_numpy(coat(d, {}).losses)
    unknown = np.full(count, np.nan)
    arrays["negative_losses"] = np.stack(
        [to_numpy(coat(first[name], {}).losses) if name in first else unknown for name in HARD_NEGATIVES], 1
    )
    if d.ndim == 3:
        if model is not None:
            arrays |= slot_arrays(model, codes, raw, int(np.argsort(arrays["losses"], kind="stable")[count // 2]))
        matched = match_slots(a, b, c, d)
        a, b, c = matched.a, matched.b, matched.c
    decoded = None if model is None else model.decode((b - a + c).float())
    if decoded is not None:
        shape = views["d"].images.shape[-2:]
        if decoded.shape[-2:] != shape:
            decoded = F.interpolate(decoded, tuple(shape), mode="bilinear")
        arrays["decoded"] = (decoded.clamp(0, 1) * 255).round().byte().cpu().numpy()
    folder.keep_samples(cell, **arrays)
