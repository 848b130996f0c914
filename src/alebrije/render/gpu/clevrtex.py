"""CLEVRTex's shader: textured objects on a textured ground that curves up behind them."""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.brdf import filmic
from alebrije.render.gpu.light import light_from_objects
from alebrije.render.gpu.materials import CHAINMAIL, METAL
from alebrije.render.gpu.shapes import (
    CLOSE,
    direction_to_object,
    intersect,
    normal_at,
    point_to_object,
)
from alebrije.render.gpu.surfaces import (
    AMBIENT,
    footprint,
    grazing,
    ground_hit,
    ground_light_and_gloss,
    intersect_ground,
    sample_radiance,
    sampled_radiance,
    surface_at,
    visible_lights,
)
from alebrije.render.gpu.tables import (
    ALBEDO,
    CAMERA,
    FLOOR,
    MATERIAL,
    OBJECT,
    OPACITY,
    REACH,
    SCENE,
    SIZE,
    kernel,
)
from alebrije.render.gpu.vectors import (
    add,
    any_of,
    choose,
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

OBJECT_GRID: tl.constexpr = tl.constexpr(3)  # texture samples per pixel: 3 x 3 on objects
GROUND_GRID: tl.constexpr = tl.constexpr(2)  # 2 x 2 on the ground
MAX_REFLECTED: tl.constexpr = tl.constexpr(4.0)  # cap on reflected radiance
NOTES: tl.constexpr = tl.constexpr(4)  # planes that the first shading leaves for rays that go on
FACETS: tl.constexpr = tl.constexpr(4)  # sampled reflections on rough surfaces


@kernel()
def paint_objects(
    scenes, objects, assets, images, masks, depths, totals, labels, pieces, notes, radiance, least, count, size,
    KINDS: tl.constexpr, GRID: tl.constexpr, DISPLACED: tl.constexpr,
):  # fmt: skip
    """Write the radiance of the objects in each pixel, [B, 3, H * W], without the surroundings that they show.

    The notes of a piece of metal are its mean roughness and reflectance; of chainmail, the share of holes.
    """
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
            hit, normal, view = object_piece(scene, thing, assets, planes, column, row, seen, size, KINDS)
            point, own = lift(thing, hit, normal), tl.zeros(seen.shape, tl.int32) + item
            lit = visible_lights(scene, things, count, assets, point, own, seen, KINDS, True)
            mean = load(scene + ALBEDO)
            received, gloss = ground_light_and_gloss(scene, point, normal, view, mean)
            side, upper = footprint(scene, hit, normal, view, tl.sqrt(weight), size)
            shaded, alpha, specular, opacity = sampled_radiance(
                scene, thing, assets, False, hit, side, upper, point, normal, view, lit, received, gloss, OBJECT_GRID
            )
            total = choose(seen, add(total, scale(shaded, weight)), total)
            kept = notes + (index * (count + 1) + item) * (NOTES * pixels) + pixel
            write_notes(kept, tl.load(thing + MATERIAL).to(tl.int32), alpha, specular, opacity, seen, pixels)
    target = radiance + index * 3 * pixels + pixel
    for channel in tl.static_range(3):
        tl.store(target + channel * pixels, total[channel], mask=in_image)


@triton.jit
def write_notes(kept, material, alpha, specular, opacity, seen, pixels):
    """Keep what rays that go on need to know of a surface."""
    if material == METAL:
        tl.store(kept, alpha, mask=seen)
        for channel in tl.static_range(3):
            tl.store(kept + (1 + channel) * pixels, specular[channel], mask=seen)
    if material == CHAINMAIL:
        tl.store(kept, 1.0 - opacity, mask=seen)


@kernel()
def paint_far_walls(
    scenes, objects, assets, images, masks, depths, totals, labels, pieces, notes, radiance, least, count, size,
    KINDS: tl.constexpr, GRID: tl.constexpr, DISPLACED: tl.constexpr,
):  # fmt: skip
    """Add the far wall of chainmail, seen through its holes. Note its distance and the share of its own holes."""
    index = tl.program_id(1).to(tl.int64)
    scene, things = scenes + index * SCENE, objects + index * count * OBJECT
    column, row, in_image = pixels_of_tile(size)
    pixel, pixels = row * size + column, size * size
    for item in range(count):
        thing, planes = things + item * OBJECT, pieces + (index * (count + 1) + item) * (PLANES * pixels) + pixel
        if tl.load(thing + MATERIAL).to(tl.int32) == CHAINMAIL:
            weight = tl.load(planes, mask=in_image, other=0.0)
            seen = weight > 0
            if any_of(seen):
                hit, _, view = object_piece(scene, thing, assets, planes, column, row, seen, size, KINDS)
                kept = notes + (index * (count + 1) + item) * (NOTES * pixels) + pixel
                holes = tl.load(kept, mask=seen, other=0.0)
                away = far_wall(thing, assets, hit, view, seen, KINDS)
                point = step(hit, view, -away)
                normal = scale(normal_at(thing, assets, point, KINDS), -1.0)
                own = tl.zeros(seen.shape, tl.int32) + item
                # light reaches the inside through holes or by bouncing off the wires
                lit = visible_lights(scene, things, count, assets, point, own, seen, KINDS, False)
                through = 1.0 - 0.5 * tl.load(thing + OPACITY)
                lit = lit[0] * through, lit[1] * through, lit[2] * through, lit[3] * through
                received, gloss = ground_light_and_gloss(scene, point, normal, view, load(scene + ALBEDO))
                side, upper = footprint(scene, point, normal, view, 1.0, size)
                shaded, _, _, opacity = sampled_radiance(
                    scene,
                    thing,
                    assets,
                    False,
                    point,
                    side,
                    upper,
                    point,
                    normal,
                    view,
                    lit,
                    received,
                    gloss,
                    OBJECT_GRID,
                )
                tl.store(kept + pixels, away, mask=seen)
                tl.store(kept + 2 * pixels, holes * (1.0 - opacity), mask=seen)
                target = radiance + index * 3 * pixels + pixel
                for channel in tl.static_range(3):
                    before = tl.load(target + channel * pixels, mask=seen, other=0.0)
                    tl.store(target + channel * pixels, before + holes * shaded[channel] * weight, mask=seen)


@triton.jit
def far_wall(thing, assets, hit, view, active, KINDS: tl.constexpr):
    """Distance from points on the near wall of an object to its far wall, along the view."""
    beyond = 2.5 * tl.load(thing + REACH)
    origin, way = point_to_object(thing, step(hit, view, -beyond)), direction_to_object(thing, view)
    back = intersect(thing, assets, origin, way, active, CLOSE, float("inf"), KINDS, True)
    return tl.maximum(tl.where(back < float("inf"), beyond - back, 0.0), 0.0)


@kernel()
def paint_ground(
    scenes, objects, assets, images, masks, depths, totals, labels, pieces, notes, radiance, least, count, size,
    KINDS: tl.constexpr, GRID: tl.constexpr, DISPLACED: tl.constexpr,
):  # fmt: skip
    """Add the ground to the radiance, and its share of the depths [B, H, W]; note roughness and reflectance."""
    index = tl.program_id(1).to(tl.int64)
    scene, things = scenes + index * SCENE, objects + index * count * OBJECT
    column, row, in_image = pixels_of_tile(size)
    pixel, pixels = row * size + column, size * size
    planes = pieces + (index * (count + 1) + count) * (PLANES * pixels) + pixel
    level, share = ground_piece(scene, planes, column, row, in_image, size)
    point, normal = ground_hit(scene, level)
    floor_depth(scene, point, depths + index * pixels + pixel, in_image)
    uncovered = in_image & (share > 1e-3)
    if any_of(uncovered):
        mean = load(scene + ALBEDO)
        received, hidden = light_from_objects(things, count, point)
        received = add(received, scale(mean, AMBIENT * (1.0 - hidden)))
        own = tl.zeros(uncovered.shape, tl.int32) - 1
        lit = visible_lights(scene, things, count, assets, point, own, uncovered, KINDS, True)
        view = unit(subtract(load(scene + CAMERA), point))
        side, upper = footprint(scene, point, normal, view, 1.0, size)
        blank = zero_vector(share)
        shaded, alpha, specular, opacity = sampled_radiance(
            scene, things, assets, True, point, side, upper, point, normal, view, lit, received, blank, GROUND_GRID
        )
        kept = notes + (index * (count + 1) + count) * (NOTES * pixels) + pixel
        write_notes(kept, tl.load(scene + FLOOR).to(tl.int32), alpha, specular, opacity, uncovered, pixels)
        target = radiance + index * 3 * pixels + pixel
        for channel in tl.static_range(3):
            before = tl.load(target + channel * pixels, mask=uncovered, other=0.0)
            tl.store(target + channel * pixels, before + shaded[channel] * share, mask=uncovered)


@kernel()
def paint_surroundings(
    scenes, objects, assets, images, masks, depths, totals, labels, pieces, notes, radiance, least, count, size,
    KINDS: tl.constexpr, GRID: tl.constexpr, DISPLACED: tl.constexpr,
):  # fmt: skip
    """Add what metal reflects and what is behind the holes of chainmail, and write the images [B, 3, H, W]."""
    index = tl.program_id(1).to(tl.int64)
    scene, things = scenes + index * SCENE, objects + index * count * OBJECT
    column, row, in_image = pixels_of_tile(size)
    pixel, pixels = row * size + column, size * size
    source = radiance + index * 3 * pixels + pixel
    red = tl.load(source, mask=in_image, other=0.0)
    green = tl.load(source + pixels, mask=in_image, other=0.0)
    blue = tl.load(source + 2 * pixels, mask=in_image, other=0.0)
    total = red, green, blue
    for item in range(count + 1):  # the last one is the ground
        thing, is_ground = things + tl.minimum(item, count - 1) * OBJECT, item == count
        material = tl.load(thing + MATERIAL).to(tl.int32)
        if is_ground:
            material = tl.load(scene + FLOOR).to(tl.int32)
        if (material == METAL) | ((material == CHAINMAIL) & (item < count)):
            planes = pieces + (index * (count + 1) + item) * (PLANES * pixels) + pixel
            kept = notes + (index * (count + 1) + item) * (NOTES * pixels) + pixel
            weight = tl.load(planes, mask=in_image, other=0.0)
            seen = weight > tl.where(is_ground, 1e-3, 0.0)
            if any_of(seen):
                if is_ground:
                    level, _ = ground_piece(scene, planes, column, row, in_image, size)
                    point, normal = ground_hit(scene, level)
                    view = unit(subtract(load(scene + CAMERA), point))
                else:
                    point, normal, view = object_piece(scene, thing, assets, planes, column, row, seen, size, KINDS)
                    if material == METAL:
                        point = lift(thing, point, normal)
                shown = surroundings(
                    scene, things, count, assets, item, material, kept, point, normal, view, seen, pixels, KINDS
                )
                total = choose(seen, add(total, scale(shown, weight)), total)
    target = images + index * 3 * pixels + pixel
    for channel in tl.static_range(3):
        tl.store(target + channel * pixels, to_byte(filmic(total[channel])), mask=in_image)


@triton.jit
def surroundings(
    scene, things, count, assets, item, material, kept, point, normal, view, active, pixels, KINDS: tl.constexpr
):  # fmt: skip
    """Radiance that metal reflects, blurred by its roughness; or that comes through both walls of chainmail."""
    own = tl.zeros(active.shape, tl.int32) + tl.where(item < count, item, -1)
    first, second = tl.load(kept, mask=active, other=0.5), tl.load(kept + pixels, mask=active, other=0.0)
    third = tl.load(kept + 2 * pixels, mask=active, other=0.0)
    fourth = tl.load(kept + 3 * pixels, mask=active, other=0.0)
    size = tl.load(things + tl.minimum(item, count - 1) * OBJECT + SIZE)
    total = zero_vector(first)
    rays = tl.where(material == METAL, FACETS, 1)
    for ray in range(rays):
        if material == METAL:
            start, direction = point, reflected_direction(normal, view, first, ray)
            most, strength = MAX_REFLECTED, metal_strength(normal, view, first, (second, third, fourth))
        else:
            start, direction = step(point, view, -second - size * (2 * RAY_OFFSET)), scale(view, -1.0)
            most, strength = float("inf"), (third, third, third)
        found = secondary_radiance(scene, things, count, assets, start, direction, own, active, KINDS)
        found = tl.minimum(found[0], most), tl.minimum(found[1], most), tl.minimum(found[2], most)
        total = add(total, multiply(found, scale(strength, 1.0 / rays)))
    return total


@triton.jit
def reflected_direction(normal, view, alpha, facet):
    """The direction in which one of four sampled facets of a rough surface reflects."""
    aside = tl.where(facet == 0, 0.5, tl.where(facet == 1, -0.2, tl.where(facet == 2, -0.5, 0.2)))
    ahead = tl.where(facet == 0, 0.2, tl.where(facet == 1, 0.5, tl.where(facet == 2, -0.2, -0.5)))
    along = unit((normal[1] + 1e-4, 1e-4 - normal[0], zeros(alpha)))
    tilt = add(scale(along, aside), scale(cross(normal, along), ahead))
    return mirrored(view, unit(add(normal, scale(tilt, alpha))))


@triton.jit
def metal_strength(normal, view, alpha, specular):
    """The share of light that metal reflects."""
    rim = grazing(dot(normal, view)) * (1.0 - tl.sqrt(alpha))
    return (
        specular[0] + (1.0 - specular[0]) * rim,
        specular[1] + (1.0 - specular[1]) * rim,
        specular[2] + (1.0 - specular[2]) * rim,
    )


@triton.jit
def secondary_radiance(scene, things, count, assets, point, direction, own, active, KINDS: tl.constexpr):
    """Radiance along secondary rays: of objects, the ground, or the black sky."""
    ground, ground_normal = intersect_ground(point, direction)
    start = step(point, direction, 1e-2)
    distance, hit = nearest_hit(things, count, assets, start, direction, own, active, KINDS, True)
    on_object, on_ground = active & (distance < ground), active & (ground < distance)
    shown = zero_vector(ground)
    if any_of(on_object | on_ground):
        place = step(point, direction, tl.where(on_object, distance, tl.where(on_ground, ground, 0.0)))
        normal = normals_of(things, count, assets, place, hit, on_object, KINDS)
        normal, view = choose(on_ground, ground_normal, normal), scale(direction, -1.0)
        albedo, specular, bumped = zero_vector(ground), zero_vector(ground), normal
        alpha, opacity = zeros(ground) + 1.0, zeros(ground)
        for item in range(count + 1):  # the last one is the ground
            owned = on_ground
            if item < count:
                owned = on_object & (hit == item)
            if any_of(owned):
                thing = things + tl.minimum(item, count - 1) * OBJECT
                a, s, rough, bent, solid = surface_at(scene, thing, assets, item == count, place, normal)
                albedo, specular = choose(owned, a, albedo), choose(owned, s, specular)
                alpha, opacity = tl.where(owned, rough, alpha), tl.where(owned, solid, opacity)
                bumped = choose(owned, bent, bumped)
        lifted = step(place, normal, number_of(things, count, hit, SIZE) * RAY_OFFSET)
        place, mean = choose(on_object, lifted, place), load(scene + ALBEDO)
        received, gloss = ground_light_and_gloss(scene, place, normal, view, mean)
        dome, blank = scale(mean, AMBIENT), zeros(ground)
        received = choose(on_ground, (dome[0] + blank, dome[1] + blank, dome[2] + blank), received)
        gloss = choose(on_ground, zero_vector(ground), gloss)
        owner = tl.where(on_object, hit, -1)
        lit = visible_lights(scene, things, count, assets, place, owner, on_object | on_ground, KINDS, False)
        shaded = sample_radiance(
            scene, place, normal, view, lit, received, gloss, albedo, specular, alpha, bumped, opacity
        )
        shown = choose(on_object | on_ground, shaded, shown)
    return shown
