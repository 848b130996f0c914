"""Run folders: the plan that is stored in the folder of a run, as `run.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from alebrije.atomic import explain_write_errors, is_leftover, write_atomically
from alebrije.errors import InputError
from alebrije.files import SETTINGS, read_json, read_text
from alebrije.train.checkpoint import checkpoints
from alebrije.train.plan import Plan
from alebrije.train.recipe import Recipe

PLAN_FILE = "run.json"
WORLD_FILE = "world.json"
_RECIPE_DEFAULTS = {field.name: field.default for field in fields(Recipe) if field.default is not MISSING}


def read_plan(folder: Path) -> Plan:
    """Read the plan of the run in a folder."""
    path = folder / PLAN_FILE
    stored = _read_json(path)
    try:
        return Plan.from_json(stored)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a plan that this version can read: {error}") from None


def claim_folder(plan: Plan, folder: Path) -> None:
    """Write the plan into a new run folder, or check that the run in the folder has the same plan.

    A run on a user's own world is also refused if that world was edited since the run began.
    """
    _claim(plan, folder)
    if world := plan.edited_inputs:
        path, text = folder / WORLD_FILE, json.dumps(world) + "\n"
        if path.exists() and _world_text(path) != text and checkpoints(folder):
            raise InputError(
                f"{folder} holds a run on an earlier version of {plan.world}, edited since; choose another folder"
            )
        write_atomically(path, text)


def _claim(plan: Plan, folder: Path) -> None:
    path, text = folder / PLAN_FILE, json.dumps(plan.to_json(), indent=2) + "\n"
    if not path.exists():
        others = [file for file in folder.iterdir() if not is_leftover(file)] if folder.is_dir() else []
        # check again: another process of the group may have written the same plan in between
        if others and not path.exists():
            raise InputError(f"{folder} contains other files and no run; choose a folder that is new or empty")
        with explain_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
        return
    mine, theirs = _flat(plan, json.loads(text)), _flat(plan, _read_json(path))
    for key in [*theirs, *(key for key in mine if key not in theirs)]:
        if theirs.get(key) != mine.get(key):
            if not checkpoints(folder) and read_plan(folder):  # the other run has learned nothing yet
                write_atomically(path, text)
                return
            raise InputError(
                f"{folder} holds a run with {key[1]} {theirs.get(key)!r}, not {mine.get(key)!r}; "
                "use the same settings to continue it, or another folder for a new run"
            )


def _flat(plan: Plan, stored: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """Flatten a stored plan for comparison; settings that it does not have get their defaults."""
    levels = {name: value for name, value in stored.items() if name in ("settings", "recipe")}
    flat = {("", name): value for name, value in stored.items() if name not in ("alebrije", *levels)}
    flat |= {("settings", name): value for name, value in plan.record.defaults().items()}
    flat |= {("recipe", name): value for name, value in json.loads(json.dumps(_RECIPE_DEFAULTS)).items()}
    for level, values in levels.items():
        entries = values if isinstance(values, dict) else {level: values}
        flat |= {(level, name): value for name, value in entries.items()}
    return flat


def _world_text(path: Path) -> str:
    try:
        return read_text(path, SETTINGS)
    except (OSError, ValueError):
        return ""  # damaged, so different


def _read_json(path: Path) -> dict[str, Any]:
    try:
        stored = read_json(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {str(error).removeprefix(f'{path}: ')}") from None
    if not isinstance(stored, dict):
        raise InputError(f"{path} is not the plan of a run")
    return stored
