"""The parts of a contact sheet, as a PNG and as a page."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from alebrije.errors import InputError
from alebrije.sheets.sheet import (
    OBJECTS,
    Card,
    Line,
    Picture,
    Sheet,
    SheetSection,
    colored_mask,
    sheet_html,
    sheet_image,
    write_sheet,
)
from tests.sheets.page import parsed


def sheet_with(text: str) -> Sheet:
    picture = Picture(text, np.zeros((8, 8, 3), np.uint8), text, text)
    card = Card(text, ((picture,),), (Line(((text, True), (text, False)), 1),))
    return Sheet(text, text, (SheetSection(text, (card,)),))


def test_text_is_escaped() -> None:
    evil = """<script>alert("1")</script>"""
    text = sheet_html(sheet_with(evil))
    assert "<script" not in text
    assert "script" not in parsed(text).tags
    assert parsed(text).images[0]["alt"] == evil
    assert parsed(text).words.count("alert") == 9  # wherever a text stands


@pytest.mark.parametrize("end", ["", ".png", ".html"])
def test_an_ending_is_no_part_of_the_name(tmp_path: Path, end: str) -> None:
    write_sheet(sheet_with("x"), tmp_path / f"my.sheet{end}")
    assert sorted(os.listdir(tmp_path)) == ["my.sheet.html", "my.sheet.png"]


class TestMasks:
    def test_every_object_has_a_colour_of_its_own(self) -> None:
        labels = np.repeat(np.arange(11, dtype=np.uint8), 3)[None].repeat(5, 0)
        assert len(np.unique(colored_mask(labels).reshape(-1, 3), axis=0)) == 11
        assert tuple(colored_mask(labels)[0, 3]) == OBJECTS[0]

    def test_more_objects_than_colours(self) -> None:
        assert colored_mask(np.full((4, 4), 255, np.uint8)).shape == (4, 4, 3)

    def test_colours_differ_for_those_who_cannot_tell_red_from_green(self) -> None:
        """Seen by an eye without green cones (Viénot et al. 1999), no two of the first seven look alike."""
        linear = (np.array(OBJECTS[:7]) / 255) ** 2.2
        seen = linear @ np.array([[0.292, 0.292, -0.022], [0.708, 0.708, 0.022], [0.0, 0.0, 1.0]])
        lights = np.clip(seen, 0, 1) ** (1 / 2.2)
        apart = np.linalg.norm(lights[:, None] - lights[None], axis=-1) + np.eye(7)
        assert apart.min() > 0.1

    def test_numbers_are_written_where_there_is_room(self) -> None:
        labels = np.zeros((64, 64), np.uint8)
        labels[8:56, 8:56] = 1
        inside = colored_mask(labels)[8:56, 8:56].reshape(-1, 3)
        assert len(np.unique(inside, axis=0)) > 1
        assert (inside == OBJECTS[0]).all(1).mean() > 0.8
        labels[:] = 0
        labels[0, 0] = 1
        assert len(np.unique(colored_mask(labels).reshape(-1, 3), axis=0)) == 2


def test_large_and_small_pictures_fit_the_png(tmp_path: Path) -> None:
    for side in (8, 640):
        sheet = sheet_with("x")
        card = sheet.sections[0].cards[0]
        large = replace(card, rows=((replace(card.rows[0][0], pixels=np.zeros((side, side, 3), np.uint8)),),))
        write_sheet(replace(sheet, sections=(SheetSection("", (large,)),)), tmp_path / "sheet")
        with Image.open(tmp_path / "sheet.png") as picture:
            assert 150 < picture.height < 500


def test_the_png_is_as_high_as_what_is_on_it(tmp_path: Path) -> None:
    """The last card has a margin below it, and nothing is cut off."""
    for n in (1, 40):
        sheet = sheet_with("x")
        cards = sheet.sections[0].cards * n
        write_sheet(replace(sheet, sections=(SheetSection("", cards),)), tmp_path / "sheet")
        with Image.open(tmp_path / "sheet.png") as picture:
            rows = np.flatnonzero((np.asarray(picture) != np.asarray(picture)[0, 0]).any((1, 2)))
            assert 10 < picture.height - rows.max() < 60


def test_a_sheet_that_few_programs_open() -> None:
    sheet = sheet_with("x")
    wide = replace(sheet.sections[0].cards[0], rows=(sheet.sections[0].cards[0].rows[0] * 5000,))
    with pytest.raises(InputError, match="show fewer rows"):
        sheet_image(replace(sheet, sections=(SheetSection("", (wide,) * 3),)))
