"""Cells of tables."""

from __future__ import annotations

from alebrije.report.grids import compared_entry, estimate_entry
from alebrije.results import Estimate, published_for


def test_a_score_above_the_published_number() -> None:
    (published,) = published_for({"model": "beta-vae", "world": "dsprites"}, "SNC")
    found = compared_entry(Estimate(0.2, low=0.1, high=0.3), published, "one of two")
    assert found.text == "0.200"
    assert found.small == ("0.100 to 0.300", "one of two", "published 0.248 ± 0.014 (n=5)")
    assert compared_entry(Estimate(0.2), None) == estimate_entry(Estimate(0.2))
    lacking = compared_entry(Estimate(None, reason="too long"), published)
    assert (lacking.text, lacking.small[0]) == ("n/a", "too long")
