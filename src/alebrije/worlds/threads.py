"""Threads for work on lists: many short operations, which torch's own threads split badly."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def spare_threads() -> int:
    """The threads for work whose result does not depend on their number: those of torch, or a quarter of the cores."""
    return max(torch.get_num_threads(), (os.cpu_count() or 1) // 4)


def in_threads(work: Callable[[Item], Answer], items: Iterable[Item], threads: int) -> Iterator[Answer]:
    """The answers in the order of the items, several at a time, each with one thread of torch and of matrix products.

    >>> list(in_threads(lambda number: number + 1, [1, 2, 3], threads=2))
    [2, 3, 4]
    """
    if threads < 2:
        yield from map(work, items)
        return
    before = torch.get_num_threads()
    try:
        with (
            _pools().limit(limits=1),  # products of small matrices would wait for each other
            ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool,
        ):
            yield from pool.map(work, items)
    finally:
        torch.set_num_threads(before)


@cache
def _pools() -> ThreadpoolController:
    """The thread pools of libraries, looked up once because that takes as long as a small image."""
    return ThreadpoolController()
