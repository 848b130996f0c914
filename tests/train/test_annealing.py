"""The benchmark that trains many AnnealedVAEs at once takes the same steps as each would take alone."""

from __future__ import annotations

import pytest
import torch
from benchmarks.annealing import Stack, Training, Trial, expand
from torch import nn

from alebrije.models.autoencoders import kl_divergence


def test_losses_and_gradients_are_those_of_each_model() -> None:
    models = [Trial(seed=seed).new_model() for seed in (0, 1)]
    stack = Stack(models, torch.device("cpu"), torch.float32)
    torch.manual_seed(0)
    images, noise = (torch.rand(2, 3, 1, 64, 64) > 0.5).float(), torch.randn(2, 3, 10)
    error, kl = stack.losses(images.movedim(2, 4), noise)
    (error + 3 * kl).sum().backward()  # type: ignore[no-untyped-call]
    assert stack.values.grad is not None
    for index, model in enumerate(models):
        mean, log_variance = model.posterior(images[index])
        alone = model.reconstruction_error(images[index], mean + (0.5 * log_variance).exp() * noise[index])
        own_kl = kl_divergence(mean, log_variance)
        (alone + 3 * own_kl).backward()
        gradient = torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
        assert float(error[index].detach()) == pytest.approx(float(alone.detach()), rel=1e-5)
        assert float(kl[index].detach()) == pytest.approx(float(own_kl.detach()), rel=1e-5)
        torch.testing.assert_close(stack.values.grad[index], gradient, rtol=1e-3, atol=1e-3)


def test_each_model_has_its_own_capacity_rate_and_order() -> None:
    trials = [*expand('{"name": "slow", "lr": 1e-9, "seeds": [0]}'), *expand('{"gamma": 5, "seeds": [1, 2]}')]
    images = torch.randint(0, 256, (64, 1, 64, 64), dtype=torch.uint8)
    training = Training(trials, images, 4, torch.float32)
    before = training.stack.values.detach().clone()
    training.run(2)
    moved = (training.stack.values.detach() - before).abs().amax(1)
    assert moved[0] < 1e-7
    assert (moved[1:] > 1e-4).all()
    assert not torch.equal(training.order[1], training.order[2])
    assert training.gamma.tolist() == [100, 5, 5]
    training.stack.write_back()
    written = nn.utils.parameters_to_vector(training.stack.models[2].parameters())
    torch.testing.assert_close(written, training.stack.values.detach()[2])
