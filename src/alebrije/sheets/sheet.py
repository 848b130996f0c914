"""The parts of a contact sheet, and how it is written as a PNG and as a web page."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image, ImageDraw, ImageFont

from alebrije import __version__
from alebrije.arrays import Bytes
from alebrije.atomic import PART, explain_write_errors, write_atomically
from alebrije.errors import InputError

# The colours of Okabe and Ito, which people with any colour vision can distinguish, and three more that differ in
# lightness. Objects also carry numbers.
GROUND = (32, 48, 60)
OBJECTS = (
    (230, 159, 0),
    (86, 180, 233),
    (0, 158, 115),
    (240, 228, 66),
    (204, 121, 167),
    (213, 94, 0),
    (0, 114, 178),
    (255, 255, 255),
    (170, 68, 153),
    (187, 187, 187),
)

PAPER, CARD, INK, SOFT, LINE, ACCENT = "#fbf9f4", "#ffffff", "#20303c", "#5d6b75", "#e2dccd", "#b23c0a"
_WIDTH, _MARGIN, _GAP, _PAD = 1248, 28, 8, 12
_LEAST_SIDE, _MOST_SIDE = 96, 256  # of a picture on the PNG
_MOST_PIXELS = 2 * 89_478_485  # Pillow refuses to open larger images
_NUMBERED_FROM = 64  # pixels; on smaller masks a number would hide the object


@dataclass(frozen=True)
class Picture:
    """A picture [H, W, 3] with a label above, a note below, and alternative text; on a page it may move."""

    label: str
    pixels: Bytes
    alt: str
    note: str = ""
    rest: tuple[Bytes, ...] = ()  # the other frames of a video
    milliseconds: float = 1000 / 12  # per frame

    @property
    def uri(self) -> str:
        """The picture as a PNG in a data URI; a video as an animated PNG."""
        buffer = io.BytesIO()
        first, *others = (Image.fromarray(np.ascontiguousarray(each)) for each in (self.pixels, *self.rest))
        if others:
            save_animation(buffer, [first, *others], self.milliseconds)
        else:
            first.save(buffer, "PNG")
        return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def save_animation(file: io.BytesIO, frames: Sequence[Image.Image], milliseconds: float) -> None:
    """Write frames as an animated PNG without end; the last one stays for a moment."""
    times = [milliseconds] * (len(frames) - 1) + [1_000]
    frames[0].save(file, "PNG", save_all=True, append_images=frames[1:], duration=times, loop=0)


@dataclass(frozen=True)
class Line:
    """One object in words, each with a flag for emphasis, and the object's number if it has one."""

    words: tuple[tuple[str, bool], ...]
    number: int | None = None

    @property
    def color(self) -> str:
        """The colour of the object's mask, for CSS."""
        return "#" + bytes(object_color(self.number or 0)).hex()


@dataclass(frozen=True)
class Card:
    """Rows of pictures that belong together, and their objects in words."""

    title: str
    rows: tuple[tuple[Picture, ...], ...]
    lines: tuple[Line, ...] = ()

    @property
    def columns(self) -> int:
        """The number of pictures in the longest row."""
        return max(len(row) for row in self.rows)


@dataclass(frozen=True)
class SheetSection:
    """Cards under a heading."""

    title: str
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Sheet:
    """A title, a note on the whole sheet, and its sections."""

    title: str
    note: str
    sections: tuple[SheetSection, ...]


def object_color(number: int) -> tuple[int, int, int]:
    """The colour of a label in a mask: 0 is the background, objects start at 1."""
    return GROUND if number == 0 else OBJECTS[(number - 1) % len(OBJECTS)]


