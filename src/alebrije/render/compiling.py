"""Whether compiled code renders on a device: where it gives the same bits as plain torch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

_PLAIN: list[bool] = []  # not a context variable, which threads do not inherit


def is_compiled(device: torch.device) -> bool:
    """Whether compiled code renders on a device."""
    return device.type == "cpu" and not _PLAIN and square_root_address() is not None


@contextmanager
def plain() -> Iterator[None]:
    """Render with plain torch within this context, in all threads."""
    _PLAIN.append(True)
    try:
        yield
    finally:
        _PLAIN.pop()


@cache
def square_root_address() -> int | None:
    """The address of the function with which torch takes square roots, or 0 if it rounds them exactly.

    None if compiled code cannot repeat what torch computes here.
    """
    import numba

    from alebrije.render.cpu.roots import take_roots

    options: Any = numba.config
    if options.DISABLE_JIT or not _rounds_as_expected():
        return None
    numbers = torch.rand(4096, generator=torch.Generator().manual_seed(0)) * 100
    expected = numbers.sqrt().numpy()
    if np.array_equal(np.sqrt(numbers.numpy()), expected):
        return 0
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        address = ctypes.cast(library.vmsSqrt, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return None
    found = numbers.numpy().copy()
    take_roots(found, 0, len(found), address)
    return address if np.array_equal(found, expected) else None


def _rounds_as_expected() -> bool:
    """Whether torch rounds once where compiled code does: in interpolations, vector products and lengths of rows."""
    first, second = torch.randn(2, 999, 3, generator=torch.Generator().manual_seed(0))
    a, b = first.numpy(), second.numpy()
    wide, high = a.astype(np.float64), b.astype(np.float64)
    share, rest = first.clamp(0, 1), np.where(np.abs(a.clip(0, 1)) < 0.5, a.clip(0, 1), a.clip(0, 1) - np.float32(1))
    mixed = (rest * (b - a).astype(np.float64) + np.where(a.clip(0, 1) < 0.5, wide, high)).astype(np.float32)
    product = (wide[:, 1] * high[:, 2] - (a[:, 2] * b[:, 1])).astype(np.float32)
    square = a[:, 0] * a[:, 0]
    for axis in (1, 2):
        square = (wide[:, axis] * wide[:, axis] + square).astype(np.float32)
    pairs = (
        (torch.lerp(first, second, share).numpy(), mixed),
        (torch.linalg.cross(first, second).numpy()[:, 0], product),
        (torch.linalg.vector_norm(first, dim=1).numpy(), np.sqrt(square)),
        (first[:, 0].abs().rsqrt().numpy(), 1 / np.sqrt(np.abs(a[:, 0]))),
    )
    return all(np.array_equal(found, expected) for found, expected in pairs)
