"""Slot Attention: a set of slots that compete for the pixels of an image (Locatello et al. 2020).

From top to bottom: weight initialisation, the grouping module, initial slots, positions, the encoder, the decoder and
the autoencoder; then BO-QSA, which learns the initial slots (Jia et al. 2023).

The pieces take plain tensors, so other models can use them. Weights are initialised as in the release (Keras: Glorot
uniform, biases zero, recurrent weights orthogonal, layer norms with epsilon 1e-3). Their standard deviation is 1.7
times torch's; over the ten convolutions from image to image, that decides how fast learning starts.
On CUDA, `model.to(memory_format=torch.channels_last)` makes all convolutions run channels-last.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.checks import check_image_shape, check_positive
from alebrije.models.fused import competing_attention, decoded, in_autocast, rectified_layers
from alebrije.models.learner import Batch, Losses
from alebrije.models.resnet import ResNet18

CoordinateRange = Literal["unit", "half-pixel", "signed"]
InitialSlots = Literal["random", "learned"]
EncoderName = Literal["cnn", "resnet18"]


def init_as_keras(module: nn.Module) -> None:
    """Set Glorot uniform weights and zero biases in linear layers and convolutions, orthogonal recurrent weights."""
    if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.GRUCell):
        nn.init.xavier_uniform_(module.weight_ih)
        nn.init.orthogonal_(module.weight_hh)
        nn.init.zeros_(module.bias_ih)
        nn.init.zeros_(module.bias_hh)


def init_as_torch(module: nn.Module) -> None:
    """Set the weights that torch gives linear layers and convolutions."""
    if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        module.reset_parameters()


def init_as_transposed(module: nn.Module) -> None:
    """The same, but treat convolutions as transposed ones, whose bound follows from their outputs in torch."""
    init_as_torch(module)
    if isinstance(module, nn.Conv2d):
        bound = module.weight[:, 0].numel() ** -0.5
        for weight in module.parameters():
            nn.init.uniform_(weight, -bound, bound)


def init_as_torch_releases(grouping: SlotAttention, initial: nn.Module) -> None:
    """Set the weights that differ from Keras in torch releases: before a ReLU, and in the Gaussian of `initial`."""
    if grouping.mlp is not None:
        nn.init.kaiming_uniform_(grouping.mlp[1].weight, nonlinearity="relu")  # type: ignore[arg-type]
    if isinstance(initial, RandomSlots):
        for weight in (initial.mean, initial.log_scale):
            nn.init.xavier_uniform_(weight.detach()[None])  # the releases have one more axis, which changes the bound


def normed_mlp(size: int, hidden: int, epsilon: float) -> nn.Sequential:
    """Build a layer norm and an MLP with one hidden layer, from `size` channels to as many."""
    return nn.Sequential(nn.LayerNorm(size, epsilon), nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, size))


class SlotAttention(nn.Module):
    """Groups inputs [B, N, inputs] into slots [B, K, slots] by attention in which the slots compete for the inputs.

    `projections` is the size of queries, keys and values, `hidden` the width of the MLP at the end of a step (0 for no
    MLP). The attention of every input sums to one over the slots, and every slot receives the mean of the inputs
    weighted by its attention; `epsilon` keeps that mean defined. It is added to the attention (1e-8: Slot Attention) or
    to its sum over the inputs (1e-8: SAVi; 1.0: BO-QSA, where a slot with little attention then changes little).
    With `bilevel`, only the last step is differentiated, and a straight-through estimator passes the gradient of its
    input slots to the initial slots (BO-QSA). `drop_path` is the probability that an image skips the MLP in training.
    `norm_epsilon` is the epsilon of the layer norms: by default Keras'; models first written in torch have 1e-5.

    >>> grouping = SlotAttention(64, 64, projections=128, hidden=256)
    >>> slots, attention = grouping(torch.rand(2, 100, 64), torch.randn(2, 7, 64), iterations=3)
    >>> slots.shape, attention.shape
    (torch.Size([2, 7, 64]), torch.Size([2, 7, 100]))
    """

    def __init__(
        self,
        inputs: int,
        slots: int,
        *,
        projections: int,
        hidden: int,
        epsilon: float = 1e-8,
        epsilon_on: Literal["attention", "sum"] = "attention",
        bilevel: bool = False,
        drop_path: float = 0.0,
        norm_epsilon: float = 1e-3,
    ) -> None:
        super().__init__()
        if epsilon_on not in ("attention", "sum"):
            raise InputError(f"epsilon_on must be 'attention' or 'sum', not {epsilon_on!r}")
        if epsilon <= 0:
            raise InputError(f"epsilon must be positive, not {epsilon}")
        self.epsilon, self.epsilon_on, self.bilevel, self.drop_path = epsilon, epsilon_on, bilevel, drop_path
        self.input_norm, self.slot_norm = nn.LayerNorm(inputs, norm_epsilon), nn.LayerNorm(slots, norm_epsilon)
        self.queries = nn.Linear(slots, projections, bias=False)
        self.keys = nn.Linear(inputs, projections, bias=False)
        self.values = nn.Linear(inputs, projections, bias=False)
        # If keys and values are at least as wide as the inputs, projecting the few slots is cheaper than projecting the
        # many inputs, and equivalent: q (W x) = (q W) x, and the mean of W x is W times the mean of x.
        self.lean = inputs <= projections
        self.gru = nn.GRUCell(projections, slots)
        self.mlp = normed_mlp(slots, hidden, norm_epsilon) if hidden else None
        self.apply(init_as_keras)

    def forward(self, inputs: Tensor, slots: Tensor, iterations: int = 3) -> tuple[Tensor, Tensor]:
        """Return the slots [B, K, D] after `iterations` steps, and the attention [B, K, N] of the last step."""
        if iterations < 1:
            raise InputError(f"Slot Attention needs at least one iteration, not {iterations}")
        inputs = self.input_norm(inputs)
        keys, values = (inputs, inputs) if self.lean else (self.keys(inputs), self.values(inputs))
        initial = slots
        for iteration in range(iterations):
            if self.bilevel and iteration == iterations - 1:
                slots = slots.detach() + (initial - initial.detach())
            slots, attention = self.step(slots, keys, values)
        return slots, attention

    def step(self, slots: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Let the slots [B, K, D] compete for the values [B, N, V] once; return new slots and attention [B, K, N]."""
        queries = self.scaled_queries(slots)
        if self.lean and in_autocast(keys):
            updates, attention = competing_attention(queries, keys, self.epsilon, self.epsilon_on == "sum")
        else:
            attention = torch.softmax(queries @ keys.mT, 1, dtype=torch.float32)  # [B, K, N], sums to one over K
            updates = self.mean_weights(attention) @ values  # [B, K, V]
        return self.update(slots, self.values(updates) if self.lean else updates), attention

    def scaled_queries(self, slots: Tensor) -> Tensor:
        """Return the queries of the slots, to be multiplied with the keys or, if `lean`, with the inputs."""
        queries: Tensor = self.queries(self.slot_norm(slots)) * self.queries.out_features**-0.5
        return queries @ self.keys.weight if self.lean else queries

    def mean_weights(self, attention: Tensor) -> Tensor:
        """Return the weight [B, K, N] of each input in the mean of each slot."""
        if self.epsilon_on == "attention":
            attention = attention + self.epsilon
            return attention / attention.sum(-1, keepdim=True)
        return attention / (attention.sum(-1, keepdim=True) + self.epsilon)

    def update(self, slots: Tensor, updates: Tensor) -> Tensor:
        """Apply the GRU, whose state is the slots (not their layer norm), then the residual MLP."""
        with torch.autocast(slots.device.type, enabled=False):  # the state of a recurrence stays in float32
            slots = self.gru(updates.float().flatten(0, 1), slots.float().flatten(0, 1)).view(slots.shape)
            if self.mlp is None:
                return slots
            kept = F.dropout(slots.new_ones(len(slots), 1, 1), self.drop_path, self.training)
            return slots + kept * self.mlp(slots)  # type: ignore[no-any-return]


