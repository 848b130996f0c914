"""Intervals by resampling: coverage, seeds, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from alebrije.errors import InputError
from alebrije.metrics.uncertainty import resample_cases, resample_rows


class TestIntervals:
    def test_cases_cover_the_mean_95_times_in_100(self) -> None:
        """300 trials: the share has a standard deviation of 1.3 %, and percentiles of 60 cases fall 1 % short."""
        draw = np.random.default_rng(0)
        hits = []
        for trial in range(300):
            interval = resample_cases(draw.normal(3.0, 2.0, size=60), 200, seed=trial)
            hits.append(interval.low <= 3.0 <= interval.high)
        assert 0.90 <= np.mean(hits) <= 0.98

    def test_rows_cover_the_mean_95_times_in_100(self) -> None:
        draw = np.random.default_rng(0)
        hits = []
        for trial in range(300):
            values = draw.normal(3.0, 2.0, size=60)
            interval = resample_rows(lambda rows, v=values: float(v[rows].mean()), 60, values.mean(), 50, seed=trial)
            hits.append(interval.low <= 3.0 <= interval.high)
        assert 0.90 <= np.mean(hits) <= 0.98

    def test_both_find_the_standard_error_of_a_mean(self) -> None:
        values = np.random.default_rng(1).normal(size=400)
        reach = 1.96 * values.std(ddof=1) / math.sqrt(400)
        cases = resample_cases(values, 2000, seed=0)
        rows = resample_rows(lambda rows: float(values[rows].mean()), 400, float(values.mean()), 2000, seed=0)
        for interval in (cases, rows):
            assert interval.resamples == 2000
            assert (interval.high - interval.low) / 2 == pytest.approx(reach, rel=0.08)
            assert (interval.high + interval.low) / 2 == pytest.approx(values.mean(), abs=0.1 * reach)
        assert cases.method != rows.method

    def test_the_estimate_is_the_middle_even_if_resampling_is_biased(self) -> None:
        interval = resample_rows(lambda rows: float(len(set(rows))), 100, 100.0, 50, seed=0)
        assert (interval.low + interval.high) / 2 == pytest.approx(100.0)
        assert interval.low < 100.0

    def test_seeds(self) -> None:
        values = np.random.default_rng(2).normal(size=30)
        assert resample_cases(values, 100, 5) == resample_cases(values, 100, 5)
        assert resample_cases(values, 100, 5) != resample_cases(values, 100, 6)

        def on_rows(seed: int) -> Any:
            return resample_rows(lambda rows: float(values[rows].mean()), 30, 0.0, 10, seed)

        assert on_rows(5) == on_rows(5)
        assert on_rows(5) != on_rows(6)

    def test_leave_the_global_generator_alone(self) -> None:
        np.random.seed(0)  # noqa: NPY002
        before = np.random.get_state()[1].tolist()  # noqa: NPY002
        resample_cases(np.arange(5.0), 10, 0)
        resample_rows(lambda rows: float(rows[0]), 5, 0.0, 10, 0)
        assert np.random.get_state()[1].tolist() == before  # noqa: NPY002

    def test_equal_cases_have_no_spread(self) -> None:
        interval = resample_cases(np.full(10, 0.5), 100, 0)
        assert (interval.low, interval.high) == (0.5, 0.5)

    def test_rows_are_drawn_with_replacement_from_all(self) -> None:
        seen: list[list[int]] = []
        resample_rows(lambda rows: float(bool(seen.append(list(rows)))), 20, 0.0, 50, 0)
        assert all(len(rows) == 20 and len(set(rows)) < 20 for rows in seen)
        assert {row for rows in seen for row in rows} == set(range(20))

    @pytest.mark.parametrize("resamples", [1, 0, -1])
    def test_too_few_resamples_are_refused(self, resamples: int) -> None:
        with pytest.raises(InputError, match="at least 2"):
            resample_rows(lambda rows: 0.0, 10, 0.0, resamples, 0)
