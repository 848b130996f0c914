"""Cards: what is known about each model of the zoo, one JSON file beside its weights."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from alebrije.data.checked_arrays import FileRecord
from alebrije.errors import InputError
from alebrije.files import SETTINGS, read_bytes
from alebrije.models import get
from alebrije.suggest import did_you_mean
from alebrije.train.plan import Plan

CARD, WEIGHTS = "card.json", "weights.safetensors"
_HERE = Path(str(files("alebrije.zoo")))
MODELS = _HERE / "models"  # a folder for each model
RESULTS = _HERE / "results"  # the result folder of all models and references


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Training(_Record):
    """How the weights came about."""

    command: str  # that trains the model again
    steps: int = Field(ge=1)  # of the checkpoint
    minutes: float | None = Field(default=None, ge=0)  # of wall-clock time, with the rendering of its images
    machine: str  # such as "NVIDIA H200, torch 2.11.0"
    commit: str | None = None  # of alebrije


class CardScore(_Record):
    """The score of an instrument at one of its sizes, from the results that come with alebrije."""

    instrument: str
    metric: str
    tested_on: str
    size: str
    value: float
    low: float | None = None  # of the 95 % interval
    high: float | None = None


class Card(_Record):
    """Everything that is known about a model of the zoo."""

    name: str
    plan: dict[str, Any]  # as in the run folder: model, preset, every setting, recipe, world, seed
    weights: FileRecord
    training: Training
    scores: tuple[CardScore, ...] = ()
    note: str = ""

    def read_plan(self) -> Plan:
        """The plan of the training."""
        return Plan.from_json(self.plan)

    @property
    def title(self) -> str:
        """The name of the model in its paper."""
        return get(str(self.plan["model"])).title

    @property
    def world(self) -> str:
        """What the model learned from, such as "clevr6" or "sprites/S-A at alpha 0.6"."""
        world, rule, alpha = (self.plan.get(name) for name in ("world", "rule", "alpha"))
        return f"{world}{f'/{rule}' if rule else ''}{f' at alpha {alpha:g}' if rule and alpha is not None else ''}"

    @property
    def megabytes(self) -> float:
        """The size of the weights in MB."""
        return self.weights.size / 1e6


def names(folder: Path = MODELS) -> tuple[str, ...]:
    """The names of all models of the zoo, sorted."""
    return tuple(sorted(path.parent.name for path in folder.glob(f"*/{CARD}")))


def cards(folder: Path = MODELS) -> tuple[Card, ...]:
    """The cards of all models of the zoo."""
    return tuple(card(name, folder) for name in names(folder))


def card(name: str, folder: Path = MODELS) -> Card:
    """The card of a model.

    >>> card("annealed-vea")
    Traceback (most recent call last):
        ...
    alebrije.errors.InputError: the zoo has no model 'annealed-vea'; did you mean 'annealed-vae'?
    """
    known = names(folder)
    if name not in known:
        raise InputError(f"the zoo has no model {name!r}{did_you_mean(name, known) or '; `alebrije zoo` lists all'}")
    path = folder / name / CARD
    try:
        return Card.model_validate_json(read_bytes(path, SETTINGS))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: is damaged ({field}: {first['msg']})") from None
