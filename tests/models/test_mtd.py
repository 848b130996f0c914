"""MTD: which part learns what, its prior, and that parts hold their labels and not the others'."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from alebrije import models
from alebrije.errors import InputError
from alebrije.models.autoencoders import kl_divergence as ours
from alebrije.models.mtd import MTD
from tests.models.conftest import Fit


def build(**settings: Any) -> MTD:
    torch.manual_seed(0)
    return MTD(**{"channels": 1, "counts": (3, 2), "content": 2} | settings)


def batch(count: int = 48) -> dict[str, Tensor]:
    """Squares in three rows, bright or dim."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.stack([torch.randint(n, (count,), generator=generator) for n in (3, 2)], 1)
    images = torch.zeros(count, 1, 64, 64)
    for image, (row, level) in zip(images, labels.tolist(), strict=True):
        image[:, 20 * row + 4 : 20 * row + 20, 20:36] = 1.0 if level else 0.4
    return {"images": images, "labels": labels}


def test_parameter_counts() -> None:
    networks = models.get("beta-vae").parameter_count(channels=1)
    counts, parts = (3, 6, 40, 32, 32), 5
    labelled = sum(n + 2 * n + 64 * 10 + 65 * n for n in counts)  # means, classifiers, critics of nine latents
    assert (
        models.get("mtd").parameter_count(channels=1, counts=counts, part=1, content=10 - parts) == networks + labelled
    )


def test_the_kl_is_to_the_prior_of_the_true_value() -> None:
    model = build(part=2)
    labels, mean, log_variance = torch.tensor([[2, 0], [0, 1]]), torch.randn(2, 6), torch.randn(2, 6)
    centre = torch.stack(
        [
            torch.cat((model.means[0][2], model.means[1][0], torch.zeros(2))),
            torch.cat((model.means[0][0], model.means[1][1], torch.zeros(2))),
        ]
    )
    torch.testing.assert_close(model.prior_mean(labels), centre)
    expected = kl_divergence(Normal(mean, (0.5 * log_variance).exp()), Normal(centre, 1.0)).sum(1).mean()
    torch.testing.assert_close(ours(mean - model.prior_mean(labels), log_variance), expected)


def test_each_error_reaches_only_what_it_trains() -> None:
    model = build()
    code = torch.randn(4, 4, requires_grad=True)
    errors = model.label_errors(code, torch.tensor([[0, 1], [1, 0], [2, 1], [0, 0]]))
    critics, classifiers = list(model.critics.parameters()), list(model.classifiers.parameters())

    def reached(error: Tensor, what: list[Tensor]) -> bool:
        return any(grad is not None for grad in torch.autograd.grad(error, what, allow_unused=True, retain_graph=True))

    assert reached(errors.prediction, classifiers)
    assert not reached(errors.prediction, critics)
    assert reached(errors.confusion, [code])
    assert not reached(errors.confusion, critics)
    assert reached(errors.critics, critics)
    assert not reached(errors.critics, [code])
    grad = torch.autograd.grad(errors.prediction, code)[0]
    assert not grad[:, 2:].any()  # the content
    assert grad[:, :2].all()


def test_a_critic_that_guesses_evenly_is_confused_the_most() -> None:
    model = build()
    for critic in model.critics:
        torch.nn.init.zeros_(critic[2].weight)
        torch.nn.init.zeros_(critic[2].bias)
    errors = model.label_errors(torch.randn(4, 4), torch.zeros(4, 2, dtype=torch.int64))
    expected = torch.tensor([3.0, 2.0]).log().sum()
    torch.testing.assert_close(errors.confusion, expected)
    torch.testing.assert_close(errors.critics, expected)


@pytest.mark.slow
def test_parts_hold_their_labels(fit: Fit) -> None:
    model, data = build(part=2, classify=30.0), batch(24)
    history = fit(model, lambda _: data, steps=120, lr=3e-3, clip=1e9)
    assert history[-1] < 0.5 * history[0]
    with torch.no_grad():
        codes = model(data["images"]).vector
    parts = codes[:, :2], codes[:, 2:4]
    for part, classifier, labels in zip(parts, model.classifiers, data["labels"].T, strict=True):
        assert (classifier(part).argmax(1) == labels).float().mean() > 0.9
    (own_row, level_in_row), (row_in_level, own_level) = (
        [between(part, labels) for labels in data["labels"].T] for part in parts
    )
    assert min(own_row, own_level) > 0.7
    assert max(level_in_row, row_in_level) < 0.4


def between(codes: Tensor, labels: Tensor) -> float:
    """The share of the variance of codes that lies between the values of a label."""
    means = torch.stack([codes[labels == value].mean(0) for value in range(int(labels.max()) + 1)])
    return float((means[labels] - codes.mean(0)).square().sum() / (codes - codes.mean(0)).square().sum())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": 2}, "channels must be 1 or 3"),
        ({"counts": ()}, "labels must name at least one factor"),
        ({"part": 0}, "part must be at least 1"),
        ({"beta": -1.0}, "beta must be a finite number"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(**settings)
