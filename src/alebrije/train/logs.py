"""Logs of a run for TensorBoard or Weights & Biases, if they are installed and asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from alebrije.errors import InputError
from alebrije.imports import first_line

LogName = Literal["tensorboard", "wandb"]
LOGS: tuple[LogName, ...] = get_args(LogName)
Log = Callable[[int, Mapping[str, float]], object]  # step, and numbers by name
_PROJECT = "alebrije"


def open_log(name: LogName, folder: Path, settings: Mapping[str, Any]) -> Log:
    """A function that logs numbers of a step. TensorBoard writes to `folder/tensorboard`.

    An InputError if the package is not installed or does not start.
    """
    if name not in LOGS:
        raise InputError(f"log must be {' or '.join(LOGS)}, not {name!r}")
    try:
        return _tensorboard(folder) if name == "tensorboard" else _wandb(folder, settings)
    except ImportError:
        raise InputError(f"log={name} needs {name}, which is not installed: pip install {name}") from None
    except Exception as error:  # such as Weights & Biases without a login
        raise InputError(f"log={name} could not be started: {first_line(error)}") from error


def _tensorboard(folder: Path) -> Log:
    writer = import_module("torch.utils.tensorboard").SummaryWriter(str(folder / "tensorboard"))

    def log(step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return log


def _wandb(folder: Path, settings: Mapping[str, Any]) -> Log:
    run = import_module("wandb").init(
        project=_PROJECT, name=folder.resolve().name, dir=str(folder), config=dict(settings), resume="allow"
    )

    def log(step: int, values: Mapping[str, float]) -> None:
        run.log(dict(values), step=step)

    return log
