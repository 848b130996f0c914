"""Segmentations as pictures that mark split objects and merged objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from alebrije.arrays import Bytes, Flags, Integers
from alebrije.errors import InputError
from alebrije.sheets.sheet import GROUND, OBJECTS

WHOLE = 0.75  # an object is split unless one group covers at least this share of it
HELD = 0.5  # a group covers an object if it has at least this share of it
MERGED = (200, 30, 30)
_LEAST_SIDE = 144  # pixels, so that lines are visible


@dataclass(frozen=True)
class Faults:
    """What is wrong with a grouping: split objects, and groups that cover several objects."""

    objects: int
    split: tuple[int, ...]  # labels of objects
    merged: tuple[int, ...]  # labels of groups

    def __str__(self) -> str:
        merged = f"{len(self.merged)} group{'' if len(self.merged) == 1 else 's'}"
        return f"{len(self.split)} of {self.objects} objects split, {merged} over several objects"


def faults(true: npt.ArrayLike, groups: npt.ArrayLike) -> Faults:
    """The split objects and the groups that cover several. The background, label 0 of the truth, is neither.

    An object is split if no group covers three quarters of it. A group covers an object if it has half of it.

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
    """Groups [H, W] as a picture [H, W, 3], each in the colour of the object it is matched to."""
    from scipy.optimize import linear_sum_assignment

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
    """The groups' colours over the image [H, W, 3], with dashed lines at split objects and solid ones at merges."""
    truth, found = _maps(true, groups)
    if image.shape[:2] != truth.shape:
        raise InputError(f"the image and its labels must have the same size, not {image.shape[:2]} and {truth.shape}")
    return _marked(image, truth, found, matched_colors(truth, found), faults(truth, found))


def marked_frames(images: Sequence[Bytes], true: npt.ArrayLike, groups: npt.ArrayLike) -> tuple[list[Bytes], Faults]:
    """`marked_picture` for T frames or views [T, H, W]: colours and marks are about all of them together."""
    shape = np.shape(true)
    whole = tuple(np.reshape(labels, (-1, shape[-1])) for labels in (true, groups))  # one tall picture
    colors, what = matched_colors(*whole).reshape(*shape, 3), faults(*whole)
    each = zip(images, *(np.asarray(labels).astype(np.int64) for labels in (true, groups)), colors, strict=True)
    return [_marked(image, truth, found, color, what) for image, truth, found, color in each], what


def _marked(image: Bytes, truth: Integers, found: Integers, colors: Bytes, what: Faults) -> Bytes:
    """One picture, with the marks of these faults."""
    scale = -(-_LEAST_SIDE // min(truth.shape))
    grey = image.mean(2, keepdims=True)
    mixed = (0.35 * grey + 0.65 * colors).astype(np.uint8)
    picture: Bytes = mixed.repeat(scale, 0).repeat(scale, 1)
    truth, found = (each.repeat(scale, 0).repeat(scale, 1) for each in (truth, found))
    for group in what.merged:
        picture[_edge(found == group, 3)] = MERGED
    row, column = np.indices(truth.shape)
    dash = ((row + column) // 6) % 2 == 0
    for label in what.split:
        line = _edge(truth == label, 3)
        picture[line & dash], picture[line & ~dash] = 0, 255
    return picture


def _edge(inside: Flags, width: int) -> Flags:
    """The outline of a region, `width` pixels wide, also along the image border."""
    from scipy.ndimage import binary_dilation, binary_erosion

    core = binary_erosion(inside, iterations=1)
    rim = inside & ~core
    return np.asarray(binary_dilation(rim, iterations=width // 2) & binary_dilation(inside, iterations=1))


def _color(label: int) -> tuple[int, int, int]:
    return GROUND if label == 0 else OBJECTS[(label - 1) % len(OBJECTS)]


def _maps(true: npt.ArrayLike, groups: npt.ArrayLike) -> tuple[Integers, Integers]:
    truth, found = (np.asarray(each).astype(np.int64) for each in (true, groups))
    if truth.shape != found.shape or truth.ndim != 2 or not truth.size:
        raise InputError(
            f"two label maps [H, W] of the same size are needed, not {list(truth.shape)} and {list(found.shape)}"
        )
    return truth, found
