"""Pixel mixtures against distributions of torch, automatic differentiation and brute force."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import AffineTransform, Normal, SigmoidTransform, TransformedDistribution, Uniform

from alebrije.models.mixture import Family, PixelMixture


def scene(slots: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Images, means and logits, in float64 precision where it matters little."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2, 3, 5, 6, generator=generator)
    means = images[:, None] + 0.1 * torch.randn(2, slots, 3, 5, 6, generator=generator)
    return images, means, torch.randn(2, slots, 1, 5, 6, generator=generator)


def density(family: Family, images: Tensor, means: Tensor, scale: float) -> Tensor:
    """Log densities of torch's distributions."""
    if family == "gaussian":
        return Normal(means, scale).log_prob(images)
    uniform = Uniform(torch.zeros_like(means), torch.ones_like(means))
    logistic = TransformedDistribution(uniform, [SigmoidTransform().inv, AffineTransform(means, scale)])
    return logistic.log_prob(images.expand_as(means))


KINDS = [("gaussian", 0.1, False), ("gaussian", 0.1, True), ("logistic", 0.03, False), ("logistic", 0.03, True)]


@pytest.mark.parametrize(("family", "scale", "per_channel"), KINDS)
def test_the_likelihood_is_that_of_torch_s_distributions(family: Family, scale: float, per_channel: bool) -> None:
    images, means, logits = scene()
    evaluated = PixelMixture(family, scale, per_channel).evaluate(images, means, logits)
    densities = density(family, images[:, None], means, scale)
    if not per_channel:
        densities = densities.sum(2, keepdim=True)
    expected = torch.logsumexp(densities + logits.log_softmax(1), 1)
    torch.testing.assert_close(evaluated.likelihood, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(evaluated.nll, -expected.sum((1, 2, 3)), rtol=1e-4, atol=1e-2)
    torch.testing.assert_close(evaluated.masks, logits.softmax(1))
    torch.testing.assert_close(evaluated.responsibilities.sum(1), torch.ones_like(expected))


@pytest.mark.parametrize(("family", "scale", "per_channel"), KINDS)
def test_the_gradients_are_those_of_automatic_differentiation(family: Family, scale: float, per_channel: bool) -> None:
    images, means, logits = scene()
    mixture = PixelMixture(family, scale, per_channel)
    inputs = means.requires_grad_(), logits.requires_grad_()
    expected = torch.autograd.grad(mixture.evaluate(images, *inputs).nll.sum(), inputs)
    with torch.no_grad():
        found = mixture.gradients(mixture.evaluate(images, *inputs))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_counterfactual_is_the_likelihood_without_a_component(per_channel: bool) -> None:
    images, means, logits = scene(slots=3)
    mixture = PixelMixture("logistic", 0.03, per_channel)
    whole = mixture.evaluate(images, means, logits)
    for slot in range(3):
        others = [other for other in range(3) if other != slot]
        without = mixture.evaluate(images, means[:, others], logits[:, others])
        expected = whole.likelihood - without.likelihood
        torch.testing.assert_close(whole.counterfactual()[:, slot], expected, rtol=1e-4, atol=1e-4)


def test_one_component_has_no_counterfactual_and_all_pixels() -> None:
    images, means, logits = scene(slots=1)
    evaluated = PixelMixture("gaussian", 0.1).evaluate(images, means, logits)
    assert not evaluated.counterfactual().any()
    assert (evaluated.responsibilities == 1).all()


def test_far_pixels_stay_finite() -> None:
    images, logits = torch.zeros(1, 3, 2, 2), torch.tensor([80.0, -80.0, 0.0]).view(1, 3, 1, 1, 1).expand(1, 3, 1, 2, 2)
    means = torch.full((1, 3, 3, 2, 2), 1e3)
    mixture = PixelMixture("logistic", 0.03)
    evaluated = mixture.evaluate(images, means, logits)
    for part in (evaluated.nll, evaluated.counterfactual(), *mixture.gradients(evaluated)):
        assert part.isfinite().all()
