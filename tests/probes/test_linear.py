"""Linear classifiers: their written-out gradient and Adam, against torch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from alebrije.probes.linear import _Classifiers

COUNTS = (3, 2, 5)


@pytest.mark.parametrize("neurons", [7, 384, 3000])
def test_steps_are_those_of_autograd_and_torch_adam(neurons: int) -> None:
    """Bit for bit: long codes turn a last bit of an early step into other predictions."""
    draw = np.random.default_rng(0)
    rows = torch.from_numpy(draw.normal(size=(640, neurons))).float()
    labels = torch.from_numpy(np.stack([draw.integers(0, count, 640) for count in COUNTS], 1))
    ours = _Classifiers(neurons, COUNTS, 1e-2, torch.Generator().manual_seed(0))
    weights, bias = ours.weights.clone().requires_grad_(), ours.bias.clone().requires_grad_()
    adam = torch.optim.Adam([weights, bias], 1e-2)
    for batch in torch.split(torch.arange(640).repeat(5), 60):
        logits = torch.split(torch.addmm(bias, rows[batch], weights), COUNTS, 1)
        adam.zero_grad()
        losses = [F.cross_entropy(each, labels[batch, f]) for f, each in enumerate(logits)]
        torch.stack(losses).sum().backward()
        adam.step()
        ours.step(rows[batch], labels[batch])
        assert weights.grad is not None
        assert bias.grad is not None
        assert torch.equal(ours.weight_grad, weights.grad)
        assert torch.equal(ours.bias_grad, bias.grad)
    assert torch.equal(ours.weights, weights.detach())
    assert torch.equal(ours.bias, bias.detach())
