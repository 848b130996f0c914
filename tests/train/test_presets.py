"""Presets: all can take a step, and `paper` has the published numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from alebrije import models, worlds
from alebrije.errors import InputError
from alebrije.train.plan import plan
from alebrije.train.presets import PRESETS, preset

HALVED = {"warmup": 30_000, "half_life": 250_000, "clip": 0.05, "clip_by": "largest"}
SVIB = {"steps": 160_000, "batch": 32, **HALVED}
SLOTS = {"batch": 64, "lr": 4e-4, "warmup": 10_000, "half_life": 100_000, "clip": None}
COAT_VAE = {"steps": 54_000, "batch": 128, "lr": 2e-4, "warmup": 0, "half_life": None, "clip": None}
VAE = {"steps": 1_152_000, "batch": 64, "lr": 5e-4, "warmup": 0, "half_life": None, "clip": None}

# SVIB, Table 7 with its release; the defaults in YannDubs' hyperparam.ini; the releases of Slot Attention, BO-QSA and
# COAT; MoCo v2.
PUBLISHED: dict[tuple[str, str | None], dict[str, Any]] = {
    ("i2i-cnn", None): SVIB | {"lr": {"": 3e-4, "encoder.": 1e-4}},
    ("i2i-vit", None): SVIB | {"lr": {"": 3e-4, "encoder.": 1e-4}},
    ("i2i-vit", "clevr"): SVIB | {"batch": 40, "lr": {"": 3e-4, "encoder.": 1e-4}},
    ("i2i-vit", "clevrtex"): SVIB | {"batch": 40, "lr": {"": 3e-4, "encoder.": 1e-4}},
    ("ssm-vae", None): SVIB | {"lr": 3e-4},
    ("ssm-slot", None): SVIB | {"lr": {"": 2e-4, "decoder.": 3e-4}},
    ("svib-oracle", None): SVIB,
    ("beta-vae", None): VAE,
    ("annealed-vae", None): VAE,
    ("beta-tcvae", None): VAE,
    ("factor-vae", None): VAE
    | {
        "batch": 128,
        "lr": {"": 5e-4, "discriminator.": 5e-5},
        "betas": {"": (0.9, 0.999), "discriminator.": (0.5, 0.9)},
    },
    ("beta-tcvae", "coat"): COAT_VAE,
    ("parted-vae", None): VAE | {"decay": "plateau", "window": 11_520, "patience": 1, "cooldown": 4, "drop": 0.5},
    ("parted-vae-ss", "rooms"): VAE | {"steps": 750_000, "decay": "plateau", "window": 7_500, "patience": 2},
    ("weakde", None): VAE | {"lr": 1e-4, "decay": "plateau", "window": 1, "patience": 10_000, "drop": 0.9},
    ("mtd", None): VAE | {"steps": 115_200},
    ("slot-attention", "clevr6"): SLOTS | {"steps": 500_000},
    ("slot-attention", "clevr10"): SLOTS | {"steps": 300_000},
    ("slot-attention", "coat"): SLOTS | {"steps": 180_000, "lr": 2e-4},
    ("bo-qsa", None): {
        "steps": 250_000,
        "batch": 128,
        "lr": 4e-4,
        "warmup": 5_000,
        "half_life": 50_000,
        "clip": 1.0,
        "clip_by": "norm",
    },
    **{
        (name, None): {"steps": 200_000, "batch": 64, "lr": 2e-4, "warmup": 2_500, "decay": "cosine", "clip": 0.05}
        for name in ("savi", "savi-boxes", "savi-supervised")
    },
    ("slot-attention", "furniture"): SLOTS | {"steps": 300_000},
    ("slot-attention-nvs", None): SLOTS | {"steps": 500_000},
    ("bo-qsa-nvs", None): SLOTS | {"steps": 500_000},
    ("osrt", None): {"batch": 128, "lr": 1e-4, "warmup": 2_500, "half_life": 1_513_000, "clip": None},
    ("osrt", "clevr3d"): {"batch": 256, "lr": 1e-4, "half_life": 1_513_000, "clip": None},
    ("iodine", None): {"steps": 1_000_000, "batch": 32, "lr": 1e-3, "half_life": 301_030, "clip": 5.0},
    ("iodine", "coat"): {"batch": 32, "lr": 3e-4, "half_life": None, "clip": None},
    ("moco", None): {"batch": 256, "lr": 0.03, "optimiser": "sgd", "momentum": 0.9, "weight_decay": 1e-4},
}

SETTINGS: dict[tuple[str, str | None], dict[str, Any]] = {
    ("i2i-cnn", None): {"channels": 64, "decoder_blocks": 8, "decoder_heads": 4, "decoder_patch": 4, "dropout": 0.1},
    ("i2i-vit", None): {"blocks": 8, "heads": 8, "width": 192, "patch": 16, "dropout": 0.1, "decoder_width": 192},
    ("ssm-vae", None): {"latents": 64, "beta": 1.0, "sigma": 0.01, "dynamics_blocks": 4},
    ("ssm-slot", None): {"slots": 4, "slot_size": 64, "iterations": 3, "dynamics_blocks": 4, "dynamics_heads": 4},
    ("svib-oracle", None): {"factors": 3, "floats": 2, "values": 128, "mixing": 4},
    ("svib-oracle", "clevr"): {"factors": 4, "floats": 15},
    ("beta-vae", None): {"beta": 4.0, "latents": 10, "channels": 1, "anneal": 10_000, "likelihood": "bernoulli"},
    ("annealed-vae", None): {"gamma": 100.0, "capacity": 25.0, "anneal": 100_000, "latents": 10, "channels": 1},
    ("beta-tcvae", None): {"beta": 6.0, "alpha": 1.0, "gamma": 1.0, "dataset_size": 737_280},
    ("factor-vae", None): {"gamma": 6.0, "discriminator_width": 1000, "discriminator_layers": 5},
    ("beta-vae", "rooms"): {"channels": 3, "likelihood": "bernoulli"},
    ("beta-vae", "arm"): {"channels": 3, "likelihood": "sigmoid-gaussian"},
    ("beta-tcvae", "arm"): {"beta": 6.0, "dataset_size": 1_036_800, "likelihood": "sigmoid-gaussian"},
    ("parted-vae", None): {"latents": 5, "classes": 3, "class_latents": 1, "weight": 50.0, "anneal": 300_000},
    ("parted-vae", "rooms"): {"latents": 6, "classes": 4, "channels": 3},
    ("parted-vae-ss", None): {"latents": 5, "counts": (3,), "labelled": 3_000, "passes": "epoch", "labels": "shape"},
    ("parted-vae", "arm"): {"latents": 7, "classes": 6, "channels": 3},
    ("parted-vae-ss", "rooms"): {"latents": 6, "counts": (4,)},
    ("parted-vae-ss", "arm"): {"latents": 7, "counts": (6,)},
    ("weakde", "arm"): {"counts": (6, 6, 2)},
    ("weakde", None): {"latents": 10, "counts": (3, 3, 3), "adversary": 0.2, "relation": 1.0, "as_published": False},
    ("weakde", "rooms"): {"counts": (10, 4, 3)},
    ("mtd", None): {"counts": (3, 6, 40, 32, 32), "part": 1, "content": 5},
    ("beta-tcvae", "coat"): {
        "architecture": "conv128",
        "latents": 256,
        "likelihood": "gaussian",
        "dataset_size": 23_000,
    },
    ("slot-attention", "clevr6"): {"slots": 7, "iterations": 3, "hidden": 128, "projections": 64},
    ("slot-attention", "clevr10"): {
        "slots": 11,
        "hidden": 256,
        "projections": 128,
        "decoder_layers": 4,
        "decoder_head": 1,
    },
    ("slot-attention", "coat"): {"slots": 7, "iterations": 4},
    ("bo-qsa", None): {"epsilon": 1.0, "drop_path": 0.2, "noise_steps": 30_000, "encoder_stride": 2},
    ("savi", None): {"encoder_layers": 5, "encoder_stride": 2, "iterations": 2, "hidden": 256, "heads": 4, "frames": 6},
    ("savi-boxes", "moving-textured"): {"projections": 128, "predictor_hidden": 256, "target": "flow"},
    ("savi-supervised", "scripted"): {"encoder_stride": 1, "heads": 0, "target": "rgb"},
    ("slot-attention", "furniture"): {"encoder": "resnet18", "projections": 64, "hidden": 128, "iterations": 3},
    ("slot-attention-nvs", None): {"iterations": 1, "inputs": 1, "octaves": 15, "projections": 64, "hidden": 128},
    ("bo-qsa-nvs", None): {"initial": "learned", "epsilon": 1.0, "noise_steps": 30_000},
    ("osrt", None): {"slots": 5, "width": 768, "blocks": 5, "heads": 12, "rays": 6144, "octaves": 15},
    ("osrt", "clevr3d"): {"slots": 6, "rays": 8192, "targets": "all"},
    ("iodine", None): {"variant": "deepmind", "slots": 7, "iterations": 5, "slot_size": 64, "channels": 64},
    ("iodine", "coat"): {"variant": "coat", "slots": 7, "iterations": 5},
    ("moco", None): {"momentum": 0.999, "temperature": 0.2, "dimensions": 128, "smallest_crop": 0.2, "jitter": 0.4},
}

PARAMETERS = {
    ("ae", None): 499_435,
    ("beta-vae", None): 502_005,
    ("beta-vae", "rooms"): 504_055,
    ("annealed-vae", None): 502_005,
    ("annealed-vae", "rooms"): 504_055,
    ("beta-tcvae", None): 502_005,
    ("factor-vae", None): 502_005 + 4_017_002,
    ("parted-vae", None): 762_966,
    ("parted-vae-ss", None): 762_966,
    ("weakde", None): 7_535_574,
    ("mtd", None): 512_889,
    ("slot-attention", "clevr6"): 890_308,
    ("slot-attention", "clevr10"): 826_884,
    ("bo-qsa", None): 898_884,
    ("iodine", None): 1_177_168,
    ("iodine", "coat"): 1_026_692,
    ("moco", None): 1_525_568,
    ("i2i-cnn", None): 5_331_888,
    ("i2i-vit", None): 8_482_800,
    ("ssm-vae", None): 7_731_955,
    ("ssm-slot", None): 5_992_308,
    ("svib-oracle", None): 6_632_496,
}


def cells(table: dict[tuple[str, str | None], Any]) -> list[Any]:
    return [pytest.param(*key, value, id="-".join(filter(None, key))) for key, value in table.items()]


@cache
def most_objects(world: str) -> int:
    return int(worlds.get(world).sample(64).present.sum(1).max())


def test_every_model_has_every_preset() -> None:
    assert PRESETS.keys() == models.catalog().keys()
    assert {tuple(choices) for choices in PRESETS.values()} == {("paper", "small", "tiny")}


@pytest.mark.parametrize("name", ["paper", "small", "tiny"])
@pytest.mark.parametrize("model", PRESETS)
def test_every_preset_can_take_a_step(model: str, name: str) -> None:
    made = plan(model, preset_name=name)
    assert (made.rule is None) == (made.record.learns_from != "episodes")
    assert (made.model, made.preset, made.recipe) == (model, name, preset(model, name).recipe)


@pytest.mark.parametrize(
    "model", ["slot-attention", "bo-qsa", "slot-attention-nvs", "osrt", "iodine", "savi", "moco", "beta-tcvae"]
)
@pytest.mark.parametrize("name", ["paper", "small"])
def test_every_world_of_a_preset_can_be_learned_from(model: str, name: str) -> None:
    for one in PRESETS[model][name]:  # type: ignore[index]
        for world in one.data:
            made = plan(model, preset_name=name, world=world)
            assert (made.world, made.recipe, made.size) == (world, one.recipe, one.size)


@pytest.mark.parametrize(("model", "world", "published"), cells(PUBLISHED))
def test_recipes_are_the_published_ones(model: str, world: str | None, published: dict[str, Any]) -> None:
    recipe = plan(model, preset_name="paper", world=world, dry_run=False).recipe
    assert {name: getattr(recipe, name) for name in published} == published
    assert (recipe.decay == "halving") == (recipe.half_life is not None)


@pytest.mark.parametrize(("model", "world", "published"), cells(SETTINGS))
def test_settings_are_the_published_ones(model: str, world: str | None, published: dict[str, Any]) -> None:
    settings = plan(model, preset_name="paper", world=world, dry_run=False).settings
    assert {name: settings[name] for name in published} == published


@pytest.mark.parametrize(("model", "world", "count"), cells(PARAMETERS))
def test_parameter_counts_of_the_papers(model: str, world: str | None, count: int) -> None:
    made = plan(model, preset_name="paper", world=world)
    assert made.record.parameter_count(**made.settings) == count
    assert sum(weight.numel() for weight in made.new_model().parameters() if weight.requires_grad) == count


def test_epochs_are_the_published_ones() -> None:
    """100 epochs of the whole grid, 200 of half the images for FactorVAE, COAT's of 23,000 images, SVIB's of 44,800."""
    for world, images in (("dsprites", 737_280), ("rooms", 480_000), ("arm", 1_036_800)):
        other = {"factor-vae": 200, "mtd": 10}
        for model in ("beta-vae", "annealed-vae", "beta-tcvae", "parted-vae", "parted-vae-ss", "weakde", *other):
            epochs = other.get(model, 100)
            made = plan(model, preset_name="paper", world=world, dry_run=False)
            assert made.images == images
            assert made.recipe.steps * made.recipe.batch == epochs * made.images
    for model in ("i2i-cnn", "i2i-vit", "ssm-vae", "ssm-slot", "svib-oracle"):
        assert plan(model, preset_name="paper", dry_run=False).images == round(0.7 * 64_000)
        assert plan(model, preset_name="small", dry_run=False).images == 0
    for model, epochs in (("beta-tcvae", 300), ("slot-attention", 500), ("iodine", 1000), ("moco", 200)):
        made = plan(model, preset_name="paper", world="coat", dry_run=False)
        assert made.recipe.steps * made.recipe.batch / made.images == pytest.approx(epochs, rel=0.01)


@pytest.mark.parametrize("model", ["slot-attention", "bo-qsa", "iodine"])
@pytest.mark.parametrize("name", ["paper", "small", "tiny"])
def test_there_is_a_slot_for_every_object_and_the_background(model: str, name: str) -> None:
    for one in PRESETS[model][name]:  # type: ignore[index]
        for world in one.data:
            made = plan(model, preset_name=name, world=world, dry_run=False)
            assert made.settings["slots"] >= most_objects(world) + 1


def test_a_world_without_a_preset_takes_the_first() -> None:
    made = plan("beta-vae", preset_name="small", world="sprites")
    assert (made.world, made.images, made.settings["channels"]) == ("sprites", 0, 3)
    assert made.recipe == preset("beta-vae", "small").recipe


def test_a_world_that_no_paper_used_is_refused() -> None:
    with pytest.raises(InputError, match="no paper trained beta-VAE on sprites, only on dsprites, rooms"):
        plan("beta-vae", preset_name="paper", world="sprites")


@pytest.mark.parametrize(
    ("model", "name", "words"),
    [
        ("beta-vae", "papper", "there is no preset 'papper'; did you mean 'paper'"),
        ("beta-vae", "huge", "there is no preset 'huge'; choose from paper, small, tiny"),
        ("beta-vea", "paper", "there is no model 'beta-vea'; did you mean 'beta-vae'"),
    ],
)
def test_unknown_names(model: str, name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        preset(model, name)
