"""Distance fields: a mesh as a grid of signed distances, so that a ray meets it like any other shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor


@dataclass(eq=False)
class DistanceField:
    """Signed distances on a regular grid over a box, read between the grid points by trilinear interpolation."""

    grid: Tensor  # [X, Y, Z] float32
    low: tuple[float, float, float]  # the first grid point
    cell: float  # distance of neighbouring grid points
    _flat: dict[str, Tensor] = field(default_factory=dict)

    @property
    def high(self) -> tuple[float, float, float]:
        """The last grid point."""
        x, y, z = (low + self.cell * (count - 1) for low, count in zip(self.low, self.grid.shape, strict=True))
        return x, y, z

    def on(self, device: torch.device) -> Tensor:
        """The flat grid on a device, moved there once."""
        key = str(device)
        if key not in self._flat:
            self._flat[key] = self.grid.reshape(-1).to(device)
        return self._flat[key]

    def __call__(self, point: Tensor) -> Tensor:
        """The distance at points [3, M]; outside the box that at its nearest point. [M]"""
        flat = self.on(point.device)
        shares, base = [], None
        for axis, count in enumerate(self.grid.shape):
            place = ((point[axis] - self.low[axis]) / self.cell).clamp(0.0, count - 1.001)
            corner = place.floor()
            shares.append(place - corner)
            index = corner.int()
            base = index if base is None else base * count + index
        assert base is not None
        u, v, w = shares
        aside = self.grid.shape[2]
        ahead = self.grid.shape[1] * aside

        def along(offset: int) -> Tensor:
            first, second = flat[base + offset], flat[base + (offset + 1)]
            return first + (second - first) * w

        near = along(0)
        near = near + (along(aside) - near) * v
        far = along(ahead)
        far = far + (along(ahead + aside) - far) * v
        return near + (far - near) * u


@cache
def load_field(name: str) -> DistanceField:
    """A field that comes with the library: `monkey` or `teapot`."""
    path = files("alebrije.render") / "assets" / f"{name}_field.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
        cell = float(saved["cell"])
        grid = torch.from_numpy(saved["steps"].astype(np.float32)) * float(saved["scale"])
        x, y, z = saved["low"].tolist()
    return DistanceField(grid, (x, y, z), cell)
