"""Autoencoders: plain, beta-VAE, AnnealedVAE, beta-TCVAE and FactorVAE, with the networks of Mahon et al. and of COAT.

`conv64` is the network of Burgess et al. 2018 as YannDubs' disentangling-vae builds it. Mahon et al. 2024 trained
their beta-VAE, beta-TCVAE and FactorVAE with it. `conv128` is the network of COAT (Xie et al. 2022); MoCo shares it.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.checks import check_positive
from alebrije.models.learner import Batch, Losses

ArchitectureName = Literal["conv64", "conv128"]
Likelihood = Literal["bernoulli", "gaussian", "sigmoid-gaussian"]

BYTES = 255  # weight of the squared error of "sigmoid-gaussian": the error of bytes, squared and divided by 255

IMAGE_SIZES = {"conv64": 64, "conv128": 128}  # architecture -> width and height of its images in pixels


def build_encoder(architecture: ArchitectureName, channels: int, outputs: int) -> nn.Sequential:
    """Build a network from images [B, channels, S, S] to [B, outputs]."""
    if architecture not in IMAGE_SIZES:
        raise InputError(f"architecture must be one of {', '.join(IMAGE_SIZES)}, not {architecture!r}")
    if architecture == "conv64":
        network = nn.Sequential(
            *(nn.Conv2d(channels, 32, 4, 2, 1), nn.ReLU()),  # [B, 32, 32, 32]
            *(nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU()),  # [B, 32, 16, 16]
            *(nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU()),  # [B, 32, 8, 8]
            *(nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU()),  # [B, 32, 4, 4]
            nn.Flatten(),
            *(nn.Linear(512, 256), nn.ReLU()),
            *(nn.Linear(256, 256), nn.ReLU()),
            nn.Linear(256, outputs),
        )
        return _init_kaiming(network)
    return nn.Sequential(
        *(nn.Conv2d(channels, 64, 5, 2, 2), nn.LeakyReLU()),  # [B, 64, 64, 64]
        *(nn.Conv2d(64, 64, 5, 2, 2), nn.LeakyReLU()),  # [B, 64, 32, 32]
        *(nn.Conv2d(64, 64, 5, 2, 2), nn.LeakyReLU()),  # [B, 64, 16, 16]
        *(nn.Conv2d(64, 64, 5, 2, 2), nn.LeakyReLU()),  # [B, 64, 8, 8]
        nn.Flatten(),
        nn.Linear(4096, 256),  # no activation follows in the release
        nn.Linear(256, outputs),
    )


def build_decoder(architecture: ArchitectureName, channels: int, latents: int) -> nn.Sequential:
    """Build a network from latents [B, latents] to logits or pixels [B, channels, S, S]."""
    if architecture == "conv64":
        network = nn.Sequential(
            *(nn.Linear(latents, 256), nn.ReLU()),
            *(nn.Linear(256, 256), nn.ReLU()),
            *(nn.Linear(256, 512), nn.ReLU()),
            nn.Unflatten(1, (32, 4, 4)),
            *(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU()),  # [B, 32, 8, 8]
            *(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU()),  # [B, 32, 16, 16]
            *(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU()),  # [B, 32, 32, 32]
            nn.ConvTranspose2d(32, channels, 4, 2, 1),
        )
        return _init_kaiming(network)
    return nn.Sequential(
        nn.Linear(latents, 4096),
        nn.Unflatten(1, (64, 8, 8)),
        *(nn.ConvTranspose2d(64, 64, 5, 2, 2, output_padding=1), nn.LeakyReLU()),  # [B, 64, 16, 16]
        *(nn.ConvTranspose2d(64, 64, 5, 2, 2, output_padding=1), nn.LeakyReLU()),  # [B, 64, 32, 32]
        *(nn.ConvTranspose2d(64, 64, 5, 2, 2, output_padding=1), nn.LeakyReLU()),  # [B, 64, 64, 64]
        *(nn.ConvTranspose2d(64, 64, 5, 2, 2, output_padding=1), nn.LeakyReLU()),  # [B, 64, 128, 128]
        *(nn.ConvTranspose2d(64, 64, 5, 1, 2), nn.LeakyReLU()),
        nn.ConvTranspose2d(64, channels, 3, 1, 1),
    )


def build_discriminator(latents: int, width: int, layers: int) -> nn.Sequential:
    """Build a network from latents [B, latents] to two logits [B, 2]: sampled jointly, or each dimension shuffled."""
    hidden: list[nn.Module] = []
    for layer in range(layers):
        hidden += [nn.Linear(latents if layer == 0 else width, width), nn.LeakyReLU(0.2)]
    return _init_kaiming(nn.Sequential(*hidden, nn.Linear(width, 2)))


def _init_kaiming(network: nn.Sequential) -> nn.Sequential:
    for module in network:
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
    return network


def check_architecture_images(images: Tensor, architecture: ArchitectureName, channels: tuple[int, ...]) -> None:
    """Raise an InputError unless the images are [B, C, S, S] with S of the architecture and C among `channels`."""
    size = IMAGE_SIZES[architecture]
    if images.ndim != 4 or images.shape[1] not in channels or images.shape[2:] != (size, size):
        shapes = " or ".join(f"[B, {c}, {size}, {size}]" for c in channels)
        raise InputError(f"the architecture {architecture!r} takes images {shapes}, not {list(images.shape)}")


class Autoencoder(nn.Module):
    """A plain autoencoder: no noise, no prior; the loss is only the reconstruction error.

    COAT's "vanilla autoencoder" is a different model: its beta-TCVAE with beta and gamma zero, which still samples
    latents and still weights the mutual information by alpha = 1.

    `architecture` is `conv64` for images of 64 pixels or `conv128` for 128. With ``channels=1`` input colours are
    averaged, and the reconstruction has as many channels as the input. `likelihood` is `bernoulli` (cross-entropy,
    outputs through a sigmoid), `gaussian` (squared error of linear outputs, on images scaled to -1..1 as in COAT) or
    `sigmoid-gaussian` (255 times the squared error of outputs through a sigmoid: a Gaussian with a standard deviation
    of 1 / sqrt(510), as disentangling-vae's `gaussian`). Errors are summed over pixels and averaged over images.

    >>> model = Autoencoder(latents=10)
    >>> encoding = model(torch.rand(2, 3, 64, 64))
    >>> encoding.vector.shape, encoding.reconstruction.shape
    (torch.Size([2, 10]), torch.Size([2, 3, 64, 64]))
    """

    statistics = 1  # outputs of the encoder per latent

    def __init__(
        self,
        *,
        architecture: ArchitectureName = "conv64",
        channels: int = 3,
        latents: int = 10,
        likelihood: Likelihood = "bernoulli",
    ) -> None:
        super().__init__()
        check_positive(latents=latents)
        if channels not in (1, 3):
            raise InputError(f"channels must be 1 or 3, not {channels}")
        if likelihood not in get_args(Likelihood):
            raise InputError(f"likelihood must be {' or '.join(get_args(Likelihood))}, not {likelihood!r}")
        self.architecture: ArchitectureName = architecture
        self.channels = channels
        self.likelihood = likelihood
        self.encoder = build_encoder(architecture, channels, self.statistics * latents)
        self.decoder = build_decoder(architecture, channels, latents)

    def forward(self, images: Tensor, reconstruct: bool = True) -> Encoding:
        """Encode images [B, 3, S, S]; with `reconstruct`, also decode the codes."""
        vector = self.codes(self.prepare(images))
        if not reconstruct:
            return Encoding(vector=vector)
        return Encoding(vector=vector, reconstruction=self.decode(vector).expand(-1, images.shape[1], -1, -1))

    def decode(self, vector: Tensor) -> Tensor:
        """Decode codes [B, D] to images [B, channels, S, S]."""
        output: Tensor = self.decoder(vector)
        return (output + 1) / 2 if self.likelihood == "gaussian" else output.sigmoid()

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the reconstruction error of `images`."""
        images = self.prepare(batch["images"])
        loss = self.reconstruction_error(images, self.codes(images))
        return {"loss": loss, "reconstruction": loss.detach()}

    def prepare(self, images: Tensor) -> Tensor:
        """Return the input of the encoder [B, channels, S, S]: in 0..1, or in -1..1 for the likelihood `gaussian`."""
        check_architecture_images(images, self.architecture, (3,) if self.channels == 3 else (3, 1))
        images = images.mean(1, keepdim=True) if images.shape[1] > self.channels else images
        return 2 * images - 1 if self.likelihood == "gaussian" else images

    def codes(self, images: Tensor) -> Tensor:
        """Encode prepared images to the vector [B, D]."""
        codes: Tensor = self.encoder(images)
        return codes

    def reconstruction_error(self, images: Tensor, vector: Tensor) -> Tensor:
        """Return the error of the images decoded from codes, given prepared images; a mean over images."""
        output, images = self.decoder(vector).float(), images.float()
        if self.likelihood == "bernoulli":
            return F.binary_cross_entropy_with_logits(output, images, reduction="sum") / len(images)
        if self.likelihood == "sigmoid-gaussian":
            return BYTES * F.mse_loss(output.sigmoid(), images, reduction="sum") / len(images)
        return F.mse_loss(output, images, reduction="sum") / len(images)


class _Variational(Autoencoder):
    """An autoencoder with Gaussian codes: the encoder returns a mean and a log variance for each latent."""

    statistics = 2

    def __init__(
        self, architecture: ArchitectureName, channels: int, latents: int, likelihood: Likelihood, anneal: int
    ) -> None:
        super().__init__(architecture=architecture, channels=channels, latents=latents, likelihood=likelihood)
        if anneal < 0:
            raise InputError(f"anneal must be a number of steps, at least 0, not {anneal}")
        self.anneal = anneal

    def posterior(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and log variance [B, D] of the latents of prepared images."""
        mean, log_variance = self.encoder(images).float().chunk(2, dim=1)
        return mean, log_variance

    def codes(self, images: Tensor) -> Tensor:
        """Return the posterior mean [B, D]."""
        return self.posterior(images)[0]

    def annealing_weight(self, step: Tensor) -> Tensor | float:
        """Return a weight that rises linearly from 0 at the first step to 1 at step `anneal` and stays there."""
        return (step / self.anneal).clamp(max=1.0) if self.anneal else 1.0


def sample_gaussian(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Sample each Gaussian once [B, D] by the reparametrisation trick, so that gradients flow."""
    return mean + (0.5 * log_variance).exp() * torch.randn_like(mean)


def kl_divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return KL(q(z|x) || N(0, 1)) in nats, summed over latents and averaged over images."""
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(1).mean()


class BetaVAE(_Variational):
    """Beta-VAE (Higgins et al. 2017): reconstruction + anneal · beta · KL(q(z|x) || N(0, 1)).

    Defaults follow YannDubs' disentangling-vae with the loss `betaH`, which Mahon et al. 2024 used: beta 4, 10 latents,
    the KL annealed over 10,000 steps. ``beta=1`` is the VAE. `Autoencoder` explains the other arguments. The vector is
    the posterior mean.

    >>> model = BetaVAE(channels=1)
    >>> sum(p.numel() for p in model.parameters())
    502005
    >>> model(torch.rand(2, 3, 64, 64)).vector.shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        *,
        architecture: ArchitectureName = "conv64",
        channels: int = 3,
        latents: int = 10,
        likelihood: Likelihood = "bernoulli",
        beta: float = 4.0,
        anneal: int = 10_000,
    ) -> None:
        super().__init__(architecture, channels, latents, likelihood, anneal)
        check_loss_weights(beta=beta)
        self.beta = beta

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return `reconstruction` and the unweighted `kl`, both means over images."""
        images = self.prepare(batch["images"])
        mean, log_variance = self.posterior(images)
        reconstruction = self.reconstruction_error(images, sample_gaussian(mean, log_variance))
        kl = kl_divergence(mean, log_variance)
        loss = reconstruction + self.annealing_weight(step) * self.beta * kl
        return {"loss": loss, "reconstruction": reconstruction.detach(), "kl": kl.detach()}


def check_loss_weights(**weights: float) -> None:
    """Raise an InputError unless every weight is a finite number of at least 0."""
    for name, weight in weights.items():
        if not 0 <= weight < math.inf:
            raise InputError(f"{name} must be a finite number of at least 0, not {weight}")


class AnnealedVAE(_Variational):
    """AnnealedVAE (Burgess et al. 2018, Equation 8): reconstruction + gamma · |KL(q(z|x) || N(0, 1)) - C|.

    The capacity C rises linearly from 0 at the first step to `capacity` nats at step `anneal`, so the code learns one
    factor after another, those that improve the reconstruction most first. 25 nats and gamma 100 are the defaults of
    YannDubs' disentangling-vae, where the loss is called `betaB`; 100,000 steps are those of disentanglement_lib (the
    former has 10,000 steps, the latter gamma 1000). `Autoencoder` explains the other arguments. The vector is the
    posterior mean.

    >>> model = AnnealedVAE(channels=1)
    >>> [float(model.capacity_at(torch.tensor(step))) for step in (0.0, 50_000.0, 200_000.0)]
    [0.0, 12.5, 25.0]
    """

    whole_batch_reason = "compares the mean KL of its batch with the capacity"

    def __init__(
        self,
        *,
        architecture: ArchitectureName = "conv64",
        channels: int = 3,
        latents: int = 10,
        likelihood: Likelihood = "bernoulli",
        gamma: float = 100.0,
        capacity: float = 25.0,
        anneal: int = 100_000,
    ) -> None:
        super().__init__(architecture, channels, latents, likelihood, anneal)
        check_loss_weights(gamma=gamma, capacity=capacity)
        self.gamma, self.capacity = gamma, capacity

    def capacity_at(self, step: Tensor) -> Tensor | float:
        """Return the capacity C of a step in nats."""
        return self.annealing_weight(step) * self.capacity

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return `reconstruction` and `kl`, both means over images, and the `distance` of the KL from the capacity."""
        images = self.prepare(batch["images"])
        mean, log_variance = self.posterior(images)
        reconstruction = self.reconstruction_error(images, sample_gaussian(mean, log_variance))
        kl = kl_divergence(mean, log_variance)
        distance = (kl - self.capacity_at(step)).abs()
        loss = reconstruction + self.gamma * distance
        parts = {"reconstruction": reconstruction, "kl": kl, "distance": distance}
        return {"loss": loss, **{name: part.detach() for name, part in parts.items()}}


