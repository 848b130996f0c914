"""Pictures of what a model of the zoo does: slots and their masks, what neurons change, or predicted images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from alebrije import worlds
from alebrije.seeding import seeded
from alebrije.train.plan import Plan
from alebrije.train.scene_sets import TaskEpisodes
from alebrije.train.sources import to_float
from alebrije.zoo.cards import card
from alebrije.zoo.entries import load

SEED = 20_000  # of scenes that no training has seen; dsprites and rooms have no others
_NEURONS, _FOR_VARIANCE = 6, 500
_LEAST = 0.1  # of the largest variance; neurons that vary less are unused
_COLOURS = torch.tensor(
    [[40, 40, 40], [230, 80, 70], [70, 160, 230], [90, 200, 110], [240, 190, 60], [170, 110, 220], [60, 200, 200]]
    + [[250, 140, 40], [230, 120, 180], [160, 160, 160], [120, 90, 60]] * 4
)

Rows = list[tuple[str, Tensor]]  # a title and images [N, 3, S, S] in 0..1


def pictures(name: str, count: int = 8) -> Rows:
    """Rows of `count` images that show what a model of the zoo does; none if it has no pictures.

    Autoencoders also show what the neurons that vary most change in the first image.
    """
    plan, model = card(name).read_plan(), load(name)
    with torch.no_grad():
        if plan.predicts:
            return _predicted(model, plan, count)
        if plan.record.has_slots and worlds.get(plan.world).shows == "images":
            return _grouped(model, plan, count)
        return _reconstructed(model, plan, count) if plan.record.reconstructs else []


def _grouped(model: Any, plan: Plan, count: int) -> Rows:
    world = worlds.get(plan.world)
    frames = world.render(world.sample(count, SEED), plan.size)
    with seeded(0):
        encoding = model(to_float(frames.images))
    slots = encoding.masks.argmax(1) + 1
    shown = [("image", to_float(frames.images)), ("its reconstruction", encoding.reconstruction)]
    shown += [("true objects", _painted(frames.masks)), ("its slots", _painted(slots))]
    return [*shown, ("its slots, on the objects alone", _painted(slots * (frames.masks > 0)))]


def _reconstructed(model: Any, plan: Plan, count: int) -> Rows:
    world = worlds.get(plan.world)
    images = to_float(world.render(world.sample(_FOR_VARIANCE, SEED), plan.size).images)
    codes = torch.cat([model(part).vector for part in images.chunk(5)])
    rows = [("image", images[:count]), ("its reconstruction", _coloured(model(images[:count]).reconstruction))]
    varying = codes.var(0).topk(min(_NEURONS, codes.shape[1]))
    for neuron in varying.indices[varying.values > _LEAST * varying.values[0]].tolist():
        steps = codes[:1].repeat(count, 1)
        steps[:, neuron] = torch.linspace(-2, 2, count)
        rows.append((f"neuron {neuron + 1} from -2 to 2", _coloured(model.decode(steps))))
    return rows


def _predicted(model: Any, plan: Plan, count: int) -> Rows:
    rows = []
    for part, kind in (("validation", "known"), ("test", "new")):
        scene_set = plan.scene_set(part)  # type: ignore[arg-type]
        assert isinstance(scene_set, TaskEpisodes)
        rendered = scene_set.render(scene_set.scenes(0, count), torch.device("cpu"))
        batch = {key: to_float(value) for key, value in rendered.items()}
        rows += [(f"{kind} combination: the given scene", batch["source"]), ("the true next scene", batch["target"])]
        rows.append(("what it predicts", model.predict(batch)))
    return rows


def _coloured(images: Tensor) -> Tensor:
    return images.expand(-1, 3, -1, -1)


def _painted(labels: Tensor) -> Tensor:
    """Labels [B, H, W] as images in 0..1."""
    return _COLOURS[labels.long()].permute(0, 3, 1, 2) / 255
