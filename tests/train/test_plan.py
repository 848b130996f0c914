"""Plans: what is written down is what is done, and what cannot work is refused before anything is."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from alebrije import __version__, models, worlds
from alebrije.errors import InputError
from alebrije.train import AllImages, Held, Images, Stream, TaskEpisodes, TaskSources
from alebrije.train.plan import FILE, Plan, plan, read_plan
from alebrije.train.presets import PRESETS

CPU = torch.device("cpu")


def tiny(model: str = "beta-vae", **changes: Any) -> Plan:
    return plan(model, preset_name="tiny", **changes)


def begin(folder: Path) -> None:
    """Make the run in a folder one that has learned something."""
    there = folder / "checkpoints" / "step-000000001"
    there.mkdir(parents=True)
    (there / "step.json").write_text("{}")


class TestWhatIsPlanned:
    def test_text_and_values_are_the_same(self) -> None:
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

    def test_the_order_of_settings_does_not_matter(self) -> None:
        """A decay needs a half-life, and parts a batch that they divide, wherever those are named."""
        for settings in ({"decay": "halving", "half_life": 9}, {"batch": 30, "accumulate": 3}):
            assert tiny(settings=settings) == tiny(settings=dict(reversed(settings.items())))

    def test_every_setting_is_written_down(self) -> None:
        for model in PRESETS:
            assert tiny(model).settings.keys() == models.get(model).defaults().keys()

    def test_settings_follow_from_the_data(self) -> None:
        assert [tiny(world=world).settings["channels"] for world in ("dsprites", "rooms", "sprites")] == [1, 3, 3]
        assert tiny("beta-tcvae").settings["dataset_size"] == 737_280
        assert tiny("beta-tcvae", world="rooms").settings["dataset_size"] == 480_000
        assert tiny("beta-tcvae", images=99).settings["dataset_size"] == 99
        assert tiny("beta-tcvae", world="sprites").settings["dataset_size"] == 300 * 32
        oracle = tiny("oracle", world="clevrtex").settings
        assert (oracle["factors"], oracle["floats"]) == (4, 15)  # three of its own and the background's
        assert tiny("beta-vae", settings={"channels": "3"}).settings["channels"] == 3

    def test_alpha_and_rule(self) -> None:
        usual = tiny("i2i-vit")
        assert (usual.world, usual.rule, usual.alpha) == ("sprites", "S-A", 0.6)
        made = tiny("i2i-vit", rule="M-NA", alpha=0.0)
        assert (made.rule, made.alpha) == ("M-NA", 0.0)
        place = made.place()
        assert isinstance(place, worlds.Task)
        assert place.split.train == place.split.core
        assert (tiny().rule, tiny().alpha) == (None, None)

    def test_a_model_of_images_may_learn_from_a_task(self) -> None:
        made = tiny("slot-attention", rule="M-NA")
        assert (made.world, made.rule, made.alpha, made.predicts) == ("sprites", "M-NA", 0.6, False)
        assert tiny("beta-tcvae", world="sprites", rule="S-A").settings == tiny("beta-tcvae", world="sprites").settings
        with pytest.raises(InputError, match="combinations are left out of plans for dsprites or rooms"):
            made.leaving_out({"shape": 0})

    def test_planning_leaves_the_random_numbers_of_its_caller_alone(self) -> None:
        torch.manual_seed(3)
        expected = torch.rand(4)
        torch.manual_seed(3)
        made = tiny("i2i-vit")
        made.new_model()
        assert torch.equal(torch.rand(4), expected)

    def test_a_new_model_is_a_matter_of_the_seed_alone(self) -> None:
        made = tiny()
        first = torch.cat([weight.flatten() for weight in made.new_model().parameters()])
        torch.manual_seed(99)
        assert torch.equal(first, torch.cat([weight.flatten() for weight in made.new_model().parameters()]))
        other = replace(made, seed=1).new_model()
        assert not torch.equal(first, torch.cat([weight.flatten() for weight in other.parameters()]))


class TestWhatIsDrawn:
    def test_held_all_or_streamed(self) -> None:
        streamed = tiny(images=0).source(CPU)
        assert isinstance(streamed, Stream)
        told: list[tuple[int, int]] = []
        held = tiny(images=300).source(CPU, progress=lambda done, of: told.append((done, of)))
        assert isinstance(held, Held)
        assert len(held) == told[-1][0] == told[-1][1] == 300
        assert held.items["images"].shape == (300, 1, 64, 64)
        whole = plan("beta-vae", preset_name="paper")
        assert whole.images == 737_280
        assert type(whole.drawing()) is AllImages
        assert type(whole.drawing("validation")) is type(tiny(images=300).drawing()) is Images

    def test_training_validation_and_test_share_nothing(self) -> None:
        made = tiny("oracle", images=64)
        scenes = {part: made.drawing(part).scenes(0, 64) for part in ("train", "validation", "test")}  # type: ignore[arg-type]
        places = {
            part: {tuple(row) for row in each.source.position.flatten(1).tolist()} for part, each in scenes.items()
        }
        assert all(len(each) == 64 for each in places.values())
        assert not places["train"] & places["validation"]
        assert not places["train"] & places["test"]
        drawing = made.drawing("test")
        assert isinstance(drawing, TaskEpisodes)
        place, found = drawing.task, scenes["test"].source.factors.flatten(0, 1).tolist()
        assert {tuple(one) for one in found} <= set(place.split.test)
        shown = scenes["validation"].source.factors.flatten(0, 1).tolist()
        assert {tuple(one) for one in shown} <= set(place.split.train)

    @pytest.mark.parametrize("images", [0, 300])
    def test_images_of_a_task_never_meet_what_is_held_out(self, images: int) -> None:
        made = tiny("ae", world="sprites", rule="S-A", alpha=0.2, images=images)
        place = made.place()
        assert isinstance(place, worlds.Task)
        shown = {}
        for part in ("train", "validation", "test"):
            drawing = made.drawing(part)  # type: ignore[arg-type]
            assert isinstance(drawing, TaskSources)
            shown[part] = {tuple(one) for one in drawing.scenes(0, 300).factors.flatten(0, 1).tolist()}
        assert shown["train"] == shown["validation"] == set(place.split.train)
        assert shown["test"] == set(place.split.test)
        batch = made.source(CPU).batch(0, 8)
        assert {name: tuple(each.shape) for name, each in batch.items()} == {"images": (8, 3, 64, 64)}

    def test_images_of_validation_are_others_for_any_seed(self) -> None:
        streams = [
            replace(tiny(world="sprites"), seed=seed).drawing(part).scenes(0, 20).position.flatten().tolist()  # type: ignore[arg-type]
            for seed in (0, 1)
            for part in ("train", "validation")
        ]
        assert len({tuple(stream) for stream in streams}) == 4


class TestRecords:
    @pytest.mark.parametrize("name", ["paper", "tiny"])
    @pytest.mark.parametrize("model", ["factor-vae", "ssm-slot", "moco", "oracle"])
    def test_there_and_back(self, tmp_path: Path, model: str, name: str) -> None:
        made = plan(model, preset_name=name, seed=5)
        assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made
        made.settle(tmp_path / "new" / "run")
        assert read_plan(tmp_path / "new" / "run") == made
        assert json.loads((tmp_path / "new" / "run" / FILE).read_text())["alebrije"] == __version__

    def test_the_same_plan_settles_again_and_writes_nothing(self, tmp_path: Path) -> None:
        tiny().settle(tmp_path)
        (tmp_path / "history.jsonl").write_text("")
        before = (tmp_path / FILE).stat().st_mtime_ns
        tiny().settle(tmp_path)
        assert (tmp_path / FILE).stat().st_mtime_ns == before

    @pytest.mark.parametrize(
        ("model", "changes", "words"),
        [
            ("beta-vae", {"seed": 1}, "seed 0, not 1"),
            ("beta-vae", {"world": "rooms"}, "world 'dsprites', not 'rooms'"),
            ("beta-vae", {"images": 64}, "images 0, not 64"),
            ("beta-vae", {"settings": {"steps": 301}}, "steps 300, not 301"),
            ("beta-vae", {"settings": {"lr": 1.0}}, r"lr 0\.002, not 1\.0"),
            ("beta-vae", {"settings": {"betas": "0.5,0.9"}}, r"betas \[0\.9, 0\.999\], not \[0\.5, 0\.9\]"),
            ("beta-vae", {"settings": {"beta": 9}}, r"beta 4\.0, not 9\.0"),
            ("beta-vae", {"settings": {"latents": 9}}, "latents 10, not 9"),
            ("moco", {"settings": {"momentum": 0.5}}, r"momentum 0\.99, not 0\.5"),
            ("beta-tcvae", {"settings": {"alpha": 2}}, r"alpha 1\.0, not 2\.0"),
            ("i2i-vit", {"alpha": 0.2}, r"alpha 0\.6, not 0\.2"),
            ("i2i-vit", {"rule": "M-NA"}, "rule 'S-A', not 'M-NA'"),
            ("slot-attention", {"rule": "S-A"}, "rule None, not 'S-A'"),
        ],
    )
    def test_another_plan_is_refused_by_what_differs(
        self, tmp_path: Path, model: str, changes: dict[str, Any], words: str
    ) -> None:
        tiny(model).settle(tmp_path)
        begin(tmp_path)
        with pytest.raises(InputError, match=f"holds a run with {words}; the same command continues it"):
            tiny(model, **changes).settle(tmp_path)
        assert read_plan(tmp_path) == tiny(model)

    def test_a_run_that_never_learned_gives_way(self, tmp_path: Path) -> None:
        tiny(settings={"lr": 0.5}).settle(tmp_path)
        tiny(settings={"lr": 0.1}).settle(tmp_path)
        assert read_plan(tmp_path) == tiny(settings={"lr": 0.1})

    def test_another_model_is_named_first(self, tmp_path: Path) -> None:
        tiny("beta-vae").settle(tmp_path)
        begin(tmp_path)
        with pytest.raises(InputError, match="holds a run with model 'beta-vae', not 'moco'"):
            tiny("moco").settle(tmp_path)

    def test_a_default_that_is_named_is_no_difference(self, tmp_path: Path) -> None:
        tiny().settle(tmp_path)
        tiny(settings={"latents": 10, "weight_decay": 0}).settle(tmp_path)
        assert read_plan(tmp_path).settings["latents"] == 10

    def test_settings_that_an_older_version_did_not_know_have_their_defaults(self, tmp_path: Path) -> None:
        made = tiny()
        stored = made.to_json()
        del stored["settings"]["likelihood"], stored["recipe"]["betas"]
        (tmp_path / FILE).write_text(json.dumps(stored | {"alebrije": "0.0.1"}))
        made.settle(tmp_path)
        begin(tmp_path)
        made.settle(tmp_path)
        with pytest.raises(InputError, match="likelihood 'bernoulli', not 'gaussian'"):
            tiny(settings={"likelihood": "gaussian"}).settle(tmp_path)
        with pytest.raises(InputError, match=r"betas \[0.9, 0.999\], not \[0.5, 0.9\]"):
            replace(made, recipe=replace(made.recipe, betas=(0.5, 0.9))).settle(tmp_path)

    def test_a_folder_of_other_things(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("mine")
        with pytest.raises(InputError, match="holds other things than a run"):
            tiny().settle(tmp_path)
        assert os.listdir(tmp_path) == ["thesis.tex"]

    def test_what_a_killed_start_left_is_no_hindrance(self, tmp_path: Path) -> None:
        (tmp_path / f".{FILE}.abc.part").write_text("{")
        tiny().settle(tmp_path)
        assert read_plan(tmp_path) == tiny()

    def test_a_file_where_the_folder_would_be(self, tmp_path: Path) -> None:
        (tmp_path / "run").write_text("mine")
        with pytest.raises(InputError, match="run: cannot be written"):
            tiny().settle(tmp_path / "run")
        assert (tmp_path / "run").read_text() == "mine"

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "cannot be read"),
            ('{"model": "beta-v', "cannot be read"),
            ("\x00\x00", "cannot be read"),
            ("[1, 2]", "no plan"),
            ("{}", "no plan"),
            ('{"model": "beta-vae"}', "no plan"),
        ],
    )
    def test_a_damaged_record(self, tmp_path: Path, text: str, words: str) -> None:
        (tmp_path / FILE).write_text(text)
        with pytest.raises(InputError, match=f"{FILE} .*{words}"):
            read_plan(tmp_path)
        with pytest.raises(InputError):
            tiny().settle(tmp_path)
        assert (tmp_path / FILE).read_text() == text

    @pytest.mark.parametrize(
        "damage",
        [{"recipe": ["steps"]}, {"recipe": 5}, {"recipe": {}}, {"recipe": {"betas": None}}],
        ids=str,
    )
    def test_a_record_with_a_damaged_part(self, tmp_path: Path, damage: dict[str, Any]) -> None:
        (tmp_path / FILE).write_text(json.dumps(tiny().to_json() | damage))
        with pytest.raises(InputError, match="no plan that this version can read"):
            read_plan(tmp_path)
        begin(tmp_path)
        with pytest.raises(InputError, match="holds a run with"):
            tiny().settle(tmp_path)

    def test_no_record(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"run\.json cannot be read"):
            read_plan(tmp_path)


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
            ("beta-vae", "beta", "-1", "beta must be a finite number from 0 up"),
            ("beta-vae", "betas", "0.9", "betas must be two numbers with a comma between them"),
            ("beta-vae", "clip", "", "clip must be a number or none, not ''"),
            ("beta-vae", "clip_each", "maybe", "clip_each must be true or false"),
            ("beta-vae", "optimiser", "adamw", "optimiser must be adam or sgd, not 'adamw'"),
            ("beta-vae", "decay", "linear", "decay must be constant or halving or cosine or tail"),
            ("beta-vae", "precision", "float16", "precision must be float32 or bfloat16"),
            ("beta-vae", "clip_by", "l2", "clip_by must be norm or largest or value"),
            ("beta-vae", "weight_decay", "-1", "cannot learn with these settings: Invalid weight_decay"),
            ("beta-vae", "accumulate", "3", "a batch of 32 cannot be cut into 3 equal parts"),
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
            ("beta-tcvae", "batch", "1", "a batch of 1 images cannot be drawn from 737280"),
            ("factor-vae", "batch", "2", "takes 4 images or more"),
            ("moco", "queue", "100", "a queue of 100 is not a multiple of the batch of 32"),
            ("moco", "accumulate", "4", "with accumulate 1"),  # a part of 8 divides the queue of 256
            ("slot-attention", "size", "20", "multiple of 8 pixels"),
            ("slot-attention", "channels", "0", "Slot Attention cannot learn with these settings"),
            ("slot-attention", "hidden", "-1", "Slot Attention cannot learn with these settings"),
            ("slot-attention", "decoder_head", "2", "must match the size"),
            ("i2i-vit", "heads", "3", "heads must divide width, and 3 does not divide 64"),
            ("i2i-vit", "patch", "5", "patches of 5 pixels do not tile images of 16"),
            ("i2i-cnn", "size", "24", "a size that 16 divides"),
            ("ssm-slot", "size", "48", "8, 16, 32, 64, 128"),
            ("oracle", "factors", "5", r"factors must have the shape \[B, N, 5\], not \[16, 2, 3\]"),
            ("oracle", "values", "3", "factors of sprites have up to 4 values"),
            ("oracle", "floats", "0", None),  # an Oracle that is not told where things are
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
            ("beta-vae", {"rule": "S-A"}, "rules need two objects in every scene, which dsprites has not"),
            ("slot-attention", {"rule": "S-B"}, "there is no rule 'S-B'; there are S-A"),
            ("slot-attention", {"rule": "S-A", "alpha": 2.0}, "alpha must be a number from 0 to 1"),
            ("beta-vae", {"alpha": 0.2}, "beta-VAE learns from a world here, so there is no alpha"),
            ("beta-vae", {"world": "clevr7"}, "there is no world 'clevr7'; there are sprites, clevr"),
            ("i2i-vit", {"rule": "S-B"}, "there is no rule 'S-B'; there are S-A"),
            ("i2i-vit", {"world": "rooms"}, "rules need two objects in every scene"),
            ("i2i-vit", {"alpha": 2.0}, "alpha must be a number from 0 to 1"),
            ("i2i-vit", {"alpha": math.nan}, "alpha must be a number from 0 to 1"),
            ("beta-vae", {"images": -1}, "images must be at least 0, not -1"),
            ("beta-vae", {"images": 2.5}, "images must be a whole number"),
            ("beta-tcvae", {"images": 20}, "a batch of 32 images cannot be drawn from 20"),
            ("beta-vae", {"seed": -1}, "seed must be at least 0"),
            ("beta-vae", {"seed": 10**30}, "seed must be at least 0 and less than"),
            ("beta-vae", {"seed": "x"}, "seed must be a whole number"),
        ],
    )
    def test_the_rest(self, model: str, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            tiny(model, **changes)

    def test_the_largest_seed_can_be_used(self) -> None:
        made = tiny("i2i-vit", seed=10**15 - 1)
        assert made.new_model().training
        assert len(made.drawing("validation").scenes(0, 1)) == 1
        assert torch.Generator().manual_seed(made.seed * 1_000 + 7).initial_seed() == made.seed * 1_000 + 7

    def test_a_rehearsal_says_no_more_than_it_must(self, recwarn: pytest.WarningsRecorder) -> None:
        with pytest.raises(InputError) as refused:
            tiny("slot-attention", settings={"decoder_head": 2})
        assert "\n" not in str(refused.value)
        assert not recwarn.list


class TestInCompany:
    """What several processes cannot do is refused where the plan is made."""

    @pytest.mark.parametrize(
        ("model", "settings", "words"),
        [
            ("moco", {}, "one process has to train it"),
            ("ae", {"batch": 9}, "a batch of 9 cannot be shared by 2 devices"),
            ("ae", {"batch": 6, "accumulate": 2}, "a batch of 6 cannot be shared by 2 devices in 2 parts each"),
            ("factor-vae", {"batch": 2}, "FactorVAE"),
        ],
    )
    def test_refused(self, model: str, settings: dict[str, int], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WORLD_SIZE", "2")
        with pytest.raises(InputError, match=words):
            plan(model, preset_name="tiny", settings=settings)

    def test_a_queue_sees_whole_batches(self) -> None:
        with pytest.raises(InputError, match="with accumulate 1"):
            plan("moco", preset_name="tiny", settings={"accumulate": 2})
