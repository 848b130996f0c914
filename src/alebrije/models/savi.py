"""SAVi: slots that follow the objects of a video (Kipf et al. 2022), without and with boxes, and supervised.

From top to bottom: weight initialisation, the predictor, the model, the one with boxes, the supervised one.

A corrector (Slot Attention) updates the slots with each frame, and a predictor moves them on to the next. What is
decoded and scored are the corrected slots. Sizes and weights are those of the release
(google-research/slot-attention-video, its small model); the settings also reach those of the paper of ARP and ARR
(Appendix B).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.encoding import Encoding, Shows
from alebrije.errors import InputError
from alebrije.models.checks import check_memory, check_positive
from alebrije.models.fused import rectified_layers
from alebrije.models.learner import Batch, Losses
from alebrije.models.slot_attention import (
    BroadcastDecoder,
    ConvolutionalEncoder,
    InitialSlots,
    LearnedSlots,
    RandomSlots,
    SlotAttention,
    mix,
)

NORM_EPSILON = 1e-6  # flax'
HIDDEN = 256  # of the MLPs that read and write boxes


def init_as_flax(module: nn.Module) -> None:
    """Set weights of variance 1 / inputs, truncated at two standard deviations, and zero biases."""
    if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        outputs = module.weight.shape[1 if isinstance(module, nn.ConvTranspose2d) else 0]
        _init_truncated(module.weight, module.weight.numel() / outputs)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.GRUCell):
        _init_truncated(module.weight_ih, module.input_size)


def _init_truncated(weight: Tensor, inputs: float) -> None:
    within = math.erf(2**0.5)  # of a normal distribution is within two standard deviations
    with torch.no_grad():  # 0.88 is the standard deviation of that part
        weight.uniform_(-within, within).erfinv_().mul_(2**0.5 * inputs**-0.5 / 0.87962566)


class Predictor(nn.Module):
    """A transformer block with layer norms after the sums: slots [B, K, D] to slots of the next frame."""

    def __init__(self, size: int, *, heads: int, hidden: int) -> None:
        super().__init__()
        if size % heads:
            raise InputError(f"slot_size must be divisible by heads, but they are {size} and {heads}")
        self.heads = heads
        self.projections, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.attention_norm, self.norm = nn.LayerNorm(size, NORM_EPSILON), nn.LayerNorm(size, NORM_EPSILON)
        self.mlp = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, size))

    def forward(self, slots: Tensor) -> Tensor:
        """Let the slots attend to each other [B, K, D]."""
        parts = self.projections(slots).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # [3, B, heads, K, d]
        mixed = F.scaled_dot_product_attention(*parts.unbind(0)).transpose(1, 2).flatten(2)
        slots = self.attention_norm(slots + self.output(mixed))
        return self.norm(slots + rectified_layers(self.mlp, slots))  # type: ignore[no-any-return]


class SAVi(nn.Module):
    """SAVi without conditions: the first slots are random or learned.

    Defaults are the release's small model for 64 pixels. The paper of ARP and ARR names five convolutions
    (``encoder_layers=5``), two iterations and an MLP (``iterations=2, hidden=256``), and for CATER no predictor
    (``heads=0``). Windows of `frames` frames are learned; at test time videos have any length.

    Random slots are drawn from a standard normal, as in the release, or with ``gaussian="learned"`` from one Gaussian
    with learned mean and scale. Any number of them can be chosen at test time.

    The `target` is the optical flow as colours (`alebrije.render.flow_colors`) or the video itself. The loss is the
    squared error summed over frames, pixels and channels.

    >>> model = SAVi(size=16, slots=3, channels=8, slot_size=16, decoder_channels=8, heads=2)
    >>> encoding = model(torch.rand(2, 5, 3, 16, 16), slots=4)
    >>> encoding.slots.shape, encoding.masks.shape
    (torch.Size([2, 5, 4, 16]), torch.Size([2, 5, 4, 16, 16]))
    """

    takes: ClassVar[Shows] = "videos"

    def __init__(
        self,
        *,
        size: int = 64,
        frames: int = 6,
        slots: int = 11,
        initial: InitialSlots = "random",
        gaussian: Literal["standard", "learned"] = "standard",
        target: Literal["flow", "rgb"] = "flow",
        channels: int = 32,
        encoder_layers: int = 4,
        encoder_stride: int = 1,
        slot_size: int = 128,
        projections: int = 128,
        iterations: int = 1,
        hidden: int = 0,
        heads: int = 4,
        predictor_hidden: int = 256,
        decoder_channels: int = 64,
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__()
        check_positive(frames=frames, slots=slots, iterations=iterations, encoder_layers=encoder_layers)
        if size < 8 or size & (size - 1):
            raise InputError(f"size must be a power of 2 and at least 8 pixels, not {size}")
        self.size, self.frames, self.slots, self.iterations, self.target = size, frames, slots, iterations, target
        self.decoder_channels = decoder_channels
        self.encoder = ConvolutionalEncoder(
            channels=channels,
            stride=encoder_stride,
            hidden=2 * channels,
            norm_epsilon=NORM_EPSILON,
            layers=encoder_layers,
            grid="signed",
        )
        self.initial = LearnedSlots(slots, slot_size) if initial == "learned" else RandomSlots(slot_size)
        self.corrector = SlotAttention(
            channels,
            slot_size,
            projections=projections,
            hidden=hidden,
            epsilon=epsilon,
            epsilon_on="sum",
            norm_epsilon=NORM_EPSILON,
        )
        self.predictor = Predictor(slot_size, heads=heads, hidden=predictor_hidden) if heads else None
        upsamplings = size.bit_length() - 4  # from 8 x 8 pixels
        self.decoder = BroadcastDecoder(
            slot_size,
            size=size,
            channels=decoder_channels,
            upsamplings=upsamplings,
            convolutions=max(0, 4 - upsamplings),
            head=1,
            grid="signed",
        )
        self.apply(init_as_flax)
        if isinstance(self.initial, LearnedSlots):
            nn.init.normal_(self.initial.slots)
        elif gaussian == "standard":
            for weight in self.initial.parameters():
                nn.init.zeros_(weight.requires_grad_(False))
        self.add_parts(slot_size)

    def add_parts(self, slot_size: int) -> None:
        """Build what a model with boxes has in addition."""

    def forward(self, videos: Tensor, slots: int | None = None, generator: torch.Generator | None = None) -> Encoding:
        """Return the corrected slots, masks and, if videos are the target, reconstructions of all frames."""
        return self.encode(videos, self.first_slots(len(videos), self.count(slots, videos), generator))

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the squared error of the target, summed over a window."""
        return {"loss": self.error(self.follow(batch["images"], self.start(batch)), batch)}

    def compiled_loss(self, compiled: Callable[[Any], Any]) -> Callable[[Batch, Tensor], Losses]:
        """Return `training_loss` as it is: the large maps have fused kernels, and a captured step starts at once."""
        return self.training_loss

    def start(self, batch: Batch) -> Tensor:
        """Return the first slots of a training step [B, K, D]."""
        return self.first_slots(len(batch["images"]), self.slots)

    def first_slots(self, videos: int, slots: int, generator: torch.Generator | None = None) -> Tensor:
        """Return slots without a condition [B, K, D]."""
        return self.initial(videos, slots, generator)  # type: ignore[no-any-return]

    def encode(self, videos: Tensor, slots: Tensor) -> Encoding:
        """Follow the slots [B, K, D] through videos, and decode frame by frame, because masks are large."""
        corrected = self.follow(videos, slots)
        frames = [mix(*self.decoder(own)) for own in corrected.unbind(1)]
        images, masks = (torch.stack(parts, 1) for parts in zip(*frames, strict=True))
        return Encoding(slots=corrected, masks=masks, reconstruction=images if self.target == "rgb" else None)

    def follow(self, videos: Tensor, slots: Tensor) -> Tensor:
        """Return the corrected slots of each frame [B, T, K, D], starting from slots [B, K, D]."""
        self.check(videos)
        features = self.encoder(videos.flatten(0, 1).float()).unflatten(0, videos.shape[:2])  # [B, T, N, C]
        first, *others = features.unbind(1)
        corrected: list[Tensor] = [self.corrector(first, slots, self.iterations)[0]]
        for frame in others:
            predicted = corrected[-1] if self.predictor is None else self.predictor(corrected[-1])
            corrected.append(self.corrector(frame, predicted, self.iterations)[0])
        return torch.stack(corrected, 1)

    def error(self, slots: Tensor, batch: Batch) -> Tensor:
        """Return the squared error of what slots [B, T, K, D] decode to, summed over frames, pixels and channels."""
        images, _ = mix(*self.decoder(slots.flatten(0, 1)))
        target = batch["images" if self.target == "rgb" else "flow"].flatten(0, 1)
        return (images - target).square().sum() / len(slots)

    def training_bytes(self, videos: int) -> int:
        """Roughly how much memory a training step on windows takes: the maps of the decoder, kept for the gradient."""
        layers = len(self.decoder.layers) // 2
        return videos * self.frames * self.slots * self.size**2 * self.decoder_channels * 2 * min(layers, 3)

    def count(self, slots: int | None, videos: Tensor) -> int:
        """Return the number of slots of a call; an InputError if the memory cannot hold what it decodes."""
        self.check(videos)
        count = self.slots if slots is None else slots
        if count < 1:
            raise InputError(f"SAVi needs at least one slot, not {count}")
        pixels = len(videos) * count * self.size**2  # of a frame; its largest maps, and all masks, are held at once
        check_memory(4 * pixels * (2 * self.decoder_channels + videos.shape[1]), f"{count:,} slots", videos.device)
        return count

    def check(self, videos: Tensor) -> None:
        """Raise an InputError unless videos are [B, T, 3, size, size]."""
        if videos.ndim != 5 or tuple(videos.shape[2:]) != (3, self.size, self.size):
            shape = list(videos.shape)
            raise InputError(f"videos must have the shape [B, T, 3, {self.size}, {self.size}], not {shape}")


