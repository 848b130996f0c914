"""Grouping: agreement with pair counting and scikit-learn, the propositions of Zimmermann et al., odd label maps."""

import contextlib
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from references import ari_pairs, arp_pairs, arr_pairs
from scipy.spatial import cKDTree
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from alebrije.errors import InputError, UndefinedMetricWarning
from alebrije.metrics import (
    adjusted_mutual_information,
    adjusted_rand_index,
    adjusted_rand_precision,
    adjusted_rand_recall,
    labels_from_masks,
    mean_best_overlap,
    mean_iou,
    segmentation_covering,
)


def mean_segmentation_covering(true, pred, ignore=None):
    return segmentation_covering(true, pred, ignore, weighted=False)


RAND = [adjusted_rand_index, adjusted_rand_precision, adjusted_rand_recall]
OVERLAP = [mean_iou, mean_best_overlap, segmentation_covering, mean_segmentation_covering]
METRICS = [*RAND, *OVERLAP, adjusted_mutual_information]

LOWEST, HIGHEST = -(2**63), 2**63 - 1


@st.composite
def label_maps(draw, labels=4):
    """Two small label maps [B, H, W]; constant maps, single pixels and a label for every pixel are among them."""
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)))
    pixels = np.arange(np.prod(shape)).reshape(shape)
    some = hnp.arrays(np.int64, shape, elements=st.integers(0, labels - 1))
    kinds = st.one_of(some, some, st.just(np.full(shape, 2)), st.just(pixels))
    return draw(kinds), draw(kinds)


