"""Logistic regression from a sample agrees with scikit-learn's on all rows, solved to a small tolerance."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from alebrije.probes import linear, logistic, logistic_regression


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_fit_from_a_sample_agrees_with_scikit_learn(monkeypatch, classes):
    monkeypatch.setattr(linear, "MANY_ROWS", 1000)
    monkeypatch.setattr(logistic, "SAMPLE", 3000)
    monkeypatch.setattr(logistic, "PART", 1500)
    draw = np.random.default_rng(classes)
    labels = draw.integers(0, classes, 6000) * 2 + 1
    codes = draw.normal(size=(6000, 4)) + 0.5 * labels[:, None] * [1.0, 0.3, 0.0, -0.5]
    found = logistic_regression(codes, labels)
    assert isinstance(found, logistic.FittedLogistic)
    expected = LogisticRegression(solver="newton-cholesky", tol=1e-10).fit(codes, labels)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-5)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, atol=1e-5)
    np.testing.assert_allclose(found.predict_proba(codes), expected.predict_proba(codes), atol=1e-6)
    assert (found.predict(codes) == expected.predict(codes)).all()


def test_class_that_the_sample_misses_is_fitted_on_all_rows(monkeypatch):
    monkeypatch.setattr(linear, "MANY_ROWS", 1000)
    monkeypatch.setattr(logistic, "SAMPLE", 100)
    labels = np.r_[np.zeros(1500, int), 1, 1, np.full(1500, 2)]
    found = logistic_regression(labels[:, None] + np.linspace(-1, 1, len(labels))[:, None], labels)
    assert isinstance(found, LogisticRegression)
    assert found.classes_.tolist() == [0, 1, 2]
