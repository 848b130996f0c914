"""Label maps from masks."""

import numpy as np
import pytest
import torch

from alebrije.errors import InputError
from alebrije.metrics import labels_from_masks


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


def test_first_of_equal_masks_wins():
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


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_masks_may_keep_their_channel(kind):
    labels = np.random.default_rng(0).integers(0, 5, (3, 4, 6, 7))  # [B, T, H, W]
    masks = np.moveaxis(np.eye(5)[labels], -1, 2)  # [B, T, K, H, W]
    np.testing.assert_array_equal(np.asarray(labels_from_masks(kind(masks[:, 0, :, None]))), labels[:, 0])
    np.testing.assert_array_equal(np.asarray(labels_from_masks(kind(masks[:, :, :, None]))), labels)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_masks_of_unsigned_numbers(dtype):
    labels = np.random.default_rng(0).integers(0, 5, (3, 6, 7))
    masks = np.moveaxis(np.eye(5, dtype=dtype)[labels], -1, 1)
    np.testing.assert_array_equal(labels_from_masks(masks), labels)


def test_video_of_one_slot_is_not_read_as_a_channel():
    masks = np.random.default_rng(0).random((2, 3, 1, 4, 4))
    assert labels_from_masks(masks).shape == (2, 4, 4)
    found = labels_from_masks(masks, video=True)
    np.testing.assert_array_equal(found, np.zeros((2, 3, 4, 4)))


@pytest.mark.parametrize(
    ("shape", "video", "words"),
    [
        ((2, 3, 4, 4), True, r"masks must have shape \[B, T, K, H, W\] with no empty axis, got \[2, 3, 4, 4\]"),
        ((2, 3, 5, 4, 4), False, r"masks must have shape \[B, K, H, W\] with no empty axis, got \[2, 3, 5, 4, 4\]"),
        ((2, 3, 4, 4), "yes", "video must be True or False, not"),
    ],
)
def test_masks_of_another_kind_are_refused(shape, video, words):
    with pytest.raises(InputError, match=words):
        labels_from_masks(np.zeros(shape), video=video)


@pytest.mark.parametrize("masks", [False, None, "x", [[1.0]], 3])
def test_what_is_no_array_is_refused(masks):
    with pytest.raises(InputError, match="masks must be a numpy array or a torch tensor, got"):
        labels_from_masks(masks)
