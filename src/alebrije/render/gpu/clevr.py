"""CLEVR's shader: rubber and metal on a plain ground."""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.brdf import PI, beckmann, fresnel, ggx, srgb, velvet
from alebrije.render.gpu.light import backdrop_light, incident_light, light_from_objects, open_irradiance, tint_of
from alebrije.render.gpu.shadows import SUN, visible_share
from alebrije.render.gpu.tables import ALBEDO, CENTRE, COLOUR, MATERIAL, OBJECT, SCENE, SIZE, kernel
from alebrije.render.gpu.vectors import (
    add,
    any_of,
    choose,
    clamp,
    cross,
    dot,
    load,
    mirrored,
    multiply,
    scale,
    step,
    subtract,
    unit,
    zero_vector,
    zeros,
)
from alebrije.render.gpu.visibility import (
    PLANES,
    RAY_OFFSET,
    floor_depth,
    ground_piece,
    lift,
    nearest_hit,
    normals_of,
    number_of,
    object_piece,
    pixels_of_tile,
    to_byte,
)

ROUGH_X: tl.constexpr = tl.constexpr(0.15)  # alpha of the metal's rough lobe along the tangent
ROUGH_Y: tl.constexpr = tl.constexpr(0.267)  # and along the bitangent
SHARP_X: tl.constexpr = tl.constexpr(0.022)  # alpha of its sharp lobe
SHARP_Y: tl.constexpr = tl.constexpr(0.026)
WIDE_SAMPLES: tl.constexpr = tl.constexpr(4)  # secondary rays of the rough lobe


@kernel()
def paint_objects(
    scenes, objects, assets, images, masks, depths, totals, labels, pieces, notes, radiance, least, count, size,
    KINDS: tl.constexpr, GRID: tl.constexpr, DISPLACED: tl.constexpr,
):  # fmt: skip
    """Write the radiance of the objects in each pixel, [B, 3, H * W], without what metal reflects of them."""
    index = tl.program_id(1).to(tl.int64)
    scene, things = scenes + index * SCENE, objects + index * count * OBJECT
    column, row, in_image = pixels_of_tile(size)
    pixel, pixels = row * size + column, size * size
    total = zero_vector(column)
    for item in range(count):
        thing, planes = things + item * OBJECT, pieces + (index * (count + 1) + item) * (PLANES * pixels) + pixel
        weight = tl.load(planes, mask=in_image, other=0.0)
        seen = weight > 0
        if any_of(seen):
            point, normal, view = object_piece(scene, thing, assets, planes, column, row, seen, size, KINDS)
            point = lift(thing, point, normal)
            shaded = direct(scene, things, count, assets, item, point, normal, view, seen, KINDS)
            total = choose(seen, add(total, scale(shaded, weight)), total)
    target = radiance + index * 3 * pixels + pixel
    for channel in tl.static_range(3):
        tl.store(target + channel * pixels, total[channel], mask=in_image)


@kernel()
def paint_reflections(
    scenes, objects, assets, images, masks, depths, totals, labels, pieces, notes, radiance, least, count, size,
    KINDS: tl.constexpr, GRID: tl.constexpr, DISPLACED: tl.constexpr,
):  # fmt: skip
    """Add to the radiance what metal reflects of its surroundings."""
    index = tl.program_id(1).to(tl.int64)
    scene, things = scenes + index * SCENE, objects + index * count * OBJECT
    column, row, in_image = pixels_of_tile(size)
    pixel, pixels = row * size + column, size * size
    target = radiance + index * 3 * pixels + pixel
    for item in range(count):
        thing, planes = things + item * OBJECT, pieces + (index * (count + 1) + item) * (PLANES * pixels) + pixel
        if tl.load(thing + MATERIAL) > 0:
            weight = tl.load(planes, mask=in_image, other=0.0)
            seen = weight > 0
            if any_of(seen):
                point, normal, view = object_piece(scene, thing, assets, planes, column, row, seen, size, KINDS)
                point = lift(thing, point, normal)
                mirror = reflection(scene, things, count, assets, item, point, normal, view, seen, KINDS)
                for channel in tl.static_range(3):
                    before = tl.load(target + channel * pixels, mask=seen, other=0.0)
                    tl.store(target + channel * pixels, before + mirror[channel] * weight, mask=seen)


