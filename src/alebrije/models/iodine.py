"""IODINE: slots that are refined by how well they explain an image (Greff et al. 2019).

A slot is a Gaussian over a latent vector. A decoder turns a sample of it into an image and a mask. How much each pixel
and each latent should change, the gradient of the variational bound, goes into a recurrent network that changes the
Gaussian; then a sample is decoded again. From top to bottom: initial weights, the refinement network, the variants, the
model.

The gradients that the refinement network reads are constants to training, as in the releases, so no second derivatives
are needed. They are computed in closed form: of the mixture in `mixture`, of the decoder in `PixelDecoder.gradient`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.checks import check_image_shape, check_positive
from alebrije.models.learner import Batch, Losses
from alebrije.models.mixture import Evaluated, Family, PixelMixture
from alebrije.models.pixel_decoder import PixelDecoder, coordinates

VariantName = Literal["deepmind", "coat"]

CONSTANTS = (5.0, 0.5)  # inputs of DeepMind's decoder and of its LSTM that never change
SMALLEST_DENSITY = 1e-6  # where no component explains a pixel, none is responsible


def init_as_sonnet(module: nn.Module) -> None:
    """Set weights from a normal distribution cut at two deviations of 1 / sqrt(inputs), and zero biases."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        deviation, edge = module.weight[0].numel() ** -0.5, math.erf(math.sqrt(2))
        with torch.no_grad():  # torch's own function reads a value, which a dry run does not have
            module.weight.uniform_(-edge, edge).erfinv_().mul_(math.sqrt(2) * deviation)
        nn.init.zeros_(module.bias)  # type: ignore[arg-type]


def init_as_xavier(module: nn.Module) -> None:
    """Set Glorot uniform weights and zero biases."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)  # type: ignore[arg-type]


class Refinement(nn.Module):
    """Changes the Gaussians of the slots, given maps [N, inputs, S, S], beliefs [N, 2 D] and their gradients [N, 2 D].

    Four 3x3 convolutions with stride 2, means over `pooled` x `pooled` parts of the map, an MLP, an LSTM, and a linear
    layer whose output is added to the beliefs. DeepMind's MLP has two layers and a constant beside its output; COAT's
    has one, and another (`project`) before the LSTM.
    """

    def __init__(
        self, inputs: int, beliefs: int, *, channels: int, hidden: int, pooled: int, constant: bool, project: bool
    ) -> None:
        super().__init__()
        self.pooled, self.constant = pooled, constant
        convolutions = [nn.Conv2d(inputs, channels, 3, 2, 1)]
        convolutions += [nn.Conv2d(channels, channels, 3, 2, 1) for _ in range(3)]
        self.convolutions = nn.Sequential(*(part for layer in convolutions for part in (layer, nn.ELU())))
        features = channels * pooled**2
        second = () if project else (nn.ELU(), nn.Linear(hidden, hidden))
        self.mlp = nn.Sequential(nn.Linear(features, hidden), *second)
        joined = hidden + 2 * beliefs + constant
        self.projection = nn.Sequential(nn.Linear(joined, hidden), nn.ELU()) if project else None
        self.hidden = hidden
        self.gates = nn.Linear((hidden if project else joined) + hidden, 4 * hidden)
        self.change = nn.Linear(hidden, beliefs)

    def forward(self, maps: Tensor, beliefs: Tensor, gradients: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the new beliefs [N, 2 D] and the new state of the LSTM."""
        features = self.convolutions(maps).float()
        features = F.adaptive_avg_pool2d(features, self.pooled).flatten(1)
        with torch.autocast(maps.device.type, enabled=False):  # the state of a recurrence stays in float32
            joined = torch.cat((self.mlp(features), beliefs, gradients), 1)
            if self.constant:
                joined = torch.cat((joined, joined.new_full((len(joined), 1), CONSTANTS[1])), 1)
            if self.projection is not None:
                joined = self.projection(joined)
            state = self.recur(joined, state)
            return beliefs + self.change(state.output), state

    def recur(self, inputs: Tensor, state: State) -> State:
        """Return the state of the LSTM after one more input; its forget gate starts with a bias of one."""
        enter, candidate, forget, leave = self.gates(torch.cat((inputs, state.output), 1)).chunk(4, 1)
        cell = (forget + 1).sigmoid() * state.cell + enter.sigmoid() * candidate.tanh()
        return State(leave.sigmoid() * cell.tanh(), cell)


class State(NamedTuple):
    """The state of an LSTM, [N, hidden] each."""

    output: Tensor
    cell: Tensor


