"""Options of a run: its device, how often it logs, checks and saves, and its progress callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from alebrije.checks import whole_number
from alebrije.train.logs import LogName

StepProgress = Callable[[int, int, float, dict[str, float]], object]  # step, total steps, images per second, losses
PreloadProgress = Callable[[int, int], object]  # images done, images in total


@dataclass(frozen=True)
class RunOptions:
    """Everything about a run that is not its plan. A run may be continued with other options.

    >>> RunOptions(save_every=0)
    Traceback (most recent call last):
        ...
    alebrije.errors.InputError: save_every must be at least 1, not 0
    """

    device: str | torch.device = "cpu"
    workers: int = 1  # processes that sample the scenes of preloaded images
    fast: bool = True  # on a GPU, compile the step and capture it as a CUDA graph
    until: int | None = None  # pause after this step; the learning rate schedule still covers all steps
    log_every: int = 50
    check_every: int = 1000
    check_size: int = 300  # images or episodes in each training check
    save_every: int = 1000
    keep_every: int = 0  # keep checkpoints at multiples of this step beside the last two
    log: LogName | None = None  # also log to TensorBoard or Weights & Biases
    step_progress: StepProgress | None = None  # called every `log_every` steps
    preload_progress: PreloadProgress | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "log_every", "check_every", "check_size", "save_every"):
            whole_number(name, getattr(self, name), least=1)
        whole_number("keep_every", self.keep_every)
