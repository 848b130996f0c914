"""OSRT: slots of a scene from some views, drawn ray by ray (Sajjadi et al. 2022; sizes of stelzner/osrt).

From top to bottom: attention blocks, the encoder of views, the slot mixer, and the model. The paper of ARP and ARR
trains it with random initial slots, whose number is free; the release has learned ones. A Gaussian per slot could not
be given to another number of slots, so "random" is one shared Gaussian, as in Slot Attention.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.encoding import Encoding, Shows
from alebrije.errors import InputError
from alebrije.models.checks import check_positive
from alebrije.models.learner import Batch, Losses
from alebrije.models.poses import OCTAVES, balance_poses, check_views, embedded_poses, pose_size, shuffled_views
from alebrije.models.slot_attention import InitialSlots, LearnedSlots, RandomSlots, SlotAttention, init_as_keras

Targets = Literal["all", "others"]

HEAD = 64  # width of a head of the encoder
INITIAL_LOG_SCALE = -2.0  # of random slots: after one iteration much of them is left, and more would drown the views
RAYS_AT_ONCE = 1 << 14  # of each scene, outside training
_STAGES = 3  # of convolutions; each one halves the maps


def init_as_jax(module: nn.Module) -> None:
    """Set normal weights, cut at two standard deviations of 1 / sqrt(inputs), and zero biases in linear layers."""
    if isinstance(module, nn.Linear):
        most = math.erf(math.sqrt(2))  # two standard deviations
        with torch.no_grad():
            module.weight.uniform_(-most, most).erfinv_().mul_(math.sqrt(2 / module.in_features))
        if module.bias is not None:
            nn.init.zeros_(module.bias)


class CrossAttention(nn.Module):
    """Attention of rows [B, N, width] to rows [B, M, context]; without a context, to themselves."""

    def __init__(self, width: int, heads: int, head: int, context: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.queries = nn.Linear(width, heads * head, bias=False)
        self.keys_values = nn.Linear(width if context is None else context, 2 * heads * head, bias=False)
        self.out = nn.Linear(heads * head, width)
        self.apply(init_as_jax)

    def forward(self, rows: Tensor, context: Tensor) -> Tensor:
        """Return rows [B, N, width]."""
        parts = self.queries(rows), *self.keys_values(context).chunk(2, -1)
        queries, keys, values = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(queries, keys, values)  # [B, heads, N, head]
        return self.out(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class AttentionBlock(nn.Module):
    """A pre-norm block: attention, then an MLP with GELU."""

    def __init__(self, width: int, heads: int, head: int, hidden: int, context: int | None = None) -> None:
        super().__init__()
        self.attends_to_itself = context is None
        self.norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = CrossAttention(width, heads, head, context)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        for layer in (self.mlp[0], self.mlp[2]):
            nn.init.xavier_uniform_(layer.weight)  # type: ignore[arg-type]
            nn.init.normal_(layer.bias, std=1e-6)  # type: ignore[arg-type]

    def forward(self, rows: Tensor, context: Tensor | None = None) -> Tensor:
        """Return rows [B, N, width]."""
        normed = self.norm(rows)
        rows = rows + self.attention(normed, normed if context is None else context)
        return rows + self.mlp(self.mlp_norm(rows))  # type: ignore[no-any-return]


class ViewEncoder(nn.Module):
    """Encodes views with their poses to one set of features: convolutions for each view, then attention over all.

    Convolutions have He's initial weights. With torch's, as in the release, a view changes its features by a thousandth
    at first, and little is learned in a few thousand steps.
    """

    def __init__(self, width: int, blocks: int, pose: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before, channels = 3 + pose, width // 2**_STAGES
        for _ in range(_STAGES):
            layers += [nn.Conv2d(before, channels, 3, padding=1, bias=False), nn.ReLU()]
            layers += [nn.Conv2d(channels, 2 * channels, 3, 2, padding=1, bias=False), nn.ReLU()]
            before, channels = 2 * channels, 2 * channels
        self.convolutions = nn.Sequential(*layers, nn.Conv2d(before, width, 1))
        for layer in self.convolutions:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
        balance_poses(self.convolutions[0])  # type: ignore[arg-type]
        self.blocks = nn.ModuleList(AttentionBlock(width, width // HEAD, HEAD, 2 * width) for _ in range(blocks))

    def forward(self, images: Tensor, poses: Tensor) -> Tensor:
        """Return features [B, V * h * w, width] of images [B, V, 3, H, W] and poses [B, V, P, H, W]."""
        maps = self.convolutions(torch.cat((images, poses), 2).flatten(0, 1))
        rows = maps.unflatten(0, images.shape[:2]).permute(0, 1, 3, 4, 2).flatten(1, 3)
        for block in self.blocks:
            rows = block(rows)
        return rows  # type: ignore[no-any-return]


class SlotMixer(nn.Module):
    """Draws rays: slots [B, K, D] and poses [B, R, P] to colours [B, R, 3] and the weights of slots [B, R, K].

    A ray looks at all slots to decide how much of each it takes; only their weighted mean is drawn.
    """

    def __init__(self, slots: int, heads: int, pose: int) -> None:
        super().__init__()
        self.queries = nn.Sequential(nn.Linear(pose, 2 * pose), nn.ReLU(), nn.Linear(2 * pose, pose))
        self.blocks = nn.ModuleList(AttentionBlock(pose, heads, slots // heads, 2 * slots, slots) for _ in range(2))
        self.ray_weights, self.slot_weights = nn.Linear(pose, slots, bias=False), nn.Linear(slots, slots, bias=False)
        layers: list[nn.Module] = [nn.Linear(slots + pose, slots), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Linear(slots, slots), nn.ReLU()]
        self.colours = nn.Sequential(*layers, nn.Linear(slots, 3))
        for part in (self.queries, self.ray_weights, self.slot_weights, self.colours):
            part.apply(init_as_keras)

    def forward(self, slots: Tensor, poses: Tensor) -> tuple[Tensor, Tensor]:
        """Return the colour and the weights of the slots of every ray."""
        queries = self.queries(poses)
        rows = queries
        for block in self.blocks:
            rows = block(rows, slots)
        logits = self.ray_weights(rows) @ self.slot_weights(slots).mT * slots.shape[-1] ** -0.5  # [B, R, K]
        weights = logits.float().softmax(-1)
        mixed = weights.to(queries.dtype) @ slots.to(queries.dtype)  # [B, R, D]
        return self.colours(torch.cat((mixed, queries), -1)).float(), weights


class OSRT(nn.Module):
    """Object Scene Representation Transformer (Sajjadi et al. 2022), with the slot mixer as decoder.

    `width` is that of the encoder, whose heads have 64; slots are twice as wide, and the mixer has `heads`. Poses have
    so many `octaves`. The loss is on `rays` random rays of each scene: of all views as in the release ("all"), or of
    those that were no input ("others").

    >>> model = OSRT(size=16, slots=4, width=192, blocks=1, rays=64)
    >>> encoding = model(torch.rand(2, 3, 3, 16, 16), torch.rand(2, 3, 3) + 3)
    >>> encoding.slots.shape, encoding.masks.shape
    (torch.Size([2, 4, 384]), torch.Size([2, 3, 4, 16, 16]))
    """

    takes: Shows = "views"

    def __init__(
        self,
        *,
        size: int = 64,
        inputs: int = 1,
        slots: int = 5,
        initial: InitialSlots = "random",
        iterations: int = 1,
        width: int = 768,
        blocks: int = 5,
        heads: int = 12,
        octaves: int = OCTAVES,
        rays: int = 2048,
        targets: Targets = "all",
    ) -> None:
        super().__init__()
        check_positive(inputs=inputs, slots=slots, iterations=iterations, width=width, blocks=blocks, rays=rays)
        check_positive(heads=heads)
        if size < 8 or size % 2**_STAGES:
            raise InputError(f"size must be a multiple of {2**_STAGES} pixels, not {size}")
        if width % HEAD or 2 * width % heads:
            raise InputError(f"width must be a multiple of {HEAD}, and twice of it of {heads} heads, not {width}")
        if initial not in ("random", "learned"):
            raise InputError(f"initial must be 'random' or 'learned', not {initial!r}")
        if targets not in ("all", "others"):
            raise InputError(f"targets must be 'all' or 'others', not {targets!r}")
        self.size, self.inputs, self.slots, self.iterations = size, inputs, slots, iterations
        self.octaves, self.rays, self.targets = octaves, rays, targets
        self.encoder = ViewEncoder(width, blocks, pose_size(octaves))
        self.initial = RandomSlots(2 * width) if initial == "random" else LearnedSlots(slots, 2 * width)
        if isinstance(self.initial, LearnedSlots):
            nn.init.normal_(self.initial.slots)
        else:
            nn.init.constant_(self.initial.log_scale, INITIAL_LOG_SCALE)
        self.grouping = SlotAttention(width, 2 * width, projections=2 * width, hidden=4 * width, norm_epsilon=1e-5)
        self.grouping.apply(init_as_jax)
        self.mixer = SlotMixer(2 * width, heads, pose_size(octaves))

    def forward(
        self,
        images: Tensor,
        cameras: Tensor,
        slots: int | None = None,
        iterations: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Encoding:
        """Return slots of the first views, and masks and reconstructions of all; `slots` only with random ones."""
        count, views = check_views(images, cameras, self.size, self.inputs).shape[:2]
        initial = self.initial(count, self.slots if slots is None else slots, generator)
        final = self.encode(images, cameras, initial, self.iterations if iterations is None else iterations)
        poses = embedded_poses(cameras, self.size, self.octaves).flatten(1, 3)  # [B, V * H * W, P]
        parts = [self.mixer(final, part) for part in torch.split(poses, RAYS_AT_ONCE, 1)]
        colours, weights = (torch.cat([part[each] for part in parts], 1).mT for each in (0, 1))
        shape = (views, self.size, self.size)
        return Encoding(
            slots=final,
            masks=weights.reshape(*weights.shape[:2], *shape).transpose(1, 2),
            reconstruction=colours.reshape(*colours.shape[:2], *shape).transpose(1, 2),
        )

    def encode(self, images: Tensor, cameras: Tensor, initial: Tensor, iterations: int) -> Tensor:
        """Return the slots [B, K, D] of the first `inputs` views of images [B, V, 3, H, W]."""
        poses = embedded_poses(cameras[:, : self.inputs], self.size, self.octaves).permute(0, 1, 4, 2, 3)
        features = self.encoder(images[:, : self.inputs].float(), poses)
        slots, _ = self.grouping(features, initial, iterations)
        return slots  # type: ignore[no-any-return]

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the mean squared error of the colours of random rays."""
        images, cameras = shuffled_views(batch["images"], batch["cameras"])
        first = 0 if self.targets == "all" else self.inputs
        check_views(images, cameras, self.size, first + 1)
        slots = self.encode(images, cameras, self.initial(len(images), self.slots), self.iterations)
        colours, poses = self.random_rays(images, cameras, first)
        drawn, _ = self.mixer(slots, poses)
        return {"loss": F.mse_loss(drawn, colours)}

    def random_rays(self, images: Tensor, cameras: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Return the colours [B, R, 3] and the poses [B, R, P] of random rays of the views from `first` on."""
        targets = images[:, first:].float().permute(0, 1, 3, 4, 2).flatten(1, 3)  # [B, V * H * W, 3]
        chosen = torch.randint(targets.shape[1], (len(images), self.rays), device=images.device)
        poses = embedded_poses(cameras, self.size, self.octaves)[:, first:].flatten(1, 3)
        rows = torch.arange(len(images), device=images.device)[:, None]
        return targets[rows, chosen], poses[rows, chosen]
