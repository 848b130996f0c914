"""Option types and checks that several commands share."""

from __future__ import annotations

from typing import Annotated, Literal

import tyro

from alebrije.errors import InputError

Device = Literal["auto", "cpu", "cuda", "mps"]
Size = Literal["tiny", "small", "paper"]
Spec = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SPEC")]
Triple = tuple[float, float, float]


def device_name(device: str) -> str:
    """The device of `--device`; `auto` is a GPU if there is one."""
    from alebrije.checks import usable_device

    try:
        return str(usable_device(device))
    except InputError as error:
        raise InputError(f"--device {device}: {error}") from None


def at_least_one(**numbers: int | None) -> None:
    """Raise an InputError for an option that is less than 1."""
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise InputError(f"--{name.replace('_', '-')} must be at least 1, not {number}")
