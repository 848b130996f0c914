"""What a report is made of: charts, galleries of pictures, tables, and the sections that hold them."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from alebrije.report.charts import ACCENT, INK, styled
from alebrije.report.sheets import Picture
from alebrije.report.words import Verdict
from alebrije.results.rendering import visible

MOST_SIDE = 160  # pixels of a picture on the page
_QUALITY = 85


def short(text: object, most: int = 32) -> str:
    """A name that fits: on one line, nothing invisible in it, the middle left out where it is long.

    >>> short("a" * 50, 11)
    'aaaaa…aaaaa'
    """
    line = visible(str(text))
    half = (most - 1) // 2
    return line if len(line) <= most else f"{line[:half]}…{line[-half:]}"


def slug(*words: object) -> str:
    """A name for a file or an anchor, of letters, digits and dashes.

    >>> slug("../β:VAE", "S-A", 0.6)
    'vae-s-a-0.6'
    """
    text = "-".join(str(word) for word in words).encode("ascii", "ignore").decode().lower()
    return re.sub(r"-+", "-", re.sub(r"[^a-z0-9.]+|(?<!\d)\.|\.(?!\d)", "-", text)).strip("-.")[:90] or "figure"


@dataclass(frozen=True)
class Shot(Picture):
    """A picture of a gallery; what is marked wrong or right carries a sign and a frame."""

    mark: Literal["", "wrong", "right"] = ""
    most: int = MOST_SIDE  # pixels a side on the page

    @cached_property
    def _encoded(self) -> tuple[str, bytes]:
        """The smaller of a PNG and, for what is not flat, a JPEG."""
        image = Image.fromarray(np.ascontiguousarray(self.pixels))
        if max(image.size) > self.most:
            image.thumbnail((self.most, self.most))
        png, jpeg = io.BytesIO(), io.BytesIO()
        image.save(png, "PNG", optimize=True)
        image.save(jpeg, "JPEG", quality=_QUALITY, subsampling=0)
        return min(("png", png.getvalue()), ("jpeg", jpeg.getvalue()), key=lambda made: len(made[1]))

    @property
    def crisp(self) -> bool:
        """Whether its pixels are to be seen as squares."""
        return bool(max(self.pixels.shape[:2]) < 80)

    @property
    def uri(self) -> str:
        """The picture in a data URI."""
        kind, content = self._encoded
        return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


@dataclass(frozen=True)
class Strip:
    """Pictures that belong together, and what is to be said of them."""

    title: str
    pictures: tuple[Shot, ...]
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """A figure that is drawn when it is needed, what it shows in words, and the command that made its numbers."""

    name: str
    title: str
    words: str
    draw: Callable[[], Figure]
    command: str
    wide: bool = False

    def figure(self) -> Figure:
        """The figure, drawn."""
        with styled():
            return self.draw()


@dataclass(frozen=True)
class Gallery:
    """Strips of pictures with a legend, and the command that made them."""

    name: str
    title: str
    words: str
    strips: tuple[Strip, ...]
    command: str
    side: float = 5.5  # rem, of a picture on a wide screen

    @property
    def columns(self) -> int:
        """How many pictures its longest strip has."""
        return max(len(strip.pictures) for strip in self.strips)

    def figure(self) -> Figure:
        """The gallery as one figure for a document, its strips below each other."""
        side, label = 1.0, 0.22  # inches
        width, height = self.columns * (side + 0.08), len(self.strips) * (side + label + 0.1) + 0.3
        with styled():
            figure = Figure(figsize=(width, height))
            axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), aspect="equal")
            axes.set_axis_off()
            axes.text(width / 2, 0.16, short(self.title, int(9 * width)), ha="center", va="center", fontsize=9)
            for row, strip in enumerate(self.strips):
                top = 0.3 + row * (side + label + 0.1) + label
                for column, picture in enumerate(strip.pictures):
                    left = column * (side + 0.08) + 0.04
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
    """A cell of a table: what is shown, what it is sorted by, and the small print below it."""

    text: str
    by: float | str | None = None
    small: tuple[str, ...] = ()
    mark: Literal["", "good", "bad", "null"] = ""


@dataclass(frozen=True)
class Grid:
    """A table that can be sorted by each of its columns."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    note: str = ""
    command: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)  # what a column means

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether each column is sorted by numbers."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        return tuple(
            any(isinstance(cell.by, float) for cell in column) and not any(isinstance(cell.by, str) for cell in column)
            for column in columns
        )


Block = Chart | Gallery | Grid


@dataclass(frozen=True)
class Section:
    """All that one instrument found."""

    name: str
    title: str
    question: str
    verdicts: Sequence[tuple[str, Verdict]]
    charts: Sequence[Chart] = ()
    front: Sequence[Grid] = ()  # tables that come before the pictures
    galleries: Sequence[Gallery] = ()
    grids: Sequence[Grid] = ()
    remarks: Sequence[str] = ()

    @property
    def anchor(self) -> str:
        """Its name as a part of the page's address."""
        return slug(self.name)
