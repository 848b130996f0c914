"""CLEVR's shader: rubber and metal on a plain ground, mixed from the lobes of the released materials."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.bounce import backdrop_light, ground_radiance, light_from_ground, light_from_objects
from alebrije.render.brdf import beckmann, fresnel, ggx, velvet
from alebrije.render.compiling import is_compiled
from alebrije.render.fragments import Fragments
from alebrije.render.fusing import fused
from alebrije.render.light import CLEVR_LIGHT, HARD, Lighting, incident_light, irradiance, light_visibility, tinted
from alebrije.render.rays import RAY_OFFSET, nearest_hit, surface_normals
from alebrije.render.stage import Stage
from alebrije.render.tone_mapping import srgb
from alebrije.render.vectors import along_axes, cross, dot, mirrored, on_ground, unit

ROUGH = (0.15, 0.267)  # alpha of the metal's rough lobe, anisotropy .25: along the tangent and the bitangent
SHARP = (0.022, 0.026)  # alpha of its sharp lobe, widened by the size of the lamps it reflects
WIDE = ((0.71, 0.71, 1.0), (-0.71, 0.71, 0.6), (-0.71, -0.71, 1.0), (0.71, -0.71, 0.6))  # samples of the rough lobe


@dataclass(frozen=True, eq=False)
class ClevrShader:
    """Shade the objects of a stage by colour and material, and its ground by albedo."""

    stage: Stage
    colour: Tensor  # [3, instances] linear
    metal: Tensor  # [instances] bool
    albedo: Tensor  # [3, B] of the ground, linear
    light: Lighting = CLEVR_LIGHT

    def ground(self, point: Tensor) -> Tensor:
        """Radiance of the ground at points [3, B, P]. [3, B, P]"""
        stage = self.stage
        received, hidden = light_from_objects(stage, self.light, point, self.colour)
        lit = light_visibility(stage, self.light, None, point)
        given = (self.light, stage.lamps, point, lit, received, hidden, self.albedo)
        if is_compiled(stage.device):
            from alebrije.render import cpu_tracer

            return cpu_tracer.plain_ground_radiance(*given)
        return plain_ground_radiance(*given)

    def objects(self, fragments: Fragments) -> Tensor:
        """Radiance of the fragments of objects. [3, M]"""
        radiance = torch.empty_like(fragments.point)
        point = fragments.point + fragments.normal * (self.stage.size[fragments.instance] * RAY_OFFSET)
        lit = light_visibility(self.stage, self.light, fragments.scene, point, fragments.item)
        metal = self.metal[fragments.instance]
        for rows, material in ((~metal).nonzero()[:, 0], self._rubber), (metal.nonzero()[:, 0], self._metal):
            if len(rows):
                vectors = (vector.index_select(1, rows) for vector in (point, fragments.normal, fragments.view, lit))
                radiance[:, rows] = material(fragments.instance[rows], *vectors)
        return radiance

    to_display = staticmethod(srgb)  # from linear radiance to display values

    def _rubber(self, instance: Tensor, point: Tensor, normal: Tensor, view: Tensor, lit: Tensor) -> Tensor:
        scene, colour = self.stage.scene_of(instance), self.colour.index_select(1, instance)
        return rubber_radiance(self.light, self.stage.lamps, self.albedo, scene, colour, point, normal, view, lit)

    def _metal(self, instance: Tensor, point: Tensor, normal: Tensor, view: Tensor, lit: Tensor) -> Tensor:
        stage, scene = self.stage, self.stage.scene_of(instance)
        centre = stage.centre.index_select(1, instance)
        total, directions = metal_lobes(self.light, stage.lamps, scene, centre, point, normal, view, lit)
        count = len(directions)
        reflected = self._secondary_radiance(instance.repeat(count), point.repeat(1, count), torch.cat(directions, 1))
        mirror, *wide = reflected.reshape(3, count, -1).unbind(1)
        return (total + 0.6 * mirror + torch.stack(wide).mean(0) * 0.4) * self.colour.index_select(1, instance)

    def _secondary_radiance(self, own: Tensor, point: Tensor, direction: Tensor) -> Tensor:
        """Radiance along secondary rays from points on objects: of objects, the ground, or the black sky. [3, M]"""
        stage, scene = self.stage, self.stage.scene_of(own)
        down = direction[2].clamp_max(-1e-4)
        ground = torch.where(direction[2] < -1e-3, -point[2] / down, torch.full_like(down, math.inf))
        distance, instance = nearest_hit(stage, scene, point + direction * 1e-2, direction, own % stage.objects)
        radiance = torch.zeros_like(point)
        rows = (torch.isfinite(ground) & (ground < distance)).nonzero()[:, 0]
        if len(rows):
            hit, own_scene = point.index_select(1, rows) + direction.index_select(1, rows) * ground[rows], scene[rows]
            lit = light_visibility(stage, self.light, own_scene, hit, None, HARD)
            radiance[:, rows] = ground_radiance(self.light, stage.lamps, own_scene, hit, self.albedo, lit)
        rows = (distance < ground).nonzero()[:, 0]
        if len(rows):
            ray, instance = direction.index_select(1, rows), instance[rows]
            hit = point.index_select(1, rows) + ray * distance[rows]
            normal = surface_normals(stage, instance, hit)
            hit = hit + normal * (stage.size[instance] * RAY_OFFSET)
            lit = light_visibility(stage, self.light, scene[rows], hit, instance % stage.objects, HARD)
            # metal in a reflection is shaded as rubber, so that rays bounce only once
            radiance[:, rows] = self._rubber(instance, hit, normal, -ray, lit)
        return radiance


@fused
def plain_ground_radiance(
    light: Lighting, lamps: Tensor, point: Tensor, lit: Tensor, received: Tensor, hidden: Tensor, albedo: Tensor
) -> Tensor:
    """Radiance of a matt ground lit by the lamps, the backdrop and the objects. [3, B, P]"""
    incident = irradiance(light, lamps, None, point, None, lit) + received + backdrop_light(point) * (1.0 - hidden)
    return incident * (albedo / math.pi)[..., None]


@fused
def rubber_radiance(
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
    """Diffuse and velvet lobes in the object's colour under a rough white gloss, mixed by Fresnel's law. [3, M]"""
    nv = dot(normal, view).clamp(1e-2, 1.0)
    gloss, rim = fresnel(nv, 1.2), fresnel(nv, 1.4)
    matt, flat = (1.0 - gloss) * rim, (1.0 - gloss) * (1.0 - rim) / math.pi
    body, sheen = torch.zeros_like(point), torch.zeros_like(point)
    for to_light, incident, tint in incident_light(light, lamps, scene, point, lit):
        nl = dot(to_light, normal)
        strength = torch.where(nl > 0, incident, torch.zeros_like(nl))
        nl = nl.clamp_min(1e-4)
        half = unit(to_light + view)
        nh, hv = dot(normal, half).clamp(1e-3, 1.0 - 1e-6), dot(half, view)
        body = body + tinted(strength * (flat * nl + matt * velvet(nh, nl, nv, hv, 0.6)), tint)
        sheen = sheen + tinted(strength * gloss * beckmann(nh, nl, nv, 0.35), tint)
    body = body + light_from_ground(light, lamps, scene, point, normal, albedo) * ((1.0 - gloss) / math.pi)
    # the ground fills a rough reflection that points down, and none of one that points up
    mirrored_view = mirrored(view, normal)
    share = (0.5 - mirrored_view[2] / 0.7).clamp(0.0, 1.0)
    distance = (point[2] / (-mirrored_view[2]).clamp_min(0.12)).clamp_max(25.0)
    hit = on_ground(point + mirrored_view * distance)
    sheen = sheen + ground_radiance(light, lamps, scene, hit, albedo, None) * (share * gloss)
    return body * colour + 0.8 * sheen


@fused
def metal_lobes(
    light: Lighting,
    lamps: Tensor,
    scene: Tensor,
    centre: Tensor,
    point: Tensor,
    normal: Tensor,
    view: Tensor,
    lit: Tensor,
) -> tuple[Tensor, list[Tensor]]:
    """Lamps reflected in a sharp and a rough lobe, 3 to 2, and the directions of their secondary rays. [3, M] each"""
    nv = dot(normal, view).clamp(1e-2, 1.0)
    # the tangent runs around the object's vertical axis
    offset = point - centre + along_axes((1e-4, 1e-4, 0.0), point)
    across = unit(cross(normal, cross(along_axes((0.0, 0.0, 1.0), point).expand_as(point), offset)))
    along = cross(across, normal)
    total = torch.zeros_like(point)
    for to_light, incident, tint in incident_light(light, lamps, scene, point, lit):
        nl = dot(to_light, normal)
        strength = torch.where(nl > 0, incident, torch.zeros_like(nl))
        half = unit(to_light + view)
        parts = (dot(along, half), dot(across, half), dot(normal, half), nl.clamp_min(1e-4), nv)
        total = total + tinted(strength * (0.4 * ggx(*parts, ROUGH) + 0.6 * ggx(*parts, SHARP)), tint)
    directions = [mirrored(view, normal)]
    for a, b, reach in WIDE:
        facet = unit(normal + along * (a * reach * ROUGH[0]) + across * (b * reach * ROUGH[1]))
        directions.append(mirrored(view, facet))
    return total, directions
