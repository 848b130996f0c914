"""Charts of models without masks, whose tokens are clustered."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from alebrije.instruments.grouping.verdict import CLUSTERS
from alebrije.report import sections
from alebrije.report.charts import Point, lines
from alebrije.report.findings import Finding
from alebrije.report.parts import Chart, short, slug
from alebrije.report.sections import titled, varied


def cluster_charts(findings: Sequence[Finding]) -> list[Chart]:
    """FG-ARI by the number of clusters."""
    series: dict[str, list[Point]] = {}
    fixed = [finding for finding in findings if isinstance(finding.get(CLUSTERS), int)]
    labels = varied(fixed, "world", "pixels")
    for finding in sorted(fixed, key=lambda finding: int(finding.get(CLUSTERS))):
        if (found := finding.known("fg-ari")) is not None:
            series.setdefault(short(titled(finding, *labels), 28), []).append(Point(finding.get(CLUSTERS), found))
    if not any(len(points) > 1 for points in series.values()):
        return []
    draw = partial(lines, dict(list(series.items())[: sections.MOST_LINES]), "clusters in every image", "FG-ARI")
    words = "FG-ARI of models without masks, whose tokens are clustered by k-means, by the number of clusters."
    return [Chart(slug("grouping", CLUSTERS), "By number of clusters", words, draw)]
