"""Pixels that objects may cover, and counts of those that they do: loops over pixels, compiled."""

from __future__ import annotations

import math

import numpy as np

from alebrije.arrays import Array, Floats, Integers
from alebrije.compiled import compiled

MARGIN = 0.05  # in pixels, against rounding
NEAREST = 0.1  # depth from which objects are seen


@compiled
def bounded_pixels(
    cameras: Array, centre: Array, reach: Array, kind: Array, size: int, half_width: float
) -> tuple[Integers, Integers]:
    """The instance and the pixel within its image of all C pixels that the bounding sphere of an instance may cover.

    `cameras` [4, 3, B] are their places and their axes to the right, up and forward. Instances have centres [3, B * N],
    radii `reach` and a `kind` [B * N], -1 if absent.
    """
    objects, scale = len(reach) // cameras.shape[2], size / (2.0 * half_width)
    instances, pixels = np.empty(64 * len(reach), np.int64), np.empty(64 * len(reach), np.int64)
    count = 0
    for instance in range(len(reach)):
        scene = instance // objects
        across = above = depth = square = 0.0
        for axis in range(3):
            offset = float(centre[axis, instance]) - float(cameras[0, axis, scene])
            across += offset * cameras[1, axis, scene]
            above += offset * cameras[2, axis, scene]
            depth += offset * cameras[3, axis, scene]
            square += offset * offset
        if kind[instance] < 0 or depth <= NEAREST:
            continue
        across, above = across / depth, above / depth
        # the outline is an ellipse: its end that is farthest from the middle of the image
        slope = math.sqrt(across * across + above * above)
        tangent = reach[instance] / math.sqrt(max(square - float(reach[instance]) ** 2, 1e-3))
        radius = tangent * (1.0 + slope * slope) / max(1.0 - tangent * slope, 1e-3) * scale + MARGIN
        x, y = across * scale + size / 2 - 0.5, size / 2 - above * scale - 0.5  # in pixels from the centre of the first
        for row in range(max(math.ceil(y - radius), 0), min(math.floor(y + radius), size - 1) + 1):
            wide = math.sqrt(max(radius * radius - (row - y) ** 2, 0.0))
            for column in range(max(math.ceil(x - wide), 0), min(math.floor(x + wide), size - 1) + 1):
                if count == len(pixels):
                    instances = np.concatenate((instances, np.empty_like(instances)))
                    pixels = np.concatenate((pixels, np.empty_like(pixels)))
                instances[count], pixels[count] = instance, row * size + column
                count += 1
    return instances[:count], pixels[:count]


@compiled
def count_pixels(
    scenes: int, objects: int, pixels: int, instance: Integers, pixel: Integers, depth: Array
) -> tuple[Integers, Floats]:
    """The visible pixels [B, N] of objects and the pixels [B, 2 ** N] of sets, from depths [C], infinite for a miss."""
    visible, sets = np.zeros((scenes, objects), np.int64), np.zeros((scenes, 2**objects))
    nearest, covering = np.empty(pixels, depth.dtype), np.empty(pixels, np.int64)
    first = 0
    for scene in range(scenes):
        last = first
        nearest[:] = np.inf
        covering[:] = 0
        while last < len(instance) and instance[last] // objects == scene:
            if depth[last] < np.inf:
                nearest[pixel[last]] = min(nearest[pixel[last]], depth[last])
                covering[pixel[last]] |= 1 << (instance[last] % objects)
            last += 1
        for ray in range(first, last):
            if depth[ray] < np.inf and depth[ray] == nearest[pixel[ray]]:
                visible[scene, instance[ray] % objects] += 1
        for covered in covering:
            sets[scene, covered] += 1
        first = last
    return visible, sets
