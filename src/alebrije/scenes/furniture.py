"""Furniture: chairs, tables and cabinets as unions of boxes, whose longest diagonal is 2."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from alebrije.arrays import Floats, Integers
from alebrije.scenes.vocabulary import Vocabulary

Corner = tuple[float, float, float]
TRIMS = {"light": (0.75, 0.72, 0.65), "dark": (0.12, 0.1, 0.09)}  # second colours, by the codes of `trim`
PLAIN = "plain"  # the code of a trim in the object's own colour


@dataclass(frozen=True)
class Box:
    """A part of a piece of furniture: the corners of a box, in units of half the diagonal; z is 0 on the ground."""

    name: str
    low: Corner
    high: Corner
    is_trim: bool  # has the second colour

    @property
    def halves(self) -> Corner:
        """Half the length of each side."""
        x, y, z = ((high - low) / 2 for low, high in zip(self.low, self.high, strict=True))
        return x, y, z

    @property
    def centre(self) -> Corner:
        """The middle of the box."""
        x, y, z = ((high + low) / 2 for low, high in zip(self.low, self.high, strict=True))
        return x, y, z

    @property
    def half_size(self) -> float:
        """Half the side of the cube with the same surface."""
        x, y, z = self.halves
        return math.sqrt((x * y + y * z + z * x) / 3)


def _legs(name: str, wide: float, deep: float, thick: float, high: float) -> list[tuple[str, Corner, Corner, bool]]:
    """Four legs under a rectangle of half-sides `wide` and `deep`."""
    corners = [(x, y) for x in (-wide, wide - thick) for y in (-deep, deep - thick)]
    return [(name, (x, y, 0.0), (x + thick, y + thick, high), False) for x, y in corners]


_CHAIR = [
    ("chair seat", (-0.65, -0.65, 0.93), (0.65, 0.65, 1.13), True),
    ("chair back", (-0.65, 0.45, 1.13), (0.65, 0.65, 2.25), True),
    *_legs("chair leg", 0.62, 0.62, 0.2, 0.93),
]
_TABLE = [
    ("table top", (-1.05, -0.75, 1.12), (1.05, 0.75, 1.3), True),
    *_legs("table leg", 1.0, 0.7, 0.22, 1.12),
]
_CABINET = [
    ("cabinet plinth", (-0.72, -0.28, 0.0), (0.72, 0.35, 0.2), True),
    ("cabinet body", (-0.8, -0.34, 0.2), (0.8, 0.4, 2.28), False),
    ("cabinet door", (-0.74, -0.4, 0.28), (-0.03, -0.34, 2.2), True),
    ("cabinet door", (0.03, -0.4, 0.28), (0.74, -0.34, 2.2), True),
]


def _scaled(boxes: list[tuple[str, Corner, Corner, bool]]) -> tuple[Box, ...]:
    """The boxes, scaled so that the diagonal of the box around them is 2."""
    low = np.array([box[1] for box in boxes]).min(0)
    high = np.array([box[2] for box in boxes]).max(0)
    scale = 2 / float(np.sqrt(((high - low) ** 2).sum()))

    def corner(place: Corner) -> Corner:
        return place[0] * scale, place[1] * scale, place[2] * scale

    return tuple(Box(name, corner(first), corner(last), is_trim) for name, first, last, is_trim in boxes)


FURNITURE = {"Chair": _scaled(_CHAIR), "Table": _scaled(_TABLE), "Cabinet": _scaled(_CABINET)}
BOXES = {box.name: box for boxes in FURNITURE.values() for box in boxes}  # one of each name
MOST = max(map(len, FURNITURE.values()))  # boxes of one piece


def is_furniture(vocabulary: Vocabulary) -> bool:
    """Whether the shapes of a vocabulary are furniture."""
    return "shape" in vocabulary and set(vocabulary["shape"].codes) <= set(FURNITURE)


def footprints(vocabulary: Vocabulary, factors: Integers) -> Floats:
    """Half the diagonals of the footprints of combinations. [B, N]"""
    return _of_each(vocabulary, factors, [_footprint(code) for code in vocabulary["shape"].codes])


def _footprint(shape: str) -> float:
    """The distance of the farthest corner from the axis."""
    return max(math.hypot(*corner[:2]) for box in FURNITURE[shape] for corner in (box.low, box.high))


def half_heights(vocabulary: Vocabulary, factors: Integers) -> Floats:
    """Half the heights of combinations, which is where their centres are. [B, N]"""
    return _of_each(vocabulary, factors, [half_height(code) for code in vocabulary["shape"].codes])


def half_height(shape: str) -> float:
    """Half the height of a piece of furniture of size 1."""
    return max(box.high[2] for box in FURNITURE[shape]) / 2


def _of_each(vocabulary: Vocabulary, factors: Integers, table: list[float]) -> Floats:
    """A number of each shape, times the size of each object. [B, N]"""
    sizes = np.array(vocabulary["size"].codes, dtype=np.float64)[factors[..., vocabulary.axis("size")]]
    return np.asarray(np.array(table)[factors[..., vocabulary.axis("shape")]] * sizes)
