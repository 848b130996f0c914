"""Results that several tests put into tables."""

from __future__ import annotations

import json
from typing import Any

from alebrije.results import Cell, Machine, Result, Value

MACHINE = Machine(python="3.12", torch="2.11", platform="Linux", device="cpu")


def result(seed: int = 0, values: dict[str, Any] | None = None, study: str = "neurons", **labels: Any) -> Result:
    cell = Cell(study=study, labels={**labels, "seed": seed}, inputs={"seed": seed, "labels": labels})
    return Result.done(cell, values or {"SNC": 0.5}, seconds=1, machine=MACHINE)


RESULTS = [
    result(seed, {"SNC": 0.1 * seed + alpha, "NK": Value(score=None, reason="none")}, model=model, alpha=alpha)
    for model in ("beta-vae", "ae")
    for alpha in (0.6, 0.2, 0.4)
    for seed in range(3)
]


def strict_json(text: str) -> Any:
    """The content of JSON text, which must not contain NaN or infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)
