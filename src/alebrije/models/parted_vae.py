"""PartedVAE: a code of three parts, one of them a class (Hajimiri et al. 2021), without labels and with a few.

z holds what all images have, c is a class, and u is what an image has because of its class: it is read through a gate
that depends on c, and its prior is a Gaussian of that class. Mahon et al. 2024 trained both forms.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.autoencoders import (
    ArchitectureName,
    check_architecture_images,
    check_loss_weights,
    kl_divergence,
    sample_gaussian,
)
from alebrije.models.checks import check_positive
from alebrije.models.learner import Batch, Losses

ClassPrior = Literal["uniform", "as-published"]
Codes = Literal["z+c", "z+u+c"]

TEMPERATURE = 0.67  # of the sampled classes in training
MOST_OVERLAP = 0.1  # Bhattacharyya coefficient that two class priors may have
STEEPEST = 8.0  # the gate's slope in the end
STEEPER = 2e-4  # what each step adds to it
_LEAST = 1e-12  # probability in a logarithm


class Parts(NamedTuple):
    """The posterior of a batch."""

    z_mean: Tensor  # [B, Z]
    z_log_variance: Tensor  # [B, Z]
    log_classes: Tensor  # [B, C], log q(c|x)
    u_mean: Tensor  # [B, U]
    u_log_variance: Tensor  # [B, U]


class PartedVAE(nn.Module):
    """PartedVAE without labels, for images of 64 pixels.

    The loss is the reconstruction error plus `weight` |capacity - KL| of z and of u, whose capacities rise to
    `z_capacity` and `u_capacity` nats over `anneal` steps, plus terms on the classes: 100 KL(q(c) || prior), 10 times
    the mean entropy of q(c|x), and 10 times the overlap of the class priors of u beyond 0.1, by the Bhattacharyya
    coefficient. Sizes and weights are those of the release (sinahmr/parted-vae).

    `class_prior` is uniform. The public code behind Mahon et al. 2024 has the values 0, 1/C ... (C-1)/C instead
    ("as-published"), which do not add up to one and forbid the first class. Its codes are z and log q(c|x), without u
    (``codes="z+c"``); "z+u+c" holds all parts.

    >>> model = PartedVAE(channels=1)
    >>> sum(weight.numel() for weight in model.parameters())
    762966
    >>> model(torch.rand(2, 3, 64, 64)).vector.shape
    torch.Size([2, 8])
    """

    whole_batch_reason = "compares means over its batch with capacities and a prior"
    slope: Tensor

    def __init__(
        self,
        *,
        channels: int = 3,
        latents: int = 5,
        classes: int = 3,
        class_latents: int = 1,
        class_prior: ClassPrior = "uniform",
        codes: Codes = "z+c",
        weight: float = 50.0,
        z_capacity: float = 30.0,
        u_capacity: float = 5.0,
        anneal: int = 300_000,
    ) -> None:
        super().__init__()
        check_positive(latents=latents, classes=classes, class_latents=class_latents, anneal=anneal)
        check_loss_weights(weight=weight, z_capacity=z_capacity, u_capacity=u_capacity)
        if channels not in (1, 3):
            raise InputError(f"channels must be 1 or 3, not {channels}")
        if class_prior not in ("uniform", "as-published"):
            raise InputError(f"class_prior must be uniform or as-published, not {class_prior!r}")
        if codes not in ("z+c", "z+u+c"):
            raise InputError(f"codes must be z+c or z+u+c, not {codes!r}")
        self.channels, self.classes, self.class_prior, self.codes = channels, classes, class_prior, codes
        self.weight, self.z_capacity, self.u_capacity, self.anneal = weight, z_capacity, u_capacity, anneal
        self.encoder = build_encoder(channels)
        self.z_head = nn.Linear(256, 2 * latents)
        self.class_head = nn.Linear(256, classes)
        self.gate = nn.Linear(classes, 256)
        self.u_head = nn.Linear(256, 2 * class_latents)
        self.prior_mean = nn.Parameter(torch.randn(classes, class_latents))
        self.prior_spread = nn.Parameter(torch.randn(classes, class_latents))
        self.decoder = build_decoder(channels, latents + class_latents)
        self.register_buffer("slope", torch.ones(()))  # of the gate; it is the last one of training at test

    def forward(self, images: Tensor) -> Encoding:
        """Encode images [B, 3, 64, 64]; the class of the gate is the most likely one."""
        parts = self.posterior(self.prepare(images))
        code = torch.cat((parts.z_mean, parts.u_mean), 1)
        chosen = (parts.z_mean, parts.log_classes) if self.codes == "z+c" else (code, parts.log_classes)
        reconstruction = self.decoder(code).sigmoid().expand(-1, images.shape[1], -1, -1)
        return Encoding(vector=torch.cat(chosen, 1), reconstruction=reconstruction)

    def decode(self, vector: Tensor) -> Tensor:
        """Decode codes [B, D] to images; without u, that is the mean of its prior in the most likely class."""
        code, log_classes = vector[:, : -self.classes], vector[:, -self.classes :]
        if self.codes == "z+c":
            code = torch.cat((code, self.prior_mean[log_classes.argmax(1)]), 1)
        output: Tensor = self.decoder(code)
        return output.sigmoid()

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the loss and its unweighted parts."""
        images = self.prepare(batch["images"])
        self.slope.copy_((1 + STEEPER * step).clamp(max=STEEPEST))
        parts = self.posterior(images, sample=True)
        z, u = sample_gaussian(*parts[:2]), sample_gaussian(*parts[3:])
        output = self.decoder(torch.cat((z, u), 1)).float()
        reconstruction = F.binary_cross_entropy_with_logits(output, images, reduction="sum") / len(images)
        z_kl, u_kl = kl_divergence(*parts[:2]), self.class_kl(parts)
        rise = (step / self.anneal).clamp(max=1.0)
        distance = (rise * self.z_capacity - z_kl).abs() + (rise * self.u_capacity - u_kl).abs()
        probabilities = parts.log_classes.exp()
        class_kl = divergence_from(probabilities.mean(0), self.prior_probabilities(images.device))
        entropy = -(probabilities * parts.log_classes).sum(1).mean()
        overlap = overlap_beyond(self.prior_mean, self.prior_log_variance, MOST_OVERLAP)
        loss = reconstruction + self.weight * distance + 100 * class_kl + 10 * entropy + 10 * overlap
        named = {"reconstruction": reconstruction, "z_kl": z_kl, "u_kl": u_kl, "class_kl": class_kl}
        named |= {"entropy": entropy, "overlap": overlap}
        return {"loss": loss, **{name: part.detach() for name, part in named.items()}}

    def posterior(self, images: Tensor, sample: bool = False) -> Parts:
        """Return the posterior of prepared images; `sample` draws relaxed classes for the gate."""
        features = self.encoder(images)
        z_mean, z_log_variance = self.z_head(features).float().chunk(2, 1)
        log_classes = self.class_head(features).float().log_softmax(1)
        if sample:
            gumbel = -torch.empty_like(log_classes).exponential_().log()
            classes = ((log_classes + gumbel) / TEMPERATURE).softmax(1)
        else:
            classes = F.one_hot(log_classes.argmax(1), self.classes).to(log_classes.dtype)
        gate = (self.slope * self.gate(classes)).sigmoid()
        u_mean, u_log_variance = self.u_head(features * gate).float().chunk(2, 1)
        return Parts(z_mean, z_log_variance, log_classes, u_mean, u_log_variance)

    def class_kl(self, parts: Parts) -> Tensor:
        """Return KL(q(u|x) || p(u|c)) in nats, expected over q(c|x), averaged over images."""
        mean, log_variance = parts.u_mean[:, None], parts.u_log_variance[:, None]  # [B, 1, U]
        prior = self.prior_log_variance
        distance = (mean - self.prior_mean).square()
        kl = 0.5 * (prior - log_variance + (log_variance.exp() + distance) / prior.exp() - 1).sum(2)  # [B, C]
        return (parts.log_classes.exp() * kl).sum(1).mean()

    @property
    def prior_log_variance(self) -> Tensor:
        """The log variance [C, U] of the class priors of u, between -3 and 1."""
        return 2 * self.prior_spread.tanh() - 1

    def prior_probabilities(self, device: torch.device) -> Tensor:
        """Return the prior of the classes [C]; the published one does not add up to one."""
        if self.class_prior == "uniform":
            return torch.full((self.classes,), 1 / self.classes, device=device)
        return torch.arange(self.classes, device=device) / self.classes

    def prepare(self, images: Tensor) -> Tensor:
        """Return the input of the encoder, [B, channels, 64, 64]."""
        return image_channels(images, self.channels)


