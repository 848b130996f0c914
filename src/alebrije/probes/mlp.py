"""One hidden layer, many classifiers: every factor with all neurons and without its own, trained in one pass.

A knocked-out neuron is a row of weights held at zero, so all classifiers have one shape and each layer of all of
them is one batched product. The gradient of so small a network is written out: it is a few lines, and a step costs
five such products and little else. Samples lie along the last axis, where the products and the softmax run fastest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from alebrije.probes.scaling import standardise

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KnockoutAccuracy:
    """Whether each held-out row was classified rightly [M, F], by all neurons and without the factor's own."""

    full: npt.NDArray[np.bool_]
    knockout: npt.NDArray[np.bool_]


def knockout_accuracy(
    inputs: Floats,
    classes: Integers,
    knocked_out: Integers,
    new_inputs: Floats,
    new_classes: Integers,
    *,
    hidden: int = 256,
    epochs: int = 75,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    seed: int = 0,
) -> KnockoutAccuracy:
    """Trains 2F classifiers on `inputs` [N, L] and tests them on `new_inputs` [M, L]; `knocked_out` [F] are neurons."""
    targets = np.concatenate([classes, classes], 1)  # [N, 2F]: full, then knocked out
    network = _Networks(inputs.shape[1], hidden, targets.max(0) + 1, knocked_out, learning_rate, seed)
    predicted = _predictions(network, inputs, targets, new_inputs, epochs, batch_size, seed)
    right = predicted == np.concatenate([new_classes, new_classes], 1)
    return KnockoutAccuracy(right[:, : classes.shape[1]], right[:, classes.shape[1] :])


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
) -> Integers:
    """Trains a classifier on `inputs` [N, L] for each column of `classes` [N, F]; its answers for `new_inputs`. [M, F]

    >>> codes = np.linspace(-1.0, 1.0, 100)[:, None]
    >>> mlp_predictions(codes, (np.abs(codes) > 0.5).astype(int), np.array([[-0.9], [0.0], [0.9]]))[:, 0].tolist()
    [1, 0, 1]
    """
    nothing = np.zeros(0, dtype=np.int64)
    network = _Networks(inputs.shape[1], hidden, classes.max(0) + 1, nothing, learning_rate, seed)
    return _predictions(network, inputs, classes, new_inputs, epochs, batch_size, seed)


def _predictions(
    network: _Networks,
    inputs: Floats,
    targets: Integers,
    new_inputs: Floats,
    epochs: int,
    batch_size: int,
    seed: int,
) -> Integers:
    rows, new_rows = (_with_ones(codes) for codes in standardise(inputs, new_inputs))
    labels = torch.from_numpy(np.ascontiguousarray(targets.T))
    order = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(inputs), generator=order), batch_size):
            network.step(rows[:, batch], labels[:, batch])
    return np.asarray(network.predict(new_rows).numpy(), dtype=np.int64)


def _with_ones(codes: Floats) -> torch.Tensor:
    """Codes [L + 1, N] with a constant 1 behind them, whose weights are the biases."""
    return torch.cat([torch.from_numpy(codes).float().T, torch.ones(1, len(codes))])


class _Networks:
    """M two-layer classifiers side by side, with Adam."""

    def __init__(
        self,
        neurons: int,
        hidden: int,
        kinds: Integers,
        knocked_out: Integers,
        learning_rate: float,
        seed: int,
    ) -> None:
        models, most, factors = len(kinds), int(kinds.max()), len(knocked_out)
        shapes = (models, neurons + 1, hidden), (models, most, hidden), (models, most, 1)
        sizes = [int(np.prod(shape)) for shape in shapes]
        self.weights = torch.rand(sum(sizes), generator=torch.Generator().manual_seed(seed)) * 2 - 1
        self.gradient = torch.zeros_like(self.weights)
        self.first, self.second, self.bias = self._views(self.weights, sizes, shapes)
        self.first_grad, self.second_grad, self.bias_grad = self._views(self.gradient, sizes, shapes)
        self.first *= neurons**-0.5
        self.second *= hidden**-0.5
        self.bias *= hidden**-0.5
        self.alive = torch.ones_like(self.first)
        for factor, neuron in enumerate(knocked_out):
            self.alive[factors + factor, neuron] = 0.0
        self.first *= self.alive
        absent = torch.arange(most)[None] >= torch.from_numpy(kinds)[:, None]  # classes that a factor does not have
        self.barred = torch.zeros(models, most, 1).masked_fill_(absent[:, :, None], -torch.inf)
        self.moments = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        self.rate, self.steps = learning_rate, 0

    @staticmethod
    def _views(
        flat: torch.Tensor, sizes: list[int], shapes: tuple[tuple[int, int, int], ...]
    ) -> tuple[torch.Tensor, ...]:
        return tuple(part.view(shape) for part, shape in zip(torch.split(flat, sizes), shapes, strict=True))

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden activations [M, H, B] and logits [M, K, B] of rows [L + 1, B]."""
        active = torch.bmm(self.first.transpose(1, 2), rows.expand(len(self.first), -1, -1)).relu_()
        return active, torch.baddbmm(self.bias + self.barred, self.second, active)

    def step(self, rows: torch.Tensor, labels: torch.Tensor) -> None:
        """One step of Adam on the mean cross-entropy of each classifier; labels [M, B]."""
        active, logits = self.forward(rows)
        error = logits.softmax(1)
        error.scatter_add_(1, labels[:, None], torch.full_like(error[:, :1], -1.0))
        error /= rows.shape[1]
        torch.bmm(error, active.transpose(1, 2), out=self.second_grad)
        torch.sum(error, 2, keepdim=True, out=self.bias_grad)
        back = torch.bmm(self.second.transpose(1, 2), error)  # [M, H, B]
        back = torch.ops.aten.threshold_backward(back, active, 0.0)  # no error flows through a silent unit
        torch.bmm(rows.expand(len(back), -1, -1), back.transpose(1, 2), out=self.first_grad)
        self.first_grad.mul_(self.alive)
        self._adam()

    def _adam(self, decay: tuple[float, float] = (0.9, 0.999), floor: float = 1e-8) -> None:
        self.steps += 1
        mean, square = self.moments
        mean.lerp_(self.gradient, 1 - decay[0])
        square.mul_(decay[1]).addcmul_(self.gradient, self.gradient, value=1 - decay[1])
        scale = (square / (1 - decay[1] ** self.steps)).sqrt_().add_(floor)
        self.weights.addcdiv_(mean, scale, value=-self.rate / (1 - decay[0] ** self.steps))

    def predict(self, rows: torch.Tensor) -> torch.Tensor:
        """The likeliest class of each row for each classifier [B, M]."""
        return torch.cat([self.forward(part)[1].argmax(1).T for part in torch.split(rows, 4096, dim=1)])
