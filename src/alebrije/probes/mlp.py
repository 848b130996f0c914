"""Many classifiers with one hidden layer, trained together: per factor, one with all neurons and one without its own.

A knocked-out neuron is a row of weights held at zero, so all classifiers have the same shape and each layer is one
batched product. The gradient is written out by hand: it is a few lines, and a step costs little more than five such
products. Samples are on the last axis, where the products and the softmax run fastest.

On a GPU, which starts from the same weights and takes the same batches, all steps are taken without waiting for the
host. Its sums are rounded differently, so after thousands of steps some rows are classified differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from alebrije.arrays import Flags, Floats, Integers
from alebrije.probes import fused
from alebrije.probes.on_device import CPU, BatchTable, FusedAdam, epoch_batches, standardised


@dataclass(frozen=True, eq=False)
class KnockoutAccuracy:
    """Whether each held-out row was classified correctly [M, F], with all neurons and without the factor's own."""

    full: Flags
    knockout: Flags


def knockout_accuracy(
    inputs: Floats,
    classes: Integers,
    knocked_out: Integers,
    new_inputs: Floats,
    new_classes: Integers,
    **training: Any,
) -> KnockoutAccuracy:
    """Train 2F classifiers on `inputs` [N, L] and test them on `new_inputs` [M, L].

    `knocked_out` [F] is the neuron to remove for each factor, `training` are the settings of `mlp_predictions`.
    """
    targets = np.concatenate([classes, classes], 1)  # [N, 2F]: full, then knocked out
    predicted = mlp_predictions(inputs, targets, new_inputs, knocked_out=knocked_out, **training)
    correct = predicted == np.concatenate([new_classes, new_classes], 1)
    return KnockoutAccuracy(correct[:, : classes.shape[1]], correct[:, classes.shape[1] :])


def mlp_predictions(
    inputs: Floats,
    classes: Integers,
    new_inputs: Floats,
    *,
    hidden: int = 256,
    epochs: int = 75,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    seed: int = 0,
    knocked_out: Sequence[int] | Integers = (),
    device: torch.device = CPU,
) -> Integers:
    """Train a classifier for each factor and predict the classes [M, F] of `new_inputs` [M, L].

    `inputs` is [N, L] and `classes` [N, F]. The last classifiers do without the neurons `knocked_out`, one neuron each.
    They are trained on `device`.

    >>> codes = np.linspace(-1.0, 1.0, 100)[:, None]
    >>> mlp_predictions(codes, (np.abs(codes) > 0.5).astype(int), np.array([[-0.9], [0.0], [0.9]]))[:, 0].tolist()
    [1, 0, 1]
    """
    network = _Networks(inputs.shape[1], hidden, classes.max(0) + 1, knocked_out, learning_rate, seed, device)
    rows, new_rows = map(_with_ones, standardised(inputs, new_inputs, device))
    labels = torch.from_numpy(np.ascontiguousarray(classes)).to(device)
    batches = len(inputs), epochs, batch_size, torch.Generator().manual_seed(seed)
    if device.type == "cuda":
        network.train(rows, labels, BatchTable(*batches, device))
    else:
        for batch in epoch_batches(*batches):
            # whole rows are picked and then turned: picking columns would read a cache line for each number
            network.step(*(each.index_select(0, batch).T.contiguous() for each in (rows, labels)))
    return np.asarray(network.predict(new_rows.T.contiguous()).cpu().numpy(), dtype=np.int64)


def _with_ones(codes: torch.Tensor) -> torch.Tensor:
    """Codes [N, L + 1] with a last column of ones, whose weights are the biases."""
    return torch.cat([codes, torch.ones(len(codes), 1, device=codes.device)], 1)


