"""MoCo v2 (He et al. 2020; Chen et al. 2020) with COAT's small network."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.augmentations import Augmentation
from alebrije.models.autoencoders import ArchitectureName, build_encoder, check_architecture_images
from alebrije.models.checks import check_positive
from alebrije.models.learner import Batch, Losses


class MoCo(nn.Module):
    """Momentum contrast: the codes of two views of an image attract; a queue of earlier images repels them.

    COAT (Xie et al. 2022) trained it with the encoder of its beta-TCVAE, `conv128` with 256 outputs, and otherwise
    with defaults: MoCo v2's two-layer head, 128 dimensions, temperature 0.2, momentum 0.999. MoCo's queue of 65,536
    would hold each of COAT's 23,000 training images about three times. COAT does not specify its queue; 4,096 is our
    choice. The network has no batch normalisation, so keys need no shuffling.

    The vector is the output of the encoder, before the head. `Augmentation` explains `smallest_crop` to `flip_chance`.
    Parameters that start with `key_` are moving averages of the others and are not trained.

    >>> model = MoCo(architecture="conv64", queue=64)
    >>> losses = model.training_loss({"images": torch.rand(8, 3, 64, 64)}, torch.tensor(0.0))
    >>> int(model.pointer), sorted(losses)
    (8, ['accuracy', 'loss'])
    >>> model(torch.rand(2, 3, 64, 64)).vector.shape
    torch.Size([2, 256])
    """

    whole_batch_reason = "keeps a queue of its batches"  # each process would have a different queue
    queue: Tensor  # [K, dimensions], keys of unit length
    pointer: Tensor  # index of the next key

    def __init__(
        self,
        *,
        architecture: ArchitectureName = "conv128",
        latents: int = 256,
        dimensions: int = 128,
        queue: int = 4096,
        momentum: float = 0.999,
        temperature: float = 0.2,
        smallest_crop: float = 0.2,
        jitter: float = 0.4,
        hue: float = 0.1,
        jitter_chance: float = 0.8,
        grey_chance: float = 0.2,
        blur_chance: float = 0.5,
        flip_chance: float = 0.5,
    ) -> None:
        super().__init__()
        check_positive(latents=latents, dimensions=dimensions, queue=queue)
        if not 0 <= momentum <= 1:
            raise InputError(f"momentum must be from 0 to 1, not {momentum}")
        if temperature <= 0:
            raise InputError(f"temperature must be above 0, not {temperature}")
        self.architecture: ArchitectureName = architecture
        self.momentum = momentum
        self.temperature = temperature
        self.augment = Augmentation(
            smallest_crop=smallest_crop,
            jitter=jitter,
            hue=hue,
            jitter_chance=jitter_chance,
            grey_chance=grey_chance,
            blur_chance=blur_chance,
            flip_chance=flip_chance,
        )
        self.encoder = build_encoder(architecture, 3, latents)
        self.head = build_head(latents, dimensions)
        self.key_encoder = build_encoder(architecture, 3, latents).requires_grad_(False)
        self.key_head = build_head(latents, dimensions).requires_grad_(False)
        self.key_encoder.load_state_dict(self.encoder.state_dict())
        self.key_head.load_state_dict(self.head.state_dict())
        self.register_buffer("queue", F.normalize(torch.randn(queue, dimensions), dim=1))
        self.register_buffer("pointer", torch.zeros((), dtype=torch.int64))

    def forward(self, images: Tensor) -> Encoding:
        """Encode images [B, 3, S, S] without augmentation."""
        check_architecture_images(images, self.architecture, (3,))
        return Encoding(vector=self.encoder(centred(images)))

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return InfoNCE of two views of `images` and its accuracy; update the key networks and the queue."""
        images = batch["images"]
        check_architecture_images(images, self.architecture, (3,))
        if len(self.queue) % len(images):
            raise InputError(f"a queue of {len(self.queue)} is not a multiple of the batch of {len(images)} images")
        queries = unit_length(self.head(self.encoder(centred(self.augment(images)))))  # [B, dimensions]
        self.update_key_networks()
        with torch.no_grad():
            keys = unit_length(self.key_head(self.key_encoder(centred(self.augment(images)))))  # [B, dimensions]
        # `enqueue` changes the queue before the backward pass uses it.
        losses = info_nce(queries, keys, self.queue.clone(), self.temperature)
        self.enqueue(keys)
        return losses

    @torch.no_grad()
    def update_key_networks(self) -> None:
        """Set key parameters to momentum · key parameters + (1 - momentum) · parameters."""
        for keys, trained in ((self.key_encoder, self.encoder), (self.key_head, self.head)):
            for key, parameter in zip(keys.parameters(), trained.parameters(), strict=True):
                key.lerp_(parameter, 1 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys: Tensor) -> None:
        """Replace the oldest keys by keys [B, dimensions]."""
        indices = (self.pointer + torch.arange(len(keys), device=keys.device)) % len(self.queue)
        self.queue.index_copy_(0, indices, keys)
        self.pointer.copy_((self.pointer + len(keys)) % len(self.queue))


def build_head(latents: int, dimensions: int) -> nn.Sequential:
    """Build the projection head of MoCo v2: one hidden layer as wide as its input."""
    return nn.Sequential(nn.Linear(latents, latents), nn.ReLU(), nn.Linear(latents, dimensions))


def centred(images: Tensor) -> Tensor:
    """Scale images from 0..1 to -1..1, as in COAT."""
    return 2 * images - 1


def unit_length(vectors: Tensor) -> Tensor:
    """Scale vectors [B, D] to length one, in float32."""
    return F.normalize(vectors.float(), dim=1)


def info_nce(queries: Tensor, keys: Tensor, negatives: Tensor, temperature: float) -> Losses:
    """InfoNCE (van den Oord et al. 2018): cross-entropy of finding each query's key [B, D] among negatives [K, D]."""
    with torch.autocast(queries.device.type, enabled=False):  # half precision is too coarse before the division
        positives = (queries * keys).sum(1, keepdim=True)  # [B, 1]
        logits = torch.cat([positives, queries @ negatives.T], dim=1) / temperature  # [B, 1 + K]
    loss = (torch.logsumexp(logits, dim=1) - logits[:, 0]).mean()
    return {"loss": loss, "accuracy": (logits.argmax(1) == 0).float().mean().detach()}
