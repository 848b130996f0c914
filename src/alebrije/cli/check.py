"""`alebrije check`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from alebrije.cli.options import Device, Spec, Triple, at_least_one, device_name


@dataclass(frozen=True)
class Check:
    """Check whether a model can be evaluated, and how to fix it if not."""

    spec: Spec
    """package.module:object, timm:NAME, hf:NAME, checkpoint:DIR (trained by alebrije) or embeddings:FILE."""
    pixels: int | None = None
    """Side of the images that the model expects; by default the model's own, or that of the images."""
    mean: Triple | None = None
    """Per-channel mean to subtract (images in 0..1)."""
    std: Triple | None = None
    """Per-channel standard deviation to divide by."""
    layer: str | None = None
    """The submodule whose output is used instead of the model's."""
    device: Device = "auto"
    """Where the model runs; `auto` is a GPU if there is one."""

    def run(self) -> None:
        """Print the findings; exit with 1 if there is a problem."""
        at_least_one(pixels=self.pixels)
        from alebrije.adapters import check
        from alebrije.studies.references import REFERENCES

        if self.spec in REFERENCES:
            print(f"{self.spec} is a built-in reference and can be evaluated.")
            return
        device = device_name(self.device)
        report = check(self.spec, size=self.pixels, mean=self.mean, std=self.std, layer=self.layer, device=device)
        print(report)
        if not report.passed:
            sys.exit(1)
