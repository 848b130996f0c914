"""Means over seeds, differences and their text: known answers and agreement with scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from alebrije.results import Estimate
from alebrije.results.estimates import difference, format_number, includes_zero, mean_over_seeds

FINITE = st.integers(-(10**6), 10**6).map(lambda number: number / 1000)


class TestMeanOverSeeds:
    @given(st.lists(FINITE, min_size=2, max_size=9))
    def test_agrees_with_scipy(self, values: list[float]) -> None:
        over = mean_over_seeds([Estimate(value) for value in values])
        scale = max(map(abs, values)) + 1e-300
        assert over.value == pytest.approx(np.mean(values), abs=1e-9 * scale)
        assert over.standard_error == pytest.approx(stats.sem(values), abs=1e-9 * scale)
        if stats.sem(values) > 1e-9 * scale:
            low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
            assert (over.low, over.high) == pytest.approx((low, high), abs=1e-6 * scale)

    def test_equal_values_have_no_spread(self) -> None:
        over = mean_over_seeds([Estimate(0.1)] * 3)
        assert (over.value, over.standard_error, over.low, over.high) == (0.1, 0.0, 0.1, 0.1)
        assert str(over) == "0.100 ± 0 (n=3)"

    def test_what_has_no_value_is_counted(self) -> None:
        over = mean_over_seeds([Estimate(1.0), Estimate(None, reason="nan"), Estimate(2.0)])
        assert (over.value, over.n, over.left_out) == (1.5, 2, 1)
        none = mean_over_seeds([Estimate(None, reason="nan")])
        assert (none.value, none.n, none.reason, str(none)) == (None, 0, "nan", "n/a")


class TestDifference:
    @given(st.lists(FINITE, min_size=2, max_size=6), st.lists(FINITE, min_size=2, max_size=6))
    def test_agrees_with_welch(self, one: list[float], other: list[float]) -> None:
        scale = max(map(abs, one + other)) + 1e-300
        if min(np.std(one), np.std(other)) < 1e-6 * scale:
            return
        apart = difference(*(mean_over_seeds([Estimate(v) for v in values]) for values in (one, other)))
        low, high = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
        assert (apart.low, apart.high) == pytest.approx((low, high), abs=1e-6 * scale)

    def test_one_side_alone(self) -> None:
        ours = mean_over_seeds([Estimate(value) for value in (1.0, 2.0, 3.0)])
        assert ours.low is not None
        assert includes_zero(difference(ours, Estimate(ours.low + 0.01))) is True
        assert includes_zero(difference(ours, Estimate(ours.low - 0.01))) is False
        assert includes_zero(difference(Estimate(1.0), Estimate(1.0))) is None
        assert includes_zero(difference(Estimate(None, reason="x"), ours)) is None

    def test_no_spread_at_all_must_be_equal(self) -> None:
        exact = mean_over_seeds([Estimate(0.5)] * 2)
        assert includes_zero(difference(exact, exact)) is True
        assert includes_zero(difference(exact, Estimate(0.6))) is False


class TestText:
    @pytest.mark.parametrize(
        ("estimate", "text"),
        [
            (Estimate(0.8132, 0.0117, n=5), "0.813 ± 0.012 (n=5)"),
            (Estimate(0.8132), "0.813"),
            (Estimate(0.8, 0.0996), "0.80 ± 0.10"),
            (Estimate(2493.24, 123.4), "2493 ± 123"),
            (Estimate(24.72, 1.5), "24.7 ± 1.5"),
            (Estimate(-0.5, 0.25), "-0.50 ± 0.25"),
            (Estimate(0.8, 1e-12), "0.800 ± 1.0e-12"),
            (Estimate(1.0), "1.00"),
            (Estimate(0.0), "0"),
        ],
    )
    def test_known(self, estimate: Estimate, text: str) -> None:
        assert str(estimate) == text

    @given(st.floats(-1e300, 1e300))
    def test_close_to_the_number(self, value: float) -> None:
        assert float(format_number(value)) == pytest.approx(value, rel=6e-3)
        assert len(format_number(value)) < 12
