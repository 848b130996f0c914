"""Significance of correlations, with the numbers that Mahon et al. 2024 print as known answers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from alebrije.errors import InputError
from alebrije.instruments.neurons.significance import LEVEL, correlation_test, correlations_between, p_stronger
from alebrije.results import published

METRICS = ("SNC", "NK", "MIG", "SAP", "IRS", "DCI-D", "DCI-C", "DCI-I", "DCI", "MED")


def table_4(scope: str) -> dict[str, float]:
    rows = [row for row in published("metric_cg_correlation") if (row["scope"], row["source"]) == (scope, "Table 4")]
    return {str(row["metric"]): float(row["pearson"] or 0) for row in rows}


def test_appendix_e() -> None:
    t, p = correlation_test(0.85, 18)
    assert t == pytest.approx(6.45, abs=0.01)
    assert p < 1e-5
    t, p = correlation_test(0.85, 6)
    assert t == pytest.approx(3.23, abs=0.005)
    assert p == pytest.approx(0.033, abs=0.001)


def test_equals_scipy() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 12))
    found = scipy.stats.pearsonr(x, y)
    assert correlation_test(found.statistic, 12)[1] == pytest.approx(found.pvalue)
    assert correlation_test(1.0, 12) == (np.inf, 0.0)


def test_what_figures_15_and_16_are_said_to_show() -> None:
    """Appendix I: SNC above all but NK, NK above IRS, and nothing else; nothing over 3D Shapes alone."""
    said = {("SNC", other) for other in METRICS if other not in ("SNC", "NK")} | {("NK", "IRS")}
    for comparison, expected in (("paper", said), ("independent", {("SNC", "SAP"), ("SNC", "IRS")})):
        r = table_4("all")
        found = {(a, b) for a in METRICS for b in METRICS if p_stronger(r[a], r[b], 18, comparison) < LEVEL}  # type: ignore[arg-type]
        assert found == expected
    r = table_4("3dshapes")
    assert min(p_stronger(r[a], r[b], 6) for a in METRICS for b in METRICS) > LEVEL


def test_what_is_said_of_figure_14() -> None:
    """Appendix H, from Table 8: MED and MIG correlate most with the others, SAP and IRS least; D, C and I strongly."""
    scores = []
    for metric in METRICS:
        over = "product of 2" if metric in ("SNC", "NK") else "all factors"
        rows = [row for row in published("metric_variants") if (row["metric"], row["over"]) == (metric, over)]
        scores.append([float(row["value"] or 0) for row in rows])
    between = correlations_between(np.array(scores).T)
    assert np.allclose(between, np.corrcoef(scores))
    named = [at for at, metric in enumerate(METRICS) if metric != "DCI"]  # the figure has its parts
    mean = {METRICS[at]: np.mean([between[at, other] for other in named if other != at]) for at in named}
    order = sorted(mean, key=lambda metric: mean[metric])
    assert set(order[-2:]) == {"MED", "MIG"}
    assert "IRS" in order[:2]
    parts = [METRICS.index(metric) for metric in ("DCI-D", "DCI-C", "DCI-I")]
    assert between[np.ix_(parts, parts)].min() > 0.85


def test_dependent_correlations() -> None:
    """The example of Meng, Rosenthal and Rubin (1992): r = .63, -.03 and -.19 over 15 points, z = 1.68."""
    assert p_stronger(0.63, -0.03, 15, "dependent", -0.19) == pytest.approx(scipy.stats.norm.sf(1.68), abs=0.001)
    apart = [p_stronger(0.8, 0.6, 30, "dependent", between) for between in (0.5, 0.7, 0.9)]
    assert apart == sorted(apart, reverse=True)
    assert p_stronger(0.5, 0.5, 30, "dependent", 1.0) == 0.5
    assert p_stronger(0.6, 0.8, 30) + p_stronger(0.8, 0.6, 30) == pytest.approx(1)
    with pytest.raises(InputError, match="between"):
        p_stronger(0.8, 0.6, 30, "dependent")
    with pytest.raises(InputError, match="at least 4"):
        p_stronger(0.8, 0.6, 3)
