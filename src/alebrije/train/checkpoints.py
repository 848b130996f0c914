"""Checkpoints: a run at one step, whole or not at all, and nothing in them that could run.

A run's folder holds `checkpoints/step-000001000/` with `weights.safetensors` (the model), `progress.safetensors` (the
optimiser and the state of the random numbers) and `step.json`. The last two are kept, and those that a run asks for.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from alebrije.atomic import disk_trouble_named, drop_leftovers, new_folder, remove_folder
from alebrije.errors import InputError
from alebrije.train.rows import Rows


def checkpoints(folder: Path) -> list[Path]:
    """All whole checkpoints of a run, the oldest first."""
    named = (folder / "checkpoints").glob("step-[0-9]*")
    return sorted(path for path in named if path.name[5:].isdecimal() and (path / "step.json").is_file())


def step_of(checkpoint: Path) -> int:
    """The step at which a checkpoint was made, by its name."""
    return int(checkpoint.name.removeprefix("step-"))


def save(folder: Path, step: int, model: nn.Module, optimiser: Rows, random: Tensor, keep_every: int = 0) -> Path:
    """Store a run after `step` steps and drop all checkpoints but the last two and those at multiples of a step."""
    path = folder / "checkpoints" / f"step-{step:09d}"
    with disk_trouble_named(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path not in checkpoints(folder):
            shutil.rmtree(path, ignore_errors=True)  # what is left of a damaged one
        with new_folder(path) as part:
            save_file(_portable(model.state_dict()), part / "weights.safetensors")
            save_file(_portable(_optimiser_state(model, optimiser) | {"random": random}), part / "progress.safetensors")
            (part / "step.json").write_text(json.dumps({"step": step}) + "\n")
    for old in [each for each in checkpoints(folder)[:-2] if not keep_every or step_of(each) % keep_every]:
        remove_folder(old)
    drop_leftovers(path.parent)
    return path


def load_weights(path: Path, model: nn.Module) -> None:
    """Fill a model with the weights of a checkpoint."""
    weights = _read(path / "weights.safetensors")
    try:
        missing, strange = model.load_state_dict(weights, strict=False)
    except RuntimeError:
        raise InputError(f"{path} holds weights of other shapes than this model's") from None
    if missing or strange:
        name, fault = (missing[0], "is missing") if missing else (strange[0], "is not of this model")
        raise InputError(f"{path} holds other weights: {name} {fault}")


def load(path: Path, model: nn.Module, optimiser: Rows) -> tuple[int, Tensor]:
    """Bring model and optimiser to where a checkpoint left them; returns the step and the random state."""
    load_weights(path, model)
    stored = _read(path / "progress.safetensors")
    states: dict[nn.Parameter, dict[str, Tensor]] = {}
    for name, weight in model.named_parameters():
        if state := {key.split("/")[0]: stored[key] for key in stored if key.partition("/")[2] == name}:
            states[weight] = state
    optimiser.remember(states)
    try:
        return int(json.loads((path / "step.json").read_text())["step"]), stored["random"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error!r}); remove it to go on from the one before") from None


def _optimiser_state(model: nn.Module, optimiser: Rows) -> dict[str, Tensor]:
    names = {weight: name for name, weight in model.named_parameters()}
    return {
        f"{key}/{names[weight]}": value for weight, state in optimiser.states().items() for key, value in state.items()
    }


def _portable(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}; remove its folder to go on from the one before") from None
