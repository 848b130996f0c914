"""Images per second and memory of the renderers; `make bench` prints them and stores JSON.

    python benchmarks/worlds.py [cpu|cuda [FILE [STAGE]]]

With a STAGE, such as videos, only that one is measured; the others keep what the file has.

On a GPU the ray tracer is measured through its kernels and through plain torch, with the time from the start of a
process to the first image. Scenes are drawn by the worlds' own samplers beforehand. Every number is the best of a few
runs over the same scenes.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from alebrije import __version__, worlds
from alebrije.scenes import Scenes


@cache
def sampled(name: str) -> Scenes:
    """A block of scenes of a world."""
    return worlds.get(name).sample(512)


def crowd(objects: int, count: int) -> tuple[worlds.World, Scenes]:
    """Scenes of exactly so many objects, some of them several times: of SVIB-CLEVR for two, else of CLEVR."""
    world = worlds.get("clevr" if objects == 2 else "clevr10")
    scenes = sampled(world.name)
    full = scenes[scenes.present.sum(1) == objects]
    return world, Scenes.concatenate([full] * (count // len(full) + 1))[:count]


def rate(world: worlds.World, scenes: Scenes, size: int, device: str, runs: int = 3) -> float:
    """Images per second, drawing all scenes `runs` times after a warm-up."""
    where = scenes.to(device)
    if device == "cuda":
        torch.cuda.empty_cache()  # blocks of other sizes, kept from the cell before, would be in the way
    world.render(where[: max(1, len(where) // 4)], size, device)
    best = float("inf")
    for _ in range(runs):
        started = time.perf_counter()
        world.render(where, size, device)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - started)
    return len(scenes) / best


def cell(objects: int, size: int, device: str) -> dict[str, Any]:
    """Speed of the ray tracer and peak memory in GiB: of the GPU, or of this process."""
    on_gpu = device == "cuda"
    world, scenes = crowd(objects, 16_384 if on_gpu else 128)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    found = rate(world, scenes, size, device)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else kilobytes / 2**20
    return {"objects": objects, "size": size, "images per second": found, "peak GiB": memory}


def solid(device: str) -> list[dict[str, Any]]:
    """The ray tracer for 2, 5 and 10 objects and 64, 128 and 240 pixels."""
    rows = []
    for objects in (2, 5, 10):
        for size in (128, 64, 240):
            if device == "cuda":
                row = cell(objects, size, device)
            else:
                # a process of its own, whose peak is that of this cell alone
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
                    row = alone.submit(cell, objects, size, device).result()
            rows.append(row)
            speed, memory = row["images per second"], row["peak GiB"]
            print(f"clevr, {objects} objects, {size} px: {speed:,.0f} images/s, {memory:.1f} GiB", flush=True)
    return rows


def smaller(*counts: int) -> list[dict[str, Any]]:
    """The ray tracer on a GPU in small batches, where launching kernels takes a larger part."""
    rows: list[dict[str, Any]] = []
    for count in counts:
        for objects, size in ((2, 64), (2, 128), (2, 240), (5, 128), (10, 128)):
            world, scenes = crowd(objects, count)
            found = rate(world, scenes, size, "cuda")
            rows.append({"objects": objects, "size": size, "batch": count, "images per second": found})
            print(f"batches of {count}: {objects} objects, {size} px: {found:,.0f} images/s", flush=True)
    return rows


FIRST = """
import sys, time
from alebrije import worlds
world = worlds.get(sys.argv[1])
world.render(world.sample(4), 128, "cuda").images.cpu()
print(time.time() - float(sys.argv[2]))
"""


def first_image(name: str) -> dict[str, Any]:
    """Seconds from the start of a process to its first image, with nothing compiled before, then with all."""
    row: dict[str, Any] = {"world": name}
    with tempfile.TemporaryDirectory() as cache:
        for state in ("nothing compiled", "compiled before"):
            command = [sys.executable, "-c", FIRST, name, str(time.time())]
            environment = {**os.environ, "TRITON_CACHE_DIR": cache}
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            row[state] = float(done.stdout)
    print(f"first image: {row}", flush=True)
    return row


def first_images() -> list[dict[str, Any]]:
    """First images of two worlds, in processes side by side."""
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(first_image, ("clevr", "clevrtex")))


def torch_path() -> list[dict[str, Any]]:
    """Images per second of two worlds through the kernels and through plain torch, in equal batches."""
    rows: list[dict[str, Any]] = []
    for name, count in (("clevr", 4096), ("clevrtex", 512)):
        world = worlds.get(name)
        scenes = Scenes.concatenate([sampled(name)] * (count // 512))
        row = {"world": name, "batch": count, "kernels": rate(world, scenes, 128, "cuda")}
        with mock.patch("alebrije.render.solid.can_trace", return_value=False):
            row["torch"] = rate(world, scenes, 128, "cuda", runs=1)
        rows.append(row)
        print(row, flush=True)
    return rows


def others(device: str) -> dict[str, float]:
    """The other worlds at their own size."""
    counts = {"sprites": 4096, "dsprites": 65_536, "rooms": 16_384, "clevrtex": 16 if device == "cpu" else 4096}
    rates = {}
    for name, count in counts.items():
        world = worlds.get(name)
        scenes = sampled(name)[:count]
        scenes = Scenes.concatenate([scenes] * (count // len(scenes)))
        rates[name] = rate(world, scenes, world.size, device)
        print(f"{name}, {world.size} px: {rates[name]:,.0f} images/s", flush=True)
    return rates


def videos(device: str) -> dict[str, float]:
    """Frames per second of the worlds of videos at 64 pixels, with boxes and flow."""
    counts = {"moving": 8 if device == "cpu" else 2048, "scripted": 4 if device == "cpu" else 1024}
    rates = {}
    for name, count in counts.items():
        world = worlds.get(name)
        scenes = world.sample(min(count, 256))
        scenes = Scenes.concatenate([scenes] * (count // len(scenes)))
        rates[name] = rate(world, scenes, 64, device) * (scenes.frames or 1)
        print(f"{name}, 64 px: {rates[name]:,.0f} frames/s", flush=True)
    return rates


def main() -> None:
    """Measure on the device asked for and add it to the file."""
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    path = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).with_suffix(".json")
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    cores = f"{platform.machine()}, {torch.get_num_threads()} threads"
    machine = torch.cuda.get_device_name() if device == "cuda" else cores
    report: dict[str, Any] = {"machine": machine, "torch": torch.__version__, "alebrije": __version__}
    before = found.get(device, {})
    if against := before.get("against"):  # from against.py
        report["against"] = against
    found[device] = report
    stages: dict[str, Callable[[], Any]] = {"clevr": lambda: solid(device), "others": lambda: others(device)}
    stages["videos"] = lambda: videos(device)
    if device == "cuda":
        smaller_batches = {"smaller batches": lambda: smaller(4096, 256)}
        stages = {"first image": first_images, "torch path": torch_path, **stages, **smaller_batches}
    if len(sys.argv) > 3:
        report |= {name: old for name, old in before.items() if name in stages}
        stages = {sys.argv[3]: stages[sys.argv[3]]}
    for name, stage in stages.items():
        report[name] = stage()
        path.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
