"""Label maps: what all grouping metrics accept, ignore and refuse."""

import contextlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alebrije.errors import InputError, UndefinedMetricWarning
from alebrije.metrics import adjusted_mutual_information, adjusted_rand_index
from tests.metrics.label_maps import (
    HIGHEST,
    LOWEST,
    METRICS,
    OVERLAP,
    RAND,
    SQUARES,
    label_maps,
    merged,
    one_map,
    split,
)


@pytest.mark.parametrize("metric", [adjusted_rand_index, *OVERLAP, adjusted_mutual_information])
def test_figure_9_peaks_at_the_true_number_of_objects(metric):
    found = [metric(SQUARES, pred).item() for pred in (merged(14), merged(15), 7 - 3 * SQUARES, split(17), split(18))]
    assert found[2] == pytest.approx(1, abs=1e-12)
    assert found[0] < found[1] < 0.999
    assert found[4] < found[3] < 0.999


@pytest.mark.parametrize("metric", [*OVERLAP, adjusted_mutual_information])
def test_too_many_labels_for_a_table_are_refused(metric):
    pixels = np.arange(128 * 128).reshape(1, 128, 128)
    with pytest.raises(InputError, match="16384 true and 16384 predicted labels: too many"):
        metric(pixels, pixels)


@pytest.mark.parametrize("metric", METRICS)
@given(maps=label_maps(), ignore=st.sampled_from([0, 1, 3, -5, HIGHEST, LOWEST]))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_ignoring_pixels_equals_deleting_them(metric, maps, ignore):
    true, pred = maps
    dropped = {"ignored_pixels": "dropped"} if metric in OVERLAP else {}
    if ignore in (HIGHEST, LOWEST):
        true = np.where(true == 2, ignore, true)
    for t, p in zip(true, pred, strict=True):
        keep = t != ignore
        if keep.any():
            expected = metric(one_map(t[keep]), one_map(p[keep]))
            found = metric(t[None], p[None], ignore=ignore, **dropped)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("ignore", "words"),
    [
        (0.9, "ignore must be a whole number, not 0.9"),
        (1.0, "ignore must be a whole number, not 1.0"),
        (True, "ignore must be a whole number, not True"),
        ("0", "ignore must be a whole number, not '0'"),
        (2**70, r"ignore must be a label below 2\*\*64"),
        (-(2**70), "ignore must be at least -9223372036854775808"),
    ],
)
def test_only_labels_can_be_ignored(metric, ignore, words):
    with pytest.raises(InputError, match=words):
        metric(TRUE, PRED, ignore=ignore)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
@pytest.mark.parametrize("metric", METRICS)
def test_image_without_foreground_is_nan_and_warns(metric, kind):
    rng = np.random.default_rng(0)
    true, pred = rng.integers(0, 4, (2, 3, 6, 6))
    true[1] = 0
    with pytest.warns(
        UndefinedMetricWarning, match="1 of 3 images have no pixels left to score: their values are NaN"
    ) as caught:
        values = metric(kind(true), kind(pred), ignore=0)
    assert len(caught) == 1
    assert np.isnan(np.asarray(values)).tolist() == [False, True, False]
    others = metric(true[[0, 2]], pred[[0, 2]], ignore=0)
    np.testing.assert_array_equal(np.asarray(values)[[0, 2]], others)


@pytest.mark.parametrize("metric", [*RAND, *OVERLAP[:3], adjusted_mutual_information])
def test_warning_points_at_the_caller(metric):
    empty = np.zeros((1, 2, 2), int)
    with pytest.warns(UndefinedMetricWarning) as caught:
        metric(empty, empty, ignore=0)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("ignore", [None, 0])
@pytest.mark.parametrize("metric", METRICS)
def test_video_counts_as_one_image(metric, ignore):
    rng = np.random.default_rng(0)
    true, pred = rng.integers(0, 4, (2, 3, 5, 6, 7))
    flat = metric(true.reshape(3, 30, 7), pred.reshape(3, 30, 7), ignore=ignore)
    np.testing.assert_array_equal(metric(true, pred, ignore=ignore), flat)
    assert flat.shape == (3,)
    frames = metric(true[0], pred[0], ignore=ignore)
    assert abs(frames.mean() - flat[0]) > 1e-6  # a video's value is not the mean over its frames


TRUE, PRED = np.random.default_rng(0).integers(0, 5, (2, 3, 8, 8))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_all_integer_dtypes_are_accepted(metric, dtype):
    values = (TRUE > 1, PRED > 2) if dtype == "bool" else (TRUE, PRED)
    expected = metric(*(labels.astype(np.int64) for labels in values))
    true, pred = (labels.astype(dtype) for labels in values)
    np.testing.assert_array_equal(metric(true, pred), expected)
    np.testing.assert_array_equal(metric(torch.tensor(true), torch.tensor(pred)), expected)
    np.testing.assert_array_equal(metric(true, values[1]), expected)
    np.testing.assert_array_equal(metric(values[0], pred), expected)


@pytest.mark.parametrize("metric", METRICS)
def test_labels_at_both_ends_of_int64_differ(metric):
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
        (TRUE, PRED[:2], r"true and pred must have the same shape, got \[3, 8, 8\] and \[2, 8, 8\]"),
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