class RandomSlots(nn.Module):
    """Any number of initial slots, sampled from one Gaussian with learned mean and scale."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, size)))
        self.log_scale = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, size)))

    def forward(self, images: int, slots: int, generator: torch.Generator | None = None) -> Tensor:
        """Sample slots [images, slots, size]; gradients reach the mean and the scale."""
        device = self.mean.device if generator is None else generator.device
        noise = torch.randn(images, slots, self.mean.shape[-1], generator=generator, device=device)
        return self.mean + self.log_scale.exp() * noise.to(self.mean.device)


class LearnedSlots(nn.Module):
    """A fixed number of initial slots, each learned."""

    def __init__(self, slots: int, size: int) -> None:
        super().__init__()
        self.slots = nn.Parameter(nn.init.xavier_uniform_(torch.empty(slots, size)))

    def forward(self, images: int, slots: int, generator: torch.Generator | None = None) -> Tensor:
        """Return the same slots for every image [images, slots, size]."""
        if slots != len(self.slots):
            raise InputError(f"learned initial slots have a fixed number: {len(self.slots)}, not {slots}")
        return self.slots.expand(images, -1, -1)


class SoftPositions(nn.Module):
    """Adds a learned linear projection of the pixel coordinates to features [B, channels, H, W].

    The coordinates are y, x, 1-y and 1-x: from 0 to 1 with the grid "unit" (Slot Attention), at pixel centres with
    "half-pixel" (SVIB). With "signed" (SAVi) they are y and x from -1 to 1.

    >>> SoftPositions(64)(torch.zeros(2, 64, 8, 8)).shape
    torch.Size([2, 64, 8, 8])
    """

    def __init__(self, channels: int, grid: CoordinateRange = "unit") -> None:
        super().__init__()
        if grid not in get_args(CoordinateRange):
            raise InputError(f"grid must be 'unit', 'half-pixel' or 'signed', not {grid!r}")
        self.grid = grid
        self.projection = nn.Linear(2 if grid == "signed" else 4, channels)
        self.apply(init_as_keras)

    def forward(self, features: Tensor) -> Tensor:
        """Return features plus positions [B, channels, H, W]."""
        sides = (self.coordinates(side, features.device) for side in features.shape[-2:])
        coordinates = torch.stack(torch.meshgrid(*sides, indexing="ij"), -1)  # [H, W, 2]
        if self.grid != "signed":
            coordinates = torch.cat((coordinates, 1 - coordinates), -1)
        with torch.autocast(features.device.type, enabled=False):  # bfloat16 would blur neighbouring pixels
            positions = self.projection(coordinates)  # [H, W, C]
        return features + positions.permute(2, 0, 1)  # type: ignore[no-any-return]

    def coordinates(self, side: int, device: torch.device) -> Tensor:
        """Return the coordinates along one axis [side]."""
        if self.grid == "half-pixel":
            return (torch.arange(side, device=device) + 0.5) / side
        return torch.linspace(-1 if self.grid == "signed" else 0, 1, side, device=device)


class ConvolutionalEncoder(nn.Module):
    """Encodes images [B, 3, H, W] to a set of features [B, N, channels] with positions.

    Four 5x5 convolutions (`layers`), the first with `stride`, then positions, a layer norm and an MLP on each feature.
    The MLP has `hidden` units, by default as many as channels.
    """

    def __init__(
        self,
        *,
        channels: int,
        stride: int,
        hidden: int | None = None,
        norm_epsilon: float = 1e-3,
        layers: int = 4,
        grid: CoordinateRange = "unit",
    ) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(3, channels, 5, stride, padding=2)]
        convolutions += [nn.Conv2d(channels, channels, 5, padding=2) for _ in range(layers - 1)]
        self.convolutions = nn.Sequential(*(part for layer in convolutions for part in (layer, nn.ReLU())))
        self.positions = SoftPositions(channels, grid)
        self.mlp = normed_mlp(channels, hidden or channels, norm_epsilon)
        self.apply(init_as_keras)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of all pixels of the map, row by row [B, N, channels]."""
        features = self.positions(rectified_layers(self.convolutions, images))
        return rectified_layers(self.mlp, features.permute(0, 2, 3, 1).flatten(1, 2))