@dataclass(frozen=True)
class Variant:
    """What differs between the two releases."""

    family: Family
    scale: float
    per_channel: bool
    signed: bool  # images in -1..1 and outputs through tanh, else images in 0..1 and linear outputs
    prior: float  # variance of the prior
    final: bool  # whether the slots are decoded after the last refinement
    only_nll: bool  # train only the last likelihood, else all variational bounds with rising weights
    constants: bool  # constant inputs of decoder and refinement network
    counterfactual: bool  # read the counterfactual likelihood and constant map, and learn the norms' scales
    pooled: int
    codes: Literal["mean", "sample"]


VARIANTS: dict[VariantName, Variant] = {
    "deepmind": Variant(
        family="logistic",
        scale=0.03,
        per_channel=False,
        signed=False,
        prior=0.6931471805599453,  # softplus(0): the prior is the belief of zeros
        final=True,
        only_nll=False,
        constants=True,
        counterfactual=True,
        pooled=1,
        codes="mean",
    ),
    "coat": Variant(
        family="gaussian",
        scale=0.1,
        per_channel=True,
        signed=True,
        prior=1.0,
        final=False,
        only_nll=True,
        constants=False,
        counterfactual=False,
        pooled=2,
        codes="sample",
    ),
}


class Step(NamedTuple):
    """One evaluation of the slots of a batch."""

    latents: Tensor  # [B, K, D], the sample that was decoded
    means: Tensor  # [B, K, 3, H, W]
    logits: Tensor  # [B, K, 1, H, W]
    evaluated: Evaluated
    kl: Tensor  # [B]


class Gradients(NamedTuple):
    """Gradients of the bound of every image by what its slots are and look like."""

    means: Tensor  # [B, K, 3, H, W]
    logits: Tensor  # [B, K, 1, H, W]
    beliefs: Tensor  # [B, K, 2 D]


Refined = tuple[Tensor, Tensor, Tensor, State]
Refine = Callable[[Tensor, Tensor, State, Tensor], Refined]
Bound = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


