"""Training runs: a plan is carried out, and what the model has learned is looked at as it learns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from alebrije.atomic import write_atomically
from alebrije.errors import InputError
from alebrije.metrics import (
    adjusted_rand_index,
    adjusted_rand_precision,
    adjusted_rand_recall,
    generalisation_gap,
    labels_from_masks,
)
from alebrije.models import Batch
from alebrije.studies.own_worlds import own_world
from alebrije.train import checkpoints, load_weights, train
from alebrije.train.checkpoints import step_of
from alebrije.train.crew import Crew
from alebrije.train.loop import Check, Progress
from alebrije.train.plan import Plan
from alebrije.train.sources import Images, TaskEpisodes, TaskSources, seen

LOOKED_AT = 64  # images at a time


def carry_out(
    plan: Plan,
    folder: Path,
    *,
    device: str | torch.device = "cpu",
    workers: int = 1,
    looks: int = 300,
    check_every: int = 1000,
    save_every: int = 1000,
    log_every: int = 50,
    drawn: Callable[[int, int], object] | None = None,
    progress: Progress | None = None,
    until: int | None = None,
    keep_every: int = 0,
    fast: bool = True,
) -> nn.Module:
    """Train the model of a plan in a folder, from where it was left, and return it.

    `looks` is how many images or episodes each check takes; `drawn` hears how many images of a held set are made.
    Checkpoints at multiples of `keep_every` steps stay beside the last two. Without `fast` a GPU runs the plain step.
    """
    if looks < 1:
        raise InputError(f"looks must be at least 1, not {looks}")
    settle(plan, folder)
    crew = Crew.of(torch.device(device))
    place = crew.device  # this process's own, where torchrun started several
    model, newest = plan.new_model(), checkpoints(folder)
    if newest and step_of(newest[-1]) == plan.recipe.steps:  # nothing is drawn for a run that has ended
        load_weights(newest[-1], model)
        crew.leave()
        return model.to(place).eval()
    check = check_of(plan, looks, place)
    return train(
        model,
        plan.source(place, workers, drawn),
        plan.recipe,
        folder,
        seed=plan.seed,
        device=place,
        check=check,
        check_every=check_every,
        save_every=save_every,
        log_every=log_every,
        progress=progress,
        until=until,
        keep_every=keep_every,
        fast=fast,
    )


def settle(plan: Plan, folder: Path) -> None:
    """As `Plan.settle`; a run on a world of the user's own is refused if that has been edited since it began."""
    plan.settle(folder)
    if world := own_world(plan.world):
        path, told = folder / "world.json", json.dumps(world) + "\n"
        if path.is_file() and path.read_text() != told and checkpoints(folder):
            raise InputError(f"{folder} holds a run on {plan.world} as it was before an edit; choose another folder")
        write_atomically(path, told)


def check_of(plan: Plan, count: int, device: torch.device) -> Check | None:
    """What is measured while a plan's model trains: errors of prediction, or of reconstruction and grouping."""
    if plan.predicts:
        sets = {name: _episodes(plan, name, count, device) for name in ("validation", "test")}
        return lambda model: _imagination(model, sets)
    if plan.model == "moco":
        return None
    drawing = plan.drawing("validation")
    assert isinstance(drawing, (Images, TaskSources))
    frames = drawing.world.render(drawing.scenes(0, count), plan.size, device)
    masks = frames.masks if plan.record.place.startswith("slot_attention") else None
    return lambda model: _seen_again(model, frames.images, masks)


def _episodes(plan: Plan, part: str, count: int, device: torch.device) -> Batch:
    drawing = plan.drawing(part)  # type: ignore[arg-type]
    assert isinstance(drawing, TaskEpisodes)
    return drawing.draw(drawing.scenes(0, count), device)


def _imagination(model: nn.Module, sets: dict[str, Batch]) -> dict[str, float]:
    """Squared errors of predicted images, summed over each image as SVIB's Table 11 has them."""
    found = {name: float(prediction_errors(model, batch).mean()) for name, batch in sets.items()}
    inside, outside = found["validation"], found["test"]
    gap = generalisation_gap(inside, outside).score
    return {"in-distribution error": inside, "out-of-distribution error": outside, "gap": gap}


def prediction_errors(model: nn.Module, batch: Batch) -> Tensor:
    """The squared error of each predicted target, summed over pixels and channels. [B]"""
    errors = []
    for first in range(0, len(batch["target"]), LOOKED_AT):
        part = {name: seen(tensor[first : first + LOOKED_AT]) for name, tensor in batch.items()}
        predicted = model.predict(part)  # type: ignore[operator]
        errors.append((predicted.float() - part["target"]).square().flatten(1).sum(1))
    return torch.cat(errors)


def _seen_again(model: nn.Module, images: Tensor, masks: Tensor | None) -> dict[str, float]:
    """The squared error of reconstructions, a mean over all pixels; with masks how well objects are told apart."""
    errors, scores = [], []
    for first in range(0, len(images), LOOKED_AT):
        part = seen(images[first : first + LOOKED_AT])
        encoding = model(part)
        assert encoding.reconstruction is not None
        errors.append((encoding.reconstruction.float() - part).square().mean((1, 2, 3)))
        if masks is not None and encoding.masks is not None:
            scores.append(grouping_scores(masks[first : first + LOOKED_AT], encoding.masks))
    found = {"reconstruction error": float(torch.cat(errors).mean())}
    return found | {
        name: float(torch.cat([one[name] for one in scores]).mean()) for name in (scores[0] if scores else {})
    }


def grouping_scores(true: Tensor, masks: Tensor) -> dict[str, Tensor]:
    """ARI, ARP and ARR over the objects' pixels, and ARI over all. [B] each"""
    found = labels_from_masks(masks).cpu()
    true = true.cpu()
    return {
        "FG-ARI": adjusted_rand_index(true, found, ignore=0),
        "FG-ARP": adjusted_rand_precision(true, found, ignore=0),
        "FG-ARR": adjusted_rand_recall(true, found, ignore=0),
        "ARI": adjusted_rand_index(true, found),
    }