class ResNetEncoder(nn.Module):
    """Encodes images [B, inputs, H, W] with a ResNet-18 to features [B, H * W / 16, channels] with positions.

    The paper of ARP and ARR uses it for MultiShapeNet and does not say how it ends; here positions, a layer norm and an
    MLP to `channels` follow, as in Slot Attention's own encoder.
    """

    def __init__(self, *, inputs: int = 3, width: int, channels: int, norm_epsilon: float = 1e-3) -> None:
        super().__init__()
        self.resnet = ResNet18(inputs, width)
        self.positions = SoftPositions(self.resnet.channels)
        self.mlp = nn.Sequential(
            nn.LayerNorm(self.resnet.channels, norm_epsilon),
            nn.Linear(self.resnet.channels, channels),
            nn.ReLU(),
            nn.Linear(channels, channels),
        )
        self.mlp.apply(init_as_keras)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of all pixels of the map, row by row [B, N, channels]."""
        features = self.positions(self.resnet(images))
        return rectified_layers(self.mlp, features.permute(0, 2, 3, 1).flatten(1, 2))


class BroadcastDecoder(nn.Module):
    """Decodes each slot on its own: slots [B, K, slots] to images [B, K, 3, H, W] and mask logits [B, K, 1, H, W].

    A slot is copied to every pixel of a small map, and positions are added. `upsamplings` transposed 5x5 convolutions
    with stride 2 enlarge the map. 5x5 `convolutions` with stride 1 and an output layer with kernel size `head` follow.

    >>> images, logits = BroadcastDecoder(64, size=128)(torch.zeros(2, 7, 64))
    >>> images.shape, logits.shape
    (torch.Size([2, 7, 3, 128, 128]), torch.Size([2, 7, 1, 128, 128]))
    """

    def __init__(
        self,
        slots: int,
        *,
        size: int,
        channels: int = 64,
        upsamplings: int = 4,
        convolutions: int = 1,
        head: int = 3,
        grid: CoordinateRange = "unit",
    ) -> None:
        super().__init__()
        if size % 2**upsamplings:
            raise InputError(
                f"{upsamplings} upsamplings need a size that is a multiple of {2**upsamplings} pixels, not {size}"
            )
        self.side = size // 2**upsamplings
        self.positions = SoftPositions(slots, grid)
        layers: list[nn.Module] = []
        for layer in range(upsamplings + convolutions):
            width = channels if layer else slots
            if layer < upsamplings:
                layers += [nn.ConvTranspose2d(width, channels, 5, 2, padding=2, output_padding=1), nn.ReLU()]
            else:  # a transposed convolution with stride 1 is a convolution
                layers += [nn.Conv2d(width, channels, 5, padding=2), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(channels, 4, head, padding=head // 2))
        self.apply(init_as_keras)

    def forward(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Return the image [B, K, 3, H, W] and the mask logits [B, K, 1, H, W] of each slot."""
        maps = slots.flatten(0, 1)[:, :, None, None].expand(-1, -1, self.side, self.side)  # [B * K, D, h, w]
        maps = decoded(self.layers, self.positions(maps))
        maps = maps.view(*slots.shape[:2], *maps.shape[1:])  # [B, K, 4, H, W]
        return maps[:, :, :3], maps[:, :, 3:]


