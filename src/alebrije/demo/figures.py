"""Figures as inline SVG: no script, no external request, the same bytes for the same numbers."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from alebrije.arrays import Array

INK, ACCENT = "#20303c", "#c2410c"
_GROUPS = ListedColormap(
    ["#e8e4da", "#0f766e", "#c2410c", "#4338ca", "#a16207", "#be185d", "#15803d", "#7c3aed", "#0369a1", "#b91c1c"]
)


def as_svg(figure: Figure) -> str:
    """The figure as an `<svg>` element."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "alebrije", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def hinton_diagram(
    information: Array, alignment: Sequence[int], factor_names: Sequence[str], title: str, full: float
) -> str:
    """Squares whose area is the information [L, F] of each neuron about each factor; aligned pairs are outlined.

    A square fills its cell if the information is `full`, in nats.
    """
    neurons, factors = information.shape
    figure = Figure(figsize=(0.55 * neurons + 1.1, 0.55 * factors + 0.9), layout="constrained")
    axes = figure.add_subplot(aspect="equal", xlim=(-0.5, neurons - 0.5), ylim=(factors - 0.5, -0.5))
    for neuron, factor in np.ndindex(neurons, factors):
        side = float(np.sqrt(information[neuron, factor] / full)) * 0.9
        axes.add_patch(Rectangle((neuron - side / 2, factor - side / 2), side, side, color=INK))
    for factor, neuron in enumerate(alignment):
        axes.add_patch(Rectangle((neuron - 0.48, factor - 0.48), 0.96, 0.96, fill=False, edgecolor=ACCENT, linewidth=2))
    axes.set_xticks(range(neurons), [f"z{neuron}" for neuron in range(neurons)])
    axes.set_yticks(range(factors), factor_names)
    axes.set_title(title, fontsize=11)
    axes.tick_params(length=0, labelsize=9)
    for spine in axes.spines.values():
        spine.set_color("#c8c2b4")
    return as_svg(figure)


def label_maps(maps: Mapping[str, Array]) -> str:
    """Label maps [H, W] side by side, with their names above."""
    figure = Figure(figsize=(1.9 * len(maps), 2.2), layout="constrained")
    for axes, (name, labels) in zip(figure.subplots(1, len(maps)), maps.items(), strict=True):
        axes.imshow(labels, cmap=_GROUPS, vmin=0, vmax=9, interpolation="nearest")
        axes.set_title(name, fontsize=11)
        axes.set_axis_off()
    return as_svg(figure)


def curves(x: Sequence[float], lines: Mapping[str, Sequence[float]], x_label: str, mark: float) -> str:
    """Lines over `x`, with a dotted mark at the correct prediction."""
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.add_subplot(xlabel=x_label, ylabel="score", ylim=(-0.03, 1.05))
    axes.axvline(mark, color="#8a8477", linestyle=":", linewidth=1)
    for (name, values), color in zip(lines.items(), (INK, ACCENT, "#0f766e"), strict=False):
        axes.plot(x, values, label=name, color=color, linewidth=2)
    axes.legend(frameon=False, loc="lower right")
    for edge in ("top", "right"):
        axes.spines[edge].set_visible(False)
    return as_svg(figure)