class _Networks:
    """M two-layer classifiers side by side, with Adam."""

    def __init__(
        self,
        neurons: int,
        hidden: int,
        class_counts: Integers,
        knocked_out: Sequence[int] | Integers,
        learning_rate: float,
        seed: int,
        device: torch.device = CPU,
    ) -> None:
        models, most = len(class_counts), int(class_counts.max())
        self.shapes = (models, neurons + 1, hidden), (models, most, hidden), (models, most, 1)
        drawn = torch.rand(sum(map(math.prod, self.shapes)), generator=torch.Generator().manual_seed(seed)) * 2 - 1
        self.weights = drawn.to(device)
        self.gradient = torch.zeros_like(self.weights)
        self.first, self.second, self.bias = self.parts(self.weights)
        self.first_grad, self.second_grad, self.bias_grad = self.parts(self.gradient)
        self.first *= neurons**-0.5
        self.second *= hidden**-0.5
        self.bias *= hidden**-0.5
        self.alive = torch.ones_like(self.first)
        for model, neuron in enumerate(knocked_out, models - len(knocked_out)):
            self.alive[model, neuron] = 0.0
        self.first *= self.alive
        absent = torch.arange(most)[None] >= torch.from_numpy(class_counts)[:, None]  # classes a factor does not have
        self.class_mask = torch.zeros(models, most, 1).masked_fill_(absent[:, :, None], -torch.inf).to(device)
        self.moments = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        self.rate, self.steps = learning_rate, 0
        self.fused = FusedAdam([self.weights], learning_rate) if device.type == "cuda" else None

    def parts(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The views of a flat tensor that belong to the first layer, the second and its bias."""
        sizes = [math.prod(shape) for shape in self.shapes]
        return [part.view(shape) for part, shape in zip(torch.split(flat, sizes), self.shapes, strict=True)]

    def train(self, rows: torch.Tensor, labels: torch.Tensor, batches: BatchTable) -> None:
        """Take all steps on rows [N, L + 1] with labels [N, M], on a GPU."""
        if fused.fits(rows.device, batches.rows.shape[1], self.second.shape[1]):
            fused.train_networks(self, rows, labels, batches)
        else:
            batches.run(
                lambda batch, share: self.step(rows.index_select(0, batch).T, labels.index_select(0, batch).T, share)
            )

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden activations [M, H, B] and logits [M, K, B] of rows [L + 1, B]."""
        active = torch.bmm(self.first.transpose(1, 2), rows.expand(len(self.first), -1, -1)).relu_()
        return active, torch.baddbmm(self.bias + self.class_mask, self.second, active)

    def step(self, rows: torch.Tensor, labels: torch.Tensor, share: torch.Tensor | None = None) -> None:
        """Take one Adam step on the mean cross-entropy of each classifier; labels [M, B].

        With `share` [B], the weight of each row is given instead of the mean.
        """
        active, logits = self.forward(rows)
        error = logits.softmax(1)
        error.scatter_add_(1, labels[:, None], torch.full_like(error[:, :1], -1.0))
        error = error.div_(rows.shape[1]) if share is None else error.mul_(share)
        torch.bmm(error, active.transpose(1, 2), out=self.second_grad)
        torch.sum(error, 2, keepdim=True, out=self.bias_grad)
        back = torch.bmm(self.second.transpose(1, 2), error)  # [M, H, B]
        back = torch.ops.aten.threshold_backward(back, active, 0.0)  # no gradient flows through an inactive unit
        torch.bmm(rows.expand(len(back), -1, -1), back.transpose(1, 2), out=self.first_grad)
        self.first_grad.mul_(self.alive)
        self._adam()

    def _adam(self, decay: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8) -> None:
        if self.fused is not None:
            self.fused.step([self.gradient])
            return
        self.steps += 1
        mean, square = self.moments
        mean.lerp_(self.gradient, 1 - decay[0])
        square.mul_(decay[1]).addcmul_(self.gradient, self.gradient, value=1 - decay[1])
        scale = (square / (1 - decay[1] ** self.steps)).sqrt_().add_(epsilon)
        self.weights.addcdiv_(mean, scale, value=-self.rate / (1 - decay[0] ** self.steps))

    def predict(self, rows: torch.Tensor) -> torch.Tensor:
        """The most likely class of each row for each classifier [B, M]."""
        return torch.cat([self.forward(part)[1].argmax(1).T for part in torch.split(rows, 4096, dim=1)])
