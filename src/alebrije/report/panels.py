"""Small charts side by side: lines that share a legend, and graphs of arrows between nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alebrije.report.charts import ACCENT, COLORS, DASHES, INK, LINE, MARKERS, SOFT, WIDTH, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MOST_NARROW = 4  # panels of a figure that is not wide


@dataclass(frozen=True)
class Panel:
    """One chart of several: a line for each name, the papers' numbers, and a horizontal line to compare with."""

    lines: Mapping[str, Sequence[Point]]
    published: Mapping[str, Sequence[Point]]
    reference: tuple[str, float] | None = None


def line_panels(panels: Mapping[str, Panel], x_label: str, y_label: str, log: bool = False) -> Figure:
    """A chart for each title, two in a row or four if there are many, in which a name has the same colour everywhere.

    Vertical lines are 95 % intervals; hollow marks are the papers' numbers.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for panel in panels.values() for name in panel.lines))
    columns = min(columns_for(len(panels)), len(panels))
    rows = -(-len(panels) // columns)
    legend = 0.17 * math.ceil((len(names) + 2) / 2)
    figure = Figure(figsize=(WIDTH * max(1, columns / 2), 1.75 * rows + 0.5 + legend), layout="constrained")
    shape = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for at, axes in enumerate(shape.flat):
        if at >= len(panels):
            axes.set_axis_off()
    for at, (title, panel) in enumerate(panels.items()):
        axes = shape.flat[at]
        _draw_lines(axes, panel, names, log)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(x_label if at >= len(panels) - columns else "")
    figure.supylabel(y_label, fontsize=9)
    _shared_legend(figure, shape.flat[0], names, panels)
    return figure


def columns_for(panels: int) -> int:
    """How many panels stand in a row; a figure of more than two columns is wide.

    >>> columns_for(4), columns_for(16)
    (2, 4)
    """
    return 2 if panels <= MOST_NARROW else 4


def _draw_lines(axes: Axes, panel: Panel, names: Sequence[str], log: bool) -> None:
    from matplotlib.ticker import LogFormatter

    for name, points in panel.lines.items():
        color, marker, dash = _look(names.index(name))
        known = sorted((point for point in points if point.score.value is not None), key=lambda point: point.x)
        axes.plot([p.x for p in known], [p.score.value or 0.0 for p in known], dash, color=color, marker=marker,
                  markersize=4, linewidth=1.4)  # fmt: skip
        for point in known:
            if point.score.low is not None and point.score.high is not None:
                axes.vlines(point.x, point.score.low, point.score.high, color=color, linewidth=1.1, alpha=0.8)
        for point in panel.published.get(name, ()):
            axes.plot(point.x, point.score.value or 0.0, marker, color="none", markeredgecolor=color, markersize=8)
    if panel.reference is not None:
        axes.axhline(panel.reference[1], color=SOFT, linewidth=1, linestyle=":")
    if log:
        axes.set_yscale("log")
        for ticks in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            ticks(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))
    ticks_at = sorted({point.x for points in panel.lines.values() for point in points})
    if len(ticks_at) <= 8:
        axes.set_xticks(ticks_at, [f"{x:g}" for x in ticks_at])
    axes.tick_params(labelsize=7, which="both")


def _look(number: int) -> tuple[str, str, str]:
    return COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)], DASHES[number // len(COLORS) % len(DASHES)]


def _shared_legend(figure: Figure, axes: Axes, names: Sequence[str], panels: Mapping[str, Panel]) -> None:
    handles = []
    for number, name in enumerate(names):
        color, marker, dash = _look(number)
        handles += axes.plot([], [], dash, color=color, marker=marker, markersize=4, linewidth=1.4, label=name)
    references = dict.fromkeys(panel.reference[0] for panel in panels.values() if panel.reference is not None)
    for name in references:
        handles += axes.plot([], [], ":", color=SOFT, linewidth=1, label=name)
    if any(points for panel in panels.values() for points in panel.published.values()):
        handles += axes.plot([], [], "o", color="none", markeredgecolor=SOFT, markersize=8, label="published")
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)


@dataclass(frozen=True)
class Graph:
    """Nodes at places, arrows between them, and a line of words below. A node without an arrow is pale.

    `nodes` are names and positions, x to the right and y down; `labels` are what is written in them.
    """

    nodes: Mapping[str, tuple[float, float]]
    labels: Mapping[str, str]
    arrows: Sequence[tuple[str, str]]
    words: Sequence[str] = ()


def graph_panels(graphs: Mapping[str, Graph], groups: Sequence[tuple[str, float, float]] = ()) -> Figure:
    """A graph for each title, up to four in a row. `groups` are names above nodes, at places that all graphs share."""
    from matplotlib.figure import Figure

    columns = min(columns_for(len(graphs)), len(graphs))
    rows = -(-len(graphs) // columns)
    lines = max(len(graph.words) for graph in graphs.values())
    figure = Figure(figsize=(WIDTH / 2 * max(columns, 1), (2.6 + 0.14 * lines) * rows), layout="constrained")
    shape = figure.subplots(rows, columns, squeeze=False)
    for axes in shape.flat:
        axes.set_axis_off()
    for axes, (title, graph) in zip(shape.flat, graphs.items(), strict=False):
        _draw_graph(axes, graph, groups)
        axes.set_title(title, fontsize=9)
        axes.text(0.5, -0.02, "\n".join(graph.words), transform=axes.transAxes, fontsize=7, ha="center", va="top",
                  color=INK)  # fmt: skip
    return figure


def _draw_graph(axes: Axes, graph: Graph, groups: Sequence[tuple[str, float, float]]) -> None:
    used = {node for arrow in graph.arrows for node in arrow}
    targets = {target for _, target in graph.arrows}
    points = [*graph.nodes.values(), *((x, y) for _, x, y in groups)]
    across, down = zip(*points, strict=True)
    axes.set(xlim=(min(across) - 0.6, max(across) + 0.6), ylim=(max(down) + 0.5, min(down) - 0.5))
    for source, target in graph.arrows:
        axes.annotate(
            "", graph.nodes[target], graph.nodes[source], zorder=1,
            arrowprops={"arrowstyle": "-|>", "color": INK, "shrinkA": 12, "shrinkB": 15, "linewidth": 1.1},
        )  # fmt: skip
    for node, (x, y) in graph.nodes.items():
        edge = ACCENT if node in targets else INK if node in used else LINE
        box = {"boxstyle": "round,pad=0.28", "facecolor": "white", "edgecolor": edge, "linewidth": 1.2}
        axes.text(x, y, graph.labels[node], fontsize=6.5, ha="center", va="center", zorder=2,
                  color=INK if node in used else SOFT, bbox=box)  # fmt: skip
    for name, x, y in groups:
        axes.text(x, y, name, fontsize=6.5, color=SOFT, ha="center", va="center")
