"""Training runs: errors by hand, groupings whose scores are known, and every tiny preset from plan to numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alebrije.models import Batch
from alebrije.studies import training
from alebrije.studies.training import carry_out, check_of, grouping_scores, prediction_errors
from alebrije.train import checkpoints, load_weights
from alebrije.train.plan import Plan, plan, read_plan

CPU = torch.device("cpu")


class Constant(nn.Module):
    """Predicts, and sees again, one grey everywhere."""

    def __init__(self, grey: float) -> None:
        super().__init__()
        self.grey = grey
        self.asked: list[int] = []

    def predict(self, batch: Batch) -> Tensor:
        self.asked.append(len(batch["source"]))
        assert batch["source"].dtype == torch.float32
        assert batch["factors"].dtype == torch.int64
        return torch.full_like(batch["source"], self.grey)


def tiny(model: str, steps: int = 3, **changes: Any) -> Plan:
    return plan(model, preset_name="tiny", settings={"steps": steps, "warmup": 0, **changes})


def history(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def weights(model: nn.Module) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


class TestPredictionErrors:
    def test_by_hand(self) -> None:
        target = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
        target[0] = 255
        target[1, 0, 0, 0] = 51
        batch = {"source": target, "target": target, "factors": torch.zeros(2, 2, 3, dtype=torch.int64)}
        errors = prediction_errors(Constant(0.0), batch)
        torch.testing.assert_close(errors, torch.tensor([48.0, 0.04]))
        torch.testing.assert_close(prediction_errors(Constant(1.0), batch), torch.tensor([0.0, 47 + 0.64]))

    def test_every_episode_is_asked_for_once_and_keeps_its_place(self) -> None:
        count = 2 * training.LOOKED_AT + 5
        target = torch.zeros(count, 3, 2, 2, dtype=torch.uint8)
        target[-1] = 255
        batch = {"source": target, "target": target, "factors": torch.zeros(count, 2, 3, dtype=torch.int64)}
        model = Constant(0.0)
        errors = prediction_errors(model, batch)
        assert model.asked == [training.LOOKED_AT, training.LOOKED_AT, 5]
        assert errors.tolist() == [0.0] * (count - 1) + [12.0]


class TestGroupingScores:
    true = torch.tensor([[[0, 0, 0, 0], [1, 1, 2, 2], [1, 1, 2, 2], [0, 0, 0, 0]]])

    def scores(self, labels: Tensor, slots: int = 4) -> dict[str, float]:
        masks = nn.functional.one_hot(labels, slots).permute(0, 3, 1, 2).float() * 0.6 + 0.1
        return {name: float(value) for name, value in grouping_scores(self.true, masks).items()}

    def test_perfect(self) -> None:
        renamed = torch.tensor([3, 0, 1])[self.true]
        assert self.scores(renamed) == pytest.approx({"FG-ARI": 1, "FG-ARP": 1, "FG-ARR": 1, "ARI": 1})

    def test_merged_objects_lose_precision_and_no_recall(self) -> None:
        found = self.scores((self.true > 0).long())
        assert found["FG-ARI"] == pytest.approx(0)
        assert found["FG-ARP"] == pytest.approx(0)
        assert found["FG-ARR"] == pytest.approx(1)
        assert 0 < found["ARI"] < 1

    def test_split_objects_lose_recall_and_no_precision(self) -> None:
        split = self.true.clone()
        split[0, 1, :2] = 3
        found = self.scores(split)
        assert found["FG-ARP"] == pytest.approx(1)
        assert 0 < found["FG-ARR"] < 1

    def test_a_split_ground_is_seen_by_ari_alone(self) -> None:
        split = self.true.clone()
        split[0, 0] = 3
        found = self.scores(split)
        assert found["FG-ARI"] == found["FG-ARP"] == found["FG-ARR"] == pytest.approx(1)
        assert found["ARI"] < 1


class TestChecks:
    def test_they_look_at_other_scenes_than_training(self) -> None:
        made = tiny("oracle")
        looked_at: list[Batch] = []

        class Watching(Constant):
            def predict(self, batch: Batch) -> Tensor:
                looked_at.append({name: tensor.clone() for name, tensor in batch.items()})
                return super().predict(batch)

        check = check_of(made, 40, CPU)
        assert check is not None
        found = check(Watching(0.5))
        assert list(found) == ["in-distribution error", "out-of-distribution error", "gap"]
        times = found["out-of-distribution error"] / found["in-distribution error"]
        assert found["gap"] == pytest.approx(math.log(times))
        inside, outside = ({tuple(row) for row in each["floats"].flatten(1).tolist()} for each in looked_at)
        source = made.source(CPU)
        trained = {tuple(row) for row in source.batch(0, 64)["floats"].flatten(1).tolist()}
        assert (len(inside), len(outside), len(trained)) == (40, 40, 64)
        assert not trained & inside
        assert not trained & outside
        place = made.place()
        shown = {tuple(one) for one in looked_at[1]["factors"].flatten(0, 1).tolist()}
        assert shown <= set(place.split.test)  # type: ignore[union-attr]

    def test_an_error_is_a_mean_over_episodes(self) -> None:
        made = tiny("i2i-cnn")
        drawing = made.drawing("test")
        batch = drawing.draw(drawing.scenes(0, 10), CPU)
        check = check_of(made, 10, CPU)
        assert check is not None
        expected = (batch["target"].float() / 255 - 0.25).square().sum() / 10
        assert check(Constant(0.25))["out-of-distribution error"] == pytest.approx(float(expected), rel=1e-5)

    def test_reconstructions_are_means_over_pixels(self) -> None:
        made = tiny("slot-attention")
        drawing = made.drawing("validation")
        frames = made.place().render(drawing.scenes(0, 9), made.size)  # type: ignore[union-attr]
        model = made.new_model().eval()
        check = check_of(made, 9, CPU)
        assert check is not None
        with torch.no_grad():
            torch.manual_seed(0)
            found = check(model)
            torch.manual_seed(0)
            encoding = model(frames.images / 255)
        expected = (encoding.reconstruction - frames.images / 255).square().mean()
        assert found["reconstruction error"] == pytest.approx(float(expected), rel=1e-4)
        scores = grouping_scores(frames.masks, encoding.masks)
        assert {name: found[name] for name in scores} == pytest.approx(
            {name: float(value.mean()) for name, value in scores.items()}, abs=1e-6
        )

    def test_a_model_of_images_that_learns_from_a_task_draws_them_again(self) -> None:
        made = plan("slot-attention", preset_name="tiny", rule="S-A", alpha=0.2)
        check = check_of(made, 9, CPU)
        assert check is not None
        with torch.no_grad():
            assert set(check(made.new_model().eval())) == {"reconstruction error", "FG-ARI", "FG-ARP", "FG-ARR", "ARI"}

    def test_moco_draws_nothing_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Plan, "drawing", None)
        assert check_of(tiny("moco"), 300, CPU) is None


class TestRuns:
    @pytest.mark.parametrize("model", ["i2i-cnn", "i2i-vit", "ssm-vae", "ssm-slot", "oracle"])
    def test_every_model_of_episodes_ends_in_numbers(self, tmp_path: Path, model: str) -> None:
        made = tiny(model, steps=4)
        trained = carry_out(made, tmp_path, looks=16, check_every=2, save_every=4, log_every=2)
        assert not trained.training
        assert not torch.equal(weights(trained), weights(made.new_model()))
        lines = history(tmp_path)
        assert [(line["step"], "gap" in line) for line in lines] == [(2, False), (2, True), (4, False), (4, True)]
        for line in lines:
            assert all(math.isfinite(value) for value in line.values())
        assert 0 < lines[-1]["in-distribution error"] < 3 * 16 * 16

    @pytest.mark.parametrize(
        "model", ["ae", "beta-vae", "beta-tcvae", "factor-vae", "slot-attention", "bo-qsa", "moco"]
    )
    def test_every_model_of_images_ends_in_numbers(self, tmp_path: Path, model: str) -> None:
        made = plan(model, preset_name="tiny", images=32, settings={"steps": 2, "batch": 8, "warmup": 0})
        carry_out(made, tmp_path, looks=8, save_every=2)
        lines = history(tmp_path)
        for line in lines:
            assert all(math.isfinite(value) for value in line.values())
        assert ("reconstruction error" in lines[-1]) == (model != "moco")
        assert ("FG-ARI" in lines[-1]) == (model in ("slot-attention", "bo-qsa"))

    def test_a_tiny_preset_learns(self, tmp_path: Path) -> None:
        made = tiny("oracle", steps=60)
        carry_out(made, tmp_path, looks=32, check_every=60, save_every=60, log_every=10)
        lines = history(tmp_path)
        assert lines[5]["loss"] < 0.5 * lines[0]["loss"]

    def test_a_run_in_two_sittings_is_one_run(self, tmp_path: Path) -> None:
        made = tiny("ssm-slot", steps=6)
        whole = carry_out(made, tmp_path / "whole", looks=4)
        carry_out(made, tmp_path / "parts", looks=4, until=2)
        assert checkpoints(tmp_path / "parts")[-1].name == "step-000000002"
        parts = carry_out(read_plan(tmp_path / "parts"), tmp_path / "parts", looks=4)
        assert torch.equal(weights(whole), weights(parts))

    def test_a_run_that_has_ended_is_only_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made = tiny("i2i-cnn")
        done = carry_out(made, tmp_path, looks=4)
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        monkeypatch.setattr(Plan, "drawing", None)  # nothing is drawn for it
        again = carry_out(made, tmp_path, looks=4)
        assert torch.equal(weights(done), weights(again))
        assert not again.training
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before

    def test_the_checkpoint_is_the_model(self, tmp_path: Path) -> None:
        made = tiny("ssm-vae")
        done = carry_out(made, tmp_path, looks=4)
        model = read_plan(tmp_path).new_model()
        load_weights(checkpoints(tmp_path)[-1], model)
        assert torch.equal(weights(done), weights(model))

    def test_seeds_differ(self, tmp_path: Path) -> None:
        runs = [
            carry_out(
                plan("i2i-cnn", preset_name="tiny", seed=seed, settings={"steps": 1}), tmp_path / str(run), looks=4
            )
            for run, seed in enumerate((0, 1, 0))
        ]
        assert not torch.equal(weights(runs[0]), weights(runs[1]))
        assert torch.equal(weights(runs[0]), weights(runs[2]))
