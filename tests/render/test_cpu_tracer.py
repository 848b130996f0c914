"""Compiled rendering: the same bits as plain torch."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from alebrije import worlds
from alebrije.render import compiling, cpu_tracer, library, rays
from alebrije.render.clevrtex import DISPLACEMENT, OPACITY
from alebrije.render.compiling import is_compiled, plain
from alebrije.render.frames import Frames
from alebrije.render.light import CLEVR_LIGHT, HARD, light_visibility
from alebrije.render.solid import render_solid
from alebrije.render.stage import Stage, build_stage
from alebrije.render.unwrapping import texture_coordinates
from alebrije.render.vectors import unit
from alebrije.scenes import Factor, Scenes, Vocabulary
from alebrije.worlds.vocabularies import CLEVRTEX

CPU = torch.device("cpu")
SHAPES = ("SmoothCube_v2", "Sphere", "SmoothCylinder", "Suzanne", "Cone", "Cube", "Cylinder", "Icosahedron")
SHAPES += ("NewellTeapot", "Torus")
OWN = Vocabulary(
    "every shape",
    (
        Factor("shape", SHAPES, SHAPES),
        Factor("size", ("small", "large"), (0.6, 1.1)),
        Factor("material", ("shiny", "matt"), ("MyMetal", "Rubber")),
        Factor("color", ("teal", "coral"), ((0.0, 0.4, 0.4), (0.9, 0.3, 0.2))),
    ),
)
BOXES = Vocabulary(
    "textured boxes",
    (CLEVRTEX["material"], CLEVRTEX["size"], Factor("shape", tuple(library.BOXES), tuple(library.BOXES))),
    background=CLEVRTEX.background,
)

pytestmark = pytest.mark.skipif(not is_compiled(CPU), reason="torch rounds in another way here")


def crowd(vocabulary: Vocabulary, count: int, objects: int, seed: int) -> Scenes:
    """Scenes of objects that overlap, touch, sink into the ground and are absent at times, before random cameras."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64) * (high - low) + low

    counts = torch.tensor(vocabulary.counts)
    factors = (torch.rand(count, objects, len(counts), generator=generator) * counts).long()
    position = torch.cat([uniform(-3, 3, count, objects, 2), uniform(0.3, 1.2, count, objects, 1)], -1)
    camera = torch.cat([uniform(5, 8, count, 1), uniform(-8, -5, count, 1), uniform(3, 7, count, 1)], -1)
    lamps = torch.tensor([[6.4, -2.9, 4.3], [-1.2, 2.6, 5.8], [-4.7, -4.0, 3.0]]) + uniform(-1, 1, count, 3, 3)
    floors = torch.randint(len(vocabulary.background.values), (count,), generator=generator)
    present = torch.rand(count, objects, generator=generator) < 0.8
    turns = uniform(0, 6, count, objects)
    given = {"camera": camera, "lamps": lamps, "background": floors, "present": present}
    return Scenes.of(vocabulary, factors, position, rotation=turns, **given)


def check_same(scenes: Scenes, size: int) -> None:
    """Both paths give the same frames."""
    found = render_solid(scenes, size)
    with plain():
        expected = render_solid(scenes, size)
    for field in fields(Frames):
        first, second = getattr(found, field.name), getattr(expected, field.name)
        assert (first is None and second is None) or torch.equal(first, second), field.name


@pytest.mark.parametrize("name", ["clevr", "clevr6", "clevr10", "coat", "coat-correlated", "clevrtex", "furniture"])
@pytest.mark.parametrize("size", [37, 64])
def test_worlds_look_the_same(name: str, size: int) -> None:
    check_same(worlds.get(name).sample(3, seed=size), size)


@pytest.mark.slow
@pytest.mark.parametrize("size", [128, 240])
def test_large_crowds_look_the_same(size: int) -> None:
    check_same(crowd(OWN, 3, 5, size), size)
    check_same(crowd(CLEVRTEX, 3, 5, size), size)


