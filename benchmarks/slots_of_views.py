"""Slot Attention on single views and for novel views, and OSRT, by number of slots: a reduced Figure 6 of ARP and ARR.

    python benchmarks/slots_of_views.py FOLDER [--device cuda] [--steps N] [--slots 3 5 11 24] [--set name=value ...]

The paper trains for 300,000 to 500,000 steps of 64 scenes; the record says how many steps each run had here. Every
model is scored with the number of slots that it was trained with, on scenes of `furniture` that training does not show.
Models of several views are scored over all views together and over each view alone, Slot Attention only the latter way,
because its slots of two views have nothing to do with each other. FOLDER gets slots-of-views.json, a picture of
segmentations, the weights in half precision, and the runs.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from alebrije import __version__, worlds
from alebrije.metrics import (
    adjusted_rand_index,
    adjusted_rand_precision,
    adjusted_rand_recall,
    labels_from_masks,
    mean_iou,
)
from alebrije.render.frames import Frames
from alebrije.train import RunOptions, train
from alebrije.train.plan import Plan, plan
from alebrije.train.sources import to_float

METRICS = {"fg-ari": adjusted_rand_index, "fg-arp": adjusted_rand_precision, "fg-arr": adjusted_rand_recall}
AT_ONCE = 16  # scenes
SHOWN = 4  # scenes in the picture
TEST_SEED = 7_000


def options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--models", nargs="+", default=["slot-attention", "slot-attention-nvs", "osrt"])
    parser.add_argument("--slots", nargs="+", type=int, default=[3, 5, 11, 24])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--images", type=int, default=4000, help="training scenes")
    parser.add_argument("--tested", type=int, default=64, help="scenes that are scored")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--set", nargs="*", default=[], help="changes to the preset, as name=value")
    return parser.parse_args()


def planned(asked: argparse.Namespace, model: str, slots: int) -> Plan:
    """The plan of one run; settings that a model does not have are left out."""
    settings: dict[str, Any] = {"slots": slots, "steps": asked.steps, "warmup": min(500, asked.steps // 10)}
    changes = dict(change.split("=", 1) for change in asked.set)
    made = plan(model, preset_name=asked.preset, world="furniture", settings=settings, images=1, dry_run=False)
    known = {*made.settings, *vars(made.recipe), "size"}
    settings |= {name: value for name, value in changes.items() if name in known}
    images = asked.images * (3 if made.record.takes == "images" else 1)
    return plan(model, preset_name=asked.preset, world="furniture", settings=settings, images=images, dry_run=False)


def grouped(model: nn.Module, frames: Frames, cameras: Tensor, takes: str) -> tuple[Tensor, float]:
    """The group of each pixel [B, V, H, W], and the mean squared error of the views that were no input."""
    groups, errors = [], []
    for first in range(0, len(frames), AT_ONCE):
        rows = slice(first, first + AT_ONCE)
        images = to_float(frames.images[rows])
        with torch.no_grad():
            torch.manual_seed(first)
            encoding = model(images, cameras[rows]) if takes == "views" else model(images.flatten(0, 1))
        masks = encoding.masks.reshape(*images.shape[:2], *encoding.masks.shape[-3:])
        groups.append(labels_from_masks(masks.flatten(0, 1)).cpu().reshape(frames.masks[rows].shape))
        error = (encoding.reconstruction.reshape(images.shape) - images).square().mean((2, 3, 4))
        errors.append(error[:, getattr(model, "inputs", 0) :].mean().cpu())
    return torch.cat(groups), float(torch.stack(errors).mean())


def scores(frames: Frames, groups: Tensor, together: bool) -> dict[str, float]:
    """Means over scenes of the scores of all views together or, with `together` false, of each view."""
    true, found = frames.masks.cpu().long(), {}
    pair = [each.flatten(1, 2) if together else each.flatten(0, 1) for each in (true, groups)]
    for name, metric in METRICS.items():
        each = np.asarray(metric(*pair, ignore=0))
        found[name] = float(np.nanmean(each))
        found[f"{name} standard error"] = float(np.nanstd(each) / np.sqrt(np.isfinite(each).sum()))
    found["miou"] = float(np.nanmean(np.asarray(mean_iou(*pair, ignore=0))))
    found["slots in use"] = float(np.mean([len(np.unique(scene)) for scene in pair[1].numpy()]))
    return found


def picture(rows: list[Tensor], frames: Frames) -> Image.Image:
    """Views, true masks, and the groups of every run, for a few scenes side by side."""
    palette = np.random.default_rng(4).integers(60, 255, (64, 3)).astype(np.uint8)
    palette[0] = 30
    lines = [frames.images[:SHOWN].permute(0, 1, 3, 4, 2).cpu().numpy(), palette[frames.masks[:SHOWN].cpu().numpy()]]
    for groups in rows:
        own = groups[:SHOWN].numpy().copy()
        for scene in own:  # the slot with most pixels is drawn dark, as the ground is
            most = int(np.bincount(scene.ravel()).argmax())
            scene[...] = np.where(scene == most, 0, np.where(scene == 0, most, scene))
        lines.append(palette[own])
    blocks = [np.concatenate([np.concatenate(list(scene), 1) for scene in line], 1) for line in lines]
    high, wide = max(block.shape[:2] for block in blocks)  # models may have different sizes of images
    same = [np.asarray(Image.fromarray(block).resize((wide, high), Image.Resampling.NEAREST)) for block in blocks]
    return Image.fromarray(np.concatenate(same, 0))


def main() -> None:
    """Train, score and store one run after the other."""
    asked = options()
    device = torch.device(asked.device)
    asked.folder.mkdir(parents=True, exist_ok=True)
    world = worlds.get("furniture")
    scenes = world.sample(asked.tested, seed=TEST_SEED)
    assert scenes.cameras is not None
    cameras = scenes.cameras.float().to(device)
    machine = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    report: dict[str, Any] = {"machine": machine, "torch": torch.__version__, "alebrije": __version__, "runs": []}
    sources: dict[tuple[str, int], Any] = {}
    rows: list[Tensor] = []
    for name in asked.models:
        for slots in asked.slots:
            made = planned(asked, name, slots)
            takes = made.record.takes
            frames = world.render(scenes, made.size, device)
            if (takes, made.size) not in sources:
                sources[takes, made.size] = made.source(device)
            clock = time.perf_counter()
            settings = RunOptions(device=device, log_every=max(1, asked.steps // 20), save_every=10**9)
            folder = asked.folder / "runs" / f"{name}-{slots}"
            model = train(made.new_model(), sources[takes, made.size], made.recipe, folder, settings, seed=made.seed)
            seconds = time.perf_counter() - clock
            weights = {key: weight.detach().half().cpu().contiguous() for key, weight in model.state_dict().items()}
            save_file(weights, asked.folder / f"{name}-{slots}.safetensors")
            groups, error = grouped(model.eval(), frames, cameras, takes)
            rows.append(groups)
            row: dict[str, Any] = {"model": name, "slots": slots, "steps": asked.steps, "seconds": seconds}
            row |= {"plan": made.to_json(), "error": error, "each view": scores(frames, groups, together=False)}
            if takes == "views":
                row["all views"] = scores(frames, groups, together=True)
            report["runs"].append(row)
            print(json.dumps({key: value for key, value in row.items() if key != "plan"}), flush=True)
            (asked.folder / "slots-of-views.json").write_text(json.dumps(report, indent=1) + "\n")
            picture(rows, frames).save(asked.folder / "slots-of-views.png")


if __name__ == "__main__":
    main()
