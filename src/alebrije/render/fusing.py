"""Fusing: the same arithmetic as a few large kernels instead of many small ones, where a compiler is at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])

_FUSING: ContextVar[bool] = ContextVar("fusing", default=False)


@contextmanager
def fusing(wanted: bool = True) -> Iterator[None]:
    """Within this context the functions marked `fused` go through torch.compile, once for each."""
    token = _FUSING.set(wanted)
    try:
        yield
    finally:
        _FUSING.reset(token)


def fused(function: Function) -> Function:
    """Mark a function on tensors of any length, free of Python side effects, for `fusing`."""
    compiled: list[Callable[..., Any]] = []

    @wraps(function)
    def call(*arguments: Any, **settings: Any) -> Any:
        if torch.compiler.is_compiling() or not _FUSING.get():
            return function(*arguments, **settings)
        if not compiled:
            compiled.append(torch.compile(function, dynamic=True))
        return compiled[0](*arguments, **settings)

    return call  # type: ignore[return-value]
