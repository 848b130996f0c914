"""Slot Attention and BO-QSA: Algorithm 1 in numpy, initial slots and weights, and that they find objects."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije.errors import InputError
from alebrije.metrics import adjusted_rand_index, labels_from_masks
from alebrije.models.catalog import build
from alebrije.models.learner import Learner
from alebrije.models.slot_attention import (
    BoQsaAutoencoder,
    BroadcastDecoder,
    LearnedSlots,
    RandomSlots,
    SlotAttention,
    SlotAttentionAutoencoder,
    SoftPositions,
    mix,
)

TINY = {"size": 16, "slots": 3, "channels": 8, "slot_size": 12, "projections": 16, "hidden": 10, "decoder_layers": 2}


def randomised(module: nn.Module) -> nn.Module:
    """Sample every parameter of the module, so that no bias or layer norm is trivial."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# The grouping module


def numpy_step(module: SlotAttention, inputs: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """One step as it is written in the paper (Algorithm 1), slot by slot."""
    weights = {name: value.double().numpy() for name, value in module.state_dict().items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    answer = []
    for image, state in zip(inputs, slots, strict=True):
        image = norm(image, "input_norm")
        keys, values = image @ weights["keys.weight"].T, image @ weights["values.weight"].T
        queries = norm(state, "slot_norm") @ weights["queries.weight"].T
        scores = np.exp(keys @ queries.T / np.sqrt(keys.shape[1]))  # [N, K]
        attention = scores / scores.sum(1, keepdims=True)
        for slot, share in zip(state, attention.T, strict=True):
            if module.epsilon_on == "attention":
                update = ((share + module.epsilon)[:, None] * values).sum(0) / (share + module.epsilon).sum()
            else:
                update = (share[:, None] * values).sum(0) / (share.sum() + module.epsilon)
            x = np.split(weights["gru.weight_ih"] @ update + weights["gru.bias_ih"], 3)
            h = np.split(weights["gru.weight_hh"] @ slot + weights["gru.bias_hh"], 3)
            reset, keep = sigmoid(x[0] + h[0]), sigmoid(x[1] + h[1])
            new = (1 - keep) * np.tanh(x[2] + reset * h[2]) + keep * slot
            if module.mlp is not None:
                hidden = weights["mlp.1.weight"] @ norm(new, "mlp.0") + weights["mlp.1.bias"]
                new = new + weights["mlp.3.weight"] @ hidden.clip(0) + weights["mlp.3.bias"]
            answer.append(new)
    return np.stack(answer).reshape(slots.shape)


@pytest.mark.parametrize(("epsilon", "epsilon_on"), [(1e-8, "attention"), (1e-8, "sum"), (1.0, "sum")])
@pytest.mark.parametrize(("hidden", "projections"), [(0, 7), (9, 7), (0, 4), (9, 4)])
def test_a_step_is_algorithm_1(epsilon: float, epsilon_on: str, hidden: int, projections: int) -> None:
    torch.manual_seed(0)
    module = SlotAttention(6, 5, projections=projections, hidden=hidden, epsilon=epsilon, epsilon_on=epsilon_on)
    randomised(module)
    inputs, slots = torch.randn(2, 20, 6), torch.randn(2, 3, 5)
    with torch.no_grad():
        final, _ = module(inputs, slots, iterations=2)
    once = numpy_step(module, inputs.double().numpy(), slots.double().numpy())
    twice = numpy_step(module, inputs.double().numpy(), once)
    np.testing.assert_allclose(final, twice, atol=1e-5)


def test_attention_sums_to_one_over_slots_and_its_weights_over_inputs() -> None:
    torch.manual_seed(0)
    module = randomised(SlotAttention(6, 5, projections=7, hidden=8))
    _, attention = module(torch.randn(2, 20, 6), torch.randn(2, 3, 5))
    torch.testing.assert_close(attention.sum(1), torch.ones(2, 20))
    torch.testing.assert_close(module.mean_weights(attention).sum(2), torch.ones(2, 3))
    module.epsilon_on, module.epsilon = "sum", 1.0
    total = attention.sum(2)
    torch.testing.assert_close(module.mean_weights(attention).sum(2), total / (total + 1))


def test_a_slot_without_attention_stays_finite() -> None:
    module = SlotAttention(6, 5, projections=7, hidden=8)
    attention = torch.zeros(1, 2, 20)
    attention[:, 0] = 1
    torch.testing.assert_close(module.mean_weights(attention), torch.full((1, 2, 20), 1 / 20))


def test_permuting_slots_or_inputs() -> None:
    torch.manual_seed(0)
    module = randomised(SlotAttention(6, 5, projections=7, hidden=8))
    inputs, slots = torch.randn(2, 20, 6), torch.randn(2, 4, 5)
    order, input_order = torch.randperm(4), torch.randperm(20)
    final, attention = module(inputs, slots)
    again, other = module(inputs[:, input_order], slots[:, order])
    torch.testing.assert_close(again, final[:, order], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(other, attention[:, order][:, :, input_order], atol=1e-5, rtol=1e-5)


def test_bilevel_gives_the_gradient_of_the_last_step_to_the_initial_slots() -> None:
    torch.manual_seed(0)
    module = randomised(SlotAttention(6, 5, projections=7, hidden=8, bilevel=True))
    inputs, initial = torch.randn(2, 20, 6), torch.randn(2, 4, 5, requires_grad=True)
    direction = torch.randn(2, 4, 5)
    final, _ = module(inputs, initial, iterations=3)
    (straight_through,) = torch.autograd.grad((final * direction).sum(), initial)

    module.bilevel = False
    plain, _ = module(inputs, initial, iterations=3)
    torch.testing.assert_close(final, plain)  # the value is that of plain Slot Attention
    before = module(inputs, initial, iterations=2)[0].detach().requires_grad_()
    last, _ = module(inputs, before, iterations=1)
    (of_last_step,) = torch.autograd.grad((last * direction).sum(), before)
    torch.testing.assert_close(straight_through, of_last_step)
    (through_all,) = torch.autograd.grad((plain * direction).sum(), initial)
    assert not torch.allclose(through_all, of_last_step)


def test_drop_path_skips_the_mlp_of_whole_images_and_keeps_its_mean() -> None:
    torch.manual_seed(0)
    module = randomised(SlotAttention(6, 5, projections=7, hidden=8, drop_path=0.2))
    slots, updates = torch.randn(1, 2, 5).expand(2000, -1, -1), torch.randn(1, 2, 7).expand(2000, -1, -1)
    full = module.eval().update(slots, updates)[0]
    bare = module.gru(updates[0], slots[0])
    sampled = module.train().update(slots, updates)
    skipped = (sampled - bare).abs().amax((1, 2)) < 1e-5
    assert 0.15 < skipped.float().mean() < 0.25
    torch.testing.assert_close(sampled[~skipped][0], bare + (full - bare) / 0.8)


# Initial slots, positions, decoder


def test_random_slots_have_the_learned_mean_and_scale_and_pass_the_gradient() -> None:
    torch.manual_seed(0)
    initial = RandomSlots(4)
    sampled = initial(100, 200)
    torch.testing.assert_close(sampled.mean((0, 1)), initial.mean[0], atol=0.05, rtol=0)
    torch.testing.assert_close(sampled.std((0, 1)), initial.log_scale[0].exp(), atol=0.05, rtol=0)
    sampled.square().sum().backward()
    assert (initial.mean.grad != 0).all()
    assert (initial.log_scale.grad != 0).all()


def test_a_generator_decides_the_random_slots() -> None:
    initial = RandomSlots(4)
    first, second = (initial(2, 3, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, initial(2, 3, torch.Generator().manual_seed(8)))


def test_the_number_of_learned_slots_is_fixed() -> None:
    with pytest.raises(InputError, match="fixed number: 3, not 4"):
        LearnedSlots(3, 5)(2, 4)


@pytest.mark.parametrize(
    ("grid", "rows"), [("unit", [0, 1 / 3, 2 / 3, 1]), ("half-pixel", [0.125, 0.375, 0.625, 0.875])]
)
def test_positions(grid: str, rows: list[float]) -> None:
    positions = SoftPositions(4, grid)
    nn.init.eye_(positions.projection.weight)
    added = positions(torch.zeros(1, 4, 4, 4))[0]
    down = torch.tensor(rows)[:, None].expand(4, 4)
    torch.testing.assert_close(added, torch.stack([down, down.T, 1 - down, 1 - down.T]))


def test_masks_add_up_to_one_and_weigh_the_images() -> None:
    torch.manual_seed(0)
    images, logits = BroadcastDecoder(6, size=16, channels=8, upsamplings=1)(torch.randn(2, 3, 6))
    reconstruction, masks = mix(images, 10 * logits)
    assert images.shape == (2, 3, 3, 16, 16)
    assert logits.shape == (2, 3, 1, 16, 16)
    torch.testing.assert_close(masks.sum(1), torch.ones(2, 16, 16))
    by_hand = sum(masks[:, k, None] * images[:, k] for k in range(3))
    torch.testing.assert_close(reconstruction, by_hand)
    only_second = torch.tensor([-1e4, 1e4, -1e4]).view(1, 3, 1, 1, 1).expand_as(logits)
    torch.testing.assert_close(mix(images, only_second)[0], images[:, 1])


# The autoencoders


def test_parameter_counts() -> None:
    wide = 64 * 64 * 25 + 64  # a 5x5 layer
    positions = 4 * 64 + 64
    encoder = (3 * 64 * 25 + 64) + 3 * wide + positions + 2 * 64 + 2 * (64 * 64 + 64)
    assert encoder == 321_024

    def grouping(projections: int, hidden: int) -> int:
        gru = 3 * 64 * (projections + 64) + 2 * 3 * 64
        return 3 * 2 * 64 + 3 * 64 * projections + gru + (64 * hidden + hidden) + (hidden * 64 + 64)

    release = SlotAttentionAutoencoder()
    assert (
        parameters(release) == encoder + 2 * 64 + grouping(64, 128) + positions + 5 * wide + (64 * 4 * 9 + 4) == 890_308
    )
    clevr = SlotAttentionAutoencoder(projections=128, hidden=256, decoder_layers=4, decoder_head=1)
    assert parameters(clevr) == encoder + 2 * 64 + grouping(128, 256) + positions + 4 * wide + (64 * 4 + 4) == 826_884
    queries = SlotAttentionAutoencoder(initial="learned", slots=11)
    assert parameters(queries) == parameters(release) + (11 - 2) * 64
    wider = 2 * 64 * (128 - 64) + (128 - 64)  # its MLP of the features has 128 units inside
    assert parameters(BoQsaAutoencoder()) == parameters(release) + (7 - 2) * 64 + wider == 898_884


def test_bo_qsa_starts_as_its_release() -> None:
    """Layer norms with torch's epsilon; torch's own start, but Xavier and Kaiming in the grouping module."""
    torch.manual_seed(0)
    model = BoQsaAutoencoder()
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert {norm.eps for norm in norms} == {1e-5}
    assert {module.eps for module in SlotAttentionAutoencoder().modules() if isinstance(module, nn.LayerNorm)} == {1e-3}
    uniform = 3**-0.5  # the deviation of a uniform distribution is this times its bound
    expected = {
        "encoder.convolutions.2.weight": (64 * 25) ** -0.5,
        "encoder.mlp.1.weight": 64**-0.5,
        "decoder.layers.0.weight": (64 * 25) ** -0.5,
        "decoder.layers.8.weight": (64 * 25) ** -0.5,
        "decoder.layers.10.weight": (4 * 9) ** -0.5,  # transposed in the release: torch counts its four outputs
        "grouping.queries.weight": (6 / 128) ** 0.5,
        "grouping.mlp.1.weight": (6 / 64) ** 0.5,
    }
    deviations = {name: float(model.state_dict()[name].std()) for name in expected}
    assert deviations == pytest.approx({name: bound * uniform for name, bound in expected.items()}, rel=0.03)


@pytest.mark.parametrize("model_class", [SlotAttentionAutoencoder, BoQsaAutoencoder])
def test_encoding(model_class: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = model_class(**TINY).eval()
    assert isinstance(model, Learner)
    images = torch.rand(2, 3, 16, 16)
    encoding = model(images, generator=torch.Generator().manual_seed(0))
    assert encoding.slots.shape == (2, 3, 12)
    torch.testing.assert_close(encoding.masks.sum(1), torch.ones(2, 16, 16))
    again = model(images, generator=torch.Generator().manual_seed(0))
    assert torch.equal(encoding.reconstruction, again.reconstruction)


@pytest.mark.parametrize(("size", "side", "doublings"), [(16, 8, 1), (24, 12, 1), (64, 8, 3), (96, 12, 3), (128, 8, 4)])
def test_sizes(size: int, side: int, doublings: int) -> None:
    model = SlotAttentionAutoencoder(**{**TINY, "size": size, "channels": 4, "decoder_layers": 4})
    assert model.decoder.side == side
    assert sum(isinstance(layer, nn.ConvTranspose2d) for layer in model.decoder.layers) == doublings
    assert model(torch.rand(1, 3, size, size)).reconstruction.shape == (1, 3, size, size)


def test_the_number_of_slots_is_free_when_they_are_random() -> None:
    images = torch.rand(2, 3, 16, 16)
    assert SlotAttentionAutoencoder(**TINY)(images, slots=5, iterations=1).masks.shape == (2, 5, 16, 16)
    assert BoQsaAutoencoder(**TINY, initial="random")(images, slots=5).masks.shape == (2, 5, 16, 16)
    with pytest.raises(InputError, match="fixed number: 3, not 5"):
        SlotAttentionAutoencoder(**TINY, initial="learned")(images, slots=5)


def test_permuting_learned_slots_permutes_masks() -> None:
    torch.manual_seed(0)
    model = SlotAttentionAutoencoder(**TINY, initial="learned")
    images = torch.rand(2, 3, 16, 16)
    encoding = model(images)
    with torch.no_grad():
        model.initial.slots.copy_(model.initial.slots[[2, 0, 1]])
    permuted = model(images)
    torch.testing.assert_close(permuted.slots, encoding.slots[:, [2, 0, 1]], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(permuted.masks, encoding.masks[:, [2, 0, 1]], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(permuted.reconstruction, encoding.reconstruction, atol=1e-5, rtol=1e-4)


def test_the_loss_is_the_error_at_the_scale_of_the_release_and_reaches_every_parameter() -> None:
    torch.manual_seed(0)
    model = SlotAttentionAutoencoder(**TINY)
    images = torch.rand(4, 3, 16, 16)
    torch.manual_seed(1)
    loss = model.training_loss({"images": images}, torch.tensor(0.0))["loss"]
    torch.manual_seed(1)
    torch.testing.assert_close(loss, 4 * F.mse_loss(model(images).reconstruction, images))  # twice as wide, squared
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert (model.initial.mean.grad != 0).all()
    assert (model.initial.log_scale.grad != 0).all()


def test_noise_on_the_queries_falls_along_a_cosine() -> None:
    torch.manual_seed(0)
    model = BoQsaAutoencoder(**TINY, noise_steps=300)
    queries = model.initial.slots.detach()
    for step, sigma in ((0, 1.0), (100, 0.75), (150, 0.5), (300, 0.0), (900, 0.0)):
        sampled = model.training_slots(4000, torch.tensor(float(step)))
        torch.testing.assert_close(sampled.std(0), sigma * queries.abs(), atol=0.05, rtol=0)
    model.training_slots(2, torch.tensor(0.0)).sum().backward()
    assert torch.equal(model.initial.slots.grad, torch.full((3, 12), 2.0))  # the noise carries no gradient


@pytest.mark.parametrize("head", [1, 3])
@pytest.mark.parametrize("model_class", [SlotAttentionAutoencoder, BoQsaAutoencoder])
def test_the_loss_compiles_whole_and_stays_float32_in_autocast(model_class: type[nn.Module], head: int) -> None:
    torch.manual_seed(0)
    model = model_class(**{**TINY, "decoder_head": head}).to(memory_format=torch.channels_last)
    batch, step = {"images": torch.rand(2, 3, 16, 16)}, torch.tensor(10.0)
    compiled = torch.compile(model.training_loss, backend="eager", fullgraph=True)
    torch.manual_seed(1)
    expected = model.training_loss(batch, step)["loss"]
    torch.manual_seed(1)
    torch.testing.assert_close(compiled(batch, step)["loss"], expected)
    with torch.autocast("cpu", torch.bfloat16):
        torch.manual_seed(1)
        loss = compiled(batch, step)["loss"]
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, atol=0, rtol=0.05)
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 20}, "multiple of 8 pixels"),
        ({"size": 8}, "at least 16"),
        ({"slots": 0}, "at least one slot"),
        ({"initial": "zeros"}, "'random' or 'learned'"),
        ({"size": 128, "decoder_layers": 3}, "at least 4 decoder layers"),
        ({"epsilon_on": "slots"}, "'attention' or 'sum'"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SlotAttentionAutoencoder(**{**TINY, **arguments})


def test_bad_input() -> None:
    model = SlotAttentionAutoencoder(**TINY)
    with pytest.raises(InputError, match=r"\[B, 3, 16, 16\], not \[2, 3, 32, 32\]"):
        model(torch.rand(2, 3, 32, 32))
    with pytest.raises(InputError, match="at least one slot"):
        model(torch.rand(2, 3, 16, 16), slots=0)
    with pytest.raises(InputError, match="at least one iteration"):
        model(torch.rand(2, 3, 16, 16), iterations=0)
    with pytest.raises(InputError, match="'half-pixel'"):
        SoftPositions(4, "pixels")
    with pytest.raises(InputError, match="multiple of 16"):
        BroadcastDecoder(4, size=24)


# Learning

PALETTE = torch.tensor([[1, 0.1, 0.1], [0.1, 1, 0.1], [0.2, 0.3, 1], [1, 1, 0.1], [1, 0.1, 1], [0.1, 1, 1]])
SMALL = {"size": 16, "slots": 3, "channels": 16, "slot_size": 32, "hidden": 64, "decoder_layers": 1}


def two_squares(n: int, seed: int, ground: float = 0.5, gap: int = 4) -> tuple[Tensor, Tensor]:
    """Images of a left and a right square of different colours on a ground of any colour up to `ground`, and labels.

    With a gap of 4 the squares move only up and down. A cut down the middle separates them in every image, so that it
    is the score with the ground (not the one with `ignore=0`) that shows whether the squares were found.
    """
    size, side = 16, 6
    generator = torch.Generator().manual_seed(seed)
    spare = size - 2 * side - gap
    left = (torch.rand(n, 2, generator=generator).sort(1).values * (spare + 1)).long() + torch.tensor([0, side + gap])
    top = torch.randint(0, size - side + 1, (n, 2), generator=generator)
    colours = PALETTE[torch.rand(n, len(PALETTE), generator=generator).argsort(1)[:, :2]]  # [n, 2, 3]
    images = ground * torch.rand(n, 3, 1, 1, generator=generator).expand(-1, -1, size, size)
    labels = torch.zeros(n, size, size, dtype=torch.long)
    pixels = torch.arange(size)
    for square in range(2):
        rows, columns = (
            (pixels >= start[:, square, None]) & (pixels < start[:, square, None] + side) for start in (top, left)
        )
        inside = rows[:, :, None] & columns[:, None, :]
        images = torch.where(inside[:, None], colours[:, square, :, None, None], images)
        labels[inside] = square + 1
    return images, labels


def learn_two_squares(
    model: nn.Module,
    *,
    lr: float,
    steps: int,
    decay: int,
    batch: int = 16,
    seed: int = 0,
    **world: float,
) -> tuple[float, float]:
    """The adjusted Rand index on new images after training, with and without the ground."""
    optimiser = torch.optim.Adam(model.parameters(), lr, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (steps - step) / decay))
    for step in range(steps):
        images, _ = two_squares(batch, seed=seed * 10**7 + step, **world)
        loss = model.training_loss({"images": images}, torch.tensor(float(step)))["loss"]
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    images, labels = two_squares(128, seed=10**6, **world)
    with torch.no_grad():
        predicted = labels_from_masks(model.eval()(images).masks)
    whole, foreground = adjusted_rand_index(labels, predicted), adjusted_rand_index(labels, predicted, ignore=0)
    return float(whole.mean()), float(foreground.mean())


def test_slot_attention_finds_two_squares_and_their_background() -> None:
    """Seeds 0 to 3 end at 0.946, 0.988, 0.990, 0.985 with the ground and at 0.929, 0.978, 0.982, 0.975 without it."""
    torch.manual_seed(1)
    model = SlotAttentionAutoencoder(**SMALL, projections=32, initial="learned", iterations=1, encoder_stride=2)
    whole, foreground = learn_two_squares(model, lr=2e-3, steps=1500, decay=450, gap=2)
    assert whole > 0.9
    assert foreground > 0.9


def test_slot_attention_separates_two_squares_from_random_slots() -> None:
    """Seeds 0 to 4 end at 0.987 or more with the ground; after 2,200 steps one of seven still shared it (0.746)."""
    torch.manual_seed(0)
    model = SlotAttentionAutoencoder(**SMALL, projections=32, initial="random", encoder_stride=2)
    whole, foreground = learn_two_squares(model, lr=3e-3, steps=3000, decay=900)
    assert whole > 0.9
    assert foreground > 0.9


def test_bo_qsa_finds_two_squares_and_their_background() -> None:
    """Seeds 0 to 2 end at 0.972 or more, with the ground and without it."""
    torch.manual_seed(0)
    model = BoQsaAutoencoder(**SMALL, projections=32, drop_path=0.0, noise_steps=600)
    whole, foreground = learn_two_squares(model, lr=4e-3, steps=3000, decay=1000, batch=8)
    assert whole > 0.9
    assert foreground > 0.9


@pytest.mark.parametrize("name", ["slot-attention", "iodine"])
def test_the_images_of_slots_in_their_masks_are_the_decoded_image(name: str) -> None:
    model = build(name, size=64, slots=3).eval()
    slots = model(torch.rand(2, 3, 64, 64)).slots
    with torch.no_grad():
        images, masks = model.decode_slots(slots)
        assert (images.shape, masks.shape) == ((2, 3, 3, 64, 64), (2, 3, 64, 64))
        torch.testing.assert_close(masks.sum(1), torch.ones(2, 64, 64))
        torch.testing.assert_close((images * masks[:, :, None]).sum(1), model.decode(slots))
