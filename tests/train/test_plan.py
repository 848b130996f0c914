"""Plans: what they contain, what they render, and what they refuse."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from alebrije import models, worlds
from alebrije.errors import InputError
from alebrije.train import AllImages, Images, PreloadedSource, StreamedSource, TaskEpisodes, TaskSources
from alebrije.train.plan import Plan, plan
from alebrije.train.presets import PRESETS

CPU = torch.device("cpu")


def tiny(model: str = "beta-vae", **changes: Any) -> Plan:
    return plan(model, preset_name="tiny", **changes)


class TestContents:
    def test_settings_may_be_text_or_values(self) -> None:
        typed = {"steps": "20_000", "lr": "1e-3", "betas": "0.5, 0.9", "clip": "none", "clip_each": "False"}
        typed |= {"half_life": "7", "decay": "halving", "latents": "12", "beta": "2", "size": "64"}
        given = {"steps": 20_000, "lr": 1e-3, "betas": (0.5, 0.9), "clip": None, "clip_each": False}
        given |= {"half_life": 7, "decay": "halving", "latents": 12, "beta": 2, "size": 64}
        made = tiny(settings=typed)
        assert made == tiny(settings=given)
        recipe = made.recipe
        assert (recipe.steps, recipe.lr, recipe.betas, recipe.clip) == (20_000, 1e-3, (0.5, 0.9), None)
        assert (made.settings["latents"], made.settings["beta"]) == (12, 2.0)
        assert isinstance(made.settings["beta"], float)

    def test_a_table_of_rates(self) -> None:
        rates = {"": 1e-3, "decoder.": 1e-4}
        assert tiny(settings={"lr": rates}).recipe.lr == rates

    def test_a_plateau_is_stored_only_where_it_is_used(self) -> None:
        """So a plan without one keeps its key, and the cells under it."""
        made = tiny(settings={"decay": "plateau", "window": "9", "patience": "2", "drop": "0.9"})
        assert (made.recipe.window, made.recipe.patience, made.recipe.drop) == (9, 2, 0.9)
        assert made.to_json()["recipe"]["window"] == 9
        assert Plan.from_json(made.to_json()) == made
        assert "window" not in tiny().to_json()["recipe"]
        assert Plan.from_json(tiny().to_json()) == tiny()

    def test_the_order_of_settings_does_not_matter(self) -> None:
        """A decay needs a half-life, and `accumulate` must divide the batch, in any order."""
        for settings in ({"decay": "halving", "half_life": 9}, {"batch": 30, "accumulate": 3}):
            assert tiny(settings=settings) == tiny(settings=dict(reversed(settings.items())))

    def test_plans_contain_every_setting(self) -> None:
        for model in PRESETS:
            assert tiny(model).settings.keys() == models.get(model).defaults().keys()

    def test_settings_follow_from_the_data(self) -> None:
        assert [tiny(world=world).settings["channels"] for world in ("dsprites", "rooms", "sprites")] == [1, 3, 3]
        assert tiny("beta-tcvae").settings["dataset_size"] == 737_280
        assert tiny("beta-tcvae", world="rooms").settings["dataset_size"] == 480_000
        assert tiny("beta-tcvae", images=99).settings["dataset_size"] == 99
        assert tiny("beta-tcvae", world="sprites").settings["dataset_size"] == 300 * 32
        oracle = tiny("svib-oracle", world="clevrtex").settings
        assert (oracle["factors"], oracle["floats"]) == (4, 15)  # three of the objects and the background
        assert tiny("beta-vae", settings={"channels": "3"}).settings["channels"] == 3

    def test_alpha_and_rule(self) -> None:
        usual = tiny("i2i-vit")
        assert (usual.world, usual.rule, usual.alpha) == ("sprites", "S-A", 0.6)
        made = tiny("i2i-vit", rule="M-NA", alpha=0.0)
        assert (made.rule, made.alpha) == ("M-NA", 0.0)
        task = made.world_or_task()
        assert isinstance(task, worlds.Task)
        assert task.split.train == task.split.core
        assert (tiny().rule, tiny().alpha) == (None, None)

    def test_a_model_of_images_may_learn_from_a_task(self) -> None:
        made = tiny("slot-attention", rule="M-NA")
        assert (made.world, made.rule, made.alpha, made.predicts) == ("sprites", "M-NA", 0.6, False)
        assert tiny("beta-tcvae", world="sprites", rule="S-A").settings == tiny("beta-tcvae", world="sprites").settings
        with pytest.raises(InputError, match="combinations can be left out of plans for dsprites, rooms or arm"):
            made.leaving_out({"shape": 0})

    def test_the_random_state_of_the_caller_does_not_change(self) -> None:
        torch.manual_seed(3)
        expected = torch.rand(4)
        torch.manual_seed(3)
        made = tiny("i2i-vit")
        made.new_model()
        assert torch.equal(torch.rand(4), expected)

    def test_a_new_model_depends_only_on_the_seed(self) -> None:
        made = tiny()
        first = torch.cat([weight.flatten() for weight in made.new_model().parameters()])
        torch.manual_seed(99)
        assert torch.equal(first, torch.cat([weight.flatten() for weight in made.new_model().parameters()]))
        other = replace(made, seed=1).new_model()
        assert not torch.equal(first, torch.cat([weight.flatten() for weight in other.parameters()]))


class TestSceneSets:
    def test_preloaded_or_streamed(self) -> None:
        streamed = tiny(images=0).source(CPU)
        assert isinstance(streamed, StreamedSource)
        reported: list[tuple[int, int]] = []
        preloaded = tiny(images=300).source(CPU, progress=lambda done, of: reported.append((done, of)))
        assert isinstance(preloaded, PreloadedSource)
        assert len(preloaded) == reported[-1][0] == reported[-1][1] == 300
        assert preloaded.items["images"].shape == (300, 1, 64, 64)
        whole = plan("beta-vae", preset_name="paper")
        assert whole.images == 737_280
        assert type(whole.scene_set()) is AllImages
        assert type(whole.scene_set("validation")) is type(tiny(images=300).scene_set()) is Images

    def test_training_validation_and_test_share_nothing(self) -> None:
        made = tiny("svib-oracle", images=64)
        scenes = {part: made.scene_set(part).scenes(0, 64) for part in ("train", "validation", "test")}  # type: ignore[arg-type]
        positions = {
            part: {tuple(row) for row in each.source.position.flatten(1).tolist()} for part, each in scenes.items()
        }
        assert all(len(each) == 64 for each in positions.values())
        assert not positions["train"] & positions["validation"]
        assert not positions["train"] & positions["test"]
        scene_set = made.scene_set("test")
        assert isinstance(scene_set, TaskEpisodes)
        task, found = scene_set.task, scenes["test"].source.factors.flatten(0, 1).tolist()
        assert {tuple(one) for one in found} <= set(task.split.test)
        shown = scenes["validation"].source.factors.flatten(0, 1).tolist()
        assert {tuple(one) for one in shown} <= set(task.split.train)

    @pytest.mark.parametrize("images", [0, 300])
    def test_images_of_a_task_never_show_held_out_combinations(self, images: int) -> None:
        made = tiny("ae", world="sprites", rule="S-A", alpha=0.2, images=images)
        task = made.world_or_task()
        assert isinstance(task, worlds.Task)
        shown = {}
        for part in ("train", "validation", "test"):
            scene_set = made.scene_set(part)  # type: ignore[arg-type]
            assert isinstance(scene_set, TaskSources)
            shown[part] = {tuple(one) for one in scene_set.scenes(0, 300).factors.flatten(0, 1).tolist()}
        assert shown["train"] == shown["validation"] == set(task.split.train)
        assert shown["test"] == set(task.split.test)
        batch = made.source(CPU).batch(0, 8)
        assert {name: tuple(each.shape) for name, each in batch.items()} == {"images": (8, 3, 64, 64)}

    def test_validation_has_other_images_for_any_seed(self) -> None:
        streams = [
            replace(tiny(world="sprites"), seed=seed).scene_set(part).scenes(0, 20).position.flatten().tolist()  # type: ignore[arg-type]
            for seed in (0, 1)
            for part in ("train", "validation")
        ]
        assert len({tuple(stream) for stream in streams}) == 4


class TestRefusals:
    @pytest.mark.parametrize(
        ("model", "name", "value", "words"),
        [
            ("beta-vae", "steps", "many", "steps must be a whole number, not 'many'"),
            ("beta-vae", "steps", 2.5, "steps must be a whole number, not 2.5"),
            ("beta-vae", "steps", True, "steps must be a whole number, not True"),
            ("beta-vae", "steps", "0", "steps must be at least 1"),
            ("beta-vae", "latents", "2.5", "latents must be a whole number"),
            ("beta-vae", "latents", None, "latents must be a whole number"),
            ("beta-vae", "latents", [3], "latents must be a whole number"),
            ("beta-vae", "lr", "fast", "lr must be a number, not 'fast'"),
            ("beta-vae", "lr", "nan", "lr must be a number"),
            ("beta-vae", "lr", "0", "lr must be a positive number"),
            ("beta-vae", "lr", {"": "fast"}, "lr must be a number"),
            ("beta-vae", "beta", math.inf, "beta must be a number"),
            ("beta-vae", "beta", "-1", "beta must be a finite number of at least 0"),
            ("beta-vae", "betas", "0.9", "betas must be two numbers separated by a comma"),
            ("beta-vae", "clip", "", "clip must be a number or none, not ''"),
            ("beta-vae", "clip_each", "maybe", "clip_each must be true or false"),
            ("beta-vae", "optimiser", "adamw", "optimiser must be adam or sgd, not 'adamw'"),
            ("beta-vae", "decay", "linear", "decay must be constant or halving or cosine or tail or plateau"),
            ("beta-vae", "precision", "float16", "precision must be float32 or bfloat16"),
            ("beta-vae", "clip_by", "l2", "clip_by must be norm or largest or value"),
            ("beta-vae", "weight_decay", "-1", "cannot train with these settings: Invalid weight_decay"),
            ("beta-vae", "accumulate", "3", "a batch of 32 cannot be split into 3 equal parts"),
            ("beta-vae", "architecture", "conv256", "architecture must be conv64 or conv128"),
            ("beta-vae", "architecture", "conv128", r"'conv128' takes images .* not \[32, 3, 64, 64\]"),
            ("beta-vae", "size", "32", r"'conv64' takes images .* not \[32, 3, 32, 32\]"),
            ("beta-vae", "size", "-8", "size must be at least 1"),
            (
                "beta-vae",
                "latnets",
                "3",
                r"beta-VAE and its recipe have no setting 'latnets'; did you mean 'latents'\?",
            ),
            ("beta-vae", "step", "3", r"no setting 'step'; did you mean 'steps'\?"),
            ("beta-tcvae", "batch", "1", "the batch must have 2 to 737280 images, .* not 1"),
            ("factor-vae", "batch", "2", "needs 4 images or more"),
            ("moco", "queue", "100", "a queue of 100 is not a multiple of the batch of 32"),
            ("moco", "accumulate", "4", "with accumulate 1"),  # a part of 8 divides the queue of 256
            ("slot-attention", "size", "20", "multiple of 8 pixels"),
            ("slot-attention", "channels", "0", "Slot Attention cannot train with these settings"),
            ("slot-attention", "hidden", "-1", "Slot Attention cannot train with these settings"),
            ("slot-attention", "decoder_head", "2", "must match the size"),
            ("i2i-vit", "heads", "3", "width must be divisible by heads, but they are 64 and 3"),
            ("i2i-vit", "patch", "5", "patches of 5 pixels do not tile images of 16"),
            ("i2i-cnn", "size", "24", "a size divisible by 16"),
            ("ssm-slot", "size", "48", "8, 16, 32, 64, 128"),
            ("svib-oracle", "factors", "5", r"factors must have the shape \[B, N, 5\], not \[16, 2, 3\]"),
            ("svib-oracle", "values", "3", "factors of sprites have up to 4 values"),
            ("svib-oracle", "floats", "0", None),  # an Oracle that does not read positions
        ],
    )
    def test_settings(self, model: str, name: str, value: Any, words: str | None) -> None:
        if words is None:
            tiny(model, settings={name: value})
            return
        with pytest.raises(InputError, match=words):
            tiny(model, settings={name: value})

    @pytest.mark.parametrize(
        ("model", "changes", "words"),
        [
            ("beta-vae", {"rule": "S-A"}, "rules need two objects in every scene; sprites"),
            ("slot-attention", {"rule": "S-B"}, "there is no rule 'S-B'; did you mean 'S-A'"),
            ("slot-attention", {"rule": "S-A", "alpha": 2.0}, "alpha must be a number from 0 to 1"),
            ("beta-vae", {"alpha": 0.2}, "beta-VAE learns from a world here, so alpha has no meaning"),
            ("beta-vae", {"world": "clevr7"}, "there is no world 'clevr7'; did you mean 'clevr'"),
            ("i2i-vit", {"rule": "S-B"}, "there is no rule 'S-B'; did you mean 'S-A'"),
            ("i2i-vit", {"world": "rooms"}, "rules need two objects in every scene"),
            ("i2i-vit", {"alpha": 2.0}, "alpha must be a number from 0 to 1"),
            ("i2i-vit", {"alpha": math.nan}, "alpha must be a number from 0 to 1"),
            ("beta-vae", {"images": -1}, "images must be at least 0, not -1"),
            ("beta-vae", {"images": 2.5}, "images must be a whole number"),
            ("beta-tcvae", {"images": 20}, "the batch must have 2 to 20 images, .* not 32"),
            ("beta-vae", {"seed": -1}, "seed must be at least 0"),
            ("beta-vae", {"seed": 10**30}, "seed must be less than"),
            ("beta-vae", {"seed": "x"}, "seed must be a whole number"),
        ],
    )
    def test_other_arguments(self, model: str, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            tiny(model, **changes)

    def test_the_largest_seed_can_be_used(self) -> None:
        made = tiny("i2i-vit", seed=10**15 - 1)
        assert made.new_model().training
        assert len(made.scene_set("validation").scenes(0, 1)) == 1
        assert torch.Generator().manual_seed(made.seed * 1_000 + 7).initial_seed() == made.seed * 1_000 + 7

    def test_a_dry_run_gives_one_line_and_no_warning(self, recwarn: pytest.WarningsRecorder) -> None:
        with pytest.raises(InputError) as refused:
            tiny("slot-attention", settings={"decoder_head": 2})
        assert "\n" not in str(refused.value)
        assert not recwarn.list


class TestSeveralProcesses:
    """A plan that several processes cannot carry out is refused."""

    @pytest.mark.parametrize(
        ("model", "settings", "words"),
        [
            ("moco", {}, "train it in one process"),
            ("ae", {"batch": 9}, "a batch of 9 cannot be shared by 2 devices"),
            ("ae", {"batch": 6, "accumulate": 2}, "a batch of 6 cannot be shared by 2 devices in 2 parts each"),
            ("factor-vae", {"batch": 2}, "FactorVAE"),
        ],
    )
    def test_refused(self, model: str, settings: dict[str, int], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WORLD_SIZE", "2")
        with pytest.raises(InputError, match=words):
            plan(model, preset_name="tiny", settings=settings)

    def test_a_queue_needs_whole_batches(self) -> None:
        with pytest.raises(InputError, match="with accumulate 1"):
            plan("moco", preset_name="tiny", settings={"accumulate": 2})
