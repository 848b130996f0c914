"""Ways to damage a file that somebody may read later."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def flip(path: Path) -> None:
    """Change one bit near the end."""
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(bytes(content))


def put_in_place(odd: Callable[[Path], object]) -> Callable[[Path], None]:
    """Remove the file and make something else in its place."""

    def damage(path: Path) -> None:
        path.unlink()
        odd(path)

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flip": flip,
    "truncate": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: path.write_bytes(b""),
    "append": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "other": lambda path: path.write_bytes((path.parent / "settings.json").read_bytes()),
    "delete": Path.unlink,
    "pipe": put_in_place(os.mkfifo),
    "folder": put_in_place(Path.mkdir),
    "device": put_in_place(lambda path: path.symlink_to("/dev/zero")),
}
