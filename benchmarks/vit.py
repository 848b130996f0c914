"""A ViT-S/16 with random weights: codes of 384 numbers from images of 224 x 224 pixels."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, PIXELS, PATCH = 384, 6, 12, 224, 16


class Block(nn.Module):
    """Attention and an MLP, each after a layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens [B, N, D] to tokens."""
        q, k, v = self.qkv(self.before(tokens)).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        tokens = tokens + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        changed: Tensor = tokens + self.mlp(self.after(tokens))
        return changed


class VisionTransformer(nn.Module):
    """Patches, a class token, blocks; the code is the class token after the last layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 1 + (PIXELS // PATCH) ** 2, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, 3, 224, 224] to codes [B, 384]."""
        patches = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.first.expand(len(images), -1, -1), patches), 1) + self.positions
        codes: Tensor = self.norm(self.blocks(tokens))[:, 0]
        return codes


def vit_small(seed: int = 0) -> VisionTransformer:
    """A ViT-S/16 whose weights depend on the seed."""
    torch.manual_seed(seed)
    return VisionTransformer()
