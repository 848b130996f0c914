"""The state-space baselines of SVIB: SSM-VAE and SSM-Slot, which predict the latents of the target.

Kim et al. 2023 (SVIB), Section 4.2, Appendix E.2 and Table 7; otherwise as in the released code.

An encoder learns to reconstruct images, a `dynamics` transformer learns to predict the latents of the target from the
latents of the source, and a probe, the transformer `decoder`, learns to predict the target image from the predicted
latents. No gradient flows from one part to the part before it. The paper trains the three parts one after another. The
released code trains encoder and dynamics together and the probe afterwards. Here all three train at once, so dynamics
and probe follow an encoder that still changes.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.autoencoders import sample_gaussian
from alebrije.models.checks import check_image_shape, check_positive
from alebrije.models.fused import rectified_layers
from alebrije.models.imagination import build_convolutions
from alebrije.models.learner import Batch, Losses
from alebrije.models.slot_attention import RandomSlots, SlotAttention, SoftPositions, init_as_torch_releases, mix
from alebrije.models.transformer import Transformer, TransformerDecoder, linear


def gaussian_nll(mean: Tensor, value: Tensor, sigma: float) -> Tensor:
    """Return -log N(value; mean, sigma^2), averaged over all entries.

    >>> gaussian_nll(torch.zeros(2), torch.zeros(2), sigma=(2 * math.pi) ** -0.5)
    tensor(0.)
    """
    return math.log(sigma) + 0.5 * math.log(2 * math.pi) + F.mse_loss(mean.float(), value.float()) / (2 * sigma**2)


def mean_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return KL(N(mean, variance) || N(0, 1)), averaged over latents and images.

    >>> mean_kl(torch.tensor([1.0, -1.0]), torch.zeros(2))
    tensor(0.5000)
    """
    mean, log_variance = mean.float(), log_variance.float()
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean()


