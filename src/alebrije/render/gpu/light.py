"""Direct light, and indirect light in closed form: one bounce between ground, backdrop and objects."""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.brdf import sigmoid
from alebrije.render.gpu.shadows import SUN, visible_share
from alebrije.render.gpu.tables import (
    AIM,
    CENTRE,
    COLOUR,
    LIGHT,
    LIGHTS,
    OBJECT,
    POWER,
    REACH,
    SCENE,
    SIDES,
    SIZE,
    TINT,
    kernel,
)
from alebrije.render.gpu.vectors import add, dot, load, scale, subtract, zero_vector, zeros

AZIMUTHS: tl.constexpr = tl.constexpr(8)  # directions in which the irradiance on an object's sides is sampled


@triton.jit
def incident_light(scene, light, point):
    """The unit vector from points to a light, and the irradiance on a surface that faces it."""
    source = scene + LIGHTS + light * LIGHT
    position, power = load(source), tl.load(source + POWER)
    if light < SUN:
        path = subtract(position, point)
        square = dot(path, path)
        to_light = scale(path, tl.rsqrt(square))
        strength = -tl.minimum(dot(to_light, load(source + AIM)), 0.0) / square * power
    else:
        blank = zeros(point[2])
        to_light = position[0] + blank, position[1] + blank, position[2] + blank
        strength = power + blank
    return to_light, strength


@triton.jit
def tint_of(scene, light):
    """The colour of a light."""
    return load(scene + LIGHTS + light * LIGHT + TINT)


@triton.jit
def open_irradiance(scene, point):
    """Irradiance on level ground where nothing shades it."""
    total = zero_vector(point[2])
    for light in range(SUN + 1):
        to_light, strength = incident_light(scene, light, point)
        total = add(total, scale(tint_of(scene, light), strength * tl.maximum(to_light[2], 0.0)))
    return total


@triton.jit
def backdrop_light(point):
    """Irradiance from the curved backdrop of CLEVR."""
    behind = point[1] * 0.6563 - point[0] * 0.7545
    return 0.035 + 0.13 * sigmoid((behind - 6.0) / 3.5)


@triton.jit
def light_from_objects(things, count, point):
    """Irradiance on the ground from the objects, and the share of the backdrop that they hide."""
    received, hidden = zero_vector(point[2]), zeros(point[2])
    for item in range(count):
        thing = things + item * OBJECT
        if tl.load(thing + REACH) > 0:
            offset, size = subtract(load(thing + CENTRE), point), tl.load(thing + SIZE)
            square = dot(offset, offset)
            # form factor of a sphere above level ground, for small solid angles
            share = tl.load(thing + CENTRE + 2) * tl.rsqrt(square) * tl.minimum(1.2 * size * size / square, 1.0)
            flat = tl.rsqrt(tl.maximum(offset[0] * offset[0] + offset[1] * offset[1], 1e-6))
            x, y = offset[0] * flat, offset[1] * flat
            constant, cosine, sine = load(thing + SIDES), load(thing + SIDES + 3), load(thing + SIDES + 6)
            red, green, blue = load(thing + COLOUR)
            received = (
                received[0] + tl.maximum(constant[0] - cosine[0] * x - sine[0] * y, 0.0) * (red * (share * 0.9)),
                received[1] + tl.maximum(constant[1] - cosine[1] * x - sine[1] * y, 0.0) * (green * (share * 0.9)),
                received[2] + tl.maximum(constant[2] - cosine[2] * x - sine[2] * y, 0.0) * (blue * (share * 0.9)),
            )
            hidden += share
    return received, tl.minimum(hidden, 1.0)


@kernel()
def side_irradiance(
    scenes, objects, assets, images, masks, depths, totals, labels, pieces, notes, radiance, least, count, size,
    KINDS: tl.constexpr, GRID: tl.constexpr, DISPLACED: tl.constexpr,
):  # fmt: skip
    """Write the irradiance on the sides of an object: its constant, cosine and sine term by azimuth."""
    index, own = tl.program_id(1).to(tl.int64), tl.program_id(0)
    scene, things = scenes + index * SCENE, objects + index * count * OBJECT
    thing = things + own * OBJECT
    angle = tl.arange(0, AZIMUTHS) * (2 * 3.141592653589793 / AZIMUTHS)
    normal = tl.cos(angle), tl.sin(angle), zeros(angle)
    centre, around = load(thing + CENTRE), 1.05 * tl.load(thing + SIZE)
    point = centre[0] + normal[0] * around, centre[1] + normal[1] * around, 0.6 * (centre[2] + zeros(angle))
    total = zero_vector(angle)
    owner = own + tl.zeros([AZIMUTHS], tl.int32)
    present = (owner >= 0) & (tl.load(thing + REACH) > 0)
    for light in range(SUN + 1):
        lit = visible_share(scene, things, count, assets, light, point, owner, present, KINDS, False)
        to_light, strength = incident_light(scene, light, point)
        incident = strength * lit * tl.maximum(dot(to_light, normal), 0.0)
        total = add(total, scale(tint_of(scene, light), incident))
    for channel in tl.static_range(3):
        tl.store(thing + SIDES + channel, tl.sum(total[channel], 0) / AZIMUTHS)
        tl.store(thing + SIDES + 3 + channel, 2 * tl.sum(total[channel] * normal[0], 0) / AZIMUTHS)
        tl.store(thing + SIDES + 6 + channel, 2 * tl.sum(total[channel] * normal[1], 0) / AZIMUTHS)
