"""The opening of a page: what each of a few models can do, and where it fails, in a sentence each and with pictures."""

from __future__ import annotations

from dataclasses import dataclass

from alebrije.report.parts import Strip


@dataclass(frozen=True)
class Opening:
    """What one model can do and where it fails, shown at the top of the page."""

    model: str
    title: str  # such as "Slot Attention on clevr6 finds the objects"
    can: str
    fails: str
    strips: tuple[Strip, ...] = ()
