"""What lets SVIB's Oracle recombine: a small one on sprites S-A at alpha 0.2, with and without parts of the release.

    python benchmarks/oracle.py FOLDER [NAME...] [--steps 6000] [--device cpu]

Images have 32 pixels and the networks are 96 wide; arithmetic is float32 on a CPU and bfloat16 on a GPU. A run holds
40,000 episodes and prints ten times the squared error of an image on 300 episodes of known and of new combinations. It
goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import torch
from torch import nn

from alebrije import worlds
from alebrije.models import Batch
from alebrije.models.imagination import Oracle
from alebrije.train import PreloadedSource, Recipe, TaskEpisodes, preload, train
from alebrije.train.check import prediction_errors
from alebrije.train.options import RunOptions

PARTS = ("unmixed", "third", "rise", "clipped")  # no transformer before the decoder; the rest is the release's recipe
MIXED = ("small", "clipped", "rise-clipped", "third-clipped", "third-rise-clipped")
RUNS = (*MIXED, "unmixed", "unmixed-third-rise-clipped")
SIZE, RATE = 32, 1e-3


def recipe(parts: set[str], steps: int, device: torch.device) -> Recipe:
    """That of the preset `small` but for its rate, or parts of the release's, in proportion to the steps."""
    rates = {"": RATE, "encoder.": RATE / (3 if "third" in parts else 1)}
    precision = "float32" if device.type == "cpu" else "bfloat16"
    made = partial(Recipe, steps=steps, batch=32, lr=rates, precision=precision, clip_each=True)
    clip = {"clip": 0.05, "clip_by": "largest"} if "clipped" in parts else {"clip": 1.0}
    if "rise" in parts:
        return made(warmup=steps * 3 // 16, decay="halving", half_life=steps * 25 // 16, **clip)
    return made(warmup=steps // 20, decay="tail", **clip)


def errors(model: nn.Module, batches: dict[str, Batch]) -> dict[str, float]:
    """The mean error on each set of episodes."""
    return {name: float(prediction_errors(model, batch).mean()) for name, batch in batches.items()}


def run(name: str, folder: Path, steps: int, device: torch.device) -> None:
    """Train one and print its errors."""
    parts = set(name.split("-")) - {"small"}
    task = worlds.task("sprites", "S-A", 0.2)
    sets = {"known": ("validation", 300), "new": ("test", 300), "train": ("train", 40_000)}
    held = {key: preload(TaskEpisodes(task, SIZE, 0, part), n, device) for key, (part, n) in sets.items()}  # type: ignore[arg-type]
    torch.manual_seed(0)
    mixing = 0 if "unmixed" in parts else 4
    model = Oracle(size=SIZE, width=96, mixing=mixing, decoder_width=96, decoder_blocks=3)
    check = partial(errors, batches={key: held[key] for key in ("known", "new")})
    each = steps // 10
    where = folder / name
    train(
        model,
        PreloadedSource(held["train"], 0),
        recipe(parts, steps, device),
        where,
        RunOptions(device=device, check_every=each, log_every=each, save_every=each),
        check=check,
    )
    for line in map(json.loads, (where / "history.jsonl").read_text().splitlines()):
        if "new" in line:
            print(f"{name}: step {line['step']}, known {line['known']:.1f}, new {line['new']:.1f}", flush=True)


def main() -> None:
    """Train the runs that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(RUNS))
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--device", default="cpu")
    told = parser.parse_intermixed_args()
    for name in told.names:
        if unknown := set(name.split("-")) - {"small", *PARTS}:
            parser.error(f"{name}: there is no part {sorted(unknown)[0]}; there are {', '.join(PARTS)}")
    for name in told.names:
        run(name, told.folder, told.steps, torch.device(told.device))


if __name__ == "__main__":
    main()
