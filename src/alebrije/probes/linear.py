"""Linear classifiers: logistic regression fitted to convergence, and classifiers trained with Adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from alebrije.arrays import Floats, Integers
from alebrije.probes import fused
from alebrije.probes.logistic import fit_from_sample, fitted_quietly
from alebrije.probes.on_device import CPU, BatchTable, FusedAdam, epoch_batches, standardised

MANY_ROWS = 60_000
NEWTON_WEIGHTS = 1000  # the Hessian of at most this many weights is cheap


def logistic_regression(codes: Floats, classes: Integers) -> Any:
    """Fit scikit-learn's `LogisticRegression` with its defaults (C = 1) to convergence.

    More than MANY_ROWS rows are fitted with the same loss by `fit_from_sample`, several times as fast.

    >>> codes = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> logistic_regression(codes, np.array([0, 0, 1, 1])).predict(codes).tolist()
    [0, 0, 1, 1]
    """
    from sklearn.linear_model import LogisticRegression

    weights = (codes.shape[1] + 1) * len(np.unique(classes))
    varied = bool((codes != codes[0]).any())  # newton-cholesky warns where all codes are equal
    if varied and weights <= NEWTON_WEIGHTS and len(codes) > MANY_ROWS:
        fitted = fit_from_sample(codes, classes)
        if fitted is not None:
            return fitted
    solver = "newton-cholesky" if varied and weights <= NEWTON_WEIGHTS else "lbfgs"
    return fitted_quietly(LogisticRegression(solver=solver, max_iter=1000), codes, classes)


def linear_predictions(
    inputs: Floats,
    classes: Integers,
    new_inputs: Floats,
    *,
    epochs: int = 75,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    seed: int = 0,
    device: torch.device = CPU,
) -> Integers:
    """Train a linear classifier with Adam for each factor and predict the classes [M, F] of `new_inputs` [M, L].

    `inputs` is [N, L] and `classes` [N, F]. They are trained on `device`.

    >>> codes = np.linspace(-1.0, 1.0, 100)[:, None]
    >>> linear_predictions(codes, (codes > 0).astype(int), np.array([[-0.9], [0.9]]))[:, 0].tolist()
    [0, 1]
    """
    rows, new_rows = standardised(inputs, new_inputs, device)
    labels = torch.from_numpy(np.ascontiguousarray(classes)).to(device)
    generator = torch.Generator().manual_seed(seed)
    counts = [int(count) for count in classes.max(0) + 1]
    classifiers = _Classifiers(inputs.shape[1], counts, learning_rate, generator, device)
    batches = len(rows), epochs, batch_size, generator
    if device.type == "cuda":
        classifiers.train(rows, labels, BatchTable(*batches, device))
    else:
        for batch in epoch_batches(*batches):
            classifiers.step(rows.index_select(0, batch), labels.index_select(0, batch))
    return np.stack([of_factor.argmax(1).cpu().numpy() for of_factor in classifiers.logits(new_rows)], 1)


class _Classifiers:
    """F linear classifiers side by side, with Adam. The gradient is written out: it costs less than to record it."""

    def __init__(
        self,
        neurons: int,
        class_counts: Sequence[int],
        rate: float,
        generator: torch.Generator,
        device: torch.device = CPU,
    ) -> None:
        self.class_counts, total = list(class_counts), sum(class_counts)
        self.parameters = torch.zeros((neurons + 1) * total, device=device)  # weights, then biases
        self.gradient = torch.zeros_like(self.parameters)
        (self.weights, self.bias), (self.weight_grad, self.bias_grad) = map(
            self.parts, (self.parameters, self.gradient)
        )
        self.weights.copy_((torch.rand(neurons, total, generator=generator) * 2 - 1) * neurons**-0.5)
        self.moments = torch.zeros_like(self.parameters), torch.zeros_like(self.parameters)
        self.rate, self.steps = rate, 0
        self.fused = FusedAdam([self.parameters], rate) if device.type == "cuda" else None
        most = max(self.class_counts)
        shown = torch.arange(most)[None] < torch.tensor(self.class_counts)[:, None]  # [F, K]
        self.absent = (~shown).to(device)
        self.columns = (shown.flatten().cumsum(0) - 1).clamp_min(0).to(device)  # of each class, with padding [F * K]
        self.places = shown.flatten().nonzero()[:, 0].to(device)  # of each column among the padded classes

    def parts(self, flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The views of a flat tensor that belong to the weights [L, K] and the biases [K] of all classes."""
        total = sum(self.class_counts)
        return flat[:-total].view(-1, total), flat[-total:]

    def train(self, rows: torch.Tensor, labels: torch.Tensor, batches: BatchTable) -> None:
        """Take all steps on rows [N, L] with labels [N, F], on a GPU."""
        if fused.fits(rows.device, batches.rows.shape[1], max(self.class_counts)):
            fused.train_classifiers(self, rows, labels, batches)
        else:
            batches.run(
                lambda batch, share: self.step(rows.index_select(0, batch), labels.index_select(0, batch), share)
            )

    def logits(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The logits [B, K] of each factor for rows [B, L]."""
        return torch.split(torch.addmm(self.bias, rows, self.weights), self.class_counts, 1)

    def step(self, rows: torch.Tensor, labels: torch.Tensor, share: torch.Tensor | None = None) -> None:
        """Take one Adam step on the mean cross-entropy of each classifier; labels [B, F].

        With `share` [B], the weight of each row is given instead of the mean.
        """
        error = self._error(rows, labels) if share is None else self._padded_error(rows, labels, share)
        torch.mm(rows.T, error, out=self.weight_grad)
        torch.sum(error, 0, out=self.bias_grad)
        self._adam()

    def _error(self, rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The gradient of the losses with respect to all logits, bit for bit as autograd computes it.

        On codes that are longer than there are rows, a last bit can change accuracies by a hundredth.
        """
        errors = []
        for logits, own in zip(self.logits(rows), labels.T, strict=True):
            log_shares = logits.log_softmax(1)
            error = torch.zeros_like(log_shares).scatter_(1, own[:, None], -1 / len(rows))
            errors.append(torch.ops.aten._log_softmax_backward_data(error, log_shares, 1, log_shares.dtype))
        return torch.cat(errors, 1)

    def _padded_error(self, rows: torch.Tensor, labels: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """The same with a few kernels for all factors, whose classes are padded to the same number."""
        logits = torch.addmm(self.bias, rows, self.weights).index_select(1, self.columns)
        error = logits.view(len(rows), *self.absent.shape).masked_fill(self.absent, -torch.inf).softmax(2)  # [B, F, K]
        error.scatter_add_(2, labels[..., None], torch.full_like(error[..., :1], -1.0))
        return error.mul_(share[:, None, None]).flatten(1).index_select(1, self.places)

    def _adam(self, decay: tuple[float, float] = (0.9, 0.999), epsilon: float = 1e-8) -> None:
        if self.fused is not None:
            self.fused.step([self.gradient])
            return
        self.steps += 1
        mean, square = self.moments
        mean.lerp_(self.gradient, 1 - decay[0])
        square.mul_(decay[1]).addcmul_(self.gradient, self.gradient, value=1 - decay[1])
        scale = square.sqrt().div_((1 - decay[1] ** self.steps) ** 0.5).add_(epsilon)
        self.parameters.addcdiv_(mean, scale, value=-self.rate / (1 - decay[0] ** self.steps))
