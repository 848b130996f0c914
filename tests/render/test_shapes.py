"""Shapes: distances are never too long, rays end on surfaces, and normals point outwards."""

from __future__ import annotations

import math

import pytest
import torch

from alebrije.errors import InputError
from alebrije.render.library import shape_named
from alebrije.render.vectors import dot, length, unit

NAMES = ("SmoothCube_v2", "Sphere", "SmoothCylinder", "Suzanne", "Cone", "Cube", "Cylinder", "Icosahedron")
NAMES += ("NewellTeapot", "Torus", "chair leg", "table top", "cabinet door")


def points(count: int, seed: int = 0, reach: float = 1.6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(3, count, generator=generator) * 2 - 1) * reach


def rays(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Rays from far outside towards random points of the shape's neighbourhood."""
    origin = unit(points(count, seed)) * 6.0
    return origin, points(count, seed + 1, 1.1) - origin


@pytest.mark.parametrize("name", NAMES)
def test_distances_change_no_faster_than_a_point_moves(name: str) -> None:
    """Otherwise sphere tracing could step over the shape."""
    shape = shape_named(name)
    first = points(20_000)
    second = first + points(20_000, 1, 0.05)
    outside = (shape.distance(first) > 0) & (shape.distance(second) > 0)
    first, second = first[:, outside], second[:, outside]
    change = (shape.distance(first) - shape.distance(second)).abs()
    slack = 1.05 if name in ("Suzanne", "NewellTeapot") else 1.001  # distances are interpolated between grid points
    assert bool((change <= slack * length(first - second) + 1e-5).all())


@pytest.mark.parametrize("name", NAMES)
def test_the_bounding_sphere_contains_the_shape(name: str) -> None:
    shape = shape_named(name)
    point = points(200_000, reach=2.0)
    assert float(length(point[:, shape.distance(point) < 0]).max()) <= shape.reach


@pytest.mark.parametrize("name", NAMES)
def test_rays_end_on_the_surface(name: str) -> None:
    shape = shape_named(name)
    origin, direction = rays(5_000)
    t = shape.intersect(origin, direction)
    hit = torch.isfinite(t)
    assert 0.2 < float(hit.float().mean()) < 0.999
    start, ray, t_hit = origin[:, hit], direction[:, hit], t[hit]
    assert float(shape.distance(start + ray * t_hit).abs().max()) < 1e-2
    for share in torch.linspace(0.0, 0.98, 50):
        assert float(shape.distance(start + ray * (t_hit * share)).min()) > -1e-3


@pytest.mark.parametrize("name", NAMES)
def test_rays_that_miss_stay_outside(name: str) -> None:
    shape = shape_named(name)
    origin, direction = rays(5_000, seed=5)
    missed = torch.isinf(shape.intersect(origin, direction))
    start, ray = origin[:, missed], direction[:, missed]
    deepest = torch.stack([shape.distance(start + ray * share) for share in torch.linspace(0.0, 2.0, 400)]).amin(0)
    assert float(deepest.min()) > -6e-3


@pytest.mark.parametrize("name", NAMES)
def test_normals_point_towards_growing_distance(name: str) -> None:
    shape = shape_named(name)
    origin, direction = rays(3_000, seed=2)
    t = shape.intersect(origin, direction)
    hit = torch.isfinite(t)
    point = origin[:, hit] + direction[:, hit] * t[hit]
    normal = shape.normal(point)
    assert torch.allclose(length(normal), torch.ones(point.shape[1]), atol=1e-4)
    outward = shape.distance(point + 0.05 * normal) > shape.distance(point)
    assert float(outward.float().mean()) > 0.97
    assert float((dot(normal, direction[:, hit]) < 0.15 * length(direction[:, hit])).float().mean()) > 0.97


def test_a_sphere_is_hit_where_the_formula_says() -> None:
    sphere = shape_named("Sphere")
    origin = torch.tensor([[5.0], [0.6], [0.0]])
    t = sphere.intersect(origin, torch.tensor([[-1.0], [0.0], [0.0]]))
    assert t.item() == pytest.approx(5.0 - 0.8, abs=1e-6)
    assert math.isinf(sphere.intersect(origin + 1.0, torch.tensor([[-1.0], [0.0], [0.0]])).item())


def test_a_displaced_sphere_is_a_larger_sphere() -> None:
    sphere = shape_named("Sphere")
    origin, direction = torch.tensor([[5.0], [0.0], [0.0]]), torch.tensor([[-1.0], [0.0], [0.0]])
    assert sphere.intersect(origin, direction, torch.tensor([0.05])).item() == pytest.approx(5.0 - 1.05, abs=1e-5)


@pytest.mark.parametrize("name", ["Cube", "Cylinder", "Cone", "Torus", "Icosahedron", "Suzanne", "NewellTeapot"])
def test_displacement_moves_the_surface_outwards(name: str) -> None:
    shape = shape_named(name)
    origin, direction = rays(2_000, seed=3)
    plain = shape.intersect(origin, direction)
    displaced = shape.intersect(origin, direction, torch.full((2_000,), 0.05))
    both = torch.isfinite(plain) & torch.isfinite(displaced)
    assert bool((displaced[both] <= plain[both] + 1e-3).all())
    assert int(torch.isfinite(displaced).sum()) > int(torch.isfinite(plain).sum())


def test_faces_of_the_cube_are_flat() -> None:
    cube = shape_named("SmoothCube_v2")
    point = torch.tensor([[0.9955, 0.0, 0.3], [0.2, -0.9955, 0.1], [0.4, 0.5, 0.9955]])
    assert torch.allclose(
        cube.normal(point), torch.tensor([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]]), atol=1e-3
    )


def test_the_icosahedron_is_regular() -> None:
    """It has the volume of a regular icosahedron with the measured circumradius, and it lies on a face."""
    shape = shape_named("Icosahedron")
    point = points(400_000, reach=1.3)
    volume = float((shape.distance(point) < 0).float().mean()) * 2.6**3
    edge = 1.001 / math.sin(2 * math.pi / 5)  # for a circumradius of 1.001
    assert volume == pytest.approx(5 / 12 * (3 + math.sqrt(5)) * edge**3, rel=0.02)
    down = torch.tensor([[0.0], [0.0], [-2.0]])
    assert torch.allclose(shape.normal(down), torch.tensor([[0.0], [0.0], [-1.0]]), atol=1e-3)


def test_an_unknown_shape_raises() -> None:
    with pytest.raises(InputError, match="no shape 'Banana'"):
        shape_named("Banana")