class PartedVAESS(PartedVAE):
    """PartedVAE with a few labelled images: a cross-entropy on log q(c|x) trains the encoder and the class head.

    The labelled images, `labelled` of them chosen at random, are learned in passes of their own, with an optimizer of
    their own: all of them before every epoch ("epoch", as Mahon et al. 2024), or one batch before every step ("step",
    as the release, which has 10,000). `labels` names the factor; its values are the classes. `balance` names factors,
    in bins if wished, whose every combination is equally often among the labelled images: the release has
    ``balance="shape,scale,orientation/2,position x/2,position y/2"``.

    >>> PartedVAESS(counts=(4,)).classes
    4
    """

    def __init__(
        self,
        *,
        channels: int = 3,
        latents: int = 5,
        class_latents: int = 1,
        class_prior: ClassPrior = "uniform",
        codes: Codes = "z+c",
        weight: float = 50.0,
        z_capacity: float = 30.0,
        u_capacity: float = 5.0,
        anneal: int = 300_000,
        labels: str = "shape",
        counts: tuple[int, ...] = (3,),
        labelled: int = 3_000,
        passes: Literal["epoch", "step"] = "epoch",
        balance: str = "",
    ) -> None:
        if passes not in ("epoch", "step"):
            raise InputError(f"passes must be epoch or step, not {passes!r}")
        if len(counts) != 1:
            raise InputError(f"labels must name one factor, whose values are the classes, not {labels!r}")
        check_positive(labelled=labelled)
        super().__init__(
            channels=channels,
            latents=latents,
            classes=counts[0],
            class_latents=class_latents,
            class_prior=class_prior,
            codes=codes,
            weight=weight,
            z_capacity=z_capacity,
            u_capacity=u_capacity,
            anneal=anneal,
        )
        self.labelled, self.passes, self.balance = labelled, passes, balance

    def labelled_loss(self, batch: Batch) -> Tensor:
        """Return the cross-entropy of the classes of labelled images."""
        features = self.encoder(self.prepare(batch["images"]))
        return F.cross_entropy(self.class_head(features).float(), batch["labels"][:, 0])


