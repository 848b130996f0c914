"""Presets of models that learn from several views of scenes, and of Slot Attention on single views."""

from __future__ import annotations

from dataclasses import replace

from alebrije.train.preset import Preset, PresetName
from alebrije.train.recipe import Recipe

_VIEWS = ("furniture", "clevr3d")
_OPEN = "resolution, learning rate and the views that are scored are ours, because the paper does not say"

SLOTS_VIEWS_PAPER = Preset(
    _VIEWS[:1],
    64,
    Recipe(steps=300_000, batch=64, lr=4e-4, warmup=10_000, decay="halving", half_life=100_000),
    f"the paper of ARP and ARR, Appendix B, on single views; {_OPEN}",
    images=240_000,
    model={"slots": 5, "encoder": "resnet18"},
)
SLOTS_VIEWS_SMALL = Preset(
    _VIEWS[:1],
    64,
    Recipe(steps=30_000, batch=64, lr=4e-4, warmup=2_000, decay="tail", clip=1.0),
    "ours: 30,000 steps on single views",
    images=30_000,
    model={"slots": 5, "encoder": "resnet18", "resnet_width": 32},
)

NVS_PAPER = Preset(
    _VIEWS[:1],
    64,
    Recipe(steps=500_000, batch=64, lr=4e-4, warmup=10_000, decay="halving", half_life=100_000),
    f"the paper of ARP and ARR, Appendix B; {_OPEN}",
    images=80_000,
)
NVS_SMALL = Preset(
    _VIEWS[:1],
    64,
    Recipe(steps=30_000, batch=64, lr=4e-4, warmup=2_000, decay="tail", clip=1.0),
    "ours: 30,000 steps, a narrow encoder and fewer octaves",
    images=10_000,
    model={"resnet_width": 32, "octaves": 7},
)
NVS_TINY = Preset(
    _VIEWS,
    16,
    Recipe(steps=250, batch=16, lr=1e-3, warmup=20, precision="float32", clip=1.0),
    "ours: the loss falls in a minute; finding objects takes far longer",
    images=128,
    model={
        "channels": 16,
        "slot_size": 32,
        "projections": 32,
        "hidden": 64,
        "decoder_layers": 2,
        "resnet_width": 8,
        "octaves": 5,
    },
)

OSRT_PAPER = (
    Preset(
        ("furniture",),
        64,
        Recipe(steps=1_000_000, batch=128, lr=1e-4, warmup=2_500, decay="halving", half_life=1_513_000),
        "stelzner/osrt for MultiShapeNet's easy scenes, with the targets and random slots of the paper of ARP and ARR; "
        "resolution and number of steps are ours",
        images=80_000,
        model={"slots": 5, "rays": 6144, "targets": "others"},
    ),
    Preset(
        ("clevr3d",),
        64,
        Recipe(steps=1_000_000, batch=256, lr=1e-4, warmup=10_000, decay="halving", half_life=1_513_000),
        "stelzner/osrt for CLEVR3D; random slots, resolution and number of steps are ours",
        images=70_000,
        model={"slots": 6, "rays": 8192},
    ),
)
OSRT_SMALL = Preset(
    _VIEWS[:1],
    64,
    Recipe(steps=40_000, batch=64, lr=2e-4, warmup=2_500, decay="tail", clip=1.0),
    "ours: half the width, a third of the rays, fewer octaves and 40,000 steps",
    images=10_000,
    model={"width": 384, "octaves": 7, "rays": 2048, "targets": "others"},
)
OSRT_TINY = Preset(
    _VIEWS,
    16,
    Recipe(steps=300, batch=16, lr=1e-3, warmup=20, precision="float32", clip=1.0),
    "ours: the loss falls in a minute; finding objects takes far longer",
    images=128,
    model={"width": 64, "blocks": 1, "heads": 4, "octaves": 5, "rays": 64, "targets": "others"},
)


def _with_noise(preset: Preset, noise_steps: int) -> Preset:
    """The preset of BO-QSA: learned slots, whose noise ends after so many steps."""
    origin = preset.origin.replace("Appendix B", "Appendix B, for BO-QSA")
    return replace(preset, origin=origin, model={**preset.model, "noise_steps": noise_steps})


def for_both(preset: Preset) -> tuple[Preset, ...]:
    """The preset, and one for CLEVR3D with slots for six objects and the background."""
    return preset, replace(preset, data=_VIEWS[1:], model={**preset.model, "slots": 7})


VIEW_PRESETS: dict[str, dict[PresetName, tuple[Preset, ...]]] = {
    "slot-attention-nvs": {"paper": (NVS_PAPER,), "small": for_both(NVS_SMALL), "tiny": (NVS_TINY,)},
    "bo-qsa-nvs": {
        "paper": (_with_noise(NVS_PAPER, 30_000),),
        "small": for_both(_with_noise(NVS_SMALL, 10_000)),
        "tiny": (_with_noise(NVS_TINY, 100),),
    },
    "osrt": {"paper": OSRT_PAPER, "small": for_both(OSRT_SMALL), "tiny": (OSRT_TINY,)},
}
