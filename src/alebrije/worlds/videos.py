"""Samplers of videos and of scenes seen by several cameras."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.random import Generator

from alebrije.arrays import Flags, Floats, Integers
from alebrije.scenes import Scenes, Vocabulary, furniture
from alebrije.scenes.placement import place_apart
from alebrije.worlds.motion import Bodies, Motion, roll_out
from alebrije.worlds.samplers import (
    CAMERA,
    LAMPS,
    Check,
    Sampler,
    object_sizes,
    passes_checks,
    sample_surroundings,
)
from alebrije.worlds.streams import BLOCK, sample_combinations, sample_until_accepted

FIELD = 4.0  # centres start from -4 to 4, so that even large objects start within [-5, 5]
GAP = 0.05  # between two footprints at the start
_JITTER = 1.0  # of camera and lamps, added along each axis

# Footprints and volumes of shapes of half-size 1, by their names in the released files.
_FOOTPRINT = {"SmoothCube_v2": 1.342, "Cube": 1.361, "Sphere": 1.0, "SmoothCylinder": 1.0, "Cylinder": 1.0}
_VOLUME = {"SmoothCube_v2": 8.0, "Cube": 8.0, "Sphere": 4 * math.pi / 3}
_VOLUME |= dict.fromkeys(("SmoothCylinder", "Cylinder"), 2 * math.pi)
_LARGEST_FOOTPRINT, _USUAL_VOLUME = 1.4, 4.0  # of the other shapes

# Kubric's values; the simulator multiplies those of two materials. The floor has friction 0.3.
_FLOOR = 0.3
_METAL = {"density": 2.7, "friction": 0.4, "restitution": 0.3}
_RUBBER = {"density": 1.1, "friction": 0.8, "restitution": 0.7}
METALS = ("MyMetal", "spotty metal", "copper chainmail")  # by value or code; all other materials are like rubber


def footprints(vocabulary: Vocabulary, factors: Integers) -> Floats:
    """Radii of the circles around the footprints of combinations. [B, N]"""
    table = np.array([_FOOTPRINT.get(code, _LARGEST_FOOTPRINT) for code in vocabulary["shape"].codes])
    return np.asarray(table[factors[..., vocabulary.axis("shape")]] * object_sizes(vocabulary, factors))


def bodies(vocabulary: Vocabulary, factors: Integers, present: Flags) -> Bodies:
    """What the objects are made of: metal is heavier and slides further, rubber bounces."""
    volumes = np.array([_VOLUME.get(code, _USUAL_VOLUME) for code in vocabulary["shape"].codes])
    volume = volumes[factors[..., vocabulary.axis("shape")]] * object_sizes(vocabulary, factors) ** 3
    named = zip(vocabulary["material"].values, vocabulary["material"].codes, strict=True)
    kinds = [_METAL if {value, code} & set(METALS) else _RUBBER for value, code in named]
    density, friction, restitution = (
        np.array([kind[name] for kind in kinds])[factors[..., vocabulary.axis("material")]]
        for name in ("density", "friction", "restitution")
    )
    return Bodies(present, footprints(vocabulary, factors), density * volume, _FLOOR * friction, friction, restitution)


@dataclass(frozen=True)
class Collisions:
    """Objects that slide toward the middle and collide, as in MOVi-A, but standing: none falls or tumbles.

    `fewest` to `most` objects start anywhere on the field with a velocity from -4 to 4 along each axis, minus their
    position. A second has 12 frames. With `shell` the camera is anywhere on a half-shell of radius 7 to 9, as in
    MOVi-C, at least 25 degrees above the ground, so that the horizon stays outside the image.
    """

    vocabulary: Vocabulary
    fewest: int = 3
    most: int = 10
    frames: int = 24
    shell: bool = False
    pairs: ClassVar[bool] = False

    def block(self, generator: Generator, combinations: Integers | None, accept: Check | None = None) -> Scenes:
        """One block of videos."""

        def propose(rows: Integers) -> tuple[Scenes, Flags]:
            scenes = self._videos(generator, combinations, len(rows))
            return scenes, passes_checks(scenes, accept)

        return sample_until_accepted(propose, BLOCK)

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """None: no rule is defined for videos."""
        return np.zeros(len(scenes), dtype=bool)

    def _videos(self, generator: Generator, combinations: Integers | None, count: int) -> Scenes:
        standing = sample_standing(generator, self.vocabulary, combinations, (self.fewest, self.most), count)
        camera = shell_cameras(generator, count) if self.shell else near_cameras(generator, count)
        flat = place_apart(
            generator, standing.radius, camera, present=standing.present, reach=FIELD, gap=GAP, margin=0.0
        )
        speed = (8 * generator.random(flat.shape) - 4 - flat) * standing.present[..., None]
        turn = 2 * np.pi * generator.random(standing.present.shape)
        start = Motion(flat, turn, speed, np.zeros_like(turn))
        made_of = bodies(self.vocabulary, standing.factors, standing.present)
        poses = roll_out(made_of, start, self.frames)  # [B, N, T, 3]
        height = np.broadcast_to(standing.sizes[..., None, None], (*poses.shape[:3], 1))
        path = np.concatenate([poses[..., :2], height, poses[..., 2:]], -1)
        return video_scenes(self.vocabulary, standing, path, camera, generator)


@dataclass(frozen=True)
class Standing:
    """The objects of scenes before they have positions. Arrays begin with [B, N]."""

    factors: Integers
    present: Flags
    sizes: Floats
    radius: Floats  # of their footprints


def sample_standing(
    generator: Generator, vocabulary: Vocabulary, combinations: Integers | None, counts: tuple[int, int], count: int
) -> Standing:
    """Objects for `count` scenes, from the first to the second of `counts` in each."""
    fewest, most = counts
    present = np.arange(most) < generator.integers(fewest, most + 1, size=(count, 1))
    factors = sample_combinations(generator, vocabulary, combinations, present.shape)
    return Standing(factors, present, object_sizes(vocabulary, factors), footprints(vocabulary, factors))


def near_cameras(generator: Generator, count: int) -> Floats:
    """CLEVR's camera plus up to 1 along each axis, as in MOVi-A. [B, 3]"""
    return np.asarray(np.array(CAMERA) + _JITTER * generator.random((count, 3)))


