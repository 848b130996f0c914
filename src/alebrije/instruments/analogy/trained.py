"""The models that the study trains: for each training set, seed and beta, and after some of their steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from alebrije import adapters
from alebrije.adapters import Encoder
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.results.cells import Label
from alebrije.studies.encode import NotExaminedError
from alebrije.studies.model import Keep, LoadedModel, Model, TrainedModel, View
from alebrije.train.checkpoint import checkpoints, step_of
from alebrije.train.plan import Plan
from alebrije.train.run_folder import read_plan

SWEPT = "beta-tcvae"  # the model whose beta is swept
_OFTEN = 1000  # steps between checkpoints, at most


@dataclass(frozen=True)
class Checkpoint:
    """A model that the study trains, after some of its steps."""

    of: TrainedModel
    step: int

    @property
    def labels(self) -> Mapping[str, Label]:
        """Those of the trained model, and the step."""
        return {**self.of.labels, "step": self.step}

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that decides its weights."""
        return {**self.of.identity, "step": self.step}

    @property
    def plan(self) -> Plan:
        """The plan of the training."""
        return self.of.plan

    def encoder(self) -> Encoder:
        """The network with the weights of the checkpoint. It is trained now unless it was before."""
        self.of.module()
        for path in checkpoints(self.of.path):
            if step_of(path) == self.step:
                return _encoder(path, self.of.device)
        fault = f"its training did not keep step {self.step}; remove {self.of.path.name} from runs to train it again"
        raise NotExaminedError(fault)

    def encode(self, view: View) -> Encoding:
        """The encoding of the images."""
        return self.encoder()(view.images)

    def group(self, view: View) -> Tensor | None:
        """The slot with the largest mask at each pixel."""
        return LoadedModel(self.encoder()).group(view)

    def decode(self, codes: Tensor) -> Tensor | None:
        """None: nobody looks at its pictures."""
        return None


@lru_cache(maxsize=1)
def _encoder(path: Path, device: str) -> Encoder:
    """The network of a checkpoint. One is kept, because every batch needs it."""
    return adapters.load(f"checkpoint:{path}", device=device)


def keep_some(steps: int, count: int) -> Keep:
    """How a training of `steps` steps keeps about `count` checkpoints, evenly spaced, besides the last.

    >>> keep_some(54_000, 10), keep_some(150, 3), keep_some(54_000, 0)
    (Keep(save_every=900, keep_every=5400), Keep(save_every=50, keep_every=50), Keep(save_every=1000, keep_every=0))
    """
    every = steps // count if count else 0
    if not every:
        return Keep()
    parts = math.ceil(every / _OFTEN)
    return Keep(every // parts, every // parts * parts)


def earlier_checkpoints(model: Model) -> Iterator[Checkpoint]:
    """The checkpoints that the training of a model keeps, but for the last, which is the model itself."""
    if isinstance(model, TrainedModel) and model.kept.keep_every:
        for step in range(model.kept.keep_every, model.plan.recipe.steps, model.kept.keep_every):
            yield Checkpoint(model, step)


def checkpoint_models(run: str | Path, device: str | None = None) -> list[Model]:
    """The model of a run at each of its checkpoints, the oldest first, with the label `step`."""
    folder = Path(run)
    paths = checkpoints(folder)
    if not paths:
        raise InputError(f"{folder}: no run with checkpoints here; `alebrije train` makes one")
    trained = read_plan(folder)
    encoders = {step_of(path): adapters.load(f"checkpoint:{path}", device=device) for path in paths}
    seed = trained.seed
    return [LoadedModel(each, trained.model, {"seed": seed, "step": step}) for step, each in encoders.items()]


def swept_settings(beta: float | None) -> dict[str, float]:
    """The weights of a beta-TCVAE at a beta of the sweep. At 0 it is COAT's autoencoder, without any of them.

    >>> swept_settings(0.0), swept_settings(2.0), swept_settings(None)
    ({'beta': 0.0, 'gamma': 0.0}, {'beta': 2.0}, {})
    """
    if beta is None:
        return {}
    return {"beta": beta, "gamma": 0.0} if beta == 0 else {"beta": beta}
