"""The state-space baselines of SVIB: SSM-VAE and SSM-Slot, which imagine in the space of their latents.

Kim et al. 2023 (SVIB), Section 4.2, Appendix E.2 and Table 7; where the text is silent, the released code.

An encoder learns to reconstruct images, a `dynamics` transformer to predict the latents of the target from those of
the source, and a probe, the transformer `decoder`, to draw the target from the predicted latents. No loss reaches the
parts before its own. The paper trains the three one after another; the release trains encoder and dynamics together
and the probe after them; here all learn at once, so that dynamics and probe follow an encoder that is still moving.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.fused import rectified_layers
from alebrije.models.imagination import convolutions
from alebrije.models.learner import Batch, Losses
from alebrije.models.slot_attention import RandomSlots, SlotAttention, SoftPositions, mix, start_as_torch_releases
from alebrije.models.transformer import Transformer, TransformerDecoder, check_images, check_positive, linear


def gaussian_nll(mean: Tensor, value: Tensor, sigma: float) -> Tensor:
    """-log N(value; mean, sigma^2), averaged over everything.

    >>> gaussian_nll(torch.zeros(2), torch.zeros(2), sigma=(2 * math.pi) ** -0.5)
    tensor(0.)
    """
    return math.log(sigma) + 0.5 * math.log(2 * math.pi) + F.mse_loss(mean.float(), value.float()) / (2 * sigma**2)


def standard_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) || N(0, 1)), averaged over everything.

    >>> standard_kl(torch.tensor([1.0, -1.0]), torch.zeros(2))
    tensor(0.5000)
    """
    mean, log_variance = mean.float(), log_variance.float()
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean()


