"""The training loop: it can be killed at any moment, and the same call continues from the last checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import torch
from torch import nn

from alebrije.errors import InputError
from alebrije.train.checkpoint import checkpoints, load_checkpoint, save_checkpoint, step_of
from alebrije.train.history import History
from alebrije.train.labelled_pass import LabelledPass, LabelledSet
from alebrije.train.logs import Log
from alebrije.train.options import RunOptions
from alebrije.train.process_group import ProcessGroup
from alebrije.train.recipe import Recipe
from alebrije.train.sources import Source
from alebrije.train.stopping import GracefulStop, StopNow
from alebrije.train.train_step import TrainStep

SHOWN_EVERY = 1.0  # seconds between two calls of `step_progress` if no losses are logged

TrainingCheck = Callable[[nn.Module], dict[str, float]]


def train(
    model: nn.Module,
    source: Source,
    recipe: Recipe,
    folder: Path,
    options: RunOptions | None = None,
    *,
    seed: int = 0,
    check: TrainingCheck | None = None,
    labelled: LabelledSet | None = None,
    log: Log | None = None,
) -> nn.Module:
    """Train a model in place, from the last checkpoint in `folder` if there is one.

    `history.jsonl` gets a line with the mean losses every `log_every` steps, and one with the scores of `check` every
    `check_every` steps; `log` gets the same numbers. `labelled` images are learned in passes of their own. `seed` is
    for dropout, noise and the like; the data have their own. After Ctrl-C or SIGTERM a checkpoint is saved first;
    several processes save it when they next log. A signal during the first step, a training check, or while images are
    rendered does not wait for their end.
    """
    options = options or RunOptions()
    group = ProcessGroup.join(torch.device(options.device))
    group.check_batch(model, recipe.batch, recipe.accumulate)
    share = recipe.batch // group.size
    last = recipe.steps if options.until is None else min(options.until, recipe.steps)
    layout = torch.channels_last if group.device.type == "cuda" else torch.preserve_format
    model.to(group.device, memory_format=layout).train()  # type: ignore[call-overload]
    optimizer = recipe.make_optimizer(model)  # after the layout is set, because it copies the layout
    if labelled is not None:
        rate = float(optimizer.param_groups[0]["peak"])
        optimizer.labelled = LabelledPass(model, labelled, rate, recipe.precision, options.fast)
    folder.mkdir(parents=True, exist_ok=True)
    graceful = GracefulStop(ignore_repeats=group.size > 1)
    with closing(source), group.own_random_numbers(seed), group.own_stream(), graceful as stop:
        step, saved = 0, checkpoints(folder)
        if saved:
            step, states = load_checkpoint(saved[-1], model, optimizer)
            if len(states) != group.size:
                raise InputError(f"{folder} needs {len(states)} processes to continue, not {group.size}")
            group.set_random_state(states, seed + step)
        group.broadcast_weights(model)
        train_step = TrainStep(model, optimizer, recipe, group, options.fast, step)
        history = History(folder / "history.jsonl", step, enabled=group.rank == 0, log=log)
        clock, logged = time.perf_counter(), step
        pace, first = _Pace(options, recipe, group), step
        while step < last:
            try:
                with stop.at_once(group.size == 1):
                    batch = source.batch(step * recipe.batch + group.rank * share, share)
                    if step == first:  # it may be compiled, which takes long, and there is nothing to save yet
                        train_step.run(batch)
            except StopNow:
                if step > (step_of(saved[-1]) if saved else 0):
                    train_step.check_finite(saved[-1] if saved else None)
                    save_checkpoint(folder, step, model, optimizer, group.random_states(), options.keep_every)
                stop.stop_if_requested(force=True)
            if step > first:
                train_step.run(batch)
            step += 1
            intervals = (options.log_every, options.check_every, options.save_every)
            log_due, check_due, save_due = (step % every == 0 or step == last for every in intervals)
            newest = saved[-1] if saved else None
            if log_due or save_due:
                losses = train_step.mean_losses(newest)
                seconds, clock = time.perf_counter() - clock, time.perf_counter()
                speed, logged = (step - logged) * recipe.batch / seconds, step
                history.add(step, losses | {"lr": train_step.lr, "images per second": speed, "seconds": seconds})
                if options.step_progress is not None and group.rank == 0:
                    options.step_progress(step, recipe.steps, speed, losses)
            pace.show(step, train_step, shown=log_due or save_due)
            paused = time.perf_counter()  # checks and checkpoints do not count as training time
            if check_due and check is not None:
                train_step.check_finite(newest)
                with suppress(StopNow), stop.at_once(group.size == 1):  # it is saved below, and not checked
                    history.add(step, _scores(model, check, group))
                model.train()
                optimizer.reattach()
            stop_now = group.should_stop(stop.requested, log_due or save_due)
            if save_due or stop_now:
                train_step.check_finite(newest)
                states = group.random_states()
                if group.rank == 0:
                    save_checkpoint(folder, step, model, optimizer, states, options.keep_every)
                group.barrier()
                saved = checkpoints(folder)
            pause = time.perf_counter() - paused
            clock, pace.clock = clock + pause, pace.clock + pause
            if stop_now:
                group.leave()
                stop.stop_if_requested(force=True)
        group.leave()
    optimizer.release()
    return model.eval()


class _Pace:
    """Shows the first steps, and each second those between two logs, with the speed since the first of them.

    The first step of a process is left out of the speed if there are others: it may be compiled.
    """

    def __init__(self, options: RunOptions, recipe: Recipe, group: ProcessGroup) -> None:
        self.progress = options.step_progress if group.rank == 0 else None
        self.recipe, self.clock, self.shown = recipe, time.perf_counter(), time.perf_counter()
        self.began: int | None = None  # the step after which the clock began

    def show(self, step: int, train_step: TrainStep, shown: bool) -> None:
        """Show a step, unless it was shown already or another was within the last second."""
        now = time.perf_counter()
        due = self.progress is not None and not shown and now - self.shown >= SHOWN_EVERY
        if due or shown:
            self.shown = now
        if due and self.progress is not None:
            losses = train_step.recent_losses()  # waits for a GPU
            now = time.perf_counter()
            steps = 1 if self.began is None else step - self.began
            self.progress(step, self.recipe.steps, steps * self.recipe.batch / max(now - self.clock, 1e-9), losses)
        if self.began is None or shown:
            self.began, self.clock = step, now


def _scores(model: nn.Module, check: TrainingCheck, group: ProcessGroup) -> dict[str, float]:
    """Run a training check without any effect on the training."""
    model.eval()
    with torch.no_grad(), group.own_random_numbers(0):
        scores = check(model)
    model.train()
    return scores
