"""Autoencoders: sizes, closed forms of the KL and its parts, separate gradients, and that they learn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.models.autoencoders import (
    AnnealedVAE,
    Autoencoder,
    BetaTCVAE,
    BetaVAE,
    FactorVAE,
    decompose_kl,
    kl_divergence,
    log_density,
    sample_gaussian,
    shuffle_dimensions,
    stratified_log_weights,
)
from alebrije.models.learner import Batch, Learner, Losses

MODELS: dict[str, Callable[..., Any]] = {
    "plain": Autoencoder,
    "beta": BetaVAE,
    "annealed": lambda **arguments: AnnealedVAE(**{"anneal": 10_000} | arguments),
    "tc": BetaTCVAE,
    "factor": lambda **arguments: FactorVAE(discriminator_width=50, **arguments),
}
STEP = torch.tensor(2500.0)  # a quarter of the annealing


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def sprites() -> Tensor:
    """32 white shapes on black [32, 3, 64, 64]."""
    world = worlds.get("dsprites")
    return world.render(world.sample(32, seed=0), size=64).images.float() / 255


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_parameter_counts() -> None:
    # conv64, one channel. Encoder: 544 + 3 · 16,416 convolutions, 131,328 + 65,792 + 5,140 fully connected = 252,052.
    # Decoder: 2,816 + 65,792 + 131,584 fully connected, 3 · 16,416 + 513 convolutions = 249,953.
    assert count(BetaVAE(channels=1)) == count(BetaTCVAE(channels=1)) == count(AnnealedVAE(channels=1))
    assert count(BetaVAE(channels=1)) == 252_052 + 249_953 == 502_005
    # Three channels: 2 · 32 · 16 weights more at each end and two more biases.
    assert count(BetaVAE()) == 502_005 + 2 * 1024 + 2
    # A plain one has half as many outputs of the encoder: 10 · 257 fewer.
    assert count(Autoencoder(channels=1)) == 502_005 - 2570
    # The discriminator: 10 · 1000 + 1000, four times 1000 · 1000 + 1000, 1000 · 2 + 2.
    assert count(FactorVAE(channels=1)) == 502_005 + 11_000 + 4 * 1_001_000 + 2002 == 502_005 + 4_017_002
    # conv128. Encoder: 4,864 + 3 · 102,464 convolutions, 1,048,832 + 2 · 65,792 fully connected = 1,492,672.
    # Decoder: 1,052,672 fully connected, 4 · 102,464 + 102,464 + 1,731 convolutions = 1,566,723.
    coat = BetaTCVAE(architecture="conv128", latents=256, likelihood="gaussian", dataset_size=23_000)
    assert count(coat) == 1_492_672 + 1_566_723 == 3_059_395


@pytest.mark.parametrize("name", MODELS)
def test_an_encoding_has_the_mean_and_its_reconstruction(name: str) -> None:
    model = MODELS[name]().eval()
    images = torch.rand(3, 3, 64, 64)
    encoding = model(images)
    assert encoding.vector.shape == (3, 10)
    assert torch.equal(encoding.vector, model(images).vector)
    assert torch.equal(encoding.reconstruction, model.decode(encoding.vector))
    assert encoding.reconstruction.min() >= 0
    assert encoding.reconstruction.max() <= 1
    assert model(images, reconstruct=False).reconstruction is None
    if name != "plain":
        assert torch.equal(encoding.vector, model.posterior(images)[0])
    assert isinstance(model, Learner)


def test_one_channel_models_take_grey_and_colour() -> None:
    model = BetaVAE(channels=1).eval()
    grey = torch.rand(2, 1, 64, 64)
    grey_encoding, threefold = model(grey), model(grey.expand(-1, 3, -1, -1))
    torch.testing.assert_close(grey_encoding.vector, threefold.vector)
    assert grey_encoding.reconstruction.shape == (2, 1, 64, 64)
    assert threefold.reconstruction.shape == (2, 3, 64, 64)
    assert torch.equal(threefold.reconstruction[:, 0], threefold.reconstruction[:, 2])
    colour = torch.rand(2, 3, 64, 64)
    torch.testing.assert_close(model(colour).vector, model(colour.mean(1, keepdim=True)).vector)


def test_the_large_architecture_takes_128_pixels() -> None:
    model = BetaTCVAE(architecture="conv128", latents=256, likelihood="gaussian").eval()
    encoding = model(torch.rand(2, 3, 128, 128))
    assert encoding.vector.shape == (2, 256)
    assert encoding.reconstruction.shape == (2, 3, 128, 128)
    assert model.training_loss({"images": torch.rand(2, 3, 128, 128)}, STEP)["loss"].isfinite()


def test_kaiming_bounds() -> None:
    first = BetaVAE().encoder[0].weight  # 3 · 4 · 4 inputs, gain of a rectifier: sqrt(2) · sqrt(3 / 48)
    assert 0.95 * math.sqrt(6 / 48) < first.abs().max() <= math.sqrt(6 / 48)


def test_reconstruction_errors_are_sums_over_pixels() -> None:
    images, codes = torch.rand(5, 3, 64, 64), torch.randn(5, 10)
    bernoulli = Autoencoder()
    by_pixel = F.binary_cross_entropy(bernoulli.decode(codes), images, reduction="none")
    torch.testing.assert_close(bernoulli.reconstruction_error(images, codes), by_pixel.sum((1, 2, 3)).mean())
    gaussian = Autoencoder(likelihood="gaussian")
    # Images go in as -1..1, so errors in 0..1 count four times.
    by_pixel = 4 * (gaussian.decode(codes) - images).square()
    error = gaussian.reconstruction_error(gaussian.prepare(images), codes)
    torch.testing.assert_close(error, by_pixel.sum((1, 2, 3)).mean())
    scaled = Autoencoder(likelihood="sigmoid-gaussian")
    # The release compares bytes: squared errors of 255 times the values, divided by 255.
    by_pixel = (255 * scaled.decode(codes) - 255 * images).square() / 255
    error = scaled.reconstruction_error(scaled.prepare(images), codes)
    torch.testing.assert_close(error, by_pixel.sum((1, 2, 3)).mean())


def test_255_times_the_squared_error_is_a_gaussian_likelihood() -> None:
    """Up to the constant of its density, that of a standard deviation of 1 / sqrt(510)."""
    model = Autoencoder(likelihood="sigmoid-gaussian")
    images, codes = torch.rand(4, 3, 64, 64), torch.randn(4, 10)
    normal = torch.distributions.Normal(model.decode(codes), 510**-0.5)
    density = -normal.log_prob(images).sum((1, 2, 3)).mean()
    constant = 3 * 64 * 64 * 0.5 * math.log(2 * math.pi / 510)
    torch.testing.assert_close(model.reconstruction_error(images, codes), density - constant)


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian", "sigmoid-gaussian"])
@pytest.mark.parametrize("name", MODELS)
def test_the_parts_add_up(name: str, likelihood: str) -> None:
    model = MODELS[name](likelihood=likelihood)
    losses = model.training_loss({"images": torch.rand(8, 3, 64, 64)}, STEP)
    weights = {  # the annealing is at a quarter
        "plain": {"reconstruction": 1.0},
        "beta": {"reconstruction": 1.0, "kl": 0.25 * 4},
        "annealed": {"reconstruction": 1.0, "distance": 100.0},
        "tc": {"reconstruction": 1.0, "mutual_information": 1.0, "total_correlation": 6.0, "dimension_kl": 0.25},
        "factor": {"reconstruction": 1.0, "kl": 1.0, "total_correlation": 0.25 * 6, "discriminator": 1.0},
    }[name]
    assert {*losses} - {"kl"} == {"loss", *weights} - {"kl"}
    assert not any(losses[part].requires_grad for part in weights)
    torch.testing.assert_close(losses["loss"], sum(weight * losses[part] for part, weight in weights.items()))


def test_annealing_rises_from_0_to_1() -> None:
    model = BetaVAE()
    steps = torch.tensor([0.0, 5000.0, 10_000.0, 99_999.0])
    assert [float(model.annealing_weight(step)) for step in steps] == [0, 0.5, 1, 1]
    assert BetaVAE(anneal=0).annealing_weight(torch.tensor(0.0)) == 1


def test_the_capacity_rises_by_a_nat_every_4000_steps() -> None:
    model = AnnealedVAE()
    steps = torch.tensor([0.0, 4000.0, 34_560.0, 100_000.0, 10**6])
    capacities = torch.stack([torch.as_tensor(model.capacity_at(step)) for step in steps])
    torch.testing.assert_close(capacities, torch.tensor([0.0, 1.0, 8.64, 25.0, 25.0]))
    assert AnnealedVAE(anneal=0).capacity_at(torch.tensor(0.0)) == 25


@pytest.mark.parametrize("step", [0.0, 2500.0, 50_000.0])
def test_the_distance_is_between_the_mean_kl_and_the_capacity(step: float) -> None:
    model = MODELS["annealed"]()
    losses = model.training_loss({"images": torch.rand(8, 3, 64, 64)}, torch.tensor(step))
    torch.testing.assert_close(losses["distance"], (losses["kl"] - 25 * min(1.0, step / 10_000)).abs())


def test_the_kl_follows_the_capacity(fit: Any, sprites: Tensor) -> None:
    """Whatever the reconstruction asks for: 1 nat is less than the log 8 that tell 8 images apart, and 10 is more."""
    for capacity in (1.0, 10.0):
        torch.manual_seed(0)
        model = AnnealedVAE(channels=1, anneal=0, capacity=capacity)
        fit(model, lambda _: {"images": sprites[:8]}, steps=60, lr=2e-3)
        assert float(model.training_loss({"images": sprites[:8]}, STEP)["kl"]) == pytest.approx(capacity, rel=0.3)


# ------------------------------------------------------------------------------------------------ the KL and its parts


def test_the_kl_agrees_with_torch() -> None:
    mean, log_variance = torch.randn(50, 4), torch.randn(50, 4)
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(mean, (0.5 * log_variance).exp()), normal(0.0, 1.0))
    torch.testing.assert_close(kl_divergence(mean, log_variance), expected.sum(1).mean())


def test_the_log_density_agrees_with_torch() -> None:
    values, mean, log_variance = torch.randn(3, 50, 4)
    expected = torch.distributions.Normal(mean, (0.5 * log_variance).exp()).log_prob(values)
    torch.testing.assert_close(log_density(values, mean, log_variance), expected)


def misplaced_log_weights(batch: int, dataset_size: int, device: torch.device | None = None) -> Tensor:
    """The known mistake: strides of B where B + 1 was meant put the weights on columns, not on diagonals."""
    others = batch - 1
    weights = torch.full((batch, batch), 1 / others)
    weights.view(-1)[::batch] = 1 / dataset_size
    weights.view(-1)[1::batch] = (dataset_size - others) / (dataset_size * others)
    return weights.log()


def worst_error_of_the_mean_estimate(weights: Callable[..., Tensor]) -> float:
    """Over all ordered batches of 3 from 5 images: the mean estimate of q(z) against the q(z) of the whole dataset."""
    generator = torch.Generator().manual_seed(3)
    mean, log_variance = torch.randn(5, 2, generator=generator), torch.randn(5, 2, generator=generator)
    points = torch.randn(5, 2, generator=generator)
    densities = log_density(points[:, None], mean[None], log_variance[None]).sum(2).exp()  # [5, 5]
    truth = densities.mean(1)
    table = weights(3, 5).exp()
    worst = 0.0
    for image, row in itertools.product(range(5), range(3)):
        estimates = []
        for batch in itertools.permutations(range(5), 3):
            if batch[row] == image:  # the point of this image stands in this row of the batch
                estimates.append((table[row] * densities[image, list(batch)]).sum())
        worst = max(worst, float((torch.stack(estimates).mean() / truth[image] - 1).abs()))
    return worst


def test_stratified_weights_estimate_the_density_without_bias() -> None:
    assert worst_error_of_the_mean_estimate(stratified_log_weights) < 1e-6
    assert worst_error_of_the_mean_estimate(misplaced_log_weights) > 0.1


@pytest.mark.parametrize(("batch", "dataset_size"), [(2, 2), (2, 10), (64, 64), (64, 737_280), (128, 23_000)])
def test_stratified_weights(batch: int, dataset_size: int) -> None:
    weights = stratified_log_weights(batch, dataset_size).double().exp()
    torch.testing.assert_close(weights.sum(1), torch.ones(batch, dtype=torch.float64), rtol=1e-6, atol=0)
    torch.testing.assert_close(weights.diagonal(), torch.full((batch,), 1 / dataset_size).double())
    # Every image of the batch is used as often as every other.
    torch.testing.assert_close(weights.sum(0), torch.ones(batch, dtype=torch.float64), rtol=1e-6, atol=0)


def test_the_parts_of_the_kl_have_their_closed_forms() -> None:
    # Correlated means of unequal spread under equal noise: the aggregated posterior is a Gaussian of known covariance.
    spread, noise = torch.tensor([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 0.5]]), 0.5
    estimates = []
    for _ in range(8):
        mean = torch.randn(2000, 3) @ spread.T
        log_variance = torch.full_like(mean, 2 * math.log(noise))
        estimates.append(torch.stack(decompose_kl(sample_gaussian(mean, log_variance), mean, log_variance, 10**9)))
    covariance = spread @ spread.T + noise**2 * torch.eye(3)
    variances = covariance.diagonal()
    information = 0.5 * (torch.logdet(covariance) - 3 * math.log(noise**2))
    correlation = 0.5 * (variances.log().sum() - torch.logdet(covariance))
    dimension_kl = 0.5 * (variances - 1 - variances.log()).sum()
    truth = torch.stack([information, correlation, dimension_kl])
    torch.testing.assert_close(truth, torch.tensor([1.6925, 0.2635, 0.1234]), rtol=0, atol=1e-3)
    assert (torch.stack(estimates).mean(0) - truth).abs().max() < 0.03


def parts_of_codes_that_identify_every_image() -> Tensor:
    mean = torch.arange(16.0)[:, None].expand(-1, 3)
    log_variance = torch.full_like(mean, -12.0)
    return torch.stack(decompose_kl(sample_gaussian(mean, log_variance), mean, log_variance, 1000)[:2])


def test_codes_that_identify_every_image_carry_log_n_nats(monkeypatch: pytest.MonkeyPatch) -> None:
    # No two posteriors touch, in any dimension: each latent knows which of the 1000 images it is, and so do the others.
    truth = torch.tensor([math.log(1000), 2 * math.log(1000)])
    torch.testing.assert_close(parts_of_codes_that_identify_every_image(), truth)
    monkeypatch.setattr("alebrije.models.autoencoders.stratified_log_weights", misplaced_log_weights)
    assert (parts_of_codes_that_identify_every_image() - truth).abs().min() > 3


def test_the_parts_sum_to_the_kl() -> None:
    mean, log_variance = torch.randn(2000, 3), torch.randn(2000, 3) - 1
    parts = decompose_kl(sample_gaussian(mean, log_variance), mean, log_variance, 10**6)
    # The sum telescopes to log q(z|x) - log p(z) at one sample for each image, so it is the KL up to sampling noise.
    assert abs(sum(parts) - kl_divergence(mean, log_variance)) < 0.1


def test_independent_latents_have_no_total_correlation() -> None:
    mean = torch.randn(1500, 3)
    log_variance = torch.full_like(mean, -1.0)
    assert abs(decompose_kl(sample_gaussian(mean, log_variance), mean, log_variance, 10**6)[1]) < 0.03


@pytest.mark.parametrize("log_variance", [-100.0, -30.0, 0.0, 30.0])
def test_sharp_and_wide_posteriors_keep_the_parts_finite(log_variance: float) -> None:
    mean = (3 * torch.randn(16, 256)).requires_grad_()
    spread = torch.full((16, 256), log_variance, requires_grad=True)
    parts = torch.stack(decompose_kl(sample_gaussian(mean, spread), mean, spread, 23_000))
    parts.sum().backward()
    assert parts.dtype == torch.float32
    assert parts.isfinite().all()
    assert mean.grad is not None
    assert mean.grad.isfinite().all()
    assert spread.grad is not None
    assert spread.grad.isfinite().all()


# ----------------------------------------------------------------------------------------------------------- FactorVAE


def gradients(model: nn.Module, loss: Callable[[FactorVAE], Tensor]) -> dict[str, Tensor]:
    model.zero_grad()
    torch.manual_seed(1)
    loss(model).backward()  # type: ignore[arg-type]
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def test_the_two_losses_of_factor_vae_have_separate_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FactorVAE(discriminator_width=50, anneal=0)
    images = torch.rand(8, 3, 64, 64)

    def loss(model: FactorVAE) -> Tensor:
        return model.training_loss({"images": images}, STEP)["loss"]

    both = gradients(model, loss)
    with monkeypatch.context() as patch:
        patch.setattr(model, "discrimination_error", lambda *_: torch.zeros(()))
        autoencoder = gradients(model, loss)
    with monkeypatch.context() as patch:
        patch.setattr(model, "reconstruction_error", lambda *_: torch.zeros(()))
        patch.setattr("alebrije.models.autoencoders.kl_divergence", lambda *_: torch.zeros(()))
        patch.setattr(model, "total_correlation", lambda *_: torch.zeros(()))
        discriminator = gradients(model, loss)
    for name, gradient in both.items():
        mine, other = (
            (discriminator, autoencoder) if name.startswith("discriminator.") else (autoencoder, discriminator)
        )
        assert torch.equal(gradient, mine[name]), name
        assert not other[name].any(), name
        assert gradient.any(), name


def test_the_total_correlation_reaches_the_encoder() -> None:
    model = FactorVAE(discriminator_width=50)
    latents = torch.randn(6, 10, requires_grad=True)
    model.total_correlation(latents).backward()
    assert latents.grad is not None
    assert latents.grad.any()
    assert all(parameter.grad is None for parameter in model.discriminator.parameters())


def test_discrimination_is_cross_entropy() -> None:
    model = FactorVAE(discriminator_width=50)
    joint, shuffled = torch.randn(6, 10), torch.randn(6, 10)
    zeros = torch.zeros(6, dtype=torch.int64)
    expected = 0.5 * (
        F.cross_entropy(model.discriminator(joint), zeros) + F.cross_entropy(model.discriminator(shuffled), zeros + 1)
    )
    torch.testing.assert_close(model.discrimination_error(joint, shuffled), expected)


def test_a_trained_discriminator_estimates_the_total_correlation() -> None:
    # Two latents with correlation 0.8 have a total correlation of -log(1 - 0.64) / 2 = 0.511 nats.
    model = FactorVAE(latents=2, discriminator_width=64, discriminator_layers=2)
    optimiser = torch.optim.Adam(model.discriminator.parameters(), 1e-3)
    mixing = torch.tensor([[1.0, 0.8], [0.0, 0.6]])
    for _ in range(600):
        joint, other = torch.randn(2, 1024, 2) @ mixing
        optimiser.zero_grad()
        model.discrimination_error(joint, shuffle_dimensions(other)).backward()
        optimiser.step()
    with torch.no_grad():
        estimate = float(model.total_correlation(torch.randn(20_000, 2) @ mixing))
    assert estimate == pytest.approx(-0.5 * math.log(1 - 0.64), abs=0.1)


def test_shuffled_dimensions_keep_their_marginals_and_become_independent() -> None:
    column = torch.randn(2000, 1)
    latents = torch.cat([column, column, -column], dim=1)
    shuffled = shuffle_dimensions(latents)
    assert torch.equal(shuffled.sort(0).values, latents.sort(0).values)
    assert torch.corrcoef(latents.T).abs().min() > 0.99
    assert (torch.corrcoef(shuffled.T) - torch.eye(3)).abs().max() < 0.1


# ------------------------------------------------------------------------------------------------- training, bad input


@pytest.mark.parametrize("name", MODELS)
def test_half_precision_and_whole_graphs(name: str) -> None:
    model = MODELS[name]()
    whole: Callable[[Batch, Tensor], Losses] = torch.compile(model.training_loss, backend="eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        losses = whole({"images": torch.rand(8, 3, 64, 64)}, STEP)
    losses["loss"].backward()
    assert all(part.dtype == torch.float32 and part.isfinite() for part in losses.values())
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def pixel_error(model: nn.Module, images: Tensor) -> float:
    """Mean squared error of a pixel."""
    with torch.no_grad():
        return float((model(images).reconstruction - images).square().mean())


def test_a_plain_autoencoder_memorises_a_few_images(fit: Any, sprites: Tensor) -> None:
    model = Autoencoder(channels=1)
    # The mean image has an error of 0.0325.
    assert (sprites - sprites.mean(0)).square().mean() > 0.03
    fit(model, lambda _: {"images": sprites}, steps=120, lr=2e-3)
    assert pixel_error(model, sprites) < 0.003


@pytest.mark.parametrize("name", ["beta", "annealed", "tc", "factor"])
def test_variational_autoencoders_memorise_a_few_images(name: str, fit: Any, sprites: Tensor) -> None:
    arguments = {
        "tc": {"dataset_size": 16, "beta": 1.0},
        "beta": {"beta": 1.0},
        "annealed": {"anneal": 0, "gamma": 1.0},
        "factor": {},
    }
    model = MODELS[name](channels=1, **arguments[name])
    few = sprites[:16]
    images = few.repeat(2, 1, 1, 1) if name == "factor" else few  # FactorVAE reconstructs only the first half
    history = fit(model, lambda _: {"images": images}, steps=120, lr=2e-3)
    assert history[-1] < 0.1 * history[0]
    assert pixel_error(model, few) < 0.004


def test_beta_squeezes_the_code(fit: Any, sprites: Tensor) -> None:
    def kl_after_training(beta: float) -> float:
        torch.manual_seed(0)
        model = BetaVAE(channels=1, beta=beta, anneal=0)
        fit(model, lambda _: {"images": sprites[:16]}, steps=60, lr=2e-3)
        return float(model.training_loss({"images": sprites[:16]}, STEP)["kl"])

    assert kl_after_training(100.0) < 0.5 * kl_after_training(0.1)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Autoencoder(architecture="conv32"), "architecture must be one of conv64, conv128"),  # type: ignore[arg-type]
        (lambda: Autoencoder(channels=2), "channels must be 1 or 3"),
        (lambda: Autoencoder(latents=0), "latents must be at least 1"),
        (lambda: Autoencoder(likelihood="laplace"), "likelihood must be"),  # type: ignore[arg-type]
        (lambda: BetaVAE(beta=-1.0), "beta must be a finite number"),
        (lambda: BetaVAE(beta=math.nan), "beta must be a finite number"),
        (lambda: BetaVAE(anneal=-1), "anneal must be a number of steps"),
        (lambda: AnnealedVAE(gamma=-1.0), "gamma must be a finite number"),
        (lambda: AnnealedVAE(capacity=math.inf), "capacity must be a finite number"),
        (lambda: AnnealedVAE(anneal=-1), "anneal must be a number of steps"),
        (lambda: BetaTCVAE(gamma=math.inf), "gamma must be a finite number"),
        (lambda: BetaTCVAE(dataset_size=1), "dataset_size must be"),
        (lambda: FactorVAE(discriminator_layers=0), "at least 1"),
        (lambda: Autoencoder()(torch.rand(2, 3, 32, 32)), r"takes images \[B, 3, 64, 64\], not \[2, 3, 32, 32\]"),
        (lambda: Autoencoder()(torch.rand(2, 1, 64, 64)), r"takes images \[B, 3, 64, 64\]"),
        (lambda: Autoencoder()(torch.rand(3, 64, 64)), "takes images"),
        (lambda: stratified_log_weights(1, 10), "must have 2 to 10 images.* not 1"),
        (lambda: stratified_log_weights(11, 10), "must have 2 to 10 images.* not 11"),
        (lambda: FactorVAE().training_loss({"images": torch.rand(3, 3, 64, 64)}, STEP), "4 images or more"),
    ],
)
def test_bad_input(build: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        build()
