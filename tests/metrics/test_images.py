"""Pairs of images: what the image metrics accept and refuse."""

import numpy as np
import pytest
import torch

from alebrije.errors import InputError
from alebrije.metrics import catalog, mean_squared_error, psnr
from tests.metrics.image_pairs import DEVICES, PREDICTED, TARGET


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("metric", [mean_squared_error, psnr])
def test_tensors_return_tensors(metric, device):
    expected = metric(TARGET, PREDICTED)
    assert isinstance(expected, np.ndarray)
    assert expected.dtype == np.float64
    target = torch.tensor(TARGET, device=device)
    predicted = torch.tensor(PREDICTED, device=device, requires_grad=True)
    got = metric(target, predicted)
    assert got.device == target.device
    assert not got.requires_grad
    np.testing.assert_allclose(got.cpu(), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_floats_are_computed_in_float64(dtype):
    target, predicted = torch.tensor(TARGET).to(dtype), torch.tensor(PREDICTED).to(dtype)
    expected = mean_squared_error(target.double().numpy(), predicted.double().numpy())
    np.testing.assert_array_equal(mean_squared_error(target, predicted), expected)


def test_any_numpy_layout_is_accepted():
    locked = TARGET.astype(">f4")[:, :, ::-1]
    locked.setflags(write=False)
    np.testing.assert_allclose(
        mean_squared_error(locked, PREDICTED[:, :, ::-1]), mean_squared_error(TARGET, PREDICTED), rtol=1e-5
    )


NAN = np.where(np.arange(126).reshape(1, 3, 6, 7) == 50, np.nan, 0.5)


@pytest.mark.parametrize(
    ("target", "predicted", "message"),
    [
        (TARGET, PREDICTED[:4], r"same shape, got \[5, 3, 6, 7\] and \[4, 3, 6, 7\]"),
        (TARGET[0], PREDICTED[0], r"target must have shape \[B, C, H, W\]"),
        (TARGET[:0], PREDICTED[:0], r"no empty axis, got \[0, 3, 6, 7\]"),
        (TARGET * 255, PREDICTED, r"target must be uint8 or float in 0..1, got values in"),
        (TARGET * 2 - 1, PREDICTED, r"target must be uint8 or float in 0..1, got values in -0.99"),
        (NAN, TARGET[:1], "target must be finite"),
        (TARGET[:1], NAN, "predicted must be finite"),
        (TARGET[:1], np.full((1, 3, 6, 7), np.inf), "predicted must be finite"),
        (TARGET.astype(int), PREDICTED, "target must be uint8 or float in 0..1, got dtype int64"),
        (TARGET, PREDICTED > 0, "predicted must be uint8 or float in 0..1, got dtype bool"),
        (torch.ones(1, 3, 6, 7), torch.ones(1, 3, 6, 7, dtype=torch.int32), "got dtype torch.int32"),
        (TARGET.tolist(), PREDICTED, "target must be a numpy array or a torch tensor, got list"),
    ],
)
@pytest.mark.parametrize("metric", [mean_squared_error, psnr])
def test_unusable_images_are_refused(metric, target, predicted, message):
    with pytest.raises(InputError, match=message):
        metric(target, predicted)


def test_target_may_overshoot_by_rounding():
    assert mean_squared_error(np.full((1, 1, 2, 2), 1.0005), np.ones((1, 1, 2, 2))) < 1e-6


def test_records_of_the_image_metrics():
    records = catalog()
    np.testing.assert_allclose(records["mse-sum"](TARGET, PREDICTED), 126 * records["mse"](TARGET, PREDICTED))
    names = ["mse", "mse-sum", "psnr", "lpips", "gap", "alpha-efficiency"]
    assert {records[name].instrument for name in names} == {"imagination"}
    assert [name for name in names if records[name].direction == "higher"] == ["psnr"]
