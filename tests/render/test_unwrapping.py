"""Unwrapping: tangents that form a frame, and textures that continue across the ground."""

from __future__ import annotations

import pytest
import torch

from alebrije.errors import InputError
from alebrije.render.unwrapping import texture_coordinates

SHAPES = ("block", "cone", "cube", "cylinder", "monkey", "icosahedron", "teapot", "sphere", "torus", "ground")


@pytest.mark.parametrize("shape", SHAPES)
def test_tangents_form_a_frame(shape: str) -> None:
    point = torch.nn.functional.normalize(torch.randn(500, 3, generator=torch.Generator().manual_seed(2)), dim=-1)
    uv, along_u, along_v = texture_coordinates(shape, point, point)
    assert uv.shape == (500, 2)
    assert uv.isfinite().all()
    # Tangents are undefined where the normal of the ground runs along u, which never happens.
    kept = torch.ones(500, dtype=torch.bool) if shape != "ground" else point[:, 2] > 0
    point, along_u, along_v = point[kept], along_u[kept], along_v[kept]
    assert torch.allclose(along_u.norm(dim=-1), torch.ones(len(point)), atol=1e-4)
    assert torch.allclose(torch.linalg.cross(along_u, along_v), point, atol=1e-4)


def test_u_and_v_grow_along_their_tangents_on_a_sphere() -> None:
    point = torch.nn.functional.normalize(torch.tensor([[1.0, 0.3, 0.2], [0.2, -1.0, -0.5]]), dim=-1)
    uv, along_u, along_v = texture_coordinates("sphere", point, point)
    east = texture_coordinates("sphere", point + 1e-2 * along_u, point)[0] - uv
    north = texture_coordinates("sphere", point + 1e-2 * along_v, point)[0] - uv
    assert (east[:, 0] > 1e-3).all()
    assert (north[:, 1] > 1e-3).all()
    assert (east[:, 1].abs() < 1e-4).all()
    assert (north[:, 0].abs() < 1e-4).all()


def test_the_texture_continues_from_ground_to_backdrop() -> None:
    up, front = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[0.9041, -0.4274, 0.0]])
    foot = -9.0 * front
    floor_uv, _, floor_v = texture_coordinates("ground", foot, up)
    wall_uv, wall_u, wall_v = texture_coordinates("ground", foot + 2.0 * up, front)
    assert torch.allclose(wall_uv[:, 1], floor_uv[:, 1], atol=1e-6)
    assert (wall_uv[:, 0] < floor_uv[:, 0]).all()
    assert torch.allclose(floor_v, wall_v, atol=1e-3)
    assert torch.allclose(wall_u, -up, atol=1e-3)


def test_an_unknown_shape_raises() -> None:
    with pytest.raises(InputError, match="'donut'"):
        texture_coordinates("donut", torch.zeros(1, 3), torch.zeros(1, 3))
