"""WeakDE: an adversarial autoencoder whose codes follow one Gaussian per labelled class (Valenti and Bacciu 2022).

A class is a combination of label values, such as a column, a row and a shape. First the codes learn to fill a cube.
Then each class gets a Gaussian, narrower than the codes that its images have, and a discriminator makes the codes of
the class follow it. A relation, such as "one column to the right", is a network that maps a code to one of the next
class.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.autoencoders import check_loss_weights
from alebrije.models.checks import check_positive
from alebrije.models.learner import Batch, Losses
from alebrije.models.parted_vae import image_channels

SHRINKAGE = 0.1  # of the covariance of a class, when it becomes the class's prior
_RIDGE = 1e-6  # variance added to every latent of a class, so that classes of few images have a density


class WeakDE(nn.Module):
    """WeakDE for images of 64 pixels, with the labels respected; ``as_published=True`` is a plain autoencoder.

    The public code behind Mahon et al. 2024 never reaches its adversarial steps and uses no label, so its WeakDE is a
    plain autoencoder with batch norms; that is ``as_published=True``. In the release that it was made from, labels are
    set to zero before they are used, so all prior samples come from the first class. Here they are not.

    The prior is uniform on a cube for `warmup` steps. In the last `statistics` of them, the mean and covariance of the
    codes of every class are measured; afterwards the prior of a class is the Gaussian with that mean and a tenth of
    that covariance. `adversary` weights how well codes deceive the discriminator, which reads code and class;
    `relation` weights the relations' error. `counts` are the numbers of values of the labels; `labels` says which.
    Labels with a number of bins, such as "position x/3", have a next and a previous value, others a next one; both are
    cyclic. Sizes follow the code behind Mahon et al.

    >>> model = WeakDE(channels=1, counts=(3, 3, 3), labels="position x/3,position y/3,shape")
    >>> model.classes, model.relations
    (27, ((0, 1), (0, -1), (1, 1), (1, -1), (2, 1)))
    >>> model(torch.rand(2, 3, 64, 64)).vector.shape
    torch.Size([2, 10])
    """

    whole_batch_reason = "has batch norms"
    shifts: Tensor
    moduli: Tensor
    number: Tensor
    sums: Tensor
    squares: Tensor

    def __init__(
        self,
        *,
        channels: int = 3,
        latents: int = 10,
        as_published: bool = False,
        labels: str = "shape",
        counts: tuple[int, ...] = (3,),
        warmup: int = 100_000,
        statistics: int = 5_000,
        adversary: float = 0.2,
        relation: float = 1.0,
        width: int = 1024,
    ) -> None:
        super().__init__()
        check_positive(latents=latents, warmup=warmup, statistics=statistics, width=width)
        check_loss_weights(adversary=adversary, relation=relation)
        if channels not in (1, 3):
            raise InputError(f"channels must be 1 or 3, not {channels}")
        if statistics > warmup:
            raise InputError(f"statistics must be at most warmup, {warmup} steps, not {statistics}")
        self.channels, self.latents, self.as_published = channels, latents, as_published
        self.warmup, self.statistics = warmup, statistics
        self.adversary, self.relation = adversary, relation
        self.counts, self.classes = tuple(counts), math.prod(counts)
        self.relations = relations = _relations(labels, self.counts)
        self.encoder, self.decoder = build_encoder(channels, latents), build_decoder(channels, latents)
        if not as_published:
            self.discriminator = build_mlp(self.classes + latents, width, 1)
            self.relator = build_mlp(latents + len(self.relations), width, latents)
            shifts = torch.tensor(
                [[shift * (index == label) for label in range(len(counts))] for index, shift in relations]
            )
            self.register_buffer("shifts", shifts, persistent=False)  # [R, L]
            self.register_buffer("moduli", torch.tensor(self.counts), persistent=False)
            moments = torch.zeros(self.classes, latents, dtype=torch.float64)  # a covariance is a difference of them
            self.register_buffer("number", moments[:, 0].clone())  # of codes measured
            self.register_buffer("sums", moments)
            self.register_buffer("squares", moments[:, :, None].repeat(1, 1, latents))

    def forward(self, images: Tensor) -> Encoding:
        """Encode images [B, 3, 64, 64]."""
        vector = self.encoder(image_channels(images, self.channels)).float()
        return Encoding(vector=vector, reconstruction=self.decode(vector).expand(-1, images.shape[1], -1, -1))

    def decode(self, vector: Tensor) -> Tensor:
        """Decode codes [B, D] to images [B, channels, 64, 64]."""
        output: Tensor = self.decoder(vector)
        return output.sigmoid()

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the cross-entropy per pixel and, unless as published, the adversarial errors and the relations'."""
        images = image_channels(batch["images"], self.channels)
        codes = self.encoder(images).float()
        reconstruction = F.binary_cross_entropy_with_logits(self.decoder(codes).float(), images)
        if self.as_published:
            return {"loss": reconstruction, "reconstruction": reconstruction.detach()}
        classes = self.class_of(batch["labels"])
        warm = step < self.warmup
        self.measure(codes.detach(), classes, warm & (step >= self.warmup - self.statistics))
        priors = self.priors()
        deception, discriminator = self.adversarial_errors(codes, classes, self.sample(priors, classes, warm))
        relation = self.relation_error(codes, batch["labels"], priors) * (~warm)
        loss = reconstruction + self.adversary * deception + self.relation * relation + discriminator
        named = {"reconstruction": reconstruction, "deception": deception}
        named |= {"discriminator": discriminator, "relation": relation}
        return {"loss": loss, **{name: part.detach() for name, part in named.items()}}

    def class_of(self, labels: Tensor) -> Tensor:
        """Return the class [B] of labels [B, L], the last label fastest."""
        classes = labels[:, 0]
        for label, count in zip(labels.unbind(1)[1:], self.counts[1:], strict=True):
            classes = classes * count + label
        return classes

    @torch.no_grad()
    def measure(self, codes: Tensor, classes: Tensor, due: Tensor) -> None:
        """Add codes [B, D] to the moments of their classes, if that is due."""
        chosen, codes = indicator(classes, self.classes).double() * due, codes.double()  # [B, C], [B, D]
        self.number.add_(chosen.sum(0))
        self.sums.add_(chosen.mT @ codes)
        self.squares.add_(torch.einsum("bc,bd,be->cde", chosen, codes, codes))

    @torch.no_grad()
    def priors(self) -> ClassPriors:
        """Return the Gaussians of all classes; a class that was never measured has a standard normal shape."""
        number = self.number.clamp(min=1.0)[:, None]
        mean = self.sums / number
        covariance = self.squares / number[..., None] - mean[:, :, None] * mean[:, None]
        unit = torch.eye(self.latents, dtype=torch.float64, device=mean.device)
        covariance = torch.where((self.number > 1)[:, None, None], covariance, unit)
        return ClassPriors(mean.float(), cholesky(SHRINKAGE * covariance + _RIDGE * unit).float())

    def sample(self, priors: ClassPriors, classes: Tensor, warm: Tensor) -> Tensor:
        """Return a sample [B, D] of the prior of each class, or of the cube while training is warming up."""
        noise = torch.randn(len(classes), self.latents, device=classes.device)
        gaussian = priors.mean[classes] + (priors.root[classes] @ noise[:, :, None]).squeeze(2)
        return torch.where(warm, torch.rand_like(noise) * 2 - 1, gaussian)

    def adversarial_errors(self, codes: Tensor, classes: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return how little the codes deceive the discriminator, and the discriminator's error."""
        known = indicator(classes, self.classes)
        frozen = {name: parameter.detach() for name, parameter in self.discriminator.named_parameters()}
        judged: Tensor = functional_call(self.discriminator, frozen, (torch.cat((known, codes), 1),)).float()
        real, fake = (self.discriminator(torch.cat((known, values), 1)).float() for values in (samples, codes.detach()))
        discriminator = F.softplus(-real).mean() + F.softplus(fake).mean()
        return F.softplus(-judged).mean(), discriminator

    def relation_error(self, codes: Tensor, labels: Tensor, priors: ClassPriors) -> Tensor:
        """Return the squared error of a relation of each image, against a sample of the class that it leads to."""
        chosen = torch.randint(len(self.relations), (len(codes),), device=codes.device)
        classes = self.class_of((labels + self.shifts[chosen]) % self.moduli)
        noise = torch.randn_like(codes)
        target = priors.mean[classes] + (priors.root[classes] @ noise[:, :, None]).squeeze(2)
        known = indicator(chosen, len(self.relations))
        return F.mse_loss(self.relator(torch.cat((codes, known), 1)).float(), target)


class ClassPriors(NamedTuple):
    """One Gaussian for each class."""

    mean: Tensor  # [C, D]
    root: Tensor  # [C, D, D], lower triangular; times its transpose it is the covariance


def indicator(indices: Tensor, count: int) -> Tensor:
    """Return one-hot rows [B, count] of indices [B]; torch's own function reads values from the device."""
    return (indices[:, None] == torch.arange(count, device=indices.device)).float()


def _relations(labels: str, counts: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the relations as label and shift: both ways for labels in bins, else to the next value."""
    names = labels.split(",")
    if len(names) != len(counts):
        raise InputError(f"labels names {len(names)} factors, but counts has {len(counts)}")
    ways = [(1, -1) if "/" in name else (1,) for name in names]
    return tuple((index, shift) for index, shifts in enumerate(ways) for shift in shifts)


def cholesky(matrices: Tensor) -> Tensor:
    """Return the lower Cholesky roots of matrices [C, D, D], column by column.

    torch's own function checks its result on the CPU, which a captured step must not wait for.
    """
    columns: list[Tensor] = []
    for index in range(matrices.shape[-1]):
        column = matrices[:, :, index]
        if columns:
            before = torch.stack(columns, 2)  # [C, D, index]
            column = column - (before @ before[:, index, :, None]).squeeze(2)
        column = column / column[:, index, None].clamp(min=1e-12).sqrt()
        below = torch.arange(matrices.shape[-1], device=matrices.device) >= index
        columns.append(torch.where(below, column, 0.0))
    return torch.stack(columns, 2)


def build_encoder(channels: int, latents: int) -> nn.Sequential:
    """Build the network from images [B, channels, 64, 64] to codes [B, latents]."""
    convolutions: list[nn.Module] = []
    for layer in range(4):  # to [B, 32, 4, 4]
        convolution = nn.Conv2d(32 if layer else channels, 32, 4, 2, 1, bias=False)
        convolutions += [convolution, nn.BatchNorm2d(32), nn.LeakyReLU(0.1 if layer < 3 else 0.2)]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(512, 1024), nn.LeakyReLU(0.1), nn.Linear(1024, latents))


def build_decoder(channels: int, latents: int) -> nn.Sequential:
    """Build the network from codes [B, latents] to logits [B, channels, 64, 64]."""
    layers: list[nn.Module] = [nn.Linear(latents, 1024), nn.LeakyReLU(0.1), nn.Linear(1024, 512), nn.LeakyReLU(0.1)]
    layers.append(nn.Unflatten(1, (32, 4, 4)))
    for _ in range(3):
        layers += [nn.ConvTranspose2d(32, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.1)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(32, channels, 4, 2, 1))


def build_mlp(inputs: int, width: int, outputs: int) -> nn.Sequential:
    """Build a network with a linear layer, three hidden layers with tanh, and a linear output."""
    layers: list[nn.Module] = [nn.Linear(inputs, width)]
    for _ in range(3):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))
