"""Runs: carry out a plan in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from alebrije.atomic import remove_folder
from alebrije.models.checks import check_memory
from alebrije.train.check import training_check
from alebrije.train.checkpoint import checkpoints, load_weights, step_of
from alebrije.train.logs import open_log
from alebrije.train.loop import train
from alebrije.train.options import RunOptions
from alebrije.train.plan import Plan
from alebrije.train.preloading import FOLDER
from alebrije.train.process_group import ProcessGroup
from alebrije.train.run_folder import claim_folder


def run_plan(plan: Plan, folder: Path, options: RunOptions | None = None) -> nn.Module:
    """Train the model of a plan in a folder, from its last checkpoint if there is one, and return it."""
    options = options or RunOptions()
    claim_folder(plan, folder)
    group = ProcessGroup.join(torch.device(options.device))
    model, saved = plan.new_model(), checkpoints(folder)
    if saved and step_of(saved[-1]) == plan.recipe.steps:  # complete, so no images need rendering
        load_weights(saved[-1], model)
        group.leave()
        return model.to(group.device).eval()
    needed: Any = getattr(model, "training_bytes", None)
    if needed is not None:
        items = plan.recipe.batch // (group.size * plan.recipe.accumulate)
        what = f"a step with {plan.settings['slots']} slots and a batch of {items}"
        check_memory(needed(items), what, group.device)
    log = None if options.log is None or group.rank else open_log(options.log, folder, plan.to_json())
    check = training_check(plan, options.check_size, group.device, options.preload_progress)
    source = plan.source(group.device, options.workers, options.preload_progress, folder)
    labelled = plan.labelled_set(source, group.device)
    options = replace(options, device=group.device)  # under torchrun each process has its own
    trained = train(
        model, source, plan.recipe, folder, options, seed=plan.seed, check=check, labelled=labelled, log=log
    )
    if group.rank == 0 and (folder / FOLDER).is_dir() and (options.until is None or options.until >= plan.recipe.steps):
        remove_folder(folder / FOLDER)
    return trained