def voronoi(side, labels, seed, shift=0.0):
    """A map [1, side, side] of `labels` compact segments around random centres, the same per seed but for `shift`."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0, side, (labels, 2)) + shift * rng.normal(size=(labels, 2))
    pixels = np.stack(np.meshgrid(range(side), range(side), indexing="ij"), -1).reshape(-1, 2)
    return cKDTree(centres).query(pixels)[1].reshape(1, side, side)


def one_map(labels):
    """Labels of any shape as the single image [1, 1, N]."""
    return np.asarray(labels).reshape(1, 1, -1)


# Agreement with pair counting and with scikit-learn


@pytest.mark.parametrize(("metric", "reference"), [(RAND[0], ari_pairs), (RAND[1], arp_pairs), (RAND[2], arr_pairs)])
@given(maps=label_maps())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_rand_scores_count_pairs(metric, reference, maps):
    slow = [reference(true.ravel(), pred.ravel()) for true, pred in zip(*maps, strict=True)]
    np.testing.assert_allclose(metric(*maps), slow, rtol=1e-12, atol=1e-12)


@given(maps=label_maps(labels=6))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_small_maps_agree_with_scikit_learn(maps):
    pairs = [(true.ravel(), pred.ravel()) for true, pred in zip(*maps, strict=True)]
    slow = [adjusted_rand_score(*pair) for pair in pairs]
    np.testing.assert_allclose(adjusted_rand_index(*maps), slow, rtol=1e-12, atol=1e-12)
    slow = [adjusted_mutual_info_score(*pair) for pair in pairs]
    # a few pixels may leave a denominator near 1e-16 over which both sides divide what rounding left
    np.testing.assert_allclose(adjusted_mutual_information(*maps), slow, rtol=1e-9, atol=1e-9)


LARGE_MAPS = {
    "11 objects": (voronoi(512, 11, seed=0), voronoi(512, 11, seed=0, shift=30)),
    "objects against stripes": (voronoi(512, 7, seed=1), np.indices((1, 512, 512))[1] // 60),
    "noise": tuple(np.random.default_rng(2).integers(0, 11, (2, 1, 512, 512))),
    "200 labels": (voronoi(256, 200, seed=3), voronoi(256, 200, seed=3, shift=3)),
}


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("maps", LARGE_MAPS.values(), ids=LARGE_MAPS)
def test_large_maps_agree_with_scikit_learn(maps, extreme):
    if extreme:  # the same segments under integers from all over int64, its two ends among them
        rng = np.random.default_rng(4)
        names = np.concatenate([[HIGHEST, LOWEST], rng.integers(LOWEST, HIGHEST, 300, dtype=np.int64)])
        maps = [names[labels] for labels in maps]
    true, pred = (labels.ravel() for labels in maps)
    np.testing.assert_allclose(adjusted_rand_index(*maps), [adjusted_rand_score(true, pred)], rtol=0, atol=1e-12)
    slow = adjusted_mutual_info_score(true, pred)
    np.testing.assert_allclose(adjusted_mutual_information(*maps), [slow], rtol=0, atol=1e-12)


def test_200_labels_on_a_large_map():
    maps = voronoi(512, 200, seed=5), voronoi(512, 200, seed=5, shift=5)
    slow = adjusted_rand_score(*(labels.ravel() for labels in maps))
    assert 0.3 < slow < 0.95
    np.testing.assert_allclose(adjusted_rand_index(*maps), [slow], rtol=0, atol=1e-12)


# Zimmermann et al.: Propositions 2, 3 and 4, and Figure 9


@given(maps=label_maps())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_proposition_2_precision_is_recall_with_the_maps_exchanged(maps):
    np.testing.assert_allclose(adjusted_rand_precision(*maps), adjusted_rand_recall(*maps[::-1]), rtol=1e-12)


@given(maps=label_maps())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_proposition_3_the_index_is_the_harmonic_mean(maps):
    for index, precision, recall in zip(*(metric(*maps) for metric in RAND), strict=True):
        # multiplied out, for the harmonic mean of 0 and anything is 0
        assert index * (precision + recall) == pytest.approx(2 * precision * recall, rel=1e-9, abs=1e-9)
        if min(abs(precision), abs(recall)) > 1e-9:
            assert index == pytest.approx(2 / (1 / precision + 1 / recall), rel=1e-9)


@given(maps=label_maps())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_proposition_4_the_index_lies_between(maps):
    index, precision, recall = (metric(*maps) for metric in RAND)
    assert (np.minimum(precision, recall) <= index + 1e-12).all()
    assert (index <= np.maximum(precision, recall) + 1e-12).all()


SQUARES = np.kron(np.arange(16).reshape(4, 4), np.ones((8, 8), int))[None]  # 16 objects, 1024 pixels


def merged(classes):
    """The squares with neighbours joined one by one, along a path that winds through the rows."""
    path = [0, 1, 2, 3, 7, 6, 5, 4, 8, 9, 10, 11, 15, 14, 13, 12]
    place = np.argsort(path)[SQUARES]
    return np.maximum(place - (16 - classes), 0)


def split(classes):
    """The squares with their right halves, and then the lower quarters of the first ones, cut off one by one."""
    pred = SQUARES.copy()
    rows, columns = np.indices((32, 32))
    for new in range(16, classes):
        square = SQUARES[0] == new % 16
        pred[0, square & (columns % 8 >= 4) & (rows % 8 >= (0 if new < 32 else 6))] = new
    return pred


def pairs_within(labels):
    counts = np.unique(labels, return_counts=True)[1]
    return float((counts * (counts - 1) // 2).sum())


def test_figure_9_merging_lowers_precision_alone():
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


def test_figure_9_splitting_lowers_recall_alone():
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


@pytest.mark.parametrize("metric", [adjusted_rand_index, *OVERLAP, adjusted_mutual_information])
def test_figure_9_has_its_peak_at_the_true_number_of_objects(metric):
    found = [metric(SQUARES, pred).item() for pred in (merged(14), merged(15), 7 - 3 * SQUARES, split(17), split(18))]
    assert found[2] == pytest.approx(1, abs=1e-12)
    assert found[0] < found[1] < 0.999
    assert found[4] < found[3] < 0.999


# Very many labels


def test_every_pixel_its_own_label():
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


def test_the_sparse_path_counts_the_same_pairs():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 5000, (2, 128, 128))
    pred = np.where(rng.random(true.shape) < 0.6, true, rng.integers(0, 5000, true.shape))
    assert len(np.unique(true[0])) * len(np.unique(pred[0])) > 1 << 24  # too many for a table
    slow = [adjusted_rand_score(t.ravel(), p.ravel()) for t, p in zip(true, pred, strict=True)]
    np.testing.assert_allclose(adjusted_rand_index(true, pred), slow, rtol=0, atol=1e-12)
    shifted = adjusted_rand_index(true, pred, ignore=7)
    keep = true[0] != 7
    np.testing.assert_allclose(shifted[0], adjusted_rand_score(true[0][keep], pred[0][keep]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", [*OVERLAP, adjusted_mutual_information])
def test_what_needs_a_table_says_when_it_cannot_have_one(metric):
    pixels = np.arange(128 * 128).reshape(1, 128, 128)
    with pytest.raises(InputError, match="16384 true and 16384 predicted labels: too many"):
        metric(pixels, pixels)


# Foreground, video


@pytest.mark.parametrize("metric", METRICS)
@given(maps=label_maps(), ignore=st.sampled_from([0, 1, 3, -5, HIGHEST, LOWEST]))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_foreground_is_what_is_left_when_pixels_are_deleted(metric, maps, ignore):
    true, pred = maps
    if ignore in (HIGHEST, LOWEST):
        true = np.where(true == 2, ignore, true)
    for t, p in zip(true, pred, strict=True):
        keep = t != ignore
        if keep.any():
            expected = metric(one_map(t[keep]), one_map(p[keep]))
            np.testing.assert_allclose(metric(t[None], p[None], ignore=ignore), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
@pytest.mark.parametrize("metric", METRICS)
def test_an_image_without_foreground_has_no_value(metric, kind):
    rng = np.random.default_rng(0)
    true, pred = rng.integers(0, 4, (2, 3, 6, 6))
    true[1] = 0
    with pytest.warns(
        UndefinedMetricWarning, match="1 of 3 images have no pixel left to score: not a number"
    ) as caught:
        values = metric(kind(true), kind(pred), ignore=0)
    assert len(caught) == 1
    assert np.isnan(np.asarray(values)).tolist() == [False, True, False]
    others = metric(true[[0, 2]], pred[[0, 2]], ignore=0)
    np.testing.assert_array_equal(np.asarray(values)[[0, 2]], others)


@pytest.mark.parametrize("metric", [*RAND, *OVERLAP[:3], adjusted_mutual_information])
def test_the_warning_points_at_the_call(metric):
    empty = np.zeros((1, 2, 2), int)
    with pytest.warns(UndefinedMetricWarning) as caught:
        metric(empty, empty, ignore=0)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("ignore", [None, 0])
@pytest.mark.parametrize("metric", METRICS)
def test_a_video_is_one_tall_image(metric, ignore):
    rng = np.random.default_rng(0)
    true, pred = rng.integers(0, 4, (2, 3, 5, 6, 7))
    flat = metric(true.reshape(3, 30, 7), pred.reshape(3, 30, 7), ignore=ignore)
    np.testing.assert_array_equal(metric(true, pred, ignore=ignore), flat)
    assert flat.shape == (3,)
    frames = metric(true[0], pred[0], ignore=ignore)
    assert abs(frames.mean() - flat[0]) > 1e-6  # a video's value is not the mean over its frames


# Overlaps


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
def test_overlaps_worked_out_by_hand(true, pred, miou, mbo, sc, msc):
    found = [metric(one_map(true), one_map(pred)).item() for metric in OVERLAP]
    np.testing.assert_allclose(found, [miou, mbo, sc, msc], rtol=1e-12)


# Labels from masks


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_labels_from_masks(kind):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, (3, 4, 6, 7))  # [B, T, H, W]
    hard = np.moveaxis(np.eye(5)[labels], -1, 2)  # [B, T, K, H, W]
    soft = 0.9 * hard + 0.2 * rng.random(hard.shape)
    for masks in (hard, hard.astype(bool), hard.astype(np.uint8), hard.astype(np.float32), soft, soft - 7):
        found = labels_from_masks(kind(masks))
        assert type(found) is type(kind(labels))
        np.testing.assert_array_equal(np.asarray(found), labels)
        np.testing.assert_array_equal(np.asarray(labels_from_masks(kind(masks[:, 0]))), labels[:, 0])


def test_of_equal_masks_the_first_wins():
    masks = np.array([0.2, 0.4, 0.4]).reshape(1, 3, 1, 1)
    for kind in (np.asarray, torch.tensor):
        assert labels_from_masks(kind(masks)).item() == 1
        assert labels_from_masks(kind(np.zeros((1, 3, 1, 1), bool))).item() == 0


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (np.zeros((3, 4, 4)), r"masks must have shape \[B, K, H, W\] or \[B, T, K, H, W\].* got \[3, 4, 4\]"),
        (np.full((1, 2, 3, 3), np.nan), "masks must be finite"),
        (np.full((1, 2, 3, 3), -np.inf), "masks must be finite"),
        (np.zeros((1, 0, 3, 3)), "masks"),  # no mask at all
        (np.zeros((1, 2, 3, 3), complex), "masks"),
    ],
)
def test_unusable_masks_are_refused(kind, masks, message):
    with pytest.raises(InputError, match=message):
        labels_from_masks(kind(masks))


# What is accepted and what is refused

TRUE, PRED = np.random.default_rng(0).integers(0, 5, (2, 3, 8, 8))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_any_integers_are_accepted(metric, dtype):
    values = (TRUE > 1, PRED > 2) if dtype == "bool" else (TRUE, PRED)
    expected = metric(*(labels.astype(np.int64) for labels in values))
    true, pred = (labels.astype(dtype) for labels in values)
    np.testing.assert_array_equal(metric(true, pred), expected)
    np.testing.assert_array_equal(metric(torch.tensor(true), torch.tensor(pred)), expected)
    np.testing.assert_array_equal(metric(true, values[1]), expected)
    np.testing.assert_array_equal(metric(values[0], pred), expected)


@pytest.mark.parametrize("metric", METRICS)
def test_labels_at_both_ends_of_int64_are_kept_apart(metric):
    names = np.array([LOWEST, LOWEST + 1, 0, HIGHEST - 1, HIGHEST])
    np.testing.assert_array_equal(metric(names[TRUE], names[PRED]), metric(TRUE, PRED))
    expected = metric(TRUE, PRED, ignore=4)
    np.testing.assert_array_equal(metric(names[TRUE], names[PRED], ignore=HIGHEST), expected)


@pytest.mark.parametrize("metric", METRICS)
def test_any_numpy_layout_is_accepted(metric):
    locked = TRUE.astype(">i4")[:, ::-1]
    locked.setflags(write=False)
    np.testing.assert_array_equal(metric(locked, PRED[:, ::-1]), metric(TRUE, PRED))
    np.testing.assert_array_equal(metric(np.asfortranarray(TRUE), PRED), metric(TRUE, PRED))


@pytest.mark.parametrize("metric", METRICS)
def test_an_empty_batch_has_no_values_or_is_refused(metric):
    with contextlib.suppress(InputError):
        assert metric(TRUE[:0], PRED[:0]).shape == (0,)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("true", "pred", "message"),
    [
        (TRUE[0], PRED[0], r"true must have shape \[B, H, W\] or \[B, T, H, W\], got \[8, 8\]; labels_from_masks"),
        (TRUE, PRED[0], r"pred must have shape"),
        (TRUE[None, None], PRED[None, None], r"true must have shape .* got \[1, 1, 3, 8, 8\]"),
        (TRUE, PRED[:2], r"true and pred must have one shape, got \[3, 8, 8\] and \[2, 8, 8\]"),
        (TRUE * 1.0, PRED, "true must hold integer labels, got dtype float64"),
        (TRUE, PRED.astype(np.float32), "pred must hold integer labels, got dtype float32"),
        (TRUE, np.full(PRED.shape, np.nan), "pred must hold integer labels"),
        (TRUE, PRED.astype(str), "pred must hold integer labels"),
        (TRUE, PRED.astype(complex), "pred must hold integer labels, got dtype complex128"),
        (torch.tensor(TRUE), torch.tensor(PRED).half(), "pred must hold integer labels, got dtype torch.float16"),
        (torch.tensor(TRUE), torch.tensor(PRED) * 1j, "pred must hold integer labels, got dtype torch.complex64"),
        (TRUE.tolist(), PRED, "true must be a numpy array or a torch tensor, got list"),
        (TRUE, None, "pred must be a numpy array or a torch tensor, got NoneType"),
    ],
)
def test_unusable_maps_are_refused(metric, true, pred, message):
    with pytest.raises(InputError, match=message):
        metric(true, pred)
