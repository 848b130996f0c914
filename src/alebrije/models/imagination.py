"""The end-to-end baselines of SVIB: I2I-CNN and I2I-ViT see the source image, the Oracle is told the source scene.

Kim et al. 2023 (SVIB), Section 4.1, Appendices E.1, E.3 and E.4, and Table 7. The defaults are the published values;
where the text is silent they are the released code's, and each class says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.learner import Batch, Losses
from alebrije.models.transformer import (
    Transformer,
    TransformerDecoder,
    check_images,
    check_positive,
    image_to_patches,
    linear,
    sincos_grid,
    sincos_positions,
)


def convolutions(channels: int, strides: Sequence[int]) -> nn.Sequential:
    """5 x 5 convolutions with ReLUs, from 3 channels to `channels`, which start Kaiming-uniform and without bias."""
    layers: list[nn.Module] = []
    for number, stride in enumerate(strides):
        layer = nn.Conv2d(channels if number else 3, channels, 5, stride, padding=2)
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]  # a convolution has one unless told otherwise
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers)


# --- Encoders ---


class VectorEncoder(nn.Module):
    """Four strided convolutions and a linear map: images [B, 3, size, size] -> one token [B, 1, outputs]."""

    def __init__(self, *, size: int, channels: int, outputs: int) -> None:
        super().__init__()
        check_positive(size=size, channels=channels, outputs=outputs)
        if size % 16:
            raise InputError(f"four convolutions of stride 2 need a size that 16 divides, got {size}")
        self.convolutions = convolutions(channels, (2, 2, 2, 2))
        self.code = linear(channels * (size // 16) ** 2, outputs, relu=True)  # Kaiming as released, though none follows

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, size, size] -> [B, 1, outputs]."""
        code: Tensor = self.code(self.convolutions(images).flatten(1))
        return code[:, None]


class PatchEncoder(nn.Module):
    """A vision transformer without a class token: images -> one token per patch [B, (size / patch)^2, width]."""

    positions: Tensor

    def __init__(self, *, size: int, patch: int, width: int, blocks: int, heads: int, dropout: float) -> None:
        super().__init__()
        check_positive(size=size, patch=patch)
        if size % patch:
            raise InputError(f"patches of {patch} pixels do not tile images of {size}")
        self.patch = patch
        self.embed = nn.Linear(3 * patch**2, width)  # torch's own start, as released: a convolution would have the same
        self.register_buffer("positions", sincos_grid(size // patch, width), persistent=False)
        self.transformer = Transformer(width=width, blocks=blocks, heads=heads, dropout=dropout)

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, size, size] -> [B, L, width]."""
        tokens: Tensor = self.transformer(self.embed(image_to_patches(images, self.patch)) + self.positions)
        return tokens


class SceneEncoder(nn.Module):
    """What is known of each object as tokens: categories by a learned table, numbers by sines and cosines."""

    rows: Tensor
    frequencies: Tensor
    positions: Tensor

    def __init__(
        self, *, factors: int, floats: int, values: int, width: int, mixing: int, heads: int, dropout: float
    ) -> None:
        super().__init__()
        check_positive(factors=factors, values=values)
        if floats < 0:
            raise InputError(f"floats cannot be fewer than none, got {floats}")
        self.factors, self.floats, self.values, self.mixing = factors, floats, values, mixing
        self.table = nn.Embedding(factors * values, width)
        self.register_buffer("rows", values * torch.arange(factors), persistent=False)  # where a factor's values begin
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
        batch, objects, each, width = tokens.shape
        # The transformer sees one object at a time; without it, only their numbers tie the tokens of one object.
        tokens = tokens.reshape(-1, each if self.mixing else objects * each, width)
        tokens = self.transformer(tokens + self.positions[: tokens.shape[1]])
        return tokens.reshape(batch, objects * each, width)


# --- Models ---


class Imagination(nn.Module):
    """An encoder of the source, a transformer decoder of the target, and the mean squared error between pixels.

    Table 7 gives the parameters whose names begin with `encoder.` another learning rate than those of `decoder.`.
    """

    decoder: TransformerDecoder

    def tokens(self, batch: Batch) -> Tensor:
        """What the decoder reads of a batch: [B, M, C]."""
        raise NotImplementedError

    def predict(self, batch: Batch) -> Tensor:
        """The target images [B, 3, size, size], clamped to 0..1 as released; in eval mode, always the same."""
        images: Tensor = self.decoder(self.tokens(batch))
        return images.float().clamp(0, 1)

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Mean squared error over pixels and channels, before the clamp (Appendix E.1)."""
        images = self.decoder(self.tokens(batch))
        return {"loss": F.mse_loss(images.float(), check_images(batch["target"], images.shape[-1], "target").float())}


class I2ICNN(Imagination):
    """I2I-CNN: a convolutional encoder whose one vector is all that the decoder sees.

    Its encoding is that vector. The defaults are SVIB's, Table 7; `code`, its length, is the release's.

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
            code,
            size=size,
            patch=decoder_patch,
            width=decoder_width,
            blocks=decoder_blocks,
            heads=decoder_heads,
            dropout=dropout,
        )

    def tokens(self, batch: Batch) -> Tensor:
        """The vector of the source image, as one token."""
        tokens: Tensor = self.encoder(check_images(batch["source"], self.size, "source"))
        return tokens

    def forward(self, images: Tensor) -> Encoding:
        """Images [B, 3, size, size] -> the vector [B, code]."""
        return Encoding(vector=self.encoder(check_images(images, self.size))[:, 0])


class I2IViT(Imagination):
    """I2I-ViT: a vision transformer, all of whose tokens the decoder sees.

    Its encoding is the mean of the tokens (ours to choose: SVIB never asks for one vector); `tokens` gives them all.
    The defaults are SVIB's, Table 7; the encoder's `patch` is the release's.

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
            width,
            size=size,
            patch=decoder_patch,
            width=decoder_width,
            blocks=decoder_blocks,
            heads=decoder_heads,
            dropout=dropout,
        )

    def tokens(self, batch: Batch) -> Tensor:
        """The tokens of the source image, one per patch, row by row."""
        tokens: Tensor = self.encoder(check_images(batch["source"], self.size, "source"))
        return tokens

    def forward(self, images: Tensor) -> Encoding:
        """Images [B, 3, size, size] -> the mean of their tokens [B, width]."""
        return Encoding(vector=self.encoder(check_images(images, self.size)).mean(1))


