"""The steps of `mlp` and `linear` as two or three Triton kernels each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from alebrije.graphs import Repeated
from alebrije.kernels import HAS_TRITON

if TYPE_CHECKING:
    from alebrije.probes.linear import _Classifiers
    from alebrije.probes.mlp import _Networks
    from alebrije.probes.on_device import BatchTable

_MOST_SAMPLES, _MOST_CLASSES = 128, 256  # that a program holds


def fits(device: torch.device, batch_size: int, classes: int) -> bool:
    """Whether the kernels can be used."""
    return device.type == "cuda" and HAS_TRITON and batch_size <= _MOST_SAMPLES and classes <= _MOST_CLASSES


def train_networks(networks: _Networks, rows: Tensor, labels: Tensor, batches: BatchTable) -> None:
    """Take all steps of networks on rows [N, L] with labels [N, M]."""
    from alebrije.probes import kernels

    models, neurons, hidden = networks.first.shape
    classes, samples = networks.second.shape[1], batches.rows.shape[1]
    table, number, labels = batches.rows.int(), torch.zeros(1, dtype=torch.int32, device=rows.device), labels.int()
    active, back = (torch.empty(models, samples, hidden, device=rows.device) for _ in range(2))
    (first, second, bias), (firsts, seconds, biases), (first_squares, second_squares, bias_squares) = (
        networks.parts(flat) for flat in (networks.weights, *networks.moments)
    )
    knocked_out = torch.where(networks.alive[:, :, 0] == 0, torch.arange(neurons, device=rows.device), -1).amax(1).int()
    counts = torch.isfinite(networks.class_mask[:, :, 0]).sum(1, dtype=torch.int32)
    corrections = _corrections(len(table), rows.device)
    few, tile = kernels.FEW, kernels.TILE
    padded = {"B": _power_of_two(samples)}
    across_units = -(-hidden // tile), -(-neurons // tile), models

    def step() -> None:
        kernels.hidden_units[(-(-hidden // few), models)](
            *(number, table, rows, first, active, neurons, hidden, samples), **padded, H_TILE=few, L_TILE=tile
        )
        kernels.second_layer[(models,)](
            *(number, table, batches.shares, labels, counts, corrections, networks.rate, active, back),
            *(second, seconds, second_squares, bias, biases, bias_squares, models, classes, hidden, samples),
            **padded,
            K=_power_of_two(classes),
            H_TILE=few,
        )
        kernels.first_layer[across_units](
            *(number, table, corrections, networks.rate, rows, back, knocked_out, first, firsts, first_squares),
            *(neurons, hidden, samples),
            **padded,
            H_TILE=tile,
            L_TILE=tile,
        )
        number.add_(1)

    Repeated(step, rows.device).run(len(table))


def train_classifiers(classifiers: _Classifiers, rows: Tensor, labels: Tensor, batches: BatchTable) -> None:
    """Take all steps of linear classifiers on rows [N, L] with labels [N, F]."""
    from alebrije.probes import kernels

    neurons, total = classifiers.weights.shape
    factors, classes, samples = len(classifiers.class_counts), max(classifiers.class_counts), batches.rows.shape[1]
    table, number, labels = batches.rows.int(), torch.zeros(1, dtype=torch.int32, device=rows.device), labels.int()
    errors = torch.empty(samples, total, device=rows.device)
    (weights, bias), (means, bias_means), (squares, bias_squares) = (
        classifiers.parts(flat) for flat in (classifiers.parameters, *classifiers.moments)
    )
    counts = torch.tensor(classifiers.class_counts, dtype=torch.int32)
    starts = (counts.cumsum(0) - counts).int().to(rows.device)
    counts, corrections = counts.to(rows.device), _corrections(len(table), rows.device)
    few, tile = kernels.FEW, kernels.TILE
    padded = {"B": _power_of_two(samples)}

    def step() -> None:
        kernels.linear_errors[(factors,)](
            *(number, table, batches.shares, labels, counts, starts, corrections, classifiers.rate, rows, weights),
            *(errors, bias, bias_means, bias_squares, factors, total, neurons, samples),
            **padded,
            K=_power_of_two(classes),
            L_TILE=few,
        )
        kernels.linear_weights[(-(-neurons // few), -(-total // tile))](
            *(number, table, corrections, classifiers.rate, rows, errors, weights, means, squares),
            *(total, neurons, samples),
            **padded,
            K_TILE=tile,
            L_TILE=few,
        )
        number.add_(1)

    Repeated(step, rows.device).run(len(table))


def _corrections(steps: int, device: torch.device) -> Tensor:
    """By what Adam divides its moments after each step [S, 2]."""
    number = torch.arange(1, steps + 1, dtype=torch.float64)
    return torch.stack((1 - 0.9**number, 1 - 0.999**number), 1).float().to(device)


def _power_of_two(number: int) -> int:
    """The next power of two; the sides of a product have at least 16."""
    return max(16, 1 << (number - 1).bit_length())
