"""Train IODINE on coat within minutes: on small images first, then at 64 pixels; FG-ARI over the steps.

    python benchmarks/iodine.py FOLDER STAGE... [--channels 32] [--iterations 4] [--from RUN] [--scenes FILE.npz]

STAGE is SIZE:SECONDS:RATE, such as 32:60:1e-3: the side of the images, how long to train and the learning rate. All
layers are convolutions or work on vectors, so the same weights serve every size. Only the last stage lowers its rate,
over its last 40 percent. The step is that of `alebrije train`, captured but not compiled. FOLDER gets the scores at
64 pixels on 320 scenes that are not trained on, the weights, and those in half precision.

    python benchmarks/iodine.py FILE.npz --sample 20000

samples scenes beforehand, which takes a minute on one core.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from alebrije import worlds
from alebrije.models import build
from alebrije.scenes import Scenes
from alebrije.train.check import grouping_scores
from alebrije.train.plan import Plan, plan
from alebrije.train.process_group import ProcessGroup
from alebrije.train.sources import PreloadedSource, to_float
from alebrije.train.train_step import TrainStep

HELD, SIZE = 320, 64


def made_plan(size: int, rate: float, told: argparse.Namespace) -> Plan:
    """Return the plan of a stage."""
    settings = {"size": size, "channels": told.channels, "iterations": told.iterations, "lr": rate, "batch": told.batch}
    made = plan("iodine", world=told.world, settings=settings, seed=told.seed, dry_run=False)
    return replace(made, recipe=replace(made.recipe, decay="constant", warmup=told.warmup))


def sampled(world: str, count: int, seed: int, file: Path | None) -> Scenes:
    """Return training scenes, read from a file if there is one."""
    if file is None:
        return plan("iodine", world=world, seed=seed, dry_run=False).scene_set().scenes(0, count)
    with np.load(file) as arrays:
        stored = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    return Scenes(worlds.get(world).vocabulary, **stored)[:count]


def rendered(world: str, scenes: Scenes, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return images [B, 3, 64, 64] and masks [B, 64, 64]."""
    parts = []
    for first in range(0, len(scenes), 2_000):
        frames = worlds.get(world).render(scenes[first : first + 2_000], SIZE, device)
        parts.append((frames.images, frames.masks))
    images, masks = zip(*parts, strict=True)
    return torch.cat(images), torch.cat(masks)