@kernel()
def paint_ground(
    scenes, objects, assets, images, masks, depths, totals, labels, pieces, notes, radiance, least, count, size,
    KINDS: tl.constexpr, GRID: tl.constexpr, DISPLACED: tl.constexpr,
):  # fmt: skip
    """Add the ground to the radiance of the objects, and write images [B, 3, H, W] and depths [B, H, W]."""
    index = tl.program_id(1).to(tl.int64)
    scene, things = scenes + index * SCENE, objects + index * count * OBJECT
    column, row, in_image = pixels_of_tile(size)
    pixel, pixels = row * size + column, size * size
    planes = pieces + (index * (count + 1) + count) * (PLANES * pixels) + pixel
    point, share = ground_piece(scene, planes, column, row, in_image, size)
    image = zero_vector(column)
    uncovered = in_image & (share > 0)
    if any_of(uncovered):
        received, hidden = light_from_objects(things, count, point)
        incident = zero_vector(column)
        for light in range(SUN + 1):
            lit = visible_share(
                scene, things, count, assets, light, point, tl.zeros(column.shape, tl.int32) - 1, uncovered, KINDS, True
            )
            to_light, strength = incident_light(scene, light, point)
            incident = add(incident, scale(tint_of(scene, light), strength * lit * tl.maximum(to_light[2], 0.0)))
        backdrop = backdrop_light(point) * (1.0 - hidden)
        incident = add(add(incident, received), (backdrop, backdrop, backdrop))
        shaded = scale(multiply(incident, scale(load(scene + ALBEDO), 1.0 / PI)), share)
        image = choose(uncovered, shaded, image)
    floor_depth(scene, point, depths + index * pixels + pixel, in_image)
    source, target = radiance + index * 3 * pixels + pixel, images + index * 3 * pixels + pixel
    for channel in tl.static_range(3):
        value = image[channel] + tl.load(source + channel * pixels, mask=in_image, other=0.0)
        tl.store(target + channel * pixels, to_byte(srgb(value)), mask=in_image)


@triton.jit
def ground_radiance(scene, irradiance, point):
    """Radiance of the ground at points on it, without light from the objects."""
    backdrop = backdrop_light(point)
    return multiply(add(irradiance, (backdrop, backdrop, backdrop)), scale(load(scene + ALBEDO), 1.0 / PI))


@triton.jit
def light_from_ground(scene, point, normal):
    """Irradiance on surfaces from the ground beside them and from the backdrop."""
    height = tl.maximum(point[2], 0.05)
    beside = point[0] + normal[0] * height, point[1] + normal[1] * height, zeros(height)
    below = ground_radiance(scene, open_irradiance(scene, beside), beside)
    share = (1.0 - normal[2]) / 2
    sky = backdrop_light(point) * (1.0 - share)
    return add(scale(below, PI * (share * 0.8)), (sky, sky, sky))


@triton.jit
def rubber_lobes(to_light, strength, normal, view, nv):
    """Diffuse and velvet lobes, and the gloss over them, of one light."""
    gloss, rim = fresnel(nv, 1.2), fresnel(nv, 1.4)
    matt, flat = (1.0 - gloss) * rim, (1.0 - gloss) * (1.0 - rim) / PI
    nl = dot(to_light, normal)
    strength = tl.where(nl > 0, strength, 0.0)
    nl = tl.maximum(nl, 1e-4)
    half = unit(add(to_light, view))
    nh, hv = clamp(dot(normal, half), 1e-3, 1.0 - 1e-6), dot(half, view)
    body = strength * (flat * nl + matt * velvet(nh, nl, nv, hv, 0.6))
    return body, strength * gloss * beckmann(nh, nl, nv, 0.35)


@triton.jit
def rubber_indirect(scene, body, sheen, colour, point, normal, view, nv):
    """Add the light of ground and backdrop to both lobes: the radiance of rubber."""
    gloss = fresnel(nv, 1.2)
    body = add(body, scale(light_from_ground(scene, point, normal), (1.0 - gloss) / PI))
    # the ground fills a rough reflection that points down, and none of one that points up
    toward = mirrored(view, normal)
    share = clamp(0.5 - toward[2] / 0.7, 0.0, 1.0)
    distance = tl.minimum(point[2] / tl.maximum(-toward[2], 0.12), 25.0)
    hit = point[0] + toward[0] * distance, point[1] + toward[1] * distance, zeros(distance)
    sheen = add(sheen, scale(ground_radiance(scene, open_irradiance(scene, hit), hit), share * gloss))
    return add(multiply(body, colour), scale(sheen, 0.8))


@triton.jit
def tangents_of(thing, point, normal):
    """Tangent and bitangent of an object: the latter runs around its vertical axis."""
    offset = subtract(point, load(thing + CENTRE))
    around = -1e-4 - offset[1], offset[0] + 1e-4, zeros(offset[2])  # (0, 0, 1) x offset
    across = unit(cross(normal, around))
    return cross(across, normal), across


