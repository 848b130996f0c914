"""CLEVR's look: rubber and metal on a plain ground, mixed from the lobes of the released materials."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.bounce import backdrop, from_ground, from_objects, ground_radiance
from alebrije.render.brdf import beckmann, fresnel, ggx, velvet
from alebrije.render.fragments import Fragments
from alebrije.render.fusing import fused
from alebrije.render.light import CLEVR_LIGHT, HARD, Lighting, beams, irradiance, shadowed, tinted
from alebrije.render.rays import nearest, normals
from alebrije.render.stage import Stage
from alebrije.render.vectors import along_axes, cross, dot, mirrored, on_ground, unit
from alebrije.render.view import srgb

ROUGH = (0.15, 0.267)  # the metal's wide lobe, stretched by its anisotropy of .25: along the tangent and across
SHARP = (0.022, 0.026)  # its narrow lobe, widened to the lamps it mirrors
WIDE = ((0.71, 0.71, 1.0), (-0.71, 0.71, 0.6), (-0.71, -0.71, 1.0), (0.71, -0.71, 0.6))  # looks into the wide lobe
CLEAR = 1.5e-2  # how far a ray starts from its surface, in half-sizes, so as not to meet it again


@dataclass(frozen=True, eq=False)
class ClevrLook:
    """Colours and materials of the objects of a stage, and the colour of its ground."""

    stage: Stage
    colour: Tensor  # [3, places] linear
    metal: Tensor  # [places] bool
    albedo: Tensor  # [3, B] of the ground, linear
    light: Lighting = CLEVR_LIGHT

    def ground(self, point: Tensor) -> Tensor:
        """Radiance of the ground at points [3, B, P]. [3, B, P]"""
        stage = self.stage
        received, hidden = from_objects(stage, self.light, point, self.colour)
        lit = shadowed(stage, self.light, None, point)
        return plain_ground(self.light, stage.lamps, point, lit, received, hidden, self.albedo)

    def objects(self, seen: Fragments) -> Tensor:
        """Radiance of the fragments of objects. [3, M]"""
        shade = torch.empty_like(seen.point)
        point = seen.point + seen.normal * (self.stage.size[seen.place] * CLEAR)
        lit = shadowed(self.stage, self.light, seen.scene, point, seen.item)
        metal = self.metal[seen.place]
        for rows, material in ((~metal).nonzero()[:, 0], self._rubber), (metal.nonzero()[:, 0], self._polished):
            if len(rows):
                vectors = (vector.index_select(1, rows) for vector in (point, seen.normal, seen.view, lit))
                shade[:, rows] = material(seen.place[rows], *vectors)
        return shade

    def develop(self, radiance: Tensor) -> Tensor:
        """Display values of linear light."""
        return srgb(radiance)

    def _rubber(self, place: Tensor, point: Tensor, normal: Tensor, view: Tensor, lit: Tensor) -> Tensor:
        scene, colour = self.stage.scene_of(place), self.colour.index_select(1, place)
        return rubber(self.light, self.stage.lamps, self.albedo, scene, colour, point, normal, view, lit)

    def _polished(self, place: Tensor, point: Tensor, normal: Tensor, view: Tensor, lit: Tensor) -> Tensor:
        stage, scene = self.stage, self.stage.scene_of(place)
        centre = stage.centre.index_select(1, place)
        total, directions = polished(self.light, stage.lamps, scene, centre, point, normal, view, lit)
        count = len(directions)
        seen = self._surroundings(place.repeat(count), point.repeat(1, count), torch.cat(directions, 1))
        mirror, *wide = seen.reshape(3, count, -1).unbind(1)
        return (total + 0.6 * mirror + torch.stack(wide).mean(0) * 0.4) * self.colour.index_select(1, place)

    def _surroundings(self, own: Tensor, point: Tensor, direction: Tensor) -> Tensor:
        """What is seen from points on objects in given directions: objects, the ground, or the dark sky. [3, M]"""
        stage, scene = self.stage, self.stage.scene_of(own)
        down = direction[2].clamp_max(-1e-4)
        ground = torch.where(direction[2] < -1e-3, -point[2] / down, torch.full_like(down, math.inf))
        far, place = nearest(stage, scene, point + direction * 1e-2, direction, own % stage.objects)
        radiance = torch.zeros_like(point)
        rows = (torch.isfinite(ground) & (ground < far)).nonzero()[:, 0]
        if len(rows):
            spot, inside = point.index_select(1, rows) + direction.index_select(1, rows) * ground[rows], scene[rows]
            lit = shadowed(stage, self.light, inside, spot, None, HARD)
            radiance[:, rows] = ground_radiance(self.light, stage.lamps, inside, spot, self.albedo, lit)
        rows = (far < ground).nonzero()[:, 0]
        if len(rows):
            toward, place = direction.index_select(1, rows), place[rows]
            spot = point.index_select(1, rows) + toward * far[rows]
            normal = normals(stage, place, spot)
            spot = spot + normal * (stage.size[place] * CLEAR)
            lit = shadowed(stage, self.light, scene[rows], spot, place % stage.objects, HARD)
            # a mirrored metal is drawn as rubber: one bounce, no more
            radiance[:, rows] = self._rubber(place, spot, normal, -toward, lit)
        return radiance


@fused
def plain_ground(
    light: Lighting, lamps: Tensor, point: Tensor, lit: Tensor, received: Tensor, hidden: Tensor, albedo: Tensor
) -> Tensor:
    """Radiance of a matt ground under the lamps, the backdrop and the objects. [3, B, P]"""
    falling = irradiance(light, lamps, None, point, None, lit) + received + backdrop(point) * (1.0 - hidden)
    return falling * (albedo / math.pi)[..., None]


@fused
def rubber(
    light: Lighting,
    lamps: Tensor,
    albedo: Tensor,
    scene: Tensor,
    colour: Tensor,
    point: Tensor,
    normal: Tensor,
    view: Tensor,
    lit: Tensor,
) -> Tensor:
    """Diffuse and velvet in the object's colour under a rough white gloss, mixed by Fresnel's law. [3, M]"""
    nv = dot(normal, view).clamp(1e-2, 1.0)
    gloss, rim = fresnel(nv, 1.2), fresnel(nv, 1.4)
    matt, flat = (1.0 - gloss) * rim, (1.0 - gloss) * (1.0 - rim) / math.pi
    body, sheen = torch.zeros_like(point), torch.zeros_like(point)
    for toward, falling, tint in beams(light, lamps, scene, point, lit):
        nl = dot(toward, normal)
        strength = torch.where(nl > 0, falling, torch.zeros_like(nl))
        nl = nl.clamp_min(1e-4)
        half = unit(toward + view)
        nh, hv = dot(normal, half).clamp(1e-3, 1.0 - 1e-6), dot(half, view)
        body = body + tinted(strength * (flat * nl + matt * velvet(nh, nl, nv, hv, 0.6)), tint)
        sheen = sheen + tinted(strength * gloss * beckmann(nh, nl, nv, 0.35), tint)
    body = body + from_ground(light, lamps, scene, point, normal, albedo) * ((1.0 - gloss) / math.pi)
    # in a rough reflection the ground fills all of a look down and none of a look up
    away = mirrored(view, normal)
    share = (0.5 - away[2] / 0.7).clamp(0.0, 1.0)
    far = (point[2] / (-away[2]).clamp_min(0.12)).clamp_max(25.0)
    spot = on_ground(point + away * far)
    sheen = sheen + ground_radiance(light, lamps, scene, spot, albedo, None) * (share * gloss)
    return body * colour + 0.8 * sheen


@fused
def polished(
    light: Lighting,
    lamps: Tensor,
    scene: Tensor,
    centre: Tensor,
    point: Tensor,
    normal: Tensor,
    view: Tensor,
    lit: Tensor,
) -> tuple[Tensor, list[Tensor]]:
    """The lamps in a mirror and in a wide lobe, 3 to 2, and where else the two look. [3, M] each"""
    nv = dot(normal, view).clamp(1e-2, 1.0)
    # the tangent runs around the object's upright axis
    offset = point - centre + along_axes((1e-4, 1e-4, 0.0), point)
    across = unit(cross(normal, cross(along_axes((0.0, 0.0, 1.0), point).expand_as(point), offset)))
    along = cross(across, normal)
    total = torch.zeros_like(point)
    for toward, falling, tint in beams(light, lamps, scene, point, lit):
        nl = dot(toward, normal)
        strength = torch.where(nl > 0, falling, torch.zeros_like(nl))
        half = unit(toward + view)
        parts = (dot(along, half), dot(across, half), dot(normal, half), nl.clamp_min(1e-4), nv)
        total = total + tinted(strength * (0.4 * ggx(*parts, ROUGH) + 0.6 * ggx(*parts, SHARP)), tint)
    looks = [mirrored(view, normal)]
    for a, b, reach in WIDE:
        facet = unit(normal + along * (a * reach * ROUGH[0]) + across * (b * reach * ROUGH[1]))
        looks.append(mirrored(view, facet))
    return total, looks
