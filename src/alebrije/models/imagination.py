"""The end-to-end baselines of SVIB: I2I-CNN and I2I-ViT read the source image, the Oracle reads the source scene.

Kim et al. 2023 (SVIB), Section 4.1, Appendices E.1, E.3 and E.4, and Table 7. Defaults are the published values. Where
the paper does not specify a value, we use the released code's, and the class says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.checks import whole_number
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.checks import check_image_shape, check_positive
from alebrije.models.learner import Batch, Losses
from alebrije.models.transformer import (
    Transformer,
    TransformerDecoder,
    image_to_patches,
    linear,
    sincos_grid,
    sincos_positions,
)


def build_convolutions(channels: int, strides: Sequence[int]) -> nn.Sequential:
    """Build 5 x 5 convolutions with ReLUs from 3 channels to `channels`: Kaiming-uniform weights and zero biases."""
    layers: list[nn.Module] = []
    for index, stride in enumerate(strides):
        layer = nn.Conv2d(channels if index else 3, channels, 5, stride, padding=2)
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]  # convolutions have a bias by default
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers)


class VectorEncoder(nn.Module):
    """Four strided convolutions and a linear map: images [B, 3, size, size] -> one token [B, 1, outputs]."""

    def __init__(self, *, size: int, channels: int, outputs: int) -> None:
        super().__init__()
        check_positive(size=size, channels=channels, outputs=outputs)
        if size % 16:
            raise InputError(f"four convolutions of stride 2 need a size divisible by 16, not {size}")
        self.convolutions = build_convolutions(channels, (2, 2, 2, 2))
        self.code = linear(channels * (size // 16) ** 2, outputs, relu=True)  # Kaiming as released; no ReLU follows

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, size, size] -> [B, 1, outputs]."""
        code: Tensor = self.code(self.convolutions(images).flatten(1))
        return code[:, None]


