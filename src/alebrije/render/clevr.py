"""CLEVR's look: rubber and metal on a plain ground, mixed from the lobes of the released materials."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.bounce import backdrop, from_ground, from_objects, ground_radiance
from alebrije.render.brdf import beckmann, fresnel, ggx, velvet
from alebrije.render.fragments import Fragments
from alebrije.render.light import CLEVR_LIGHT, HARD, SOFT, Lighting, beams, irradiance, tinted
from alebrije.render.rays import nearest, normals
from alebrije.render.stage import Stage
from alebrije.render.vectors import cross, dot, mirrored, unit
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
        received, hidden = from_objects(self.stage, self.light, point, self.colour)
        falling = irradiance(self.stage, self.light, None, point) + received + backdrop(point) * (1.0 - hidden)
        return falling * (self.albedo / math.pi)[..., None]

    def objects(self, seen: Fragments) -> Tensor:
        """Radiance of the fragments of objects. [3, M]"""
        shade = torch.empty_like(seen.point)
        point = seen.point + seen.normal * (self.stage.size[seen.place] * CLEAR)
        metal = self.metal[seen.place]
        for rows, material in ((~metal).nonzero()[:, 0], self.rubber), (metal.nonzero()[:, 0], self.polished):
            if len(rows):
                vectors = (vector.index_select(1, rows) for vector in (point, seen.normal, seen.view))
                shade[:, rows] = material(seen.place[rows], *vectors)
        return shade

    def develop(self, radiance: Tensor) -> Tensor:
        """Display values of linear light."""
        return srgb(radiance)

    def rubber(
        self,
        place: Tensor,
        point: Tensor,
        normal: Tensor,
        view: Tensor,
        points: tuple[tuple[float, float], ...] = SOFT,
    ) -> Tensor:
        """Diffuse and velvet in the object's colour under a rough white gloss, each mixed in by Fresnel's law. [3, M]"""
        stage, scene = self.stage, place.div(self.stage.objects, rounding_mode="floor")
        nv = dot(normal, view).clamp(1e-2, 1.0)
        gloss, rim = fresnel(nv, 1.2), fresnel(nv, 1.4)
        matt, flat = (1.0 - gloss) * rim, (1.0 - gloss) * (1.0 - rim) / math.pi
        body, sheen = torch.zeros_like(point), torch.zeros_like(point)
        for beam in beams(stage, self.light, scene, point, place % stage.objects, points):
            nl = dot(beam.toward, normal)
            strength = torch.where(nl > 0, beam.strength, torch.zeros_like(nl))
            nl = nl.clamp_min(1e-4)
            half = unit(beam.toward + view)
            nh, hv = dot(normal, half).clamp(1e-3, 1.0 - 1e-6), dot(half, view)
            body = body + tinted(strength * (flat * nl + matt * velvet(nh, nl, nv, hv, 0.6)), beam.colour)
            sheen = sheen + tinted(strength * gloss * beckmann(nh, nl, nv, 0.35), beam.colour)
        around = from_ground(stage, self.light, scene, point, normal, self.albedo)
        body = body + around * ((1.0 - gloss) / math.pi)
        sheen = sheen + self._glance(scene, point, mirrored(view, normal)) * gloss
        return body * self.colour.index_select(1, place) + 0.8 * sheen

    def _glance(self, scene: Tensor, point: Tensor, direction: Tensor) -> Tensor:
        """The unshaded ground in a rough reflection: all of it when looking down, none when looking up. [3, M]"""
        share = (0.5 - direction[2] / 0.7).clamp(0.0, 1.0)
        far = (point[2] / (-direction[2]).clamp_min(0.12)).clamp_max(25.0)
        spot = torch.stack([point[0] + direction[0] * far, point[1] + direction[1] * far, torch.zeros_like(far)])
        return ground_radiance(self.stage, self.light, scene, spot, self.albedo, ()) * share

    def polished(self, place: Tensor, point: Tensor, normal: Tensor, view: Tensor) -> Tensor:
        """A mirror and a wide lobe, 3 to 2, in the object's colour. [3, M]"""
        stage, scene = self.stage, place.div(self.stage.objects, rounding_mode="floor")
        nv = dot(normal, view).clamp(1e-2, 1.0)
        # the tangent runs around the object's upright axis
        x, y, _ = point - stage.centre.index_select(1, place)
        across = unit(cross(normal, torch.stack([-y - 1e-4, x + 1e-4, torch.zeros_like(x)])))
        along = cross(across, normal)
        total = torch.zeros_like(point)
        for beam in beams(stage, self.light, scene, point, place % stage.objects):
            nl = dot(beam.toward, normal)
            strength = torch.where(nl > 0, beam.strength, torch.zeros_like(nl))
            half = unit(beam.toward + view)
            parts = (dot(along, half), dot(across, half), dot(normal, half), nl.clamp_min(1e-4), nv)
            total = total + tinted(strength * (0.4 * ggx(*parts, ROUGH) + 0.6 * ggx(*parts, SHARP)), beam.colour)
        facets = [normal]
        for a, b, reach in WIDE:
            facets.append(unit(normal + along * (a * reach * ROUGH[0]) + across * (b * reach * ROUGH[1])))
        directions = torch.cat([mirrored(view, facet) for facet in facets], 1)
        seen = self._surroundings(place.repeat(len(facets)), point.repeat(1, len(facets)), directions)
        mirror, *wide = seen.reshape(3, len(facets), -1).unbind(1)
        total = total + 0.6 * mirror + torch.stack(wide).mean(0) * 0.4
        return total * self.colour.index_select(1, place)

    def _surroundings(self, own: Tensor, point: Tensor, direction: Tensor) -> Tensor:
        """What is seen from points on objects in given directions: objects, the ground, or the dark sky. [3, M]"""
        stage = self.stage
        scene = own.div(stage.objects, rounding_mode="floor")
        down = direction[2].clamp_max(-1e-4)
        ground = torch.where(direction[2] < -1e-3, -point[2] / down, torch.full_like(down, math.inf))
        far, place = nearest(stage, scene, point + direction * 1e-2, direction, own % stage.objects)
        radiance = torch.zeros_like(point)
        rows = (torch.isfinite(ground) & (ground < far)).nonzero()[:, 0]
        if len(rows):
            spot = point.index_select(1, rows) + direction.index_select(1, rows) * ground[rows]
            radiance[:, rows] = ground_radiance(stage, self.light, scene[rows], spot, self.albedo, HARD)
        rows = (far < ground).nonzero()[:, 0]
        if len(rows):
            toward = direction.index_select(1, rows)
            spot = point.index_select(1, rows) + toward * far[rows]
            normal = normals(stage, place[rows], spot)
            spot = spot + normal * (stage.size[place[rows]] * CLEAR)
            # a mirrored metal is drawn as rubber: one bounce, no more
            radiance[:, rows] = self.rubber(place[rows], spot, normal, -toward, HARD)
        return radiance
