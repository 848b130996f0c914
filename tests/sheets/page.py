"""Parses the page of a contact sheet."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import numpy as np
from PIL import Image


@dataclass
class Page(HTMLParser):
    """The parts of a page that a reader sees."""

    text: list[str] = field(default_factory=list)
    images: list[dict[str, str]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    marked: list[str] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)
    cards: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.cards += tag == "article"
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] != "style":
            self.text.append(data)
            if self.tags[-1] in ("b", "h2"):
                (self.marked if self.tags[-1] == "b" else self.headings).append(data)

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.text))

    def pixels(self, number: int) -> np.ndarray:
        head, _, content = self.images[number]["src"].partition(",")
        assert head == "data:image/png;base64"
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(content, validate=True))))


def parsed(text: str) -> Page:
    page = Page()
    page.feed(text)
    return page
