"""Things by the name that a user types for them, as in `package.module:object`."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from alebrije.errors import InputError


def object_named(module: str, attribute: str, near: Callable[[str, str], str] = lambda module, attribute: "") -> Any:
    """What `module:attribute` means. The current directory can be imported from, as with ``python -m``.

    `near` ends the sentence about a module that is not there.

    >>> object_named("math", "pi")
    3.14...
    """
    _refuse_file(module, attribute)
    if (here := os.getcwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)  # and it stays, because what is imported may import more when it is called
    importlib.invalidate_caches()
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise InputError(f"there is no module {module!r}{near(module, attribute)}") from None
        raise InputError(f"the module {module!r} needs {error.name!r}, which is not installed") from error
    except Exception as error:  # a stranger's file can fail in any way
        raise InputError(f"the module {module!r} cannot be imported: {first_line(error)}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            public = [one for one in dir(found) if not one.startswith("_")]
            known = [one for one in public if not isinstance(getattr(found, one, None), ModuleType)]
            raise InputError(f"{getattr(found, '__name__', module)!r} has no {part!r}{nearest(part, known)}")
        found = getattr(found, part)
    return found


def _refuse_file(module: str, attribute: str) -> None:
    """A file is no module, though it holds one; the sentence says how that is called."""
    if not (module.endswith(".py") and Path(module).is_file()):
        if "/" in module:
            raise InputError(f"there is no file {module!r}, and a module is written with dots")
        return
    place = Path(os.path.relpath(module))
    name = ".".join(part for part in place.with_suffix("").parts if part != os.pardir)
    where = " from its folder" if os.pardir in place.parts else ""
    raise InputError(f"{module!r} is a file, and a module is wanted; did you mean '{name}:{attribute}'{where}?")


def nearest(wrong: str, known: list[str]) -> str:
    """The end of a sentence about a wrong name: the nearest that there is, or all unless there are very many."""
    by_lower = {one.lower(): one for one in reversed(known)}
    near = difflib.get_close_matches(wrong.lower(), by_lower, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {by_lower[near[0]]!r}?"
    return f"; there are {', '.join(known)}" if 0 < len(known) <= 20 else ""


def first_line(error: BaseException) -> str:
    """What went wrong, for a sentence."""
    return f"{type(error).__name__}: {error}".strip().partition("\n")[0]
