"""Checkpoints: the state of a run after a step, written completely or not at all, without pickles.

A run folder holds `checkpoints/step-000001000/` with `weights.safetensors` (the model), `progress.safetensors` (the
optimizer and random states) and `step.json` (their checksums). The last two checkpoints are kept, and those at
multiples of `keep_every`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from alebrije.atomic import drop_leftovers, explain_write_errors, new_folder, remove_folder
from alebrije.data.checked_arrays import FileRecord, check_file, file_record
from alebrije.errors import InputError
from alebrije.files import WEIGHTS, check_regular, read_json
from alebrije.train.flat_optimizer import FlatOptimizer

_WEIGHTS, _PROGRESS, _STEP = "weights.safetensors", "progress.safetensors", "step.json"
_PLAN = "../../run.json"  # of the run
_ADVICE = "remove its folder to continue from the previous checkpoint"


def checkpoints(folder: Path) -> list[Path]:
    """Return all complete checkpoints of a run, oldest first."""
    paths = (folder / "checkpoints").glob("step-[0-9]*")
    return sorted(path for path in paths if path.name[5:].isdecimal() and (path / "step.json").is_file())


def step_of(checkpoint: Path) -> int:
    """Return the step of a checkpoint, read from its name."""
    return int(checkpoint.name.removeprefix("step-"))


def save_checkpoint(
    folder: Path, step: int, model: nn.Module, optimizer: FlatOptimizer, random_states: Tensor, keep_every: int = 0
) -> Path:
    """Save a run after `step` steps; drop all checkpoints but the last two and those at multiples of `keep_every`."""
    path = folder / "checkpoints" / f"step-{step:09d}"
    with explain_write_errors(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path not in checkpoints(folder):
            shutil.rmtree(path, ignore_errors=True)  # the rest of a damaged checkpoint
        with new_folder(path) as part:
            save_file(_portable(model.state_dict()), part / _WEIGHTS)
            progress = _optimizer_state(model, optimizer) | {"random": random_states}
            save_file(_portable(progress), part / _PROGRESS)
            files = {_WEIGHTS: part / _WEIGHTS, _PROGRESS: part / _PROGRESS, _PLAN: folder / "run.json"}
            records = {name: file_record(file).model_dump() for name, file in files.items() if file.is_file()}
            (part / _STEP).write_text(json.dumps({"step": step, "files": records}) + "\n")
    for old in checkpoints(folder)[:-2]:
        if not keep_every or step_of(old) % keep_every:
            remove_folder(old)
    drop_leftovers(path.parent)
    return path


def load_weights(path: Path, model: nn.Module) -> None:
    """Load the weights of a checkpoint into a model, if neither they nor the plan of the run have changed."""
    weights = _read(path, _WEIGHTS)
    if (path / _PLAN).exists() and (plan := _records(path).get(_PLAN)) is not None:
        check_file((path / _PLAN).resolve(), plan)
    try:
        missing, unexpected = model.load_state_dict(weights, strict=False)
    except RuntimeError:
        raise InputError(f"the weights in {path} have other shapes than this model's") from None
    if missing or unexpected:
        name, fault = (missing[0], "is missing") if missing else (unexpected[0], "is not in this model")
        raise InputError(f"{path} holds the weights of another model: {name} {fault}")


def load_checkpoint(path: Path, model: nn.Module, optimizer: FlatOptimizer) -> tuple[int, Tensor]:
    """Load a checkpoint into model and optimizer; return the step and the random states."""
    load_weights(path, model)
    stored = _read(path, _PROGRESS)
    states: dict[nn.Parameter, dict[str, Tensor]] = {}
    for name, weight in model.named_parameters():
        if state := {key.split("/")[0]: stored[key] for key in stored if key.partition("/")[2] == name}:
            states[weight] = state
    optimizer.load_states(states)
    for name, companion in optimizer.companions.items():
        state = {key.removeprefix(f"{name}/"): tensor for key, tensor in stored.items() if key.startswith(f"{name}/")}
        if not companion.fits(state):
            raise InputError(f"{path} has no state of the {companion.title}; {_ADVICE}")
        companion.load(state)
    try:
        return int(_step_file(path)["step"]), stored["random"]
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from None


def _step_file(path: Path) -> dict[str, Any]:
    try:
        return dict(read_json(path / _STEP))
    except (OSError, ValueError, TypeError) as error:
        raise _damaged(path, error) from None


def _records(path: Path) -> dict[str, FileRecord]:
    """Sizes and checksums of the files of a checkpoint, by name; older checkpoints have none."""
    try:
        return {name: FileRecord(**record) for name, record in _step_file(path).get("files", {}).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> InputError:
    if isinstance(error, InputError):
        return error
    return InputError(f"{path} is damaged ({type(error).__name__}); {_ADVICE}")


def _optimizer_state(model: nn.Module, optimizer: FlatOptimizer) -> dict[str, Tensor]:
    names = {weight: name for name, weight in model.named_parameters()}
    companions = optimizer.companions.items()
    return {f"{name}/{key}": value for name, part in companions for key, value in part.state().items()} | {
        f"{key}/{names[weight]}": value for weight, state in optimizer.states().items() for key, value in state.items()
    }


def _portable(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def _read(checkpoint: Path, name: str) -> dict[str, Tensor]:
    path, record = checkpoint / name, _records(checkpoint).get(name)
    try:
        check_regular(path, WEIGHTS)
        if record is not None:
            check_file(path, record)
        return load_file(path)
    except (SafetensorError, OSError, InputError) as error:
        fault = str(error).removeprefix(f"{path}: ")
        raise InputError(f"{path} cannot be read: {fault}; {_ADVICE}") from None
