"""Training on views: all views of a scene, or each of them as an image."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alebrije.errors import InputError
from alebrije.train.check import training_check
from alebrije.train.options import RunOptions
from alebrije.train.plan import plan
from alebrije.train.run import run_plan
from alebrije.train.sources import to_float
from alebrije.train.view_sets import EachView, Views, views_of
from alebrije.worlds import get

CPU = torch.device("cpu")


def test_views_come_with_their_cameras() -> None:
    scenes = Views(get("furniture"), 16, seed=1).scenes(5, 3)
    batch = Views(get("furniture"), 16, seed=1).render(scenes, CPU)
    assert (batch["images"].shape, batch["images"].dtype) == ((3, 3, 3, 16, 16), torch.uint8)
    assert scenes.cameras is not None
    assert torch.equal(batch["cameras"], scenes.cameras.float())
    assert to_float(batch["images"]).shape == (3, 3, 3, 16, 16)
    assert views_of("furniture") == 3


def test_each_view_is_an_image() -> None:
    views, each = Views(get("furniture"), 16, seed=1), EachView(get("furniture"), 16, seed=1)
    together = views.render(views.scenes(0, 4), CPU)["images"].flatten(0, 1)
    assert torch.equal(each.render(each.scenes(2, 8), CPU)["images"], together[2:10])


def test_slot_attention_learns_from_single_views(tmp_path: Path) -> None:
    settings = {"steps": 2, "batch": 4, "size": 16, "decoder_layers": 1, "channels": 8, "warmup": 0}
    made = plan("slot-attention", preset_name="tiny", world="furniture", images=8, settings=settings)
    assert isinstance(made.scene_set(), EachView)
    run_plan(made, tmp_path, RunOptions(check_size=4))
    check = training_check(made, 4, CPU)
    assert check is not None
    assert 0 <= check(made.new_model().eval())["reconstruction error"] < 1


def test_the_check_scores_all_views_together() -> None:
    made = plan("slot-attention-nvs", preset_name="tiny")
    check = training_check(made, 2, CPU)
    assert check is not None
    scores = check(made.new_model().eval())
    assert set(scores) == {"reconstruction error", "FG-ARI", "FG-ARP", "FG-ARR", "ARI"}


def test_what_does_not_fit_says_so() -> None:
    with pytest.raises(InputError, match="from views, and clevr6 has images; choose from clevr3d, furniture"):
        plan("osrt", preset_name="tiny", world="clevr6")
    with pytest.raises(InputError, match="OSRT learns from views, and moving has videos"):
        plan("osrt", preset_name="tiny", world="moving")
    with pytest.raises(InputError, match="OSRT learns from views, and sprites/S-A has images"):
        plan("osrt", preset_name="tiny", world="sprites", rule="S-A")
    with pytest.raises(InputError, match="needs single images, and moving has videos"):
        plan("slot-attention", preset_name="tiny", world="moving")
    with pytest.raises(InputError, match="at least 4 views, not 3"):
        plan("slot-attention-nvs", preset_name="tiny", settings={"inputs": 3})
