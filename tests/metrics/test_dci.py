"""DCI: agreement with a slow implementation and with scikit-learn's trees."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from alebrije import metrics
from alebrije.metrics.dci import completeness, disentanglement
from alebrije.probes import boost_trees
from tests.metrics import references
from tests.metrics.codes import FACTORS, mixed_codes, split_parts, toy_model

rng = np.random.default_rng(1)


def test_disentanglement_and_completeness():
    importance = np.random.default_rng(0).random((7, 4)) ** 4
    assert disentanglement(importance) == pytest.approx(references.disentanglement(importance), abs=1e-12)
    assert completeness(importance) == pytest.approx(references.completeness(importance), abs=1e-12)


def test_dci_with_boosted_trees():
    codes, factors = mixed_codes(rows=1800)
    slow = references.dci(*split_parts(codes, factors, 1 / 3))
    fast = metrics.dci(codes, factors)
    for name in ("disentanglement", "completeness", "informativeness"):
        assert getattr(fast, name) == pytest.approx(slow[name], abs=0.03)
    np.testing.assert_allclose(fast.importance, slow["importance"], atol=0.04)


SPARSE = np.where(rng.random((6000, 4)) < 0.97, 0.0, rng.random((6000, 4)))
SMALL = rng.integers(0, 3, (900, 2)) + 0.7 * rng.normal(size=(900, 2))


@pytest.mark.parametrize(
    ("codes", "targets"),
    [(SPARSE, (SPARSE[:, :2] > 0).astype(int)), (SMALL, np.digitize(SMALL, [0.5, 1.5]))],
    ids=["mostly zero", "small"],
)
def test_importance_agrees_with_scikit_learn(codes, targets):
    fast = boost_trees(codes, targets.T, codes).importance
    slow = np.stack(
        [GradientBoostingClassifier(random_state=0).fit(codes, t).feature_importances_ for t in targets.T], 1
    )
    assert disentanglement(fast) == pytest.approx(disentanglement(slow), abs=0.02)
    assert completeness(fast) == pytest.approx(completeness(slow), abs=0.02)


@pytest.mark.parametrize("name", ["dci", "dci-linear", "med"])
def test_constant_factors_are_left_out_of_informativeness(name):
    factors = np.c_[FACTORS[:, :1], np.zeros((300, 2), int)]
    result = metrics.find(name)(rng.normal(size=(300, 3)), factors)
    assert result.informativeness < 0.6
    assert np.isnan(result.per_factor).tolist() == [False, True, True]
    assert result.reason == "factors [1, 2] have a single value"


def test_table_1_dci():
    assert metrics.dci(*toy_model("M1", rows=30_000)).score == pytest.approx(0.583, abs=0.01)
    assert metrics.dci(*toy_model("M2", rows=30_000)).score == pytest.approx(0.431, abs=0.015)


@pytest.mark.parametrize("model", ["boosted-trees", "linear"])
def test_only_the_fractional_factor_is_regressed(model):
    draw = np.random.default_rng(3)
    classes = draw.integers(0, 4, 400)
    names = np.array([5, 0, 9, 2])[classes]  # in no order, so regression would fail
    angle = draw.random(400)
    codes = np.c_[np.eye(4)[classes] + 0.2 * draw.normal(size=(400, 4)), angle]
    alone = metrics.dci(codes, names[:, None], model=model)
    both = metrics.dci(codes, np.c_[names, angle], model=model)
    assert both.per_factor[0] == pytest.approx(alone.per_factor[0], abs=0.01)
    np.testing.assert_allclose(both.importance[:, 0], alone.importance[:, 0], atol=0.01)
    assert both.per_factor[0] > 0.95
    assert both.per_factor[1] > 0.95  # R2