class BetaTCVAE(_Variational):
    """Beta-TCVAE (Chen et al. 2018): reconstruction + alpha · MI + beta · TC + anneal · gamma · dimension-wise KL.

    The KL of a VAE is the sum of these three: the mutual information between image and code, the total correlation of
    the code, and the divergence of each latent from the prior. They are estimated within the batch by stratified
    sampling, which needs the number of training images, `dataset_size` (dSprites has 737,280).

    Defaults follow disentangling-vae's command line, which Mahon et al. 2024 used (its own runs on dSprites have
    another beta). COAT used ``architecture="conv128", latents=256, likelihood="gaussian", dataset_size=23_000`` with
    beta 0, 1, 2 or 3; its "autoencoder" has ``beta=0, gamma=0``. Both releases put the sampling weights on the first
    columns instead of the diagonal and count them once for each latent; this implementation follows the paper.

    >>> model = BetaTCVAE()
    >>> losses = model.training_loss({"images": torch.rand(8, 3, 64, 64)}, torch.tensor(0.0))
    >>> sorted(losses)
    ['dimension_kl', 'loss', 'mutual_information', 'reconstruction', 'total_correlation']
    """

    whole_batch_reason = "compares each image with all others of its batch"

    def __init__(
        self,
        *,
        architecture: ArchitectureName = "conv64",
        channels: int = 3,
        latents: int = 10,
        likelihood: Likelihood = "bernoulli",
        alpha: float = 1.0,
        beta: float = 6.0,
        gamma: float = 1.0,
        anneal: int = 10_000,
        dataset_size: int = 737_280,
    ) -> None:
        super().__init__(architecture, channels, latents, likelihood, anneal)
        check_loss_weights(alpha=alpha, beta=beta, gamma=gamma)
        if dataset_size < 2:
            raise InputError(f"dataset_size must be the number of training images, at least 2, not {dataset_size}")
        self.alpha, self.beta, self.gamma, self.dataset_size = alpha, beta, gamma, dataset_size

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return `reconstruction` and the three unweighted parts of the KL, all means over images."""
        images = self.prepare(batch["images"])
        mean, log_variance = self.posterior(images)
        latents = sample_gaussian(mean, log_variance)
        reconstruction = self.reconstruction_error(images, latents)
        information, correlation, dimension_kl = decompose_kl(latents, mean, log_variance, self.dataset_size)
        regulariser = self.alpha * information + self.beta * correlation
        loss = reconstruction + regulariser + self.annealing_weight(step) * self.gamma * dimension_kl
        return {
            "loss": loss,
            "reconstruction": reconstruction.detach(),
            "mutual_information": information.detach(),
            "total_correlation": correlation.detach(),
            "dimension_kl": dimension_kl.detach(),
        }


def decompose_kl(
    latents: Tensor, mean: Tensor, log_variance: Tensor, dataset_size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return mutual information, total correlation and dimension-wise KL in nats (Chen et al. 2018, Equation 2).

    `latents` [B, D] has one sample of each Gaussian of the batch.
    """
    log_weights = stratified_log_weights(len(latents), dataset_size, latents.device)  # [B, B]
    pairs = log_density(latents[:, None], mean[None], log_variance[None])  # [B, B, D], sample i under posterior j
    log_joint = torch.logsumexp(log_weights + pairs.sum(2), dim=1)  # [B], log q(z)
    log_marginals = torch.logsumexp(log_weights[:, :, None] + pairs, dim=1).sum(1)  # [B], log prod q(z_d)
    log_posterior = log_density(latents, mean, log_variance).sum(1)
    log_prior = log_density(latents, torch.zeros_like(latents), torch.zeros_like(latents)).sum(1)
    information = (log_posterior - log_joint).mean()
    return information, (log_joint - log_marginals).mean(), (log_marginals - log_prior).mean()


