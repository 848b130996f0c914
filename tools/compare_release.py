"""Render the released SVIB episodes and compare: masks by IoU, images by PSNR, side by side on one sheet.

    python tools/compare_release.py SAMPLES OUT [CLEVR|CLEVRTex]

SAMPLES is a folder of released samples (SAMPLES/CLEVR/Single_Atomic/Test/00000000/source.png, ...). Print mean and
spread per shape and material and write OUT/clevr.png: rows of released, ours, and four times the difference.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from alebrije import data
from alebrije.render.solid import render_solid
from alebrije.scenes import Scenes

Part = tuple[Scenes, Tensor, Tensor]


def released(folder: Path) -> list[Part]:
    """Scenes, images and masks of all sources and targets below a folder."""
    parts: list[Part] = []
    for episode_folder in sorted({path.parent.parent for path in folder.rglob("source.json")}):
        episodes = data.read_svib(episode_folder)
        assert episodes.source_images is not None
        assert episodes.source_masks is not None
        assert episodes.target_images is not None
        assert episodes.target_masks is not None
        parts.append((episodes.source, episodes.source_images, episodes.source_masks))
        parts.append((episodes.target, episodes.target_images, episodes.target_masks))
    return parts


def decibels(error: Tensor) -> Tensor:
    """PSNR of mean squared errors in grey levels."""
    return 10 * torch.log10(255**2 / error.clamp_min(1e-9))


def print_table(title: str, values: dict[str, list[float]]) -> None:
    """Print the mean and spread of each group."""
    print(f"\n{title}")
    for name, scores in sorted(values.items()):
        low, middle, high = np.percentile(scores, [5, 50, 95])
        spread = f"5% {low:7.3f}  median {middle:7.3f}  95% {high:7.3f}"
        print(f"  {name:24s} n={len(scores):4d}  mean {np.mean(scores):7.3f}  {spread}")


def compare(parts: list[Part]) -> tuple[list[Tensor], list[Tensor]]:
    """Print the tables; return the released and the rendered images."""
    overlap: dict[str, list[float]] = defaultdict(list)
    local: dict[str, list[float]] = defaultdict(list)
    whole: dict[str, list[float]] = defaultdict(list)
    released_images, our_images = [], []
    for scenes, images, masks in parts:
        frames = render_solid(scenes, images.shape[-1])
        square = (frames.images.double() - images.double()).square().mean(1)
        whole["all images"] += decibels(square.mean((1, 2))).tolist()
        released_images.append(images)
        our_images.append(frames.images)
        for item in range(scenes.objects):
            our_mask, released_mask = frames.masks == item + 1, masks == item + 1
            either = our_mask | released_mask
            share = (our_mask & released_mask).sum((1, 2)) / either.sum((1, 2))
            inside = decibels((square * either).sum((1, 2)) / either.sum((1, 2)))
            for row in range(len(scenes)):
                shape = scenes.vocabulary["shape"].values[int(scenes.factor("shape")[row, item])]
                material = scenes.vocabulary["material"].values[int(scenes.factor("material")[row, item])]
                for name in (shape, f"all {scenes.vocabulary.name}"):
                    overlap[name].append(float(share[row]))
                for name in (f"{shape}, {material}", f"all {material}"):
                    local[name].append(float(inside[row]))
    print_table("IoU of masks per object", overlap)
    print_table("PSNR in dB within the object", local)
    print_table("PSNR in dB of the image", whole)
    return released_images, our_images


def sheet(released_images: Tensor, our_images: Tensor, columns: int = 8, rows: int = 4) -> Image.Image:
    """Evenly spaced images: released, ours and four times the difference."""
    picks = torch.linspace(0, len(released_images) - 1, columns * rows).long()
    bands = []
    for row in picks.reshape(rows, columns):
        pair = [
            released_images[row],
            our_images[row],
            (4 * (released_images[row].int() - our_images[row].int()).abs()).clamp_max(255).to(torch.uint8),
        ]
        bands += [torch.cat(list(images), -1) for images in pair]
        bands.append(torch.full((3, 8, bands[-1].shape[-1]), 255, dtype=torch.uint8))
    return Image.fromarray(torch.cat(bands[:-1], 1).permute(1, 2, 0).numpy())


def main() -> None:
    """Compare one world."""
    if len(sys.argv) < 3:
        sys.exit("usage: compare_release.py SAMPLES OUT [CLEVR|CLEVRTex]")
    samples, out = Path(sys.argv[1]), Path(sys.argv[2])
    world = sys.argv[3] if len(sys.argv) > 3 else "CLEVR"
    released_images, our_images = compare(released(samples / world))
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{world.lower()}.png"
    sheet(torch.cat(released_images), torch.cat(our_images)).save(path)
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
