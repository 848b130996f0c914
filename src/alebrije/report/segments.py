"""Groupings as pictures, with what is cut too finely and what is cut too coarsely marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import binary_dilation, binary_erosion
from scipy.optimize import linear_sum_assignment

from alebrije.errors import InputError
from alebrije.report.sheets import GROUND, OBJECTS, Bytes

WHOLE = 0.75  # the share of an object that one group must hold, lest the object count as split
HELD = 0.5  # the share of an object that a group must hold to be said to cover it
MERGED = (200, 30, 30)
_LEAST_SIDE = 144  # pixels, so that lines can be seen
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Faults:
    """What is wrong with a grouping: objects without a group of their own, and groups that cover several objects."""

    objects: int
    split: tuple[int, ...]  # labels of objects
    merged: tuple[int, ...]  # labels of groups

    def __str__(self) -> str:
        merged = f"{len(self.merged)} group{'' if len(self.merged) == 1 else 's'}"
        return f"{len(self.split)} of {self.objects} objects split, {merged} over several objects"


def faults(true: npt.ArrayLike, groups: npt.ArrayLike) -> Faults:
    """The objects that are split, and the groups that cover several; the ground, label 0 of the truth, is neither.

    An object is split if no group holds three quarters of it. A group covers an object if it holds half of it.

    >>> true = np.array([[0, 1, 1, 2, 2]])
    >>> faults(true, [[0, 1, 2, 3, 3]]).split, faults(true, [[0, 5, 5, 5, 5]]).merged
    ((1,), (5,))
    """
    truth, found = _maps(true, groups)
    objects = [int(label) for label in np.unique(truth) if label != 0]
    split, covered = [], dict[int, int]()
    for label in objects:
        names, counts = np.unique(found[truth == label], return_counts=True)
        shares = counts / counts.sum()
        if shares.max() < WHOLE:
            split.append(label)
        if shares.max() >= HELD:
            most = int(names[shares.argmax()])
            covered[most] = covered.get(most, 0) + 1
    return Faults(len(objects), tuple(split), tuple(group for group, count in sorted(covered.items()) if count > 1))


def matched_colors(true: npt.ArrayLike, groups: npt.ArrayLike) -> Bytes:
    """Groups [H, W] as a picture [H, W, 3]: each in the colour of the object that it fits best, if any is left."""
    truth, found = _maps(true, groups)
    objects, at = np.unique(truth, return_inverse=True)
    names, of = np.unique(found, return_inverse=True)
    table = np.zeros((len(objects), len(names)), np.int64)
    np.add.at(table, (at.reshape(-1), of.reshape(-1)), 1)
    union = table.sum(1, keepdims=True) + table.sum(0, keepdims=True) - table
    rows, columns = linear_sum_assignment(table / union, maximize=True)
    colors = {int(column): _color(int(objects[row])) for row, column in zip(rows, columns, strict=True)}
    spare = [color for label, color in enumerate(OBJECTS, 1) if label not in objects.tolist()] or list(OBJECTS)
    left = [column for column in range(len(names)) if column not in colors]
    colors |= {column: spare[number % len(spare)] for number, column in enumerate(left)}
    picture = np.array([colors[column] for column in range(len(names))], np.uint8)
    return np.asarray(picture[of.reshape(found.shape)])


def marked_picture(image: Bytes, true: npt.ArrayLike, groups: npt.ArrayLike) -> Bytes:
    """The groups' colours over the image [H, W, 3], split objects in a broken line, merging groups in a solid one."""
    truth, found = _maps(true, groups)
    if image.shape[:2] != truth.shape:
        raise InputError(f"the image has {image.shape[:2]} pixels and its labels {truth.shape}; they must agree")
    scale = -(-_LEAST_SIDE // min(truth.shape))
    grey = image.mean(2, keepdims=True)
    mixed = (0.35 * grey + 0.65 * matched_colors(truth, found)).astype(np.uint8)
    picture: Bytes = mixed.repeat(scale, 0).repeat(scale, 1)
    truth, found = (each.repeat(scale, 0).repeat(scale, 1) for each in (truth, found))
    what = faults(truth, found)
    for group in what.merged:
        picture[_edge(found == group, 3)] = MERGED
    row, column = np.indices(truth.shape)
    dash = ((row + column) // 6) % 2 == 0
    for label in what.split:
        line = _edge(truth == label, 3)
        picture[line & dash], picture[line & ~dash] = 0, 255
    return picture


def _edge(inside: npt.NDArray[np.bool_], width: int) -> npt.NDArray[np.bool_]:
    """The rim of a region, `width` pixels broad, also along the border of the image."""
    core = binary_erosion(inside, iterations=1)
    rim = inside & ~core
    return np.asarray(binary_dilation(rim, iterations=width // 2) & binary_dilation(inside, iterations=1))


def _color(label: int) -> tuple[int, int, int]:
    return GROUND if label == 0 else OBJECTS[(label - 1) % len(OBJECTS)]


def _maps(true: npt.ArrayLike, groups: npt.ArrayLike) -> tuple[Labels, Labels]:
    truth, found = (np.asarray(each).astype(np.int64) for each in (true, groups))
    if truth.shape != found.shape or truth.ndim != 2 or not truth.size:
        raise InputError(f"two maps [H, W] of one size are needed, not {list(truth.shape)} and {list(found.shape)}")
    return truth, found


def difference_picture(left: Any, right: Any) -> Bytes:
    """How far two images [3, H, W] of bytes are apart as a picture [H, W, 3]: white where alike, black from 128 on."""
    apart = np.abs(np.asarray(left, np.int16) - np.asarray(right, np.int16)).max(0)
    shade = (255 - np.minimum(2 * apart, 255)).astype(np.uint8)
    return np.repeat(shade[..., None], 3, 2)
