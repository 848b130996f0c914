"""Where a command computes."""

from __future__ import annotations

from typing import Literal

from alebrije.errors import InputError

Device = Literal["auto", "cpu", "cuda", "mps"]


def device_of(name: str) -> str:
    """The device that is meant, if it can be used here."""
    import torch

    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if there[device])
    if not there[name]:
        raise InputError(f"--device {name}: torch finds none here")
    return name
