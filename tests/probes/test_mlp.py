"""Networks trained together agree with networks trained one by one."""

import numpy as np
import pytest
import torch

from alebrije.probes import knockout_accuracy


def plain_network(codes, classes, new_codes, epochs, batch_size, seed):
    """One network after another with autograd: the same architecture, optimiser and batches."""
    mean, spread = codes.mean(0), codes.std(0)
    rows = torch.from_numpy((codes - mean) / spread).float()
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        torch.nn.Linear(codes.shape[1], 256), torch.nn.ReLU(), torch.nn.Linear(256, int(classes.max()) + 1)
    )
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    order = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(rows), generator=order), batch_size):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(rows[batch]), torch.from_numpy(classes)[batch]).backward()
            optimiser.step()
    return network(torch.from_numpy((new_codes - mean) / spread).float()).argmax(1).numpy()


def test_knockouts_agree_with_networks_trained_one_by_one():
    draw = np.random.default_rng(0)
    classes = np.stack([draw.integers(0, 4, 2400), draw.integers(0, 3, 2400)], 1)
    codes = np.concatenate([classes + 0.6 * draw.normal(size=(2400, 2)), draw.normal(size=(2400, 2))], 1)
    codes[:, 2] += 0.5 * classes[:, 0]
    fit, test = slice(0, 1600), slice(1600, None)
    found = knockout_accuracy(codes[fit], classes[fit], np.array([0, 1]), codes[test], classes[test], epochs=15, seed=0)
    for factor in range(2):
        others = [i for i in range(4) if i != factor]
        full = plain_network(codes[fit], classes[fit, factor], codes[test], 15, 64, 0)
        without = plain_network(codes[fit][:, others], classes[fit, factor], codes[test][:, others], 15, 64, 0)
        assert found.full[:, factor].mean() == pytest.approx((full == classes[test, factor]).mean(), abs=0.03)
        assert found.knockout[:, factor].mean() == pytest.approx((without == classes[test, factor]).mean(), abs=0.03)


def test_gradient_agrees_with_autograd():
    from alebrije.probes.mlp import _Networks

    networks = _Networks(3, 16, np.array([4, 2, 4, 2]), np.array([0, 2]), 1e-3, seed=0)
    rows = torch.cat([torch.randn(3, 10, generator=torch.Generator().manual_seed(0)), torch.ones(1, 10)])
    labels = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 0, 1], [0, 1] * 5] * 2)
    first, second, bias = (w.clone().requires_grad_() for w in (networks.first, networks.second, networks.bias))
    active = (first.transpose(1, 2) @ rows).relu()
    logits = second @ active + bias + networks.class_mask
    loss = sum(torch.nn.functional.cross_entropy(logits[m].T, labels[m]) for m in range(4))
    gradients = torch.autograd.grad(loss, (first, second, bias))
    networks.step(rows, labels)
    torch.testing.assert_close(networks.first_grad, gradients[0] * networks.alive)
    torch.testing.assert_close(networks.second_grad, gradients[1])
    torch.testing.assert_close(networks.bias_grad, gradients[2])


def test_a_knocked_out_neuron_has_no_influence():
    draw = np.random.default_rng(0)
    classes = draw.integers(0, 2, (400, 1))
    codes = np.concatenate([classes * 1.0, draw.normal(size=(400, 1))], 1)
    found = knockout_accuracy(codes[:300], classes[:300], np.array([0]), codes[300:], classes[300:], epochs=20)
    assert found.full.mean() == 1.0
    assert found.knockout.mean() < 0.65
