"""Boosted trees agree with scikit-learn's."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from alebrije.metrics.dci import completeness
from alebrije.probes import boost_trees, boosting


def few_values(rows=1200, neurons=5, seed=0):
    """Codes of 40 distinct values."""
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


def test_trees_agree_with_scikit_learn():
    codes, targets = few_values()
    trees = boost_trees(codes[:800], targets[:800].T, codes[800:])
    for column, target in enumerate(targets.T):
        model = GradientBoostingClassifier(random_state=0).fit(codes[:800], target[:800])
        np.testing.assert_allclose(trees.importance[:, column], model.feature_importances_, atol=0.01)
        assert (trees.predictions[:, column] == model.predict(codes[800:])).mean() > 0.97


@pytest.mark.slow
def test_scores_of_scikit_learn_for_clean_codes_of_many_values():
    differences = []
    for seed in (0, 2):
        draw = np.random.default_rng(seed)
        target = draw.integers(0, 12, 600)
        codes = draw.normal(size=(600, 10))
        codes[:, 0] = target / 12 + 0.1 * codes[:, 0]
        ours = boost_trees(codes, [target], codes[:2]).importance
        theirs = GradientBoostingClassifier(random_state=0).fit(codes, target).feature_importances_
        differences.append(completeness(ours) - completeness(theirs[:, None]))
    assert abs(np.mean(differences)) < 0.004


def best_split(codes, residual, rows):
    """The largest decrease of the squared error by a split of some rows, and the rows that go left; by trying all."""
    best = 0.0, rows
    for column in codes.T:
        values = np.unique(column[rows])
        for middle in (values[1:] + values[:-1]) / 2:
            left, right = residual[rows[column[rows] <= middle]], residual[rows[column[rows] > middle]]
            gain = len(left) * len(right) / len(rows) * (left.mean() - right.mean()) ** 2
            if gain > best[0] * (1 + 1e-7):
                best = gain, rows[column[rows] <= middle]
    return best


@pytest.mark.parametrize("decimals", [9, 1, 0], ids=["distinct", "some ties", "few values"])
def test_every_split_is_tried(decimals, monkeypatch):
    monkeypatch.setattr(boosting, "ROUNDS", 1)
    draw = np.random.default_rng(0)
    codes = draw.normal(size=(150, 3)).round(decimals)
    target = codes[:, 0] * codes[:, 1] + draw.normal(size=150)
    target = (target - target.mean()) / target.std()
    total, nodes = 0.0, [np.arange(150)]
    for _ in range(3):
        found = [(rows, *best_split(codes, target, rows)) for rows in nodes]
        total += sum(gain for _, gain, _ in found)
        nodes = [part for rows, _, left in found for part in (left, np.setdiff1d(rows, left)) if part.size]
    means = np.empty(150)
    for rows in nodes:
        means[rows] = target[rows].mean()
    trees = boost_trees(codes, [target], codes)
    assert total == pytest.approx((target**2).sum() - ((target - means) ** 2).sum())
    np.testing.assert_allclose(trees.predictions[:, 0], boosting.RATE * means, atol=1e-9)


def test_order_and_scale_of_neurons_do_not_matter():
    draw = np.random.default_rng(0)
    codes = draw.normal(size=(200, 4)).round(1)
    codes = np.c_[codes, codes[:, :2] * 2, codes[:, 3] > 0]  # ties between neurons
    targets = [np.digitize(codes[:, 0], [-0.5, 0.5]), codes[:, 3] + draw.normal(size=200)]
    order = draw.permutation(codes.shape[1])
    plain, permuted = boost_trees(codes, targets, codes), boost_trees(codes[:, order], targets, codes[:, order])
    same = [0, 4], [1, 5]  # neurons that nothing tells apart share their importance at random
    for pair in same:
        for trees, columns in ((plain, pair), (permuted, [order.tolist().index(neuron) for neuron in pair])):
            trees.importance[columns] = trees.importance[columns].sum(0)
    np.testing.assert_allclose(permuted.importance, plain.importance[order], rtol=1e-9)
    np.testing.assert_array_equal(permuted.predictions, plain.predictions)
    scaled = boost_trees(codes * 1e3, targets, codes * 1e3)
    np.testing.assert_allclose(scaled.importance[[2, 3, 6]], plain.importance[[2, 3, 6]], rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_two_rows(dtype):
    codes = np.array([[0, 1], [0, 3]], dtype=dtype)
    trees = boost_trees(codes, [np.array([7, 9]), np.array([0.5, 1.5])], codes)
    assert trees.importance.tolist() == [[0, 0], [1, 1]]
    assert trees.predictions[:, 0].tolist() == [7, 9]
    np.testing.assert_allclose(trees.predictions[:, 1], [0.5, 1.5], atol=1e-4)


def test_neighbouring_floats_are_split():
    low = np.array([1.0, 5e-324, -0.0])
    codes = np.stack([low, np.nextafter(low, 2)] * 3)
    truth = np.array([0, 1] * 3)
    for column in codes.T:
        assert (boost_trees(column[:, None], [truth], column[:, None]).predictions[:, 0] == truth).all()


@pytest.mark.parametrize("rows", [155, 1203])
def test_number_of_threads_does_not_matter(rows, monkeypatch):
    monkeypatch.setattr(boosting, "ROUNDS", 4)
    codes, targets = few_values(rows)
    codes += np.random.default_rng(1).normal(size=codes.shape)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(boost_trees(codes, [*targets.T, codes[:, 0] * codes[:, 1]], codes))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        np.testing.assert_array_equal(other.importance, found[0].importance)
        np.testing.assert_array_equal(other.predictions, found[0].predictions)


def test_first_round_agrees_with_scikit_learn(monkeypatch):
    monkeypatch.setattr(boosting, "ROUNDS", 1)
    codes, targets = few_values()
    trees = boost_trees(codes, targets.T, codes)
    for column, target in enumerate(targets.T):
        model = GradientBoostingClassifier(n_estimators=1).fit(codes, target)
        # of two equal splits each may take another, hence the tolerance
        np.testing.assert_allclose(trees.importance[:, column], model.feature_importances_, atol=0.005)


def test_regression_agrees_with_scikit_learn():
    codes, _ = few_values()
    target = codes[:, 0] * 2 + codes[:, 1] + np.random.default_rng(1).normal(size=len(codes))
    trees = boost_trees(codes[:800], [target[:800]], codes[800:])
    model = GradientBoostingRegressor(random_state=0).fit(codes[:800], target[:800])
    np.testing.assert_allclose(trees.importance[:, 0], model.feature_importances_, atol=0.01)
    np.testing.assert_allclose(trees.predictions[:, 0], model.predict(codes[800:]), atol=2.5)


def test_constant_neurons_and_targets():
    codes = np.random.default_rng(0).normal(size=(100, 3))
    codes[:, 1] = 5.0
    targets = np.stack([np.zeros(100), codes[:, 0] > 0], 1).astype(int)
    trees = boost_trees(codes, targets.T, codes)
    assert trees.importance[1].tolist() == [0.0, 0.0]
    assert trees.importance[:, 0].tolist() == [0.0, 0.0, 0.0]
    assert (trees.predictions == targets).all()


def test_targets_do_not_depend_on_each_other():
    """Also where neurons are copies of each other, so that ties are broken at random."""
    draw = np.random.default_rng(0)
    codes = np.repeat(draw.normal(size=(120, 2)).round(1), 2, 1)
    targets = [np.digitize(codes[:, 0], [-0.5, 0.5]), (codes[:, 2] > 0).astype(int), codes[:, 0] + codes[:, 2]]
    together = boost_trees(codes, targets, codes)
    for column, target in enumerate(targets):
        alone = boost_trees(codes, [target], codes)
        np.testing.assert_array_equal(together.importance[:, column], alone.importance[:, 0])
        np.testing.assert_array_equal(together.predictions[:, column], alone.predictions[:, 0])
