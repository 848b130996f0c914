"""The history of a run: losses and training checks, one line of JSON each."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from alebrije.atomic import write_atomically
from alebrije.files import GIB, parse_json, read_bytes
from alebrije.train.logs import Log


def read_lines(path: Path) -> list[str]:
    """The lines of a history; bytes that are not text make a damaged line."""
    return read_bytes(path, GIB).decode("utf-8", errors="replace").splitlines(keepends=True)


@dataclass
class History:
    """Writes `history.jsonl`, after dropping lines later than `step`, where the run continues."""

    path: Path
    step: int
    enabled: bool  # only one process of a group writes
    log: Log | None = None  # gets the same numbers

    def __post_init__(self) -> None:
        if self.enabled and self.path.exists():
            lines = [line for line in read_lines(self.path) if line.endswith("\n")]
            write_atomically(self.path, "".join(line for line in lines if self._is_past(line)))

    def add(self, step: int, values: dict[str, float]) -> None:
        """Append a line; NaN and infinity become null."""
        if self.enabled:
            with self.path.open("a") as file:
                numbers = {name: value if math.isfinite(value) else None for name, value in values.items()}
                file.write(json.dumps({"step": step} | numbers, allow_nan=False) + "\n")
            if self.log is not None:
                self.log(step, values)

    def _is_past(self, line: str) -> bool:
        try:
            return bool(parse_json(line, self.path)["step"] <= self.step)
        except (ValueError, KeyError, TypeError):
            return False  # a damaged line
