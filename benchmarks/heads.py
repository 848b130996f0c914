"""How long heads take to fit, on a GPU or a CPU.

    python benchmarks/heads.py [FILE] [--device cuda] [--steps 3000]

Each work is done twice; the first time includes loading libraries and compiling kernels, which are then kept on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from alebrije.instruments.imagination.head import HeadSettings, ImageHead, fit_heads
from alebrije.metrics import align_neurons
from alebrije.probes import knockout_accuracy, linear_predictions, split_rows

ROWS, NEURONS, KINDS, EPOCHS = 4000, 384, (3, 6, 40, 32, 32), 75
EPISODES, PIXELS = 8192, 64


def codes_and_factors() -> tuple[np.ndarray, np.ndarray]:
    """Five factors with as many values as those of dSprites, blurred over many neurons."""
    draw = np.random.default_rng(0)
    factors = np.stack([draw.integers(0, kinds, ROWS) for kinds in KINDS], 1)
    codes = draw.normal(size=(ROWS, NEURONS))
    codes[:, : len(KINDS)] += factors / np.array(KINDS) * 4
    return codes @ (np.eye(NEURONS) + 0.05 * draw.normal(size=(NEURONS, NEURONS))), factors


def of_neurons(device: torch.device) -> dict[str, Callable[[], Any]]:
    codes, factors = codes_and_factors()
    fit, test = split_rows(ROWS, 1 / 3, 0)
    known, new = (codes[fit], factors[fit]), (codes[test], factors[test])
    settings = {"epochs": EPOCHS, "device": device}
    return {
        "NK: ten MLPs": lambda: knockout_accuracy(*known, np.arange(len(KINDS)), *new, **settings),
        "five linear classifiers": lambda: linear_predictions(*known, new[0], **settings),
        "alignment": lambda: align_neurons(codes, factors, device=str(device)),
    }


def of_images(device: torch.device, steps: int) -> dict[str, Callable[[], Any]]:
    generator = torch.Generator().manual_seed(0)
    small = torch.rand(EPISODES, 3, 8, 8, generator=generator)
    images = (F.interpolate(small, (PIXELS, PIXELS), mode="bilinear") * 255).byte().to(device)
    codes = small.flatten(1) @ torch.randn(192, NEURONS, generator=generator) / 14
    settings = HeadSettings(steps, batch=64, points=128, rate=5e-3, checks=15, width=96, components=512)

    def fitted(count: int) -> None:
        examples = (codes, images), (codes[:256], images[:256])
        heads = [ImageHead(*examples, settings, seed, str(device), fitted=False) for seed in range(count)]
        fit_heads(heads)
        heads[0](codes[:512])

    return {"imagination: one head": lambda: fitted(1), "imagination: eight heads": lambda: fitted(8)}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?", default=Path(__file__).with_suffix(".json"), type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", default=3000, type=int)
    given = parser.parse_args()
    device = torch.device(given.device)
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else given.device,
        "rows": ROWS,
        "neurons": NEURONS,
        "epochs": EPOCHS,
        "steps": given.steps,
        "seconds": {},
    }
    for name, work in {**of_neurons(device), **of_images(device, given.steps)}.items():
        times = []
        for _ in range(2):
            started = time.perf_counter()
            work()  # its answer is on the CPU, so the device has finished
            times.append(time.perf_counter() - started)
        found["seconds"][name] = times
        print(name, times, flush=True)
        given.file.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
