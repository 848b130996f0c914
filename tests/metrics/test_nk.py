"""NK: known answers of Mahon et al. 2024."""

import numpy as np
import pytest

from alebrije import metrics
from alebrije.demo import toys
from tests.metrics.codes import toy_model


@pytest.mark.parametrize("model", ["M1", "M2"])
def test_table_1_neuron_knockout(model):
    result = metrics.neuron_knockout(*toy_model(model, rows=90_000), epochs=2)
    assert result.score == pytest.approx(0.125, abs=0.008)
    assert result.full_accuracy == pytest.approx(0.75, abs=0.01)


def test_knockout_of_theorem_31_is_0_or_one_half_depending_on_the_alignment():
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, (9000, 4))
    result = metrics.neuron_knockout(toys.exclusive_or(labels, draw), labels, epochs=60)
    assert (result.full_accuracy > 0.9).all()
    drops = np.abs(result.per_factor)
    assert ((drops < 0.05) | (np.abs(drops - 0.5) < 0.08)).all()