class IODINE(nn.Module):
    """IODINE (Greff et al. 2019), any number of slots at test.

    Defaults follow DeepMind's release for CLEVR6 (google-deepmind/deepmind-research). ``variant="coat"`` is the second
    of the two versions in the history of COAT's release, the only one whose refinement network learns: its loss is the
    negative log likelihood of the last evaluation, without the KL. `VARIANTS` lists all differences.

    `scale` is the deviation of a pixel; it sets the weight of the image against the KL. `channels` are those of decoder
    and refinement network, `hidden` the width of the MLP and LSTM. The slots of an image are the posterior means of the
    last evaluation or, with ``codes="sample"``, the sample that COAT used; each is the default of its variant. They are
    what is decoded. The first belief is the same for every slot, so only noise separates the slots, also at test.

    The gradients of an image are sums over its own pixels, so its refinement does not depend on the batch.

    >>> model = IODINE(size=16, slots=4, channels=8, hidden=16)
    >>> model(torch.rand(2, 3, 16, 16), slots=6).masks.shape
    torch.Size([2, 6, 16, 16])
    >>> sum(weight.numel() for weight in IODINE().parameters())
    1177168
    """

    def __init__(
        self,
        *,
        variant: VariantName = "deepmind",
        size: int = 128,
        slots: int = 7,
        iterations: int = 5,
        slot_size: int = 64,
        channels: int = 64,
        hidden: int = 256,
        scale: float | None = None,
        codes: Literal["mean", "sample"] | None = None,
    ) -> None:
        super().__init__()
        if variant not in VARIANTS:
            raise InputError(f"variant must be {' or '.join(VARIANTS)}, not {variant!r}")
        if codes not in ("mean", "sample", None):
            raise InputError(f"codes must be mean or sample, not {codes!r}")
        if scale is not None and not 0 < scale < float("inf"):
            raise InputError(f"scale must be a positive number, not {scale}")
        check_positive(slots=slots, iterations=iterations, slot_size=slot_size, channels=channels, hidden=hidden)
        self.variant = kind = VARIANTS[variant]
        if size < 16 * kind.pooled or size % 16:
            raise InputError(f"size must be a multiple of 16 pixels and at least {16 * kind.pooled}, not {size}")
        self.size, self.slots, self.iterations = size, slots, iterations
        self.evaluations = iterations + kind.final
        self.codes = codes or kind.codes
        self.mixture = PixelMixture(kind.family, scale or kind.scale, kind.per_channel)
        self.first_belief = nn.Parameter(torch.zeros(2 * slot_size))
        if kind.constants:
            nn.init.uniform_(self.first_belief, -((1.5 / slot_size) ** 0.5), (1.5 / slot_size) ** 0.5)
        else:
            self.first_belief.data[slot_size:] = 1.0
        self.decoder = PixelDecoder(slot_size, size, channels, CONSTANTS[0] if kind.constants else None)
        self.belief_norm = nn.LayerNorm(2 * slot_size, elementwise_affine=kind.counterfactual)
        counts = {"means": 3, "logits": 1, "likelihood": 1} | ({"counterfactual": 1} if kind.counterfactual else {})
        self.norms = nn.ModuleDict(
            {name: nn.GroupNorm(1, count, affine=kind.counterfactual) for name, count in counts.items()}
        )
        self.refinement = Refinement(
            18 if kind.counterfactual else 16,
            2 * slot_size,
            channels=channels,
            hidden=hidden,
            pooled=kind.pooled,
            constant=kind.constants,
            project=not kind.constants,
        )
        self.apply(init_as_sonnet if kind.constants else init_as_xavier)

    def forward(
        self,
        images: Tensor,
        slots: int | None = None,
        iterations: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Encoding:
        """Return slots, masks and reconstruction; `slots` and `iterations` are by default as in training."""
        count = self.slots if slots is None else slots
        refinements = self.iterations if iterations is None else iterations
        check_positive(slots=count, iterations=refinements)
        evaluations = refinements + self.variant.final
        device = self.first_belief.device if generator is None else generator.device
        shape = (evaluations, len(images), count, len(self.first_belief) // 2)
        noise = torch.randn(shape, generator=generator, device=device).to(self.first_belief.device)
        if self.codes == "mean":
            noise[-1] = 0.0
        for step in self.refine(self.prepare(images), noise):
            last = step
        return Encoding(slots=last.latents, masks=last.evaluated.masks.squeeze(2), reconstruction=self.mixed(last))

    def decode(self, slots: Tensor) -> Tensor:
        """Decode slots [B, K, D] to images [B, 3, S, S]."""
        means, logits, _ = self.components(slots)
        return self.unsigned((means.float() * logits.float().softmax(1)).sum(1))

    def decode_slots(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Decode slots [B, K, D] to the image of each [B, K, 3, S, S] and its mask [B, K, S, S]."""
        means, logits, _ = self.components(slots)
        return self.unsigned(means.float()), logits.float().softmax(1).squeeze(2)

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the loss of the variant, and the negative log likelihood and KL of the last evaluation in nats."""
        return self.loss_by(self.refined, self.bound, batch)

    def compiled_loss(self, compiled: Callable[[Any], Any]) -> Callable[[Batch, Tensor], Losses]:
        """Return `training_loss` with its parts compiled: all refinements share one, which the whole would repeat."""
        refined, bound = compiled(self.refined), compiled(self.bound)
        return lambda batch, step: self.loss_by(refined, bound, batch)

    def loss_by(self, refined: Refine, bound: Bound, batch: Batch) -> Losses:
        """Return the losses by these forms of `refined` and `bound`."""
        images, count = self.prepare(batch["images"]), self.slots
        noise = torch.randn(self.evaluations, len(images), count, len(self.first_belief) // 2, device=images.device)
        beliefs, state = self.start(len(images), count)
        parts = []
        for sample in noise[:-1].unbind():
            nll, kl, beliefs, state = refined(images, beliefs, state, sample)
            parts.append((nll, kl))
        parts.append(bound(images, beliefs, noise[-1]))
        nll, kl = (part.mean() for part in parts[-1])
        if self.variant.only_nll:
            return {"loss": nll, "nll": nll.detach(), "kl": kl.detach()}
        bounds = torch.stack([nll.mean() + kl.mean() for nll, kl in parts])
        loss = (bounds * torch.linspace(0, 1, len(bounds), device=images.device)).sum()
        return {"loss": loss, "nll": nll.detach(), "kl": kl.detach()}

    def start(self, images: int, slots: int) -> tuple[Tensor, State]:
        """Return the first belief [B, K, 2 D] of every slot and the first state of the LSTM.

        In training the state requires a gradient like all later ones, so that all refinements are the same graph.
        """
        beliefs = self.first_belief.repeat(images, slots, 1)
        zeros = [beliefs.new_zeros(images * slots, self.refinement.hidden) for _ in State._fields]
        return beliefs, State(*(zero.requires_grad_(beliefs.requires_grad) for zero in zeros))

    def refine(self, images: Tensor, noise: Tensor) -> Iterator[Step]:
        """Yield the evaluations of prepared images, each with its noise, [evaluations, B, K, D] in all."""
        beliefs, state = self.start(*noise.shape[1:3])
        for index, sample in enumerate(noise):
            step, after = self.evaluate(images, beliefs, sample)
            yield step
            if index < len(noise) - 1:
                beliefs, state = self.changed(images, beliefs, state, step, after, sample)

    def refined(self, images: Tensor, beliefs: Tensor, state: State, noise: Tensor) -> Refined:
        """Return negative log likelihood and KL [B] of the beliefs, and the beliefs and state after a refinement."""
        step, after = self.evaluate(images, beliefs, noise)
        return step.evaluated.nll, step.kl, *self.changed(images, beliefs, state, step, after, noise)

    def bound(self, images: Tensor, beliefs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return negative log likelihood and KL [B] of the beliefs."""
        step, _ = self.evaluate(images, beliefs, noise)
        return step.evaluated.nll, step.kl

    def changed(
        self, images: Tensor, beliefs: Tensor, state: State, step: Step, after: list[Tensor], noise: Tensor
    ) -> tuple[Tensor, State]:
        """Return the beliefs and the state of the LSTM after a refinement."""
        gradients = self.gradients(step, after, beliefs, noise)
        maps, normed = self.maps(images, step, gradients), self.belief_norm(gradients.beliefs)
        flat, state = self.refinement(maps, beliefs.flatten(0, 1), normed.flatten(0, 1), state)
        return flat.view(beliefs.shape), state

    def evaluate(self, images: Tensor, beliefs: Tensor, noise: Tensor) -> tuple[Step, list[Tensor]]:
        """Decode a sample of the beliefs [B, K, 2 D], and return it with the inner maps of the decoder."""
        mean, variance = split_belief(beliefs)
        latents = mean + variance.sqrt() * noise
        means, logits, after = self.components(latents)
        prior = self.variant.prior
        kl = 0.5 * ((variance + mean.square()) / prior - 1 - (variance / prior).log()).sum((1, 2))
        return Step(latents, means, logits, self.mixture.evaluate(images, means, logits), kl), after

    def components(self, latents: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return image [B, K, 3, S, S] and mask logits [B, K, 1, S, S] of each slot, and the decoder's inner maps."""
        maps, after = self.decoder(latents.flatten(0, 1))
        maps = maps.float().unflatten(0, latents.shape[:2])
        means = maps[:, :, 1:].tanh() if self.variant.signed else maps[:, :, 1:]
        return means, maps[:, :, :1], after

    @torch.no_grad()
    def gradients(self, step: Step, after: list[Tensor], beliefs: Tensor, noise: Tensor) -> Gradients:
        """Return the gradients of the sum over images of negative log likelihood and KL."""
        by_means, by_logits = self.mixture.gradients(step.evaluated)
        inner = by_means * (1 - step.means.square()) if self.variant.signed else by_means
        by_latents = self.decoder.gradient(after, torch.cat((by_logits, inner), 2).flatten(0, 1)).view(noise.shape)
        mean, variance = split_belief(beliefs)
        by_variance = 0.5 * (by_latents * noise / variance.sqrt() + 1 / self.variant.prior - 1 / variance)
        slope = beliefs.chunk(2, -1)[1].sigmoid()  # of softplus
        by_beliefs = torch.cat((by_latents + mean / self.variant.prior, by_variance * slope), -1)
        return Gradients(by_means, by_logits, by_beliefs)

    def maps(self, images: Tensor, step: Step, gradients: Gradients) -> Tensor:
        """Return what the refinement network reads at every pixel [B * K, inputs, S, S]."""
        evaluated, slots = step.evaluated, step.logits.shape[1]
        densities = evaluated.densities.sum(2, keepdim=True).exp()
        total = evaluated.likelihood.detach().sum(1, keepdim=True)
        read = [
            images[:, None].expand_as(step.means),
            step.means,
            step.logits,
            evaluated.masks if self.variant.counterfactual else evaluated.log_masks,
            densities / (densities.sum(1, keepdim=True) + SMALLEST_DENSITY),
            self.norms["means"](gradients.means.flatten(0, 1)).view(step.means.shape),
            self.norms["logits"](gradients.logits.flatten(0, 1)).view(step.logits.shape),
            self.norms["likelihood"](total)[:, None].expand_as(step.logits),
            coordinates(self.size, images.device)[:, None].expand(len(images), slots, -1, -1, -1),
        ]
        if self.variant.counterfactual:
            with torch.no_grad():
                share = evaluated.counterfactual().flatten(0, 1)
            read.append(self.norms["counterfactual"](share).view(step.logits.shape))
            read.append(torch.ones_like(step.logits))
        return torch.cat(read, 2).flatten(0, 1)

    def mixed(self, step: Step) -> Tensor:
        """Return the images of all slots mixed by their masks [B, 3, S, S], in 0..1."""
        return self.unsigned((step.evaluated.masks * step.means).sum(1))

    def prepare(self, images: Tensor) -> Tensor:
        """Return images in the range that the variant explains."""
        images = check_image_shape(images, self.size).float()
        return images * 2 - 1 if self.variant.signed else images

    def unsigned(self, images: Tensor) -> Tensor:
        """Undo the scaling of `prepare`."""
        return (images + 1) / 2 if self.variant.signed else images


def split_belief(beliefs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and variance [..., D] of beliefs [..., 2 D]."""
    mean, free = beliefs.chunk(2, -1)
    return mean, F.softplus(free)