def build_encoder(channels: int) -> nn.Sequential:
    """Build the network from images [B, channels, 64, 64] to features [B, 256]."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 32, 4, 2, 1), nn.ReLU()),  # [B, 32, 32, 32]
        *(nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU()),  # [B, 32, 16, 16]
        *(nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU()),  # [B, 64, 8, 8]
        *(nn.Conv2d(64, 64, 4, 2, 1), nn.LeakyReLU(0.1)),  # [B, 64, 4, 4]
        nn.Flatten(),
        *(nn.Linear(1024, 256), nn.ReLU()),
    )


def build_decoder(channels: int, latents: int) -> nn.Sequential:
    """Build the network from z and u [B, latents] to logits [B, channels, 64, 64]."""
    return nn.Sequential(
        *(nn.Linear(latents, 256), nn.ReLU()),
        *(nn.Linear(256, 1024), nn.ReLU()),
        nn.Unflatten(1, (64, 4, 4)),
        *(nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU()),  # [B, 64, 8, 8]
        *(nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU()),  # [B, 32, 16, 16]
        *(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU()),  # [B, 32, 32, 32]
        nn.ConvTranspose2d(32, channels, 4, 2, 1),
    )


def image_channels(images: Tensor, channels: int, architecture: ArchitectureName = "conv64") -> Tensor:
    """Return images of the architecture with this many channels; with one, colours are averaged."""
    check_architecture_images(images, architecture, (3,) if channels == 3 else (3, 1))
    return (images.mean(1, keepdim=True) if images.shape[1] > channels else images).float()


def divergence_from(probabilities: Tensor, prior: Tensor) -> Tensor:
    """Return KL(probabilities || prior) in nats, of [C]; a prior of zero counts as 1e-12, as published."""
    return (probabilities * ((probabilities + _LEAST).log() - (prior + _LEAST).log())).sum()


def overlap_beyond(means: Tensor, log_variances: Tensor, most: float) -> Tensor:
    """Return the sum over pairs of Gaussians [C, U] of max(0, overlap - most).

    The overlap of two Gaussians is their Bhattacharyya coefficient, the integral of the root of the product of their
    densities: 1 if they are the same.
    """
    first, second = torch.triu_indices(len(means), len(means), 1, device=means.device)
    variances = log_variances.exp()
    middle = 0.5 * (variances[first] + variances[second])
    distance = (means[first] - means[second]).square() / (8 * middle)
    spread = 0.5 * (middle.log() - 0.5 * (log_variances[first] + log_variances[second]))
    return ((-(distance + spread).sum(1)).exp() - most).clamp(min=0).sum()
