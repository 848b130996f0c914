"""CLEVRTex's shader: textured objects on a textured ground that curves up behind them, with Filmic tone mapping."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.bounce import light_from_objects
from alebrije.render.brdf import ggx
from alebrije.render.compiling import is_compiled
from alebrije.render.fragments import Fragments, subpixel_offsets
from alebrije.render.fusing import fused
from alebrije.render.library import shape_named
from alebrije.render.light import CLEVRTEX_LIGHT, HARD, Lighting, incident_light, irradiance, light_visibility, tinted
from alebrije.render.materials import MATERIALS, surface
from alebrije.render.rays import RAY_OFFSET, intersect, nearest_hit, surface_normals
from alebrije.render.stage import HALF_WIDTH, Stage
from alebrije.render.tone_mapping import filmic
from alebrije.render.unwrapping import texture_coordinates
from alebrije.render.vectors import cross, dot, mirrored, unit

# Outward displacement of an object's surface by each material, measured on the released masks.
DISPLACEMENT = (0.0475, 0.02, 0.0125, 0.0025, 0.0, 0.0, 0.0525, 0.0425)
# Share of the light that an object of each material blocks: chainmail has holes.
OPACITY = (1.0, 1.0, 0.45, 1.0, 1.0, 1.0, 1.0, 1.0)
# Mean albedo of each material, for indirect light.
MEAN_ALBEDO = (
    (0.400, 0.187, 0.151),
    (0.430, 0.450, 0.483),
    (0.055, 0.040, 0.035),
    (0.067, 0.097, 0.169),
    (0.043, 0.122, 0.100),
    (0.060, 0.050, 0.045),
    (0.272, 0.079, 0.036),
    (0.465, 0.210, 0.060),
)
CHAINMAIL, METAL = MATERIALS.index("copper chainmail"), MATERIALS.index("spotty metal")
AMBIENT = 0.4  # irradiance from the curved part of the ground, per albedo
OBJECT_GRID, GROUND_GRID = 3, 2  # texture samples per pixel: 3 x 3 on objects, 2 x 2 on the ground
FACET_TILTS = ((0.5, 0.2), (-0.2, 0.5), (-0.5, -0.2), (0.2, -0.5))  # tilts of sampled facets, in units of alpha
BACKWARDS = (-0.888, 0.460)  # horizontal direction in which the ground curves up, measured on the released images
CURVE_START, CURVE_RADIUS = 8.8, 7.0  # distance from the origin at which the curve begins, and its radius
MAX_REFLECTED = 4.0  # cap on reflected radiance: four samples are too few for the glints of metal in metal


@dataclass(frozen=True, eq=False)
class SurfaceSamples:
    """The surface at R samples around each of M points."""

    albedo: Tensor  # [3, R, M]
    specular: Tensor  # [3, R, M]
    alpha: Tensor  # [R, M] of GGX
    normal: Tensor  # [3, R, M] with bumps
    opacity: Tensor  # [R, M]


@dataclass(frozen=True, eq=False)
class ClevrtexShader:
    """Shade the objects of a stage and its ground by their materials."""

    stage: Stage
    material: Tensor  # [instances] int64, an index into MATERIALS
    floor: Tensor  # [B] int64
    size: int  # of the image, in pixels
    light: Lighting = CLEVRTEX_LIGHT

    def ground_hits(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """Where camera rays towards points [3, B, P] of a flat ground hit the curved one, and its normal there."""
        camera = self.stage.camera[..., None].expand_as(point)
        distance, normal = intersect_ground(camera, point - camera)
        return torch.where(torch.isfinite(distance), camera + (point - camera) * distance, point), normal

    def ground(self, point: Tensor, normal: Tensor, share: Tensor) -> Tensor:
        """Radiance of the ground at points [3, B, P], where its share [B, P] of a pixel is not 0. [3, B, P]"""
        stage = self.stage
        lit, received = light_visibility(stage, self.light, None, point), self._ground_irradiance(point)
        rows = (share.reshape(-1) > 1e-3).nonzero()[:, 0]
        scene = rows.div(point.shape[2], rounding_mode="floor")
        hit, ground_normal, lit, received = (
            vector.flatten(1).index_select(1, rows) for vector in (point, normal, lit, received)
        )
        view = unit(stage.camera.index_select(1, scene) - hit)
        around = footprint(stage, scene, hit, ground_normal, view, self.size, GROUND_GRID)
        samples = self._ground_surface(scene, around, ground_normal)
        radiance = self._radiance(samples, scene, hit, ground_normal, view, lit, received)
        glossy = (self.floor[scene] == METAL).nonzero()[:, 0]
        if len(glossy):
            parts = (vector.index_select(1, glossy) for vector in (hit, ground_normal, view))
            radiance[:, glossy] += self._reflection(samples, glossy, scene[glossy], None, *parts)
        image = torch.zeros_like(point).flatten(1)
        image[:, rows] = radiance
        return image.reshape(point.shape)

    def objects(self, fragments: Fragments) -> Tensor:
        """Radiance of the fragments of objects. [3, M]"""
        stage, instance, scene, item = self.stage, fragments.instance, fragments.scene, fragments.item
        hit, normal, view, scale = fragments.point, fragments.normal, fragments.view, fragments.weight.sqrt()
        point = hit + normal * (stage.size[instance] * RAY_OFFSET)
        lit = light_visibility(stage, self.light, scene, point, item)
        around = footprint(stage, scene, hit, normal, view, self.size, OBJECT_GRID, scale)
        samples = self._object_surface(instance, around, normal)
        radiance = self._radiance(samples, scene, point, normal, view, lit)
        material = self.material[instance]
        rows = (material == METAL).nonzero()[:, 0]
        if len(rows):
            parts = (vector.index_select(1, rows) for vector in (point, normal, view))
            radiance[:, rows] += self._reflection(samples, rows, scene[rows], item[rows], *parts)
        rows = (material == CHAINMAIL).nonzero()[:, 0]
        if len(rows):
            holes = 1.0 - samples.opacity[:, rows].mean(0)
            radiance[:, rows] += holes * self._through_holes(instance[rows], hit[:, rows], view[:, rows])
        return radiance

    to_display = staticmethod(filmic)  # from linear radiance to display values

    def _object_surface(self, instance: Tensor, around: Tensor, normal: Tensor) -> SurfaceSamples:
        """The surface of objects at samples [3, R, M]."""
        stage, count = self.stage, around.shape[1]
        if is_compiled(stage.device):
            from alebrije.render import cpu_tracer

            uv, along = cpu_tracer.object_coordinates(stage, instance, around, normal)
            return _surface_samples(self.material[instance].repeat(count), uv, normal, along, count)
        owner, point = instance.repeat(count), around.reshape(3, -1)
        local = stage.point_to_object(owner, point)
        local_normal = unit(stage.direction_to_object(instance, normal)).repeat(1, count)
        uv, along = point.new_empty(len(owner), 2), torch.empty_like(point)
        for name, rows in stage.by_shape(owner):
            chosen = (vector.index_select(1, rows).T for vector in (local, local_normal))
            uv[rows], tangent, _ = texture_coordinates(shape_named(name).name, *chosen)
            along[:, rows] = tangent.T
        return _surface_samples(self.material[owner], uv, normal, stage.direction_to_world(owner, along), count)

    def _ground_surface(self, scene: Tensor, around: Tensor, normal: Tensor) -> SurfaceSamples:
        """The surface of the ground at samples [3, R, M]."""
        count = around.shape[1]
        if is_compiled(self.stage.device):
            from alebrije.render import cpu_tracer

            uv, along = cpu_tracer.ground_coordinates(around, normal)
            return _surface_samples(self.floor[scene].repeat(count), uv, normal, along, count)
        uv, along, _ = texture_coordinates("ground", around.reshape(3, -1).T, normal.repeat(1, count).T)
        return _surface_samples(self.floor[scene].repeat(count), uv, normal, along.T, count)

    def _radiance(
        self,
        samples: SurfaceSamples,
        scene: Tensor,
        point: Tensor,
        normal: Tensor,
        view: Tensor,
        lit: Tensor,
        received: Tensor | None = None,
    ) -> Tensor:
        """Radiance under the lamps and indirect light, from the ground if it is not `received` [3, M]. [3, M]"""
        if received is None:
            mean = self._mean_albedo(scene)
            received, gloss = ground_light_and_gloss(self.light, self.stage.lamps, scene, point, normal, view, mean)
        else:
            gloss = torch.zeros_like(received)
        parts = (samples.albedo, samples.specular, samples.alpha, samples.normal, samples.opacity)
        given = (self.light, self.stage.lamps, scene, point, normal, view, lit, received, gloss, *parts)
        if is_compiled(self.stage.device):
            from alebrije.render import cpu_tracer

            return cpu_tracer.sample_radiance(*given)
        return sample_radiance(*given)

    def _mean_albedo(self, scene: Tensor) -> Tensor:
        """Mean albedo of the ground. [3, M]"""
        return self.stage.camera.new_tensor(MEAN_ALBEDO).T.index_select(1, self.floor[scene])

    def _ground_irradiance(self, point: Tensor) -> Tensor:
        """Irradiance on the ground [3, B, P] from the objects and from its curved part. [3, B, P]"""
        table = point.new_tensor(MEAN_ALBEDO).T
        total, hidden = light_from_objects(self.stage, self.light, point, table.index_select(1, self.material))
        dome = AMBIENT * (1.0 - hidden)
        return total + table.index_select(1, self.floor)[..., None] * dome

    def _reflection(
        self,
        samples: SurfaceSamples,
        rows: Tensor,
        scene: Tensor,
        own: Tensor | None,
        point: Tensor,
        normal: Tensor,
        view: Tensor,
    ) -> Tensor:
        """Radiance that glossy points reflect, blurred by their roughness. [3, M]"""
        alpha = samples.alpha[:, rows].mean(0)
        directions = reflection_directions(normal, view, alpha).reshape(3, -1)
        count = len(FACET_TILTS)
        item = None if own is None else own.repeat(count)
        reflected = self._secondary_radiance(scene.repeat(count), item, point.repeat(1, count), directions)
        grazing = (1.0 - dot(normal, view).clamp(0.0, 1.0)) ** 5
        base = samples.specular[:, :, rows].mean(1)
        strength = base + (1.0 - base) * (grazing * (1.0 - alpha.sqrt()))
        return reflected.clamp_max(MAX_REFLECTED).reshape(3, count, -1).mean(1) * strength

    def _through_holes(self, instance: Tensor, point: Tensor, view: Tensor) -> Tensor:
        """Radiance through the holes of chainmail: of its far wall, and of what lies behind that. [3, M]"""
        stage, scene, item = self.stage, self.stage.scene_of(instance), instance % self.stage.objects
        beyond = 2.5 * stage.reach[instance]
        back = intersect(stage, instance, point - view * beyond, view)
        depth = torch.where(torch.isfinite(back), beyond - back, torch.zeros_like(back)).clamp_min(0.0)
        far_wall = point - view * depth
        normal = -surface_normals(stage, instance, far_wall)
        around = footprint(stage, scene, far_wall, normal, view, self.size, OBJECT_GRID)
        samples = self._object_surface(instance, around, normal)
        # light reaches the inside through holes or by bouncing off the wires
        lit = light_visibility(stage, self.light, scene, far_wall, item, HARD) * (1.0 - 0.5 * stage.opacity[instance])
        radiance = self._radiance(samples, scene, far_wall, normal, view, lit)
        past = self._secondary_radiance(scene, item, far_wall - view * (stage.size[instance] * 2 * RAY_OFFSET), -view)
        return radiance + past * (1.0 - samples.opacity.mean(0))

    def _secondary_radiance(self, scene: Tensor, own: Tensor | None, point: Tensor, direction: Tensor) -> Tensor:
        """Radiance along secondary rays: of objects, the ground, or the black sky. [3, M]"""
        stage = self.stage
        radiance = torch.zeros_like(point)
        ground, ground_normal = intersect_ground(point, direction)
        distance, instance = nearest_hit(stage, scene, point + direction * 1e-2, direction, own)
        rows = (torch.isfinite(ground) & (ground < distance)).nonzero()[:, 0]
        if len(rows):
            ray, own_scene, normal = direction[:, rows], scene[rows], ground_normal[:, rows]
            hit = point[:, rows] + ray * ground[rows]
            lit = light_visibility(stage, self.light, own_scene, hit, None, HARD)
            samples = self._ground_surface(own_scene, hit[:, None], normal)
            dome = self._mean_albedo(own_scene) * AMBIENT
            radiance[:, rows] = self._radiance(samples, own_scene, hit, normal, -ray, lit, dome)
        rows = (distance < ground).nonzero()[:, 0]
        if len(rows):
            ray, own_scene, instance = direction[:, rows], scene[rows], instance[rows]
            hit = point[:, rows] + ray * distance[rows]
            normal = surface_normals(stage, instance, hit)
            samples = self._object_surface(instance, hit[:, None], normal)
            hit = hit + normal * (stage.size[instance] * RAY_OFFSET)
            lit = light_visibility(stage, self.light, own_scene, hit, instance % stage.objects, HARD)
            radiance[:, rows] = self._radiance(samples, own_scene, hit, normal, -ray, lit)
        return radiance


def _surface_samples(material: Tensor, uv: Tensor, normal: Tensor, along: Tensor, count: int) -> SurfaceSamples:
    if is_compiled(uv.device):
        from alebrije.render import cpu_tracer

        found = cpu_tracer.surface_samples(material, uv, normal, along)
        if found is not None:
            albedo, specular, bumped = (part.reshape(3, count, -1) for part in found[:3])
            alpha, opacity = (part.reshape(count, -1) for part in found[3:])
            return SurfaceSamples(albedo, specular, alpha, bumped, opacity)
    straight = normal.repeat(1, count)
    across = cross(straight, along)
    flat = surface(material, uv, straight.T, along.T, across.T)
    albedo, specular, bumped = (part.T.reshape(3, count, -1) for part in (flat.albedo, flat.specular, flat.normal))
    alpha, opacity = flat.roughness.square().reshape(count, -1), flat.opacity.reshape(count, -1)
    return SurfaceSamples(albedo, specular, alpha, bumped, opacity)


def footprint(
    stage: Stage,
    scene: Tensor,
    point: Tensor,
    normal: Tensor,
    view: Tensor,
    size: int,
    grid: int,
    scale: Tensor | None = None,
) -> Tensor:
    """The footprint of a pixel, or of a part of it: a grid of samples around each surface point [3, M]. [3, R, M]"""
    depth = dot(point - stage.camera.index_select(1, scene), stage.forward.index_select(1, scene))
    pixel = depth * (2.0 * HALF_WIDTH / size)
    if scale is not None:
        pixel = pixel * scale
    facing = dot(normal, view).clamp_min(0.12)
    sides = []
    for axis in (stage.right, stage.up):
        step = axis.index_select(1, scene) * pixel
        sides.append(step - view * (dot(step, normal) / facing))
    return torch.stack([point + sides[0] * (x - 0.5) + sides[1] * (y - 0.5) for x, y in subpixel_offsets(grid)], 1)


@fused
def intersect_ground(point: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Distance along rays [3, ...] to the ground, [...], infinite if they miss, and the normal there, [3, ...]."""
    behind = point[0] * BACKWARDS[0] + point[1] * BACKWARDS[1] - CURVE_START
    backwards = direction[0] * BACKWARDS[0] + direction[1] * BACKWARDS[1]
    height, up = point[2], direction[2]
    level = height / (-up).clamp_min(1e-6)
    on_flat = (up < -1e-6) & (behind + backwards * level <= 0.0)
    a = (backwards.square() + up.square()).clamp_min(1e-9)
    b = behind * backwards + (height - CURVE_RADIUS) * up
    root = b * b - a * (behind.square() + (height - CURVE_RADIUS).square() - CURVE_RADIUS * CURVE_RADIUS)
    curved = (root.clamp_min(0.0).sqrt() - b) / a
    beyond, top = behind + backwards * curved, height + up * curved
    on_curve = (root >= 0.0) & (beyond >= 0.0) & (top <= CURVE_RADIUS) & (curved > 0.0)
    distance = torch.where(on_flat, level, curved.masked_fill(~on_curve, math.inf))
    lean = torch.where(on_curve & ~on_flat, beyond / CURVE_RADIUS, torch.zeros_like(beyond)).clamp(0.0, 1.0)
    return distance, torch.stack([-lean * BACKWARDS[0], -lean * BACKWARDS[1], (1.0 - lean.square()).sqrt()])