def deconvolutions(inputs: int, channels: int, outputs: int, doublings: int) -> nn.Sequential:
    """Four 5 x 5 transposed convolutions with ReLUs between them, which start as torch's do.

    The last `doublings` double the side and those before them keep it; for more than four there are more layers.
    """
    count = max(doublings, 4)
    widths = [inputs, *[channels] * (count - 1), outputs]
    layers: list[nn.Module] = []
    for number, (before, after) in enumerate(pairwise(widths)):
        stride = 1 if number < count - doublings else 2
        layers += [nn.ConvTranspose2d(before, after, 5, stride, padding=2, output_padding=stride - 1), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class StateSpace(nn.Module):
    """Dynamics and probe on top of an encoder.

    Names of parameters begin with `encoder.`, `dynamics.` or `decoder.`. Table 7 trains the probe at 3e-4, and all else
    at 3e-4 in SSM-VAE and at 2e-4 in SSM-Slot. The losses of the parts differ by orders of magnitude: whoever clips
    gradients must clip each part by itself, or the encoder's shrink the probe's.
    """

    size: int
    dynamics: Transformer
    decoder: TransformerDecoder

    def imagine(self, source: Tensor) -> Tensor:
        """The target images [B, 3, size, size], in 0..1, that follow from the latents [B, K, D] of the source."""
        images: Tensor = self.decoder(self.dynamics(source))
        return images.float().clamp(0, 1)

    def rest_of_loss(self, reconstruction: Losses, source: Tensor, target: Tensor, images: Tensor) -> Losses:
        """The losses of the encoder, of the dynamics on its latents [B, K, D], and of the probe, and their sum."""
        predicted = self.dynamics(source.detach())
        parts = {
            **reconstruction,
            "dynamics": F.mse_loss(predicted.float(), target.detach().float()),
            "probe": F.mse_loss(self.decoder(predicted.detach()).float(), images.float()),
        }
        loss = torch.stack(tuple(parts.values())).sum()
        return {"loss": loss} | {name: part.detach() for name, part in parts.items()}


# --- SSM-VAE ---


class VAE(nn.Module):
    """Four strided convolutions and an MLP to the posterior of `latents` numbers, and the same way back."""

    def __init__(self, *, size: int, channels: int, latents: int) -> None:
        super().__init__()
        check_positive(size=size, channels=channels, latents=latents)
        if size % 16:
            raise InputError(f"four convolutions of stride 2 need a size that 16 divides, got {size}")
        self.channels, self.side, hidden = channels, size // 16, 4 * latents
        self.convolutions = convolutions(channels, (2, 2, 2, 2))
        flat = channels * self.side**2
        self.posterior = nn.Sequential(linear(flat, hidden, relu=True), nn.ReLU(), linear(hidden, 2 * latents))
        self.expand = nn.Sequential(linear(latents, hidden, relu=True), nn.ReLU(), linear(hidden, flat))
        self.deconvolutions = deconvolutions(channels, channels, 3, 4)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """[B, 3, size, size] -> mean and logarithm of the variance of the posterior, [B, latents] each."""
        mean, log_variance = self.posterior(self.convolutions(images).flatten(1)).float().chunk(2, dim=1)
        return mean, log_variance

    def draw(self, latents: Tensor) -> Tensor:
        """[B, latents] -> [B, 3, size, size]."""
        features = self.expand(latents).view(-1, self.channels, self.side, self.side)
        images: Tensor = self.deconvolutions(features)
        return images.float()


class SSMVAE(StateSpace):
    """SSM-VAE: the latents of a frame are one vector, the mean of a variational autoencoder's posterior.

    The encoder minimises NLL + beta KL. As released, the NLL of Gaussian pixels (deviation `sigma`) is a mean over
    pixels and channels and the KL a mean over latents, so `beta=1` weighs the KL 3 size^2 / latents times (768 at 128
    pixels) as much as the evidence lower bound would; `beta=latents / (3 * size**2)` is the bound, the paper's
    "standard auto-encoding objective". The defaults are SVIB's, Table 7.

    >>> model = SSMVAE(size=32, channels=8, latents=16, decoder_width=32, decoder_blocks=1).eval()
    >>> images = torch.zeros(2, 3, 32, 32)
    >>> model(images).vector.shape, model.predict({"source": images}).shape
    (torch.Size([2, 16]), torch.Size([2, 3, 32, 32]))
    """

    def __init__(
        self,
        *,
        size: int = 128,
        channels: int = 64,
        latents: int = 64,
        beta: float = 1.0,
        sigma: float = 0.01,
        dynamics_blocks: int = 4,
        dynamics_heads: int = 1,  # one token has nobody to attend to
        dropout: float = 0.1,  # of the probe
        decoder_patch: int = 4,
        decoder_width: int = 192,
        decoder_blocks: int = 8,
        decoder_heads: int = 4,
    ) -> None:
        super().__init__()
        if beta < 0 or sigma <= 0:
            raise InputError(f"beta cannot be negative and sigma must be positive, got {beta} and {sigma}")
        self.size, self.beta, self.sigma = size, beta, sigma
        self.encoder = VAE(size=size, channels=channels, latents=latents)
        self.dynamics = Transformer(width=latents, blocks=dynamics_blocks, heads=dynamics_heads)
        self.decoder = TransformerDecoder(
            latents,
            size=size,
            patch=decoder_patch,
            width=decoder_width,
            blocks=decoder_blocks,
            heads=decoder_heads,
            dropout=dropout,
        )

    def forward(self, images: Tensor) -> Encoding:
        """Images [B, 3, size, size] -> the posterior mean [B, latents], and the images drawn from it."""
        mean, _ = self.encoder(check_images(images, self.size))
        return Encoding(vector=mean, reconstruction=self.encoder.draw(mean))

    def predict(self, batch: Batch) -> Tensor:
        """The target images [B, 3, size, size], clamped to 0..1 as released; in eval mode, always the same."""
        mean, _ = self.encoder(check_images(batch["source"], self.size, "source"))
        return self.imagine(mean[:, None])

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """`nll` + beta `kl` over sources and targets, `dynamics` and `probe`; `kl` comes with beta multiplied in."""
        target = check_images(batch["target"], self.size, "target")
        images = torch.cat((check_images(batch["source"], self.size, "source"), target))  # [2 B, 3, H, W]
        mean, log_variance = self.encoder(images)
        sample = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        reconstruction = {
            "nll": gaussian_nll(self.encoder.draw(sample), images, self.sigma),
            "kl": self.beta * standard_kl(mean, log_variance),
        }
        before, after = mean[:, None].chunk(2)  # [B, 1, D]
        return self.rest_of_loss(reconstruction, before, after, target)


# --- SSM-Slot ---


class SAVi(nn.Module):
    """Slot Attention that carries its slots from frame to frame by a predictor, and draws each frame from them.

    Unconditional: the slots of the first frame start from a learned Gaussian, those of the others from the predictor.
    """

    def __init__(
        self,
        *,
        size: int,
        slots: int,
        slot_size: int,
        iterations: int,
        channels: int,
        stride: int,
        features: int,
        hidden: int,
        predictor_blocks: int,
        predictor_heads: int,
    ) -> None:
        super().__init__()
        check_positive(slots=slots, iterations=iterations, channels=channels, stride=stride, features=features)
        doublings = max(size // 8, 1).bit_length() - 1
        if size != 8 << doublings:
            raise InputError(f"drawings that double from 8 pixels on reach 8, 16, 32, 64, 128 ..., but not {size}")
        self.slots, self.iterations = slots, iterations
        last = nn.Conv2d(channels, features, 5, padding=2)
        nn.init.xavier_uniform_(last.weight)
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]  # a convolution has one unless told otherwise
        self.convolutions = nn.Sequential(*convolutions(channels, (stride, 1, 1)), last)
        self.positions = SoftPositions(features, "half-pixel")
        self.mlp = nn.Sequential(
            nn.LayerNorm(features), linear(features, features, relu=True), nn.ReLU(), linear(features, features)
        )
        self.initial = RandomSlots(slot_size)
        self.corrector = SlotAttention(features, slot_size, projections=slot_size, hidden=hidden, norm_epsilon=1e-5)
        start_as_torch_releases(self.corrector, self.initial)
        self.predictor = Transformer(width=slot_size, blocks=predictor_blocks, heads=predictor_heads)
        self.drawn_positions = SoftPositions(slot_size, "half-pixel")
        self.deconvolutions = deconvolutions(slot_size, channels, 4, doublings)

    def forward(self, frames: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """[B, T, 3, size, size] -> the slots of every frame [B, T, K, D]."""
        features = self.positions(rectified_layers(self.convolutions, frames.flatten(0, 1)))  # [B * T, C, h, w]
        features = rectified_layers(self.mlp, features.flatten(2).mT)  # [B * T, N, C]
        features = features.view(*frames.shape[:2], *features.shape[1:])
        slots = self.initial(len(frames), self.slots, generator)  # [B, K, D]
        found: list[Tensor] = []
        for frame in features.unbind(1):
            slots, _ = self.corrector(frame, self.predictor(slots) if found else slots, self.iterations)
            found.append(slots)
        return torch.stack(found, dim=1)

    def draw(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """[B, K, D] -> the images [B, 3, size, size] and the masks [B, K, size, size]."""
        maps = slots.flatten(0, 1)[:, :, None, None].expand(-1, -1, 8, 8)
        drawn = rectified_layers(self.deconvolutions, self.drawn_positions(maps))  # [B * K, 4, H, W]
        drawn = drawn.view(*slots.shape[:2], *drawn.shape[1:])
        return mix(drawn[:, :, :3], drawn[:, :, 3:])


class SSMSlot(StateSpace):
    """SSM-Slot: the latents of a frame are the slots of SAVi, which sees source and target as a video of two frames.

    The encoder minimises the squared error of its drawings, summed over pixels and averaged over frames. Its slots
    start at random, in `predict` and in the encoding too: give a generator to get the same again.
    Slots, iterations, dynamics and probe are as in SVIB, Table 7; `channels`, `features`, `hidden`, the predictor and
    `stride` as in the release, which has `stride=1` for images of 64 pixels. It draws 128 pixels only, from 8 x 8
    by four transposed convolutions of stride 2; here, for smaller images, the first of the four have stride 1.

    >>> model = SSMSlot(size=32, channels=8, features=16, hidden=16, decoder_width=32, decoder_blocks=1).eval()
    >>> images = torch.zeros(2, 3, 32, 32)
    >>> model(images).slots.shape, model(images).masks.shape, model.predict({"source": images}).shape
    (torch.Size([2, 4, 64]), torch.Size([2, 4, 32, 32]), torch.Size([2, 3, 32, 32]))
    """

    def __init__(
        self,
        *,
        size: int = 128,
        slots: int = 4,
        slot_size: int = 64,
        iterations: int = 3,
        channels: int = 64,
        stride: int = 2,
        features: int = 192,
        hidden: int = 192,
        predictor_blocks: int = 1,
        predictor_heads: int = 4,
        dynamics_blocks: int = 4,
        dynamics_heads: int = 4,
        dropout: float = 0.1,  # of the probe
        decoder_patch: int = 4,
        decoder_width: int = 192,
        decoder_blocks: int = 8,
        decoder_heads: int = 4,
    ) -> None:
        super().__init__()
        self.size = size
        self.encoder = SAVi(
            size=size,
            slots=slots,
            slot_size=slot_size,
            iterations=iterations,
            channels=channels,
            stride=stride,
            features=features,
            hidden=hidden,
            predictor_blocks=predictor_blocks,
            predictor_heads=predictor_heads,
        )
        self.dynamics = Transformer(width=slot_size, blocks=dynamics_blocks, heads=dynamics_heads)
        self.decoder = TransformerDecoder(
            slot_size,
            size=size,
            patch=decoder_patch,
            width=decoder_width,
            blocks=decoder_blocks,
            heads=decoder_heads,
            dropout=dropout,
        )

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Encoding:
        """Images [B, 3, size, size], as the first frame -> slots [B, K, D], their masks, and the images drawn again."""
        slots = self.encoder(check_images(images, self.size)[:, None], generator)[:, 0]
        reconstruction, masks = self.encoder.draw(slots)
        return Encoding(slots=slots, masks=masks, reconstruction=reconstruction)

    def predict(self, batch: Batch, generator: torch.Generator | None = None) -> Tensor:
        """The target images [B, 3, size, size], clamped to 0..1 as released."""
        source = check_images(batch["source"], self.size, "source")
        return self.imagine(self.encoder(source[:, None], generator)[:, 0])

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """`reconstruction` of both frames, `dynamics` from the slots of one to those of the other, and `probe`."""
        target = check_images(batch["target"], self.size, "target")
        frames = torch.stack((check_images(batch["source"], self.size, "source"), target), dim=1)  # [B, 2, 3, H, W]
        slots = self.encoder(frames)  # [B, 2, K, D]
        drawn, _ = self.encoder.draw(slots.flatten(0, 1))
        errors = F.mse_loss(drawn.float(), frames.flatten(0, 1).float(), reduction="sum")
        return self.rest_of_loss({"reconstruction": errors / len(drawn)}, slots[:, 0], slots[:, 1], target)
