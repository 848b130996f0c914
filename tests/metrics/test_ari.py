"""ARI, ARP and ARR: agreement with pair counting and scikit-learn, and the propositions of Zimmermann et al."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.metrics import adjusted_rand_score

from alebrije import metrics
from alebrije.metrics import adjusted_rand_index, adjusted_rand_precision, adjusted_rand_recall
from tests.metrics.label_maps import RAND, SQUARES, label_maps, merged, split, voronoi
from tests.metrics.references import ari_pairs, arp_pairs, arr_pairs


@pytest.mark.parametrize(("metric", "reference"), [(RAND[0], ari_pairs), (RAND[1], arp_pairs), (RAND[2], arr_pairs)])
@given(maps=label_maps())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_rand_scores_agree_with_pair_counting(metric, reference, maps):
    slow = [reference(true.ravel(), pred.ravel()) for true, pred in zip(*maps, strict=True)]
    np.testing.assert_allclose(metric(*maps), slow, rtol=1e-12, atol=1e-12)


def test_200_labels_on_a_large_map():
    maps = voronoi(512, 200, seed=5), voronoi(512, 200, seed=5, shift=5)
    slow = adjusted_rand_score(*(labels.ravel() for labels in maps))
    assert 0.3 < slow < 0.95
    np.testing.assert_allclose(adjusted_rand_index(*maps), [slow], rtol=0, atol=1e-12)


@given(maps=label_maps())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_proposition_2_precision_is_recall_of_swapped_maps(maps):
    np.testing.assert_allclose(adjusted_rand_precision(*maps), adjusted_rand_recall(*maps[::-1]), rtol=1e-12)


@given(maps=label_maps())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_proposition_3_index_is_the_harmonic_mean(maps):
    for index, precision, recall in zip(*(metric(*maps) for metric in RAND), strict=True):
        # multiplied out, for the harmonic mean of 0 and anything is 0
        assert index * (precision + recall) == pytest.approx(2 * precision * recall, rel=1e-9, abs=1e-9)
        if min(abs(precision), abs(recall)) > 1e-9:
            assert index == pytest.approx(2 / (1 / precision + 1 / recall), rel=1e-9)


@given(maps=label_maps())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_proposition_4_index_lies_between_precision_and_recall(maps):
    index, precision, recall = (metric(*maps) for metric in RAND)
    assert (np.minimum(precision, recall) <= index + 1e-12).all()
    assert (index <= np.maximum(precision, recall) + 1e-12).all()


def pairs_within(labels):
    counts = np.unique(labels, return_counts=True)[1]
    return float((counts * (counts - 1) // 2).sum())


def test_figure_9_merging_lowers_only_precision():
    together, every = pairs_within(SQUARES), 1024 * 1023 / 2
    precisions = []
    for classes in range(15, 0, -1):
        pred = merged(classes)
        assert len(np.unique(pred)) == classes
        joined = pairs_within(pred)
        index, precision, recall = (metric(SQUARES, pred).item() for metric in RAND)
        assert recall == pytest.approx(1, abs=1e-12)
        # Equation 11 where every true pair is found: both = together
        expected = together * (every - joined) / (joined * (every - together))
        assert precision == pytest.approx(expected, abs=1e-12)
        assert precision - 1e-12 <= index < 1 - 1e-3
        precisions.append(precision)
    assert (np.diff([1.0, *precisions]) < 0).all()
    assert precisions[-1] == 0


def test_figure_9_splitting_lowers_only_recall():
    together, every = pairs_within(SQUARES), 1024 * 1023 / 2
    recalls = []
    for classes in range(17, 41):
        pred = split(classes)
        assert len(np.unique(pred)) == classes
        joined = pairs_within(pred)
        index, precision, recall = (metric(SQUARES, pred).item() for metric in RAND)
        assert precision == pytest.approx(1, abs=1e-12)
        expected = joined * (every - together) / (together * (every - joined))
        assert recall == pytest.approx(expected, abs=1e-12)
        assert recall - 1e-12 <= index < 1 - 1e-3
        recalls.append(recall)
    assert (np.diff([1.0, *recalls]) < 0).all()


def test_one_label_per_pixel():
    pixels = np.arange(128 * 128).reshape(1, 128, 128)
    halves = pixels // (64 * 128)
    for true, pred, expected in (
        (pixels, pixels, (1, 1, 1)),
        (halves, pixels, (0, 1, 0)),  # no pair is joined: nothing wrong, nothing found
        (pixels, halves, (0, 0, 1)),
        (pixels, pixels[:, ::-1] * 3 - 10**9, (1, 1, 1)),
    ):
        found = [metric(true, pred).item() for metric in RAND]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_sparse_counts_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 5000, (2, 128, 128))
    pred = np.where(rng.random(true.shape) < 0.6, true, rng.integers(0, 5000, true.shape))
    assert len(np.unique(true[0])) * len(np.unique(pred[0])) > 1 << 24  # too many for a table
    slow = [adjusted_rand_score(t.ravel(), p.ravel()) for t, p in zip(true, pred, strict=True)]
    np.testing.assert_allclose(adjusted_rand_index(true, pred), slow, rtol=0, atol=1e-12)
    shifted = adjusted_rand_index(true, pred, ignore=7)
    keep = true[0] != 7
    np.testing.assert_allclose(shifted[0], adjusted_rand_score(true[0][keep], pred[0][keep]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [">u8", ">i4", "<u8"])
def test_any_byte_order_is_accepted(dtype):
    true, pred = np.random.default_rng(0).integers(0, 4, (2, 3, 8, 8))
    np.testing.assert_array_equal(
        metrics.adjusted_rand_index(true.astype(dtype), pred.astype(dtype)), metrics.adjusted_rand_index(true, pred)
    )


def test_labels_beyond_int64_can_be_ignored():
    true, pred = np.random.default_rng(0).integers(0, 4, (2, 3, 8, 8))
    large = true.astype(np.uint64) + np.uint64(2**63)
    np.testing.assert_array_equal(
        metrics.adjusted_rand_index(large, pred, ignore=2**63), metrics.adjusted_rand_index(true, pred, ignore=0)
    )
    np.testing.assert_array_equal(
        metrics.adjusted_rand_index(true, pred, ignore=torch.tensor(1)),
        metrics.adjusted_rand_index(true, pred, ignore=1),
    )
