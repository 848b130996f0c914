"""The transformer of SVIB: sine-cosine positions, pre-norm blocks, and the decoder that all its baselines share.

Kim et al. 2023 (SVIB), Appendix E.4 and Table 7; otherwise as in the released code.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.models.checks import check_positive
from alebrije.models.fused import fed_forward


def sincos_positions(length: int, width: int) -> Tensor:
    """[length, width]: column 2i of row p is sin(p / 10000^(2i / width)), column 2i + 1 its cosine.

    >>> sincos_positions(2, 4)[0]
    tensor([0., 1., 0., 1.])
    """
    if width < 2 or width % 2:
        raise InputError(f"sine-cosine positions need an even width, not {width}")
    angles = torch.arange(length)[:, None] * 10_000 ** (-torch.arange(0, width, 2) / width)  # [length, width / 2]
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


def sincos_grid(side: int, width: int) -> Tensor:
    """[side * side, width]: the first half of the columns encodes the row, the second half the column.

    >>> sincos_grid(32, 192).shape
    torch.Size([1024, 192])
    """
    if width < 4 or width % 4:
        raise InputError(f"two-dimensional sine-cosine positions need a width divisible by 4, not {width}")
    line = sincos_positions(side, width // 2)
    rows, columns = line[:, None].expand(side, side, -1), line[None].expand(side, side, -1)
    return torch.cat((rows, columns), dim=-1).flatten(0, 1)


def image_to_patches(images: Tensor, patch: int) -> Tensor:
    """Cut images [B, 3, H, W] into patches [B, H / patch * W / patch, patch * patch * 3], row by row, channels last.

    >>> image_to_patches(torch.arange(48.0).reshape(1, 3, 4, 4), 2)[0, 1].tolist()
    [2.0, 18.0, 34.0, 3.0, 19.0, 35.0, 6.0, 22.0, 38.0, 7.0, 23.0, 39.0]
    """
    batch, channels, height, width = images.shape
    grid = images.reshape(batch, channels, height // patch, patch, width // patch, patch)
    return grid.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


def patches_to_image(patches: Tensor, patch: int) -> Tensor:
    """Put the patches of square images together again: the inverse of `image_to_patches`."""
    side = math.isqrt(patches.shape[1])
    grid = patches.reshape(len(patches), side, side, patch, patch, 3)
    return grid.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)


def linear(inputs: int, outputs: int, *, bias: bool = True, gain: float = 1.0, relu: bool = False) -> nn.Linear:
    """Build a linear layer: weights Xavier-uniform times `gain`, or Kaiming-uniform before a ReLU; zero bias."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    if relu:
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    else:
        nn.init.xavier_uniform_(layer.weight, gain)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def _projections(width: int, parts: int) -> nn.Linear:
    """Build `parts` square matrices as one layer, each initialised like a layer of its own."""
    layer = nn.Linear(width, parts * width, bias=False)
    for part in layer.weight.detach().chunk(parts):
        nn.init.xavier_uniform_(part)
    return layer


