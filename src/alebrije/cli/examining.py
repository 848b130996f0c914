"""Commands about a model at hand: check it, examine it; and studies of many."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from alebrije.cli.common import Device, device_of


@dataclass(frozen=True)
class Check:
    """Tell in plain words whether a model can be evaluated, and how to mend what is in the way."""

    spec: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SPEC")]
    """package.module:object, timm:NAME, hf:NAME, checkpoint:DIR (a model trained here) or embeddings:FILE."""
    size: int | None = None
    """Pixels a side that the model wants; the model's own, or as images come, unless given."""
    mean: tuple[float, float, float] | None = None
    """What to take off each channel of images in 0..1."""
    std: tuple[float, float, float] | None = None
    """What to divide it by then."""
    device: Device = "auto"
    """Where the model runs; `auto` takes a GPU if there is one."""

    def run(self) -> None:
        """Prints the findings; ends with 1 if there is a problem."""
        from alebrije.adapters import check

        report = check(self.spec, size=self.size, mean=self.mean, std=self.std, device=device_of(self.device))
        print(report)
        if not report.passed:
            sys.exit(1)
