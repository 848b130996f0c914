"""Trainings that read their batches from a table take the same steps as those that draw one batch after another."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alebrije.metrics import neuron_knockout
from alebrije.probes import knockout_accuracy, linear_predictions
from alebrije.probes.linear import _Classifiers
from alebrije.probes.mlp import _Networks
from alebrije.probes.on_device import CPU, BatchTable, FusedAdam, epoch_batches

COUNTS = (3, 2, 5)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")


def _rows_and_labels() -> tuple[torch.Tensor, torch.Tensor]:
    draw = np.random.default_rng(0)
    rows = torch.from_numpy(draw.normal(size=(150, 7))).float()
    return rows, torch.from_numpy(np.stack([draw.integers(0, count, 150) for count in COUNTS], 1))


def _batches() -> tuple[int, int, int, torch.Generator]:
    return 150, 2, 64, torch.Generator().manual_seed(0)  # the last of each epoch has 22 rows


def test_networks_with_padded_batches_take_the_same_steps() -> None:
    rows, labels = _rows_and_labels()
    plain, padded = (_Networks(6, 16, np.array(COUNTS), [1], 1e-2, seed=0) for _ in range(2))
    for batch in epoch_batches(*_batches()):
        plain.step(rows[batch].T.contiguous(), labels[batch].T.contiguous())
    BatchTable(*_batches(), CPU).run(
        lambda batch, share: padded.step(rows.index_select(0, batch).T, labels.index_select(0, batch).T, share)
    )
    torch.testing.assert_close(padded.weights, plain.weights, rtol=1e-4, atol=1e-5)


def test_linear_classifiers_with_padded_classes_take_the_same_steps() -> None:
    rows, labels = _rows_and_labels()
    plain, padded = (_Classifiers(7, COUNTS, 1e-2, torch.Generator().manual_seed(0)) for _ in range(2))
    for batch in epoch_batches(*_batches()):
        plain.step(rows[batch], labels[batch])
    BatchTable(*_batches(), CPU).run(
        lambda batch, share: padded.step(rows.index_select(0, batch), labels.index_select(0, batch), share)
    )
    torch.testing.assert_close(padded.parameters, plain.parameters, rtol=1e-4, atol=1e-5)


def test_the_fused_adam_is_that_of_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    weights, gradient = torch.randn(50, generator=generator), torch.zeros(50)
    parameter = torch.nn.Parameter(weights.clone())
    ours, theirs = FusedAdam([weights], 1e-2), torch.optim.Adam([parameter], 1e-2)
    for _ in range(20):
        gradient.copy_(torch.randn(50, generator=generator))
        parameter.grad = gradient.clone()
        ours.step([gradient])
        theirs.step()
    torch.testing.assert_close(weights, parameter.detach(), rtol=1e-5, atol=1e-6)


def _noisy(rows: int = 900) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    classes = np.stack([draw.integers(0, count, rows) for count in COUNTS], 1)
    codes = draw.normal(size=(rows, 12))
    codes[:, :3] += classes
    return codes, classes


@needs_cuda
@pytest.mark.parametrize("rate", [1e-3, 1e-2])
def test_a_gpu_trains_the_same_classifiers(rate: float) -> None:
    codes, classes = _noisy()
    data = codes[:600], classes[:600], np.arange(3), codes[600:], classes[600:]
    cpu, gpu = (
        knockout_accuracy(*data, epochs=10, learning_rate=rate, device=torch.device(d)) for d in ("cpu", "cuda")
    )
    for name in ("full", "knockout"):
        assert np.mean(getattr(cpu, name) != getattr(gpu, name)) < 0.01
    data = codes[:600], classes[:600], codes[600:]
    found = [linear_predictions(*data, epochs=10, learning_rate=rate, device=torch.device(d)) for d in ("cpu", "cuda")]
    assert np.mean(found[0] != found[1]) < 0.01


@needs_cuda
def test_a_gpu_gives_the_same_knockout_score_twice_and_about_that_of_the_cpu() -> None:
    codes, classes = _noisy(1800)
    scores = [neuron_knockout(codes, classes, epochs=20, device=device).score for device in ("cuda", "cuda", "cpu")]
    assert scores[0] == scores[1]
    assert scores[0] == pytest.approx(scores[2], abs=0.01)
