"""Functions on NumPy arrays, compiled for this processor by numba when they are first called.

Importing numba takes a good part of a second, so import a module of compiled functions only where they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile `function` in numba's nopython mode, and keep the machine code for other processes.

    It runs without the lock of the interpreter, so threads may run it side by side. Arithmetic is that of IEEE 754 in
    the order that is written (no fast math), and a division by zero gives infinity or NaN, as in NumPy. Indices are
    not checked.

    The machine code is kept in the package's own folder or, if that is read-only, in the user's cache directory. It
    is compiled again when the file of the function changes, but not when another file does: keep functions and
    constants that a compiled function uses in the same file, or pass them as arguments.

    >>> @compiled
    ... def total(values):
    ...     found = 0.0
    ...     for value in values:
    ...         found += value
    ...     return found
    >>> import numpy as np
    >>> total(np.array([1.0, 2.0]))
    3.0
    """
    found = numba.njit(nogil=True, error_model="numpy")(function)
    if hasattr(found, "enable_caching"):  # a plain function if NUMBA_DISABLE_JIT is set
        with suppress(RuntimeError, OSError):  # no folder can be written: each process compiles its own
            found._cache = _Cache(function)
    return cast(Function, found)


def inner(function: Function) -> Function:
    """Mark a function that only compiled functions of the same file call: that is quicker to compile."""
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    return cast(Function, numba.njit(**options)(function))


class _Cache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """Machine code on disk; what cannot be read or written is compiled again."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a damaged file fails in any way
            with suppress(Exception):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception:  # a full disk
            self.disable()
