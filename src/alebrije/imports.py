"""Import an object by the text that a user types: `package.module:object`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from alebrije.errors import InputError, plain
from alebrije.suggest import did_you_mean


def import_object(module: str, attribute: str, suggest: Callable[[str, str], str] = lambda *_: "") -> Any:
    """Import `module` and return its `attribute`, which may be dotted.

    The current directory is importable, as with ``python -m``. `suggest(module, attribute)` returns the end of the
    error message for a missing module.

    >>> import_object("math", "pi")
    3.14...
    """
    _check_module_name(module, attribute)
    if (folder := os.getcwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)  # permanently: the imported code may import more when it is called
    importlib.invalidate_caches()
    try:
        target: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise InputError(f"there is no module {module!r}{suggest(module, attribute)}") from None
        raise InputError(f"the module {module!r} needs {error.name!r}, which is not installed") from error
    except Exception as error:  # user code can fail in any way
        raise InputError(f"the module {module!r} cannot be imported: {first_line(error)}") from error
    for part in attribute.split("."):
        if not hasattr(target, part):
            public = [name for name in dir(target) if not name.startswith("_")]
            known = [name for name in public if not isinstance(getattr(target, name, None), ModuleType)]
            raise InputError(f"{getattr(target, '__name__', module)!r} has no {part!r}{did_you_mean(part, known)}")
        target = getattr(target, part)
    return target


def _check_module_name(module: str, attribute: str) -> None:
    """Raise an InputError if the module name is a path, and suggest the module name of an existing file."""
    if not (module.endswith(".py") and Path(module).is_file()):
        if "/" in module:
            raise InputError(f"there is no file {module!r}, and module names use dots")
        return
    path = Path(os.path.relpath(module))
    name = ".".join(part for part in path.with_suffix("").parts if part != os.pardir)
    hint = " from its folder" if os.pardir in path.parts else ""
    raise InputError(f"{module!r} is a file, not a module; did you mean '{name}:{attribute}'{hint}?")


def first_line(error: BaseException) -> str:
    """The type and the first line of an exception, for use in a message."""
    return plain(f"{type(error).__name__}: {error}").strip().partition("\n")[0]
