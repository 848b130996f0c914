"""MTD: a part of the code for each labelled factor, whose every value has a Gaussian of its own.

A reimplementation of the idea, not of the published model. Mahon et al. 2024 compare with "multi-type disentanglement"
(Sha and Lukasiewicz 2021), a model of text without public code. They adapted a private version to images. What
is known of it is here: every value of every factor has its own latent distribution, the code has one part per factor
and a part for the rest, labels train all parts, one loss keeps values out of parts that are not theirs, and there is no
adversary. All else is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.autoencoders import (
    build_decoder,
    build_encoder,
    check_loss_weights,
    kl_divergence,
    sample_gaussian,
)
from alebrije.models.checks import check_positive
from alebrije.models.learner import Batch, Losses
from alebrije.models.parted_vae import image_channels


class MTD(nn.Module):
    """A variational autoencoder with labelled parts, for images of 64 pixels; a reimplementation of the idea of MTD.

    The code has `part` latents for each label and `content` more. The prior of a part is N(mu, 1) with a learned mu for
    each value of its label; that of the content is N(0, 1). The loss is reconstruction + `beta` KL to the prior of the
    true value + `classify` times the cross-entropy of a linear classifier of the value from its part + `confuse` times
    the KL from a uniform guess of a second classifier, which reads all other parts. The second classifier learns from
    codes as they are, and the codes do not change it: the two losses do not share gradients.

    >>> model = MTD(counts=(3, 6, 40))
    >>> model(torch.rand(2, 3, 64, 64)).vector.shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        *,
        channels: int = 3,
        labels: str = "all",
        counts: tuple[int, ...] = (3,),
        part: int = 1,
        content: int = 5,
        beta: float = 1.0,
        classify: float = 10.0,
        confuse: float = 1.0,
    ) -> None:
        super().__init__()
        check_positive(part=part, content=content)
        check_loss_weights(beta=beta, classify=classify, confuse=confuse)
        if channels not in (1, 3):
            raise InputError(f"channels must be 1 or 3, not {channels}")
        if not counts:
            raise InputError(f"labels must name at least one factor, not {labels!r}")
        self.channels, self.part, self.counts = channels, part, tuple(counts)
        self.beta, self.classify, self.confuse = beta, classify, confuse
        latents = part * len(counts) + content
        self.encoder = build_encoder("conv64", channels, 2 * latents)
        self.decoder = build_decoder("conv64", channels, latents)
        self.means = nn.ParameterList(torch.randn(count, part) for count in counts)
        self.classifiers = nn.ModuleList(nn.Linear(part, count) for count in counts)
        self.critics = nn.ModuleList(
            nn.Sequential(nn.Linear(latents - part, 64), nn.ReLU(), nn.Linear(64, count)) for count in counts
        )

    def forward(self, images: Tensor) -> Encoding:
        """Encode images [B, 3, 64, 64] to the mean of the posterior, part after part."""
        mean, _ = self.posterior(image_channels(images, self.channels))
        return Encoding(vector=mean, reconstruction=self.decode(mean).expand(-1, images.shape[1], -1, -1))

    def decode(self, vector: Tensor) -> Tensor:
        """Decode codes [B, D] to images [B, channels, 64, 64]."""
        output: Tensor = self.decoder(vector)
        return output.sigmoid()

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the loss and its unweighted parts, means over images."""
        images, labels = image_channels(batch["images"], self.channels), batch["labels"]
        mean, log_variance = self.posterior(images)
        code = sample_gaussian(mean, log_variance)
        output = self.decoder(code).float()
        reconstruction = F.binary_cross_entropy_with_logits(output, images, reduction="sum") / len(images)
        kl = kl_divergence(mean - self.prior_mean(labels), log_variance)
        errors = self.label_errors(code, labels)
        supervised = self.classify * errors.prediction + self.confuse * errors.confusion + errors.critics
        loss = reconstruction + self.beta * kl + supervised
        named = {"reconstruction": reconstruction, "kl": kl, **errors._asdict()}
        return {"loss": loss, **{name: part.detach() for name, part in named.items()}}

    def posterior(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and log variance [B, D] of the code of prepared images."""
        mean, log_variance = self.encoder(images).float().chunk(2, 1)
        return mean, log_variance

    def prior_mean(self, labels: Tensor) -> Tensor:
        """Return the mean [B, D] of the prior of images with these labels [B, L]; zero for the content."""
        parts = [means[values] for means, values in zip(self.means, labels.unbind(1), strict=True)]
        content = self.encoder[-1].out_features // 2 - self.part * len(parts)  # type: ignore[operator]
        return torch.cat((*parts, parts[0].new_zeros(len(labels), content)), 1)

    def label_errors(self, code: Tensor, labels: Tensor) -> LabelErrors:
        """Return the errors of classifiers and critics, each summed over labels and averaged over images."""
        prediction, confusion, learned = [], [], []
        for index, (classifier, critic) in enumerate(zip(self.classifiers, self.critics, strict=True)):
            first, last = index * self.part, (index + 1) * self.part
            own, others = code[:, first:last], torch.cat((code[:, :first], code[:, last:]), 1)
            prediction.append(F.cross_entropy(classifier(own).float(), labels[:, index]))
            learned.append(F.cross_entropy(critic(others.detach()).float(), labels[:, index]))
            frozen = {name: parameter.detach() for name, parameter in critic.named_parameters()}
            guess = functional_call(critic, frozen, (others,)).float().log_softmax(1)
            confusion.append(-guess.mean())  # cross-entropy of a uniform guess
        return LabelErrors(*(torch.stack(errors).sum() for errors in (prediction, confusion, learned)))


class LabelErrors(NamedTuple):
    """How wrong the labels are: from their own part, from all others, and how wrong the critics are about these."""

    prediction: Tensor
    confusion: Tensor
    critics: Tensor
