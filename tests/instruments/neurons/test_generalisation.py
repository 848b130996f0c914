"""Held-out pairs, and accuracies adjusted for chance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from alebrije.instruments.neurons.correlation import CORRELATION
from alebrije.instruments.neurons.generalisation import (
    ACCURACY,
    PAIRS,
    adjusted_accuracy,
    pairs_in,
    without_pair,
)
from alebrije.instruments.neurons.images import Corpus
from alebrije.results.published import published_for
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import TrainedModel
from alebrije.studies.references import Noise
from alebrije.train.plan import plan


def test_adjusted_for_chance() -> None:
    value = adjusted_accuracy([np.array([1.0, 0.0]), np.array([1.0, 1.0])], 1 / 32, {})
    assert value.score == pytest.approx((0.75 - 1 / 32) / (31 / 32))
    assert value.details["accuracy"] == 0.75
    assert value.interval is not None
    assert value.interval.method == "Student's t over held-out pairs"
    assert adjusted_accuracy([np.zeros(10)], 0.25, {}).score == 0.0


def test_intervals_if_all_are_right_or_wrong() -> None:
    most = 1.96**2 / (20 + 1.96**2)  # upper end of Wilson's interval for 0 of 20
    for cases in ([np.zeros(20)], [np.zeros(8), np.zeros(12)]):
        none = adjusted_accuracy(cases, 0.0, {}).interval
        all_right = adjusted_accuracy([each + 1 for each in cases], 0.0, {}).interval
        assert none is not None
        assert all_right is not None
        assert (none.low, none.high) == (pytest.approx(0, abs=1e-9), pytest.approx(most, abs=1e-4))
        assert (all_right.low, all_right.high) == (pytest.approx(1 - most, abs=1e-4), pytest.approx(1))
        assert none.method == "Wilson's over held-out images"


def test_the_papers_mean() -> None:
    # Table 33: both right, by pair; Table 3 prints 14.75
    rows = [0.0497, 0.0, 0.3294, 0.0, 0.0, 0.3778, 0.1441, 0.4919]
    assert adjusted_accuracy([np.full(4, row) for row in rows], 1 / 32, {}).score == pytest.approx(0.1475, abs=1e-4)


def test_pairs() -> None:
    assert [len(PAIRS[world]) for world in ("dsprites", "rooms", "mpi3d", "arm")] == [5, 8, 6, 6]
    assert PAIRS["shapes3d"] == PAIRS["rooms"]
    for world in ("dsprites", "rooms", "arm"):
        assert len(pairs_in(Corpus(world, 1))) == len(PAIRS[world])
    assert [str(pair) for pair in pairs_in(Corpus("rooms", 1), 2)] == ["size 0, shape 0", "size 5, shape 2"]


def test_a_model_without_a_pair(tmp_path: Path) -> None:
    corpus = Corpus("dsprites", 10)
    pair = pairs_in(corpus)[1]
    trained = TrainedModel(plan("ae", preset_name="tiny", world="dsprites"), ResultFolder(tmp_path))
    less = without_pair(trained, pair, corpus)
    assert isinstance(less, TrainedModel)
    assert less.plan.without == (("scale", 5), ("shape", 2))
    assert without_pair(less, pair, corpus) is less
    assert less.path != trained.path
    assert without_pair(trained, pair, Corpus("rooms", 10)) is trained  # it never saw rooms anyway
    assert without_pair(Noise(), pair, corpus) == Noise()


def test_published_numbers_are_found() -> None:
    labels = {"world": "rooms", "model": "beta-vae", "size": "paper"}
    assert published_for(labels | {"setting": "CG", "feature": "both"}, ACCURACY)[0].value == pytest.approx(0.1475)
    assert all(published_for(labels, name) for name in ("SNC", "NK", "MIG", "MED", "MLP accuracy", "DCI-D"))
    found = published_for({"predictor": "SNC", "scope": "rooms"}, CORRELATION)
    assert [number.value for number in found] == [0.849]
