"""SNC on balanced rows, and Hinton diagrams."""

from __future__ import annotations

import numpy as np
import pytest

from alebrije.instruments.neurons.snc import balanced_rows, hinton_details, single_neuron_predictions
from alebrije.metrics import single_neuron_classification


def test_as_many_rows_of_each_class() -> None:
    classes = np.random.default_rng(0).integers(0, 7, 500)
    counts = np.bincount(classes[balanced_rows(classes)])
    assert (counts == np.bincount(classes).min()).all()


def test_the_diagram_keeps_aligned_neurons() -> None:
    draw = np.random.default_rng(0)
    factors = draw.integers(0, 3, (400, 2))
    codes = draw.normal(size=(400, 50))
    codes[:, 40] = factors[:, 0]
    shown = hinton_details(codes, factors, [40, 7])
    assert len(shown["neurons"]) == 32
    assert [shown["neurons"][at] for at in shown["alignment"]] == [40, 7]
    assert shown["information"][shown["alignment"][0]][0] == pytest.approx(shown["entropies"][0])


class TestPredictions:
    def test_equal_to_snc_on_the_training_rows(self) -> None:
        """Where no two codes are equal, the training rows get the accuracy of SNC itself."""
        draw = np.random.default_rng(0)
        factors = np.stack([np.repeat(np.arange(count), 60 // count) for count in (3, 4, 5)], 1)
        codes = draw.permuted(factors, axis=1) + draw.normal(size=(60, 3))
        predicted = single_neuron_predictions(codes, factors, codes)
        assert (predicted == factors).mean(0) == pytest.approx(single_neuron_classification(codes, factors).accuracy)

    def test_a_perfect_neuron_reads_new_rows(self) -> None:
        """Also if training lacks combinations, so that values are not equally frequent."""
        factors = np.random.default_rng(1).integers(0, (4, 6, 3), (500, 3))
        left_out = (factors[:, :2] == (3, 5)).all(1)
        codes = -2.5 * factors[:, ::-1]
        predicted = single_neuron_predictions(codes[~left_out], factors[~left_out], codes[left_out])
        assert np.array_equal(predicted, factors[left_out])

    def test_values_are_any_integers(self) -> None:
        factors = np.random.default_rng(2).integers(0, 3, (90, 1)) * 7 - 4
        assert set(single_neuron_predictions(factors / 9, factors, factors / 9)[:, 0]) == {-4, 3, 10}

    def test_a_constant_neuron_guesses_one_value(self) -> None:
        factors = np.repeat(np.arange(3), 10)[:, None]
        codes = np.zeros((30, 1))
        assert (single_neuron_predictions(codes, factors, codes) == factors).mean() == pytest.approx(1 / 3)
