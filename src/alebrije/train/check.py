"""The training check: scores on held-out images or episodes while a model trains."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from alebrije.metrics import (
    adjusted_rand_index,
    adjusted_rand_precision,
    adjusted_rand_recall,
    generalisation_gap,
    labels_from_masks,
)
from alebrije.models import Batch
from alebrije.render.frames import Frames
from alebrije.scenes import Scenes
from alebrije.train.image_files import FileImages
from alebrije.train.labels import LabelledImages
from alebrije.train.loop import TrainingCheck
from alebrije.train.options import PreloadProgress
from alebrije.train.plan import Plan
from alebrije.train.scene_sets import Images, Part, SceneSet, TaskEpisodes, TaskSources, Videos
from alebrije.train.sources import join_batches, rendered_pieces, to_float
from alebrije.train.view_sets import Views, camera_positions, single_frames

CHECK_BATCH = 64
VIDEOS_AT_ONCE = 8
_FRAMES = 24  # of a video: it counts as so many images
_PARTS: tuple[Part, Part] = ("validation", "test")


def training_check(
    plan: Plan, count: int, device: torch.device, progress: PreloadProgress | None = None
) -> TrainingCheck | None:
    """Return the check of a plan's model on `count` items: prediction errors, or reconstruction errors and grouping.

    `progress` is called while its images are rendered.
    """
    if plan.predicts:
        inside, outside = (_rendered(_episodes(plan, part), count, device, progress) for part in _PARTS)
        return lambda model: _prediction_scores(model, inside, outside)
    if not plan.record.reconstructs:
        return None
    scene_set = plan.scene_set("validation")
    if isinstance(scene_set, Videos):
        rendered = scene_set.world.render(scene_set.scenes(0, -(-count // _FRAMES)), plan.size, device)
        return lambda model: _video_scores(model, rendered)
    if isinstance(scene_set, FileImages):
        frames = replace(scene_set, masks=True, labels=None).render(scene_set.scenes(0, count), device)
    else:
        images = scene_set.images if isinstance(scene_set, LabelledImages) else scene_set
        assert isinstance(images, (Images, TaskSources))
        frames = _rendered(_WithMasks(images, plan.size), count, device, progress)
    masks = frames.get("masks") if plan.record.has_slots else None
    more = {name: tensor for name, tensor in frames.items() if name not in ("images", "masks")}
    return lambda model: _reconstruction_scores(model, frames["images"], masks, more)


@dataclass(frozen=True)
class _WithMasks:
    """Images with their masks."""

    images: Images | TaskSources
    size: int

    def scenes(self, first: int, count: int) -> Scenes:
        """Return scenes `first` to `first + count`."""
        return self.images.scenes(first, count)

    def render(self, scenes: Scenes, device: torch.device) -> Batch:
        """Render scenes as uint8 images, with masks."""
        if isinstance(self.images, Views):
            frames = self.images.world.render(scenes, self.size, device)
            return {"images": frames.images, "masks": frames.masks, "cameras": camera_positions(scenes, device)}
        frames = single_frames(self.images.world, scenes, self.size, device)
        return {"images": frames.images, "masks": frames.masks}


def _episodes(plan: Plan, part: Part) -> TaskEpisodes:
    scene_set = plan.scene_set(part)
    assert isinstance(scene_set, TaskEpisodes)
    return scene_set


def _rendered(scene_set: SceneSet, count: int, device: torch.device, progress: PreloadProgress | None) -> Batch:
    """Return the first `count` items, rendered a few at a time."""
    pieces = []
    for piece, done in rendered_pieces(scene_set, scene_set.scenes(0, count), count, device):
        pieces.append(piece)
        if progress is not None:
            progress(done, count)
    return join_batches(pieces)


def _prediction_scores(model: nn.Module, inside: Batch, outside: Batch) -> dict[str, float]:
    """Return mean squared errors of predicted images, summed over each image as in SVIB's Table 11, and their gap."""
    inside_error, outside_error = (float(prediction_errors(model, batch).mean()) for batch in (inside, outside))
    gap = generalisation_gap(inside_error, outside_error).score
    return {"in-distribution error": inside_error, "out-of-distribution error": outside_error, "gap": gap}


def prediction_errors(model: nn.Module, batch: Batch) -> Tensor:
    """Return the squared error of each predicted target, summed over pixels and channels. [B]"""
    errors = []
    for first in range(0, len(batch["target"]), CHECK_BATCH):
        part = {name: to_float(tensor[first : first + CHECK_BATCH]) for name, tensor in batch.items()}
        predicted = model.predict(part)  # type: ignore[operator]
        errors.append((predicted.float() - part["target"]).square().flatten(1).sum(1))
    return torch.cat(errors)


def _reconstruction_scores(
    model: nn.Module, images: Tensor, masks: Tensor | None, more: Mapping[str, Tensor]
) -> dict[str, float]:
    """Return the mean squared error per pixel of reconstructions and, with true masks, the grouping scores.

    `more` are the model's other inputs, by name.
    """
    errors, scores = [], []
    for first in range(0, len(images), CHECK_BATCH):
        part = to_float(images[first : first + CHECK_BATCH])
        encoding = model(part, **{name: tensor[first : first + CHECK_BATCH] for name, tensor in more.items()})
        assert encoding.reconstruction is not None
        errors.append((encoding.reconstruction.float() - part).square().flatten(1).mean(1))
        if masks is not None and encoding.masks is not None:
            scores.append(grouping_scores(masks[first : first + CHECK_BATCH], encoding.masks))
    names = scores[0] if scores else ()
    grouping = {name: float(torch.cat([part[name] for part in scores]).mean()) for name in names}
    return {"reconstruction error": float(torch.cat(errors).mean())} | grouping


def _video_scores(model: nn.Module, frames: Frames) -> dict[str, float]:
    """Return the mean squared error per pixel, if videos are reconstructed, and the grouping scores of whole videos."""
    assert frames.boxes is not None
    has_boxes = "boxes" in inspect.signature(model.forward).parameters
    errors, scores = [], []
    for first in range(0, len(frames), VIDEOS_AT_ONCE):
        rows = slice(first, first + VIDEOS_AT_ONCE)
        videos = to_float(frames.images[rows])
        encoding = model(videos, frames.boxes[rows, 0]) if has_boxes else model(videos)
        scores.append(grouping_scores(frames.masks[rows], encoding.masks))
        if encoding.reconstruction is not None:
            errors.append((encoding.reconstruction.float() - videos).square().mean((1, 2, 3, 4)))
    grouping = {name: float(torch.cat([part[name] for part in scores]).mean()) for name in scores[0]}
    return ({"reconstruction error": float(torch.cat(errors).mean())} if errors else {}) | grouping


def grouping_scores(true: Tensor, masks: Tensor) -> dict[str, Tensor]:
    """Return ARI, ARP and ARR over the objects' pixels, and ARI over all pixels. [B] each

    The views of a scene are scored together, and so are the frames of a video.
    """
    predicted = labels_from_masks(masks.flatten(0, -4)).cpu().reshape(true.shape)
    true = true.cpu()
    if true.ndim == 4:
        true, predicted = true.flatten(1, 2), predicted.flatten(1, 2)
    return {
        "FG-ARI": adjusted_rand_index(true, predicted, ignore=0),
        "FG-ARP": adjusted_rand_precision(true, predicted, ignore=0),
        "FG-ARR": adjusted_rand_recall(true, predicted, ignore=0),
        "ARI": adjusted_rand_index(true, predicted),
    }
