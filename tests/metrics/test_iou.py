"""Overlap metrics: agreement with all matchings, and values computed by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from alebrije.metrics import mean_best_overlap, mean_iou, segmentation_covering
from tests.metrics.label_maps import OVERLAP, label_maps, mean_segmentation_covering, one_map


def overlap_table(true, pred):
    table = np.zeros((len(np.unique(true)), len(np.unique(pred))))
    for (i, t), (j, p) in itertools.product(enumerate(np.unique(true)), enumerate(np.unique(pred))):
        inside, either = ((true == t) & (pred == p)).sum(), ((true == t) | (pred == p)).sum()
        table[i, j] = inside / either
    return table


@given(maps=label_maps(labels=4).filter(lambda maps: max(len(np.unique(labels)) for labels in maps) <= 4))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_mean_iou_is_the_best_of_all_matchings(maps):
    for true, pred in zip(*maps, strict=True):
        overlaps = overlap_table(true, pred)
        segments = len(overlaps)
        padded = np.pad(overlaps, ((0, 0), (0, segments)))  # a true segment may stay without a partner
        best = max(
            sum(padded[i, j] for i, j in enumerate(chosen)) / segments
            for chosen in itertools.permutations(range(padded.shape[1]), segments)
        )
        assert mean_iou(true[None], pred[None]).item() == pytest.approx(best, abs=1e-12)


@given(maps=label_maps())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_coverings_are_means_of_best_overlaps(maps):
    for true, pred in zip(*maps, strict=True):
        best = overlap_table(true, pred).max(1)
        sizes = np.unique(true, return_counts=True)[1]
        pair = true[None], pred[None]
        assert mean_best_overlap(*pair).item() == pytest.approx(best.mean(), abs=1e-12)
        assert mean_segmentation_covering(*pair).item() == pytest.approx(best.mean(), abs=1e-12)
        assert segmentation_covering(*pair).item() == pytest.approx((best * sizes).sum() / sizes.sum(), abs=1e-12)


@given(maps=label_maps())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_best_overlap_is_never_below_matched_overlap(maps):
    assert (mean_best_overlap(*maps) >= mean_iou(*maps) - 1e-12).all()


@pytest.mark.parametrize(
    ("true", "pred", "miou", "mbo", "sc", "msc"),
    [
        ([0, 0, 0, 1], [5, 5, 5, 5], 3 / 8, 1 / 2, 5 / 8, 1 / 2),  # merged: 3/4 and 1/4
        ([0, 0, 1, 1], [0, 1, 2, 3], 1 / 2, 1 / 2, 1 / 2, 1 / 2),  # split
        ([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2], 1 / 2, 1 / 2, 19 / 36, 1 / 2),  # 2/3, 1/3, 1/2
        ([0, 0, 1, 1], [0, 1, 0, 1], 1 / 3, 1 / 3, 1 / 3, 1 / 3),
        ([0, 0, 0, 0], [0, 1, 1, 1], 3 / 4, 3 / 4, 3 / 4, 3 / 4),
        ([0], [9], 1, 1, 1, 1),
    ],
)
def test_overlaps_computed_by_hand(true, pred, miou, mbo, sc, msc):
    found = [metric(one_map(true), one_map(pred)).item() for metric in OVERLAP]
    np.testing.assert_allclose(found, [miou, mbo, sc, msc], rtol=1e-12)
