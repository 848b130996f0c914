"""Lines with bands: scores over a number, such as that of slots, in one panel or several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alebrije.report.charts import COLORS, DASHES, INK, MARKERS, SOFT, WIDTH, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 2
_WIDE = 8  # times: a larger range of x gets a logarithmic axis
_LABEL_GAP = 0.085  # of the axis, between two tick labels


@dataclass(frozen=True)
class Band:
    """A line with the intervals of its points as a band; lines of one name look the same in all panels."""

    name: str
    points: Sequence[Point]
    color: int = 0
    dash: int = 0


def band_panels(
    panels: Mapping[str, Sequence[Band]],
    x_label: str,
    y_label: str,
    most: float | None = None,
    marks: Mapping[str, float] | None = None,
    mark_words: str = "",
    log: bool = False,
) -> Figure:
    """A panel for each title. `marks` are dotted vertical lines by title, `most` is the end of the y axis.

    With `log`, a wide range of x gets a logarithmic axis.
    """
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    shown = {band.name: band for bands in panels.values() for band in bands}
    marked = bool(mark_words) and bool(marks)
    height = (2.5 if columns == 1 else 1.75) * rows + 0.5 + 0.17 * math.ceil((len(shown) + marked) / 2)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    xs = sorted({point.x for bands in panels.values() for band in bands for point in band.points})
    first: Axes | None = None
    for number, (title, bands) in enumerate(panels.items()):
        axes = first = figure.add_subplot(rows, columns, number + 1, sharey=first)
        axes.set_title(title, fontsize=8, color=INK, loc="left")
        for band in bands:
            _draw(axes, band)
        if marks and title in marks:
            axes.axvline(marks[title], color=SOFT, linewidth=1, linestyle=":", zorder=0)
        _ticks(axes, xs, log)
        lowest = number >= len(panels) - columns
        axes.tick_params(labelsize=7, labelleft=number % columns == 0)
        axes.set_xlabel(x_label if lowest else "", fontsize=8)
        axes.set_ylabel(y_label if number % columns == 0 else "", fontsize=8)
    assert first is not None
    if most is not None:
        first.set_ylim(top=most, bottom=min(0.0, first.get_ylim()[0]))
    handles = [_draw(first, Band(name, (), band.color, band.dash)) for name, band in shown.items()]
    if marked:
        handles += first.plot([], [], ":", color=SOFT, linewidth=1, label=mark_words)
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    return figure


def _draw(axes: Axes, band: Band) -> Any:
    known = sorted((point for point in band.points if point.score.value is not None), key=lambda point: point.x)
    color, marker = COLORS[band.color % len(COLORS)], MARKERS[band.color % len(MARKERS)]
    ends = [(p.x, p.score.low, p.score.high) for p in known if p.score.low is not None and p.score.high is not None]
    if len(ends) > 1:
        at, low, high = zip(*ends, strict=True)
        axes.fill_between(at, low, high, color=color, alpha=0.16, linewidth=0)
    elif ends:
        axes.vlines(*zip(*ends, strict=True), color=color, linewidth=1.1, alpha=0.8)
    x, y = [point.x for point in known], [point.score.value or 0.0 for point in known]
    dash = DASHES[band.dash % len(DASHES)]
    return axes.plot(x, y, dash, color=color, marker=marker, markersize=3.5, linewidth=1.4, label=band.name)[0]


def _ticks(axes: Axes, xs: Sequence[float], log: bool) -> None:
    """Ticks at all numbers; labels at those that have space."""
    if not xs:
        return
    if log := log and xs[0] > 0 and xs[-1] >= _WIDE * xs[0]:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    axes.set_xticks(xs, _spaced_labels([math.log2(x) if log else x for x in xs], xs))


def _spaced_labels(places: Sequence[float], xs: Sequence[float]) -> list[str]:
    """A label for each number, empty where it would touch another; the last has precedence over those before it.

    >>> _spaced_labels([1, 2, 99, 100], [1, 2, 99, 100])
    ['1', '', '', '100']
    """
    gap = _LABEL_GAP * (places[-1] - places[0])
    labels, last = list[str](), -math.inf
    for place, x in zip(places, xs, strict=True):
        free = place - last >= gap and (x == xs[-1] or places[-1] - place >= gap)
        labels.append(f"{x:g}" if free else "")
        last = place if free else last
    return labels


def numbered(names: Iterable[str]) -> dict[str, int]:
    """The index of each name, in order of appearance.

    >>> numbered(["b", "a", "b"])
    {'b': 0, 'a': 1}
    """
    return {name: number for number, name in enumerate(dict.fromkeys(names))}
