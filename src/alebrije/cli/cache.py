"""`alebrije cache`: the images of worlds that this machine keeps."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alebrije.cli.printing import print_table

if TYPE_CHECKING:
    from alebrije.data.machine_cache import Entry

_SIZES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_AGES = (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0))
_ABOUT = ("lot", "alpha", "cases", "count", "images", "n", "pixels", "seed", "device")  # settings that are shown


@dataclass(frozen=True)
class Cache:
    """Show the images of worlds that this machine keeps, so that no model waits for them twice.

    ALEBRIJE_CACHE names the folder (default: a folder in the user's cache directory); "off" disables the cache.
    ALEBRIJE_CACHE_LIMIT is its maximum size in gigabytes (default: 10).
    """

    check: bool = False
    """Compare every entry with its checksums, and remove those that are damaged."""
    clear: bool = False
    """Remove all entries."""

    def run(self) -> None:
        """Print the entries, or what was removed."""
        from alebrije.data.machine_cache import FOLDER, machine_cache

        cache = machine_cache()
        if cache is None:
            print(f"The cache is switched off by {FOLDER}.")
            return
        entries = cache.entries()
        held = f"{_count(entries)}, {size_in_words(sum(entry.bytes for entry in entries))}"
        if self.clear:
            cache.clear()
            print(f"Removed {held} from {cache.path}.")
            return
        if entries:
            print_table(_table(entries))
        print(f"{cache.path}: {held} of {size_in_words(cache.limit)} at most")
        if self.check:
            damaged = cache.damaged()
            cache.remove(damaged)
            for name in damaged:
                print(f"damaged, removed: {name}", file=sys.stderr)
            print(f"{len(damaged):,} damaged")


def size_in_words(count: float) -> str:
    """Bytes in the largest fitting unit.

    >>> size_in_words(10 * 2**30), size_in_words(512)
    ('10.7 GB', '512 bytes')
    """
    for unit, size in _SIZES:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"


def age_in_words(seconds: float) -> str:
    """A past moment in the largest fitting unit.

    >>> age_in_words(7300.0), age_in_words(86400.0), age_in_words(3.0)
    ('2 hours ago', '1 day ago', 'just now')
    """
    for unit, size in _AGES:
        if seconds >= size:
            number = int(seconds / size)
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "just now"


def _count(entries: Sequence[Entry]) -> str:
    return f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}"


def _table(entries: Sequence[Entry]) -> Any:
    from rich.table import Table

    table, now = Table("images", "settings", "size", "last used"), time.time()
    for entry in entries:
        name = str(entry.settings.get("name", entry.name))
        table.add_row(name, _about(entry.settings), size_in_words(entry.bytes), age_in_words(now - entry.used))
    return table


def _about(settings: Mapping[str, Any]) -> str:
    """The settings that tell entries apart."""
    known = {name: settings[name] for name in _ABOUT if settings.get(name) is not None}
    return ", ".join(f"{name} {value}" for name, value in known.items())
