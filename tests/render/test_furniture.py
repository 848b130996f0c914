"""Furniture: what is rendered is what its boxes cover."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.render import pixel_rays
from alebrije.render.furniture import boxes_of
from alebrije.render.solid import render_solid
from alebrije.scenes import Factor, Scenes
from alebrije.scenes.furniture import FURNITURE, MOST, half_height

SIZE = 48


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return worlds.get("furniture").sample(4, seed=2)


def hits(scenes: Scenes, row: int, view: int) -> np.ndarray:
    """The depth along each pixel's ray at which every piece is hit, by testing all boxes in float64. [N, H, W]"""
    assert scenes.cameras is not None
    camera = scenes.cameras[row, view]
    rays = pixel_rays(camera, SIZE).numpy().reshape(3, -1)
    forward = -(camera / camera.norm()).numpy()
    found = np.full((scenes.objects, rays.shape[1]), np.inf)
    for item in range(scenes.objects):
        if not scenes.present[row, item]:
            continue
        code = scenes.vocabulary["shape"].codes[int(scenes.factor("shape")[row, item])]
        size, angle = float(scenes.codes("size")[row, item]), float(scenes.rotation[row, item])
        turn = np.array([[np.cos(angle), np.sin(angle), 0], [-np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        start = turn @ (camera - scenes.position[row, item]).numpy() / size + [0, 0, half_height(code)]
        way = turn @ rays / size
        for box in FURNITURE[code]:
            first, last = ((np.array(corner) - start)[:, None] / way for corner in (box.low, box.high))
            entry, leave = np.minimum(first, last).max(0), np.maximum(first, last).min(0)
            found[item] = np.where(entry <= leave, np.minimum(found[item], entry), found[item])
    return (found * (forward @ rays)).reshape(scenes.objects, SIZE, SIZE)


def test_masks_depths_and_counts_are_those_of_the_boxes(scenes: Scenes) -> None:
    frames = worlds.get("furniture").render(scenes, SIZE)
    assert frames.depth is not None
    for row, view in ((0, 0), (1, 2), (2, 1)):
        depth = hits(scenes, row, view)
        nearest = np.where(np.isfinite(depth.min(0)), depth.argmin(0) + 1, 0)
        labels = frames.masks[row, view].numpy()
        assert (labels == nearest).mean() > 0.999
        shown = (labels == nearest) & (nearest > 0)
        assert np.allclose(frames.depth[row, view].numpy()[shown], depth.min(0)[shown], atol=1e-3)
        assert np.abs(frames.total[row, view].numpy() - np.isfinite(depth).sum((1, 2))).max() <= 1
        assert frames.visible[row, view].tolist() == [int((labels == item + 1).sum()) for item in range(scenes.objects)]


def test_a_piece_alone_is_all_visible(scenes: Scenes) -> None:
    alone = torch.zeros_like(scenes.present)
    alone[:, 0] = True
    frames = worlds.get("furniture").render(replace(scenes, present=alone), SIZE)
    assert torch.equal(frames.visible, frames.total)
    assert bool((frames.visible[..., 0] > 0).all())
    assert not frames.visible[..., 1:].any()


def test_trims_have_a_second_colour(scenes: Scenes) -> None:
    boxes = boxes_of(scenes)
    color = boxes.codes("color").reshape(len(scenes), -1, MOST, 3)
    present = boxes.present.reshape(len(scenes), -1, MOST)
    own = scenes.codes("color")[:, :, None]
    differs = ((color != own).any(-1) & present).any(-1)
    plain = scenes.factor("trim") == scenes.vocabulary["trim"].index("plain")
    assert torch.equal(differs, ~plain & scenes.present)


def test_a_turned_piece_is_the_same_seen_from_elsewhere() -> None:
    """Turning everything about the vertical changes no mask."""
    scenes = worlds.get("furniture").sample(2, seed=3)
    assert scenes.camera is not None
    angle = torch.tensor(0.7, dtype=torch.float64)

    def turned(place: torch.Tensor) -> torch.Tensor:
        x, y, z = place.unbind(-1)
        return torch.stack([x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos(), z], -1)

    still = replace(scenes, cameras=None)
    moved = replace(
        still, position=turned(scenes.position), rotation=scenes.rotation + angle, camera=turned(scenes.camera)
    )
    first, second = (render_solid(each, SIZE).masks for each in (still, moved))
    assert float((first == second).float().mean()) > 0.999


def test_what_is_no_furniture_is_refused(scenes: Scenes) -> None:
    vocabulary = scenes.vocabulary
    factors = tuple(factor for factor in vocabulary if factor.name != "trim")
    kept = torch.tensor([axis for axis, factor in enumerate(vocabulary) if factor.name != "trim"])
    untrimmed = replace(scenes, vocabulary=replace(vocabulary, factors=factors), factors=scenes.factors[..., kept])
    with pytest.raises(InputError, match="furniture needs the factors color and trim"):
        render_solid(untrimmed, 16)
    odd = tuple(Factor("trim", ("plain", "gold", "dark")) if each.name == "trim" else each for each in vocabulary)
    with pytest.raises(InputError, match="the codes of trims are plain, light, dark"):
        render_solid(replace(scenes, vocabulary=replace(vocabulary, factors=odd)), 16)
    with pytest.raises(InputError, match="at most 42 pieces of furniture, not 50"):
        render_solid(scenes.padded(50), 16)