def build_deconvolutions(inputs: int, channels: int, outputs: int, doublings: int) -> nn.Sequential:
    """Build four 5 x 5 transposed convolutions with ReLUs between them and torch's initialisation.

    The last `doublings` layers double the size, the others keep it. More than four doublings need more layers.
    """
    count = max(doublings, 4)
    widths = [inputs, *[channels] * (count - 1), outputs]
    layers: list[nn.Module] = []
    for index, (before, after) in enumerate(pairwise(widths)):
        stride = 1 if index < count - doublings else 2
        layers += [nn.ConvTranspose2d(before, after, 5, stride, padding=2, output_padding=stride - 1), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class StateSpace(nn.Module):
    """Dynamics and probe on top of an encoder.

    Parameter names start with `encoder.`, `dynamics.` or `decoder.`. The learning rate of the probe is 3e-4; the others
    have 3e-4 in SSM-VAE and 2e-4 in SSM-Slot (Table 7). The losses of the parts differ by orders of magnitude, so
    gradients must be clipped part by part: otherwise the encoder's gradients shrink the probe's.
    """

    size: int
    dynamics: Transformer
    decoder: TransformerDecoder

    def predict_from_latents(self, source: Tensor) -> Tensor:
        """Predict the target images [B, 3, size, size] in 0..1 from the latents of the source [B, K, D]."""
        images: Tensor = self.decoder(self.dynamics(source))
        return images.float().clamp(0, 1)

    def sum_losses(self, encoder: Losses, source: Tensor, target: Tensor, images: Tensor) -> Losses:
        """Return the losses of the encoder, the dynamics on its latents [B, K, D] and the probe, and their sum."""
        predicted = self.dynamics(source.detach())
        parts = {
            **encoder,
            "dynamics": F.mse_loss(predicted.float(), target.detach().float()),
            "probe": F.mse_loss(self.decoder(predicted.detach()).float(), images.float()),
        }
        loss = torch.stack(tuple(parts.values())).sum()
        return {"loss": loss} | {name: part.detach() for name, part in parts.items()}


class VAE(nn.Module):
    """Four strided convolutions and an MLP to the posterior of the latents, and a mirrored decoder."""

    def __init__(self, *, size: int, channels: int, latents: int) -> None:
        super().__init__()
        check_positive(size=size, channels=channels, latents=latents)
        if size % 16:
            raise InputError(f"four convolutions of stride 2 need a size divisible by 16, not {size}")
        self.channels, self.side, hidden = channels, size // 16, 4 * latents
        self.convolutions = build_convolutions(channels, (2, 2, 2, 2))
        flat = channels * self.side**2
        self.posterior = nn.Sequential(linear(flat, hidden, relu=True), nn.ReLU(), linear(hidden, 2 * latents))
        self.expand = nn.Sequential(linear(latents, hidden, relu=True), nn.ReLU(), linear(hidden, flat))
        self.deconvolutions = build_deconvolutions(channels, channels, 3, 4)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and log variance [B, latents] of the posterior of images [B, 3, size, size]."""
        mean, log_variance = self.posterior(self.convolutions(images).flatten(1)).float().chunk(2, dim=1)
        return mean, log_variance

    def decode(self, latents: Tensor) -> Tensor:
        """Decode latents [B, latents] to images [B, 3, size, size]."""
        features = self.expand(latents).view(-1, self.channels, self.side, self.side)
        images: Tensor = self.deconvolutions(features)
        return images.float()


class SSMVAE(StateSpace):
    """SSM-VAE: the latents of a frame are one vector, the mean of a variational autoencoder's posterior.

    The encoder minimises NLL + beta KL. As in the released code, the NLL of Gaussian pixels (standard deviation
    `sigma`) is a mean over pixels and channels and the KL a mean over latents. So `beta=1` weights the KL
    3 size^2 / latents times (768 at 128 pixels) as much as the evidence lower bound (the paper's "standard
    auto-encoding objective"), which is `beta=latents / (3 * size**2)`. Defaults follow SVIB, Table 7.

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
        dynamics_heads: int = 1,  # there is only one token
        dropout: float = 0.1,  # of the probe
        decoder_patch: int = 4,
        decoder_width: int = 192,
        decoder_blocks: int = 8,
        decoder_heads: int = 4,
    ) -> None:
        super().__init__()
        if beta < 0 or sigma <= 0:
            raise InputError(f"beta must be at least 0 and sigma above 0, not {beta} and {sigma}")
        self.size, self.beta, self.sigma = size, beta, sigma
        self.encoder = VAE(size=size, channels=channels, latents=latents)
        self.dynamics = Transformer(width=latents, blocks=dynamics_blocks, heads=dynamics_heads)
        self.decoder = TransformerDecoder(
            latents, size, decoder_patch, decoder_width, decoder_blocks, decoder_heads, dropout
        )

    def forward(self, images: Tensor) -> Encoding:
        """Encode images [B, 3, size, size] to the posterior mean [B, latents] and decode it."""
        mean, _ = self.encoder(check_image_shape(images, self.size))
        return Encoding(vector=mean, reconstruction=self.encoder.decode(mean))

    def predict(self, batch: Batch) -> Tensor:
        """Predict the target images [B, 3, size, size], clamped to 0..1 as released; deterministic in eval mode."""
        mean, _ = self.encoder(check_image_shape(batch["source"], self.size, "source"))
        return self.predict_from_latents(mean[:, None])

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return `nll` and `kl` (times beta) over sources and targets, `dynamics` and `probe`."""
        target = check_image_shape(batch["target"], self.size, "target")
        images = torch.cat((check_image_shape(batch["source"], self.size, "source"), target))  # [2 B, 3, H, W]
        mean, log_variance = self.encoder(images)
        latents = sample_gaussian(mean, log_variance)
        losses = {
            "nll": gaussian_nll(self.encoder.decode(latents), images, self.sigma),
            "kl": self.beta * mean_kl(mean, log_variance),
        }
        before, after = mean[:, None].chunk(2)  # [B, 1, D]
        return self.sum_losses(losses, before, after, target)


class SAVi(nn.Module):
    """Unconditional SAVi: Slot Attention on a video, and a decoder of each frame.

    The initial slots come from a learned Gaussian in the first frame and from the predictor in later frames.
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
            raise InputError(f"size must be 8 times a power of 2 (8, 16, 32, 64, 128 ...), not {size}")
        self.slots, self.iterations = slots, iterations
        last = nn.Conv2d(channels, features, 5, padding=2)
        nn.init.xavier_uniform_(last.weight)
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]  # convolutions have a bias by default
        self.convolutions = nn.Sequential(*build_convolutions(channels, (stride, 1, 1)), last)
        self.positions = SoftPositions(features, "half-pixel")
        self.mlp = nn.Sequential(
            nn.LayerNorm(features), linear(features, features, relu=True), nn.ReLU(), linear(features, features)
        )
        self.initial = RandomSlots(slot_size)
        self.corrector = SlotAttention(features, slot_size, projections=slot_size, hidden=hidden, norm_epsilon=1e-5)
        init_as_torch_releases(self.corrector, self.initial)
        self.predictor = Transformer(width=slot_size, blocks=predictor_blocks, heads=predictor_heads)
        self.drawn_positions = SoftPositions(slot_size, "half-pixel")
        self.deconvolutions = build_deconvolutions(slot_size, channels, 4, doublings)

    def forward(self, frames: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Encode videos [B, T, 3, size, size] to the slots of every frame [B, T, K, D]."""
        features = self.positions(rectified_layers(self.convolutions, frames.flatten(0, 1)))  # [B * T, C, h, w]
        features = rectified_layers(self.mlp, features.flatten(2).mT)  # [B * T, N, C]
        features = features.view(*frames.shape[:2], *features.shape[1:])
        slots = self.initial(len(frames), self.slots, generator)  # [B, K, D]
        per_frame: list[Tensor] = []
        for frame in features.unbind(1):
            slots, _ = self.corrector(frame, self.predictor(slots) if per_frame else slots, self.iterations)
            per_frame.append(slots)
        return torch.stack(per_frame, dim=1)

    def decode(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Decode slots [B, K, D] to images [B, 3, size, size] and masks [B, K, size, size]."""
        maps = slots.flatten(0, 1)[:, :, None, None].expand(-1, -1, 8, 8)  # [B * K, D, 8, 8]
        maps = rectified_layers(self.deconvolutions, self.drawn_positions(maps))  # [B * K, 4, H, W]
        maps = maps.view(*slots.shape[:2], *maps.shape[1:])  # [B, K, 4, H, W]
        return mix(maps[:, :, :3], maps[:, :, 3:])


class SSMSlot(StateSpace):
    """SSM-Slot: the latents of a frame are the slots of SAVi, which sees source and target as a video of two frames.

    The encoder minimises the squared error of its reconstructions, summed over pixels and averaged over frames. The
    initial slots are random, also in `predict` and in the encoding: pass a generator to repeat a result.
    Slots, iterations, dynamics and probe follow SVIB, Table 7; `channels`, `features`, `hidden`, the predictor and
    `stride` follow the released code, which has `stride=1` for images of 64 pixels. Its decoder makes only images of
    128 pixels, from 8 x 8 by four transposed convolutions of stride 2; for smaller images, the first layers here have
    stride 1.

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
            slot_size, size, decoder_patch, decoder_width, decoder_blocks, decoder_heads, dropout
        )

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Encoding:
        """Encode images [B, 3, size, size] as first frames to slots [B, K, D]; decode these to masks and images."""
        slots = self.encoder(check_image_shape(images, self.size)[:, None], generator)[:, 0]
        reconstruction, masks = self.encoder.decode(slots)
        return Encoding(slots=slots, masks=masks, reconstruction=reconstruction)

    def predict(self, batch: Batch, generator: torch.Generator | None = None) -> Tensor:
        """Predict the target images [B, 3, size, size], clamped to 0..1 as released."""
        source = check_image_shape(batch["source"], self.size, "source")
        return self.predict_from_latents(self.encoder(source[:, None], generator)[:, 0])

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return `reconstruction` of both frames, `dynamics` between their slots, and `probe`."""
        target = check_image_shape(batch["target"], self.size, "target")
        source = check_image_shape(batch["source"], self.size, "source")
        frames = torch.stack((source, target), dim=1)  # [B, 2, 3, H, W]
        slots = self.encoder(frames)  # [B, 2, K, D]
        images, _ = self.encoder.decode(slots.flatten(0, 1))  # [2 B, 3, H, W]
        errors = F.mse_loss(images.float(), frames.flatten(0, 1).float(), reduction="sum")
        return self.sum_losses({"reconstruction": errors / len(images)}, slots[:, 0], slots[:, 1], target)