def shell_cameras(generator: Generator, count: int) -> Floats:
    """Anywhere on a half-shell of radius 7 to 9, at least 25 degrees above the ground. [B, 3]"""
    radius = 7 + 2 * generator.random(count)
    azimuth = 2 * np.pi * generator.random(count)
    lowest = math.sin(math.radians(25))
    up = lowest + (0.98 - lowest) * generator.random(count)  # uniform in height is uniform on a sphere
    flat = np.sqrt(1 - up**2)
    return np.stack([radius * flat * np.cos(azimuth), radius * flat * np.sin(azimuth), radius * up], -1)


def video_scenes(
    vocabulary: Vocabulary,
    standing: Standing,
    path: Floats,
    camera: Floats,
    generator: Generator,
    cameras: Floats | None = None,
) -> Scenes:
    """Videos from paths [B, N, T, 4]: x, y, height of the centre and rotation."""
    count = len(camera)
    return Scenes.of(
        vocabulary,
        standing.factors,
        path[:, :, 0, :3],
        present=standing.present,
        rotation=path[:, :, 0, 3],
        background=generator.integers(len(vocabulary.background), size=count),
        camera=camera,
        lamps=np.array(LAMPS) + _JITTER * generator.random((count, 3, 3)),
        path=path,
        cameras=cameras,
    )


@dataclass(frozen=True)
class Furnished:
    """`fewest` to `most` pieces of furniture as in MultiShapeNet's easy scenes.

    They stand anywhere from -2.9 to 2.9, turned at random, and their centres are at least 1.1 times the sum of half the
    diagonals of their footprints apart. As there, some may be hidden.
    """

    vocabulary: Vocabulary
    fewest: int = 2
    most: int = 4
    pairs: ClassVar[bool] = False

    def block(self, generator: Generator, combinations: Integers | None, accept: Check | None = None) -> Scenes:
        """One block."""
        around = sample_surroundings(generator, self.vocabulary, BLOCK)
        counts = generator.integers(self.fewest, self.most + 1, size=BLOCK)

        def propose(rows: Integers) -> tuple[Scenes, Flags]:
            present = np.arange(self.most) < counts[rows, None]
            factors = sample_combinations(generator, self.vocabulary, combinations, present.shape)
            radius, camera = 1.1 * furniture.footprints(self.vocabulary, factors), around.camera[rows]
            flat = place_apart(generator, radius, camera, present=present, reach=2.9, gap=0.0, margin=0.0)
            height = furniture.half_heights(self.vocabulary, factors)
            scenes = Scenes.of(
                self.vocabulary,
                factors,
                np.concatenate([flat, height[..., None]], axis=-1),
                present=present,
                rotation=2 * np.pi * generator.random(present.shape),
                camera=camera,
                lamps=around.lamps[rows],
                background=around.background[rows],
            )
            return scenes, passes_checks(scenes, accept)

        return sample_until_accepted(propose, BLOCK)

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """None: no rule is defined for several views."""
        return np.zeros(len(scenes), dtype=bool)


@dataclass(frozen=True)
class Around:
    """Scenes of another sampler, each seen by cameras that are evenly spread around it.

    Every view has its own jitter, as in CLEVR3D; with `turned` the first camera is turned about the vertical, as in
    MultiShapeNet.
    """

    sampler: Sampler
    views: int = 3
    turned: bool = False
    jitter: float = 0.5
    pairs: ClassVar[bool] = False

    def block(self, generator: Generator, combinations: Integers | None, accept: Check | None = None) -> Scenes:
        """One block."""
        scenes = self.sampler.block(generator, combinations, accept)
        camera = scenes.camera.numpy() if scenes.camera is not None else np.zeros((len(scenes), 3))
        angles = 2 * np.pi * np.arange(self.views) / self.views
        shift = self.jitter * (2 * generator.random((len(scenes), self.views, 3)) - 1)
        base = np.repeat(camera[:, None], self.views, 1) if self.turned else np.array(CAMERA) + shift
        if not self.turned:
            base[:, 0] = camera  # the view in which every object was seen to be visible
        return replace(scenes, cameras=torch.from_numpy(turned_about(base, angles)))

    def fits_as_target(self, scenes: Scenes) -> Flags:
        """None: no rule is defined for several views."""
        return np.zeros(len(scenes), dtype=bool)


def turned_about(camera: Floats, angles: Floats) -> Floats:
    """Cameras [B, V, 3], turned about the vertical by angles [V] or [B, V]."""
    cosine, sine = np.cos(angles), np.sin(angles)
    x, y, z = camera[..., 0], camera[..., 1], camera[..., 2]
    return np.stack([x * cosine - y * sine, x * sine + y * cosine, z], -1)
