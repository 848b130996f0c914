"""`alebrije check`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from alebrije.cli.options import Device, Size, Spec, Triple, at_least_one, device_name
from alebrije.errors import plain
from alebrije.instruments import NAMES


@dataclass(frozen=True)
class Check:
    """Check whether a model can be evaluated, and how to fix it if not."""

    spec: Spec
    """package.module:object, timm:NAME, hf:NAME, zoo:NAME, checkpoint:DIR (trained by alebrije) or embeddings:FILE."""
    pixels: int | None = None
    """Side of the images that the model expects; by default the model's own, or that of the images."""
    mean: Triple | None = None
    """Per-channel mean to subtract (images in 0..1)."""
    std: Triple | None = None
    """Per-channel standard deviation to divide by."""
    layer: str | None = None
    """The submodule whose output is used instead of the model's."""
    pool: Literal["cls", "mean", "tokens"] | None = None
    """Codes of a model with tokens: the class token, their mean, or all of them as slots; by default the model's own
    pooled output."""
    method: str | None = None
    """The method that is called instead of the model, such as encode; package.module:Class.method says the same."""
    tests: tuple[str, ...] = NAMES
    """The tests of the evaluation, as in `eval`. They decide how large the images are."""
    size: Size = "small"
    """The size of the evaluation, as in `eval`. It decides how large the images are."""
    name: str | None = None
    """Name of the model in tables."""
    batch: int = 64
    """Images per forward pass."""
    device: Device = "auto"
    """Where the model runs; `auto` is a GPU if there is one."""

    def run(self) -> None:
        """Print the findings; exit with 1 if there is a problem."""
        at_least_one(pixels=self.pixels, batch=self.batch)
        from alebrije.adapters import check
        from alebrije.studies.references import REFERENCES

        if self.spec in REFERENCES:
            print(f"{self.spec} is a built-in reference and can be evaluated.")
            return
        device = device_name(self.device)
        report = check(
            self.spec,
            size=self.pixels,
            mean=self.mean,
            std=self.std,
            layer=self.layer,
            pool=self.pool,
            method=self.method,
            device=device,
            name=self.name,
            batch=self.batch,
            rendered=rendered_sizes(self.tests, self.size),
        )
        print(plain(str(report)))  # the name and messages of a model may contain terminal escapes
        if not report.passed:
            sys.exit(1)


def rendered_sizes(tests: Sequence[str], size: Size) -> tuple[int, ...]:
    """The sides of all images that an evaluation shows to a model of unknown input size."""
    from alebrije import instruments
    from alebrije.evaluate import select_tests
    from alebrije.studies.folder import ResultFolder
    from alebrije.studies.references import reference
    from alebrije.studies.request import Request
    from alebrije.studies.run import plan_study

    sizes: dict[int, None] = {}
    for name, metrics in select_tests(tests).items():
        request = Request(size=size, loaded=(reference("noise"),), metrics=metrics, only_loaded=True)
        planned = plan_study(instruments.get(name), ResultFolder("."), request)
        sizes |= dict.fromkeys(job.pixels for job in planned.jobs if job.pixels is not None)
    return tuple(sizes)
