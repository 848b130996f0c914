"""Fragments: the visible pieces of objects in each pixel, and the place where the ground shows between them.

A pixel inside one object is a single fragment, seen through its centre. A pixel on an outline is seen through a grid of
rays; those that meet the same object make one fragment, weighted by their number and shaded once in their middle.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d, pad

from alebrije.render.rays import CENTRE, Hits, candidates, first_hits, normals, view_rays
from alebrije.render.stage import HALF_WIDTH, Stage
from alebrije.render.vectors import unit


@dataclass(frozen=True, eq=False)
class Fragments:
    """M visible pieces of objects."""

    place: Tensor  # [M] int64, scene * objects + object
    scene: Tensor  # [M] int64
    item: Tensor  # [M] int64, the object within its scene
    pixel: Tensor  # [M] int64, scene * size * size + pixel
    weight: Tensor  # [M] share of the pixel
    column: Tensor  # [M] middle of the piece within the pixel
    row: Tensor  # [M]
    depth: Tensor  # [M] distance along the viewing axis
    point: Tensor  # [3, M]
    normal: Tensor  # [3, M] unit
    view: Tensor  # [3, M] unit, towards the camera


@dataclass(frozen=True, eq=False)
class Sight:
    """What the camera sees: fragments, masks and counts."""

    fragments: Fragments
    masks: Tensor  # [B, H, W] uint8
    depth: Tensor  # [B, H, W] float32, infinite where no object is
    total: Tensor  # [B, N] int64


def offsets(grid: int) -> tuple[tuple[float, float], ...]:
    """Rays of a pixel on a square grid that covers it evenly."""
    steps = [(step + 0.5) / grid for step in range(grid)]
    return tuple((column, row) for row in steps for column in steps)


def see(stage: Stage, size: int, grid: int, least: float | None) -> Sight:
    """What the camera sees, with `grid` squared rays in the pixels on outlines.

    Masks tell what the pixel's centre sees or, with `least`, which object covers at least this share of the pixel.
    """
    place, pixel = candidates(stage, size)
    centre, alone = first_hits(stage, size, place, pixel, CENTRE)
    masks = torch.zeros(stage.scenes * size * size, device=stage.device)
    masks[centre.pixel] = (centre.place % stage.objects + 1).float()
    depth = torch.full_like(masks, torch.inf)
    depth[centre.pixel] = centre.depth
    rim = _outlines(masks.reshape(stage.scenes, 1, size, size))
    on_rim = rim[pixel].nonzero()[:, 0]
    rays = offsets(grid)
    edge, covered = first_hits(stage, size, place[on_rim], pixel[on_rim], rays)
    pieces = _pieces(stage, size, centre, (~rim[centre.pixel]).nonzero()[:, 0], edge, rays)
    if least is not None:
        alone[on_rim] = (covered >= least).float()
        _cover(masks, depth, rim, pieces, least)
    total = torch.zeros(stage.scenes * stage.objects, dtype=torch.int64, device=stage.device)
    total.index_add_(0, place, alone.long())
    shape = (stage.scenes, size, size)
    return Sight(
        pieces,
        masks.to(torch.uint8).reshape(shape),
        depth.reshape(shape),
        total.reshape(stage.scenes, stage.objects),
    )


def _outlines(masks: Tensor) -> Tensor:
    """Pixels with a neighbour of another label, or of none. [pixels] bool"""
    wide = pad(masks, (1, 1, 1, 1), mode="replicate")
    # two strips instead of a square: the pool is three times cheaper
    high = max_pool2d(max_pool2d(wide, (1, 3), 1), (3, 1), 1)
    low = -max_pool2d(max_pool2d(-wide, (1, 3), 1), (3, 1), 1)
    return (high != low).reshape(-1)


def _pieces(
    stage: Stage, size: int, centre: Hits, inner: Tensor, edge: Hits, rays: tuple[tuple[float, float], ...]
) -> Fragments:
    shift = torch.tensor(rays, device=stage.device)
    key, which = torch.unique(edge.pixel * stage.objects + edge.place % stage.objects, return_inverse=True)
    sums = torch.zeros(4, len(key), device=stage.device)
    parts = torch.stack([torch.ones_like(edge.depth), edge.depth, shift[edge.ray, 0], shift[edge.ray, 1]])
    sums.index_add_(1, which, parts)
    count, middle = sums[0], sums[1:] / sums[0]
    pixel = torch.cat([centre.pixel[inner], key.div(stage.objects, rounding_mode="floor")])
    scene = pixel.div(size * size, rounding_mode="floor")
    place = torch.cat([centre.place[inner], key % stage.objects + scene[len(inner) :] * stage.objects])
    half = torch.full((len(inner),), 0.5, device=stage.device)
    column, row = torch.cat([half, middle[1]]), torch.cat([half, middle[2]])
    depth = torch.cat([centre.depth[inner], middle[0]])
    spot = pixel - scene * (size * size)
    line = spot.div(size, rounding_mode="floor")
    toward = view_rays(stage, scene, spot - line * size + column, line + row, size)
    point = stage.camera.index_select(1, scene) + toward * depth
    weight = torch.cat([torch.ones_like(half), count / len(rays)])
    normal = normals(stage, place, point)
    item = place % stage.objects
    return Fragments(place, scene, item, pixel, weight, column, row, depth, point, normal, -unit(toward))


def _cover(masks: Tensor, depth: Tensor, rim: Tensor, pieces: Fragments, least: float) -> None:
    """Label the outlines by the object that covers most of the pixel, the first of equals, if it covers enough."""
    enough = (rim[pieces.pixel] & (pieces.weight >= least)).nonzero()[:, 0]
    pixel, weight, item = pieces.pixel[enough], pieces.weight[enough], pieces.item[enough].float()
    most = torch.zeros_like(masks).scatter_reduce_(0, pixel, weight, "amax")
    largest = (weight == most[pixel]).nonzero()[:, 0]
    first = torch.full_like(masks, torch.inf).scatter_reduce_(0, pixel[largest], item[largest], "amin")
    chosen = enough[largest[item[largest] == first[pixel[largest]]]]
    masks.masked_fill_(rim, 0.0)
    depth.masked_fill_(rim, torch.inf)
    masks[pieces.pixel[chosen]] = (pieces.item[chosen] + 1).float()
    depth[pieces.pixel[chosen]] = pieces.depth[chosen]


def ground_points(stage: Stage, size: int, pieces: Fragments) -> tuple[Tensor, Tensor]:
    """Where the ground is seen in each pixel, [3, B, H * W], and which share of it shows, [B, H * W].

    On an outline that is the middle of what no object covers, lest a point under the object be taken.
    """
    count = size * size
    sums = torch.zeros(3, stage.scenes * count, device=stage.device)
    parts = torch.stack([pieces.weight, pieces.weight * (pieces.column - 0.5), pieces.weight * (pieces.row - 0.5)])
    sums.index_add_(1, pieces.pixel, parts)
    covered, aside, below = sums.reshape(3, stage.scenes, count)
    share = (1.0 - covered).clamp_min(0.0)
    scale = torch.where(share > 1e-3, -1.0 / share.clamp_min(1e-3), torch.zeros_like(share))
    step = 2.0 * HALF_WIDTH / size
    grid = torch.arange(count, device=stage.device)
    line = grid.div(size, rounding_mode="floor")
    across = (aside * scale + (grid - line * size + (0.5 - size / 2))) * step
    down = (below * scale + (line + (0.5 - size / 2))) * step
    toward = stage.forward[..., None] + stage.right[..., None] * across - stage.up[..., None] * down
    # the ground is endless: rays that would pass above it meet it at the horizon
    far = -stage.camera[2][:, None] / toward[2].clamp_max(-1e-3)
    return stage.camera[..., None] + toward * far, share
