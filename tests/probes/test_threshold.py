"""Support vector machines on one neuron agree with scikit-learn's, solved to a small tolerance."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from alebrije.probes import SortedNeuron, svm_predictions


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (0.01, 0.0), (50.0, 2.0)])
def test_predictions_agree_with_scikit_learn(classes, scale, offset):
    draw = np.random.default_rng(classes)
    labels = draw.integers(0, classes, 900) ** 2 - 3
    code = scale * (offset + np.sqrt(labels + 3) + draw.normal(size=900))
    new = np.linspace(code.min(), code.max(), 2000)
    model = LinearSVC(C=0.01, class_weight="balanced", dual=False, tol=1e-12, max_iter=100_000)
    expected = model.fit(code[:, None], labels).predict(new[:, None])
    found = svm_predictions(SortedNeuron.of(code), labels, new)
    assert scale < 1 or len(np.unique(found)) > 1
    assert (found == expected).mean() >= 0.999  # a border may lie within rounding of a new value


def test_constant_neuron_and_single_class():
    constant = SortedNeuron.of(np.ones(30))
    assert len(np.unique(svm_predictions(constant, np.repeat([0, 1], [10, 20]), np.ones(5)))) == 1
    assert svm_predictions(constant, np.full(30, 4), np.ones(3)).tolist() == [4, 4, 4]
