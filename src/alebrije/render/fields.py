"""Signed distance fields: meshes sampled on a grid, so that rays hit them like any other shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor


@dataclass(eq=False)
class DistanceField:
    """Signed distances on a regular grid over a box, interpolated trilinearly."""

    grid: Tensor  # [X, Y, Z] float32
    low: tuple[float, float, float]  # the first grid point
    cell: float  # distance between neighbouring grid points
    quantum: float  # distances are multiples of this, less than 2^15 of it
    _flat: dict[str, Tensor] = field(default_factory=dict)

    @property
    def high(self) -> tuple[float, float, float]:
        """The last grid point."""
        x, y, z = (low + self.cell * (count - 1) for low, count in zip(self.low, self.grid.shape, strict=True))
        return x, y, z

    def on(self, device: torch.device) -> Tensor:
        """The flat grid on a device, cached."""
        key = str(device)
        if key not in self._flat:
            self._flat[key] = self.grid.reshape(-1).to(device)
        return self._flat[key]

    def __call__(self, point: Tensor) -> Tensor:
        """The distance at points [3, M]; outside the box, at its nearest point. [M]"""
        flat = self.on(point.device)
        weights, corners = [], []
        for axis, count in enumerate(self.grid.shape):
            position = ((point[axis] - self.low[axis]) / self.cell).clamp(0.0, count - 1.001)
            corner = position.floor()
            weights.append(position - corner)
            corners.append(corner.int())
        u, v, w = weights
        column = self.grid.shape[2]
        plane = self.grid.shape[1] * column
        base = (corners[0] * self.grid.shape[1] + corners[1]) * column + corners[2]

        def interpolate(offset: int) -> Tensor:
            first, second = flat[base + offset], flat[base + (offset + 1)]
            return first + (second - first) * w

        near = interpolate(0)
        near = near + (interpolate(column) - near) * v
        far = interpolate(plane)
        far = far + (interpolate(plane + column) - far) * v
        return near + (far - near) * u


@cache
def load_field(name: str) -> DistanceField:
    """Load a distance field that ships with the library: `monkey` or `teapot`."""
    path = files("alebrije.render") / "assets" / f"{name}_field.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
        cell, quantum = float(saved["cell"]), float(saved["scale"])
        grid = torch.from_numpy(saved["steps"].astype(np.float32)) * quantum
        x, y, z = saved["low"].tolist()
    return DistanceField(grid, (x, y, z), cell, quantum)
