"""CLEVRTex's surfaces: how textured objects and the curved ground reflect light."""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.brdf import PI, ggx
from alebrije.render.gpu.light import incident_light, open_irradiance, tint_of
from alebrije.render.gpu.materials import finish
from alebrije.render.gpu.shadows import SUN, visible_share
from alebrije.render.gpu.shapes import (
    direction_to_object,
    direction_to_world,
    point_to_object,
)
from alebrije.render.gpu.tables import (
    CAMERA,
    FLOOR,
    FORWARD,
    MATERIAL,
    RIGHT,
    UP,
    WRAP,
)
from alebrije.render.gpu.unwrapping import unwrap, unwrap_ground
from alebrije.render.gpu.vectors import (
    add,
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
    HALF_WIDTH,
)

AMBIENT: tl.constexpr = tl.constexpr(0.4)  # irradiance from the curved part of the ground, per albedo
BACK_X: tl.constexpr = tl.constexpr(-0.888)  # horizontal direction in which the ground curves up
BACK_Y: tl.constexpr = tl.constexpr(0.460)
CURVE_START: tl.constexpr = tl.constexpr(8.8)  # distance from the origin at which the curve begins
CURVE_RADIUS: tl.constexpr = tl.constexpr(7.0)


@triton.jit
def visible_lights(scene, things, count, assets, point, own, active, KINDS: tl.constexpr, SOFT: tl.constexpr):
    """The visible share of each light."""
    key, back, fill, sun = zeros(point[2]), zeros(point[2]), zeros(point[2]), zeros(point[2])
    for light in range(SUN + 1):
        lit = visible_share(scene, things, count, assets, light, point, own, active, KINDS, SOFT)
        key, back = tl.where(light == 0, lit, key), tl.where(light == 1, lit, back)
        fill, sun = tl.where(light == 2, lit, fill), tl.where(light == 3, lit, sun)
    return key, back, fill, sun


@triton.jit
def surface_at(scene, thing, assets, is_ground, place, normal):
    """Albedo, specular, alpha of GGX, normal with bumps, and opacity at points on an object or on the ground."""
    if is_ground:
        material = tl.load(scene + FLOOR).to(tl.int32)
        u, v, along = unwrap_ground(place, normal)
    else:
        material = tl.load(thing + MATERIAL).to(tl.int32)
        local_normal = unit(direction_to_object(thing, normal))
        u, v, tangent = unwrap(tl.load(thing + WRAP).to(tl.int32), point_to_object(thing, place), local_normal)
        along = direction_to_world(thing, tangent)
    albedo, specular, rough, slope_u, slope_v, opacity = finish(assets, material, u, v)
    bent = subtract(normal, add(scale(along, slope_u), scale(cross(normal, along), slope_v)))
    return albedo, specular, rough * rough, unit(bent), opacity


@triton.jit
def footprint(scene, point, normal, view, scaling, size):
    """The footprint of a pixel, or of a part of it, on a surface: its two sides."""
    depth = dot(subtract(point, load(scene + CAMERA)), load(scene + FORWARD))
    pixel = depth * (2.0 * HALF_WIDTH / size) * scaling
    facing = tl.maximum(dot(normal, view), 0.12)
    across, upwards = scale(load(scene + RIGHT), pixel), scale(load(scene + UP), pixel)
    return (
        subtract(across, scale(view, dot(across, normal) / facing)),
        subtract(upwards, scale(view, dot(upwards, normal) / facing)),
    )