class SAViBoxes(SAVi):
    """SAVi whose first slots come from the boxes of the objects in the first frame.

    The first slot is made from a box of zeros, for the ground, the next from the boxes, the largest first. If there are
    too few slots, the smallest boxes have none. The release fills surplus slots with more boxes of zeros: they start
    identical, and so they stay for ever, whatever their number. Here they start as the slots of `SAVi` do.

    >>> model = SAViBoxes(size=16, slots=3, channels=8, slot_size=16, decoder_channels=8, heads=2)
    >>> model(torch.rand(2, 5, 3, 16, 16), torch.rand(2, 10, 4)).slots.shape
    torch.Size([2, 5, 3, 16])
    """

    def add_parts(self, slot_size: int) -> None:
        """Build the MLP from boxes to slots."""
        self.from_box = nn.Sequential(nn.Linear(4, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, slot_size))
        self.from_box.apply(init_as_flax)

    def forward(  # type: ignore[override]
        self, videos: Tensor, boxes: Tensor, slots: int | None = None, generator: torch.Generator | None = None
    ) -> Encoding:
        """Return the corrected slots and masks of all frames; boxes [B, N, 4] are those of the first."""
        if boxes.ndim != 3 or len(boxes) != len(videos) or boxes.shape[-1] != 4:
            raise InputError(f"boxes must have the shape [{len(videos)}, N, 4], not {list(boxes.shape)}")
        order, has_box = largest_first(boxes, self.count(slots, videos) - 1)
        return self.encode(videos, self.slots_of(pick(boxes, order), has_box, generator))

    def start(self, batch: Batch) -> Tensor:
        """Return the first slots of a training step [B, K, D], from the boxes of the first frame."""
        boxes = batch["boxes"][:, 0]
        order, has_box = largest_first(boxes, self.slots - 1)
        return self.slots_of(pick(boxes, order), has_box)

    def slots_of(self, boxes: Tensor, has_box: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the first slots [B, K, D]: of the ground, then of boxes [B, K - 1, 4] where `has_box` [B, K - 1]."""
        others = self.first_slots(len(boxes), boxes.shape[1] + 1, generator)
        made = self.from_box(F.pad(boxes, (0, 0, 1, 0))).to(others)  # the ground has a box of zeros
        return torch.where(F.pad(has_box, (1, 0), value=True)[..., None], made, others)


class SAViSupervised(SAViBoxes):
    """SAVi with boxes that also learns where each object is in the last frame of a window.

    The paper of ARP and ARR does not give the loss. Here an MLP reads a box from the slot of each object that had a box
    and is visible in the last frame; which slot follows which object is known. The loss is the sum of absolute errors
    of the coordinates (Huber's below 0.05). Beside a sum over all pixels it would hardly count, so it is multiplied by
    `box_weight` times the pixels of a frame.
    """

    def __init__(
        self,
        *,
        size: int = 64,
        frames: int = 6,
        slots: int = 11,
        initial: InitialSlots = "random",
        gaussian: Literal["standard", "learned"] = "standard",
        target: Literal["flow", "rgb"] = "flow",
        channels: int = 32,
        encoder_layers: int = 4,
        encoder_stride: int = 1,
        slot_size: int = 128,
        projections: int = 128,
        iterations: int = 1,
        hidden: int = 0,
        heads: int = 4,
        predictor_hidden: int = 256,
        decoder_channels: int = 64,
        epsilon: float = 1e-8,
        box_weight: float = 0.1,
    ) -> None:
        super().__init__(
            size=size,
            frames=frames,
            slots=slots,
            initial=initial,
            gaussian=gaussian,
            target=target,
            channels=channels,
            encoder_layers=encoder_layers,
            encoder_stride=encoder_stride,
            slot_size=slot_size,
            projections=projections,
            iterations=iterations,
            hidden=hidden,
            heads=heads,
            predictor_hidden=predictor_hidden,
            decoder_channels=decoder_channels,
            epsilon=epsilon,
        )
        if box_weight <= 0:
            raise InputError(f"box_weight must be positive, not {box_weight}")
        self.box_weight = box_weight

    def add_parts(self, slot_size: int) -> None:
        """Build the MLPs from boxes to slots and back."""
        super().add_parts(slot_size)
        self.to_box = nn.Sequential(nn.Linear(slot_size, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 4), nn.Sigmoid())
        self.to_box.apply(init_as_flax)

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the loss and its parts: of the pixels, and of the boxes of the last frame."""
        corrected = self.follow(batch["images"], self.start(batch))
        pixels = self.error(corrected, batch)
        order, has_box = largest_first(batch["boxes"][:, 0], self.slots - 1)
        true = pick(batch["boxes"][:, -1], order)  # [B, K - 1, 4]
        read = self.to_box(corrected[:, -1, 1:]).float()
        wrong = F.smooth_l1_loss(read, true, reduction="none", beta=0.05).sum(-1)
        boxes = (wrong * (has_box & (areas(true) > 0))).sum() / len(true) * self.box_weight * self.size**2
        return {"loss": pixels + boxes, "pixels": pixels.detach(), "boxes": boxes.detach()}


def areas(boxes: Tensor) -> Tensor:
    """The areas of boxes [..., 4]: top, left, bottom, right."""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def largest_first(boxes: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The indices of the `count` largest boxes of each video [B, count], and which of them have a box of an object.

    >>> order, has_box = largest_first(torch.tensor([[[0, 0, 0.1, 0.1], [0, 0, 0, 0], [0, 0, 0.5, 0.5]]]), 4)
    >>> order.tolist(), has_box.tolist()
    ([[2, 0, 1, 3]], [[True, True, False, False]])
    """
    size = F.pad(areas(boxes), (0, max(0, count - boxes.shape[1])))
    ordered, order = size.sort(dim=-1, descending=True, stable=True)
    return order[:, :count], ordered[:, :count] > 0


def pick(boxes: Tensor, order: Tensor) -> Tensor:
    """The boxes [B, count, 4] at these indices; zeros at indices after the last."""
    padded = F.pad(boxes, (0, 0, 0, max(0, order.shape[1] - boxes.shape[1])))
    return padded.gather(1, order[..., None].expand(-1, -1, 4))
