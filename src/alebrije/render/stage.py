"""The stage: scenes as the ray tracer uses them, in single precision on one device, coordinates first."""

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
    """B scenes of N solid objects: where the camera is and how it looks, where the objects stand and how they turn.

    The objects of all scenes are one list; `places` is B * N, scene first.
    """

    scenes: int
    objects: int
    camera: Tensor  # [3, B]
    right: Tensor  # [3, B]
    up: Tensor  # [3, B]
    forward: Tensor  # [3, B]
    lamps: Tensor  # [3, 3, B]: key, back, fill; coordinate; scene
    centre: Tensor  # [3, places]
    size: Tensor  # [places] half-size
    cosine: Tensor  # [places] of the rotation about the vertical
    sine: Tensor  # [places]
    kind: Tensor  # [places] int64, an index into `shapes`; -1 where the object is absent
    reach: Tensor  # [places] radius of a sphere around the object; 0 where it is absent
    swell: Tensor | None  # [places] how far the material pushes the surface outwards, in unit coordinates
    solid: Tensor  # [places] share of the light that the object stops
    convex: Tensor  # [places] bool
    shapes: tuple[str, ...]

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.camera.device

    def scene_of(self, place: Tensor) -> Tensor:
        """The scenes that objects belong to."""
        return place.div(self.objects, rounding_mode="floor")

    def by_shape(self, place: Tensor) -> Iterator[tuple[str, Tensor]]:
        """The name of each shape that occurs among objects, and the rows where it does."""
        kind = self.kind[place]
        for index, name in enumerate(self.shapes):
            rows = (kind == index).nonzero()[:, 0]
            if len(rows):
                yield name, rows

    def to_object(self, place: Tensor, *points: Tensor) -> list[Tensor]:
        """Points [3, M] in the unit coordinates of their objects."""
        size, centre = self.size[place], self.centre.index_select(1, place)
        cosine, sine = self.cosine[place], self.sine[place]
        answers = []
        for point in points:
            x, y, z = (point - centre) / size
            answers.append(torch.stack([x * cosine + y * sine, y * cosine - x * sine, z]))
        return answers

    def to_world(self, place: Tensor, direction: Tensor) -> Tensor:
        """Directions [3, M] of objects as the world sees them."""
        cosine, sine = self.cosine[place], self.sine[place]
        x, y, z = direction
        return torch.stack([x * cosine - y * sine, x * sine + y * cosine, z])

    def to_object_way(self, place: Tensor, direction: Tensor) -> Tensor:
        """Directions [3, M] of the world in unit coordinates; distances along them stay those of the world."""
        size, cosine, sine = self.size[place], self.cosine[place], self.sine[place]
        x, y, z = direction / size
        return torch.stack([x * cosine + y * sine, y * cosine - x * sine, z])


def looking(camera: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Right, up and forward of a camera [3, B] that looks at the origin with z up. [3, B] each"""
    forward = -camera / length(camera)
    x, y, z = forward
    flat = (x * x + y * y).sqrt()
    # straight down there is no telling which way is up: y is
    upright = flat > 1e-6
    a, b = torch.where(upright, x / flat, torch.zeros_like(x)), torch.where(upright, y / flat, torch.ones_like(y))
    right = torch.stack([b, -a, torch.zeros_like(x)])
    up = torch.stack([-a * z, -b * z, flat])
    return right, up, forward


def stand(scenes: Scenes, swell: Tensor | None = None, solid: Tensor | None = None) -> Stage:
    """Put scenes with the factors `shape` and `size` on the stage. `swell` and `solid` are [B, N]."""
    if scenes.camera is None or scenes.lamps is None:
        raise InputError(f"scenes of {scenes.vocabulary.name} need a camera and lamps to be drawn")
    # directions and angles are worked out in double precision, so that machines differ in nothing that shows
    camera, rotation = scenes.camera.T, scenes.rotation.reshape(-1)
    right, up, forward = looking(camera)
    kind, here = scenes.factor("shape").reshape(-1), scenes.present.reshape(-1)
    size = scenes.codes("size").reshape(-1)
    names = tuple(scenes.vocabulary["shape"].codes)
    shapes = [shape_named(name) for name in names]
    around = torch.tensor([shape.reach for shape in shapes], dtype=size.dtype, device=size.device)[kind] * size
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
        kind=torch.where(here, kind, torch.full_like(kind, -1)),
        reach=torch.where(here, around, torch.zeros_like(around)).float(),
        swell=None if swell is None else swell.reshape(-1).float(),
        solid=torch.ones_like(size).float() if solid is None else solid.reshape(-1).float(),
        convex=torch.tensor([shape.convex for shape in shapes], device=size.device)[kind],
        shapes=names,
    )
