"""Fusing: the same arithmetic as a few large kernels instead of many small ones, where a compiler is at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])

WORTH_IT = 4096  # shorter lists are not worth a kernel of their own
_FUSING: ContextVar[bool] = ContextVar("fusing", default=False)


def is_fusing() -> bool:
    """Whether `fusing` is on here."""
    return _FUSING.get()


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
    def call(*arguments: Any) -> Any:
        if torch.compiler.is_compiling() or not _FUSING.get() or _largest(arguments) < WORTH_IT:
            return function(*arguments)
        if not compiled:
            compiled.append(torch.compile(function, dynamic=True))
        # one function may serve many shapes and many kinds of points, each of which is compiled for itself
        with torch._dynamo.config.patch(recompile_limit=64):
            return compiled[0](*arguments)

    return call  # type: ignore[return-value]


def _largest(arguments: tuple[Any, ...]) -> int:
    return max((argument.numel() for argument in arguments if isinstance(argument, torch.Tensor)), default=0)
