"""Eight procedural surfaces of the kinds that SVIB-CLEVRTex uses, as functions of texture coordinates.

One unit of u and of v is one tile of texture, about 37 units of length on the ground and once around a sphere. Nothing
is stored: colours, gloss and bumps follow from the pattern and from hashed noise. Colours are linear and were chosen so
that ground lit as in the released pictures has their mean and spread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije.render.noise import Field, cell_random, grid_cell, layered_noise, step_between
from alebrije.render.patterns import barrel_tiles, flemish_bond, linked_rings, running_bond

MATERIALS = ("red bricks", "white bricks", "copper chainmail", "denim", "fleece", "spotty metal", "terracotta", "wood")

Color = tuple[float, float, float]


@dataclass(frozen=True)
class Surface:
    """How M points of a surface answer to light.

    `roughness` is perceptual: GGX's alpha is its square. Metals have next to no albedo and a coloured `specular`.
    """

    albedo: Tensor  # [M, 3] linear RGB of the diffuse part
    specular: Tensor  # [M, 3] linear RGB reflectance at normal incidence of the glossy part
    roughness: Tensor  # [M] in 0..1
    normal: Tensor  # [M, 3] shading normal after bumps, unit length
    opacity: Tensor  # [M] 1 is solid, 0 a hole (chainmail only)


@dataclass(frozen=True)
class _Finish:
    """A surface before its bumps are turned into space."""

    albedo: Tensor  # [M, 3]
    specular: Tensor  # [M, 3]
    roughness: Tensor  # [M]
    slope: Tensor  # [M, 2] along u and v
    opacity: Tensor | None = None  # [M]; None is solid


def surface(
    material: Tensor, uv: Tensor, point: Tensor, normal: Tensor, tangent_u: Tensor, tangent_v: Tensor
) -> Surface:
    """The surface at M points; `material` [M] int64 counts along `MATERIALS`, directions [M, 3] have unit length.

    Each point's answer depends on that point alone. `point` is where it lies in space: all eight are painted on through
    `uv`, so none of them needs it.

    >>> z, x, y = torch.eye(3).roll(1, 0)[:, None]
    >>> red = surface(torch.tensor([0]), torch.tensor([[0.31, 0.46]]), z, z, x, y)
    >>> red.albedo.shape, red.opacity.tolist()
    (torch.Size([1, 3]), [1.0])
    """
    albedo, specular = torch.zeros_like(normal), torch.zeros_like(normal)
    roughness, opacity, slope = torch.ones_like(uv[:, 0]), torch.ones_like(uv[:, 0]), torch.zeros_like(uv)
    # A processor is three times as fast while its cache holds all octaves; a graphics card wants long lists.
    longest = 1 << (16 if uv.device.type == "cpu" else 21)
    for index, finish_of in enumerate(_FINISHES):
        own = (material == index).nonzero()[:, 0]
        for start in range(0, len(own), longest):
            chosen = own[start : start + longest]
            finish = finish_of(uv[chosen])
            albedo[chosen] = finish.albedo.clamp(0, 1)
            specular[chosen] = finish.specular.clamp(0, 1)
            roughness[chosen] = finish.roughness.clamp(0.05, 1)
            slope[chosen] = finish.slope
            if finish.opacity is not None:
                opacity[chosen] = finish.opacity
    bumped = F.normalize(normal - slope[:, :1] * tangent_u - slope[:, 1:] * tangent_v, dim=-1)
    return Surface(albedo, specular, roughness, bumped, opacity)


def _blend(low: Color, high: Color, share: Tensor) -> Tensor:
    """Between two colours [M, 3]; a share of 0 is the first."""
    return torch.lerp(_color(low, share.device), _color(high, share.device), share[:, None])


@cache
def _color(color: Color, device: torch.device) -> Tensor:
    return torch.tensor(color, device=device)


def _gloss(like: Tensor, reflectance: float) -> Tensor:
    """The same colourless reflectance everywhere, [M, 3]."""
    return torch.full((len(like), 3), reflectance, device=like.device)


def _red_bricks(uv: Tensor) -> _Finish:
    (grain, fired), (grain_slope, _) = layered_noise(uv, Field(80, 80, 101, octaves=3), Field(30, 60, 103, octaves=2))
    parts = flemish_bond(uv + 0.0005 * grain[:, None], courses=40, pairs=18)
    tone = cell_random(parts.column, parts.row, 102)
    brick = step_between(0.025, 0.085, parts.inside)
    light = (0.45 + 0.3 * (tone - 0.5) + 0.55 * fired + 0.3 * grain).clamp(0, 1)
    clay = _blend((0.385, 0.145, 0.105), (0.56, 0.28, 0.225), light)
    mortar = _blend((0.09, 0.082, 0.082), (0.19, 0.165, 0.16), 0.5 + grain)
    rim = 0.8 * (1 - step_between(0.03, 0.16, parts.inside))
    slope = -parts.downhill * rim[:, None] + 0.05 * grain_slope
    albedo = mortar + (clay - mortar) * brick[:, None]
    return _Finish(albedo, _gloss(uv, 0.03), 0.75 + 0.1 * grain, slope)


def _white_bricks(uv: Tensor) -> _Finish:
    (rough, sway), (rough_slope, _) = layered_noise(uv, Field(90, 120, 201, octaves=2), Field(24, 24, 202))
    wobble = torch.stack((rough, rough + 2.0 * sway), -1) * 0.0012
    parts = running_bond(uv + wobble, courses=48, bricks=15, seed=203)
    tone = cell_random(parts.column, parts.row, 204)
    paint = step_between(0.0, 0.13, parts.inside)
    share = (0.10 + 0.35 * tone + 0.55 * paint + 0.2 * rough).clamp(0, 1)
    albedo = _blend((0.315, 0.335, 0.37), (0.482, 0.502, 0.532), share)
    rim = (1 - step_between(0.0, 0.25, parts.inside)) * (0.35 + 0.65 * tone)
    slope = -parts.downhill * rim[:, None] + 0.11 * rough_slope
    return _Finish(albedo, _gloss(uv, 0.04), 0.55 + 0.1 * rough, slope)


def _copper_chainmail(uv: Tensor) -> _Finish:
    rings = linked_rings(uv, columns=17, rows=24, radius=0.0221, wire=0.0025)
    worn = layered_noise(uv, Field(240, 240, 301))[0][0]
    dull = (0.5 + 0.5 * worn + 0.4 * (rings.identity - 0.5)).clamp(0, 1)
    seen = rings.height[:, None]
    albedo = _blend((0.06, 0.037, 0.031), (0.13, 0.078, 0.066), dull) * (0.3 + 0.7 * seen)
    specular = _blend((0.56, 0.37, 0.31), (0.32, 0.19, 0.155), dull) * (0.25 + 0.75 * seen)
    return _Finish(albedo, specular, 0.46 + 0.12 * dull, rings.slope, rings.solid)


def _denim(uv: Tensor) -> _Finish:
    fields = Field(360, 300, 401, octaves=2), Field(40, 480, 402), Field(10, 10, 404)
    (yarn, warp, washed), (yarn_slope, *_) = layered_noise(uv, *fields)
    # The weave's ribs run slantwise, and a whole number of them fits the tile.
    twill = torch.stack((uv[:, 0] + uv[:, 1], uv[:, 1]), -1)
    weft = layered_noise(twill, Field(420, 60, 403))[0][0]
    light = 0.42 + 0.36 * yarn + 0.28 * warp + 0.16 * weft + 0.10 * washed
    speck = step_between(0.35, 0.75, yarn)
    albedo = _blend((0.030, 0.048, 0.099), (0.115, 0.162, 0.262), (light + 0.2 * speck).clamp(0, 1))
    return _Finish(albedo, _gloss(uv, 0.02), 0.85 + 0.05 * yarn, 0.12 * yarn_slope)


def _fleece(uv: Tensor) -> _Finish:
    (pile, brushed), (pile_slope, _) = layered_noise(uv, Field(310, 310, 501, octaves=2), Field(12, 12, 502))
    light = (0.5 + 0.4 * pile + 0.15 * brushed).clamp(0, 1)
    albedo = _blend((0.037, 0.110, 0.089), (0.049, 0.136, 0.110), light)
    return _Finish(albedo, _gloss(uv, 0.008), 0.65 + 0.1 * pile, 0.055 * pile_slope)


def _spotty_metal(uv: Tensor) -> _Finish:
    fields = Field(64, 64, 601, octaves=3), Field(7, 7, 602, octaves=2), Field(130, 130, 603)
    (spots, clusters, brushed), (spots_slope, *_) = layered_noise(uv, *fields)
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
    draw = cell_random(tiles.column, tiles.row, 701)
    tone = cell_random(tiles.row, tiles.column, 702)
    (stained,), (stained_slope,) = layered_noise(uv, Field(60, 60, 703, octaves=2))
    light = (0.5 + 0.4 * stained + 0.7 * (tone - 0.5)).clamp(0, 1)
    red = _blend((0.26, 0.047, 0.028), (0.39, 0.092, 0.050), light)
    yellow = _blend((0.43, 0.155, 0.040), (0.56, 0.230, 0.059), light)
    gutter = _blend((0.25, 0.065, 0.025), (0.42, 0.13, 0.05), light)
    # Yellow tiles mostly lie in slanting stripes, one diagonal in three.
    on_stripe = torch.remainder(tiles.column + tiles.row, 3) == 0
    clay = torch.where((draw < torch.where(on_stripe, 0.75, 0.08))[:, None], yellow, red)
    albedo = torch.where(tiles.cap[:, None] > 0, clay, gutter) * tiles.shade[:, None]
    return _Finish(albedo, _gloss(uv, 0.012), 0.55 + 0.1 * stained, tiles.slope + 0.03 * stained_slope)


def _wood(uv: Tensor) -> _Finish:
    planks = 16
    plank = grid_cell(uv[:, 1] * planks, planks)
    tone = cell_random(plank, torch.zeros_like(plank), 801)
    sway = layered_noise(uv, Field(9, 32, 802))[0][0]
    # Each board is sawn from another log: its grain starts elsewhere.
    grown = torch.stack((uv[:, 0] + tone, uv[:, 1] + 0.006 * sway), -1)
    (grain, fibre), (grain_slope, _) = layered_noise(grown, Field(5, 100, 803, octaves=3), Field(24, 512, 804))
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
