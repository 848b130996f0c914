"""MoCo: momentum, queue and loss computed by hand, and that it learns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.models.learner import Batch, Learner, Losses
from alebrije.models.moco import MoCo, info_nce

STEP = torch.tensor(0.0)
UNAUGMENTED = {"smallest_crop": 1.0, "jitter_chance": 0.0, "grey_chance": 0.0, "blur_chance": 0.0, "flip_chance": 0.0}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def small(**arguments: Any) -> MoCo:
    return MoCo(**{"architecture": "conv64", "queue": 16, **arguments})


def rooms(count: int, seed: int) -> Tensor:
    world = worlds.get("rooms")
    return world.render(world.sample(count, seed=seed), size=64).images.float() / 255


def test_parameter_counts() -> None:
    model = MoCo()
    # Encoder: 4,864 + 3 · 102,464 convolutions, 1,048,832 + 65,792 fully connected. Head: 65,792 + 32,896.
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert trained == (312_256 + 1_114_624) + 98_688 == 1_525_568
    key_parameters = {name: p for name, p in model.named_parameters() if name.startswith("key_")}
    assert sum(parameter.numel() for parameter in key_parameters.values()) == trained
    assert not any(parameter.requires_grad for parameter in key_parameters.values())
    assert all(torch.equal(p, model.get_parameter(name.removeprefix("key_"))) for name, p in key_parameters.items())
    assert isinstance(model, Learner)


def test_the_vector_is_the_output_of_the_encoder() -> None:
    model = MoCo().eval()
    images = torch.rand(2, 3, 128, 128)
    encoding = model(images)
    assert encoding.vector is not None
    assert encoding.vector.shape == (2, 256)
    assert torch.equal(encoding.vector, model.encoder(2 * images - 1))


def test_key_networks_are_updated_before_they_encode() -> None:
    model = small(momentum=0.9, **UNAUGMENTED)
    with torch.no_grad():
        for parameter in (*model.encoder.parameters(), *model.head.parameters()):
            parameter.add_(0.1 * torch.randn_like(parameter))
    trained = {name: p.detach().clone() for name, p in model.named_parameters() if not name.startswith("key_")}
    before = {name: p.clone() for name, p in model.named_parameters() if name.startswith("key_")}
    images = torch.rand(8, 3, 64, 64)
    model.training_loss({"images": images}, STEP)
    for name, old in before.items():
        expected = 0.9 * old + 0.1 * trained[name.removeprefix("key_")]
        torch.testing.assert_close(model.get_parameter(name).data, expected)
    # The keys in the queue are those of the parameters after the update.
    keys = F.normalize(model.key_head(model.key_encoder(2 * images - 1)), dim=1)
    torch.testing.assert_close(model.queue[:8], keys)


def test_the_queue_wraps_around() -> None:
    model = small(queue=12, dimensions=5)
    batches = [F.normalize(torch.randn(4, 5), dim=1) for _ in range(5)]
    pointers = []
    for batch in batches:
        model.enqueue(batch)
        pointers.append(int(model.pointer))
    assert pointers == [4, 8, 0, 4, 8]
    assert torch.equal(model.queue, torch.cat([batches[3], batches[4], batches[2]]))
    assert {"queue", "pointer"} <= {*model.state_dict()}
    keys = torch.arange(30.0).reshape(6, 5)
    model.enqueue(keys)  # four before the end, two from the start
    assert torch.equal(model.queue, torch.cat([keys[4:], batches[3][2:], batches[4], keys[:4]]))
    assert int(model.pointer) == 2


def test_info_nce_by_hand() -> None:
    queries, keys = (F.normalize(torch.randn(6, 8), dim=1) for _ in range(2))
    negatives = F.normalize(torch.randn(20, 8), dim=1)
    logits = torch.cat(
        [torch.stack([q @ k for q, k in zip(queries, keys, strict=True)])[:, None], queries @ negatives.T], 1
    )
    losses = info_nce(queries, keys, negatives, 0.2)
    target = torch.zeros(6, dtype=torch.int64)
    torch.testing.assert_close(losses["loss"], F.cross_entropy(logits / 0.2, target))
    right = sum(bool(row[0] == row.max()) for row in logits)
    assert float(losses["accuracy"]) == pytest.approx(right / 6)


def test_a_step_uses_the_queue_from_before_the_step() -> None:
    model = small(**UNAUGMENTED)
    images, before = torch.rand(8, 3, 64, 64), model.queue.clone()
    loss = model.training_loss({"images": images}, STEP)["loss"]
    queries = F.normalize(model.head(model.encoder(2 * images - 1)), dim=1)
    torch.testing.assert_close(loss, info_nce(queries, model.queue[:8], before, 0.2)["loss"])
    loss.backward()  # the changed queue must not break the backward pass
    assert all((p.grad is not None) == p.requires_grad for p in model.parameters())


def test_the_loss_of_an_untrained_model_is_chance() -> None:
    # Untrained codes of all images are nearly alike, so a full queue leaves log(K + 1) nats.
    model = small(queue=64)
    images = rooms(64, seed=0)
    for start in range(0, 64, 16):
        model.training_loss({"images": images[start : start + 16]}, STEP)
    loss = model.training_loss({"images": images[:16]}, STEP)["loss"]
    assert float(loss.detach()) == pytest.approx(math.log(65), abs=0.3)


def test_half_precision_and_whole_graphs() -> None:
    model, plain = small(), small()
    plain.load_state_dict(model.state_dict())
    # This backend also rewrites what happens in place, as the fast ones do.
    whole: Callable[[Batch, Tensor], Losses] = torch.compile(model.training_loss, backend="aot_eager", fullgraph=True)
    images = torch.rand(8, 3, 64, 64)
    for step in range(3):
        torch.manual_seed(step)
        losses = whole({"images": images}, STEP)
        torch.manual_seed(step)
        torch.testing.assert_close(losses["loss"], plain.training_loss({"images": images}, STEP)["loss"])
    torch.testing.assert_close(model.state_dict(), plain.state_dict())
    with torch.autocast("cpu", torch.bfloat16):
        losses = torch.compile(plain.training_loss, backend="eager", fullgraph=True)({"images": images}, STEP)
    losses["loss"].backward()
    assert all(part.dtype == torch.float32 and part.isfinite() for part in losses.values())


def test_two_views_of_a_scene_become_neighbours(fit: Any) -> None:
    pool, fresh = rooms(512, seed=0), rooms(64, seed=1)
    model = small(queue=256, momentum=0.99, smallest_crop=0.6, jitter=0.2, hue=0.02, grey_chance=0.0)

    def accuracy() -> float:
        """The share of 64 fresh scenes whose nearest view is the other view of the same scene."""
        torch.manual_seed(5)
        with torch.no_grad():
            first, second = (F.normalize(model(model.augment(fresh)).codes, dim=1) for _ in range(2))
        return float(((first @ second.T).argmax(1) == torch.arange(64)).float().mean())

    before = accuracy()
    fit(model, lambda step: {"images": pool[(torch.arange(32) + 32 * step) % 512]}, steps=100, lr=1e-3)
    after = accuracy()
    assert before < 0.8  # colours are enough to separate many scenes
    assert after > max(0.82, before + 0.1)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: MoCo(architecture="resnet50"), "architecture must be one of"),  # type: ignore[arg-type]
        (lambda: MoCo(queue=0), "queue must be at least 1"),
        (lambda: MoCo(momentum=1.5), "momentum must be from 0 to 1"),
        (lambda: MoCo(temperature=0.0), "temperature must be above 0"),
        (lambda: MoCo(smallest_crop=0.0), "smallest_crop must be"),
        (lambda: MoCo(hue=0.6), "hue must be in turns"),
        (lambda: MoCo(blur_chance=1.1), "blur_chance must be from 0 to 1"),
        (lambda: small().training_loss({"images": torch.rand(5, 3, 64, 64)}, STEP), "not a multiple of the batch of 5"),
        (lambda: small()(torch.rand(2, 3, 128, 128)), r"takes images \[B, 3, 64, 64\]"),
    ],
)
def test_bad_input(build: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        build()