def stratified_log_weights(batch: int, dataset_size: int, device: torch.device | None = None) -> Tensor:
    """Log weights [B, B]: row i weights the posteriors for an unbiased estimate of q(z_i) (Chen et al. 2018, S6).

    The posterior of image i has the weight 1 / N. The M = B - 1 others represent the other N - 1 images: they have
    1 / M each, except the next one with (N - M) / (N M), so that each row sums to one.

    >>> stratified_log_weights(3, 10).exp()
    tensor([[0.1000, 0.4000, 0.5000],
            [0.5000, 0.1000, 0.4000],
            [0.4000, 0.5000, 0.1000]])
    """
    if not 2 <= batch <= dataset_size:
        raise InputError(f"the batch must have 2 to {dataset_size} images, the size of the dataset, not {batch}")
    others = batch - 1
    image = torch.arange(batch, device=device)
    ahead = (image[None, :] - image[:, None]) % batch  # [B, B], 0 on the diagonal and 1 for the next image
    log_weights = torch.full((batch, batch), -math.log(others), device=device)
    log_weights = torch.where(ahead == 1, math.log((dataset_size - others) / (dataset_size * others)), log_weights)
    return torch.where(ahead == 0, -math.log(dataset_size), log_weights)


def log_density(values: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return the log density of independent Gaussians in each dimension."""
    # Scale before squaring: zero squared over a variance that underflows in float32 would be NaN.
    distance = (values - mean) * (-0.5 * log_variance).exp()
    return -0.5 * (distance.square() + log_variance + math.log(2 * math.pi))


class FactorVAE(_Variational):
    """FactorVAE (Kim and Mnih 2018): reconstruction + KL + anneal · gamma · TC, with TC from a discriminator.

    The first half of the batch trains the autoencoder. The discriminator separates its latents from the latents of the
    second half with every dimension shuffled over images; the difference of its two logits estimates the total
    correlation. The loss is the sum of both losses. Neither sends gradients to the parameters of the other, so one
    backward pass is enough; parameters named `discriminator.` have their own learning rate and betas.

    Defaults follow disentangling-vae's command line, which Mahon et al. 2024 used: gamma 6, and a discriminator with 5
    hidden layers of 1000 (6 in the paper). It doubles the batch to 128, two halves of 64.

    >>> model = FactorVAE(discriminator_width=50)
    >>> losses = model.training_loss({"images": torch.rand(8, 3, 64, 64)}, torch.tensor(0.0))
    >>> sorted(losses)
    ['discriminator', 'kl', 'loss', 'reconstruction', 'total_correlation']
    """

    whole_batch_reason = "shuffles codes among all images of its batch"

    def __init__(
        self,
        *,
        architecture: ArchitectureName = "conv64",
        channels: int = 3,
        latents: int = 10,
        likelihood: Likelihood = "bernoulli",
        gamma: float = 6.0,
        anneal: int = 10_000,
        discriminator_width: int = 1000,
        discriminator_layers: int = 5,
    ) -> None:
        super().__init__(architecture, channels, latents, likelihood, anneal)
        check_loss_weights(gamma=gamma)
        check_positive(discriminator_width=discriminator_width, discriminator_layers=discriminator_layers)
        self.gamma = gamma
        self.discriminator = build_discriminator(latents, discriminator_width, discriminator_layers)

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return `reconstruction`, `kl` and `total_correlation` of the first half, and `discriminator`'s error."""
        images = self.prepare(batch["images"])
        half = len(images) // 2
        if half < 2:
            raise InputError(f"FactorVAE shuffles half of its batch, so it needs 4 images or more, not {len(images)}")
        mean, log_variance = self.posterior(images[:half])
        latents = sample_gaussian(mean, log_variance)
        reconstruction = self.reconstruction_error(images[:half], latents)
        kl = kl_divergence(mean, log_variance)
        correlation = self.total_correlation(latents)
        with torch.no_grad():
            shuffled = shuffle_dimensions(sample_gaussian(*self.posterior(images[half : 2 * half])))
        discriminator = self.discrimination_error(latents.detach(), shuffled)
        loss = reconstruction + kl + self.annealing_weight(step) * self.gamma * correlation + discriminator
        return {
            "loss": loss,
            "reconstruction": reconstruction.detach(),
            "kl": kl.detach(),
            "total_correlation": correlation.detach(),
            "discriminator": discriminator.detach(),
        }

    def total_correlation(self, latents: Tensor) -> Tensor:
        """Return the discriminator's estimate in nats; gradients reach the latents but not the discriminator."""
        frozen = {name: parameter.detach() for name, parameter in self.discriminator.named_parameters()}
        logits: Tensor = functional_call(self.discriminator, frozen, (latents,)).float()  # [B, 2]
        return (logits[:, 0] - logits[:, 1]).mean()

    def discrimination_error(self, joint: Tensor, shuffled: Tensor) -> Tensor:
        """Return the discriminator's cross-entropy on `joint` latents (class 0) and `shuffled` ones (class 1)."""
        logits = self.discriminator(torch.cat([joint, shuffled])).float()  # [2 B, 2]
        odds = logits[:, 1] - logits[:, 0]
        half = len(joint)
        return 0.5 * (F.softplus(odds[:half]).mean() + F.softplus(-odds[half:]).mean())


def shuffle_dimensions(latents: Tensor) -> Tensor:
    """Shuffle each column of latents [B, D] independently: the marginals stay the same, the dependence is lost."""
    return latents.gather(0, torch.rand_like(latents).argsort(0))