@fused
def ground_light_and_gloss(
    light: Lighting, lamps: Tensor, scene: Tensor, point: Tensor, normal: Tensor, view: Tensor, albedo: Tensor
) -> tuple[Tensor, Tensor]:
    """Irradiance on surfaces from the ground and its curved part, and the radiance they reflect of it. [3, M] each"""
    height = point[2].clamp_min(0.05)
    beside = torch.stack([point[0] + normal[0] * height, point[1] + normal[1] * height, torch.zeros_like(height)])
    dome = albedo * AMBIENT
    below = (irradiance(light, lamps, scene, beside, None, None) + dome) * albedo
    share = (1.0 - normal[2]) / 2
    # the ground fills a rough reflection that points down, and none of one that points up
    filled = (0.5 - mirrored(view, normal)[2] / 0.7).clamp(0.0, 1.0)
    return below * (share * 0.8) + dome * (1.0 - share), below * (filled * (0.8 / math.pi))


@fused
def sample_radiance(
    light: Lighting,
    lamps: Tensor,
    scene: Tensor,
    point: Tensor,
    normal: Tensor,
    view: Tensor,
    lit: Tensor,
    received: Tensor,
    gloss: Tensor,
    albedo: Tensor,
    specular: Tensor,
    alpha: Tensor,
    bumped: Tensor,
    opacity: Tensor,
) -> Tensor:
    """Radiance of a diffuse and a glossy lobe under the lamps, the mean over R samples. [3, M]"""
    nv = dot(bumped, view[:, None]).clamp(0.05, 1.0)
    body, sheen = torch.zeros_like(albedo), torch.zeros_like(albedo)
    smooth = 1.0 - alpha.sqrt()
    for to_light, incident, tint in incident_light(light, lamps, scene, point, lit):
        # bumps must not catch light from behind the surface
        incident = incident * (8.0 * dot(to_light, normal)).clamp(0.0, 1.0)
        nl = dot(bumped, to_light[:, None]).clamp_min(0.0)
        half = unit(to_light + view)
        nh = dot(bumped, half[:, None]).clamp(1e-3, 1.0)
        grazing = (1.0 - dot(half, view).clamp(0.0, 1.0)) ** 5
        wide = (1.0 - nh * nh).clamp_min(0.0).sqrt()
        lobe = ggx(wide, torch.zeros_like(wide), nh, nl, nv, (alpha, alpha)) * incident
        body = body + tinted(nl * incident, tint)
        sheen = sheen + (specular + (1.0 - specular) * (grazing * smooth)) * tinted(lobe, tint)
    diffuse = (body + received[:, None]) * (albedo / math.pi)
    return ((diffuse + sheen + specular * gloss[:, None]) * opacity).mean(1)


@fused
def reflection_directions(normal: Tensor, view: Tensor, alpha: Tensor) -> Tensor:
    """Directions of sampled reflections on rough surfaces. [3, samples, M]"""
    along = unit(torch.stack([normal[1] + 1e-4, 1e-4 - normal[0], torch.zeros_like(alpha)]))
    across = cross(normal, along)
    directions = [mirrored(view, unit(normal + (along * a + across * b) * alpha)) for a, b in FACET_TILTS]
    return torch.stack(directions, 1)
