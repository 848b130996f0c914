"""Known answers for several metrics: Table 1 and Theorem 3.1 of Mahon et al. 2024."""

import numpy as np
import pytest

from alebrije import metrics
from alebrije.demo import toys
from tests.metrics.codes import toy_model

# metric, M1, M2 and the tolerance of 200,000 samples; MIG of M2 is 12.94 (the paper misprints 11.9)
TABLE_1 = [
    ("mig", 0.1887, 0.1294, 0.005),
    ("sap", 0.25, 0.15, 0.006),
    ("med-raw", 0.583, 0.464, 0.005),
    ("med", 0.583, 0.499, 0.006),
    ("snc", 0.25, 0.45, 0.006),
]


@pytest.mark.parametrize(("name", "first", "second", "tolerance"), TABLE_1)
def test_table_1(name, first, second, tolerance):
    assert metrics.find(name)(*toy_model("M1")).score == pytest.approx(first, abs=tolerance)
    assert metrics.find(name)(*toy_model("M2")).score == pytest.approx(second, abs=tolerance)


@pytest.mark.parametrize(("factors", "values"), [(4, 2), (8, 2), (4, 3)])
def test_theorem_31_single_neurons_have_no_information_and_all_together_do(factors, values):
    draw = np.random.default_rng(0)
    labels = draw.integers(0, values, (20_000, factors))
    codes = toys.exclusive_or(labels, draw, values)
    digits = np.floor(codes * values), np.floor(codes * values % 1 * values)
    assert ((digits[0] + np.roll(digits[1], -1, axis=1)) % values == labels).all()  # Equation 1
    assert metrics.mutual_information_gap(codes, labels).score < 0.003
    assert metrics.single_neuron_classification(codes, labels).score < 0.02
    fooled = metrics.dci(codes, labels)
    assert fooled.disentanglement > 0.4  # trees use exactly two neurons a factor
