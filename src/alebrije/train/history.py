"""The history of a run: everything worth plotting, a line of JSON at a time."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from alebrije.atomic import write_atomically


@dataclass
class History:
    """Writes `history.jsonl`; lines later than the checkpoint that a run goes on from are dropped."""

    path: Path
    step: int
    writes: bool

    def __post_init__(self) -> None:
        if self.writes and self.path.exists():
            lines = [line for line in self.path.read_text().splitlines(keepends=True) if line.endswith("\n")]
            write_atomically(self.path, "".join(line for line in lines if self._is_of_the_past(line)))

    def add(self, step: int, values: dict[str, float]) -> None:
        """Write a line."""
        if self.writes:
            with self.path.open("a") as file:
                numbers = {name: value if math.isfinite(value) else None for name, value in values.items()}
                file.write(json.dumps({"step": step} | numbers, allow_nan=False) + "\n")

    def _is_of_the_past(self, line: str) -> bool:
        try:
            return bool(json.loads(line)["step"] <= self.step)
        except (ValueError, KeyError, TypeError):
            return False  # a line that was damaged
