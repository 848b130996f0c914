"""Tables for documents."""

from __future__ import annotations

import math

from alebrije.metrics import catalog


def catalog_markdown() -> str:
    """The catalog as a Markdown table, one metric a line, under the heading of its instrument."""
    lines = ["| name | metric | function | needs | range | better | source |", "|---|---|---|---|---|---|---|"]
    instrument = ""
    for record in catalog().values():
        if record.instrument != instrument:
            instrument = record.instrument
            lines.append(f"| **{instrument}** | | | | | | |")
        chosen = ", ".join(f"{key}={value!r}" for key, value in record.settings.items())
        call = f"`{record.function.__name__}`" + (f" with `{chosen}`" if chosen else "")
        low, high = (_end(end) for end in record.range)
        needs = ", ".join(record.inputs)
        cells = f"`{record.name}`", record.title, call, needs, f"{low} to {high}", record.direction, record.cites
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _end(value: float) -> str:
    return f"{'-' if value < 0 else ''}∞" if math.isinf(value) else f"{value:g}"
