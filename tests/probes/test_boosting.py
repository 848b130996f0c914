"""Boosted trees agree with scikit-learn's."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from alebrije.metrics.dci import completeness, disentanglement
from alebrije.probes import boost_trees, boosting


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


def test_trees_agree_with_scikit_learn_if_all_thresholds_are_tried():
    codes, targets = few_values()
    trees = boost_trees(codes[:800], targets[:800].T, codes[800:])
    for column, target in enumerate(targets.T):
        model = GradientBoostingClassifier(random_state=0).fit(codes[:800], target[:800])
        np.testing.assert_allclose(trees.importance[:, column], model.feature_importances_, atol=0.01)
        assert (trees.predictions[:, column] == model.predict(codes[800:])).mean() > 0.97


@pytest.mark.slow
def test_splits_between_any_two_rows_give_the_scores_of_scikit_learn():
    draw, counts = np.random.default_rng(0), (3, 6, 9)
    targets = np.stack([draw.integers(0, count, 1000) for count in counts], 1)
    codes = np.concatenate([targets / counts + 0.1 * draw.normal(size=(1000, 3)), draw.normal(size=(1000, 21))], 1)
    theirs = [
        GradientBoostingClassifier(random_state=0).fit(codes, column).feature_importances_ for column in targets.T
    ]
    ours = boost_trees(codes, targets.T, codes[:2]).importance
    for measure in (disentanglement, completeness):
        assert measure(ours) == pytest.approx(measure(np.stack(theirs, 1)), abs=0.01)


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
