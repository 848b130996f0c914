"""SAVi without boxes, with boxes and supervised, trained and scored with several numbers of slots: a reduced Figure 7.

    python benchmarks/slots_of_videos.py FOLDER [--device cuda] [--steps N] [--slots 3 5 11 24] [--models savi ...]

The paper of ARP and ARR trains for 200,000 steps of 64 windows. Each run here takes minutes at most, and the record
says how many steps it had. Every model is scored with the number of slots that it was trained with, or with
`--test-slots`, on whole videos of 24 frames that training does not show. FOLDER gets slots-of-videos.json, a picture of
segmentations, the weights in half precision, and the runs.
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
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from alebrije import __version__
from alebrije.encoding import Encoding
from alebrije.metrics import (
    adjusted_rand_index,
    adjusted_rand_precision,
    adjusted_rand_recall,
    labels_from_masks,
)
from alebrije.render.frames import Frames
from alebrije.train import PreloadedSource, RunOptions, train
from alebrije.train.plan import Plan, plan
from alebrije.train.process_group import ProcessGroup
from alebrije.train.scene_sets import Videos
from alebrije.train.sources import to_float
from alebrije.train.train_step import TrainStep

METRICS = {"fg-ari": adjusted_rand_index, "fg-arp": adjusted_rand_precision, "fg-arr": adjusted_rand_recall}
AT_ONCE = 16  # videos
SHOWN = 3  # videos in the picture
TIMES = (0, 4, 8, 12, 20)  # frames in the picture
GROUND = (30, 30, 30)


def options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--models", nargs="+", default=["savi", "savi-boxes", "savi-supervised"])
    parser.add_argument("--slots", nargs="+", type=int, default=[3, 5, 11, 24])
    parser.add_argument("--test-slots", nargs="+", type=int, default=[], help="default: as in training")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seconds", type=float, help="of training in all, instead of steps")
    parser.add_argument("--images", type=int, default=1000, help="training videos")
    parser.add_argument("--tested", type=int, default=64, help="videos that are scored")
    parser.add_argument("--set", nargs="*", default=[], help="changes to the preset `small`, as name=value")
    parser.add_argument("--preset", default="small")
    return parser.parse_args()


def planned(asked: argparse.Namespace, model: str, slots: int) -> Plan:
    """The plan of one run."""
    settings = dict(change.split("=", 1) for change in asked.set) | {"slots": slots, "steps": asked.steps}
    settings.setdefault("warmup", min(500, asked.steps // 5))
    made = plan(model, preset_name=asked.preset, world="moving", images=asked.images, settings=settings, dry_run=False)
    return replace(made, seed=0)


def pace(made: Plan, source: PreloadedSource, device: torch.device) -> float:
    """Seconds of a step, over 20 steps after those in which it is captured."""
    model = made.new_model().to(device)
    if device.type == "cuda":
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    group = ProcessGroup(device)
    with group.own_stream():
        step = TrainStep(model.train(), made.recipe.make_optimizer(model), made.recipe, group, True, 0)
        for number in range(30):
            if number == 10:
                step.mean_losses(None)  # waits for the device
                started = time.perf_counter()
            step.run(source.batch(number * made.recipe.batch, made.recipe.batch))
        step.mean_losses(None)
    return (time.perf_counter() - started) / 20


def save_half(model: nn.Module, path: Path) -> None:
    """Write the weights in half precision."""
    save_file({name: weight.detach().half().cpu().contiguous() for name, weight in model.state_dict().items()}, path)


def encoded(model: nn.Module, frames: Frames, slots: int) -> tuple[Tensor, Tensor]:
    """The group of each pixel [B, T, H, W], and the mean of the largest mask of each video [B]."""
    assert frames.boxes is not None
    groups, sure = [], []
    for first in range(0, len(frames), AT_ONCE):
        rows = slice(first, first + AT_ONCE)
        given = () if type(model).__name__ == "SAVi" else (frames.boxes[rows, 0],)
        with torch.no_grad():
            torch.manual_seed(first)
            encoding: Encoding = model(to_float(frames.images[rows]), *given, slots=slots)
        assert encoding.masks is not None
        groups.append(labels_from_masks(encoding.masks).cpu())
        sure.append(encoding.masks.amax(2).mean((1, 2, 3)).cpu())
    return torch.cat(groups), torch.cat(sure)


def scores(frames: Frames, groups: Tensor) -> dict[str, Any]:
    """Means over videos with and without the first frame, by number of objects, and slots that hold a pixel."""
    true = frames.masks.cpu().long()
    found: dict[str, Any] = {}
    for name, metric in METRICS.items():
        each = np.asarray(metric(true, groups, ignore=0))
        found[name] = float(np.nanmean(each))
        found[f"{name} standard error"] = float(np.nanstd(each) / np.sqrt(np.isfinite(each).sum()))
        later = np.asarray(metric(true[:, 1:], groups[:, 1:], ignore=0))
        found[f"{name} without the first frame"] = float(np.nanmean(later))
        shown = (frames.total.amax(1) > 0).sum(1).cpu().numpy()
        found[f"{name} by objects"] = {str(n): float(np.nanmean(each[shown == n])) for n in np.unique(shown)}
    found["slots in use"] = float(np.mean([len(np.unique(video)) for video in groups.numpy()]))
    return found


def picture(rows: list[tuple[str, Tensor]], frames: Frames) -> Image.Image:
    """Frames, true masks, and the groups of every run, for a few videos side by side."""
    palette = np.random.default_rng(4).integers(60, 255, (64, 3)).astype(np.uint8)
    palette[0] = GROUND
    lines = [frames.images[:SHOWN, TIMES].permute(0, 1, 3, 4, 2).cpu().numpy()]
    lines.append(palette[frames.masks[:SHOWN, TIMES].cpu().long().numpy()])
    for _, groups in rows:
        own = groups[:SHOWN, TIMES].numpy().copy()
        for video in own:  # the slot with most pixels is drawn dark, as the ground is
            most = int(np.bincount(video.ravel()).argmax())
            video[...] = np.where(video == most, 0, np.where(video == 0, most, video))
        lines.append(palette[own])
    blocks = [np.concatenate([np.concatenate(list(video), 1) for video in line], 1) for line in lines]
    return Image.fromarray(np.concatenate(blocks, 0))


def main() -> None:
    """Train, score and store one run after the other."""
    asked = options()
    device = torch.device(asked.device)
    asked.folder.mkdir(parents=True, exist_ok=True)
    first = planned(asked, asked.models[0], asked.slots[0])
    started = time.perf_counter()
    source = first.source(device)
    assert isinstance(source, PreloadedSource)
    held_out = first.scene_set("validation")
    assert isinstance(held_out, Videos)
    frames = held_out.world.render(held_out.scenes(0, asked.tested), first.size, device)
    print(f"{len(source)} windows in {time.perf_counter() - started:.1f} s", flush=True)
    machine = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    report: dict[str, Any] = {"machine": machine, "torch": torch.__version__, "alebrije": __version__, "runs": []}
    if asked.seconds is not None:
        paces = [pace(planned(asked, name, slots), source, device) for name in asked.models for slots in asked.slots]
        asked.steps = max(20, int(asked.seconds / sum(paces)))
        print(f"{asked.steps} steps; seconds of a step: {paces}", flush=True)
    rows: list[tuple[str, Tensor]] = []
    for name in asked.models:
        for slots in asked.slots:
            made = planned(asked, name, slots)
            folder = asked.folder / "runs" / f"{name}-{slots}"
            clock = time.perf_counter()
            every = max(1, asked.steps // 20)
            settings = RunOptions(device=device, log_every=every, save_every=10**9)
            model = train(made.new_model(), source, made.recipe, folder, settings, seed=made.seed)
            seconds = time.perf_counter() - clock
            save_half(model, asked.folder / f"{name}-{slots}.safetensors")
            history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
            row = {"model": name, "slots": slots, "steps": asked.steps, "seconds": seconds, "plan": made.to_json()}
            row["scores"] = {}
            for count in asked.test_slots or [slots]:
                groups, sure = encoded(model, frames, count)
                rows.append((f"{name}, {slots} slots, {count} at test time", groups))
                row["scores"][count] = scores(frames, groups) | {"mean of the largest mask": float(sure.mean())}
            row["losses"] = [[entry["step"], entry["loss"]] for entry in history if "loss" in entry]
            report["runs"].append(row)
            print(json.dumps({key: value for key, value in row.items() if key != "plan"}), flush=True)
            (asked.folder / "slots-of-videos.json").write_text(json.dumps(report, indent=1) + "\n")
            picture(rows, frames).save(asked.folder / "slots-of-videos.png")


if __name__ == "__main__":
    main()
