"""Training checks: errors by hand, and groupings with known scores."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alebrije.models import Batch
from alebrije.train.check import CHECK_BATCH, grouping_scores, prediction_errors, training_check
from alebrije.train.plan import Plan, plan

CPU = torch.device("cpu")


class Constant(nn.Module):
    """Predicts one grey everywhere."""

    def __init__(self, grey: float) -> None:
        super().__init__()
        self.grey = grey
        self.batches: list[int] = []

    def predict(self, batch: Batch) -> Tensor:
        self.batches.append(len(batch["source"]))
        assert batch["source"].dtype == torch.float32
        assert batch["factors"].dtype == torch.int64
        return torch.full_like(batch["source"], self.grey)


def tiny(model: str, steps: int = 3, **changes: Any) -> Plan:
    return plan(model, preset_name="tiny", settings={"steps": steps, "warmup": 0, **changes})


class TestPredictionErrors:
    def test_by_hand(self) -> None:
        target = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
        target[0] = 255
        target[1, 0, 0, 0] = 51
        batch = {"source": target, "target": target, "factors": torch.zeros(2, 2, 3, dtype=torch.int64)}
        errors = prediction_errors(Constant(0.0), batch)
        torch.testing.assert_close(errors, torch.tensor([48.0, 0.04]))
        torch.testing.assert_close(prediction_errors(Constant(1.0), batch), torch.tensor([0.0, 47 + 0.64]))

    def test_every_episode_is_predicted_once_in_order(self) -> None:
        count = 2 * CHECK_BATCH + 5
        target = torch.zeros(count, 3, 2, 2, dtype=torch.uint8)
        target[-1] = 255
        batch = {"source": target, "target": target, "factors": torch.zeros(count, 2, 3, dtype=torch.int64)}
        model = Constant(0.0)
        errors = prediction_errors(model, batch)
        assert model.batches == [CHECK_BATCH, CHECK_BATCH, 5]
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

    def test_only_ari_counts_a_split_background(self) -> None:
        split = self.true.clone()
        split[0, 0] = 3
        found = self.scores(split)
        assert found["FG-ARI"] == found["FG-ARP"] == found["FG-ARR"] == pytest.approx(1)
        assert found["ARI"] < 1


class TestChecks:
    def test_they_use_other_scenes_than_training(self) -> None:
        made = tiny("svib-oracle")
        batches: list[Batch] = []

        class Watching(Constant):
            def predict(self, batch: Batch) -> Tensor:
                batches.append({name: tensor.clone() for name, tensor in batch.items()})
                return super().predict(batch)

        check = training_check(made, 40, CPU)
        assert check is not None
        found = check(Watching(0.5))
        assert list(found) == ["in-distribution error", "out-of-distribution error", "gap"]
        times = found["out-of-distribution error"] / found["in-distribution error"]
        assert found["gap"] == pytest.approx(math.log(times))
        inside, outside = ({tuple(row) for row in each["floats"].flatten(1).tolist()} for each in batches)
        source = made.source(CPU)
        trained = {tuple(row) for row in source.batch(0, 64)["floats"].flatten(1).tolist()}
        assert (len(inside), len(outside), len(trained)) == (40, 40, 64)
        assert not trained & inside
        assert not trained & outside
        task = made.world_or_task()
        shown = {tuple(one) for one in batches[1]["factors"].flatten(0, 1).tolist()}
        assert shown <= set(task.split.test)  # type: ignore[union-attr]

    def test_an_error_is_a_mean_over_episodes(self) -> None:
        made = tiny("i2i-cnn")
        scene_set = made.scene_set("test")
        batch = scene_set.render(scene_set.scenes(0, 10), CPU)
        check = training_check(made, 10, CPU)
        assert check is not None
        expected = (batch["target"].float() / 255 - 0.25).square().sum() / 10
        assert check(Constant(0.25))["out-of-distribution error"] == pytest.approx(float(expected), rel=1e-5)

    def test_reconstructions_are_means_over_pixels(self) -> None:
        made = tiny("slot-attention")
        scene_set = made.scene_set("validation")
        frames = made.world_or_task().render(scene_set.scenes(0, 9), made.size)  # type: ignore[union-attr]
        model = made.new_model().eval()
        check = training_check(made, 9, CPU)
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

    def test_a_model_of_images_on_a_task_is_checked_too(self) -> None:
        made = plan("slot-attention", preset_name="tiny", rule="S-A", alpha=0.2)
        check = training_check(made, 9, CPU)
        assert check is not None
        with torch.no_grad():
            assert set(check(made.new_model().eval())) == {"reconstruction error", "FG-ARI", "FG-ARP", "FG-ARR", "ARI"}

    def test_moco_has_no_check(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Plan, "scene_set", None)
        assert training_check(tiny("moco"), 300, CPU) is None