def colored_mask(labels: npt.ArrayLike) -> Bytes:
    """Labels [H, W] as a picture [H, W, 3], each object in its colour and, if there is space, with its number.

    >>> colored_mask(np.array([[0, 1], [2, 2]]))[0].tolist()
    [[32, 48, 60], [230, 159, 0]]
    """
    label_map = np.asarray(labels)
    table = np.array([object_color(number) for number in range(int(label_map.max(initial=0)) + 1)], np.uint8)
    picture = Image.fromarray(table[label_map])
    side = min(label_map.shape)
    if side >= _NUMBERED_FROM:
        pen, font = ImageDraw.Draw(picture), _font(max(8, side // 11), bold=True)
        for number in np.unique(label_map[label_map > 0]).tolist():
            spots = np.argwhere(label_map == number)  # [n, 2]: row, column
            if len(spots) > (side // 9) ** 2:
                row, column = spots[np.square(spots - spots.mean(0)).sum(1).argmin()].tolist()
                pen.text((column, row), str(number), "black", font, "mm", stroke_width=1, stroke_fill="white")
    return np.asarray(picture)


# -------------------------------------------------------------------------------------------------------- as a page


def sheet_html(sheet: Sheet) -> str:
    """The sheet as a self-contained page: pictures are embedded, and there is no script."""
    environment = Environment(
        loader=PackageLoader("alebrije.sheets"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("sheet.html").render(sheet=sheet, version=__version__)


def sheet_paths(out: str | Path) -> tuple[Path, Path]:
    """The paths of the PNG and the page for a name with or without an extension; an InputError if one is unusable."""
    stem = Path(out)
    stem = stem.with_suffix("") if stem.suffix.lower() in (".png", ".html") else stem
    if not stem.name:
        raise InputError(f"--out {out}: is not a file name")
    if not stem.parent.is_dir():
        raise InputError(f"--out {out}: the folder {stem.parent} does not exist")
    paths = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.html")
    for path in paths:
        if path.is_dir():
            raise InputError(f"--out {out}: {path} is a folder")
    return paths


def write_sheet(sheet: Sheet, out: str | Path) -> tuple[Path, Path]:
    """Write `out`.png and `out`.html atomically; return both paths."""
    png, page = sheet_paths(out)
    temporary = png.with_name(f".{png.name}.{os.urandom(6).hex()}{PART}")
    with explain_write_errors(png.parent):
        try:
            sheet_image(sheet).save(temporary, "PNG")
            temporary.replace(png)
        finally:
            temporary.unlink(missing_ok=True)
        write_atomically(page, sheet_html(sheet))
    return png, page


# -------------------------------------------------------------------------------------------------------- as a PNG


@cache
def _font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    # matplotlib's font has arrows, Pillow's own has not
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(os.path.join(matplotlib.get_data_path(), "fonts", "ttf", name), size)


def sheet_image(sheet: Sheet) -> Image.Image:
    """The sheet as one image, with cards side by side if there is space."""
    width = max([_WIDTH, *(_card_width(card) + 2 * _MARGIN for part in sheet.sections for card in part.cards)])
    height = _Canvas(width, 1).sheet(sheet)  # one row is enough to measure: Pillow ignores what is outside the image
    if width * height > _MOST_PIXELS:
        raise InputError(f"the sheet would have {width} x {height} pixels, too many for most programs; show fewer rows")
    canvas = _Canvas(width, height)
    canvas.sheet(sheet)
    return canvas.image


def _scaled(pixels: Bytes) -> Image.Image:
    """The picture, scaled to a size that suits the sheet."""
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    side = max(picture.size)
    if side < _LEAST_SIDE:
        factor = -(-_LEAST_SIDE // side)
        return picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)
    if side > _MOST_SIDE:
        picture.thumbnail((_MOST_SIDE, _MOST_SIDE))
    return picture


def _card_width(card: Card) -> int:
    rows = [sum(_scaled(picture.pixels).width + _GAP for picture in row) - _GAP for row in card.rows]
    return max(rows) + 2 * _PAD


class _Canvas:
    """An image that is filled from top to bottom."""

    def __init__(self, width: int, height: int) -> None:
        self.image = Image.new("RGB", (width, height), PAPER)
        self.pen = ImageDraw.Draw(self.image)
        self.y = _MARGIN

    def sheet(self, sheet: Sheet) -> int:
        """Draw a sheet; return the height it needs."""
        self.text(sheet.title, size=24, bold=True)
        self.text(sheet.note, size=13, color=SOFT)
        for section in sheet.sections:
            self.y += 14
            if section.title:
                self.text(section.title, size=17, bold=True)
            self.cards(section.cards)
        return self.y + _MARGIN - _GAP

    def text(self, text: str, size: int, color: str = INK, bold: bool = False) -> None:
        """Draw text in lines below the current content."""
        words = [(word, False) for word in text.split()]
        width = self.image.width - 2 * _MARGIN
        self.y += round(self._flow(words, _MARGIN, self.y, width, size, color, bold))

    def _flow(
        self, words: Sequence[tuple[str, bool]], x: int, y: int, width: int, size: int, color: str, bold: bool = False
    ) -> float:
        """Draw words in lines of a width, marked ones in the accent colour; return their height."""
        left, top, height = 0.0, 0.0, 1.45 * size
        for word, marked in words:
            font = _font(size, bold or marked)
            length = font.getlength(word)
            if left and left + length > width:
                left, top = 0.0, top + height
            self.pen.text((x + left, y + top), word, ACCENT if marked else color, font)
            left += length + font.getlength(" ")
        return top + height if words else 0.0

    def cards(self, cards: Sequence[Card]) -> None:
        """Draw cards in rows, each as high as its highest card."""
        width = max((_card_width(card) for card in cards), default=1)
        across = max(1, (self.image.width - 2 * _MARGIN + _PAD) // (width + _PAD))
        self.y += 6
        for begin in range(0, len(cards), across):
            row, top = cards[begin : begin + across], self.y
            bottom = top
            for draw in (False, True):  # measure first, then draw on a background of that height
                for column, card in enumerate(row):
                    x = _MARGIN + column * (width + _PAD)
                    if draw:
                        self.pen.rounded_rectangle((x, top, x + width, bottom), 8, CARD, LINE)
                    bottom = max(bottom, self._card(card, x + _PAD, top + _PAD, width - 2 * _PAD) + _PAD)
            self.y = bottom + _PAD

    def _card(self, card: Card, x: int, y: int, width: int) -> int:
        """Draw a card; return the y coordinate of its end."""
        if card.title:
            y += round(self._flow([(word, False) for word in card.title.split()], x, y, width, 13, SOFT))
        for row in card.rows:
            y += self._pictures(row, x, y) + _GAP
        for line in card.lines:
            indent = 0
            if line.number is not None:
                self.pen.rounded_rectangle((x, y + 1, x + 18, y + 16), 3, line.color, SOFT)
                self.pen.text((x + 9, y + 9), str(line.number), "black", _font(10, bold=True), "mm")
                indent = 25
            words = [(word, marked) for text, marked in line.words for word in text.split()]
            y += round(self._flow(words, x + indent, y, width - indent, 13, INK))
        return y

    def _pictures(self, row: Sequence[Picture], x: int, y: int) -> int:
        """Draw pictures side by side; return their height."""
        height = 0
        for picture in row:
            shown = _scaled(picture.pixels)
            self._flow([(picture.label, False)], x, y, shown.width, 11, SOFT)
            self.image.paste(shown, (x, y + 16))
            notes = [(word, False) for word in picture.note.split()]
            below = self._flow(notes, x, y + 20 + shown.height, shown.width, 11, SOFT)
            height = max(height, 16 + shown.height + round(below) + (4 if notes else 0))
            x += shown.width + _GAP
        return height


def picture_of(image: Any) -> Bytes:
    """An image [3, H, W] as a picture [H, W, 3]."""
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[0] != 3:
        raise InputError(f"an image must be uint8 of the shape [3, H, W], not {pixels.dtype} {list(pixels.shape)}")
    return np.ascontiguousarray(pixels.transpose(1, 2, 0))
