"""Eight procedural materials, as functions of texture coordinates.

Each returns albedo, specular, roughness, the slopes of its bumps along u and v, and opacity.
"""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.noise import cell_random, grid_cell, noise, step_between
from alebrije.render.gpu.patterns import barrel_tiles, flemish_bond, linked_rings, running_bond, sign
from alebrije.render.gpu.vectors import add, choose, clamp, scale, subtract, zero_vector, zeros

CHAINMAIL: tl.constexpr = tl.constexpr(2)
DENIM: tl.constexpr = tl.constexpr(3)
METAL: tl.constexpr = tl.constexpr(5)
WOOD: tl.constexpr = tl.constexpr(7)
NOISES: tl.constexpr = tl.constexpr(4)  # at most, of a material
SETTINGS: tl.constexpr = tl.constexpr(5)  # numbers per noise


@triton.jit
def blend(low, high, share):
    """Interpolate between two colours; a share of 0 gives the first."""
    return (
        low[0] + (high[0] - low[0]) * share,
        low[1] + (high[1] - low[1]) * share,
        low[2] + (high[2] - low[2]) * share,
    )


@triton.jit
def gloss(like, reflectance):
    """A constant grey reflectance."""
    level = zeros(like) + reflectance
    return level, level, level


@triton.jit
def red_bricks(u, v, grain, fired, grain_u, grain_v):
    """Bricks in a Flemish bond."""
    column, row, inside, down_u, down_v = flemish_bond(u + 0.0005 * grain, v + 0.0005 * grain, 40.0, 18.0)
    tone = cell_random(column, row, 102)
    clay_share = step_between(0.025, 0.085, inside)
    light = clamp(0.45 + 0.3 * (tone - 0.5) + 0.55 * fired + 0.3 * grain, 0.0, 1.0)
    clay = blend((0.385, 0.145, 0.105), (0.56, 0.28, 0.225), light)
    mortar = blend((0.09, 0.082, 0.082), (0.19, 0.165, 0.16), 0.5 + grain)
    rim = 0.8 * (1 - step_between(0.03, 0.16, inside))
    albedo = add(mortar, scale(subtract(clay, mortar), clay_share))
    return albedo, gloss(u, 0.03), 0.75 + 0.1 * grain, 0.05 * grain_u - down_u * rim, 0.05 * grain_v - down_v * rim


@triton.jit
def white_bricks(u, v, rough, sway, rough_u, rough_v):
    """Painted bricks of varying length."""
    swayed = rough + 2.0 * sway
    column, row, inside, down_u, down_v = running_bond(u + rough * 0.0012, v + swayed * 0.0012, 48.0, 15.0, 203)
    tone = cell_random(column, row, 204)
    paint = step_between(0.0, 0.13, inside)
    share = clamp(0.10 + 0.35 * tone + 0.55 * paint + 0.2 * rough, 0.0, 1.0)
    albedo = blend((0.315, 0.335, 0.37), (0.482, 0.502, 0.532), share)
    rim = (1 - step_between(0.0, 0.25, inside)) * (0.35 + 0.65 * tone)
    return albedo, gloss(u, 0.04), 0.55 + 0.1 * rough, 0.11 * rough_u - down_u * rim, 0.11 * rough_v - down_v * rim


@triton.jit
def copper_chainmail(u, v, worn):
    """Linked rings with holes between them."""
    solid, slope_u, slope_v, height, identity = linked_rings(u, v, 17.0, 24.0, 0.0221, 0.0025)
    dull = clamp(0.5 + 0.5 * worn + 0.4 * (identity - 0.5), 0.0, 1.0)
    albedo = scale(blend((0.06, 0.037, 0.031), (0.13, 0.078, 0.066), dull), 0.3 + 0.7 * height)
    specular = scale(blend((0.56, 0.37, 0.31), (0.32, 0.19, 0.155), dull), 0.25 + 0.75 * height)
    return albedo, specular, 0.46 + 0.12 * dull, slope_u, slope_v, solid


@triton.jit
def denim(u, yarn, warp, washed, weft, yarn_u, yarn_v):
    """A slanted weave."""
    light = 0.42 + 0.36 * yarn + 0.28 * warp + 0.16 * weft + 0.10 * washed
    share = clamp(light + 0.2 * step_between(0.35, 0.75, yarn), 0.0, 1.0)
    albedo = blend((0.030, 0.048, 0.099), (0.115, 0.162, 0.262), share)
    return albedo, gloss(u, 0.02), 0.85 + 0.05 * yarn, 0.12 * yarn_u, 0.12 * yarn_v


@triton.jit
def fleece(u, pile, brushed, pile_u, pile_v):
    """Soft pile."""
    light = clamp(0.5 + 0.4 * pile + 0.15 * brushed, 0.0, 1.0)
    albedo = blend((0.037, 0.110, 0.089), (0.049, 0.136, 0.110), light)
    return albedo, gloss(u, 0.008), 0.65 + 0.1 * pile, 0.055 * pile_u, 0.055 * pile_v


@triton.jit
def spotty_metal(u, spots, clusters, brushed, spots_u, spots_v):
    """Steel with stains and spots of rust."""
    rust = step_between(0.48, 0.62, spots + 0.5 * clusters)
    stain = clamp(0.35 + 0.9 * clusters + 0.35 * spots, 0.0, 1.0)
    steel = blend((0.56, 0.54, 0.53), (0.32, 0.27, 0.245), stain)
    flakes = blend((0.14, 0.055, 0.032), (0.50, 0.26, 0.18), clamp(0.4 + brushed + 0.5 * spots, 0.0, 1.0))
    albedo = add(scale(flakes, rust), blend((0.006, 0.006, 0.006), (0.035, 0.026, 0.022), stain))
    specular = add(scale(steel, 1 - rust), scale(gloss(u, 0.03), rust))
    bump = 0.003 * (1 + 16 * rust)
    return albedo, specular, 0.26 + 0.04 * brushed + 0.07 * stain + 0.35 * rust, bump * spots_u, bump * spots_v


