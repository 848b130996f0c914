"""Charts of scores: bars, lines, heat maps, Hinton diagrams and correlations, with their intervals."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alebrije.results import Estimate
from alebrije.results.estimates import format_number

if TYPE_CHECKING:  # matplotlib is loaded when something is drawn: verdicts need none of it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, LINE, ACCENT = "#20303c", "#5d6b75", "#d9d2c1", "#b23c0a"
# the colours of Okabe and Ito without yellow, which is too pale on white
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#20303c", "#8a8477")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")
HATCHES = ("", "////", "....", "xxxx")
WIDTH = 4.7  # inches: readable on a phone
_CHARACTER = 0.08  # inches, the width of a character of a tick label
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "font.family": ["DejaVu Sans"],
    "text.parse_math": False,  # users choose names, and a dollar sign is not math
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "alebrije",
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Bar:
    """A score with its name and its kind, and the paper's number beside it."""

    name: str
    kind: str
    score: Estimate
    published: Estimate | None = None


@dataclass(frozen=True)
class Point:
    """A point of a line."""

    x: float
    score: Estimate


@contextmanager
def styled() -> Iterator[None]:
    """The common style of all figures; characters that the font lacks cause no warning."""
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def as_inline_svg(figure: Figure, prefix: str = "f") -> str:
    """The figure as an `<svg>` element with text as text. Its ids begin with `prefix`, so figures share none."""
    buffer = io.StringIO()
    with styled():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", text, flags=re.S)
    names = set(re.findall(r' id="([\w.-]+)"', text))
    used = names & set(re.findall(r"[\"(]#([\w.-]+)", text))  # colours begin with # too
    text = re.sub(r' id="([\w.-]+)"', lambda at: f' id="{prefix}-{at[1]}"' if at[1] in used else "", text)
    text = re.sub(r"([\"(]#)([\w.-]+)", lambda at: f"{at[1]}{prefix}-{at[2]}" if at[2] in used else at[0], text)
    text = text.replace("'DejaVu Sans'", "system-ui, sans-serif").replace("DejaVu Sans", "system-ui")
    return re.sub(r"\n\s*", "\n", text)


def laid_out(figure: Figure) -> Figure:
    """The same figure with its layout fixed, so that every file format shows the same."""
    with styled():
        figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def as_pdf(figure: Figure) -> bytes:
    """The figure as a PDF; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return buffer.getvalue()


def as_svg_file(figure: Figure) -> str:
    """The figure as an SVG file with text as outlines, so that it looks the same everywhere."""
    import matplotlib

    buffer = io.StringIO()
    with styled(), matplotlib.rc_context({"svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def bars(given: Sequence[Bar], x_label: str, chance: float | None = 0.0, most: float | None = None) -> Figure:
    """Horizontal bars in groups by name, one per kind; whiskers are 95 % intervals, diamonds the papers' numbers."""
    from matplotlib.figure import Figure

    names, kinds = (list(dict.fromkeys(getattr(bar, at) for bar in given)) for at in ("name", "kind"))
    height = 0.8 / max(1, len(kinds))
    figure = Figure(figsize=(WIDTH, 0.9 + 0.42 * len(names) * max(1.0, 0.62 * len(kinds))), layout="constrained")
    axes = figure.add_subplot(xlabel=x_label, ylim=(len(names) - 0.5, -0.5))
    for bar in given:
        row, kind = names.index(bar.name), kinds.index(bar.kind)
        y = row - 0.4 + (kind + 0.5) * height
        color = COLORS[kind % len(COLORS)]
        if bar.score.value is None:
            axes.text(chance or 0.0, y, " n/a", va="center", color=SOFT, fontsize=8)
        else:
            axes.barh(y, bar.score.value, height * 0.86, color=_pale(color), edgecolor=color, linewidth=1,
                      hatch=HATCHES[kind % len(HATCHES)])  # fmt: skip
            _whisker(axes, bar.score, y)
        if bar.published is not None and bar.published.value is not None:
            axes.plot(bar.published.value, y, "D", color="white", markeredgecolor=ACCENT, markersize=6, zorder=5)
    if chance is not None:
        axes.axvline(chance, color=SOFT, linewidth=1, zorder=0)
    low = min([0.0, *(bar.score.low or 0.0 for bar in given), *(bar.score.value or 0.0 for bar in given)])
    axes.set_xlim(left=max(low * 1.05, -1.0) if most is not None else None, right=most)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    _legend(axes, kinds, any(bar.published for bar in given))
    return figure