@triton.jit
def direct(scene, things, count, assets, item, point, normal, view, active, KINDS: tl.constexpr):
    """Radiance of an object under the lamps.

    Rubber: diffuse and velvet lobes in the object's colour under a rough white gloss, mixed by Fresnel's law, and light
    from the ground. Metal: lamps reflected in a sharp and a rough lobe, 3 to 2.
    """
    thing = things + item * OBJECT
    colour, is_metal = load(thing + COLOUR), tl.load(thing + MATERIAL) > 0
    nv = clamp(dot(normal, view), 1e-2, 1.0)
    along, across = tangents_of(thing, point, normal)
    own = tl.zeros(nv.shape, tl.int32) + item
    body, sheen = zero_vector(nv), zero_vector(nv)
    for light in range(SUN + 1):
        lit = visible_share(scene, things, count, assets, light, point, own, active, KINDS, True)
        to_light, strength = incident_light(scene, light, point)
        strength *= lit
        if is_metal:
            soft = metal_lobes(to_light, strength, along, across, normal, view, nv)
            glossy = zeros(nv)
        else:
            soft, glossy = rubber_lobes(to_light, strength, normal, view, nv)
        tint = tint_of(scene, light)
        body, sheen = add(body, scale(tint, soft)), add(sheen, scale(tint, glossy))
    if is_metal:
        shaded = multiply(body, colour)
    else:
        shaded = rubber_indirect(scene, body, sheen, colour, point, normal, view, nv)
    return shaded


@triton.jit
def metal_lobes(to_light, strength, along, across, normal, view, nv):
    """A light reflected in a sharp and a rough lobe, 3 to 2."""
    nl = dot(to_light, normal)
    strength = tl.where(nl > 0, strength, 0.0)
    half, nl = unit(add(to_light, view)), tl.maximum(nl, 1e-4)
    x, y, z = dot(along, half), dot(across, half), dot(normal, half)
    return strength * (0.4 * ggx(x, y, z, nl, nv, ROUGH_X, ROUGH_Y) + 0.6 * ggx(x, y, z, nl, nv, SHARP_X, SHARP_Y))


@triton.jit
def reflection(scene, things, count, assets, item, point, normal, view, active, KINDS: tl.constexpr):
    """What metal reflects of its surroundings: in the mirror direction, and off four facets of its rough lobe."""
    thing = things + item * OBJECT
    along, across = tangents_of(thing, point, normal)
    own = tl.zeros(active.shape, tl.int32) + item
    total = zero_vector(point[2])
    for sample in range(WIDE_SAMPLES + 1):
        # the mirror direction, then four facets: left or right, front or back, the odd ones farther
        side = tl.where((sample == 1) | (sample == 4), 0.71, -0.71)
        front = tl.where(sample < 3, 0.71, -0.71)
        reach = tl.where(sample == 0, 0.0, tl.where(sample % 2 == 1, 1.0, 0.6))
        facet = add(normal, add(scale(along, side * reach * ROUGH_X), scale(across, front * reach * ROUGH_Y)))
        direction = mirrored(view, unit(facet))
        reflected = secondary_radiance(scene, things, count, assets, point, direction, own, active, KINDS)
        total = add(total, scale(reflected, tl.where(sample == 0, 0.6, 0.4 / WIDE_SAMPLES)))
    return multiply(total, load(thing + COLOUR))


@triton.jit
def secondary_radiance(scene, things, count, assets, point, direction, own, active, KINDS: tl.constexpr):
    """Radiance along secondary rays from points on objects: of objects, the ground, or the black sky."""
    ground = tl.where(direction[2] < -1e-3, -point[2] / tl.minimum(direction[2], -1e-4), float("inf"))
    start = step(point, direction, 1e-2)
    distance, hit = nearest_hit(things, count, assets, start, direction, own, active, KINDS, False)
    on_object, on_ground = active & (distance < ground), active & (ground < distance)
    shown = zero_vector(ground)
    if any_of(on_object | on_ground):
        place = step(point, direction, tl.where(on_object, distance, tl.where(on_ground, ground, 0.0)))
        normal = normals_of(things, count, assets, place, hit, on_object, KINDS)
        lifted = step(place, normal, number_of(things, count, hit, SIZE) * RAY_OFFSET)
        place, view = choose(on_object, lifted, place), scale(direction, -1.0)
        nv = clamp(dot(normal, view), 1e-2, 1.0)
        body, sheen, level = zero_vector(nv), zero_vector(nv), zero_vector(nv)
        owner = tl.where(on_object, hit, -1)
        for light in range(SUN + 1):
            lit = visible_share(scene, things, count, assets, light, place, owner, on_object | on_ground, KINDS, False)
            to_light, strength = incident_light(scene, light, place)
            soft, glossy = rubber_lobes(to_light, strength * lit, normal, view, nv)
            tint = tint_of(scene, light)
            body, sheen = add(body, scale(tint, soft)), add(sheen, scale(tint, glossy))
            level = add(level, scale(tint, strength * lit * tl.maximum(to_light[2], 0.0)))
        shown = choose(on_ground, ground_radiance(scene, level, place), shown)
        if any_of(on_object):
            # metal in a reflection is shaded as rubber, so that rays bounce only once
            red, green = number_of(things, count, hit, COLOUR), number_of(things, count, hit, COLOUR + 1)
            colour = red, green, number_of(things, count, hit, COLOUR + 2)
            shaded = rubber_indirect(scene, body, sheen, colour, place, normal, view, nv)
            shown = choose(on_object, shaded, shown)
    return shown
