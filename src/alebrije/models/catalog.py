"""The catalog: every model by its name."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, get_type_hints

import torch
from torch import nn

from alebrije.encoding import Shows
from alebrije.errors import InputError
from alebrije.suggest import did_you_mean


@dataclass(frozen=True)
class ModelRecord:
    """What is known about a model without building it."""

    name: str
    title: str
    class_path: str  # module and class within this package, such as "moco:MoCo"
    learns_from: Literal["images", "labelled images", "episodes", "videos", "views"]
    cites: str
    has_slots: bool = False  # its encoding is slots with masks
    reconstructs: bool = True  # its encoding has a reconstruction
    reads_scenes: bool = False  # its input is the factors of a scene, not an image, so it has no codes

    @property
    def takes(self) -> Shows:
        """What it encodes."""
        return self.learns_from if self.learns_from in ("videos", "views") else "images"

    @property
    def model_class(self) -> type[nn.Module]:
        """The class, imported when it is first needed."""
        module, _, name = self.class_path.partition(":")
        model_class: type[nn.Module] = getattr(import_module(f"alebrije.models.{module}"), name)
        return model_class

    def defaults(self) -> dict[str, Any]:
        """Setting -> default value."""
        return {name: setting.default for name, setting in inspect.signature(self.model_class).parameters.items()}

    @property
    def free_slots(self) -> bool:
        """Whether it accepts another number of slots, as `slots`, than it was trained with."""
        return "slots" in inspect.signature(self.model_class.forward).parameters

    def setting_types(self) -> dict[str, Any]:
        """Setting -> type of its value."""
        return {name: hint for name, hint in get_type_hints(self.model_class.__init__).items() if name != "return"}

    def parameter_count(self, **settings: Any) -> int:
        """The number of trained parameters; none of them is allocated."""
        model_class = self.model_class  # imported first: modules may hold tensors
        with torch.device("meta"):
            return sum(weight.numel() for weight in model_class(**settings).parameters() if weight.requires_grad)


RENAMED = {"oracle": "svib-oracle"}  # old name -> name; a study calls the reference `oracle`
_LOG = logging.getLogger("alebrije")
_SAVI = "Kipf et al. 2022"
_SVIB = "Kim et al. 2023, SVIB"
_MODELS = {
    record.name: record
    for record in (
        ModelRecord("ae", "autoencoder", "autoencoders:Autoencoder", "images", "Rumelhart et al. 1986"),
        ModelRecord("beta-vae", "beta-VAE", "autoencoders:BetaVAE", "images", "Higgins et al. 2017"),
        ModelRecord("annealed-vae", "AnnealedVAE", "autoencoders:AnnealedVAE", "images", "Burgess et al. 2018"),
        ModelRecord("beta-tcvae", "beta-TCVAE", "autoencoders:BetaTCVAE", "images", "Chen et al. 2018"),
        ModelRecord("factor-vae", "FactorVAE", "autoencoders:FactorVAE", "images", "Kim and Mnih 2018"),
        ModelRecord("parted-vae", "PartedVAE", "parted_vae:PartedVAE", "images", "Hajimiri et al. 2021"),
        ModelRecord(
            "parted-vae-ss", "PartedVAE-ss", "parted_vae:PartedVAESS", "labelled images", "Hajimiri et al. 2021"
        ),
        ModelRecord("weakde", "WeakDE", "weak_de:WeakDE", "labelled images", "Valenti and Bacciu 2022"),
        ModelRecord("mtd", "MTD (idea only)", "mtd:MTD", "labelled images", "after Sha and Lukasiewicz 2021"),
        ModelRecord(
            "slot-attention",
            "Slot Attention",
            "slot_attention:SlotAttentionAutoencoder",
            "images",
            "Locatello et al. 2020",
            has_slots=True,
        ),
        ModelRecord("bo-qsa", "BO-QSA", "slot_attention:BoQsaAutoencoder", "images", "Jia et al. 2023", has_slots=True),
        ModelRecord(
            "slot-attention-nvs",
            "Slot Attention for novel views",
            "novel_view:SlotAttentionNvs",
            "views",
            "Zimmermann et al. 2023",
            has_slots=True,
        ),
        ModelRecord(
            "bo-qsa-nvs",
            "BO-QSA for novel views",
            "novel_view:BoQsaNvs",
            "views",
            "Zimmermann et al. 2023",
            has_slots=True,
        ),
        ModelRecord("osrt", "OSRT", "osrt:OSRT", "views", "Sajjadi et al. 2022", has_slots=True),
        ModelRecord("iodine", "IODINE", "iodine:IODINE", "images", "Greff et al. 2019", has_slots=True),
        ModelRecord("savi", "SAVi", "savi:SAVi", "videos", _SAVI, has_slots=True),
        ModelRecord("savi-boxes", "SAVi with boxes", "savi:SAViBoxes", "videos", _SAVI, has_slots=True),
        ModelRecord(
            "savi-supervised",
            "SAVi, supervised",
            "savi:SAViSupervised",
            "videos",
            "Zimmermann et al. 2023",
            has_slots=True,
        ),
        ModelRecord("moco", "MoCo v2", "moco:MoCo", "images", "Chen et al. 2020", reconstructs=False),
        ModelRecord("i2i-cnn", "I2I-CNN", "imagination:I2ICNN", "episodes", _SVIB, reconstructs=False),
        ModelRecord("i2i-vit", "I2I-ViT", "imagination:I2IViT", "episodes", _SVIB, reconstructs=False),
        ModelRecord("ssm-vae", "SSM-VAE", "state_space:SSMVAE", "episodes", _SVIB),
        ModelRecord("ssm-slot", "SSM-Slot", "state_space:SSMSlot", "episodes", _SVIB, has_slots=True),
        ModelRecord(
            "svib-oracle", "SVIB Oracle", "imagination:Oracle", "episodes", _SVIB, reconstructs=False, reads_scenes=True
        ),
    )
}


def catalog() -> dict[str, ModelRecord]:
    """Name -> record, for every model.

    >>> catalog()["i2i-vit"].parameter_count()
    8482800
    """
    return dict(_MODELS)


def get(name: str) -> ModelRecord:
    """Return the record of a model; an old name is accepted with a warning.

    >>> get("beta-vae").title
    'beta-VAE'
    """
    if name in RENAMED:
        _LOG.warning("the model %s is now called %s", name, RENAMED[name])
        name = RENAMED[name]
    if name not in _MODELS:
        raise InputError(f"there is no model {name!r}{did_you_mean(name, list(_MODELS))}")
    return _MODELS[name]


def build(name: str, **settings: Any) -> nn.Module:
    """Return a new model; torch's global generator samples its weights.

    >>> build("slot-attention", size=64, slots=5)(torch.rand(1, 3, 64, 64)).slots.shape
    torch.Size([1, 5, 64])
    """
    record = get(name)
    known = record.defaults()
    for setting in settings:
        if setting not in known:
            raise InputError(f"{record.title} has no setting {setting!r}{did_you_mean(setting, list(known))}")
    return record.model_class(**settings)
