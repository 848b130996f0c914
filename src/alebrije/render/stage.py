"""The stage: scenes as the ray tracer needs them, in float32 on one device, coordinates first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.render.library import shape_named
from alebrije.render.vectors import length
from alebrije.scenes import Scenes

HALF_WIDTH = 16 / 35  # a 35 mm lens on a 32 mm sensor: the tangent of half the field of view


@dataclass(frozen=True, eq=False)
class Stage:
    """B scenes of N solid objects: the camera and its axes, the lamps, and the pose and shape of every object.

    The objects of all scenes form one list of B * N instances, scene first.
    """

    scenes: int
    objects: int
    camera: Tensor  # [3, B]
    right: Tensor  # [3, B]
    up: Tensor  # [3, B]
    forward: Tensor  # [3, B]
    lamps: Tensor  # [3, 3, B]: key, back, fill; coordinate; scene
    centre: Tensor  # [3, instances]
    size: Tensor  # [instances] half-size
    cosine: Tensor  # [instances] of the rotation about z
    sine: Tensor  # [instances]
    kind: Tensor  # [instances] int64, an index into `shapes`; -1 for an absent object
    reach: Tensor  # [instances] radius of the bounding sphere; 0 for an absent object
    displacement: Tensor | None  # [instances] outward displacement of the surface by the material, in unit coordinates
    opacity: Tensor  # [instances] share of the light that the object blocks
    convex: Tensor  # [instances] bool
    shapes: tuple[str, ...]

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.camera.device

    def scene_of(self, instance: Tensor) -> Tensor:
        """The scene index of each instance."""
        return instance.div(self.objects, rounding_mode="floor")

    def by_shape(self, instance: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield the name of each shape among some instances, and the rows that have it."""
        kind = self.kind[instance]
        for index, name in enumerate(self.shapes):
            rows = (kind == index).nonzero()[:, 0]
            if len(rows):
                yield name, rows

    def point_to_object(self, instance: Tensor, point: Tensor) -> Tensor:
        """Points [3, M] in the unit coordinates of their instances."""
        return self.direction_to_object(instance, point - self.centre.index_select(1, instance))

    def direction_to_world(self, instance: Tensor, direction: Tensor) -> Tensor:
        """Directions [3, M] from unit coordinates to world coordinates."""
        cosine, sine = self.cosine[instance], self.sine[instance]
        x, y, z = direction
        return torch.stack([x * cosine - y * sine, x * sine + y * cosine, z])

    def direction_to_object(self, instance: Tensor, direction: Tensor) -> Tensor:
        """Directions [3, M] from world to unit coordinates; distances along a ray keep their world value."""
        size, cosine, sine = self.size[instance], self.cosine[instance], self.sine[instance]
        x, y, z = direction / size
        return torch.stack([x * cosine + y * sine, y * cosine - x * sine, z])


def camera_axes(camera: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Right, up and forward axes of cameras [3, B] that look at the origin with z up. [3, B] each"""
    forward = -camera / length(camera)
    x, y, z = forward
    flat = (x * x + y * y).sqrt()
    # a camera that looks straight down has no natural up axis: use y
    tilted = flat > 1e-6
    a, b = torch.where(tilted, x / flat, torch.zeros_like(x)), torch.where(tilted, y / flat, torch.ones_like(y))
    right = torch.stack([b, -a, torch.zeros_like(x)])
    up = torch.stack([-a * z, -b * z, flat])
    return right, up, forward


def build_stage(scenes: Scenes, displacement: Tensor | None = None, opacity: Tensor | None = None) -> Stage:
    """Build the stage of scenes with the factors `shape` and `size`. `displacement` and `opacity` are [B, N]."""
    if scenes.camera is None or scenes.lamps is None:
        raise InputError(f"scenes of {scenes.vocabulary.name} need a camera and lamps to be rendered")
    # directions and angles are computed in float64, so that images do not differ between machines
    camera, rotation = scenes.camera.T, scenes.rotation.reshape(-1)
    right, up, forward = camera_axes(camera)
    kind, present = scenes.factor("shape").reshape(-1), scenes.present.reshape(-1)
    size = scenes.codes("size").reshape(-1)
    names = tuple(scenes.vocabulary["shape"].codes)
    shapes = [shape_named(name) for name in names]
    reach = torch.tensor([shape.reach for shape in shapes], dtype=size.dtype, device=size.device)[kind] * size
    return Stage(
        scenes=len(scenes),
        objects=scenes.objects,
        camera=camera.float().contiguous(),
        right=right.float(),
        up=up.float(),
        forward=forward.float(),
        lamps=scenes.lamps.permute(1, 2, 0).float().contiguous(),
        centre=scenes.position.reshape(-1, 3).T.float().contiguous(),
        size=size.float(),
        cosine=rotation.cos().float(),
        sine=rotation.sin().float(),
        kind=torch.where(present, kind, torch.full_like(kind, -1)),
        reach=torch.where(present, reach, torch.zeros_like(reach)).float(),
        displacement=None if displacement is None else displacement.reshape(-1).float(),
        opacity=torch.ones_like(size).float() if opacity is None else opacity.reshape(-1).float(),
        convex=torch.tensor([shape.convex for shape in shapes], device=size.device)[kind],
        shapes=names,
    )