@triton.jit
def terracotta(u, v, stained, stained_u, stained_v):
    """Roof tiles."""
    column, row, cap, slope_u, slope_v, shade = barrel_tiles(u, v, 21.0, 18.0)
    yellowness, tone = cell_random(column, row, 701), cell_random(row, column, 702)
    light = clamp(0.5 + 0.4 * stained + 0.7 * (tone - 0.5), 0.0, 1.0)
    red = blend((0.26, 0.047, 0.028), (0.39, 0.092, 0.050), light)
    yellow = blend((0.43, 0.155, 0.040), (0.56, 0.230, 0.059), light)
    gutter = blend((0.25, 0.065, 0.025), (0.42, 0.13, 0.05), light)
    # most yellow tiles lie on every third diagonal
    on_stripe = (column + row) % 3 == 0
    clay = choose(yellowness < tl.where(on_stripe, 0.75, 0.08), yellow, red)
    albedo = scale(choose(cap, clay, gutter), shade)
    return albedo, gloss(u, 0.012), 0.55 + 0.1 * stained, slope_u + 0.03 * stained_u, slope_v + 0.03 * stained_v


@triton.jit
def wood(u, v, sway, grain, fibre, grain_v):
    """Planks, each with its own grain."""
    edge = v * 16.0 - tl.floor(v * 16.0)
    seam = 1 - step_between(0.0, 0.06, tl.minimum(edge, 1 - edge))
    light = clamp(0.5 + 0.62 * grain + 0.12 * fibre + 0.25 * (plank_tone(v) - 0.5), 0.0, 1.0)
    albedo = scale(blend((0.40, 0.135, 0.030), (0.53, 0.29, 0.086), light), 1 - 0.15 * seam)
    return albedo, gloss(u, 0.045), 0.27 + 0.08 * grain, 0.01 * sway, 0.03 * grain_v - 0.1 * sign(edge - 0.5) * seam


@triton.jit
def plank_tone(v):
    """A random number for each plank."""
    plank = grid_cell(v * 16.0, 16.0)
    return cell_random(plank, tl.zeros(plank.shape, tl.int32), 801)


@triton.jit
def noises_of(assets, material, u, v):
    """Up to four noises of a material, and the slopes of the first; of the second in wood.

    All are one loop, so that noise is compiled once. Their settings stand at the beginning of the assets.
    """
    first, second, third, fourth = zeros(u), zeros(u), zeros(u), zeros(u)
    slope_u, slope_v = zeros(u), zeros(u)
    settings = assets.to(tl.pointer_type(tl.float32), bitcast=True) + material * (NOISES * SETTINGS)
    for index in range(NOISES):
        along, across = u, v
        if (material == DENIM) & (index == 3):
            # the ribs of the weave are slanted, and a whole number of them fits the tile
            along = u + v
        if (material == WOOD) & (index > 0):
            # each plank has its own grain
            along, across = u + plank_tone(v), v + 0.006 * first
        value, rise_u, rise_v = noise(settings + index * SETTINGS, along, across)
        if index == tl.where(material == WOOD, 1, 0):
            slope_u, slope_v = rise_u, rise_v
        first, second = tl.where(index == 0, value, first), tl.where(index == 1, value, second)
        third, fourth = tl.where(index == 2, value, third), tl.where(index == 3, value, fourth)
    return first, second, third, fourth, slope_u, slope_v


@triton.jit
def finish(assets, material, u, v):
    """Albedo, specular, roughness, slopes and opacity of a material at texture coordinates."""
    a, b, c, d, rise_u, rise_v = noises_of(assets, material, u, v)
    albedo, specular = zero_vector(u), zero_vector(u)
    rough, slope_u, slope_v, opacity = zeros(u), zeros(u), zeros(u), zeros(u) + 1.0
    if material == 0:
        albedo, specular, rough, slope_u, slope_v = red_bricks(u, v, a, b, rise_u, rise_v)
    elif material == 1:
        albedo, specular, rough, slope_u, slope_v = white_bricks(u, v, a, b, rise_u, rise_v)
    elif material == CHAINMAIL:
        albedo, specular, rough, slope_u, slope_v, opacity = copper_chainmail(u, v, a)
    elif material == DENIM:
        albedo, specular, rough, slope_u, slope_v = denim(u, a, b, c, d, rise_u, rise_v)
    elif material == 4:
        albedo, specular, rough, slope_u, slope_v = fleece(u, a, b, rise_u, rise_v)
    elif material == METAL:
        albedo, specular, rough, slope_u, slope_v = spotty_metal(u, a, b, c, rise_u, rise_v)
    elif material == 6:
        albedo, specular, rough, slope_u, slope_v = terracotta(u, v, a, rise_u, rise_v)
    else:
        albedo, specular, rough, slope_u, slope_v = wood(u, v, a, b, c, rise_v)
    albedo = clamp(albedo[0], 0.0, 1.0), clamp(albedo[1], 0.0, 1.0), clamp(albedo[2], 0.0, 1.0)
    specular = clamp(specular[0], 0.0, 1.0), clamp(specular[1], 0.0, 1.0), clamp(specular[2], 0.0, 1.0)
    return albedo, specular, clamp(rough, 0.05, 1.0), slope_u, slope_v, opacity
