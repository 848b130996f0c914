"""From a model's masks to the values of a cell: ARI, ARP, ARR and PSNR, also by number of objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.arrays import Array, Floats, to_numpy
from alebrije.instruments.grouping.images import Corpus, object_counts
from alebrije.instruments.grouping.parts import PartScores, record_of, score_parts
from alebrije.metrics import Record, psnr
from alebrije.results import Cell, Value
from alebrije.studies.encode import NotExaminedError, batches, examining
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import Model, View, groups_from_masks
from alebrije.studies.own_metrics import own_names, own_value
from alebrije.studies.references import Noise, Oracle, Pixels, resized
from alebrije.studies.values import mean_value, null_value

NO_GROUPS = "the model does not group pixels"
NO_RECONSTRUCTION = "the model does not reconstruct its images"
SAMPLES = 8  # images kept for pictures
VIDEOS, FRAMES = 2, 12  # videos or scenes kept for pictures, and frames of each
_BATCH = 64  # images


def compute_values(
    folder: ResultFolder, cell: Cell, model: Model, corpus: Corpus, wanted: Sequence[str], device: str
) -> dict[str, Value]:
    """The values of a cell. Keeps samples for its pictures."""
    view = corpus.view(folder, device)
    try:
        groups, reconstruction = group_and_reconstruct(model, view, reconstruct="psnr" in wanted)
    except NotExaminedError as error:
        return null_values(wanted, str(error))
    return score_groups(folder, cell, view, wanted, groups, reconstruction)


def score_groups(
    folder: ResultFolder,
    cell: Cell,
    view: View,
    wanted: Sequence[str],
    groups: Tensor | None,
    reconstruction: Tensor | None = None,
    **details: Any,
) -> dict[str, Value]:
    """The values of groups and reconstructions, with more details. Keeps samples for their pictures."""
    assert view.masks is not None
    objects, noun = object_counts(view), _noun(view)
    values: dict[str, Value] = {}
    for name in wanted:
        if own_names([name]) and groups is not None:
            values[name] = own_value(name, {"true": view.masks.long(), "pred": groups})
            continue
        if name == "psnr":
            scores = None if reconstruction is None else PartScores(_psnr(view, reconstruction), {})
        else:
            scores = None if groups is None else score_parts(name, view.masks, groups)
            scores = None if scores is None else replace(scores, details={**scores.details, **details})
        reason = NO_RECONSTRUCTION if name == "psnr" else NO_GROUPS
        values[name] = _over_images(record_of(name), scores, objects, reason, noun)
    _keep_samples(folder, cell, view, groups, reconstruction)
    return values


def null_values(wanted: Sequence[str], reason: str) -> dict[str, Value]:
    """Null for each value, with the same reason."""
    return {name: null_value(record_of(name), reason) for name in wanted}


def group_and_reconstruct(model: Model, view: View, reconstruct: bool = True) -> tuple[Tensor | None, Tensor | None]:
    """The group of each pixel [B, H, W] and the reconstructions [B, 3, h, w]; None if the model has none.

    Those of videos and views have an axis more, as `view.images` has.
    """
    groups, reconstructions = [], []
    pictures = 1 if view.images.ndim == 4 else view.images.shape[1]  # of each scene
    reconstruct = reconstruct and not isinstance(model, (Pixels, Oracle, Noise))
    for batch in batches(view, max(1, _BATCH // pictures)):
        with examining(model):
            encoding = model.encode(batch) if reconstruct else None
            # masks and reconstruction come from the same forward pass if it returns both
            group = None if encoding is None else groups_from_masks(encoding, batch)
            group = model.group(batch) if group is None else group
            images = None if encoding is None else encoding.reconstruction
        groups += [] if group is None else [group.cpu().long()]
        if group is None and images is None:
            break  # as for all other images
        reconstructions += [] if images is None else [images.detach().float().clamp(0, 1).cpu()]
    return torch.cat(groups) if groups else None, torch.cat(reconstructions) if reconstructions else None


def _psnr(view: View, reconstruction: Tensor) -> Floats:
    """PSNR of each image, or of all frames of a video, at the size of the reconstruction."""
    target = resized(view.images.flatten(0, -4), reconstruction.shape[-1])
    found = reconstruction.flatten(0, -4).expand_as(target)
    target, found = (each.reshape(len(view), 3, -1, each.shape[-1]) for each in (target, found))  # one error for all
    return np.asarray(to_numpy(psnr(target, found)), dtype=np.float64)


def _noun(view: View) -> str:
    """What the cases are: images, videos, or scenes that are seen from several sides."""
    if view.images.ndim == 4:
        return "images"
    return "videos" if view.scenes is not None and view.scenes.frames else "scenes"


def _over_images(record: Record, scores: PartScores | None, objects: Array, reason: str, noun: str) -> Value:
    """The mean over images, and the mean by number of objects."""
    if scores is None:
        return null_value(record, reason)
    defined = ~np.isnan(scores.each)
    each, counts = scores.each[defined], objects[defined]
    if not len(each):
        return null_value(record, f"no {noun.removesuffix('s')} shows an object")
    by_objects = {str(count): float(each[counts == count].mean()) for count in np.unique(counts).tolist()}
    details = {noun: len(each), "by objects": by_objects, **scores.details}
    return mean_value(record, each, noun=noun, details=details)


def _keep_samples(
    folder: ResultFolder, cell: Cell, view: View, groups: Tensor | None, reconstruction: Tensor | None
) -> None:
    assert view.masks is not None
    part = _shown(view.images)
    arrays = {"images": view.images[part].numpy(), "true": view.masks[part].numpy()}
    if groups is not None:
        numbers: Tensor = torch.unique(groups[part], return_inverse=True)[1]
        arrays["groups"] = (numbers % 256).byte().numpy()
    if reconstruction is not None:
        arrays["reconstruction"] = (reconstruction[part] * 255).round().byte().numpy()
    folder.keep_samples(cell, **arrays)


def _shown(images: Tensor) -> tuple[slice, ...]:
    """The first images; of the first videos, frames that are equally far apart."""
    if images.ndim == 4:
        return (slice(SAMPLES),)
    return slice(VIDEOS), slice(None, None, -(-images.shape[1] // FRAMES))
