"""Visibility: what camera rays hit, and the fragments of objects in each pixel."""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.shapes import CLOSE, direction_to_object, intersect, normal_at, point_to_object
from alebrije.render.gpu.tables import (
    CAMERA,
    CENTRE,
    CIRCLE,
    CONVEX,
    FORWARD,
    HIGH,
    OBJECT,
    REACH,
    RIGHT,
    SCENE,
    SIZE,
    UP,
    WIDE,
    kernel,
)
from alebrije.render.gpu.vectors import (
    add,
    any_of,
    choose,
    clamp,
    dot,
    load,
    scale,
    step,
    subtract,
    unit,
    zero_vector,
    zeros,
)

HALF_WIDTH: tl.constexpr = tl.constexpr(16 / 35)
PLANES: tl.constexpr = tl.constexpr(4)  # of the pieces: weight, depth, column and row
RAY_OFFSET: tl.constexpr = tl.constexpr(1.5e-2)  # how far a secondary ray starts from its surface, in half-sizes


@triton.jit
def pixels_of_tile(size):
    """The column and row of each pixel of this program's tile, and whether it is in the image."""
    across = (size + WIDE - 1) // WIDE
    index = tl.arange(0, WIDE * HIGH)
    column = tl.program_id(0) % across * WIDE + index % WIDE
    row = tl.program_id(0) // across * HIGH + index // WIDE
    return column, row, (column < size) & (row < size)


@triton.jit
def view_ray(scene, column, row, size):
    """Direction of camera rays through image positions in pixels, scaled to a depth of 1."""
    across = (column - size / 2) * (2.0 * HALF_WIDTH / size)
    down = (row - size / 2) * (2.0 * HALF_WIDTH / size)
    direction = add(load(scene + FORWARD), scale(load(scene + RIGHT), across))
    return subtract(direction, scale(load(scene + UP), down))


@triton.jit
def is_candidate(thing, column, row):
    """Whether the bounding sphere of the object may cover pixels."""
    x, y, bound = load(thing + CIRCLE)
    beside, under = column + 0.5 - x, row + 0.5 - y
    return under * under + beside * beside < bound


@kernel()
def camera_hits(
    scenes, objects, assets, images, masks, depths, totals, labels, pieces, notes, radiance, least, count, size,
    KINDS: tl.constexpr, GRID: tl.constexpr, DISPLACED: tl.constexpr,
):  # fmt: skip
    """Trace a ray through the centre of each pixel: label and depth of the nearest object.

    The first plane of an object's pieces is set to 1 where its own ray hits it, whatever is in front of it.
    """
    index = tl.program_id(1).to(tl.int64)
    scene, things = scenes + index * SCENE, objects + index * count * OBJECT
    column, row, in_image = pixels_of_tile(size)
    pixel, pixels = row * size + column, size * size
    camera, direction = load(scene + CAMERA), view_ray(scene, column + 0.5, row + 0.5, size)
    closest = zeros(direction[2]) + float("inf")
    label = tl.zeros(column.shape, tl.int32)
    for item in range(count):
        thing = things + item * OBJECT
        candidate = is_candidate(thing, column, row) & in_image
        depth = zeros(direction[2]) + float("inf")
        if any_of(candidate):
            origin, way = point_to_object(thing, camera), direction_to_object(thing, direction)
            depth = intersect(thing, assets, origin, way, candidate, CLOSE, float("inf"), KINDS, DISPLACED)
            label = tl.where(depth < closest, item + 1, label)
            closest = tl.minimum(depth, closest)
        hits = tl.where(depth < float("inf"), 1.0, 0.0)
        tl.store(pieces + (index * (count + 1) + item) * (PLANES * pixels) + pixel, hits, mask=in_image)
    tl.store(labels + index * pixels + pixel, label.to(tl.uint8), mask=in_image)
    tl.store(depths + index * pixels + pixel, closest, mask=in_image)


