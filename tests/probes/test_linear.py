"""Linear classifiers: their written-out gradient and Adam, against torch's."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from alebrije.probes.linear import _Classifiers

COUNTS = (3, 2, 5)


def test_steps_are_those_of_autograd_and_torch_adam() -> None:
    draw = np.random.default_rng(0)
    rows = torch.from_numpy(draw.normal(size=(640, 7))).float()
    labels = torch.from_numpy(np.stack([draw.integers(0, count, 640) for count in COUNTS], 1))
    ours = _Classifiers(7, COUNTS, 1e-2, torch.Generator().manual_seed(0))
    weights, bias = ours.weights.clone().requires_grad_(), ours.bias.clone().requires_grad_()
    adam = torch.optim.Adam([weights, bias], 1e-2)
    for batch in torch.split(torch.arange(640).repeat(5), 60):
        logits = torch.split(torch.addmm(bias, rows[batch], weights), COUNTS, 1)
        adam.zero_grad()
        losses = [F.cross_entropy(each, labels[batch, f]) for f, each in enumerate(logits)]
        torch.stack(losses).sum().backward()
        adam.step()
        ours.step(rows[batch], labels[batch])
        torch.testing.assert_close(ours.weight_grad, weights.grad, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(ours.bias_grad, bias.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(ours.weights, weights.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.bias, bias.detach(), rtol=1e-4, atol=1e-5)
