"""SNC on balanced rows, and Hinton diagrams."""

from __future__ import annotations

import numpy as np
import pytest

from alebrije.instruments.neurons.snc import balanced_rows, hinton_details


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
