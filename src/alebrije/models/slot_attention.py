"""Slot Attention: an image is explained by a set of slots that compete for its pixels (Locatello et al. 2020).

From top to bottom: the grouping module, what its slots start from, positions, the encoder, the decoder, and the
autoencoder made of them; then BO-QSA, which learns where the slots start (Jia et al. 2023).

The pieces take plain tensors, so that other models are built from them. Weights start as in the release (Keras: Glorot
uniform, biases zero, recurrent weights orthogonal, layer norms with epsilon 1e-3): its standard deviation is 1.7 times
that of torch, and over the ten convolutions from image to image that decides how fast learning starts.
On CUDA, `model.to(memory_format=torch.channels_last)` makes all convolutions run channels-last.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.models.fused import decoded, is_low, rectified_layers, won
from alebrije.models.learner import Batch, Losses

Grid = Literal["unit", "signed", "half-pixel"]
Initial = Literal["random", "learned"]


def start_as_keras(module: nn.Module) -> None:
    """Glorot uniform weights and zero biases for linear layers and convolutions, orthogonal recurrent weights."""
    if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.GRUCell):
        nn.init.xavier_uniform_(module.weight_ih)
        nn.init.orthogonal_(module.weight_hh)
        nn.init.zeros_(module.bias_ih)
        nn.init.zeros_(module.bias_hh)


def start_as_torch(module: nn.Module) -> None:
    """The weights that torch gives linear layers and convolutions."""
    if isinstance(module, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        module.reset_parameters()


def start_as_transposed(module: nn.Module) -> None:
    """The same for a decoder whose convolutions of stride 1 stand for transposed ones: torch goes by their outputs."""
    start_as_torch(module)
    if isinstance(module, nn.Conv2d):
        bound = module.weight[:, 0].numel() ** -0.5
        for weight in module.parameters():
            nn.init.uniform_(weight, -bound, bound)


def start_as_torch_releases(grouping: SlotAttention, initial: nn.Module) -> None:
    """Where releases written in torch do not start as Keras: before a ReLU, and in the Gaussian of the first slots."""
    if grouping.mlp is not None:
        nn.init.kaiming_uniform_(grouping.mlp[1].weight, nonlinearity="relu")  # type: ignore[arg-type]
    if isinstance(initial, RandomSlots):
        for weight in (initial.mean, initial.log_scale):
            nn.init.xavier_uniform_(weight.detach()[None])  # they have one axis more there, so torch counts otherwise


def layer_norm(size: int, epsilon: float = 1e-3) -> nn.LayerNorm:
    """A layer norm over channels, unless told otherwise with the epsilon of Keras."""
    return nn.LayerNorm(size, eps=epsilon)


class SlotAttention(nn.Module):
    """Groups inputs [B, N, inputs] into slots [B, K, slots] by attention in which the slots compete for the inputs.

    `projections` is the size of queries, keys and values, `hidden` that of the MLP at the end of a step (0 for none).
    Every input shares its attention out over the slots, and every slot takes the weighted mean of the inputs it won;
    `epsilon` keeps that mean defined. It is added to the attention (1e-8: Slot Attention) or to its sum over the inputs
    (1e-8: SAVi; 1.0: BO-QSA, where a slot that wins little is then moved little).
    With `bilevel`, only the last step is differentiated, and its gradient with respect to the slots that go into it is
    handed to the initial slots, straight through the steps before (BO-QSA). `drop_path` is the chance that an image
    skips the MLP in training. `norm_epsilon` is that of the layer norms: Keras' here, 1e-5 in models born in torch.

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
        self.input_norm, self.slot_norm = layer_norm(inputs, norm_epsilon), layer_norm(slots, norm_epsilon)
        self.queries = nn.Linear(slots, projections, bias=False)
        self.keys = nn.Linear(inputs, projections, bias=False)
        self.values = nn.Linear(inputs, projections, bias=False)
        # Keys and values no narrower than the inputs need not be made: q (W x) is (q W) x, and the mean of W x is W
        # times that of x, so it is the slots that are projected, of which there are few.
        self.lean = inputs <= projections
        self.gru = nn.GRUCell(projections, slots)
        self.mlp = (
            nn.Sequential(
                layer_norm(slots, norm_epsilon), nn.Linear(slots, hidden), nn.ReLU(), nn.Linear(hidden, slots)
            )
            if hidden
            else None
        )
        self.apply(start_as_keras)

    def forward(self, inputs: Tensor, slots: Tensor, iterations: int = 3) -> tuple[Tensor, Tensor]:
        """The slots [B, K, D] after `iterations` steps, and the attention [B, K, N] of the last of them."""
        if iterations < 1:
            raise InputError(f"slot attention takes at least one iteration, not {iterations}")
        inputs = self.input_norm(inputs)
        keys, values = (inputs, inputs) if self.lean else (self.keys(inputs), self.values(inputs))
        initial = slots
        for iteration in range(iterations):
            if self.bilevel and iteration == iterations - 1:
                slots = slots.detach() + (initial - initial.detach())
            slots, attention = self.step(slots, keys, values)
        return slots, attention

    def step(self, slots: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """One step: the slots [B, K, D] compete for the values [B, N, V], and each is updated by what it won."""
        if self.lean and is_low(keys):
            updates, attention = won(self.ask(slots), keys, self.epsilon, self.epsilon_on == "sum")
        else:
            attention = self.attend(slots, keys)  # [B, K, N]
            updates = self.weigh(attention) @ values  # [B, K, V]
        return self.update(slots, self.values(updates) if self.lean else updates), attention

    def attend(self, slots: Tensor, keys: Tensor) -> Tensor:
        """The share [B, K, N] of each input that goes to each slot."""
        return torch.softmax(self.ask(slots) @ keys.mT, 1, dtype=torch.float32)

    def ask(self, slots: Tensor) -> Tensor:
        """The queries of the slots, each to be multiplied with keys, or with inputs that stand for them."""
        queries: Tensor = self.queries(self.slot_norm(slots)) * self.queries.out_features**-0.5
        return queries @ self.keys.weight if self.lean else queries

    def weigh(self, attention: Tensor) -> Tensor:
        """The weight [B, K, N] of each input in the mean of each slot."""
        if self.epsilon_on == "attention":
            attention = attention + self.epsilon
            return attention / attention.sum(-1, keepdim=True)
        return attention / (attention.sum(-1, keepdim=True) + self.epsilon)

    def update(self, slots: Tensor, updates: Tensor) -> Tensor:
        """The GRU, whose state are the slots as they are (not their layer norm), then the residual MLP."""
        with torch.autocast(slots.device.type, enabled=False):  # the state of a recurrence stays in float32
            slots = self.gru(updates.float().flatten(0, 1), slots.float().flatten(0, 1)).view(slots.shape)
            if self.mlp is None:
                return slots
            kept = F.dropout(slots.new_ones(len(slots), 1, 1), self.drop_path, self.training)
            return slots + kept * self.mlp(slots)  # type: ignore[no-any-return]


class RandomSlots(nn.Module):
    """Initial slots drawn from one Gaussian whose mean and scale are learned; there can be any number of them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, size)))
        self.log_scale = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, size)))

    def forward(self, images: int, slots: int, generator: torch.Generator | None = None) -> Tensor:
        """Slots [images, slots, size], through which the gradient reaches the mean and the scale."""
        device = self.mean.device if generator is None else generator.device
        noise = torch.randn(images, slots, self.mean.shape[-1], generator=generator, device=device)
        return self.mean + self.log_scale.exp() * noise.to(self.mean.device)


class LearnedSlots(nn.Module):
    """Initial slots that are learned one by one, so that their number is fixed."""

    def __init__(self, slots: int, size: int) -> None:
        super().__init__()
        self.slots = nn.Parameter(nn.init.xavier_uniform_(torch.empty(slots, size)))

    def forward(self, images: int, slots: int, generator: torch.Generator | None = None) -> Tensor:
        """The same slots for every image [images, slots, size]."""
        if slots != len(self.slots):
            raise InputError(f"learned initial slots come in a fixed number: {len(self.slots)}, not {slots}")
        return self.slots.expand(images, -1, -1)


class SoftPositions(nn.Module):
    """Adds to features [B, channels, H, W] a learned linear projection of the coordinates of each place.

    `grid` is "unit" for y, x, 1-y, 1-x from 0 to 1 (Slot Attention), "signed" for y, x from -1 to 1 (SAVi), or
    "half-pixel" for y, x, 1-y, 1-x at the centres of pixels (SVIB).

    >>> SoftPositions(64, "signed")(torch.zeros(2, 64, 8, 8)).shape
    torch.Size([2, 64, 8, 8])
    """

    def __init__(self, channels: int, grid: Grid = "unit") -> None:
        super().__init__()
        if grid not in ("unit", "signed", "half-pixel"):
            raise InputError(f"a grid of positions is 'unit', 'signed' or 'half-pixel', not {grid!r}")
        self.grid = grid
        self.projection = nn.Linear(2 if grid == "signed" else 4, channels)
        self.apply(start_as_keras)

    def forward(self, features: Tensor) -> Tensor:
        """The features with their positions."""
        coordinates = torch.stack(
            torch.meshgrid(*(self.coordinates(side, features.device) for side in features.shape[-2:]), indexing="ij"),
            -1,
        )
        if self.grid != "signed":
            coordinates = torch.cat((coordinates, 1 - coordinates), -1)
        with torch.autocast(features.device.type, enabled=False):  # bfloat16 would blur neighbouring places
            positions = self.projection(coordinates)  # [H, W, C]
        return features + positions.permute(2, 0, 1)  # type: ignore[no-any-return]

    def coordinates(self, side: int, device: torch.device) -> Tensor:
        """The coordinate of each place along one axis [side]."""
        if self.grid == "half-pixel":
            return (torch.arange(side, device=device) + 0.5) / side
        return torch.linspace(-1 if self.grid == "signed" else 0, 1, side, device=device)


class ConvolutionalEncoder(nn.Module):
    """Images [B, 3, H, W] to a set of features [B, N, channels] that know where they are.

    Four 5x5 convolutions, the first with `stride`, positions, a layer norm and an MLP shared by all places, whose inner
    width is that of the features unless `hidden` says another.
    """

    def __init__(
        self,
        *,
        channels: int = 64,
        stride: int = 1,
        layers: int = 4,
        grid: Grid = "unit",
        hidden: int | None = None,
        norm_epsilon: float = 1e-3,
    ) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(3, channels, 5, stride, padding=2)]
        convolutions += [nn.Conv2d(channels, channels, 5, padding=2) for _ in range(layers - 1)]
        self.convolutions = nn.Sequential(*(part for layer in convolutions for part in (layer, nn.ReLU())))
        self.positions = SoftPositions(channels, grid)
        inner = hidden or channels
        self.mlp = nn.Sequential(
            layer_norm(channels, norm_epsilon), nn.Linear(channels, inner), nn.ReLU(), nn.Linear(inner, channels)
        )
        self.apply(start_as_keras)

    def forward(self, images: Tensor) -> Tensor:
        """The features of all places, row by row."""
        features = self.positions(rectified_layers(self.convolutions, images))
        return rectified_layers(self.mlp, features.permute(0, 2, 3, 1).flatten(1, 2))


class BroadcastDecoder(nn.Module):
    """Draws each slot by itself: slots [B, K, slots] to images [B, K, 3, H, W] and mask logits [B, K, 1, H, W].

    A slot is copied to all places of a small map and told where each copy is; the map grows by `upsamplings` transposed
    5x5 convolutions with stride 2. Then come 5x5 `convolutions` with stride 1 and an output layer with kernel `head`.

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
        grid: Grid = "unit",
    ) -> None:
        super().__init__()
        if size % 2**upsamplings:
            raise InputError(
                f"{upsamplings} upsamplings draw images of a multiple of {2**upsamplings} pixels, not {size}"
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
        self.apply(start_as_keras)

    def forward(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """What each slot looks like, and how strongly it claims each place."""
        maps = slots.flatten(0, 1)[:, :, None, None].expand(-1, -1, self.side, self.side)  # [B * K, D, h, w]
        maps = self.positions(maps)
        maps = decoded(self.layers, maps)
        drawn = maps.view(*slots.shape[:2], *maps.shape[1:])  # [B, K, 4, H, W]
        return drawn[:, :, :3], drawn[:, :, 3:]


def mix(images: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The image [B, 3, H, W] of all slots together, and their masks [B, K, H, W], which add up to one over K."""
    masks = logits.float().softmax(1)  # [B, K, 1, H, W]
    return (masks * images.float()).sum(1), masks.squeeze(2)


class SlotAttentionAutoencoder(nn.Module):
    """The autoencoder that learns to see objects (Locatello et al. 2020).

    The defaults are the release's (google-research/slot_attention). The decoder has `decoder_layers` 5x5 layers, up to
    four of which double the size of a map with 8 places a side or more, and an output layer with kernel `decoder_head`.
    The paper of ARP and ARR (Appendix B) takes ``projections=128, hidden=256, decoder_layers=4`` for CLEVR, and for MSN
    the sizes of the release after a ResNet-18, which is not built here. It does not tell the output layer;
    ``decoder_head=1`` is SAVi's.
    Initial slots are "random", and then their number is free at every call, or "learned".

    Images are compared at the scale -1..1, as the mean over pixels and colours.

    >>> model = SlotAttentionAutoencoder(size=32, slots=4, channels=16)
    >>> model(torch.rand(2, 3, 32, 32), slots=6).masks.shape
    torch.Size([2, 6, 32, 32])
    """

    norm_epsilon = 1e-3  # of the layer norms: Keras'

    def __init__(
        self,
        *,
        size: int = 128,
        slots: int = 7,
        initial: Initial = "random",
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
    ) -> None:
        super().__init__()
        if size < 16 or size % 8:
            raise InputError(f"Slot Attention draws images of a multiple of 8 pixels and at least 16, not {size}")
        if slots < 1:
            raise InputError(f"Slot Attention needs at least one slot, not {slots}")
        if initial not in ("random", "learned"):
            raise InputError(f"initial slots are 'random' or 'learned', not {initial!r}")
        upsamplings = max(n for n in range(5) if size % 2**n == 0 and size >> n >= 8)
        if decoder_layers < upsamplings:
            raise InputError(
                f"images of {size} pixels need at least {upsamplings} decoder layers, not {decoder_layers}"
            )
        self.size, self.slots, self.iterations = size, slots, iterations
        self.encoder = ConvolutionalEncoder(channels=channels, stride=encoder_stride)
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
        """Slots, their masks and the image drawn again, with `slots` and `iterations` as in training unless given."""
        if slots is not None and slots < 1:
            raise InputError(f"Slot Attention needs at least one slot, not {slots}")
        initial = self.initial(len(images), self.slots if slots is None else slots, generator)
        features = self.encoder(self.signed(images))
        found, _ = self.grouping(features, initial, self.iterations if iterations is None else iterations)
        reconstruction, masks = mix(*self.decoder(found))
        return Encoding(slots=found, masks=masks, reconstruction=(reconstruction + 1) / 2)

    def decode(self, slots: Tensor) -> Tensor:
        """Images [B, 3, S, S] of slots [B, K, D]."""
        reconstruction, _ = mix(*self.decoder(slots))
        return (reconstruction + 1) / 2

    def training_loss(self, batch: Batch, step: Tensor) -> Losses:
        """The mean squared error of the reconstruction at the scale -1..1."""
        images = self.signed(batch["images"])
        found, _ = self.grouping(self.encoder(images), self.training_slots(len(images), step), self.iterations)
        reconstruction, _ = mix(*self.decoder(found))
        return {"loss": F.mse_loss(reconstruction, images)}

    def training_slots(self, images: int, step: Tensor) -> Tensor:
        """The initial slots of a step of training [B, K, D]."""
        return self.initial(images, self.slots)  # type: ignore[no-any-return]

    def signed(self, images: Tensor) -> Tensor:
        """Images at the scale -1..1."""
        if images.ndim != 4 or images.shape[1:] != (3, self.size, self.size):
            raise InputError(f"images must have shape [B, 3, {self.size}, {self.size}], not {list(images.shape)}")
        return images.float() * 2 - 1


class BoQsaAutoencoder(SlotAttentionAutoencoder):
    """Slot Attention whose initial slots are queries learned by bi-level optimisation (Jia et al. 2023).

    In training a query q starts as q + sigma z q, with z standard normal and sigma falling from 1 to 0 along a cosine
    over `noise_steps`; the noise carries no gradient. Outside training sigma is 0. The defaults are the release's
    (YuLiu-LY/BO-QSA), as are the wider MLP of the features, the epsilon of the layer norms and what weights start from:
    torch's own numbers, but in the grouping module. ``initial="random"`` is what the paper of ARP and ARR compares it
    to (Figure 11): one learned Gaussian, any number of slots, and no further noise.

    >>> BoQsaAutoencoder(size=32, slots=4, channels=16)(torch.rand(2, 3, 32, 32)).slots.shape
    torch.Size([2, 4, 64])
    """

    norm_epsilon = 1e-5  # torch's

    def __init__(
        self,
        *,
        size: int = 128,
        slots: int = 7,
        initial: Initial = "learned",
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
        if noise_steps < 1:
            raise InputError(f"the noise of the queries needs at least one step to fade, not {noise_steps}")
        self.noise_steps = noise_steps
        self.encoder = ConvolutionalEncoder(
            channels=channels, stride=encoder_stride, hidden=hidden, norm_epsilon=self.norm_epsilon
        )
        self.encoder.apply(start_as_torch)
        self.decoder.apply(start_as_transposed)
        start_as_torch_releases(self.grouping, self.initial)

    def training_slots(self, images: int, step: Tensor) -> Tensor:
        """The queries, made noisy by as much as is due at this step."""
        queries = super().training_slots(images, step)
        if isinstance(self.initial, RandomSlots):
            return queries
        sigma = 0.5 + 0.5 * torch.cos(math.pi * (step / self.noise_steps).clamp(max=1))
        return queries + torch.randn_like(queries) * sigma * queries.detach()