class Attention(nn.Module):
    """Multi-head self-attention or, with `cross`, attention to the tokens of a memory.

    There are no biases. As in the released code, dropout applies to the attention weights and to the output.
    """

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0, gain: float = 1.0, cross: bool = False) -> None:
        super().__init__()
        if width % heads:
            raise InputError(f"width must be divisible by heads, but they are {width} and {heads}")
        self.heads, self.dropout = heads, dropout
        self.projections = _projections(width, 1 if cross else 3)  # q, or q, k and v
        self.memory_projections = _projections(width, 2) if cross else None  # k and v
        self.output = linear(width, width, bias=False, gain=gain)

    def forward(self, tokens: Tensor, memory: Tensor | None = None) -> Tensor:
        """[B, L, D], and [B, M, D] with `cross` -> [B, L, D]."""
        if self.memory_projections is None:
            q, k, v = self._heads(self.projections(tokens))
        else:
            (q,) = self._heads(self.projections(tokens))
            k, v = self._heads(self.memory_projections(memory))
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)  # [B, heads, L, D / heads]
        return F.dropout(self.output(mixed.transpose(1, 2).flatten(2)), self.dropout, self.training)

    def _heads(self, projected: Tensor) -> tuple[Tensor, ...]:
        """Split [B, L, parts * D] into `parts` views [B, heads, L, D / heads]."""
        batch, length, _ = projected.shape
        parts = projected.view(batch, length, -1, self.heads, self.output.in_features // self.heads)
        return parts.permute(2, 0, 3, 1, 4).unbind(0)


class FeedForward(nn.Sequential):
    """Two linear layers with a ReLU between them; the hidden layer is `times` as wide."""

    def __init__(self, width: int, *, times: int = 4, gain: float = 1.0) -> None:
        super().__init__(linear(width, times * width, relu=True), nn.ReLU(), linear(times * width, width, gain=gain))

    def forward(self, tokens: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        return fed_forward(self, tokens)


class Block(nn.Module):
    """x + attention(norm(x)), with `cross` also + attention(norm(x), memory), then + feed-forward(norm(x)).

    As in the released code, the residual stream of the `first` block starts from the normalised tokens.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        dropout: float = 0.0,
        gain: float = 1.0,
        cross: bool = False,
        first: bool = False,
    ) -> None:
        super().__init__()
        self.first, self.dropout = first, dropout
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout=dropout, gain=gain)
        self.cross_norm = nn.LayerNorm(width) if cross else None
        self.cross_attention = Attention(width, heads, dropout=dropout, gain=gain, cross=True) if cross else None
        self.feed_norm = nn.LayerNorm(width)
        self.feed = FeedForward(width, gain=gain)

    def forward(self, tokens: Tensor, memory: Tensor | None = None) -> Tensor:
        """[B, L, D], and [B, M, D] with `cross` -> [B, L, D]."""
        normed = self.norm(tokens)
        tokens = (normed if self.first else tokens) + self.attention(normed)
        if self.cross_attention is not None and self.cross_norm is not None:
            tokens = tokens + self.cross_attention(self.cross_norm(tokens), memory)
        return tokens + F.dropout(self.feed(self.feed_norm(tokens)), self.dropout, self.training)


class Transformer(nn.Module):
    """Blocks and a final LayerNorm; without blocks, only the LayerNorm.

    Matrices that write to the residual stream start with a gain of one over the root of the number of additions:
    (2 L)^-1/2 for L blocks, (3 L)^-1/2 if each also attends to a memory.

    >>> Transformer(width=64, blocks=4, heads=4)(torch.zeros(2, 7, 64)).shape
    torch.Size([2, 7, 64])
    """

    def __init__(self, *, width: int, blocks: int, heads: int, dropout: float = 0.0, cross: bool = False) -> None:
        super().__init__()
        check_positive(width=width, heads=heads)
        whole_number("blocks", blocks)
        if not 0 <= dropout < 1:
            raise InputError(f"dropout must be at least 0 and less than 1, not {dropout}")
        gain = ((3 if cross else 2) * max(blocks, 1)) ** -0.5
        self.blocks = nn.ModuleList(
            Block(width, heads, dropout=dropout, gain=gain, cross=cross, first=index == 0) for index in range(blocks)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, memory: Tensor | None = None) -> Tensor:
        """[B, L, D], and [B, M, D] with `cross` -> [B, L, D]."""
        for block in self.blocks:
            tokens = block(tokens, memory)
        normed: Tensor = self.norm(tokens)
        return normed


class TransformerDecoder(nn.Module):
    """Decodes a set of tokens to images: the decoder of I2I-CNN, I2I-ViT and the Oracle, and the probe of the SSMs.

    There is one query per patch, its position. The queries go through blocks that attend to the other patches and to
    the tokens; a linear map turns each into pixels. The order of the tokens has no effect.
    Defaults follow SVIB, Table 7. Pixels are not clamped.

    >>> decoder = TransformerDecoder(64, size=32, width=32, blocks=2)
    >>> decoder(torch.zeros(5, 1, 64)).shape
    torch.Size([5, 3, 32, 32])
    """

    positions: Tensor

    def __init__(
        self,
        inputs: int,
        size: int = 128,
        patch: int = 4,
        width: int = 192,
        blocks: int = 8,
        heads: int = 4,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        check_positive(size=size, patch=patch, inputs=inputs, blocks=blocks)
        if size % patch:
            raise InputError(f"patches of {patch} pixels do not tile images of {size}")
        self.patch = patch
        self.memory = linear(inputs, width, bias=False)
        self.register_buffer("positions", sincos_grid(size // patch, width), persistent=False)  # [L, D]
        self.transformer = Transformer(width=width, blocks=blocks, heads=heads, dropout=dropout, cross=True)
        self.pixels = linear(width, 3 * patch**2)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, M, inputs] -> [B, 3, size, size]."""
        queries = self.positions.expand(len(tokens), -1, -1)  # [B, L, D]
        return patches_to_image(self.pixels(self.transformer(queries, self.memory(tokens))), self.patch)
