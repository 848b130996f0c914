"""Presets: published settings and our own reduced ones, as a table.

`paper` is what was published; where the released code differs from the text, the code counts. `small` takes minutes on
one GPU, and `tiny` takes seconds on a CPU and shows that a model learns. Neither reproduces a published number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from alebrije.errors import InputError
from alebrije.models import get
from alebrije.suggest import did_you_mean
from alebrije.train.preset import ALL, Preset, PresetName
from alebrije.train.recipe import Recipe
from alebrije.train.view_presets import SLOTS_VIEWS_PAPER, SLOTS_VIEWS_SMALL, VIEW_PRESETS, for_both

SVIB_TASKS = ("sprites/S-A", "clevr/S-A", "clevrtex/S-A")
SVIB_PAPER = Preset(
    SVIB_TASKS,
    128,
    Recipe(
        steps=160_000,
        batch=32,
        lr={"": 3e-4, "encoder.": 1e-4},
        warmup=30_000,
        decay="halving",
        half_life=250_000,
        clip=0.05,
        clip_by="largest",
        clip_each=True,
    ),
    # the release clips the encoder of the state-space models together with their dynamics
    "SVIB, Table 7; warm-up, half-life, clipping and the training share (70 % of 64,000 episodes) from the release",
    images=44_800,
    batches={"clevr": 40, "clevrtex": 40},
)
SVIB_SMALL = replace(
    SVIB_PAPER,
    recipe=Recipe(steps=40_000, batch=32, lr=3e-4, warmup=2_000, decay="tail", clip=1.0, clip_each=True),
    origin="ours: a quarter of the steps, the paper's batch size, new episodes throughout",
    images=0,
)
SVIB_TINY = Preset(
    SVIB_TASKS[:1],
    16,
    Recipe(steps=450, batch=16, lr=3e-3, precision="float32", clip=1.0, clip_each=True),
    "ours: learns in seconds",
    images=64,
    model={"decoder_width": 64, "decoder_blocks": 2, "dropout": 0.0},
)

GRIDS = ("dsprites", "rooms")
VAE_PAPER = Preset(
    GRIDS[:1],
    64,
    Recipe(steps=1_152_000, batch=64, lr=5e-4),
    "the default parameters of YannDubs/disentangling-vae, as in the paper of SNC and NK: 100 epochs",
    images=ALL,
)
VAE_PAPERS = (VAE_PAPER, replace(VAE_PAPER, data=GRIDS[1:], recipe=replace(VAE_PAPER.recipe, steps=750_000)))
VAE_PAPERS_AND_ARM = (
    *VAE_PAPERS,
    replace(
        VAE_PAPER,
        data=("arm",),
        recipe=replace(VAE_PAPER.recipe, steps=1_620_000),
        origin=f"{VAE_PAPER.origin}, with its likelihood for MPI3D",
        model={"likelihood": "sigmoid-gaussian"},
    ),
)
AE_SMALL = Preset(GRIDS, 64, Recipe(steps=30_000, batch=64, lr=5e-4), "ours: 30,000 steps")
AE_TINY = Preset(GRIDS, 64, Recipe(steps=300, batch=32, lr=2e-3, precision="float32"), "ours: learns in seconds")
VAE_SMALL, VAE_TINY = replace(AE_SMALL, model={"anneal": 3_000}), replace(AE_TINY, model={"anneal": 100})
_PLATEAU: dict[str, Any] = {
    "decay": "plateau",
    "cooldown": 4,
}  # an epoch that is not one percent better halves the rate
PARTED_PAPERS = tuple(
    replace(
        base,
        recipe=replace(base.recipe, window=window, patience=patience, **_PLATEAU),
        origin="sinahmr/parted-vae; 100 epochs, sizes and labels as in the code behind the paper of SNC and NK",
        model={"latents": latents},
    )
    for base, window, patience, latents in zip(
        VAE_PAPERS_AND_ARM, (11_520, 7_500, 16_200), (1, 2, 2), (5, 6, 7), strict=True
    )
)
PARTED_SMALL = replace(AE_SMALL, model={"anneal": 30_000})
# 27, 120 and 72 classes; those of arm are ours, because no code has classes for MPI3D
WEAKDE_LABELS = ("position x/3,position y/3,shape", "object hue,shape,scale/3", "color,shape,size")
WEAKDE_PAPERS = tuple(
    replace(
        base,
        # the rate falls by a tenth after 10,000 steps without a lower loss of a batch
        recipe=replace(base.recipe, lr=1e-4, decay="plateau", window=1, patience=10_000, threshold=0.0, drop=0.9),
        origin="network and 100 epochs of the code behind the paper of SNC and NK, which trains a plain autoencoder "
        "(as_published=true), but with 3e-4 in the first epoch, an early stop, and codes by the statistics of their "
        "batch; the method as in Andrea-V/Weak-Disentanglement",
        model={"labels": labels, "warmup": base.recipe.steps // 2},
    )
    for base, labels in zip(VAE_PAPERS_AND_ARM, WEAKDE_LABELS, strict=True)
)
WEAKDE_SMALL = tuple(
    replace(AE_SMALL, data=(world,), model={"labels": labels, "warmup": 10_000, "statistics": 2_000})
    for world, labels in zip((*GRIDS, "arm"), WEAKDE_LABELS, strict=True)
)
WEAKDE_TINY = replace(AE_TINY, model={"warmup": 150, "statistics": 50, "width": 64})
MTD_PAPERS = tuple(
    replace(
        base,
        recipe=replace(base.recipe, steps=base.recipe.steps // 10),
        origin="ours, because neither code nor settings are public; 10 epochs as in the paper of SNC and NK",
        model={},
    )
    for base in VAE_PAPERS_AND_ARM
)
COAT_VAE = Preset(
    ("coat", "coat-correlated"),
    128,
    Recipe(steps=54_000, batch=128, lr=2e-4),
    "COAT as released: 300 epochs of 23,000 images",
    images=23_000,
    model={"architecture": "conv128", "latents": 256, "likelihood": "gaussian"},
)
_DISCRIMINATED: dict[str, Any] = {
    # the defaults of the library's command line, as for the other models; its own FactorVAE runs use 1e-4
    "lr": {"": 5e-4, "discriminator.": 5e-5},
    "betas": {"": (0.9, 0.999), "discriminator.": (0.5, 0.9)},
    "batch": 128,  # the autoencoder learns from one half
}

SLOTS_PAPER = (
    Preset(
        ("clevr10",),
        128,
        Recipe(steps=300_000, batch=64, lr=4e-4, warmup=10_000, decay="halving", half_life=100_000),
        "the paper of ARP and ARR, Appendix B; learning rate and warm-up from Slot Attention, output layer from SAVi",
        images=70_000,
        model={"slots": 11, "projections": 128, "hidden": 256, "decoder_layers": 4, "decoder_head": 1},
    ),
    Preset(
        ("clevr6",),
        128,
        Recipe(steps=500_000, batch=64, lr=4e-4, warmup=10_000, decay="halving", half_life=100_000),
        "google-research/slot_attention",
        images=70_000,
        model={"slots": 7},
    ),
    Preset(
        ("coat", "coat-correlated"),
        128,
        Recipe(steps=180_000, batch=64, lr=2e-4, warmup=10_000, decay="halving", half_life=100_000),
        "COAT: 500 epochs of 23,000 images, its iterations and learning rate; network as released with Slot Attention",
        images=23_000,
        model={"slots": 7, "iterations": 4},
    ),
)
SLOTS_SMALL = Preset(
    ("clevr6", "coat", "coat-correlated", "sprites", "clevr"),
    64,
    Recipe(steps=30_000, batch=64, lr=4e-4, warmup=2_000, decay="tail", clip=1.0),
    "ours: 64 pixels and 30,000 steps",
    images=20_000,
    model={"slots": 7},
)
SLOTS_SMALL_MANY = replace(SLOTS_SMALL, data=("clevr10",), model={"slots": 11})  # ten objects and the background
SLOTS_TINY = Preset(
    ("sprites",),
    32,
    Recipe(steps=400, batch=32, lr=2e-3, warmup=50, precision="float32", clip=1.0),
    "ours: learns in a minute",
    images=512,
    model={"slots": 3, "channels": 16, "slot_size": 32, "projections": 32, "hidden": 64, "decoder_layers": 3},
)

BO_QSA_PAPER = Preset(
    ("clevr6",),
    128,
    Recipe(steps=250_000, batch=128, lr=4e-4, warmup=5_000, decay="halving", half_life=50_000, clip=1.0),
    "YuLiu-LY/BO-QSA, which does not mention CLEVR; scenes as for Slot Attention",
    images=70_000,
)

IODINE_PAPER = (
    Preset(
        ("clevr6",),
        128,
        Recipe(
            steps=1_000_000,
            batch=32,
            lr=1e-3,
            betas=(0.95, 0.999),
            decay="halving",
            half_life=301_030,
            clip=5.0,
        ),
        "google-deepmind/deepmind-research: the rate falls to a tenth over 1,000,000 steps",
        images=70_000,
    ),
    Preset(
        ("coat", "coat-correlated"),
        128,
        Recipe(steps=720_000, batch=32, lr=3e-4),
        "COAT: 1,000 epochs of 23,000 images; loss, network and rate as in the history of its release. The batch is "
        "not known; 32 is DeepMind's",
        images=23_000,
        model={"variant": "coat"},
    ),
)
IODINE_SMALL = Preset(
    ("coat", "coat-correlated", "clevr6", "sprites", "clevr"),
    64,
    Recipe(steps=60_000, batch=32, lr=5e-4, betas=(0.95, 0.999), warmup=1_000, decay="tail", clip=5.0),
    "ours: 64 pixels and 60,000 steps",
    images=20_000,
)
IODINE_TINY = Preset(
    ("sprites",),
    16,
    Recipe(steps=300, batch=16, lr=5e-3, betas=(0.95, 0.999), warmup=20, precision="float32", clip=5.0),
    "ours: the loss falls in seconds, with a coarser scale; finding objects takes far longer",
    images=64,
    model={"slots": 3, "channels": 16, "slot_size": 8, "hidden": 32, "iterations": 2, "scale": 0.3},
)

_VIDEO_LOSS: dict[str, Any] = {"decay": "cosine", "clip": 0.05}  # of the release, for a loss summed over pixels
_003_SAVI = {"encoder_layers": 5, "iterations": 2, "hidden": 256}
SAVI_PAPER = (
    Preset(
        ("moving", "moving-textured"),
        64,
        Recipe(steps=200_000, batch=64, lr=2e-4, warmup=2_500, **_VIDEO_LOSS),
        "the paper of ARP and ARR, Appendix B, with its stride in the first layer; resolution, windows, rate, warm-up "
        "and clipping, which it does not give, from the release of SAVi",
        images=9_703,
        model={**_003_SAVI, "encoder_stride": 2},
    ),
    Preset(
        ("scripted",),
        64,
        Recipe(steps=200_000, batch=64, lr=2e-4, warmup=2_500, **_VIDEO_LOSS),
        "the same for CATER: stride 1, no predictor, and pixels as the target, because the camera moves",
        images=3_850,
        model={**_003_SAVI, "heads": 0, "target": "rgb"},
    ),
)
SAVI_SMALL = tuple(
    Preset(
        worlds,
        64,
        Recipe(steps=20_000, batch=32, lr=4e-4, warmup=1_000, **_VIDEO_LOSS),
        "ours: 20,000 steps of 32 windows, half the channels of the decoder",
        images=2_000,
        model={"decoder_channels": 32, **model},
    )
    for worlds, model in ((("moving", "moving-textured"), {}), (("scripted",), {"target": "rgb"}))
)
SAVI_TINY = Preset(
    ("moving", "scripted", "moving-textured"),
    32,
    Recipe(steps=300, batch=8, lr=1e-3, warmup=20, precision="float32", **_VIDEO_LOSS),
    "ours: the loss falls in a minute; finding objects takes longer",
    images=48,
    model={"frames": 4, "slots": 5, "channels": 16, "slot_size": 32, "projections": 32, "predictor_hidden": 64}
    | {"decoder_channels": 16},
)

MOCO_PAPER = Preset(
    ("coat", "coat-correlated"),
    128,
    Recipe(steps=18_000, batch=256, lr=0.03, optimiser="sgd", weight_decay=1e-4, decay="cosine"),
    "MoCo v2's recipe on COAT's 23,000 images, 200 epochs",
    images=23_000,
)
MOCO_SMALL = replace(
    MOCO_PAPER,
    data=(*MOCO_PAPER.data, "clevr6", "clevr10", "clevr", "sprites"),
    recipe=Recipe(steps=10_000, batch=256, lr=1e-3, decay="cosine"),
    origin="ours: Adam, 10,000 steps",
    images=20_000,
)
MILD_AUGMENTATION = {"smallest_crop": 0.6, "jitter": 0.2, "hue": 0.02, "grey_chance": 0.0}
MOCO_TINY = Preset(
    ("rooms",),
    64,
    Recipe(steps=100, batch=32, lr=1e-3, precision="float32"),
    "ours: learns in seconds, with milder augmentations",
    images=512,
    model={"architecture": "conv64", "queue": 256, "momentum": 0.99, **MILD_AUGMENTATION},
)


def _with(preset: Preset, recipe: Mapping[str, Any] | None = None, **model: Any) -> Preset:
    """Return a preset with other settings of its recipe and model."""
    changed = replace(preset.recipe, **recipe) if recipe else preset.recipe
    return replace(preset, recipe=changed, model={**preset.model, **model})


PRESETS: dict[str, dict[PresetName, tuple[Preset, ...]]] = {
    "ae": {
        "paper": tuple(
            replace(base, origin="the VAE recipe of the paper of SNC and NK, which has no plain autoencoder")
            for base in VAE_PAPERS_AND_ARM
        ),
        "small": (AE_SMALL,),
        "tiny": (AE_TINY,),
    },
    "beta-vae": {"paper": VAE_PAPERS_AND_ARM, "small": (VAE_SMALL,), "tiny": (VAE_TINY,)},
    "annealed-vae": {
        "paper": tuple(
            replace(
                base,
                origin="loss and recipe of YannDubs/disentangling-vae, 100 epochs as for the other VAEs; the capacity "
                "rises over 100,000 steps as in disentanglement_lib",
            )
            for base in VAE_PAPERS_AND_ARM
        ),
        # place and size are learned at 10 nats; with more, their neurons would share them again
        "small": (
            replace(_with(AE_SMALL, capacity=10.0, anneal=20_000), origin="ours: 30,000 steps, and at most 10 nats"),
        ),
        "tiny": (VAE_TINY,),
    },
    "beta-tcvae": {
        "paper": (*(_with(base, beta=6.0) for base in VAE_PAPERS_AND_ARM), _with(COAT_VAE, beta=1.0)),
        "small": (_with(VAE_SMALL, beta=6.0),),
        "tiny": (VAE_TINY,),
    },
    "factor-vae": {
        "paper": tuple(
            replace(_with(base, _DISCRIMINATED, gamma=6.0), origin=f"{base.origin}; the batch is doubled")
            for base in VAE_PAPERS_AND_ARM
        ),
        "small": (_with(VAE_SMALL, _DISCRIMINATED, gamma=6.0),),
        "tiny": (_with(VAE_TINY, {"betas": _DISCRIMINATED["betas"]}, discriminator_width=100),),
    },
    "parted-vae": {
        "paper": tuple(_with(base, classes=classes) for base, classes in zip(PARTED_PAPERS, (3, 4, 6), strict=True)),
        "small": (PARTED_SMALL,),
        "tiny": (VAE_TINY,),
    },
    "parted-vae-ss": {
        "paper": PARTED_PAPERS,
        "small": (_with(PARTED_SMALL, passes="step"),),
        "tiny": (_with(VAE_TINY, passes="step", labelled=64),),
    },
    "weakde": {"paper": WEAKDE_PAPERS, "small": WEAKDE_SMALL, "tiny": (WEAKDE_TINY,)},
    "mtd": {"paper": MTD_PAPERS, "small": (AE_SMALL,), "tiny": (AE_TINY,)},
    "slot-attention": {
        "paper": (*SLOTS_PAPER, SLOTS_VIEWS_PAPER),
        "small": (SLOTS_SMALL, SLOTS_SMALL_MANY, *for_both(SLOTS_VIEWS_SMALL)),
        "tiny": (SLOTS_TINY,),
    },
    "bo-qsa": {
        "paper": (BO_QSA_PAPER, _with(replace(BO_QSA_PAPER, data=("clevr10",)), slots=11)),
        "small": tuple(_with(base, noise_steps=10_000) for base in (SLOTS_SMALL, SLOTS_SMALL_MANY)),
        "tiny": (_with(SLOTS_TINY, noise_steps=100),),
    },
    "iodine": {"paper": IODINE_PAPER, "small": (IODINE_SMALL,), "tiny": (IODINE_TINY,)},
    **{
        name: {"paper": SAVI_PAPER, "small": SAVI_SMALL, "tiny": (SAVI_TINY,)}
        for name in ("savi", "savi-boxes", "savi-supervised")
    },
    "moco": {"paper": (MOCO_PAPER,), "small": (MOCO_SMALL,), "tiny": (MOCO_TINY,)},
    "i2i-cnn": {"paper": (SVIB_PAPER,), "small": (SVIB_SMALL,), "tiny": (_with(SVIB_TINY, channels=16, code=32),)},
    "i2i-vit": {
        "paper": (SVIB_PAPER,),
        "small": (SVIB_SMALL,),
        "tiny": (_with(SVIB_TINY, patch=4, width=64, blocks=2, heads=4),),
    },
    "ssm-vae": {
        "paper": (_with(SVIB_PAPER, {"lr": 3e-4}),),
        "small": (SVIB_SMALL,),
        "tiny": (_with(SVIB_TINY, channels=16, latents=32, dynamics_blocks=2),),
    },
    "ssm-slot": {
        "paper": (_with(SVIB_PAPER, {"lr": {"": 2e-4, "decoder.": 3e-4}}),),
        "small": (_with(SVIB_SMALL, {"lr": {"": 2e-4, "decoder.": 3e-4}}),),
        "tiny": (
            _with(
                SVIB_TINY,
                {"steps": 300, "lr": 2e-3},
                slots=3,
                iterations=2,
                slot_size=32,
                channels=16,
                features=32,
                hidden=32,
                dynamics_blocks=2,
            ),
        ),
    },
    "svib-oracle": {
        "paper": (SVIB_PAPER,),
        # in so few steps the release's mixing would memorise combinations
        "small": (replace(_with(SVIB_SMALL, mixing=0), origin=SVIB_SMALL.origin + "; Oracle as in the paper's text"),),
        "tiny": (_with(SVIB_TINY, mixing=1, width=64),),
    },
    **VIEW_PRESETS,
}


def preset(model: str, name: str, world: str | None = None) -> Preset:
    """Return a preset by name: the one made for a world if there is one, else the model's first.

    The preset `paper` exists only for worlds that a paper used.
    """
    choices = PRESETS[get(model).name]
    if name not in choices:
        raise InputError(f"there is no preset {name!r}{did_you_mean(name, choices)}")
    if world is None:
        return choices[name][0]
    for choice in choices[name]:
        if world in {data.split("/")[0] for data in choice.data}:
            return choice
    if name == "paper":
        known = ", ".join(data for choice in choices[name] for data in choice.data)
        raise InputError(f"no paper trained {get(model).title} on {world}, only on {known}; choose another preset")
    return choices[name][0]
