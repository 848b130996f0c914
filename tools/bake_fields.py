"""Bake the meshes of the library into signed distance fields for the ray tracer.

    python tools/bake_fields.py

From `tools/meshes/monkey.npz` and `teapot.npz` (see `export_meshes.py`) this writes `monkey_field.npz` and
`teapot_field.npz` to `src/alebrije/render/assets`: signed distances on a regular grid, rounded to whole steps. A point
is inside if the winding number of the mesh is above one half, which also works for open and overlapping meshes.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

MESHES = Path(__file__).resolve().parent / "meshes"
ASSETS = MESHES.parents[1] / "src" / "alebrije" / "render" / "assets"
CELL = 0.035
MARGIN = 3  # cells of air around the mesh
STEP = 5e-4  # half the distance at which the ray tracer reports a hit
FARTHEST = 0.5  # larger distances are clipped, which costs a ray a few more steps


def segment_distance(point: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Squared distance from points [P, 1, 3] to segments [T, 3]. [P, T]"""
    edge = end - start
    share = (((point - start) * edge).sum(-1) / edge.square().sum(-1).clamp_min(1e-20)).clamp(0.0, 1.0)
    return (point - start - share[..., None] * edge).square().sum(-1)


def triangle_distance(point: Tensor, corners: Tensor) -> Tensor:
    """Distance from points [P, 3] to the nearest of the triangles [T, 3, 3]. [P]"""
    a, b, c = corners.unbind(1)
    points = point[:, None]
    normal = torch.linalg.cross(b - a, c - a)
    normal = normal / normal.norm(dim=-1, keepdim=True).clamp_min(1e-20)
    height = ((points - a) * normal).sum(-1)
    projected = points - height[..., None] * normal
    inside = torch.ones_like(height, dtype=torch.bool)
    for start, end in ((a, b), (b, c), (c, a)):
        inside &= (torch.linalg.cross((end - start).expand_as(projected), projected - start) * normal).sum(-1) >= 0
    edges = torch.stack(
        [segment_distance(points, a, b), segment_distance(points, b, c), segment_distance(points, c, a)]
    ).amin(0)
    return torch.where(inside, height.square(), edges).amin(-1).sqrt()


def winding_number(point: Tensor, corners: Tensor) -> Tensor:
    """Winding number of the triangles [T, 3, 3] around points [P, 3]. [P]"""
    a, b, c = (corner - point[:, None] for corner in corners.unbind(1))
    la, lb, lc = a.norm(dim=-1), b.norm(dim=-1), c.norm(dim=-1)
    numerator = (a * torch.linalg.cross(b, c)).sum(-1)
    denominator = la * lb * lc + (a * b).sum(-1) * lc + (b * c).sum(-1) * la + (c * a).sum(-1) * lb
    return torch.atan2(numerator, denominator).sum(-1) / (2 * math.pi)


def bake(name: str) -> None:
    """Write the distance field of one mesh."""
    with np.load(MESHES / f"{name}.npz", allow_pickle=False) as mesh:
        vertices, triangles = torch.from_numpy(mesh["vertices"]), torch.from_numpy(mesh["triangles"].astype(np.int64))
    low = vertices.amin(0) - MARGIN * CELL
    counts = ((vertices.amax(0) + MARGIN * CELL - low) / CELL).ceil().int().tolist()
    axes = [low[axis] + CELL * torch.arange(counts[axis] + 1) for axis in range(3)]
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    corners = vertices[triangles]
    distance = torch.cat([triangle_distance(part, corners) for part in grid.split(256)])
    inside = torch.cat([winding_number(part, corners) for part in grid.split(1024)]) > 0.5
    signed = (
        torch.where(inside, -distance, distance).clamp(-FARTHEST, FARTHEST).reshape([count + 1 for count in counts])
    )
    steps = (signed / STEP).round().short().numpy()
    path = ASSETS / f"{name}_field.npz"
    np.savez_compressed(path, steps=steps, low=low.numpy(), cell=np.float32(CELL), scale=np.float32(STEP))
    print(f"{name}: {len(triangles)} triangles, grid {list(signed.shape)}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    for mesh_name in ("monkey", "teapot"):
        bake(mesh_name)