@pytest.mark.parametrize("objects", [1, 4])
def test_every_shape_looks_the_same(objects: int) -> None:
    check_same(crowd(OWN, 6, objects, 1), 48)
    check_same(crowd(CLEVRTEX, 6, objects, 2), 40)
    check_same(crowd(BOXES, 3, objects, 3), 40)


def stage_of(displaced: bool) -> Stage:
    """A stage of all shapes, without or with displaced surfaces."""
    if not displaced:
        return build_stage(crowd(OWN, 12, 6, 4))
    scenes = crowd(CLEVRTEX, 12, 6, 3)
    material = scenes.factor("material")
    return build_stage(scenes, *(torch.tensor(table)[material] for table in (DISPLACEMENT, OPACITY)))


@pytest.mark.parametrize("displaced", [False, True])
def test_random_rays_and_shadows(displaced: bool) -> None:
    """Rays in all directions from points on, in and around objects."""
    stage, generator = stage_of(displaced), torch.Generator().manual_seed(5)
    instance = torch.randint(stage.scenes * stage.objects, (3000,), generator=generator).sort().values
    instance = instance[stage.kind[instance] >= 0]
    scene, item = stage.scene_of(instance), instance % stage.objects
    point = stage.centre[:, instance] + torch.randn(3, len(instance), generator=generator)
    direction = unit(torch.randn(3, len(instance), generator=generator))
    found = (
        rays.intersect(stage, instance, point, direction),
        rays.surface_normals(stage, instance, point),
        *rays.nearest_hit(stage, scene, point, direction),
        *rays.nearest_hit(stage, scene, point, direction, item),
        light_visibility(stage, CLEVR_LIGHT, scene, point, item),
        light_visibility(stage, CLEVR_LIGHT, scene, point, None, HARD),
    )
    with plain():
        expected = (
            rays.intersect(stage, instance, point, direction),
            rays.surface_normals(stage, instance, point),
            *rays.nearest_hit(stage, scene, point, direction),
            *rays.nearest_hit(stage, scene, point, direction, item),
            light_visibility(stage, CLEVR_LIGHT, scene, point, item),
            light_visibility(stage, CLEVR_LIGHT, scene, point, None, HARD),
        )
    assert torch.isfinite(expected[0]).sum() > 300
    assert (expected[-1] < 1).sum() > 300
    for first, second in zip(found, expected, strict=True):
        assert torch.equal(first, second)


def test_ground_coordinates_are_those_of_torch() -> None:
    around = torch.randn(3, 4, 999, generator=torch.Generator().manual_seed(6)) * 30
    normal = unit(torch.rand(3, 999, generator=torch.Generator().manual_seed(7)) + 0.01)
    uv, along = cpu_tracer.ground_coordinates(around, normal)
    expected, tangent, _ = texture_coordinates("ground", around.reshape(3, -1).T, normal.repeat(1, 4).T)
    assert torch.equal(uv, expected)
    assert torch.equal(along, tangent.T)


def test_a_camera_far_away_leaves_textures_to_torch() -> None:
    scenes = crowd(CLEVRTEX, 2, 1, 8)
    assert scenes.camera is not None
    far = replace(scenes, camera=scenes.camera * 1e6)
    assert (
        cpu_tracer.surface_samples(torch.zeros(1), torch.full((1, 2), 1e5), torch.ones(3, 1), torch.ones(3, 1)) is None
    )
    check_same(far, 16)


def test_plain_torch_is_used_where_square_roots_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    scenes = crowd(OWN, 2, 2, 9)
    expected = render_solid(scenes, 32)
    monkeypatch.setattr(compiling, "square_root_address", lambda: None)
    monkeypatch.delattr(cpu_tracer, "_trace")
    assert torch.equal(render_solid(scenes, 32).images, expected.images)


def test_threads_do_not_change_the_image() -> None:
    world = worlds.get("clevrtex")
    scenes = world.sample(8)
    before = torch.get_num_threads()
    try:
        images = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            images.append(torch.cat([world.render(scenes[:4], 32).images, world.render(scenes[4:], 32).images]))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*images)