def lines(
    given: Mapping[str, Sequence[Point]],
    x_label: str,
    y_label: str,
    published: Mapping[str, Sequence[Point]] | None = None,
    log: bool = False,
    reference: tuple[str, float] | None = None,
) -> Figure:
    """A line for each name with 95 % intervals; the papers' numbers as hollow marks of the same shape."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter

    figure = Figure(figsize=(WIDTH, 3.1 + 0.17 * math.ceil(len(given) / 2)), layout="constrained")
    axes = figure.add_subplot(xlabel=x_label, ylabel=y_label)
    for number, (name, points) in enumerate(given.items()):
        color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
        known = sorted((p for p in points if p.score.value is not None), key=lambda p: p.x)
        x, y = [p.x for p in known], [p.score.value or 0.0 for p in known]
        dash = DASHES[number // len(COLORS) % len(DASHES)]
        axes.plot(x, y, dash, color=color, marker=marker, markersize=5, linewidth=1.6, label=name)
        ends = [(p.x, p.score.low, p.score.high) for p in known if p.score.low is not None]
        if ends:
            axes.vlines(*zip(*ends, strict=True), color=color, linewidth=1.1, alpha=0.8)
        for point in (published or {}).get(name, ()):
            axes.plot(point.x, point.score.value or 0.0, marker, color="none", markeredgecolor=color, markersize=9)
    if reference is not None:
        axes.axhline(reference[1], color=SOFT, linewidth=1, linestyle=":", label=reference[0])
    if log:
        axes.set_yscale("log")
        for ticks in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            ticks(LogFormatter(labelOnlyBase=False, minor_thresholds=(1.5, 0.5)))
    ticks_at = sorted({point.x for points in given.values() for point in points})
    if len(ticks_at) <= 8:
        axes.set_xticks(ticks_at, [f"{x:g}" for x in ticks_at])
    if published and any(published.values()):
        axes.plot([], [], "o", color="none", markeredgecolor=SOFT, markersize=9, label="published")
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    return figure


def line_panels(
    given: Mapping[str, Mapping[str, Sequence[Point]]],
    x_label: str,
    limits: tuple[float, float] | None = None,
    log: bool = False,
    references: Mapping[str, float] | None = None,
) -> Figure:
    """A small chart for each name, with the same lines in each; `references` are levels by name of a chart.

    With `log` the x axis is logarithmic.
    """
    from matplotlib.figure import Figure

    columns, names = 2, list(dict.fromkeys(name for panel in given.values() for name in panel))
    rows = math.ceil(len(given) / columns)
    figure = Figure(figsize=(WIDTH, 1.45 * rows + 0.4 + 0.17 * math.ceil(len(names) / 2)), layout="constrained")
    for number, (title, panel) in enumerate(given.items()):
        axes = figure.add_subplot(rows, columns, number + 1)
        axes.set_title(title, fontsize=8, color=INK, loc="left")
        for name, points in panel.items():
            _small_line(axes, names.index(name), points)
        if (level := (references or {}).get(title)) is not None:
            axes.axhline(level, color=SOFT, linewidth=1, linestyle=":")
        if limits is not None:
            axes.set_ylim(*limits)
        if log:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        lowest = number >= len(given) - columns
        axes.tick_params(labelsize=7, labelbottom=lowest)
        axes.set_xlabel(x_label if lowest else "", fontsize=8)
    handles = [_small_line(figure.axes[0], at, (), name) for at, name in enumerate(names)]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    return figure


def _small_line(axes: Axes, at: int, points: Sequence[Point], name: str = "") -> Any:
    """The line with the index `at`, with its 95 % intervals."""
    color, marker = COLORS[at % len(COLORS)], MARKERS[at % len(MARKERS)]
    known = sorted((p for p in points if p.score.value is not None), key=lambda p: p.x)
    ends = [(p.x, p.score.low, p.score.high) for p in known if p.score.low is not None]
    if ends:
        axes.vlines(*zip(*ends, strict=True), color=color, linewidth=0.9, alpha=0.8)
    dash = DASHES[at // len(COLORS) % len(DASHES)]
    x, y = [p.x for p in known], [p.score.value or 0.0 for p in known]
    return axes.plot(x, y, dash, color=color, marker=marker, markersize=3.5, linewidth=1.3, label=name)[0]


def heat_map(
    values: npt.NDArray[np.float64],
    rows: Sequence[Any],
    columns: Sequence[Any],
    y_label: str,
    x_label: str,
    name: str,
    framed: npt.NDArray[np.bool_] | None = None,
) -> Figure:
    """A grid of numbers [R, C] as colours with the numbers written in; NaN stays empty. Some may be framed."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    count = max(len(rows), len(columns))
    side = min(0.6, max(0.3, 3.6 / count))
    figure = Figure(
        figsize=(max(2.4, side * len(columns) + 1.4), max(1.9, side * len(rows) + 1.1)), layout="constrained"
    )
    axes = figure.add_subplot(xlabel=x_label, ylabel=y_label)
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    shown = axes.pcolormesh(
        np.arange(len(columns) + 1) - 0.5,
        np.arange(len(rows) + 1) - 0.5,
        np.ma.masked_invalid(values),
        cmap="cividis",
        vmin=low,
        vmax=max(high, low + 0.02 * max(1.0, abs(low))),  # so that tiny differences do not look large
        edgecolors="white",
        linewidth=0.5,
    )
    for row, column in np.ndindex(values.shape):
        value = float(values[row, column])
        if np.isfinite(value):
            bright = (value - low) / ((high - low) or 1.0) > 0.55
            size = 8 if count <= 8 else 6.5 if count <= 12 else 5
            axes.text(
                column, row, _brief(value), ha="center", va="center", fontsize=size, color=INK if bright else "white"
            )
        if framed is not None and framed[row, column]:
            corner = (column - 0.46, row - 0.46)
            axes.add_patch(Rectangle(corner, 0.92, 0.92, fill=False, edgecolor=ACCENT, linewidth=1.8))
    too_wide = max((len(str(one)) for one in columns), default=0) * _CHARACTER > side
    axes.set_xticks(range(len(columns)), [str(one) for one in columns], rotation=90 if too_wide else 0)
    axes.set_yticks(range(len(rows)), [str(one) for one in rows])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(shown, ax=axes, fraction=0.06, pad=0.03)
    bar.ax.tick_params(labelsize=7)
    bar.ax.ticklabel_format(useOffset=False)
    bar.set_label(name, fontsize=8)
    return figure