def smaller(images: Tensor, size: int) -> Tensor:
    """Return images averaged to a smaller size, as uint8."""
    if size == SIZE:
        return images
    parts = [F.avg_pool2d(part.float(), SIZE // size).round().byte() for part in images.split(2_000)]
    return torch.cat(parts)


@torch.no_grad()
def grouping(model: nn.Module, made: Plan, images: Tensor, masks: Tensor, size: int = SIZE) -> dict[str, float]:
    """Return the grouping scores of images at `size` pixels by the same weights, with five iterations as published."""
    images, masks = smaller(images, size), masks[:, :: SIZE // size, :: SIZE // size]
    whole = build("iodine", **{**made.settings, "size": size}).to(images.device).eval()
    whole.load_state_dict(model.state_dict())
    scores: list[dict[str, Tensor]] = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for part, true in zip(images.split(64), masks.split(64), strict=True):
            scores.append(grouping_scores(true, whole(to_float(part), iterations=5).masks))
    return {name: round(float(torch.cat([each[name] for each in scores]).nanmean()), 4) for name in scores[0]}


class Stage:
    """One stage of the training."""

    def __init__(self, made: Plan, model: nn.Module, images: Tensor, last: bool) -> None:
        self.made, self.last = made, last
        small = smaller(images, made.size)
        self.source = PreloadedSource({"images": small}, made.seed)
        self.step = TrainStep(
            model, made.recipe.make_optimizer(model), made.recipe, ProcessGroup(images.device), True, 0
        )
        self.step.loss = model.training_loss  # type: ignore[assignment]
        self.taken = 0

    def run(self, steps: int) -> None:
        """Take some steps."""
        batch = self.made.recipe.batch
        for _ in range(steps):
            self.step.run(self.source.batch(self.taken * batch, batch))
            self.taken += 1

    def lower_rate(self, share: float) -> None:
        """Set the learning rate after this share of the time; in the last stage it falls to a fiftieth."""
        factor = 1.0 - 0.98 * min(1.0, max(0.0, (share - 0.6) / 0.4)) if self.last else 1.0
        for group in self.step.optimizer.param_groups:
            group["peak"] = factor * self.made.recipe.lr  # type: ignore[operator]


def train(told: argparse.Namespace, device: torch.device) -> None:
    """Train all stages and write down the scores."""
    began = time.perf_counter()
    images, _ = rendered(told.world, sampled(told.world, told.images, told.seed, told.scenes), device)
    held = plan("iodine", world=told.world, seed=told.seed, dry_run=False).scene_set("validation").scenes(0, told.held)
    held_images, masks = rendered(told.world, held, device)
    print(f"images after {time.perf_counter() - began:.1f} s", flush=True)
    first = told.stages[0].split(":")
    model = made_plan(int(first[0]), float(first[2]), told).new_model().to(device)
    weights = {} if told.earlier is None else load_file(told.earlier)
    if weights:
        model.load_state_dict({name: value.float() for name, value in weights.items()})
    history: list[dict[str, Any]] = []
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None
    for index, text in enumerate(told.stages):
        side, seconds, rate = text.split(":")
        made = made_plan(int(side), float(rate), told)
        staged = made.new_model().to(device).train()
        staged.load_state_dict(model.state_dict())
        if device.type == "cuda":
            staged = staged.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        stage, model = Stage(made, staged, images, index == len(told.stages) - 1), staged
        synchronise()
        with torch.cuda.stream(stream):
            run_stage(stage, float(seconds), told, history, (held_images, masks), began)
        stage.step.optimizer.release()
        state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
        save_file({name: value.half() for name, value in state.items()}, told.folder / "half.safetensors")
    save_file(state, told.folder / "weights.safetensors")


def run_stage(
    stage: Stage, seconds: float, told: argparse.Namespace, history: list[dict[str, Any]],
    held: tuple[Tensor, Tensor], began: float,
) -> None:  # fmt: skip
    """Take steps for some seconds, and score the model now and then."""
    stage.run(min(told.every, 10))
    synchronise()
    clock, trained, paused, pace, batches = time.perf_counter(), 0, 0.0, 0.0, 0
    while (spent := time.perf_counter() - clock - paused) < seconds:
        stage.run(told.every)
        losses = stage.step.mean_losses(None)  # waits for the device
        trained, batches = trained + told.every, batches + 1
        pace = (time.perf_counter() - clock - paused) / trained
        stage.lower_rate(spent / seconds)
        if batches % told.score_every == 0 or spent + pace * told.every >= seconds:
            pause = time.perf_counter()
            line = {"size": stage.made.size, "step": stage.taken, "ms": round(1000 * pace, 2), **losses}
            line |= {"lr": stage.step.lr, **grouping(stage.step.model, stage.made, *held)}
            if (size := stage.made.size) < SIZE:
                line["FG-ARI at this size"] = grouping(stage.step.model, stage.made, *held, size)["FG-ARI"]
            synchronise()
            line["seconds"] = round(time.perf_counter() - began, 1)
            paused += time.perf_counter() - pause
            history.append(line)
            print(json.dumps(line), flush=True)
            record = {"settings": vars(stage.made.recipe) | stage.made.settings, "stages": told.stages}
            record |= {"device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"}
            record |= {"torch": torch.__version__, "history": history}
            (told.folder / "iodine.json").write_text(json.dumps(record, indent=1, default=str) + "\n")


def synchronise() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> None:
    """Train, or sample scenes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("stages", nargs="*")
    parser.add_argument("--world", default="coat")
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--every", type=int, default=500, help="steps between two looks at the losses")
    parser.add_argument("--score-every", type=int, default=4, help="looks between two scores")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--held", type=int, default=HELD)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="earlier", type=Path, help="weights to start from")
    parser.add_argument("--scenes", type=Path, help="scenes sampled beforehand")
    parser.add_argument("--sample", type=int, help="sample this many scenes into the file FOLDER")
    told = parser.parse_args()
    if told.sample:
        scenes = sampled(told.world, told.sample, told.seed, None)
        np.savez_compressed(told.folder, **{name: tensor.numpy() for name, tensor in scenes.tensors()})
        return
    told.folder.mkdir(parents=True, exist_ok=True)
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(told.seed)
    train(told, torch.device("cuda" if torch.cuda.is_available() else "cpu"))


if __name__ == "__main__":
    main()
