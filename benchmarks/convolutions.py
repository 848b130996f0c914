"""Convolutions of 64 channels on a GPU as they come, and the same as convolutions of pairs of columns.

    python benchmarks/convolutions.py [FILE]

The layers are those of Slot Attention's decoder and encoder at 128 pixels, eleven slots and batches of 64, in bfloat16
with channels last. Rates count the arithmetic that is done: for pairs a sixth of it is with zeros. In the gradient of
the maps of a transposed layer pairs take longer, so that a step does without them there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from alebrije.models.convolutions import PAIRS_KEPT, PAIRS_OUT, ConvSettings, paired, paired_kernels, transposed_pairs

SAME: ConvSettings = (False, [1, 1], [2, 2], [0, 0])
DOUBLED: ConvSettings = (True, [2, 2], [2, 2], [1, 1])


def milliseconds(work: Callable[[], object], times: int = 20) -> float:
    """The median over `times`, after a few to warm up."""
    for _ in range(4):
        work()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
    for mark in marks[:-1]:
        mark.record()
        work()
    marks[-1].record()
    torch.cuda.synchronize()
    return median(first.elapsed_time(second) for first, second in pairwise(marks))


def measured(name: str, rows: Tensor, weight: Tensor, how: ConvSettings) -> dict[str, Any]:
    """Milliseconds and 10^15 operations a second of a layer and of its two gradients, for maps [B, H, W, C]."""
    transposed, stride, padding, output_padding = how
    rest = stride, padding, [1, 1], transposed, output_padding, 1
    maps = rows.permute(0, 3, 1, 2)
    found = torch.convolution(maps, weight, None, *rest)
    slopes = torch.randn_like(found)
    places = (maps if transposed else found)[:, 0].numel()
    work = {"forward": lambda: torch.convolution(maps, weight, None, *rest)}
    for gradient, wanted in (("of maps", [True, False, False]), ("of weights", [False, True, False])):
        work[gradient] = lambda w=wanted: torch.ops.aten.convolution_backward(slopes, maps, weight, None, *rest, w)  # type: ignore[misc]
    row: dict[str, Any] = {"layer": name, "TFLOP": 2e-12 * weight.numel() * places}
    for part, do in work.items():
        row[f"{part} ms"] = milliseconds(do)
        row[f"{part} PFLOP/s"] = row["TFLOP"] / row[f"{part} ms"]
    return row


def main() -> None:
    """Measure every layer and store what was found."""
    if not torch.cuda.is_available():
        print("convolutions are measured on a GPU, and there is none here")
        return
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".json")
    torch.backends.cudnn.benchmark = True
    report: dict[str, Any] = {"machine": torch.cuda.get_device_name(), "torch": torch.__version__, "layers": []}
    how: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    weight = (torch.randn(64, 64, 5, 5, **how) * 0.03).to(memory_format=torch.channels_last)
    for name, images, side, doubles in (
        ("decoder, 704 maps of 128 pixels", 704, 128, False),
        ("encoder, 64 maps of 128 pixels", 64, 128, False),
        ("decoder, 704 maps from 64 to 128 pixels", 704, 64, True),
        ("decoder, 704 maps from 32 to 64 pixels", 704, 32, True),
    ):
        rows = torch.randn(images, side, side, 64, **how)
        if doubles:
            cases = ((rows, weight, DOUBLED), (rows, transposed_pairs(weight), PAIRS_OUT))
        else:
            cases = ((rows, weight, SAME), (paired(rows), paired_kernels(weight), PAIRS_KEPT))
        for kind, case in zip((name, f"{name}, in pairs"), cases, strict=True):
            report["layers"].append(measured(kind, *case))
            print(json.dumps(report["layers"][-1]), flush=True)
    path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
