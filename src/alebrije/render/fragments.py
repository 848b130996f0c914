"""Fragments: the visible pieces of objects in each pixel, and the ground points between them.

A pixel inside one object is a single fragment, hit by a ray through its centre. A pixel on an outline is antialiased
with a grid of rays; those that hit the same object form one fragment, weighted by their number and shaded once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d, pad

from alebrije.render.rays import CENTRE, Hits, candidate_pixels, first_hits, surface_normals, view_rays
from alebrije.render.stage import HALF_WIDTH, Stage
from alebrije.render.vectors import unit


@dataclass(frozen=True, eq=False)
class Fragments:
    """M visible pieces of objects."""

    instance: Tensor  # [M] int64, scene * objects + object
    scene: Tensor  # [M] int64
    item: Tensor  # [M] int64, the object within its scene
    pixel: Tensor  # [M] int64, scene * size * size + pixel
    weight: Tensor  # [M] share of the pixel
    column: Tensor  # [M] centre of the fragment within the pixel
    row: Tensor  # [M]
    depth: Tensor  # [M] distance along the viewing axis
    point: Tensor  # [3, M]
    normal: Tensor  # [3, M] unit
    view: Tensor  # [3, M] unit, towards the camera


@dataclass(frozen=True, eq=False)
class Visibility:
    """What is visible to the camera: fragments, masks, depth and pixel counts."""

    fragments: Fragments
    masks: Tensor  # [B, H, W] uint8
    depth: Tensor  # [B, H, W] float32, infinite without an object
    total: Tensor  # [B, N] int64


def subpixel_offsets(grid: int) -> tuple[tuple[float, float], ...]:
    """Positions of a pixel's rays: a square grid that covers the pixel evenly."""
    steps = [(step + 0.5) / grid for step in range(grid)]
    return tuple((column, row) for row in steps for column in steps)


def primary_visibility(stage: Stage, size: int, grid: int, min_coverage: float | None) -> Visibility:
    """Find what is visible to the camera, with `grid` squared rays in the pixels on outlines.

    A mask holds the object at the pixel's centre or, with `min_coverage`, the object that covers at least this share.
    """
    instance, pixel = candidate_pixels(stage, size)
    centre, unoccluded = first_hits(stage, size, instance, pixel, CENTRE)
    masks = torch.zeros(stage.scenes * size * size, device=stage.device)
    masks[centre.pixel] = (centre.instance % stage.objects + 1).float()
    depth = torch.full_like(masks, torch.inf)
    depth[centre.pixel] = centre.depth
    on_edge = _edge_pixels(masks.reshape(stage.scenes, 1, size, size))
    edge_rows = on_edge[pixel].nonzero()[:, 0]
    rays = subpixel_offsets(grid)
    edge, coverage = first_hits(stage, size, instance[edge_rows], pixel[edge_rows], rays)
    fragments = _fragments(stage, size, centre, (~on_edge[centre.pixel]).nonzero()[:, 0], edge, rays)
    if min_coverage is not None:
        unoccluded[edge_rows] = (coverage >= min_coverage).float()
        _label_edges(masks, depth, on_edge, fragments, min_coverage)
    total = torch.zeros(stage.scenes * stage.objects, dtype=torch.int64, device=stage.device)
    total.index_add_(0, instance, unoccluded.long())
    labels, depth = (image.reshape(stage.scenes, size, size) for image in (masks.to(torch.uint8), depth))
    return Visibility(fragments, labels, depth, total.reshape(stage.scenes, stage.objects))


def _edge_pixels(masks: Tensor) -> Tensor:
    """Pixels with a neighbour of another label. [pixels] bool"""
    wide = pad(masks, (1, 1, 1, 1), mode="replicate")
    # two strips instead of a square make the pooling three times cheaper
    high = max_pool2d(max_pool2d(wide, (1, 3), 1), (3, 1), 1)
    low = -max_pool2d(max_pool2d(-wide, (1, 3), 1), (3, 1), 1)
    return (high != low).reshape(-1)


