"""The training step against plain torch, and losses or weights that are not finite."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed, nn

from alebrije.models import slot_attention
from alebrije.models.slot_attention import SlotAttention
from alebrije.train import DivergedError, PreloadedSource, Recipe, RunOptions, checkpoints, train
from alebrije.train.process_group import ProcessGroup
from alebrije.train.train_step import TrainStep, with_constant_numbers
from tests.train.small_model import RECIPE, NaNGradient, NaNLoss, same, small, source


def test_the_step_equals_plain_torch(tmp_path: Path) -> None:
    ours = train(small(dropout=0.0), source(), RECIPE, tmp_path)
    theirs, data = small(dropout=0.0).train(), source()
    optimiser = torch.optim.Adam(theirs.parameters(), 1e-2)
    for step in range(12):
        optimiser.param_groups[0]["lr"] = 1e-2 * RECIPE.lr_factor(step)
        batch = {"images": data.batch(step * 8, 8)["images"].float() / 255}
        optimiser.zero_grad()
        theirs.training_loss(batch, torch.tensor(float(step)))["loss"].backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        optimiser.step()
    for weight, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-5, atol=1e-6)


def test_accumulated_parts_equal_the_whole_batch(tmp_path: Path) -> None:
    whole = train(small(dropout=0.0), source(), RECIPE, tmp_path / "whole")
    recipe = Recipe(**{**vars(RECIPE), "accumulate": 4})
    parts = train(small(dropout=0.0), source(), recipe, tmp_path / "parts")
    for weight, expected in zip(parts.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-6)


def test_low_precision_trains_float32_weights(tmp_path: Path) -> None:
    recipe = Recipe(**{**vars(RECIPE), "precision": "bfloat16"})
    low = train(small(), source(), recipe, tmp_path / "low")
    assert {weight.dtype for weight in low.parameters()} == {torch.float32}
    assert not same(low, train(small(), source(), RECIPE, tmp_path / "full"))


def test_models_with_different_epsilons_compile_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler would make the second epsilon a variable, which no function with its own gradient takes."""
    monkeypatch.setattr(slot_attention, "in_autocast", lambda inputs: True)  # as on a GPU
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device: torch.float32)
    torch.manual_seed(0)
    inputs, slots = torch.randn(3, 20, 8), torch.randn(3, 4, 6)
    torch._dynamo.reset()
    for epsilon in (1e-8, 1.0, 0.1):
        grouping = SlotAttention(8, 6, projections=8, hidden=8, epsilon=epsilon)
        compiled = with_constant_numbers(torch.compile(grouping, backend="eager", fullgraph=True))
        torch.testing.assert_close(compiled(inputs, slots), grouping(inputs, slots))
    torch._dynamo.reset()


def test_a_nan_loss_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(
        DivergedError, match=r"step 6 is NaN or infinite, at a learning rate of \S+; the last good .*000004"
    ):
        train(small(kind=NaNLoss), source(), RECIPE, tmp_path, RunOptions(save_every=4))
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000004"]
    rate = 1e-2 * RECIPE.lr_factor(5)
    with pytest.raises(DivergedError, match=f"at a learning rate of {rate:.3g}; the last good"):
        train(small(kind=NaNLoss), source(), RECIPE, tmp_path)


def test_a_bad_loss_of_one_process_stops_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """All processes learn the first bad step."""
    reduced: list[tuple[str, float]] = []

    def all_reduce(tensor: Tensor, how: object = None) -> None:
        reduced.append((str(how), float(tensor.max())))
        tensor.copy_(tensor.clamp(max=6.0) if how == distributed.ReduceOp.MIN else tensor * 2)

    monkeypatch.setattr("alebrije.train.process_group.distributed.all_reduce", all_reduce)
    group, model = ProcessGroup(torch.device("cpu"), 0, 2), small()
    step = TrainStep(model, RECIPE.make_optimizer(model), RECIPE, group, False, 0)
    step.run(source().batch(0, 8))
    with pytest.raises(DivergedError, match="the loss of step 7 is NaN or infinite"):
        step.mean_losses(None)
    assert any("MIN" in how for how, _ in reduced)


def test_a_check_never_gets_a_diverged_model(tmp_path: Path) -> None:
    def check(model: nn.Module) -> dict[str, float]:
        assert all(weight.isfinite().all() for weight in model.parameters())
        return {"fine": 1.0}

    with pytest.raises(DivergedError, match="the loss of step 6 is NaN or infinite"):
        train(small(kind=NaNLoss), source(), RECIPE, tmp_path / "loss", RunOptions(check_every=1), check=check)
    recipe = Recipe(**{**vars(RECIPE), "clip": None})
    with pytest.raises(DivergedError, match="the update of step 4 is NaN or infinite"):
        train(small(kind=NaNGradient), source(), recipe, tmp_path / "weights", RunOptions(check_every=1), check=check)


def test_nan_weights_are_never_saved(tmp_path: Path) -> None:
    recipe = Recipe(**{**vars(RECIPE), "clip": None})
    with pytest.raises(DivergedError, match=r"the update of step 4 is NaN or infinite.*; the last good .*000003"):
        train(small(kind=NaNGradient), source(), recipe, tmp_path, RunOptions(save_every=1))
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000002", "step-000000003"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_graph_on_cuda_learns_what_the_plain_step_does(tmp_path: Path) -> None:
    models = []
    for fast in (True, False):
        preloaded = PreloadedSource({"images": source().items["images"].cuda()}, 0)
        models.append(
            train(small(dropout=0.0), preloaded, RECIPE, tmp_path / str(fast), RunOptions(device="cuda", fast=fast))
        )
    for weight, expected in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-3, atol=1e-5)
