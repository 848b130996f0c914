"""The catalog: every model by its name."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, get_type_hints

import torch
from torch import nn

from alebrije.errors import InputError


@dataclass(frozen=True)
class ModelRecord:
    """A model: what it is, where it comes from, and what it learns from."""

    name: str
    title: str
    place: str  # module and class within this room
    learns_from: Literal["images", "episodes"]
    cites: str

    @property
    def kind(self) -> type[nn.Module]:
        """Its class."""
        module, _, name = self.place.partition(":")
        kind: type[nn.Module] = getattr(import_module(f"alebrije.models.{module}"), name)
        return kind

    def defaults(self) -> dict[str, Any]:
        """The names of its settings and their values unless told otherwise."""
        return {name: each.default for name, each in inspect.signature(self.kind).parameters.items()}

    def kinds(self) -> dict[str, Any]:
        """The names of its settings and the types of their values."""
        return {name: kind for name, kind in get_type_hints(self.kind.__init__).items() if name != "return"}

    def parameters(self, **settings: Any) -> int:
        """How many numbers it learns, without making any of them."""
        with torch.device("meta"):
            return sum(weight.numel() for weight in self.kind(**settings).parameters() if weight.requires_grad)


_SVIB = "Kim et al. 2023, SVIB"
_MODELS = {
    record.name: record
    for record in (
        ModelRecord("ae", "autoencoder", "autoencoders:Autoencoder", "images", "Rumelhart et al. 1986"),
        ModelRecord("beta-vae", "beta-VAE", "autoencoders:BetaVAE", "images", "Higgins et al. 2017"),
        ModelRecord("beta-tcvae", "beta-TCVAE", "autoencoders:BetaTCVAE", "images", "Chen et al. 2018"),
        ModelRecord("factor-vae", "FactorVAE", "autoencoders:FactorVAE", "images", "Kim and Mnih 2018"),
        ModelRecord(
            "slot-attention",
            "Slot Attention",
            "slot_attention:SlotAttentionAutoencoder",
            "images",
            "Locatello et al. 2020",
        ),
        ModelRecord("bo-qsa", "BO-QSA", "slot_attention:BoQsaAutoencoder", "images", "Jia et al. 2023"),
        ModelRecord("moco", "MoCo v2", "moco:MoCo", "images", "Chen et al. 2020"),
        ModelRecord("i2i-cnn", "I2I-CNN", "imagination:I2ICNN", "episodes", _SVIB),
        ModelRecord("i2i-vit", "I2I-ViT", "imagination:I2IViT", "episodes", _SVIB),
        ModelRecord("ssm-vae", "SSM-VAE", "state_space:SSMVAE", "episodes", _SVIB),
        ModelRecord("ssm-slot", "SSM-Slot", "state_space:SSMSlot", "episodes", _SVIB),
        ModelRecord("oracle", "Oracle", "imagination:Oracle", "episodes", _SVIB),
    )
}


def catalog() -> dict[str, ModelRecord]:
    """Every model's record by its name.

    >>> catalog()["i2i-vit"].parameters()
    8482800
    """
    return dict(_MODELS)


def get(name: str) -> ModelRecord:
    """A model's record.

    >>> get("beta-vae").title
    'beta-VAE'
    """
    if name not in _MODELS:
        raise InputError(f"there is no model {name!r}{suggestion(name, list(_MODELS))}")
    return _MODELS[name]


def suggestion(wrong: str, known: list[str]) -> str:
    """The end of a sentence about a wrong name: the nearest that there is, or all."""
    near = difflib.get_close_matches(str(wrong).lower(), known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"


def build(name: str, **settings: Any) -> nn.Module:
    """A new model; its weights are drawn from torch's generator.

    >>> build("slot-attention", size=64, slots=5)(torch.rand(1, 3, 64, 64)).slots.shape
    torch.Size([1, 5, 64])
    """
    record = get(name)
    known = record.defaults()
    for setting in settings:
        if setting not in known:
            raise InputError(f"{record.title} has no setting {setting!r}{suggestion(setting, list(known))}")
    return record.kind(**settings)