def upsamplings_for(size: int, decoder_layers: int) -> int:
    """Return how often a decoder doubles its map, which starts with at least 8 x 8 pixels."""
    upsamplings = max(n for n in range(5) if size % 2**n == 0 and size >> n >= 8)
    if decoder_layers < upsamplings:
        raise InputError(f"images of {size} pixels need at least {upsamplings} decoder layers, not {decoder_layers}")
    return upsamplings


def mix(images: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Mix the images of all slots into one [B, 3, H, W]; also return their masks [B, K, H, W], which sum to one."""
    masks = logits.float().softmax(1)  # [B, K, 1, H, W]
    return (masks * images.float()).sum(1), masks.squeeze(2)


class SlotAttentionAutoencoder(nn.Module):
    """The autoencoder for object discovery (Locatello et al. 2020).

    Defaults follow the release (google-research/slot_attention). The decoder starts from at least
    8 x 8 pixels. It has `decoder_layers` 5x5 layers, up to four of them with stride 2, and an output layer with kernel
    size `decoder_head`.
    The paper of ARP and ARR (Appendix B) uses ``projections=128, hidden=256, decoder_layers=4`` for CLEVR, and for MSN
    the sizes of the release after a ResNet-18, ``encoder="resnet18"``, whose first stage has `resnet_width` channels.
    It does not specify the output layer; ``decoder_head=1`` is SAVi's.
    Initial slots are "random", and then every call can choose their number, or "learned".

    The loss is a mean over pixels and channels of images scaled to -1..1.

    >>> model = SlotAttentionAutoencoder(size=32, slots=4, channels=16)
    >>> model(torch.rand(2, 3, 32, 32), slots=6).masks.shape
    torch.Size([2, 6, 32, 32])
    """

    norm_epsilon = 1e-3  # Keras'

    def __init__(
        self,
        *,
        size: int = 128,
        slots: int = 7,
        initial: InitialSlots = "random",
        iterations: int = 3,
        channels: int = 64,
        slot_size: int = 64,
        projections: int = 64,
        hidden: int = 128,
        decoder_layers: int = 5,
        decoder_head: int = 3,
        encoder_stride: int = 1,
        epsilon: float = 1e-8,
        epsilon_on: Literal["attention", "sum"] = "attention",
        bilevel: bool = False,
        drop_path: float = 0.0,
        encoder: EncoderName = "cnn",
        resnet_width: int = 64,
    ) -> None:
        super().__init__()
        if size < 16 or size % 8:
            raise InputError(f"size must be a multiple of 8 pixels and at least 16, not {size}")
        if slots < 1:
            raise InputError(f"Slot Attention needs at least one slot, not {slots}")
        if initial not in ("random", "learned"):
            raise InputError(f"initial must be 'random' or 'learned', not {initial!r}")
        upsamplings = upsamplings_for(size, decoder_layers)
        self.size, self.slots, self.iterations = size, slots, iterations
        if encoder not in ("cnn", "resnet18"):
            raise InputError(f"encoder must be 'cnn' or 'resnet18', not {encoder!r}")
        self.encoder: nn.Module = (
            ConvolutionalEncoder(channels=channels, stride=encoder_stride)
            if encoder == "cnn"
            else ResNetEncoder(width=resnet_width, channels=channels)
        )
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
        self.decoder = BroadcastDecoder(
            slot_size,
            size=size,
            channels=channels,
            upsamplings=upsamplings,
            convolutions=decoder_layers - upsamplings,
            head=decoder_head,
        )

    def forward(
        self,
        images: Tensor,
        slots: int | None = None,
        iterations: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Encoding:
        """Return slots, masks and reconstruction; `slots` and `iterations` are by default as in training."""
        if slots is not None and slots < 1:
            raise InputError(f"Slot Attention needs at least one slot, not {slots}")
        initial = self.initial(len(images), self.slots if slots is None else slots, generator)
        features = self.encoder(self.prepare(images))
        final, _ = self.grouping(features, initial, self.iterations if iterations is None else iterations)
        reconstruction, masks = mix(*self.decoder(final))
        return Encoding(slots=final, masks=masks, reconstruction=(reconstruction + 1) / 2)

    def decode(self, slots: Tensor) -> Tensor:
        """Decode slots [B, K, D] to images [B, 3, S, S]."""
        reconstruction, _ = mix(*self.decoder(slots))
        return (reconstruction + 1) / 2

    def decode_slots(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Decode slots [B, K, D] to the image of each [B, K, 3, S, S] and its mask [B, K, S, S]."""
        images, logits = self.decoder(slots)
        return (images.float() + 1) / 2, mix(images, logits)[1]

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """Return the mean squared error of the reconstruction at the scale -1..1."""
        images = self.prepare(batch["images"])
        slots, _ = self.grouping(self.encoder(images), self.training_slots(len(images), step), self.iterations)
        reconstruction, _ = mix(*self.decoder(slots))
        return {"loss": F.mse_loss(reconstruction, images)}

    def training_slots(self, images: int, step: Tensor) -> Tensor:
        """Return the initial slots of a training step [B, K, D]."""
        return self.initial(images, self.slots)  # type: ignore[no-any-return]

    def prepare(self, images: Tensor) -> Tensor:
        """Scale images from 0..1 to -1..1."""
        return check_image_shape(images, self.size).float() * 2 - 1


class BoQsaAutoencoder(SlotAttentionAutoencoder):
    """Slot Attention whose initial slots are queries learned by bi-level optimisation (Jia et al. 2023).

    In training, a query q becomes q + sigma z q, with z standard normal and sigma falling from 1 to 0 along a cosine
    over `noise_steps`; no gradient flows through the noise. Outside training, sigma is 0. Defaults follow the release
    (YuLiu-LY/BO-QSA), as do the wider MLP of the encoder, the epsilon of the layer norms and the initial weights
    (torch's, except in the grouping module). ``initial="random"`` is the baseline in the paper of ARP and ARR (Figure
    11): one learned Gaussian, any number of slots, and no other noise.

    >>> BoQsaAutoencoder(size=32, slots=4, channels=16)(torch.rand(2, 3, 32, 32)).slots.shape
    torch.Size([2, 4, 64])
    """

    norm_epsilon = 1e-5  # torch's

    def __init__(
        self,
        *,
        size: int = 128,
        slots: int = 7,
        initial: InitialSlots = "learned",
        iterations: int = 3,
        channels: int = 64,
        slot_size: int = 64,
        projections: int = 64,
        hidden: int = 128,
        decoder_layers: int = 5,
        decoder_head: int = 3,
        encoder_stride: int = 2,
        epsilon: float = 1.0,
        drop_path: float = 0.2,
        noise_steps: int = 30_000,
    ) -> None:
        super().__init__(
            size=size,
            slots=slots,
            initial=initial,
            iterations=iterations,
            channels=channels,
            slot_size=slot_size,
            projections=projections,
            hidden=hidden,
            decoder_layers=decoder_layers,
            decoder_head=decoder_head,
            encoder_stride=encoder_stride,
            epsilon=epsilon,
            epsilon_on="sum",
            bilevel=True,
            drop_path=drop_path,
        )
        check_positive(noise_steps=noise_steps)
        self.noise_steps = noise_steps
        self.encoder = ConvolutionalEncoder(
            channels=channels, stride=encoder_stride, hidden=hidden, norm_epsilon=self.norm_epsilon
        )
        self.encoder.apply(init_as_torch)
        self.decoder.apply(init_as_transposed)
        init_as_torch_releases(self.grouping, self.initial)

    def training_slots(self, images: int, step: Tensor) -> Tensor:
        """Return the queries with the noise of this step [B, K, D]."""
        queries = super().training_slots(images, step)
        return queries if isinstance(self.initial, RandomSlots) else with_noise(queries, step, self.noise_steps)


def with_noise(queries: Tensor, step: Tensor, noise_steps: int) -> Tensor:
    """Return learned queries with noise of their own size, which falls to zero along a cosine over `noise_steps`."""
    sigma = 0.5 + 0.5 * torch.cos(math.pi * (step / noise_steps).clamp(max=1))
    return queries + torch.randn_like(queries) * sigma * queries.detach()
