"""Label maps and the list of grouping metrics, for tests."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial import cKDTree

from alebrije.metrics import (
    adjusted_mutual_information,
    adjusted_rand_index,
    adjusted_rand_precision,
    adjusted_rand_recall,
    mean_best_overlap,
    mean_iou,
    segmentation_covering,
)


def mean_segmentation_covering(true, pred, ignore=None, ignored_pixels="kept"):
    return segmentation_covering(true, pred, ignore, weighted=False, ignored_pixels=ignored_pixels)


RAND = [adjusted_rand_index, adjusted_rand_precision, adjusted_rand_recall]
OVERLAP = [mean_iou, mean_best_overlap, segmentation_covering, mean_segmentation_covering]
METRICS = [*RAND, *OVERLAP, adjusted_mutual_information]
LOWEST, HIGHEST = -(2**63), 2**63 - 1


@st.composite
def label_maps(draw, labels=4):
    """Two small label maps [B, H, W], including constant maps, single pixels and one label per pixel."""
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)))
    pixels = np.arange(np.prod(shape)).reshape(shape)
    some = hnp.arrays(np.int64, shape, elements=st.integers(0, labels - 1))
    kinds = st.one_of(some, some, st.just(np.full(shape, 2)), st.just(pixels))
    return draw(kinds), draw(kinds)


def voronoi(side, labels, seed, shift=0.0):
    """A map [1, side, side] of `labels` compact segments around random centres; equal seeds differ only by `shift`."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, side, (labels, 2)) + shift * rng.normal(size=(labels, 2))
    pixels = np.stack(np.meshgrid(range(side), range(side), indexing="ij"), -1).reshape(-1, 2)
    return cKDTree(centres).query(pixels)[1].reshape(1, side, side)


def one_map(labels):
    """Labels of any shape as the single image [1, 1, N]."""
    return np.asarray(labels).reshape(1, 1, -1)


SQUARES = np.kron(np.arange(16).reshape(4, 4), np.ones((8, 8), int))[None]  # 16 objects, 1024 pixels


def merged(classes):
    """The squares with neighbours joined one by one, along a path that winds through the rows."""
    path = [0, 1, 2, 3, 7, 6, 5, 4, 8, 9, 10, 11, 15, 14, 13, 12]
    position = np.argsort(path)[SQUARES]
    return np.maximum(position - (16 - classes), 0)


def split(classes):
    """The squares with their right halves, and then the lower quarters of the first ones, cut off one by one."""
    pred = SQUARES.copy()
    rows, columns = np.indices((32, 32))
    for new in range(16, classes):
        square = SQUARES[0] == new % 16
        pred[0, square & (columns % 8 >= 4) & (rows % 8 >= (0 if new < 32 else 6))] = new
    return pred
