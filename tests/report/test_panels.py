"""Small charts side by side."""

from __future__ import annotations

import pytest

from alebrije.report.charts import Point, styled
from alebrije.report.panels import Graph, Panel, columns_for, graph_panels, line_panels
from alebrije.results import Estimate


def panel(*names: str, published: bool = False) -> Panel:
    points = [Point(x, Estimate(x + 1.0, low=x, high=x + 2.0)) for x in (0.6, 0.2)]
    marks = {names[0]: [Point(0.2, Estimate(1.5))]} if published else {}
    return Panel(dict.fromkeys(names, points), marks, ("the source", 2.0))


def test_a_name_has_one_colour_and_one_entry_in_the_legend() -> None:
    with styled():
        figure = line_panels({"first": panel("a", "b"), "second": panel("b", published=True)}, "x", "y", log=True)
    first, second = (axes for axes in figure.axes if axes.get_title())
    drawn = [[line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_marker() != "None"]  # type: ignore[arg-type]
             for axes in (first, second)]  # fmt: skip
    assert drawn[0][1].get_color() == drawn[1][0].get_color() != drawn[0][0].get_color()
    assert list(drawn[0][0].get_xdata()) == [0.2, 0.6]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "the source", "published"]
    assert first.get_yscale() == "log"


@pytest.mark.parametrize(("count", "shape"), [(1, (1, 1)), (3, (2, 2)), (4, (2, 2)), (5, (2, 4)), (16, (4, 4))])
def test_rows_and_columns(count: int, shape: tuple[int, int]) -> None:
    figure = line_panels({str(number): panel("a") for number in range(count)}, "x", "y")
    grid = figure.axes[0].get_subplotspec().get_gridspec()  # type: ignore[union-attr]
    assert (grid.nrows, grid.ncols) == shape
    assert sum(bool(axes.get_title()) for axes in figure.axes) == count
    assert columns_for(count) >= shape[1]


def test_graphs() -> None:
    graph = Graph(
        {"a": (0, 0), "b": (1, 1), "c": (0, 1)}, {"a": "one", "b": "two", "c": "three"}, [("a", "b")], ("words",)
    )
    with styled():
        figure = graph_panels({"title": graph}, [("group", 0, -1)])
        figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = {text.get_text(): text.get_bbox_patch() for text in axes.texts if text.get_bbox_patch() is not None}
    assert set(boxes) == {"one", "two", "three"}
    edges = {name: box.get_edgecolor() for name, box in boxes.items() if box is not None}
    assert len(set(edges.values())) == 3  # a source, a target, and a node without an arrow
    assert {"group", "words"} <= {text.get_text() for text in axes.texts}