def hinton_figure(
    information: npt.NDArray[np.float64],
    alignment: Sequence[int],
    factor_names: Sequence[str],
    neuron_names: Sequence[str],
    full: float,
    strongest: Sequence[int] = (),
) -> Figure:
    """Squares as large as the information [L, F] of each neuron about each factor, the aligned ones outlined.

    The neuron with the most information about a factor is dashed if another one is aligned. Where it has the most
    information about several factors, its column is shaded.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    columns, rows = information.shape
    side = min(0.5, 3.9 / max(columns, 1))
    figure = Figure(figsize=(side * columns + 1.3, max(1.0, side * rows) + 0.8), layout="constrained")
    axes = figure.add_subplot(aspect="equal", xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    axes.set_facecolor("#f4f0e6")
    for neuron, factor in np.ndindex(columns, rows):
        share = max(0.0, float(information[neuron, factor])) / full if full > 0 else 0.0
        edge = math.sqrt(min(share, 1.0)) * 0.9
        if edge > 0.02:
            axes.add_patch(Rectangle((neuron - edge / 2, factor - edge / 2), edge, edge, color=INK, linewidth=0))
    for neuron in {one for one in strongest if one >= 0 and list(strongest).count(one) > 1}:
        axes.axvspan(neuron - 0.5, neuron + 0.5, color=COLORS[4], alpha=0.28, linewidth=0, zorder=0)
    for chosen, edge_color, dash in ((strongest, COLORS[0], (0, (2, 1.4))), (alignment, ACCENT, "-")):
        for factor, neuron in enumerate(chosen):
            if neuron >= 0 and (chosen is alignment or neuron not in alignment[factor : factor + 1]):
                corner = (neuron - 0.47, factor - 0.47)
                axes.add_patch(
                    Rectangle(corner, 0.94, 0.94, fill=False, edgecolor=edge_color, linestyle=dash, linewidth=1.8)
                )
    small = 8 if columns <= 12 else 6
    axes.set_xticks(range(columns), neuron_names, fontsize=small, rotation=0 if columns <= 12 else 90)
    axes.set_yticks(range(rows), factor_names, fontsize=8)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(LINE)
    return figure


def dots(given: Sequence[Bar], x_label: str, limits: tuple[float, float] = (-1.05, 1.05)) -> Figure:
    """Scores as dots with their intervals, the papers' numbers as diamonds."""
    from matplotlib.figure import Figure

    names, kinds = (list(dict.fromkeys(getattr(bar, at) for bar in given)) for at in ("name", "kind"))
    figure = Figure(figsize=(WIDTH, 1.0 + 0.3 * len(names) * max(1.0, 0.6 * len(kinds))), layout="constrained")
    axes = figure.add_subplot(xlabel=x_label, ylim=(len(names) - 0.5, -0.5), xlim=limits)
    axes.axvline(0, color=SOFT, linewidth=1, zorder=0)
    for bar in given:
        kind = kinds.index(bar.kind)
        y = names.index(bar.name) - 0.3 + 0.6 * (kind + 0.5) / len(kinds)
        color, marker = COLORS[kind % len(COLORS)], MARKERS[kind % len(MARKERS)]
        if bar.score.value is not None:
            if bar.score.low is not None and bar.score.high is not None:
                axes.plot([bar.score.low, bar.score.high], [y, y], color=color, linewidth=1.4)
            axes.plot(bar.score.value, y, marker, color=color, markersize=6)
        if bar.published is not None and bar.published.value is not None:
            axes.plot(bar.published.value, y, "D", color="white", markeredgecolor=ACCENT, markersize=6, zorder=5)
    for row in range(len(names)):
        axes.axhline(row, color=LINE, linewidth=0.6, zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    handles = [
        axes.plot([], [], MARKERS[at % len(MARKERS)], color=COLORS[at % len(COLORS)], label=kind)[0]
        for at, kind in enumerate(kinds)
        if kind
    ]
    _legend_of(axes, handles, any(bar.published for bar in given))
    return figure


def _whisker(axes: Axes, score: Estimate, y: float) -> None:
    if score.low is not None and score.high is not None:
        axes.plot([score.low, score.high], [y, y], color=INK, linewidth=1.3, solid_capstyle="butt")
        for end in (score.low, score.high):
            axes.plot([end, end], [y - 0.06, y + 0.06], color=INK, linewidth=1.3)


def _legend(axes: Axes, kinds: Sequence[str], published: bool) -> None:
    from matplotlib.patches import Rectangle

    handles: list[Any] = [
        Rectangle((0, 0), 1, 1, facecolor=_pale(COLORS[at % len(COLORS)]), edgecolor=COLORS[at % len(COLORS)],
                  hatch=HATCHES[at % len(HATCHES)], label=kind)
        for at, kind in enumerate(kinds)
        if kind
    ]  # fmt: skip
    _legend_of(axes, handles, published)


def _legend_of(axes: Axes, handles: list[Any], published: bool) -> None:
    from matplotlib.figure import Figure

    if published:
        handles += axes.plot([], [], "D", color="white", markeredgecolor=ACCENT, markersize=6, label="published")
    figure = axes.get_figure()
    if handles and isinstance(figure, Figure):
        figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)), fontsize=8)


def _pale(color: str) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(color)
    return tuple(1 - 0.42 * (1 - part) for part in (red, green, blue))


def _brief(value: float) -> str:
    """A number for a small square: .83, 24.7, -.05"""
    if abs(value) < 0.995:
        text = f"{value:.2f}"
        return text.replace("0.", ".", 1) if text not in ("0.00", "-0.00") else "0"
    return "1" if abs(value - 1) < 0.005 else format_number(value)
