"""Charts as SVG for the page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from alebrije.report.charts import Bar, as_inline_svg, bars, styled
from alebrije.results import Estimate


def test_a_chart_has_readable_text_and_unique_ids():
    found = Estimate(0.5, low=0.4, high=0.6)
    with styled():
        figure = bars([Bar("$\\frac{<b>", kind, found, Estimate(0.4)) for kind in ("plain", "hatched")], "score")
    svg = as_inline_svg(figure, "first")
    assert "$\\frac{&lt;b&gt;" in svg
    assert "<style" not in svg
    root = ET.fromstring(svg)
    names = [node.get("id") for node in root.iter() if node.get("id")]
    assert len(names) == len(set(names))
    assert all(name.startswith("first-") for name in names)
    used = set(re.findall(r"url\(#(.+?)\)", svg)) | set(re.findall(r'href="#(.+?)"', svg))
    assert used == set(names)
    assert used
    colors = set(re.findall(r'(?:fill|stroke)="(#.+?)"', svg))
    assert colors
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in colors)
