"""How long a user waits for `alebrije eval`, and what the time goes into; optionally beside an older version.

    python benchmarks/evaluation.py [FILE] [--old CHECKOUT] [--size small] [--device cpu] [--network small] [--brief]

Each command runs in a fresh process: with an empty cache of images, again for a second model in another folder, and
once without the yardsticks, which versions before verdicts had them did not compute. Then the corpus of COAT is sampled
and rendered. `--old` is a checkout of another version, measured in the same environment before the new one. Where a
version has no cache or no yardsticks, the three are the same work, which is measured once. `--network vit` examines a
ViT-S/16 at 224 px (`vit.py`) instead of a small network at 64 px. With `--brief`, none is examined without yardsticks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
CASES, PIXELS = 256, 128
NETWORK = '''"""A small network with codes of 384 numbers."""
import torch
from torch import nn

def network():
    torch.manual_seed(SEED)
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, 4, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 384),
    )
'''
VIT = """from vit import vit_small

def network():
    return vit_small(SEED)
"""
NETWORKS = {"small": (NETWORK, 64), "vit": (VIT, 224)}  # module and pixels
COMMAND = "import sys; from alebrije.cli import main; sys.exit(main())"
WITHOUT = f"from alebrije.studies import run; run._yardstick_jobs = lambda *given, **more: []; {COMMAND}"
CORPUS = f"""
import time
from alebrije import worlds
started = time.perf_counter()
cases = worlds.analogies("clevr", {CASES}, occluded=True)
sampled = time.perf_counter()
for scenes in (cases.a, cases.b, cases.c, cases.d, *cases.negatives.values()):
    worlds.get("coat").render(scenes, {PIXELS}, "DEVICE").images.cpu()
print(sampled - started, time.perf_counter() - sampled)
"""
_TIME = re.compile(r"([a-z ]+?) (\d+\.\d) s")


def run(source: Path, code: str, words: Sequence[str], folder: Path) -> tuple[float, str]:
    """Seconds and output of a program in a fresh process."""
    known = filter(None, [os.environ.get("PYTHONPATH")])
    path = os.pathsep.join(map(str, (source, folder, Path(__file__).parent, *known)))
    environment = {**os.environ, "PYTHONPATH": path, "ALEBRIJE_CACHE": str(folder / "cache")}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}")
    return time.perf_counter() - started, done.stdout


def evaluated(source: Path, given: argparse.Namespace, code: str, first: Path, out: str) -> dict[str, Any]:
    """Seconds of `alebrije eval`, and of its stages if the version prints them."""
    module, pixels = NETWORKS[given.network]
    options = {"pixels": pixels, "size": given.size, "device": given.device, "out": out}
    words = ("eval", f"{out}:network", *(word for name, value in options.items() for word in (f"--{name}", str(value))))
    (first / f"{out}.py").write_text(module.replace("SEED", str(len(out))))
    seconds, printed = run(source, code, words, first)
    lines = [line.removeprefix("Time: ") for line in printed.splitlines() if line.startswith("Time: ")]
    stages = {name.strip(): float(t) for line in lines for name, t in _TIME.findall(line)}
    print(out, f"{seconds:.1f} s", stages, flush=True)
    return {"seconds": seconds, "stages": stages}


def measure(source: Path, given: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of one version, as they are measured."""
    with tempfile.TemporaryDirectory() as path:
        whole = evaluated(source, given, COMMAND, Path(path), "one")
        yield "eval", whole
        has_cache = (Path(path) / "cache").exists()
        yield "eval, second model", evaluated(source, given, COMMAND, Path(path), "other") if has_cache else whole
    with tempfile.TemporaryDirectory() as path:
        sampling, rendering = map(float, run(source, CORPUS.replace("DEVICE", given.device), (), Path(path))[1].split())
        stages = {"sampling": sampling, "rendering": rendering}
        yield "corpus", {"seconds": sampling + rendering, "stages": stages}
    if not given.brief:
        with tempfile.TemporaryDirectory() as path:
            has_yardsticks = (source / "alebrije" / "report" / "yardsticks.py").exists()
            alone = evaluated(source, given, WITHOUT, Path(path), "one") if has_yardsticks else whole
            yield "eval without yardsticks", alone


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?", default=Path(__file__).with_suffix(".json"), type=Path)
    parser.add_argument("--old", type=Path)
    parser.add_argument("--size", default="small")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--network", default="small", choices=sorted(NETWORKS))
    parser.add_argument("--brief", action="store_true")
    given = parser.parse_args()
    found: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "size": given.size,
        "network": given.network,
        "device": torch.cuda.get_device_name() if given.device.startswith("cuda") else given.device,
    }
    for name, checkout in (("old", given.old), ("new", ROOT)):
        if checkout is not None:
            commit = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
            found[f"{name} commit"] = subprocess.run(commit, capture_output=True, text=True, check=False).stdout.strip()
            for row, seconds in measure(checkout.resolve() / "src", given):
                found.setdefault(name, {})[row] = seconds
                print(name, row, json.dumps(seconds), flush=True)
                given.file.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
