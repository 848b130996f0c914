"""Worlds of users: what tells one from what it was before an edit."""

from __future__ import annotations

from functools import cache

from alebrije import worlds
from alebrije.adapters.contents import Contents


def own_world(name: str) -> dict[str, str]:
    """What tells a user's own world, `package.module:object`, from what it was before an edit, for the keys of cells.

    Nothing for the worlds of alebrije, whose names tell what they are.

    >>> own_world("sprites")
    {}
    """
    return {"world contents": _world_fingerprint(name)} if ":" in name else {}


@cache  # as the world itself is: what it leaves in its module while it draws makes no other world of it
def _world_fingerprint(name: str) -> str:
    return Contents.of(worlds.get(name)).fingerprint(name=name)