@triton.jit
def sampled_radiance(
    scene, thing, assets, IS_GROUND: tl.constexpr, hit, side, upper, point, normal, view, lit, received, gloss,
    GRID: tl.constexpr,
):  # fmt: skip
    """Radiance, and mean alpha, specular and opacity, over a grid of samples of the surface around each hit."""
    total, reflectance = zero_vector(hit[2]), zero_vector(hit[2])
    rough, solid = zeros(hit[2]), zeros(hit[2])
    share = 1.0 / (GRID * GRID)
    for sample in range(GRID * GRID):
        x, y = (sample % GRID + 0.5) / GRID - 0.5, (sample // GRID + 0.5) / GRID - 0.5
        place = step(step(hit, side, x), upper, y)
        albedo, specular, alpha, bumped, opacity = surface_at(scene, thing, assets, IS_GROUND, place, normal)
        shaded = sample_radiance(
            scene, point, normal, view, lit, received, gloss, albedo, specular, alpha, bumped, opacity
        )
        total, reflectance = add(total, scale(shaded, share)), add(reflectance, scale(specular, share))
        rough, solid = rough + alpha * share, solid + opacity * share
    return total, rough, reflectance, solid


@triton.jit
def sample_radiance(
    scene, point, normal, view, lit, received, gloss, albedo, specular, alpha, bumped, opacity
):  # fmt: skip
    """Radiance of a diffuse and a glossy lobe under the lights at one sample."""
    nv = clamp(dot(bumped, view), 0.05, 1.0)
    body, sheen = zero_vector(nv), zero_vector(nv)
    smooth = 1.0 - tl.sqrt(alpha)
    for light in range(SUN + 1):
        to_light, incident = incident_light(scene, light, point)
        incident *= tl.where(light == 0, lit[0], tl.where(light == 1, lit[1], tl.where(light == 2, lit[2], lit[3])))
        # bumps must not catch light from behind the surface
        incident *= clamp(8.0 * dot(to_light, normal), 0.0, 1.0)
        nl = tl.maximum(dot(bumped, to_light), 0.0)
        half = unit(add(to_light, view))
        nh = clamp(dot(bumped, half), 1e-3, 1.0)
        rim = grazing(dot(half, view)) * smooth
        wide = tl.sqrt(tl.maximum(1.0 - nh * nh, 0.0))
        tint = tint_of(scene, light)
        lobe = scale(tint, ggx(wide, zeros(wide), nh, nl, nv, alpha, alpha) * incident)
        body = add(body, scale(tint, nl * incident))
        sheen = (
            sheen[0] + (specular[0] + (1.0 - specular[0]) * rim) * lobe[0],
            sheen[1] + (specular[1] + (1.0 - specular[1]) * rim) * lobe[1],
            sheen[2] + (specular[2] + (1.0 - specular[2]) * rim) * lobe[2],
        )
    diffuse = multiply(add(body, received), scale(albedo, 1.0 / PI))
    return scale(add(add(diffuse, sheen), multiply(specular, gloss)), opacity)


@triton.jit
def grazing(cosine):
    """Schlick's weight of grazing angles."""
    out = 1.0 - clamp(cosine, 0.0, 1.0)
    return out * out * (out * out) * out


@triton.jit
def ground_light_and_gloss(scene, point, normal, view, albedo):
    """Irradiance on surfaces from the ground and its curved part, and the radiance they reflect of it."""
    height = tl.maximum(point[2], 0.05)
    beside = point[0] + normal[0] * height, point[1] + normal[1] * height, zeros(height)
    dome = scale(albedo, AMBIENT)
    below = multiply(add(open_irradiance(scene, beside), dome), albedo)
    share = (1.0 - normal[2]) / 2
    # the ground fills a rough reflection that points down, and none of one that points up
    filled = clamp(0.5 - mirrored(view, normal)[2] / 0.7, 0.0, 1.0)
    return add(scale(below, share * 0.8), scale(dome, 1.0 - share)), scale(below, filled * (0.8 / PI))


@triton.jit
def ground_hit(scene, level):
    """Where camera rays towards points of a flat ground hit the curved one, and its normal there."""
    x, y, z = load(scene + CAMERA)
    blank = zeros(level[2])
    camera = x + blank, y + blank, z + blank
    path = subtract(level, camera)
    distance, normal = intersect_ground(camera, path)
    return choose(distance < float("inf"), step(camera, path, distance), level), normal


@triton.jit
def intersect_ground(point, direction):
    """Distance along rays to the ground, infinite if they miss, and the normal there."""
    behind = point[0] * BACK_X + point[1] * BACK_Y - CURVE_START
    backwards = direction[0] * BACK_X + direction[1] * BACK_Y
    height, up = point[2], direction[2]
    level = height / tl.maximum(-up, 1e-6)
    on_flat = (up < -1e-6) & (behind + backwards * level <= 0.0)
    a = tl.maximum(backwards * backwards + up * up, 1e-9)
    b = behind * backwards + (height - CURVE_RADIUS) * up
    above = height - CURVE_RADIUS
    root = b * b - a * (behind * behind + above * above - CURVE_RADIUS * CURVE_RADIUS)
    curved = (tl.sqrt(tl.maximum(root, 0.0)) - b) / a
    beyond, top = behind + backwards * curved, height + up * curved
    on_curve = (root >= 0.0) & (beyond >= 0.0) & (top <= CURVE_RADIUS) & (curved > 0.0)
    distance = tl.where(on_flat, level, tl.where(on_curve, curved, float("inf")))
    lean = clamp(tl.where(on_curve & (on_flat == 0), beyond / CURVE_RADIUS, 0.0), 0.0, 1.0)
    return distance, (-lean * BACK_X, -lean * BACK_Y, tl.sqrt(1.0 - lean * lean))
