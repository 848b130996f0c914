"""Slot Attention for novel view synthesis: slots of some views draw the other views (paper of ARP and ARR, App. B).

As its autoencoder for MultiShapeNet, with three differences: the encoder also reads the pose of every pixel, the
decoder adds to its positions the poses of the view that it draws, and one iteration is enough. The features of all
input views are one set. What the paper leaves open is decided here: poses as in OSRT, from the first input view, with
small initial weights; any view may be the first in training; the loss is on the views that were no input.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.encoding import Encoding, Shows
from alebrije.errors import InputError
from alebrije.models.checks import check_positive
from alebrije.models.fused import decoded
from alebrije.models.learner import Batch, Losses
from alebrije.models.poses import OCTAVES, balance_poses, check_views, embedded_poses, pose_size, shuffled_views
from alebrije.models.slot_attention import (
    BroadcastDecoder,
    InitialSlots,
    LearnedSlots,
    RandomSlots,
    ResNetEncoder,
    SlotAttention,
    init_as_torch,
    init_as_torch_releases,
    init_as_transposed,
    mix,
    upsamplings_for,
    with_noise,
)


class ViewDecoder(BroadcastDecoder):
    """Draws views: slots [B, K, D] and poses [B, V, h, w, P] to images [B * V, K, 3, H, W] and mask logits."""

    def __init__(self, slots: int, pose: int, **sizes: Any) -> None:
        super().__init__(slots, **sizes)
        self.poses = nn.Linear(pose, slots)

    def draw(self, slots: Tensor, poses: Tensor) -> tuple[Tensor, Tensor]:
        """Return the image [B * V, K, 3, H, W] and the mask logits [B * V, K, 1, H, W] of each slot in each view."""
        count, views = poses.shape[:2]
        added = self.poses(poses).permute(0, 1, 4, 2, 3)  # [B, V, D, h, w]
        maps = slots[:, None, :, :, None, None] + added[:, :, None]  # [B, V, K, D, h, w]
        maps = decoded(self.layers, self.positions(maps.flatten(0, 2)))
        maps = maps.view(count * views, slots.shape[1], *maps.shape[1:])
        return maps[:, :, :3], maps[:, :, 3:]


class SlotAttentionNvs(nn.Module):
    """Slot Attention that draws views which it has not seen, from `inputs` views (Zimmermann et al. 2023, App. B).

    Called with views and cameras, it encodes the first `inputs` views and returns masks and reconstructions of all.

    >>> model = SlotAttentionNvs(size=32, slots=4, channels=16, resnet_width=8)
    >>> views, cameras = torch.rand(2, 3, 3, 32, 32), torch.rand(2, 3, 3) + 3
    >>> encoding = model(views, cameras, slots=6)
    >>> encoding.slots.shape, encoding.masks.shape
    (torch.Size([2, 6, 64]), torch.Size([2, 3, 6, 32, 32]))
    """

    takes: Shows = "views"
    norm_epsilon = 1e-3  # Keras'

    def __init__(
        self,
        *,
        size: int = 64,
        inputs: int = 1,
        slots: int = 5,
        initial: InitialSlots = "random",
        iterations: int = 1,
        channels: int = 64,
        slot_size: int = 64,
        projections: int = 64,
        hidden: int = 128,
        decoder_layers: int = 5,
        decoder_head: int = 3,
        resnet_width: int = 64,
        octaves: int = OCTAVES,
        epsilon: float = 1e-8,
        epsilon_on: Literal["attention", "sum"] = "attention",
        bilevel: bool = False,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        check_positive(inputs=inputs, slots=slots, iterations=iterations)
        if size < 16 or size % 8:
            raise InputError(f"size must be a multiple of 8 pixels and at least 16, not {size}")
        if initial not in ("random", "learned"):
            raise InputError(f"initial must be 'random' or 'learned', not {initial!r}")
        self.size, self.inputs, self.slots, self.iterations, self.octaves = size, inputs, slots, iterations, octaves
        upsamplings = upsamplings_for(size, decoder_layers)
        self.encoder = ResNetEncoder(
            inputs=3 + pose_size(octaves), width=resnet_width, channels=channels, norm_epsilon=self.norm_epsilon
        )
        balance_poses(self.encoder.resnet[0])  # type: ignore[arg-type]
        self.initial = RandomSlots(slot_size) if initial == "random" else LearnedSlots(slots, slot_size)
        self.grouping = SlotAttention(
            channels,
            slot_size,
            projections=projections,
            hidden=hidden,
            epsilon=epsilon,
            epsilon_on=epsilon_on,
            bilevel=bilevel,
            drop_path=drop_path,
            norm_epsilon=self.norm_epsilon,
        )
        self.decoder = ViewDecoder(
            slot_size,
            pose_size(octaves),
            size=size,
            channels=channels,
            upsamplings=upsamplings,
            convolutions=decoder_layers - upsamplings,
            head=decoder_head,
        )

    def forward(
        self,
        images: Tensor,
        cameras: Tensor,
        slots: int | None = None,
        iterations: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Encoding:
        """Return slots of the first views, and masks and reconstructions of all; see `SlotAttentionAutoencoder`."""
        count, views = check_views(images, cameras, self.size, self.inputs).shape[:2]
        initial = self.initial(count, self.slots if slots is None else slots, generator)
        final = self.encode(images, cameras, initial, self.iterations if iterations is None else iterations)
        reconstruction, masks = mix(*self.decoder.draw(final, embedded_poses(cameras, self.decoder.side, self.octaves)))
        return Encoding(
            slots=final,
            masks=masks.reshape(count, views, *masks.shape[1:]),
            reconstruction=(reconstruction.reshape(images.shape) + 1) / 2,
        )

    def encode(self, images: Tensor, cameras: Tensor, initial: Tensor, iterations: int) -> Tensor:
        """Return the slots [B, K, D] of the first `inputs` views of images [B, V, 3, H, W]."""
        count = len(images)
        seen = images[:, : self.inputs].float() * 2 - 1
        poses = embedded_poses(cameras[:, : self.inputs], self.size, self.octaves).permute(0, 1, 4, 2, 3)
        features = self.encoder(torch.cat((seen, poses), 2).flatten(0, 1))  # [B * inputs, N, C]
        slots, _ = self.grouping(features.reshape(count, -1, features.shape[-1]), initial, iterations)
        return slots  # type: ignore[no-any-return]

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the mean squared error of the views that were no input, at the scale -1..1."""
        images, cameras = shuffled_views(batch["images"], batch["cameras"])
        check_views(images, cameras, self.size, self.inputs + 1)
        slots = self.encode(images, cameras, self.training_slots(len(images), step), self.iterations)
        targets = images[:, self.inputs :].float().flatten(0, 1) * 2 - 1
        drawn, _ = mix(
            *self.decoder.draw(slots, embedded_poses(cameras, self.decoder.side, self.octaves)[:, self.inputs :])
        )
        return {"loss": F.mse_loss(drawn, targets)}

    def training_slots(self, images: int, step: Tensor) -> Tensor:
        """Return the initial slots of a training step [B, K, D]."""
        return self.initial(images, self.slots)  # type: ignore[no-any-return]