class PatchEncoder(nn.Module):
    """A vision transformer without a class token: images -> one token per patch, row by row [B, L, width]."""

    positions: Tensor

    def __init__(self, *, size: int, patch: int, width: int, blocks: int, heads: int, dropout: float) -> None:
        super().__init__()
        check_positive(size=size, patch=patch)
        if size % patch:
            raise InputError(f"patches of {patch} pixels do not tile images of {size}")
        self.patch = patch
        self.embed = nn.Linear(3 * patch**2, width)  # torch's initialisation, the same as for the released convolution
        self.register_buffer("positions", sincos_grid(size // patch, width), persistent=False)
        self.transformer = Transformer(width=width, blocks=blocks, heads=heads, dropout=dropout)

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, size, size] -> [B, L, width]."""
        tokens: Tensor = self.transformer(self.embed(image_to_patches(images, self.patch)) + self.positions)
        return tokens


class SceneEncoder(nn.Module):
    """The properties of each object as tokens: factors by a learned embedding, floats by sines and cosines."""

    rows: Tensor
    frequencies: Tensor
    positions: Tensor

    def __init__(
        self, *, factors: int, floats: int, values: int, width: int, mixing: int, heads: int, dropout: float
    ) -> None:
        super().__init__()
        check_positive(factors=factors, values=values)
        whole_number("floats", floats)
        self.factors, self.floats, self.values, self.mixing = factors, floats, values, mixing
        self.table = nn.Embedding(factors * values, width)
        self.register_buffer("rows", values * torch.arange(factors), persistent=False)  # first row of each factor
        frequencies = 2 * math.pi * 10_000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("frequencies", frequencies, persistent=False)  # [width / 2]
        self.register_buffer("positions", sincos_positions(64 * (factors + floats), width), persistent=False)
        self.transformer = Transformer(width=width, blocks=mixing, heads=heads, dropout=dropout)

    def forward(self, factors: Tensor, floats: Tensor | None) -> Tensor:
        """[B, N, F] and [B, N, P] -> [B, N * (F + P), width]."""
        tokens: Tensor = self.table(factors + self.rows)  # [B, N, F, D]
        if floats is not None:
            angles = floats.float()[..., None] * self.frequencies  # [B, N, P, D / 2]
            waves = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(3)
            tokens = torch.cat((tokens, waves), dim=2)
        batch, objects, count, width = tokens.shape
        # The transformer sees one object at a time. Without it, only positions mark the tokens of one object.
        tokens = tokens.reshape(-1, count if self.mixing else objects * count, width)
        tokens = self.transformer(tokens + self.positions[: tokens.shape[1]])
        return tokens.reshape(batch, objects * count, width)


class Imagination(nn.Module):
    """An encoder of the source, a transformer decoder of the target, and the mean squared error between pixels.

    Table 7 has separate learning rates for the parameters that start with `encoder.` and with `decoder.`.
    """

    size: int
    encoder: nn.Module
    decoder: TransformerDecoder

    def tokens(self, batch: Batch) -> Tensor:
        """Encode the source images to the tokens that the decoder reads [B, M, C]."""
        tokens: Tensor = self.encoder(check_image_shape(batch["source"], self.size, "source"))
        return tokens

    def predict(self, batch: Batch) -> Tensor:
        """Predict the target images [B, 3, size, size], clamped to 0..1 as released; deterministic in eval mode."""
        images: Tensor = self.decoder(self.tokens(batch))
        return images.float().clamp(0, 1)

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the mean squared error over pixels and channels, before the clamp (Appendix E.1)."""
        images = self.decoder(self.tokens(batch))
        target = check_image_shape(batch["target"], images.shape[-1], "target")
        return {"loss": F.mse_loss(images.float(), target.float())}


class I2ICNN(Imagination):
    """I2I-CNN: a convolutional encoder to one vector, from which the decoder predicts the target.

    The encoding is that vector. Defaults follow SVIB, Table 7; its length `code` is from the released code.

    >>> model = I2ICNN(size=32, channels=8, decoder_width=32, decoder_blocks=1).eval()
    >>> images = torch.zeros(2, 3, 32, 32)
    >>> model(images).vector.shape, model.predict({"source": images}).shape
    (torch.Size([2, 64]), torch.Size([2, 3, 32, 32]))
    """

    def __init__(
        self,
        *,
        size: int = 128,
        channels: int = 64,
        code: int = 64,
        dropout: float = 0.1,
        decoder_patch: int = 4,
        decoder_width: int = 192,
        decoder_blocks: int = 8,
        decoder_heads: int = 4,
    ) -> None:
        super().__init__()
        self.size = size
        self.encoder = VectorEncoder(size=size, channels=channels, outputs=code)
        self.decoder = TransformerDecoder(
            code, size, decoder_patch, decoder_width, decoder_blocks, decoder_heads, dropout
        )

    def forward(self, images: Tensor) -> Encoding:
        """Encode images [B, 3, size, size] to vectors [B, code]."""
        return Encoding(vector=self.encoder(check_image_shape(images, self.size))[:, 0])


class I2IViT(Imagination):
    """I2I-ViT: a vision transformer; the decoder reads all of its tokens.

    The encoding is the mean of the tokens (our choice: SVIB never needs one vector); `tokens` returns all of them.
    Defaults follow SVIB, Table 7; the encoder's `patch` is from the released code.

    >>> model = I2IViT(size=32, patch=8, width=32, blocks=1, decoder_width=32, decoder_blocks=1).eval()
    >>> images = torch.zeros(2, 3, 32, 32)
    >>> model(images).vector.shape, model.tokens({"source": images}).shape
    (torch.Size([2, 32]), torch.Size([2, 16, 32]))
    """

    def __init__(
        self,
        *,
        size: int = 128,
        patch: int = 16,
        width: int = 192,
        blocks: int = 8,
        heads: int = 8,
        dropout: float = 0.1,
        decoder_patch: int = 4,
        decoder_width: int = 192,
        decoder_blocks: int = 8,
        decoder_heads: int = 4,
    ) -> None:
        super().__init__()
        self.size = size
        self.encoder = PatchEncoder(size=size, patch=patch, width=width, blocks=blocks, heads=heads, dropout=dropout)
        self.decoder = TransformerDecoder(
            width, size, decoder_patch, decoder_width, decoder_blocks, decoder_heads, dropout
        )

    def forward(self, images: Tensor) -> Encoding:
        """Encode images [B, 3, size, size] to the mean of their tokens [B, width]."""
        return Encoding(vector=self.encoder(check_image_shape(images, self.size)).mean(1))


class Oracle(Imagination):
    """The Oracle: it reads the source scene, so it only has to learn the rule and the rendering.

    It reads `factors` [B, N, F], value indices below `values`, and `floats` [B, N, P] in 0..1: the position of each
    object, its rotation as a fraction of a full turn where objects rotate, and the numbers of the whole scene (lamps,
    camera), repeated for each object.

    The released code combines the F + P tokens of an object by a transformer of `mixing` blocks that sees one object at
    a time. The paper does not mention it: `mixing=0` only adds positions to the tokens of the scene, without which no
    colour would belong to an object. It is unknown which of the two gave the published numbers; without blocks the
    model recombines after fewer steps (docs/evidence.md). The released embedding has rows for 32 factors, ours for
    `factors` of them.

    >>> model = Oracle(factors=3, floats=2, size=32, width=32, decoder_width=32, decoder_blocks=1).eval()
    >>> scene = {"factors": torch.zeros(4, 2, 3, dtype=torch.int64), "floats": torch.zeros(4, 2, 2)}
    >>> model.encode(scene).slots.shape, model.predict(scene).shape
    (torch.Size([4, 10, 32]), torch.Size([4, 3, 32, 32]))
    """

    encoder: SceneEncoder

    def __init__(
        self,
        *,
        factors: int = 3,  # sprites; clevr and clevrtex have 4
        floats: int = 2,  # sprites; clevr and clevrtex have 15
        values: int = 128,
        mixing: int = 4,
        size: int = 128,
        width: int = 192,
        heads: int = 4,
        dropout: float = 0.1,
        decoder_patch: int = 4,
        decoder_width: int = 192,
        decoder_blocks: int = 8,
        decoder_heads: int = 4,
    ) -> None:
        super().__init__()
        self.encoder = SceneEncoder(
            factors=factors, floats=floats, values=values, width=width, mixing=mixing, heads=heads, dropout=dropout
        )
        self.decoder = TransformerDecoder(
            width, size, decoder_patch, decoder_width, decoder_blocks, decoder_heads, dropout
        )

    def tokens(self, batch: Batch) -> Tensor:
        """Encode scenes to one token per factor and float of each object [B, N * (F + P), width]."""
        factors, floats = batch["factors"], batch["floats"] if self.encoder.floats else None
        if factors.ndim != 3 or factors.shape[2] != self.encoder.factors:
            raise InputError(f"factors must have the shape [B, N, {self.encoder.factors}], not {list(factors.shape)}")
        if floats is not None and tuple(floats.shape) != (*factors.shape[:2], self.encoder.floats):
            shape = [*factors.shape[:2], self.encoder.floats]
            raise InputError(f"floats must have the shape {shape}, not {list(floats.shape)}")
        tokens: Tensor = self.encoder(factors, floats)
        return tokens

    def encode(self, batch: Batch) -> Encoding:
        """Return the tokens of the scenes as slots."""
        self._check_ranges(batch)
        return Encoding(slots=self.tokens(batch))

    def predict(self, batch: Batch) -> Tensor:
        """Predict the target images [B, 3, size, size], clamped to 0..1 as released; deterministic in eval mode."""
        self._check_ranges(batch)
        return super().predict(batch)

    def forward(self, images: Tensor) -> Encoding:
        """Raise an InputError: the Oracle does not read images."""
        raise InputError("the Oracle reads scenes, not images; call `encode` with a batch of `factors` and `floats`")

    def _check_ranges(self, batch: Batch) -> None:
        """Raise an InputError for values out of range. Training does not call this, because it waits for the device."""
        # An index out of range would silently select a value of another factor.
        lowest, highest = int(batch["factors"].min()), int(batch["factors"].max())
        if not 0 <= lowest <= highest < self.encoder.values:
            raise InputError(f"factors must be in 0..{self.encoder.values - 1}, not {lowest}..{highest}")
        if self.encoder.floats and not bool(((batch["floats"] >= 0) & (batch["floats"] <= 1)).all()):
            raise InputError("floats must be scaled to 0..1")
