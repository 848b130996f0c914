"""CLEVRTex's look: textured objects on a textured ground that bends up behind them, under strong lamps and Filmic."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.render.bounce import from_objects
from alebrije.render.brdf import ggx
from alebrije.render.fragments import Fragments, offsets
from alebrije.render.fusing import fused
from alebrije.render.library import shape_named
from alebrije.render.light import CLEVRTEX_LIGHT, HARD, Lighting, beams, irradiance, shadowed, tinted
from alebrije.render.materials import MATERIALS, surface
from alebrije.render.rays import meet, nearest, normals
from alebrije.render.stage import HALF_WIDTH, Stage
from alebrije.render.unwrapping import texture_coordinates
from alebrije.render.vectors import cross, dot, mirrored, unit
from alebrije.render.view import filmic

# How far each material pushes the surface of an object outwards, measured on the released masks.
SWELL = (0.0475, 0.02, 0.0125, 0.0025, 0.0, 0.0, 0.0525, 0.0425)
# Which share of the light an object stops: mail has holes.
SOLID = (1.0, 1.0, 0.45, 1.0, 1.0, 1.0, 1.0, 1.0)
# What each material reflects on average, for light that bounces.
MEAN = (
    (0.400, 0.187, 0.151),
    (0.430, 0.450, 0.483),
    (0.055, 0.040, 0.035),
    (0.067, 0.097, 0.169),
    (0.043, 0.122, 0.100),
    (0.060, 0.050, 0.045),
    (0.272, 0.079, 0.036),
    (0.465, 0.210, 0.060),
)
MAIL, METAL = MATERIALS.index("copper chainmail"), MATERIALS.index("spotty metal")
AMBIENT = 0.4  # light that the ground itself sends back over its bend, per albedo
ROUND, FLAT = 3, 2  # a pixel's texture is read at three by three points on objects and at two by two on the ground
LOOKS = ((0.5, 0.2), (-0.2, 0.5), (-0.5, -0.2), (0.2, -0.5))  # tilts of a rough mirror's facets, in units of alpha
AWAY = (-0.888, 0.460)  # seen from the origin the ground bends up in this direction, measured on the released pictures
BEND, RADIUS = 8.8, 7.0  # where the bend begins, and how wide it is
BRIGHTEST = 4.0  # of what is mirrored: four looks are too few for the glints of a metal seen in a metal
CLEAR = 1.5e-2  # how far a ray starts from its surface, in half-sizes, so as not to meet it again


@dataclass(frozen=True, eq=False)
class Skin:
    """How M points answer to light, each at R points around it."""

    albedo: Tensor  # [3, R, M]
    specular: Tensor  # [3, R, M]
    alpha: Tensor  # [R, M] of GGX
    normal: Tensor  # [3, R, M] with bumps
    opacity: Tensor  # [R, M]


@dataclass(frozen=True, eq=False)
class ClevrtexLook:
    """Materials of the objects of a stage, and of its ground."""

    stage: Stage
    material: Tensor  # [places] int64, along MATERIALS
    floor: Tensor  # [B] int64
    size: int  # of the image, in pixels
    light: Lighting = CLEVRTEX_LIGHT

    def floor_points(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """Where rays from the camera to points [3, B, P] on level ground meet the real one, and its normal there."""
        camera = self.stage.camera[..., None].expand_as(point)
        far, normal = ground_ahead(camera, point - camera)
        return torch.where(torch.isfinite(far), camera + (point - camera) * far, point), normal

    def ground(self, point: Tensor, normal: Tensor, share: Tensor) -> Tensor:
        """Radiance of the ground at points [3, B, P], wherever a share [B, P] of it shows. [3, B, P]"""
        stage = self.stage
        lit, received = shadowed(stage, self.light, None, point), self._received(point)
        rows = (share.reshape(-1) > 1e-3).nonzero()[:, 0]
        scene = rows.div(point.shape[2], rounding_mode="floor")
        spot, upright, lit, received = (
            each.flatten(1).index_select(1, rows) for each in (point, normal, lit, received)
        )
        view = unit(stage.camera.index_select(1, scene) - spot)
        skin = self._paved(scene, footprint(stage, scene, spot, upright, view, self.size, FLAT), upright)
        shade = self._lit(skin, scene, spot, upright, view, lit, received)
        glossy = (self.floor[scene] == METAL).nonzero()[:, 0]
        if len(glossy):
            parts = (each.index_select(1, glossy) for each in (spot, upright, view))
            shade[:, glossy] += self._mirror(skin, glossy, scene[glossy], None, *parts)
        image = torch.zeros_like(point).flatten(1)
        image[:, rows] = shade
        return image.reshape(point.shape)

    def objects(self, seen: Fragments) -> Tensor:
        """Radiance of the fragments of objects. [3, M]"""
        stage = self.stage
        point = seen.point + seen.normal * (stage.size[seen.place] * CLEAR)
        lit = shadowed(stage, self.light, seen.scene, point, seen.item)
        around = footprint(stage, seen.scene, seen.point, seen.normal, seen.view, self.size, ROUND, seen.weight.sqrt())
        skin = self._worn(seen.place, around, seen.normal)
        shade = self._lit(skin, seen.scene, point, seen.normal, seen.view, lit)
        material = self.material[seen.place]
        rows = (material == METAL).nonzero()[:, 0]
        if len(rows):
            parts = (each.index_select(1, rows) for each in (point, seen.normal, seen.view))
            shade[:, rows] += self._mirror(skin, rows, seen.scene[rows], seen.item[rows], *parts)
        rows = (material == MAIL).nonzero()[:, 0]
        if len(rows):
            holes = 1.0 - skin.opacity[:, rows].mean(0)
            shade[:, rows] += holes * self._through(seen.place[rows], seen.point[:, rows], seen.view[:, rows])
        return shade

    def develop(self, radiance: Tensor) -> Tensor:
        """Display values of linear light."""
        return filmic(radiance)

    def _worn(self, place: Tensor, around: Tensor, normal: Tensor) -> Skin:
        """The material of objects at points [3, R, M]."""
        stage, count = self.stage, around.shape[1]
        owner, point = place.repeat(count), around.reshape(3, -1)
        (local,) = stage.to_object(owner, point)
        upright = unit(stage.to_object_way(place, normal)).repeat(1, count)
        uv, along = point.new_empty(len(owner), 2), torch.empty_like(point)
        for name, rows in stage.by_shape(owner):
            chosen = (each.index_select(1, rows).T for each in (local, upright))
            uv[rows], tangent, _ = texture_coordinates(shape_named(name).name, *chosen)
            along[:, rows] = tangent.T
        return _skin(self.material[owner], uv, normal, stage.to_world(owner, along), count)

    def _paved(self, scene: Tensor, around: Tensor, normal: Tensor) -> Skin:
        """The material of the ground at points [3, R, M]."""
        count = around.shape[1]
        uv, along, _ = texture_coordinates("ground", around.reshape(3, -1).T, normal.repeat(1, count).T)
        return _skin(self.floor[scene].repeat(count), uv, normal, along.T, count)

    def _lit(
        self,
        skin: Skin,
        scene: Tensor,
        point: Tensor,
        normal: Tensor,
        view: Tensor,
        lit: Tensor,
        received: Tensor | None = None,
    ) -> Tensor:
        """Light from lamps and from the ground, or another that is `received` [3, M], sent to the eye. [3, M]"""
        if received is None:
            mean = self._mean(scene)
            received, gloss = from_ground(self.light, self.stage.lamps, scene, point, normal, view, mean)
        else:
            gloss = torch.zeros_like(received)
        parts = (skin.albedo, skin.specular, skin.alpha, skin.normal, skin.opacity)
        return shine(self.light, self.stage.lamps, scene, point, normal, view, lit, received, gloss, *parts)

    def _mean(self, scene: Tensor) -> Tensor:
        """What the ground reflects on average. [3, M]"""
        return self.stage.camera.new_tensor(MEAN).T.index_select(1, self.floor[scene])

    def _received(self, point: Tensor) -> Tensor:
        """Light that the ground [3, B, P] gets from the objects and from the bend behind. [3, B, P]"""
        table = point.new_tensor(MEAN).T
        total, hidden = from_objects(self.stage, self.light, point, table.index_select(1, self.material))
        dome = AMBIENT * (1.0 - hidden)
        return total + table.index_select(1, self.floor)[..., None] * dome

    def _mirror(
        self,
        skin: Skin,
        rows: Tensor,
        scene: Tensor,
        own: Tensor | None,
        point: Tensor,
        normal: Tensor,
        view: Tensor,
    ) -> Tensor:
        """What glossy points mirror, blurred by their roughness. [3, M]"""
        alpha = skin.alpha[:, rows].mean(0)
        directions = glances(normal, view, alpha).reshape(3, -1)
        count = len(LOOKS)
        item = None if own is None else own.repeat(count)
        seen = self._surroundings(scene.repeat(count), item, point.repeat(1, count), directions)
        grazing = (1.0 - dot(normal, view).clamp(0.0, 1.0)) ** 5
        base = skin.specular[:, :, rows].mean(1)
        strength = base + (1.0 - base) * (grazing * (1.0 - alpha.sqrt()))
        return seen.clamp_max(BRIGHTEST).reshape(3, count, -1).mean(1) * strength

    def _through(self, place: Tensor, point: Tensor, view: Tensor) -> Tensor:
        """What shows through the holes of mail: its far wall, and past that what lies behind. [3, M]"""
        stage, scene, item = self.stage, self.stage.scene_of(place), place % self.stage.objects
        beyond = 2.5 * stage.reach[place]
        back = meet(stage, place, point - view * beyond, view)
        depth = torch.where(torch.isfinite(back), beyond - back, torch.zeros_like(back)).clamp_min(0.0)
        wall = point - view * depth
        normal = -normals(stage, place, wall)
        skin = self._worn(place, footprint(stage, scene, wall, normal, view, self.size, ROUND), normal)
        # what lights the inside has come through holes, or bounced off the wires
        lit = shadowed(stage, self.light, scene, wall, item, HARD) * (1.0 - 0.5 * stage.solid[place])
        shade = self._lit(skin, scene, wall, normal, view, lit)
        past = self._surroundings(scene, item, wall - view * (stage.size[place] * 2 * CLEAR), -view)
        return shade + past * (1.0 - skin.opacity.mean(0))

    def _surroundings(self, scene: Tensor, own: Tensor | None, point: Tensor, direction: Tensor) -> Tensor:
        """What is seen from points in given directions: objects, the ground, or the dark sky. [3, M]"""
        stage = self.stage
        radiance = torch.zeros_like(point)
        away, bend = ground_ahead(point, direction)
        far, place = nearest(stage, scene, point + direction * 1e-2, direction, own)
        rows = (torch.isfinite(away) & (away < far)).nonzero()[:, 0]
        if len(rows):
            way, inside, normal = direction[:, rows], scene[rows], bend[:, rows]
            spot = point[:, rows] + way * away[rows]
            lit = shadowed(stage, self.light, inside, spot, None, HARD)
            skin = self._paved(inside, spot[:, None], normal)
            dome = self._mean(inside) * AMBIENT
            radiance[:, rows] = self._lit(skin, inside, spot, normal, -way, lit, dome)
        rows = (far < away).nonzero()[:, 0]
        if len(rows):
            way, inside, place = direction[:, rows], scene[rows], place[rows]
            spot = point[:, rows] + way * far[rows]
            normal = normals(stage, place, spot)
            skin = self._worn(place, spot[:, None], normal)
            spot = spot + normal * (stage.size[place] * CLEAR)
            lit = shadowed(stage, self.light, inside, spot, place % stage.objects, HARD)
            radiance[:, rows] = self._lit(skin, inside, spot, normal, -way, lit)
        return radiance


def _skin(material: Tensor, uv: Tensor, normal: Tensor, along: Tensor, count: int) -> Skin:
    straight = normal.repeat(1, count)
    across = cross(straight, along)
    found = surface(material, uv, straight.T, straight.T, along.T, across.T)
    albedo, specular, bumped = (part.T.reshape(3, count, -1) for part in (found.albedo, found.specular, found.normal))
    alpha, opacity = found.roughness.square().reshape(count, -1), found.opacity.reshape(count, -1)
    return Skin(albedo, specular, alpha, bumped, opacity)


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
    """A grid of points around each point [3, M] of a surface that the same pixel sees, or a part of it. [3, R, M]"""
    depth = dot(point - stage.camera.index_select(1, scene), stage.forward.index_select(1, scene))
    pixel = depth * (2.0 * HALF_WIDTH / size)
    if scale is not None:
        pixel = pixel * scale
    facing = dot(normal, view).clamp_min(0.12)
    sides = []
    for axis in (stage.right, stage.up):
        step = axis.index_select(1, scene) * pixel
        sides.append(step - view * (dot(step, normal) / facing))
    return torch.stack([point + sides[0] * (x - 0.5) + sides[1] * (y - 0.5) for x, y in offsets(grid)], 1)


@fused
def ground_ahead(point: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """How far along rays [3, ...] the ground is met, [...], infinite if it is not, and its normal there, [3, ...]."""
    behind = point[0] * AWAY[0] + point[1] * AWAY[1] - BEND
    backwards = direction[0] * AWAY[0] + direction[1] * AWAY[1]
    height, up = point[2], direction[2]
    level = height / (-up).clamp_min(1e-6)
    flat = (up < -1e-6) & (behind + backwards * level <= 0.0)
    a = (backwards.square() + up.square()).clamp_min(1e-9)
    b = behind * backwards + (height - RADIUS) * up
    root = b * b - a * (behind.square() + (height - RADIUS).square() - RADIUS * RADIUS)
    bent = (root.clamp_min(0.0).sqrt() - b) / a
    beyond, top = behind + backwards * bent, height + up * bent
    met = (root >= 0.0) & (beyond >= 0.0) & (top <= RADIUS) & (bent > 0.0)
    far = torch.where(flat, level, bent.masked_fill(~met, math.inf))
    lean = torch.where(met & ~flat, beyond / RADIUS, torch.zeros_like(beyond)).clamp(0.0, 1.0)
    return far, torch.stack([-lean * AWAY[0], -lean * AWAY[1], (1.0 - lean.square()).sqrt()])


@fused
def from_ground(
    light: Lighting, lamps: Tensor, scene: Tensor, point: Tensor, normal: Tensor, view: Tensor, albedo: Tensor
) -> tuple[Tensor, Tensor]:
    """Light that surfaces receive from the ground and the bend behind, and what they mirror of it. [3, M] each"""
    height = point[2].clamp_min(0.05)
    beside = torch.stack([point[0] + normal[0] * height, point[1] + normal[1] * height, torch.zeros_like(height)])
    dome = albedo * AMBIENT
    below = (irradiance(light, lamps, scene, beside, None, None) + dome) * albedo
    share = (1.0 - normal[2]) / 2
    # a rough mirror is filled by the ground when it looks down and empty when it looks up
    filled = (0.5 - mirrored(view, normal)[2] / 0.7).clamp(0.0, 1.0)
    return below * (share * 0.8) + dome * (1.0 - share), below * (filled * (0.8 / math.pi))


@fused
def shine(
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
    """A diffuse and a glossy part under the lamps, the mean over the R points of a skin. [3, M]"""
    nv = dot(bumped, view[:, None]).clamp(0.05, 1.0)
    body, sheen = torch.zeros_like(albedo), torch.zeros_like(albedo)
    smooth = 1.0 - alpha.sqrt()
    for toward, falling, tint in beams(light, lamps, scene, point, lit):
        # bumps may not catch light from behind the surface
        falling = falling * (8.0 * dot(toward, normal)).clamp(0.0, 1.0)
        nl = dot(bumped, toward[:, None]).clamp_min(0.0)
        half = unit(toward + view)
        nh = dot(bumped, half[:, None]).clamp(1e-3, 1.0)
        grazing = (1.0 - dot(half, view).clamp(0.0, 1.0)) ** 5
        wide = (1.0 - nh * nh).clamp_min(0.0).sqrt()
        lobe = ggx(wide, torch.zeros_like(wide), nh, nl, nv, (alpha, alpha)) * falling
        body = body + tinted(nl * falling, tint)
        sheen = sheen + (specular + (1.0 - specular) * (grazing * smooth)) * tinted(lobe, tint)
    flat = (body + received[:, None]) * (albedo / math.pi)
    return ((flat + sheen + specular * gloss[:, None]) * opacity).mean(1)


@fused
def glances(normal: Tensor, view: Tensor, alpha: Tensor) -> Tensor:
    """Directions into which rough mirrors look. [3, looks, M]"""
    side = torch.stack([normal[1] + 1e-4, 1e-4 - normal[0], torch.zeros_like(alpha)])
    along = unit(side)
    across = cross(normal, along)
    looks = [mirrored(view, unit(normal + (along * a + across * b) * alpha)) for a, b in LOOKS]
    return torch.stack(looks, 1)
