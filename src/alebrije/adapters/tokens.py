"""Tokens: outputs with a vector for each patch of the image, from transformers and convolutional networks.

A tensor [B, N, D] holds tokens if N is a grid of the proportions of the image, after at most eight leading tokens that
belong to no patch: class and register tokens. Up to 16 vectors are slots unless their name says otherwise. A feature
map [B, D, h, w] has a token for each position.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from alebrije.encoding import Encoding
from alebrije.errors import InputError

Pool = Literal["cls", "mean", "tokens"]
POOLS: tuple[Pool, ...] = get_args(Pool)
MOST_SLOTS = 16  # more are tokens, not objects; analogy cannot match them in reasonable time and uses their mean
_NAMES = ("tokens", "x_norm_patchtokens", "last_hidden_state", "feature_map")  # of tokens beside codes
_CODES = ("slots", "vector", "codes", "embeddings", "embedding", "image_embeds", "features", "pooler_output")
_MOST_LEADING = 8  # class and register tokens; known models have at most five
_FEWEST = 4  # tokens of a grid


@dataclass(frozen=True, eq=False)
class Tokens:
    """The vector of each patch of an image, and those that belong to no patch."""

    grid: Tensor  # [B, D, h, w]
    leading: Tensor  # [B, p, D]: class and register tokens, first the class token; p may be 0

    @property
    def patches(self) -> Tensor:
        """The tokens of the patches in rows [B, h * w, D]."""
        return self.grid.flatten(2).transpose(1, 2)

    def __str__(self) -> str:
        height, width = self.grid.shape[2:]
        left_out = self.leading.shape[1]
        more = f", without {left_out} class or register token{'s' if left_out > 1 else ''}" if left_out else ""
        return f"{height * width} tokens ({height} x {width}){more}"


def pooled(pool: Pool, output: Any, images: Tensor) -> tuple[Encoding, str]:
    """The codes that a way of pooling makes of the tokens in an output, and a description of them.

    >>> encoding, description = pooled("mean", torch.zeros(2, 197, 8), torch.zeros(2, 3, 224, 224))
    >>> encoding.vector.shape, description
    (torch.Size([2, 8]), 'the mean of 196 tokens (14 x 14), without 1 class or register token')
    """
    tokens = read_tokens(output, images)
    if tokens is None:
        raise InputError(
            f"pool={pool} needs tokens [B, N, D] or a feature map [B, D, h, w], and the model returned none"
        )
    if pool == "tokens":
        return Encoding(slots=tokens.patches), f"{tokens}, as slots"
    if pool == "mean":
        return Encoding(vector=tokens.grid.mean((2, 3))), f"the mean of {tokens}"
    if not tokens.leading.shape[1]:
        raise InputError(f"pool=cls needs a class token, and the model returned {tokens}; use mean or tokens")
    return Encoding(vector=tokens.leading[:, 0]), f"the class token beside {tokens.patches.shape[1]} tokens"


def read_tokens(output: Any, images: Tensor) -> Tokens | None:
    """The tokens in the output of a model for images [B, 3, H, W]; None if it has none, or has masks.

    >>> print(read_tokens(torch.zeros(2, 201, 8), torch.zeros(2, 3, 224, 224)))
    196 tokens (14 x 14), without 5 class or register tokens
    >>> print(read_tokens(torch.zeros(2, 8, 7, 7), torch.zeros(2, 3, 224, 224)))
    49 tokens (7 x 7)
    """
    if isinstance(output, Encoding):
        return None if output.masks is not None or output.slots is None else _of_tensor(output.slots, images)
    if isinstance(output, Tensor | np.ndarray):
        return _of_tensor(torch.as_tensor(output), images)
    if isinstance(output, Mapping) or not isinstance(output, tuple | list):
        return _of_names(output, images)
    tensors = [part for part in output if isinstance(part, Tensor)]
    if any(each.ndim >= 4 and each.shape[:2] == tensors[0].shape[:2] for each in tensors[1:]):
        return None  # slots and their masks
    return read_tokens(output[0], images) if output and not isinstance(output[0], tuple | list) else None


def _of_names(output: Any, images: Tensor) -> Tokens | None:
    """The tokens of a dictionary, or of an object with attributes, under the first name that has some."""
    if isinstance(output, Mapping):
        named = dict(output)
    else:
        named = {name: getattr(output, name, None) for name in ("masks", *_NAMES, *_CODES)}
    if named.get("masks") is not None:
        return None
    known = {name: part for name, part in named.items() if isinstance(part, Tensor | np.ndarray)}
    names = [name for name in (*_NAMES, *_CODES) if name in known] or (list(known) if len(known) == 1 else [])
    for name in names:
        tokens = _of_tensor(torch.as_tensor(known[name]), images, _FEWEST if name in _NAMES else MOST_SLOTS + 1)
        if tokens is not None:
            return tokens
    return None


def _of_tensor(tensor: Tensor, images: Tensor, fewest: int = MOST_SLOTS + 1) -> Tokens | None:
    """The tokens in a tensor; a tensor [B, N, D] of fewer vectors holds slots."""
    if len(tensor) != len(images) or not tensor.is_floating_point():
        return None
    tensor = tensor.detach().float()
    if tensor.ndim == 4:
        return Tokens(tensor, tensor.new_empty(len(tensor), 0, tensor.shape[1])) if min(tensor.shape[2:]) > 1 else None
    if tensor.ndim != 3 or tensor.shape[1] < fewest:
        return None
    found = _grid(tensor.shape[1], images.shape[2] / images.shape[3])
    if found is None:
        return None
    leading = tensor.shape[1] - math.prod(found)
    grid = tensor[:, leading:].transpose(1, 2).reshape(len(tensor), -1, *found)
    return Tokens(grid, tensor[:, :leading])


def _grid(tokens: int, proportion: float) -> tuple[int, int] | None:
    """The height and width of the largest grid of this proportion that lacks at most a few of the tokens.

    >>> _grid(197, 1.0), _grid(261, 1.0), _grid(51, 0.5), _grid(95, 1.0), _grid(100, 0.25)
    ((14, 14), (16, 16), (5, 10), None, (5, 20))
    """
    for count in range(tokens, max(tokens - _MOST_LEADING, _FEWEST) - 1, -1):
        height = round(math.sqrt(count * proportion))
        if height > 1 and count % height == 0 and count // height > 1 and count // height == round(height / proportion):
            return height, count // height
    return None
