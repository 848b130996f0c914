"""Eight procedural materials like those of SVIB-CLEVRTex, as functions of texture coordinates.

One unit of u or v is one texture tile: about 37 units of length on the ground, or once around a sphere. Nothing is
stored: colours, gloss and bumps are computed from patterns and hashed noise. Colours are linear and were chosen so that
a ground lit as in the released images has their mean and spread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije.render.noise import Noise, cell_random, grid_cell, layered_noise, step_between
from alebrije.render.patterns import barrel_tiles, flemish_bond, linked_rings, running_bond

MATERIALS = ("red bricks", "white bricks", "copper chainmail", "denim", "fleece", "spotty metal", "terracotta", "wood")

Color = tuple[float, float, float]


@dataclass(frozen=True)
class Surface:
    """How a surface reflects light at M points.

    `roughness` is perceptual: GGX's alpha is its square. Metals have almost no albedo and a coloured `specular`.
    """

    albedo: Tensor  # [M, 3] linear RGB of the diffuse lobe
    specular: Tensor  # [M, 3] linear RGB reflectance of the glossy lobe at normal incidence
    roughness: Tensor  # [M] in 0..1
    normal: Tensor  # [M, 3] unit shading normal with bumps
    opacity: Tensor  # [M] 1 is solid, 0 is a hole (chainmail only)


@dataclass(frozen=True)
class _Finish:
    """A surface whose bumps are still slopes along u and v."""

    albedo: Tensor  # [M, 3]
    specular: Tensor  # [M, 3]
    roughness: Tensor  # [M]
    slope: Tensor  # [M, 2] along u and v
    opacity: Tensor | None = None  # [M]; None is solid


def surface(material: Tensor, uv: Tensor, normal: Tensor, tangent_u: Tensor, tangent_v: Tensor) -> Surface:
    """The surface at M points; `material` [M] int64 indexes `MATERIALS`, directions [M, 3] have unit length.

    The result at a point does not depend on the other points.

    >>> z, x, y = torch.eye(3).roll(1, 0)[:, None]
    >>> red = surface(torch.tensor([0]), torch.tensor([[0.31, 0.46]]), z, x, y)
    >>> red.albedo.shape, red.opacity.tolist()
    (torch.Size([1, 3]), [1.0])
    """
    albedo, specular = torch.zeros_like(normal), torch.zeros_like(normal)
    roughness, opacity, slope = torch.ones_like(uv[:, 0]), torch.ones_like(uv[:, 0]), torch.zeros_like(uv)
    # A CPU is three times as fast while all octaves fit its cache; a GPU wants large batches.
    batch = 1 << (16 if uv.device.type == "cpu" else 21)
    for index, make_finish in enumerate(_FINISHES):
        rows = (material == index).nonzero()[:, 0]
        for start in range(0, len(rows), batch):
            chosen = rows[start : start + batch]
            finish = make_finish(uv[chosen])
            albedo[chosen] = finish.albedo.clamp(0, 1)
            specular[chosen] = finish.specular.clamp(0, 1)
            roughness[chosen] = finish.roughness.clamp(0.05, 1)
            slope[chosen] = finish.slope
            if finish.opacity is not None:
                opacity[chosen] = finish.opacity
    bumped = F.normalize(normal - slope[:, :1] * tangent_u - slope[:, 1:] * tangent_v, dim=-1)
    return Surface(albedo, specular, roughness, bumped, opacity)


def _blend(low: Color, high: Color, share: Tensor) -> Tensor:
    """Interpolate between two colours, [M, 3]; a share of 0 gives the first."""
    return torch.lerp(_color(low, share.device), _color(high, share.device), share[:, None])


@cache
def _color(color: Color, device: torch.device) -> Tensor:
    return torch.tensor(color, device=device)


def _gloss(like: Tensor, reflectance: float) -> Tensor:
    """A constant grey reflectance, [M, 3]."""
    return torch.full((len(like), 3), reflectance, device=like.device)


def _red_bricks(uv: Tensor) -> _Finish:
    (grain, fired), (grain_slope, _) = layered_noise(uv, Noise(80, 80, 101, octaves=3), Noise(30, 60, 103, octaves=2))
    bricks = flemish_bond(uv + 0.0005 * grain[:, None], courses=40, pairs=18)
    tone = cell_random(bricks.column, bricks.row, 102)
    brick = step_between(0.025, 0.085, bricks.inside)
    light = (0.45 + 0.3 * (tone - 0.5) + 0.55 * fired + 0.3 * grain).clamp(0, 1)
    clay = _blend((0.385, 0.145, 0.105), (0.56, 0.28, 0.225), light)
    mortar = _blend((0.09, 0.082, 0.082), (0.19, 0.165, 0.16), 0.5 + grain)
    rim = 0.8 * (1 - step_between(0.03, 0.16, bricks.inside))
    slope = -bricks.downhill * rim[:, None] + 0.05 * grain_slope
    albedo = mortar + (clay - mortar) * brick[:, None]
    return _Finish(albedo, _gloss(uv, 0.03), 0.75 + 0.1 * grain, slope)


def _white_bricks(uv: Tensor) -> _Finish:
    (rough, sway), (rough_slope, _) = layered_noise(uv, Noise(90, 120, 201, octaves=2), Noise(24, 24, 202))
    wobble = torch.stack((rough, rough + 2.0 * sway), -1) * 0.0012
    bricks = running_bond(uv + wobble, courses=48, bricks=15, seed=203)
    tone = cell_random(bricks.column, bricks.row, 204)
    paint = step_between(0.0, 0.13, bricks.inside)
    share = (0.10 + 0.35 * tone + 0.55 * paint + 0.2 * rough).clamp(0, 1)
    albedo = _blend((0.315, 0.335, 0.37), (0.482, 0.502, 0.532), share)
    rim = (1 - step_between(0.0, 0.25, bricks.inside)) * (0.35 + 0.65 * tone)
    slope = -bricks.downhill * rim[:, None] + 0.11 * rough_slope
    return _Finish(albedo, _gloss(uv, 0.04), 0.55 + 0.1 * rough, slope)


def _copper_chainmail(uv: Tensor) -> _Finish:
    rings = linked_rings(uv, columns=17, rows=24, radius=0.0221, wire=0.0025)
    worn = layered_noise(uv, Noise(240, 240, 301))[0][0]
    dull = (0.5 + 0.5 * worn + 0.4 * (rings.identity - 0.5)).clamp(0, 1)
    height = rings.height[:, None]
    albedo = _blend((0.06, 0.037, 0.031), (0.13, 0.078, 0.066), dull) * (0.3 + 0.7 * height)
    specular = _blend((0.56, 0.37, 0.31), (0.32, 0.19, 0.155), dull) * (0.25 + 0.75 * height)
    return _Finish(albedo, specular, 0.46 + 0.12 * dull, rings.slope, rings.solid)


def _denim(uv: Tensor) -> _Finish:
    noises = Noise(360, 300, 401, octaves=2), Noise(40, 480, 402), Noise(10, 10, 404)
    (yarn, warp, washed), (yarn_slope, *_) = layered_noise(uv, *noises)
    # The ribs of the weave are slanted, and a whole number of them fits the tile.
    twill = torch.stack((uv[:, 0] + uv[:, 1], uv[:, 1]), -1)
    weft = layered_noise(twill, Noise(420, 60, 403))[0][0]
    light = 0.42 + 0.36 * yarn + 0.28 * warp + 0.16 * weft + 0.10 * washed
    speck = step_between(0.35, 0.75, yarn)
    albedo = _blend((0.030, 0.048, 0.099), (0.115, 0.162, 0.262), (light + 0.2 * speck).clamp(0, 1))
    return _Finish(albedo, _gloss(uv, 0.02), 0.85 + 0.05 * yarn, 0.12 * yarn_slope)


def _fleece(uv: Tensor) -> _Finish:
    (pile, brushed), (pile_slope, _) = layered_noise(uv, Noise(310, 310, 501, octaves=2), Noise(12, 12, 502))
    light = (0.5 + 0.4 * pile + 0.15 * brushed).clamp(0, 1)
    albedo = _blend((0.037, 0.110, 0.089), (0.049, 0.136, 0.110), light)
    return _Finish(albedo, _gloss(uv, 0.008), 0.65 + 0.1 * pile, 0.055 * pile_slope)


def _spotty_metal(uv: Tensor) -> _Finish:
    noises = Noise(64, 64, 601, octaves=3), Noise(7, 7, 602, octaves=2), Noise(130, 130, 603)
    (spots, clusters, brushed), (spots_slope, *_) = layered_noise(uv, *noises)
    rust = step_between(0.48, 0.62, spots + 0.5 * clusters)
    stain = (0.35 + 0.9 * clusters + 0.35 * spots).clamp(0, 1)
    steel = _blend((0.56, 0.54, 0.53), (0.32, 0.27, 0.245), stain)
    flakes = _blend((0.14, 0.055, 0.032), (0.50, 0.26, 0.18), (0.4 + brushed + 0.5 * spots).clamp(0, 1))
    albedo = flakes * rust[:, None] + _blend((0.006, 0.006, 0.006), (0.035, 0.026, 0.022), stain)
    specular = steel * (1 - rust[:, None]) + 0.03 * rust[:, None]
    roughness = 0.26 + 0.04 * brushed + 0.07 * stain + 0.35 * rust
    return _Finish(albedo, specular, roughness, 0.003 * spots_slope * (1 + 16 * rust[:, None]))


def _terracotta(uv: Tensor) -> _Finish:
    tiles = barrel_tiles(uv, columns=21, rows=18)
    yellowness = cell_random(tiles.column, tiles.row, 701)
    tone = cell_random(tiles.row, tiles.column, 702)
    (stained,), (stained_slope,) = layered_noise(uv, Noise(60, 60, 703, octaves=2))
    light = (0.5 + 0.4 * stained + 0.7 * (tone - 0.5)).clamp(0, 1)
    red = _blend((0.26, 0.047, 0.028), (0.39, 0.092, 0.050), light)
    yellow = _blend((0.43, 0.155, 0.040), (0.56, 0.230, 0.059), light)
    gutter = _blend((0.25, 0.065, 0.025), (0.42, 0.13, 0.05), light)
    # Most yellow tiles lie on every third diagonal.
    on_stripe = torch.remainder(tiles.column + tiles.row, 3) == 0
    clay = torch.where((yellowness < torch.where(on_stripe, 0.75, 0.08))[:, None], yellow, red)
    albedo = torch.where(tiles.cap[:, None] > 0, clay, gutter) * tiles.shade[:, None]
    return _Finish(albedo, _gloss(uv, 0.012), 0.55 + 0.1 * stained, tiles.slope + 0.03 * stained_slope)


def _wood(uv: Tensor) -> _Finish:
    planks = 16
    plank = grid_cell(uv[:, 1] * planks, planks)
    tone = cell_random(plank, torch.zeros_like(plank), 801)
    sway = layered_noise(uv, Noise(9, 32, 802))[0][0]
    # Each plank has its own grain, so offset it.
    grown = torch.stack((uv[:, 0] + tone, uv[:, 1] + 0.006 * sway), -1)
    (grain, fibre), (grain_slope, _) = layered_noise(grown, Noise(5, 100, 803, octaves=3), Noise(24, 512, 804))
    edge = uv[:, 1] * planks - (uv[:, 1] * planks).floor()
    seam = 1 - step_between(0.0, 0.06, torch.minimum(edge, 1 - edge))
    light = 0.5 + 0.62 * grain + 0.12 * fibre + 0.25 * (tone - 0.5)
    albedo = _blend((0.40, 0.135, 0.030), (0.53, 0.29, 0.086), light.clamp(0, 1)) * (1 - 0.15 * seam[:, None])
    slope = torch.stack((0.01 * sway, 0.03 * grain_slope[:, 1] - 0.1 * torch.sign(edge - 0.5) * seam), -1)
    return _Finish(albedo, _gloss(uv, 0.045), 0.27 + 0.08 * grain, slope)


_FINISHES: tuple[Callable[[Tensor], _Finish], ...] = (
    _red_bricks,
    _white_bricks,
    _copper_chainmail,
    _denim,
    _fleece,
    _spotty_metal,
    _terracotta,
    _wood,
)
