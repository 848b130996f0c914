"""Vectors: three tensors each, or three numbers."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load(pointer):
    """Three consecutive numbers."""
    return tl.load(pointer), tl.load(pointer + 1), tl.load(pointer + 2)


@triton.jit
def any_of(flags):
    """Whether any of some flags is set, the same in all threads."""
    return tl.max(tl.ravel(flags).to(tl.int32), 0) > 0


@triton.jit
def add(first, second):
    """Sum."""
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


@triton.jit
def subtract(first, second):
    """Difference."""
    return first[0] - second[0], first[1] - second[1], first[2] - second[2]


@triton.jit
def scale(vector, factor):
    """Product with a number."""
    return vector[0] * factor, vector[1] * factor, vector[2] * factor


@triton.jit
def step(point, direction, distance):
    """The point at a distance along a ray."""
    return point[0] + direction[0] * distance, point[1] + direction[1] * distance, point[2] + direction[2] * distance


@triton.jit
def multiply(first, second):
    """Product of each coordinate."""
    return first[0] * second[0], first[1] * second[1], first[2] * second[2]


@triton.jit
def choose(flag, first, second):
    """The first vector where the flag is set, else the second."""
    return tl.where(flag, first[0], second[0]), tl.where(flag, first[1], second[1]), tl.where(flag, first[2], second[2])


@triton.jit
def dot(first, second):
    """Inner product."""
    return first[0] * second[0] + first[1] * second[1] + first[2] * second[2]


@triton.jit
def length(vector):
    """Euclidean length."""
    return tl.sqrt(dot(vector, vector))


@triton.jit
def unit(vector):
    """The vector scaled to length 1."""
    return scale(vector, 1.0 / tl.maximum(length(vector), 1e-12))


@triton.jit
def cross(first, second):
    """Vector product."""
    return (
        first[1] * second[2] - first[2] * second[1],
        first[2] * second[0] - first[0] * second[2],
        first[0] * second[1] - first[1] * second[0],
    )


@triton.jit
def mirrored(toward, normal):
    """The mirror reflection of a direction about the normal; both point away from the surface."""
    return subtract(scale(normal, 2.0 * dot(normal, toward)), toward)


@triton.jit
def clamp(value, low, high):
    """The value, at least `low` and at most `high`."""
    return tl.minimum(tl.maximum(value, low), high)


@triton.jit
def zeros(like):
    """Zeros in the shape of a tensor."""
    return tl.zeros(like.shape, tl.float32)


@triton.jit
def zero_vector(like):
    """Three zeros in the shape of a tensor."""
    return zeros(like), zeros(like), zeros(like)
