"""Kernel fusion: run the same arithmetic as a few large compiled kernels instead of many small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])

MIN_NUMEL = 4096  # smaller tensors do not repay the call of a compiled kernel
_FUSING: ContextVar[bool] = ContextVar("fusing", default=False)


def is_fusing() -> bool:
    """Whether this code runs inside `fusing`."""
    return _FUSING.get()


@contextmanager
def fusing() -> Iterator[None]:
    """Run functions marked `fused` through torch.compile within this context; each is compiled once."""
    token = _FUSING.set(True)
    try:
        yield
    finally:
        _FUSING.reset(token)


def fused(function: Function) -> Function:
    """Mark a function for `fusing`. It takes tensors of any length and has no Python side effects."""
    compiled: list[Callable[..., Any]] = []

    @wraps(function)
    def call(*arguments: Any) -> Any:
        if torch.compiler.is_compiling() or not _FUSING.get() or _largest(arguments) < MIN_NUMEL:
            return function(*arguments)
        if not compiled:
            compiled.append(torch.compile(function, dynamic=True))
        # one function serves many shapes, and each is compiled separately
        with torch._dynamo.config.patch(recompile_limit=64):
            return compiled[0](*arguments)

    return call  # type: ignore[return-value]


def _largest(arguments: tuple[Any, ...]) -> int:
    return max((argument.numel() for argument in arguments if isinstance(argument, torch.Tensor)), default=0)
