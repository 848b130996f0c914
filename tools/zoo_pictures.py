"""Draw a picture of what each model of the zoo does, for its page in the documentation.

    python tools/zoo_pictures.py [NAME ...]

Run it in the root of the repository. It writes docs/zoo/NAME.jpg: slots and their masks, reconstructions and what each
neuron changes, or predicted images.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from alebrije import worlds, zoo
from alebrije.scenes import Episodes
from alebrije.train.plan import Plan
from alebrije.train.scene_sets import TaskEpisodes
from alebrije.train.sources import to_float

OUT = Path("docs/zoo")
COLUMNS, SIDE = 8, 64
SEED = 20_000  # of scenes that no training has seen; dsprites and rooms have no others
COLOURS = torch.tensor(
    [[40, 40, 40], [230, 80, 70], [70, 160, 230], [90, 200, 110], [240, 190, 60], [170, 110, 220], [60, 200, 200]]
    + [[250, 140, 40], [230, 120, 180], [160, 160, 160], [120, 90, 60]] * 4
)


def main() -> None:
    """Draw the pictures of the named models, or of all."""
    OUT.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or zoo.names():
        plan = zoo.card(name).read_plan()
        draw: Callable[[Any, Plan], Tensor] = reconstructed
        if plan.predicts:
            draw = predicted
        elif plan.record.has_slots:
            draw = grouped
        elif not plan.record.reconstructs:
            print(f"{name}: nothing to draw")
            continue
        with torch.no_grad():
            rows = draw(zoo.load(name), plan)
        save(rows, OUT / f"{name}.jpg")
        print(f"{OUT / f'{name}.jpg'}: {(OUT / f'{name}.jpg').stat().st_size / 1e3:.0f} kB")


def grouped(model: Any, plan: Plan) -> Tensor:
    """Images, reconstructions, true masks, and the slot with the largest mask at each pixel."""
    world = worlds.get(plan.world)
    frames = world.render(world.sample(COLUMNS, SEED), plan.size)
    torch.manual_seed(0)
    encoding = model(to_float(frames.images))
    rows = [to_float(frames.images), encoding.reconstruction, painted(frames.masks), painted(encoding.masks.argmax(1))]
    return torch.stack(rows)


def reconstructed(model: Any, plan: Plan) -> Tensor:
    """Images, reconstructions, and what the six neurons with the largest variance change in the first image."""
    world = worlds.get(plan.world)
    images = to_float(world.render(world.sample(500, SEED), plan.size).images)
    codes = torch.cat([model(part).vector for part in images.split(100)])
    rows = [images[:COLUMNS], model(images[:COLUMNS]).reconstruction.expand(-1, 3, -1, -1)]
    for neuron in codes.var(0).topk(min(6, codes.shape[1])).indices.tolist():
        steps = codes[:1].repeat(COLUMNS, 1)
        steps[:, neuron] = torch.linspace(-2, 2, COLUMNS)
        rows.append(model.decode(steps).expand(-1, 3, -1, -1))
    return torch.stack(rows)


def predicted(model: Any, plan: Plan) -> Tensor:
    """Sources, targets and predictions: three rows for known combinations, then three for new ones."""
    rows = []
    for part in ("validation", "test"):
        scene_set = plan.scene_set(part)  # type: ignore[arg-type]
        assert isinstance(scene_set, TaskEpisodes)
        episodes: Episodes = scene_set.scenes(0, COLUMNS)
        batch = {name: to_float(value) for name, value in scene_set.render(episodes, torch.device("cpu")).items()}
        rows += [batch["source"], batch["target"], model.predict(batch)]
    return torch.stack(rows)


def painted(labels: Tensor) -> Tensor:
    """Labels [B, H, W] as images in 0..1."""
    return COLOURS[labels.long()].permute(0, 3, 1, 2) / 255


def save(rows: Tensor, path: Path) -> None:
    """Rows of images [R, N, 3, H, W] in 0..1 as one picture."""
    count = rows.shape[:2]
    small = F.interpolate(rows.flatten(0, 1).float().clamp(0, 1), (SIDE, SIDE), mode="area").view(*count, 3, SIDE, SIDE)
    picture = F.pad(small, (1, 1, 1, 1), value=1.0).permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)
    Image.fromarray((picture.numpy() * 255).round().astype(np.uint8)).save(path, quality=85)


if __name__ == "__main__":
    main()
