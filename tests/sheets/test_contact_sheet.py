"""Contact sheets: rules in words, and the same files for the same call."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import torch

from alebrije import worlds
from alebrije.scenes import rule
from alebrije.sheets.contact_sheet import contact_sheet, rule_in_words
from alebrije.sheets.sheet import write_sheet


def test_rules_in_words() -> None:
    sprites, clevrtex = (worlds.get(name).vocabulary for name in ("sprites", "clevrtex"))
    assert rule_in_words(rule("S-NA"), sprites) == "shape <- its own shape + the other's shape"
    assert rule_in_words(rule("ShAC"), clevrtex) == "material <- its own shape"
    assert rule_in_words(rule("NCP"), sprites) == "the object moves by the other's size"
    assert rule_in_words(rule("CP"), sprites) == "the object moves"


def test_the_same_call_gives_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_sheet(contact_sheet("rooms", 2, size=16, seed=0), tmp_path / name)
    for end in (".png", ".html"):
        assert (tmp_path / f"one{end}").read_bytes() == (tmp_path / f"two{end}").read_bytes()


def test_torch_keeps_its_threads() -> None:
    before = torch.get_num_threads()
    contact_sheet("sprites", 1, size=8, seed=0)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(("name", "moving", "pictures"), [("moving", 3, 6), ("clevr3d", 0, 3)])
def test_videos_move_and_views_stand_side_by_side(name: str, moving: int, pictures: int) -> None:
    card = contact_sheet(name, 1, size=16).sections[0].cards[0]
    first, second = card.rows
    assert [bool(picture.rest) for picture in first] == [True] * moving + [False] * (len(first) - moving)
    assert len(second) == pictures
    png = base64.b64decode(first[0].uri.partition(",")[2])
    assert (b"acTL" in png) == bool(moving)  # the chunk of an animated PNG