@triton.jit
def is_edge(labels, column, row, label, size):
    """Whether a pixel has a neighbour of another label."""
    differs = label < 0
    for neighbour in range(9):
        x = clamp(column + neighbour % 3 - 1, 0, size - 1)
        y = clamp(row + neighbour // 3 - 1, 0, size - 1)
        differs = differs | (tl.load(labels + y * size + x).to(tl.int32) != label)
    return differs


@kernel()
def find_pieces(
    scenes, objects, assets, images, masks, depths, totals, labels, pieces, notes, radiance, least, count, size,
    KINDS: tl.constexpr, GRID: tl.constexpr, DISPLACED: tl.constexpr,
):  # fmt: skip
    """Write the visible pieces of each object and of the ground: planes of weight, depth, column and row in the pixel.

    A pixel on an outline is traced with a grid of rays. If `least` is positive, its mask is the object that covers most
    of it, at least this share. The totals count an object's pixels whatever is in front of it.
    """
    index = tl.program_id(1).to(tl.int64)
    scene, things = scenes + index * SCENE, objects + index * count * OBJECT
    column, row, in_image = pixels_of_tile(size)
    pixel, pixels = row * size + column, size * size
    labels, depths, masks = labels + index * pixels, depths + index * pixels, masks + index * pixels
    label = tl.load(labels + pixel, mask=in_image, other=0).to(tl.int32)
    depth = tl.load(depths + pixel, mask=in_image, other=0.0)
    on_edge = is_edge(labels, column, row, label, size) & in_image
    has_edges = any_of(on_edge)

    closest, nearest = outline_hits(
        scene, things, assets, pieces, index * (count + 1), totals + index * count, least, count,
        column, row, on_edge, in_image, size, KINDS, GRID, DISPLACED,
    )  # fmt: skip
    mask, mask_depth, most = label, depth, zeros(depth)
    coverage, aside, below = zeros(depth), zeros(depth), zeros(depth)
    if least > 0:
        mask = tl.where(on_edge, 0, label)
        mask_depth = tl.where(on_edge, float("inf"), depth)
    for item in range(count):
        weight = tl.where((label == item + 1) & (on_edge == 0), 1.0, 0.0)
        middle, beside, under = depth, zeros(depth) + 0.5, zeros(depth) + 0.5
        if has_edges:
            own = (nearest == item + 1) & on_edge[:, None]
            share, deep, aside_of, below_of = piece_of(own, closest, GRID)
            weight, middle = tl.where(on_edge, share, weight), tl.where(on_edge, deep, middle)
            beside, under = tl.where(on_edge, aside_of, beside), tl.where(on_edge, below_of, under)
            if least > 0:
                larger = on_edge & (weight >= least) & (weight > most)
                most = tl.where(larger, weight, most)
                mask, mask_depth = tl.where(larger, item + 1, mask), tl.where(larger, middle, mask_depth)
        coverage += weight
        aside += weight * (beside - 0.5)
        below += weight * (under - 0.5)
        planes = pieces + (index * (count + 1) + item) * (PLANES * pixels) + pixel
        tl.store(planes, weight, mask=in_image)
        if any_of(weight > 0):
            tl.store(planes + pixels, middle, mask=in_image)
            tl.store(planes + 2 * pixels, beside, mask=in_image)
            tl.store(planes + 3 * pixels, under, mask=in_image)
    # on an outline the ground is seen at the centre of the uncovered part, so that no point under the object is shaded
    share = tl.maximum(1.0 - coverage, 0.0)
    factor = tl.where(share > 1e-3, -1.0 / tl.maximum(share, 1e-3), 0.0)
    planes = pieces + (index * (count + 1) + count) * (PLANES * pixels) + pixel
    tl.store(planes, share, mask=in_image)
    tl.store(planes + 2 * pixels, aside * factor + 0.5, mask=in_image)
    tl.store(planes + 3 * pixels, below * factor + 0.5, mask=in_image)
    tl.store(masks + pixel, mask.to(tl.uint8), mask=in_image)
    tl.store(depths + pixel, mask_depth, mask=in_image)


@triton.jit
def subpixel_offsets(GRID: tl.constexpr):
    """Column and row within the pixel of each ray: a square grid that covers the pixel evenly."""
    rays = tl.arange(0, GRID * GRID)
    return ((rays % GRID).to(tl.float32) + 0.5) / GRID, ((rays // GRID).to(tl.float32) + 0.5) / GRID


@triton.jit
def outline_hits(
    scene, things, assets, pieces, first, totals, least, count, column, row, on_edge, in_image, size,
    KINDS: tl.constexpr, GRID: tl.constexpr, DISPLACED: tl.constexpr,
):  # fmt: skip
    """Depth and object, plus one, that each ray of the pixels on outlines hits first, [pixels, rays]; add the totals.

    `first` is the index of the first object's pieces.
    """
    x, y = subpixel_offsets(GRID)
    direction = view_ray(scene, column[:, None] + x[None, :], row[:, None] + y[None, :], size)
    camera = load(scene + CAMERA)
    closest = zeros(direction[2]) + float("inf")
    nearest = tl.zeros(closest.shape, tl.int32)
    for item in range(count):
        thing = things + item * OBJECT
        planes = pieces + (first + item) * (PLANES * size * size) + row * size + column
        covered = tl.load(planes, mask=in_image, other=0.0) > 0
        candidate = is_candidate(thing, column, row) & on_edge
        if any_of(candidate):
            origin, way = point_to_object(thing, camera), direction_to_object(thing, direction)
            active = candidate[:, None] & (nearest >= 0)  # of every ray
            hit = intersect(thing, assets, origin, way, active, CLOSE, float("inf"), KINDS, DISPLACED)
            nearest = tl.where(hit < closest, item + 1, nearest)
            closest = tl.minimum(hit, closest)
            if least > 0:
                share = tl.sum(tl.where(hit < float("inf"), 1.0, 0.0), 1) / (GRID * GRID)
                covered = tl.where(candidate, share >= least, covered)
        hits = tl.sum(covered.to(tl.int32), 0)
        if hits > 0:
            tl.atomic_add(totals + item, hits)
    return closest, nearest


@triton.jit
def piece_of(own, closest, GRID: tl.constexpr):
    """The share of each pixel that an object's own rays cover, and their mean depth, column and row."""
    x, y = subpixel_offsets(GRID)
    ones = tl.where(own, 1.0, 0.0)
    hits = tl.sum(ones, 1)
    divisor = tl.maximum(hits, 1.0)
    depth = tl.sum(tl.where(own, closest, 0.0), 1) / divisor
    return hits / (GRID * GRID), depth, tl.sum(ones * x[None, :], 1) / divisor, tl.sum(ones * y[None, :], 1) / divisor


@triton.jit
def nearest_hit(
    things, count, assets, point, direction, own, active, KINDS: tl.constexpr, DISPLACED: tl.constexpr
):  # fmt: skip
    """The first hit of each ray: its distance, infinite if there is none, and the object. Directions are unit."""
    best, hit = zeros(direction[2]) + float("inf"), tl.zeros(own.shape, tl.int32)
    for item in range(count):
        thing = things + item * OBJECT
        offset, reach = subtract(load(thing + CENTRE), point), tl.load(thing + REACH)
        along = dot(offset, direction)
        near = (dot(offset, offset) - along * along < reach * reach) & (along > -reach) & (reach > 0) & active
        near = near & ((own != item) | (tl.load(thing + CONVEX) == 0))
        if any_of(near):
            origin, way = point_to_object(thing, point), direction_to_object(thing, direction)
            distance = intersect(thing, assets, origin, way, near, CLOSE, float("inf"), KINDS, DISPLACED)
            hit = tl.where(distance < best, item, hit)
            best = tl.minimum(distance, best)
    return best, hit


@triton.jit
def normals_of(things, count, assets, point, hit, active, KINDS: tl.constexpr):
    """Outward unit normals at points on the objects that rays have hit."""
    normal = zero_vector(point[2])
    for item in range(count):
        owned = active & (hit == item)
        if any_of(owned):
            normal = choose(owned, normal_at(things + item * OBJECT, assets, point, KINDS), normal)
    return normal


@triton.jit
def number_of(things, count, hit, COLUMN: tl.constexpr):
    """A number of the objects that rays have hit, by its column in the table."""
    number = tl.zeros(hit.shape, tl.float32)
    for item in range(count):
        number = tl.where(hit == item, tl.load(things + item * OBJECT + COLUMN), number)
    return number


@triton.jit
def ground_piece(scene, planes, column, row, in_image, size):
    """The point of a level ground in each pixel, and the share of the pixel that it fills."""
    pixels = size * size
    share = tl.load(planes, mask=in_image, other=0.0)
    beside = tl.load(planes + 2 * pixels, mask=in_image, other=0.5)
    under = tl.load(planes + 3 * pixels, mask=in_image, other=0.5)
    camera, direction = load(scene + CAMERA), view_ray(scene, column + beside, row + under, size)
    # the ground is infinite: rays above the horizon are bent down to it
    return step(camera, direction, -camera[2] / tl.minimum(direction[2], -1e-3)), share


@triton.jit
def object_piece(scene, thing, assets, planes, column, row, seen, size, KINDS: tl.constexpr):
    """Point, normal and direction to the camera of an object's pieces, where there are any."""
    pixels = size * size
    depth = tl.load(planes + pixels, mask=seen, other=1.0)
    beside = tl.load(planes + 2 * pixels, mask=seen, other=0.5)
    under = tl.load(planes + 3 * pixels, mask=seen, other=0.5)
    direction = view_ray(scene, column + beside, row + under, size)
    point = step(load(scene + CAMERA), direction, depth)
    return point, normal_at(thing, assets, point, KINDS), scale(unit(direction), -1.0)


@triton.jit
def lift(thing, point, normal):
    """Points moved off the surface, so that rays from there do not hit it again."""
    return step(point, normal, tl.load(thing + SIZE) * RAY_OFFSET)


@triton.jit
def floor_depth(scene, point, depths, in_image):
    """Write the depth of the ground where there is no object."""
    floor = dot(subtract(point, load(scene + CAMERA)), load(scene + FORWARD))
    depth = tl.load(depths, mask=in_image, other=0.0)
    tl.store(depths, tl.where(depth < float("inf"), depth, floor), mask=in_image)


@triton.jit
def to_byte(value):
    """Display values in 0..1 as bytes."""
    return clamp(value * 255.0 + 0.5, 0.0, 255.0).to(tl.uint8)
