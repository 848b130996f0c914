"""Torch's own generators, set to a seed for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

CPU = torch.device("cpu")


def generator_of(device: torch.device) -> torch.Generator:
    """What random numbers on a device are drawn from unless another generator is given."""
    if device.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
        return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    return torch.mps._get_default_mps_generator() if device.type == "mps" else torch.default_generator


@contextmanager
def seeded(seed: int, device: torch.device = CPU) -> Iterator[None]:
    """The generators of the CPU and of a device set to a seed, and afterwards to where they were.

    Those of other devices are not touched, as they would be by `torch.manual_seed`: a user may be training there.

    >>> with seeded(1):
    ...     first = torch.rand(3)
    >>> with seeded(1):
    ...     bool((torch.rand(3) == first).all())
    True
    """
    generators = {id(each): each for each in map(generator_of, (CPU, device))}.values()
    before = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(seed)
        yield
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator.set_state(state)
