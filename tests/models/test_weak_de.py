"""WeakDE: class statistics and roots against torch, its phases, its relations, and that codes gather by class."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from alebrije import models
from alebrije.errors import InputError
from alebrije.models.weak_de import WeakDE, cholesky
from tests.models.conftest import Fit

SMALL: dict[str, Any] = {"channels": 1, "counts": (3, 2), "labels": "row/3,shape", "width": 16, "latents": 4}


def small(**changes: Any) -> WeakDE:
    torch.manual_seed(0)
    return WeakDE(**SMALL | {"warmup": 10, "statistics": 4} | changes)


def batch(count: int = 32) -> dict[str, Tensor]:
    """Squares in three rows, hollow or full."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.stack([torch.randint(n, (count,), generator=generator) for n in (3, 2)], 1)
    images = torch.zeros(count, 1, 64, 64)
    for image, (row, shape) in zip(images, labels.tolist(), strict=True):
        image[:, 20 * row + 4 : 20 * row + 20, 20:36] = 1
        if shape:
            image[:, 20 * row + 9 : 20 * row + 15, 25:31] = 0
    return {"images": images, "labels": labels}


def test_parameter_counts() -> None:
    encoder = (1 + 3 * 32) * 32 * 16 + 4 * 64 + 1024 * 513 + 10 * 1025
    decoder = 1024 * 11 + 512 * 1025 + 3 * 32 * 32 * 16 + 3 * 64 + 32 * 16 + 1
    tanh = 3 * 1024 * 1025
    discriminator, relator = 1024 * 38 + tanh + 1025, 1024 * 16 + tanh + 10 * 1025
    classes = {"channels": 1, "counts": (3, 3, 3), "labels": "position x/3,position y/3,shape"}
    count = models.get("weakde").parameter_count
    assert count(**classes, as_published=True) == encoder + decoder == 1_171_403
    assert count(**classes) == encoder + decoder + discriminator + relator == 7_535_574


def test_the_roots_are_those_of_torch() -> None:
    torch.manual_seed(0)
    matrices = torch.randn(5, 6, 6)
    matrices = matrices @ matrices.mT + torch.eye(6)
    torch.testing.assert_close(cholesky(matrices), torch.linalg.cholesky(matrices), rtol=1e-4, atol=1e-5)


def test_classes_have_the_mean_of_their_codes_and_a_tenth_of_their_covariance() -> None:
    model = small()
    torch.manual_seed(1)
    classes = torch.randint(5, (600,))  # the last class has no image
    codes = torch.randn(600, 4) @ torch.randn(4, 4) + classes[:, None]
    for part in range(3):
        rows = slice(200 * part, 200 * (part + 1))
        model.measure(codes[rows], classes[rows], torch.tensor(True))
    model.measure(codes, classes, torch.tensor(False))  # not due
    priors = model.priors()
    for index in range(5):
        own = codes[classes == index]
        torch.testing.assert_close(priors.mean[index], own.mean(0), rtol=1e-4, atol=1e-4)
        covariance = priors.root[index] @ priors.root[index].T
        torch.testing.assert_close(covariance, 0.1 * own.T.cov(correction=0), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(priors.root[5], 0.1**0.5 * torch.eye(4), rtol=1e-4, atol=1e-4)
    samples = model.sample(priors, torch.full((20_000,), 2), torch.tensor(False))
    torch.testing.assert_close(samples.mean(0), priors.mean[2], rtol=0, atol=0.05)
    torch.testing.assert_close(samples.T.cov(), priors.root[2] @ priors.root[2].T, rtol=0.1, atol=0.02)
    cube = model.sample(priors, torch.zeros(1000, dtype=torch.int64), torch.tensor(True))
    assert float(cube.abs().max()) <= 1
    assert float(cube.std()) == pytest.approx(3**-0.5, rel=0.05)


def test_labels_make_classes_and_relations_lead_to_other_classes() -> None:
    model = small()
    assert (model.classes, model.relations) == (6, ((0, 1), (0, -1), (1, 1)))
    labels = torch.tensor([[0, 0], [2, 1], [1, 0]])
    assert model.class_of(labels).tolist() == [0, 5, 2]
    moved = (labels[:, None] + model.shifts) % model.moduli  # [B, R, L]
    assert moved[1].tolist() == [[0, 1], [1, 1], [2, 0]]  # cyclic


def test_the_phases_of_training() -> None:
    model, found = small(), []
    for step in range(12):
        losses = model.training_loss(batch(), torch.tensor(float(step)))
        found.append((float(model.number.sum()), float(losses["relation"]) > 0))
    assert found == [(32.0 * max(0, min(step - 5, 4)), step >= 10) for step in range(12)]


def test_code_and_discriminator_learn_from_their_own_errors() -> None:
    model = small()
    losses = model.training_loss(batch(), torch.tensor(20.0))
    codes = model.encoder(batch()["images"])
    deception, discriminator = model.adversarial_errors(codes, torch.zeros(32, dtype=torch.int64), torch.randn(32, 4))
    weights = list(model.discriminator.parameters())
    assert torch.autograd.grad(deception, weights, allow_unused=True, retain_graph=True) == (None,) * len(weights)
    assert torch.autograd.grad(discriminator, codes, allow_unused=True, retain_graph=True) == (None,)
    losses["loss"].backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_as_published_it_is_a_plain_autoencoder() -> None:
    model = small(as_published=True)
    images = batch()["images"]
    losses = model.training_loss({"images": images}, torch.tensor(20.0))
    assert sorted(losses) == ["loss", "reconstruction"]
    expected = torch.nn.functional.binary_cross_entropy(model.decoder(model.encoder(images)).sigmoid(), images)
    torch.testing.assert_close(losses["loss"], expected, rtol=1e-4, atol=1e-5)
    assert {name.partition(".")[0] for name, _ in model.named_parameters()} == {"encoder", "decoder"}


@pytest.mark.slow
def test_codes_gather_by_class(fit: Fit) -> None:
    model = small(warmup=50, statistics=20)
    data = batch(24)
    history = fit(model, lambda _: data, steps=100, lr=2e-3)
    assert all(torch.tensor(history).isfinite())
    with torch.no_grad():
        codes = model(data["images"]).vector
        classes = model.class_of(data["labels"])
        means = torch.stack([codes[classes == index].mean(0) for index in range(6)])
        within = (codes - means[classes]).square().sum(1).mean()
        between = (means[classes] - codes.mean(0)).square().sum(1).mean()
        error = (model(data["images"]).reconstruction - data["images"]).square().mean()
    assert float(within) < 0.5 * float(between)
    assert float(error) < 0.5 * float(data["images"].var())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": 2}, "channels must be 1 or 3"),
        ({"statistics": 11}, "statistics must be at most warmup, 10 steps, not 11"),
        ({"labels": "shape"}, "labels names 1 factors, but counts has 2"),
        ({"adversary": -1.0}, "adversary must be a finite number"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(**settings)
