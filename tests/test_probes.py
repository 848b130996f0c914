"""Classifiers trained many at once do what they do one at a time."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from alebrije.probes import boost_trees, boosting, knockout_accuracy


def few_values(rows=1200, neurons=5, seed=0):
    """Codes with at most 64 distinct values, so that binned thresholds are all there are."""
    draw = np.random.default_rng(seed)
    codes = draw.integers(0, 40, (rows, neurons)).astype(float)
    noise = draw.normal(size=(3, rows)) * 8
    targets = np.stack(
        [
            np.digitize(codes[:, 0] + noise[0], [15, 25]),
            (codes[:, 1] + codes[:, 2] + noise[1] > 40).astype(int),
            np.digitize(codes[:, 3] * codes[:, 4] + 20 * noise[2], [200, 500, 900]),
        ],
        1,
    )
    return codes, targets


def test_trees_are_those_of_scikit_learn_where_bins_hide_nothing():
    codes, targets = few_values()
    trees = boost_trees(codes[:800], targets[:800], codes[800:])
    for column, target in enumerate(targets.T):
        model = GradientBoostingClassifier(random_state=0).fit(codes[:800], target[:800])
        np.testing.assert_allclose(trees.importance[:, column], model.feature_importances_, atol=0.01)
        assert (trees.predictions[:, column] == model.predict(codes[800:])).mean() > 0.97


def test_the_first_round_splits_where_scikit_learn_does(monkeypatch):
    monkeypatch.setattr(boosting, "ROUNDS", 1)
    codes, targets = few_values()
    trees = boost_trees(codes, targets, codes)
    for column, target in enumerate(targets.T):
        model = GradientBoostingClassifier(n_estimators=1).fit(codes, target)
        # of two equal splits each may take another, hence the tolerance
        np.testing.assert_allclose(trees.importance[:, column], model.feature_importances_, atol=0.005)


def test_regression_is_that_of_scikit_learn():
    codes, _ = few_values()
    target = codes[:, 0] * 2 + codes[:, 1] + np.random.default_rng(1).normal(size=len(codes))
    trees = boost_trees(codes[:800], target[:800, None], codes[800:])
    model = GradientBoostingRegressor(random_state=0).fit(codes[:800], target[:800])
    np.testing.assert_allclose(trees.importance[:, 0], model.feature_importances_, atol=0.01)
    np.testing.assert_allclose(trees.predictions[:, 0], model.predict(codes[800:]), atol=2.5)


def test_constant_neurons_and_targets_are_harmless():
    codes = np.random.default_rng(0).normal(size=(100, 3))
    codes[:, 1] = 5.0
    targets = np.stack([np.zeros(100), codes[:, 0] > 0], 1).astype(int)
    trees = boost_trees(codes, targets, codes)
    assert trees.importance[1].tolist() == [0.0, 0.0]
    assert trees.importance[:, 0].tolist() == [0.0, 0.0, 0.0]
    assert (trees.predictions == targets).all()


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


def test_knockouts_are_as_good_as_networks_trained_one_by_one():
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


def test_the_written_gradient_is_the_derivative_of_the_loss():
    from alebrije.probes.mlp import _Networks

    networks = _Networks(3, 16, np.array([4, 2, 4, 2]), np.array([0, 2]), 1e-3, seed=0)
    rows = torch.cat([torch.randn(3, 10, generator=torch.Generator().manual_seed(0)), torch.ones(1, 10)])
    labels = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 0, 1], [0, 1] * 5] * 2)
    first, second, bias = (w.clone().requires_grad_() for w in (networks.first, networks.second, networks.bias))
    active = (first.transpose(1, 2) @ rows).relu()
    logits = second @ active + bias + networks.barred
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