def _fragments(
    stage: Stage, size: int, centre: Hits, kept: Tensor, edge: Hits, rays: tuple[tuple[float, float], ...]
) -> Fragments:
    shift = torch.tensor(rays, device=stage.device)
    key, which = torch.unique(edge.pixel * stage.objects + edge.instance % stage.objects, return_inverse=True)
    sums = torch.zeros(4, len(key), device=stage.device)
    terms = torch.stack([torch.ones_like(edge.depth), edge.depth, shift[edge.ray, 0], shift[edge.ray, 1]])
    sums.index_add_(1, which, terms)
    count, middle = sums[0], sums[1:] / sums[0]
    pixel = torch.cat([centre.pixel[kept], key.div(stage.objects, rounding_mode="floor")])
    scene = pixel.div(size * size, rounding_mode="floor")
    instance = torch.cat([centre.instance[kept], key % stage.objects + scene[len(kept) :] * stage.objects])
    half = torch.full((len(kept),), 0.5, device=stage.device)
    column, row = torch.cat([half, middle[1]]), torch.cat([half, middle[2]])
    depth = torch.cat([centre.depth[kept], middle[0]])
    inner = pixel - scene * (size * size)
    line = inner.div(size, rounding_mode="floor")
    direction = view_rays(stage, scene, inner - line * size + column, line + row, size)
    point = stage.camera.index_select(1, scene) + direction * depth
    weight = torch.cat([torch.ones_like(half), count / len(rays)])
    normal = surface_normals(stage, instance, point)
    item = instance % stage.objects
    return Fragments(instance, scene, item, pixel, weight, column, row, depth, point, normal, -unit(direction))


def _label_edges(masks: Tensor, depth: Tensor, on_edge: Tensor, fragments: Fragments, min_coverage: float) -> None:
    """Label each outline pixel with the object that covers most of it (the first on a tie), if it covers enough."""
    large = (on_edge[fragments.pixel] & (fragments.weight >= min_coverage)).nonzero()[:, 0]
    pixel, weight, item = fragments.pixel[large], fragments.weight[large], fragments.item[large].float()
    most = torch.zeros_like(masks).scatter_reduce_(0, pixel, weight, "amax")
    largest = (weight == most[pixel]).nonzero()[:, 0]
    first = torch.full_like(masks, torch.inf).scatter_reduce_(0, pixel[largest], item[largest], "amin")
    chosen = large[largest[item[largest] == first[pixel[largest]]]]
    masks.masked_fill_(on_edge, 0.0)
    depth.masked_fill_(on_edge, torch.inf)
    masks[fragments.pixel[chosen]] = (fragments.item[chosen] + 1).float()
    depth[fragments.pixel[chosen]] = fragments.depth[chosen]


def ground_points(stage: Stage, size: int, fragments: Fragments) -> tuple[Tensor, Tensor]:
    """The point of the ground in each pixel, [3, B, H * W], and the share of the pixel it fills, [B, H * W].

    On an outline it is the centre of the uncovered part, so that no point under the object is shaded.
    """
    count = size * size
    sums = torch.zeros(3, stage.scenes * count, device=stage.device)
    weight = fragments.weight
    terms = torch.stack([weight, weight * (fragments.column - 0.5), weight * (fragments.row - 0.5)])
    sums.index_add_(1, fragments.pixel, terms)
    coverage, aside, below = sums.reshape(3, stage.scenes, count)
    share = (1.0 - coverage).clamp_min(0.0)
    scale = torch.where(share > 1e-3, -1.0 / share.clamp_min(1e-3), torch.zeros_like(share))
    step = 2.0 * HALF_WIDTH / size
    grid = torch.arange(count, device=stage.device)
    line = grid.div(size, rounding_mode="floor")
    across = (aside * scale + (grid - line * size + (0.5 - size / 2))) * step
    down = (below * scale + (line + (0.5 - size / 2))) * step
    direction = stage.forward[..., None] + stage.right[..., None] * across - stage.up[..., None] * down
    # the ground is infinite: rays above the horizon are bent down to it
    distance = -stage.camera[2][:, None] / direction[2].clamp_max(-1e-3)
    return stage.camera[..., None] + direction * distance, share
