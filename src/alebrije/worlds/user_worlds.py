"""User worlds: a fingerprint that changes when the world is edited."""

from __future__ import annotations

from functools import cache

from alebrije import worlds
from alebrije.fingerprint import Contents

CONTENTS = "world contents"  # the input that identifies a user's world


def user_world_inputs(name: str) -> dict[str, str]:
    """The fingerprint of a user's world, `package.module:object`, as an input for cell keys and settings.

    Empty for the worlds of alebrije, which are identified by their names.

    >>> user_world_inputs("sprites")
    {}
    """
    return {CONTENTS: _world_fingerprint(name)} if ":" in name else {}


@cache  # like the world itself: rendering may change values in its module, but it is still the same world
def _world_fingerprint(name: str) -> str:
    return Contents.of(worlds.get(name)).fingerprint(name=name)