class BoQsaNvs(SlotAttentionNvs):
    """BO-QSA in the same form: learned initial slots with noise, or one Gaussian (paper of ARP and ARR, Figure 11).

    The sizes are those above; epsilon, the norms, the initial weights, the noise and the skipped MLPs are BO-QSA's.

    >>> BoQsaNvs(size=16, slots=4, channels=16, resnet_width=8).initial.slots.shape
    torch.Size([4, 64])
    """

    norm_epsilon = 1e-5  # torch's

    def __init__(
        self,
        *,
        size: int = 64,
        inputs: int = 1,
        slots: int = 5,
        initial: InitialSlots = "learned",
        iterations: int = 1,
        channels: int = 64,
        slot_size: int = 64,
        projections: int = 64,
        hidden: int = 128,
        decoder_layers: int = 5,
        decoder_head: int = 3,
        resnet_width: int = 64,
        octaves: int = OCTAVES,
        epsilon: float = 1.0,
        drop_path: float = 0.2,
        noise_steps: int = 30_000,
    ) -> None:
        super().__init__(
            size=size,
            inputs=inputs,
            slots=slots,
            initial=initial,
            iterations=iterations,
            channels=channels,
            slot_size=slot_size,
            projections=projections,
            hidden=hidden,
            decoder_layers=decoder_layers,
            decoder_head=decoder_head,
            resnet_width=resnet_width,
            octaves=octaves,
            epsilon=epsilon,
            epsilon_on="sum",
            bilevel=True,
            drop_path=drop_path,
        )
        check_positive(noise_steps=noise_steps)
        self.noise_steps = noise_steps
        self.encoder.mlp.apply(init_as_torch)
        self.decoder.apply(init_as_transposed)
        init_as_torch_releases(self.grouping, self.initial)

    def training_slots(self, images: int, step: Tensor) -> Tensor:
        """Return the queries with the noise of this step [B, K, D]."""
        queries = super().training_slots(images, step)
        return queries if isinstance(self.initial, RandomSlots) else with_noise(queries, step, self.noise_steps)
