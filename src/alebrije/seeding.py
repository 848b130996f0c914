"""Seed torch's default generators temporarily."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

CPU = torch.device("cpu")


def default_generator(device: torch.device) -> torch.Generator:
    """The generator that torch uses on a device when none is given."""
    if device.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
        return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    return torch.mps._get_default_mps_generator() if device.type == "mps" else torch.default_generator


def generator_states(device: torch.device = CPU) -> list[bytes]:
    """The states of the default generators of the CPU and of `device`: equal if no random number was drawn between."""
    return [default_generator(each).get_state().numpy().tobytes() for each in dict.fromkeys((CPU, device))]


@contextmanager
def seeded(seed: int, device: torch.device = CPU) -> Iterator[None]:
    """Seed the default generators of the CPU and of `device`, and restore their states afterwards.

    Unlike `torch.manual_seed` this leaves other devices alone, where a user may be training.

    >>> with seeded(1):
    ...     first = torch.rand(3)
    >>> with seeded(1):
    ...     bool((torch.rand(3) == first).all())
    True
    """
    generators = {id(generator): generator for generator in map(default_generator, (CPU, device))}.values()
    before = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(seed)
        yield
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator.set_state(state)
