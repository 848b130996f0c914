"""Milliseconds of a training step at the papers' batch sizes, ours against a plain loop, on a GPU.

    python benchmarks/models.py [cuda|cpu [FILE [NAME]]]

With a NAME only cases whose names contain it are measured; the others keep what the file has.

The plain loop is what one would write first: float32, eager, Adam as it comes, no graph; it learns the same model from
the same batches. Both include the drawing of the data. What bounds a step is told from the time that kernels are busy
(the profiler's, for ours) and from the arithmetic that the model asks for (counted by torch).
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from alebrije import __version__, worlds
from alebrije.models.autoencoders import BetaTCVAE
from alebrije.models.imagination import I2IViT
from alebrije.models.savi import SAVi
from alebrije.models.slot_attention import SlotAttentionAutoencoder
from alebrije.train import AllImages, Images, PreloadedSource, Recipe, StreamedSource, TaskEpisodes, preload
from alebrije.train.presets import preset
from alebrije.train.process_group import ProcessGroup
from alebrije.train.scene_sets import Videos
from alebrije.train.sources import Source, to_float
from alebrije.train.train_step import TrainStep

WARM_UP = 8  # steps: compiling, tuning and capturing happen there


@dataclass(frozen=True)
class Case:
    """A model with the batch size of its paper."""

    name: str
    model: Callable[[], nn.Module]
    source: Callable[[torch.device], Source]
    batch: int
    lr: float
    plain_steps: int
    steps: int
    clip: float | None = None


def episodes(device: torch.device) -> Source:
    """Endless episodes of sprites, drawn while training."""
    return StreamedSource(TaskEpisodes(worlds.task("sprites", "S-A", 0.6), 128, seed=0), device)


@cache
def crowds(device: torch.device) -> Source:
    """A held set of CLEVR scenes with up to ten objects."""
    count = 4096 if device.type == "cuda" else 64
    return PreloadedSource(
        preload(Images(worlds.get("clevr10"), 128, seed=0), count, device, workers=os.cpu_count() or 1), seed=0
    )


def windows(device: torch.device) -> Source:
    """Windows of six frames of moving objects, at 64 pixels."""
    videos = Videos(worlds.get("moving"), 64, seed=0)
    count = 256 if device.type == "cuda" else 8
    return PreloadedSource(videos.windows(preload(videos, count, device)), seed=0)


def whole_grid(device: torch.device) -> Source:
    """All 737,280 images of dSprites."""
    count = 737_280 if device.type == "cuda" else 1024
    return PreloadedSource(preload(AllImages(worlds.get("dsprites"), 64, seed=0), count, device), seed=0)


def slots_of_the_paper() -> nn.Module:
    """Slot Attention as the paper of ARP and ARR trained it, for whose scenes of ten objects eleven slots are meant."""
    return SlotAttentionAutoencoder(**preset("slot-attention", "paper", "clevr10").model)


CASES = (
    Case("I2I-ViT, 128 px, batch 32", I2IViT, episodes, 32, 3e-4, 128, 512, clip=1.0),
    Case("Slot Attention, 11 slots, 128 px, batch 64", slots_of_the_paper, crowds, 64, 4e-4, 20, 200),
    Case(
        "the same with the decoder of the release", lambda: SlotAttentionAutoencoder(slots=11), crowds, 64, 4e-4, 20, 90
    ),
    Case("SAVi-S, 11 slots, 64 px, batch 32 x 6 frames", SAVi, windows, 32, 2e-4, 8, 60, clip=0.05),
    Case("beta-TCVAE, 64 px, batch 64", lambda: BetaTCVAE(channels=1), whole_grid, 64, 5e-4, 200, 4000),
)


def plain(case: Case, source: Source, device: torch.device) -> float:
    """Seconds of a step as one would write it first."""
    torch.manual_seed(0)
    model = case.model().to(device).train()
    optimiser = torch.optim.Adam(model.parameters(), case.lr)

    def step(number: int) -> None:
        batch = {name: to_float(tensor) for name, tensor in source.batch(number * case.batch, case.batch).items()}
        losses = model.training_loss(batch, torch.tensor(float(number), device=device))  # type: ignore[operator]
        optimiser.zero_grad()
        losses["loss"].backward()
        if case.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), case.clip)
        optimiser.step()

    for number in range(WARM_UP):
        step(number)
    return timed(step, case.plain_steps, device)


def ours(case: Case, source: Source, device: torch.device) -> dict[str, float]:
    """Seconds of our step, how long it took to be ready, and what it spends its time on."""
    torch.manual_seed(0)
    model = case.model().to(device).train()
    recipe = Recipe(steps=10**6, batch=case.batch, lr=case.lr, clip=case.clip)
    group = ProcessGroup(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with group.own_stream():
        train_step = TrainStep(model, recipe.make_optimizer(model), recipe, group, True, 0)

        def step(number: int) -> None:
            train_step.run(source.batch(number * case.batch, case.batch))

        started = time.perf_counter()
        for number in range(WARM_UP):
            step(number)
        wait(device)
        found = {"seconds until ready": time.perf_counter() - started}
        found["ms"] = timed(step, case.steps, device) * 1e3
        if device.type == "cuda":
            found["peak GiB"] = torch.cuda.max_memory_allocated() / 2**30
            found["busy ms"] = busy(step, WARM_UP + case.steps)
        found["loss"] = train_step.mean_losses(None)["loss"]
    return found


def timed(step: Callable[[int], None], count: int, device: torch.device) -> float:
    """The mean over `count` steps after those of the warm-up, with all drawing that falls into them."""
    wait(device)
    started = time.perf_counter()
    for number in range(WARM_UP, WARM_UP + count):
        step(number)
    wait(device)
    return (time.perf_counter() - started) / count


def busy(step: Callable[[int], None], first: int, count: int = 10) -> float:
    """Milliseconds of kernels in a step, while nothing is drawn."""
    time.sleep(1.0)  # until the next block is drawn
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
        for number in range(first, first + count):
            step(number)
        torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in profiled.key_averages()) / 1e3 / count


def arithmetic(case: Case, source: Source, device: torch.device) -> float:
    """Floating point operations of a step, in units of 10^12."""
    model = case.model().to(device).train()
    batch = {name: to_float(tensor) for name, tensor in source.batch(0, case.batch).items()}
    with FlopCounterMode(display=False) as counter:
        model.training_loss(batch, torch.zeros((), device=device))["loss"].backward()  # type: ignore[operator]
    return counter.get_total_flops() / 1e12


def wait(device: torch.device) -> None:
    """Until the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Measure every case and store what was found."""
    if len(sys.argv) < 2 and not torch.cuda.is_available():
        print("training steps are measured on a GPU, and there is none here")
        return
    device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda")
    path = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).with_suffix(".json")
    machine = torch.cuda.get_device_name() if device.type == "cuda" else platform.machine()
    report: dict[str, Any] = {"machine": machine, "torch": torch.__version__, "alebrije": __version__, "cases": []}
    name = sys.argv[3] if len(sys.argv) > 3 else ""
    if name and path.exists():
        others = json.loads(path.read_text())["cases"]
        report["cases"] = [row for row in others if name not in row["case"]]
    for case in (case for case in CASES if name in case.name):
        started = time.perf_counter()
        source = case.source(device)
        wait(device)
        made = time.perf_counter() - started
        row = {"case": case.name, "seconds for the data": made, "arithmetic TFLOP": arithmetic(case, source, device)}
        row |= ours(case, source, device)
        row["plain ms"] = plain(case, source, device) * 1e3
        row["times faster"] = row["plain ms"] / row["ms"]
        report["cases"].append(row)
        print(json.dumps(row), flush=True)
        path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