class Oracle(Imagination):
    """The Oracle: it is told the source scene, so that only the rule and the drawing are left to learn.

    It reads `factors` [B, N, F], value indices below `values`, and `floats` [B, N, P] in 0..1: the place of each
    object, where objects turn the part of a full turn, and numbers of the whole scene (lamps, camera) with each object.

    The release ties the F + P tokens of an object together by a transformer of `mixing` blocks, which sees one object
    at a time. The paper's text has none: `mixing=0` only numbers the tokens of the scene, without which no colour would
    belong to any place. Which of the two the published numbers are of is open; without blocks the model recombines
    from fewer steps (docs/evidence.md). The release's table has room for 32 factors; this one has rows for those there
    are.

    >>> model = Oracle(factors=3, floats=2, size=32, width=32, decoder_width=32, decoder_blocks=1).eval()
    >>> scene = {"factors": torch.zeros(4, 2, 3, dtype=torch.int64), "floats": torch.zeros(4, 2, 2)}
    >>> model.encode(scene).slots.shape, model.predict(scene).shape
    (torch.Size([4, 10, 32]), torch.Size([4, 3, 32, 32]))
    """

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
            width,
            size=size,
            patch=decoder_patch,
            width=decoder_width,
            blocks=decoder_blocks,
            heads=decoder_heads,
            dropout=dropout,
        )

    def tokens(self, batch: Batch) -> Tensor:
        """One token per factor and number of each object: [B, N * (F + P), width]."""
        factors, floats = batch["factors"], batch["floats"] if self.encoder.floats else None
        if factors.ndim != 3 or factors.shape[2] != self.encoder.factors:
            raise InputError(f"factors must have the shape [B, N, {self.encoder.factors}], not {list(factors.shape)}")
        if floats is not None and tuple(floats.shape) != (*factors.shape[:2], self.encoder.floats):
            shape = [*factors.shape[:2], self.encoder.floats]
            raise InputError(f"floats must have the shape {shape}, not {list(floats.shape)}")
        tokens: Tensor = self.encoder(factors, floats)
        return tokens

    def encode(self, batch: Batch) -> Encoding:
        """The tokens of the scenes, as slots."""
        self._check_ranges(batch)
        return Encoding(slots=self.tokens(batch))

    def predict(self, batch: Batch) -> Tensor:
        """The target images [B, 3, size, size], clamped to 0..1 as released; in eval mode, always the same."""
        self._check_ranges(batch)
        return super().predict(batch)

    def forward(self, images: Tensor) -> Encoding:
        """Always an error: the Oracle sees no images."""
        raise InputError("the Oracle reads scenes, not images: give `encode` a batch with `factors` and `floats`")

    def _check_ranges(self, batch: Batch) -> None:
        """Values from elsewhere would silently be read as those of another factor. Training cannot wait to ask."""
        lowest, highest = int(batch["factors"].min()), int(batch["factors"].max())
        if not 0 <= lowest <= highest < self.encoder.values:
            raise InputError(f"factors must lie in 0..{self.encoder.values - 1}, got {lowest}..{highest}")
        if self.encoder.floats and not bool(((batch["floats"] >= 0) & (batch["floats"] <= 1)).all()):
            raise InputError("floats must be scaled to 0..1")
