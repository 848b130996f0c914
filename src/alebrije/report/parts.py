"""The components of a report: charts, galleries of pictures, tables, and sections that hold them."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from PIL import Image

from alebrije.arrays import Bytes
from alebrije.report.charts import ACCENT, INK, styled
from alebrije.report.verdict import Verdict
from alebrije.results.formats import visible
from alebrije.sheets.sheet import Picture, save_animation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SIDE = 160  # largest side of a picture on the page, in pixels
_QUALITY = 85


def short(text: object, most: int = 32) -> str:
    """A name on one line, without invisible characters; the middle of a long name is left out.

    >>> short("a" * 50, 11)
    'aaaaa…aaaaa'
    """
    line = visible(str(text))
    half = (most - 1) // 2
    return line if len(line) <= most else f"{line[:half]}…{line[-half:]}"


def slug(*words: object) -> str:
    """A name for a file or an anchor: letters, digits and dashes.

    >>> slug("../β:VAE", "S-A", 0.6)
    'vae-s-a-0.6'
    """
    text = "-".join(str(word) for word in words).encode("ascii", "ignore").decode().lower()
    return re.sub(r"-+", "-", re.sub(r"[^a-z0-9.]+|(?<!\d)\.|\.(?!\d)", "-", text)).strip("-.")[:90] or "figure"


@dataclass(frozen=True)
class Shot(Picture):
    """A picture in a gallery. A mark adds a sign and a frame."""

    mark: Literal["", "wrong", "right"] = ""
    most: int = MOST_SIDE  # largest side on the page, in pixels

    @cached_property
    def _encoded(self) -> tuple[str, bytes]:
        """The smaller of PNG and JPEG; a video as an animated PNG."""
        image, *others = (_thumbnail(pixels, self.most) for pixels in (self.pixels, *self.rest))
        png, jpeg = io.BytesIO(), io.BytesIO()
        if others:
            save_animation(png, [image, *others], self.milliseconds)
            return "png", png.getvalue()
        image.save(png, "PNG")
        image.save(jpeg, "JPEG", quality=_QUALITY, subsampling=0)
        return min(("png", png.getvalue()), ("jpeg", jpeg.getvalue()), key=lambda made: len(made[1]))

    @property
    def crisp(self) -> bool:
        """Whether to show its pixels as squares when enlarged."""
        return bool(max(self.pixels.shape[:2]) < 80)

    @property
    def uri(self) -> str:
        """The picture as a data URI."""
        kind, content = self._encoded
        return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _thumbnail(pixels: Bytes, most: int) -> Image.Image:
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if max(image.size) > most:
        image.thumbnail((most, most))
    return image


@dataclass(frozen=True)
class Strip:
    """Pictures in a row, with a title and a note."""

    title: str
    pictures: tuple[Shot, ...]
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """A figure, drawn when it is needed, and what it shows in words."""

    name: str
    title: str
    words: str
    draw: Callable[[], Figure]
    wide: bool = False  # whether it takes the whole width of the page

    def figure(self) -> Figure:
        """Draw the figure."""
        with styled():
            return self.draw()


@dataclass(frozen=True)
class Gallery:
    """Strips of pictures with a legend."""

    name: str
    title: str
    words: str
    strips: tuple[Strip, ...]
    side: float = 5.5  # width of a picture on a wide screen, in rem

    @property
    def columns(self) -> int:
        """The number of pictures in its longest strip."""
        return max(len(strip.pictures) for strip in self.strips)

    def figure(self) -> Figure:
        """The gallery as one figure for a document."""
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle

        side, label = 1.0, 0.22  # inches
        margin = 0.2 if any(strip.title for strip in self.strips) else 0.0
        width, height = margin + self.columns * (side + 0.08), len(self.strips) * (side + label + 0.1) + 0.3
        with styled():
            figure = Figure(figsize=(width, height))
            axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), aspect="equal")
            axes.set_axis_off()
            axes.text(width / 2, 0.16, short(self.title, int(9 * width)), ha="center", va="center", fontsize=9)
            for row, strip in enumerate(self.strips):
                top = 0.3 + row * (side + label + 0.1) + label
                axes.text(0.1, top + side / 2, short(strip.title, 18), fontsize=6.5, rotation=90, ha="center",
                          va="center")  # fmt: skip
                for column, picture in enumerate(strip.pictures):
                    left = margin + column * (side + 0.08) + 0.04
                    sign = {"wrong": "✕ ", "right": "✓ ", "": ""}[picture.mark]
                    color = ACCENT if picture.mark == "wrong" else INK
                    name = sign + short(picture.label, 17)
                    axes.text(left, top - 0.08, name, fontsize=6.5, color=color, va="center")
                    where = (left, left + side, top + side, top)
                    axes.imshow(picture.pixels, extent=where, interpolation="nearest", aspect="auto")
                    if picture.mark == "wrong":
                        axes.add_patch(Rectangle((left, top), side, side, fill=False, edgecolor=ACCENT, linestyle="--"))
            axes.set(xlim=(0, width), ylim=(height, 0))
        return figure


@dataclass(frozen=True)
class Entry:
    """A cell of a table: its text, its sort key, and small print below it."""

    text: str
    by: float | str | None = None
    small: tuple[str, ...] = ()
    mark: Literal["", "good", "bad", "null"] = ""


@dataclass(frozen=True)
class ReportTable:
    """A table that can be sorted by each column. `footnotes` are numbered from 1."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    note: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)  # what a column means
    footnotes: tuple[str, ...] = ()

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether each column holds numbers."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        return tuple(
            any(isinstance(cell.by, float) for cell in column) and not any(isinstance(cell.by, str) for cell in column)
            for column in columns
        )


@dataclass(frozen=True)
class Section:
    """The part of the report that belongs to one study.

    An instrument gives the charts, tables, galleries and remarks. The rest comes from its record: the verdict on each
    model, the `rule` by which marks are given, and the commands that computed the cells.
    """

    name: str = ""
    title: str = ""
    question: str = ""
    verdicts: Sequence[tuple[str, Verdict]] = ()
    charts: Sequence[Chart] = ()
    front: Sequence[ReportTable] = ()  # tables before the pictures
    galleries: Sequence[Gallery] = ()
    grids: Sequence[ReportTable] = ()
    remarks: Sequence[str] = ()
    rule: str = ""
    commands: Sequence[str] = ()

    @property
    def anchor(self) -> str:
        """Its anchor on the page."""
        return slug(self.name)
