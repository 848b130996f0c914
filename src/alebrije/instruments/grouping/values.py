"""From a model's masks to the values of a cell: ARI, ARP, ARR and PSNR, also by number of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.arrays import Array, Floats, to_numpy
from alebrije.instruments.grouping.images import Corpus, object_counts
from alebrije.metrics import Record, find, psnr
from alebrije.results import Cell, Value
from alebrije.studies.encode import NotExaminedError, batches, examining
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import Model, View, groups_from_masks
from alebrije.studies.own_metrics import own_names, own_value
from alebrije.studies.references import Noise, Oracle, Pixels, resized
from alebrije.studies.values import mean_value, null_value

METRICS = ("fg-ari", "fg-arp", "fg-arr", "ari", "psnr")
NO_GROUPS = "the model does not group pixels"
NO_RECONSTRUCTION = "the model does not reconstruct its images"
SAMPLES = 8  # images kept for pictures
_BATCH = 64


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
    objects = object_counts(view)
    values: dict[str, Value] = {}
    for name in wanted:
        record = find(name)
        if own_names([name]) and groups is not None:
            values[name] = own_value(name, {"true": view.masks.long(), "pred": groups})
        elif name == "psnr":
            scores = None if reconstruction is None else _psnr(view, reconstruction)
            values[name] = _over_images(record, scores, objects, NO_RECONSTRUCTION)
        else:
            scores = None if groups is None else to_numpy(record(view.masks.long(), groups))
            values[name] = _over_images(record, scores, objects, NO_GROUPS, **details)
    _keep_samples(folder, cell, view, groups, reconstruction)
    return values


def null_values(wanted: Sequence[str], reason: str) -> dict[str, Value]:
    """Null for each value, with the same reason."""
    return {name: null_value(find(name), reason) for name in wanted}


def group_and_reconstruct(model: Model, view: View, reconstruct: bool = True) -> tuple[Tensor | None, Tensor | None]:
    """The group of each pixel [B, H, W] and the reconstructions [B, 3, h, w]; None if the model has none."""
    groups, reconstructions = [], []
    reconstruct = reconstruct and not isinstance(model, (Pixels, Oracle, Noise))
    for batch in batches(view, _BATCH):
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
    """PSNR of each image at the size of the reconstruction."""
    target = resized(view.images, reconstruction.shape[-1])
    return np.asarray(to_numpy(psnr(target, reconstruction.expand_as(target))), dtype=np.float64)


def _over_images(record: Record, scores: Array | None, objects: Array, reason: str, **details: Any) -> Value:
    """The mean over images, and the mean by number of objects."""
    if scores is None:
        return null_value(record, reason)
    defined = ~np.isnan(scores)
    each, counts = scores[defined].astype(np.float64), objects[defined]
    if not len(each):
        return null_value(record, "no image shows an object")
    by_objects = {str(count): float(each[counts == count].mean()) for count in np.unique(counts).tolist()}
    return mean_value(record, each, noun="images", details={"images": len(each), "by objects": by_objects, **details})


def _keep_samples(
    folder: ResultFolder, cell: Cell, view: View, groups: Tensor | None, reconstruction: Tensor | None
) -> None:
    assert view.masks is not None
    arrays = {"images": view.images[:SAMPLES].numpy(), "true": view.masks[:SAMPLES].numpy()}
    if groups is not None:
        numbers: Tensor = torch.unique(groups[:SAMPLES], return_inverse=True)[1]
        arrays["groups"] = (numbers % 256).byte().numpy()
    if reconstruction is not None:
        arrays["reconstruction"] = (reconstruction[:SAMPLES] * 255).round().byte().numpy()
    folder.keep_samples(cell, **arrays)
