"""Training without some combinations: no training image shows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.train.plan import Plan, plan
from alebrije.train.run_folder import PLAN_FILE, claim_folder, read_plan
from alebrije.train.scene_sets import AllImages, Images, has_values, remaining_indices


class TestHeldOut:
    values = (("scale", 2), ("shape", 1))

    @pytest.mark.parametrize("world", ["dsprites", "rooms"])
    def test_all_images_but_those(self, world: str) -> None:
        place = worlds.get(world)
        made = plan("ae", preset_name="paper", world=world).leaving_out(dict(self.values))
        scene_set = made.scene_set()
        assert isinstance(scene_set, AllImages)
        counts = dict(zip(place.vocabulary.names, place.vocabulary.counts, strict=True))
        assert (
            made.images
            == made.distinct_images
            == place.vocabulary.size - place.vocabulary.size // (counts["scale"] * counts["shape"])
        )
        numbers = remaining_indices(place, self.values)
        assert len(numbers) == made.images
        assert len(np.unique(numbers)) == len(numbers)
        rows = np.stack(np.unravel_index(numbers, place.vocabulary.counts), 1)
        assert not bool(has_values(place, torch.from_numpy(rows), self.values).any())
        last = scene_set.scenes(made.images - 3, 3)
        assert place.grid(numbers[-3:]).equals(last)

    @pytest.mark.parametrize("part", ["train", "validation"])
    def test_a_stream_without_them(self, part: Any) -> None:
        made = plan("ae", preset_name="small", world="dsprites", seed=3).leaving_out(dict(self.values))
        scene_set, plain = made.scene_set(part), replace(made, without=()).scene_set(part)
        assert type(scene_set) is Images
        place, found, before = worlds.get("dsprites"), scene_set.scenes(0, 3000), plain.scenes(0, 3000)
        bad = has_values(place, before.factors[:, 0], self.values)
        assert 100 < int(bad.sum()) < 250  # a eighteenth of 3,000 is 167
        assert not bool(has_values(place, found.factors[:, 0], self.values).any())
        assert torch.equal(found.factors[~bad], before.factors[~bad])
        again = found.factors[bad][:, 0]
        assert {tuple(row) for row in again[:, 1:3].tolist()} == {
            (shape, scale) for shape in range(3) for scale in range(6) if (shape, scale) != (1, 2)
        }

    def test_a_scene_depends_on_its_number_alone(self) -> None:
        scene_set = plan("ae", preset_name="small", world="rooms").leaving_out(dict(self.values)).scene_set()
        whole = scene_set.scenes(0, 700)
        assert scene_set.scenes(130, 300).equals(whole[130:430])

    def test_the_images_that_a_model_learns_from(self) -> None:
        made = plan("ae", preset_name="tiny", world="dsprites", images=300).leaving_out({"shape": 0, "scale": 0})
        batch = made.source(torch.device("cpu")).batch(0, 300)["images"]
        left_out = worlds.get("dsprites").grid(np.arange(0, 40 * 32 * 32, 40))  # shape 0, scale 0
        gone = {image.numpy().tobytes() for image in worlds.get("dsprites").render(left_out, 64).images[:, :1]}
        assert len(batch) == 300
        assert not {image.numpy().tobytes() for image in batch} & gone

    @pytest.mark.parametrize("images", [0, None])
    def test_the_size_of_the_set_is_what_is_left(self, images: int | None) -> None:
        made = plan("beta-tcvae", preset_name="paper", world="dsprites", images=images)
        left = made.leaving_out({"shape": 0, "scale": 0})
        assert made.settings["dataset_size"] == 737_280
        assert left.settings["dataset_size"] == 737_280 - 40 * 32 * 32
        assert left.images == (0 if images == 0 else 737_280 - 40 * 32 * 32)

    def test_plans_there_and_back(self, tmp_path: Path) -> None:
        made = plan("beta-tcvae", preset_name="paper", world="rooms", seed=1)
        less = made.leaving_out({"shape": 0, "scale": 7})
        assert "without" not in made.to_json()
        assert less.settings["dataset_size"] == 465_000
        assert Plan.from_json(made.to_json()) == made
        assert Plan.from_json(less.to_json()) == less
        claim_folder(less, tmp_path / "less")
        assert read_plan(tmp_path / "less") == less
        claim_folder(less, tmp_path / "less")
        (tmp_path / "less" / "checkpoints" / "step-000000001").mkdir(parents=True)
        (tmp_path / "less" / "checkpoints" / "step-000000001" / "step.json").write_text("{}")
        with pytest.raises(InputError, match="holds a run with"):
            claim_folder(made, tmp_path / "less")
        with pytest.raises(InputError, match="holds a run with"):
            claim_folder(replace(made, images=465_000, settings=less.settings), tmp_path / "less")
        assert "without" in (tmp_path / "less" / PLAN_FILE).read_text()

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            ({"colour": 0}, "dsprites has no factor 'colour'"),
            ({"shape": 3}, "shape has values 0 to 2 in dsprites, not 3"),
            ({}, "at least one value"),
        ],
    )
    def test_refusals(self, values: dict[str, int], words: str) -> None:
        with pytest.raises(InputError, match=words):
            plan("ae", preset_name="tiny").leaving_out(values)

    def test_only_grids_and_only_once(self) -> None:
        for made in (plan("slot-attention", preset_name="tiny"), plan("ae").leaving_out({"shape": 0})):
            with pytest.raises(InputError, match="dsprites, rooms or arm, once"):
                made.leaving_out({"shape": 0})
