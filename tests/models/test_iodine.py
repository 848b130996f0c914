"""IODINE: its closed forms against automatic differentiation, and that images are refined on their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije import models
from alebrije.errors import InputError
from alebrije.models.iodine import IODINE, VARIANTS, Refinement, State, VariantName
from alebrije.models.pixel_decoder import PixelDecoder, coordinates
from tests.models.conftest import Fit

TINY: dict[str, Any] = {"size": 32, "slots": 3, "channels": 8, "slot_size": 6, "hidden": 12, "iterations": 2}
NAMES = list(VARIANTS)


def tiny(variant: VariantName = "deepmind", **changes: Any) -> IODINE:
    torch.manual_seed(0)
    return IODINE(variant=variant, **TINY | changes)


def images(count: int = 2, size: int = 32) -> Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def test_parameter_counts() -> None:
    convolution = 64 * 64 * 9 + 64
    decoder = 3 * convolution + (64 * 9 + 1) * 4
    lstm = (513 + 256 + 1) * 4 * 256
    mlp = (64 + 1) * 256 + (256 + 1) * 256
    refinement = (18 * 9 + 1) * 64 + 3 * convolution + mlp + lstm + (256 + 1) * 128
    norms = 2 * (3 + 1 + 1 + 1) + 2 * 128  # means, logits, likelihood, counterfactual; belief
    assert models.get("iodine").parameter_count() == (67 * 9 + 1) * 64 + decoder + refinement + norms + 128 == 1_177_168
    lstm = (256 + 256 + 1) * 4 * 256
    mlp = (4 * 64 + 1) * 256 + (512 + 1) * 256
    refinement = (16 * 9 + 1) * 64 + 3 * convolution + mlp + lstm + (256 + 1) * 128
    coat = (66 * 9 + 1) * 64 + decoder + refinement + 128
    assert models.get("iodine").parameter_count(variant="coat") == coat


@pytest.mark.parametrize("constant", [None, 5.0])
def test_the_decoder_copies_the_latents_to_every_pixel(constant: float | None) -> None:
    torch.manual_seed(0)
    decoder, latents = PixelDecoder(6, 16, 8, constant), torch.randn(4, 6)
    parts = [latents] if constant is None else [latents, torch.full((4, 1), constant)]
    maps = torch.cat(parts, 1)[:, :, None, None].expand(-1, -1, 16, 16)
    maps = torch.cat((maps, coordinates(16, torch.device("cpu")).expand(4, -1, -1, -1)), 1)
    for layer in (decoder.first, *decoder.layers):
        maps = F.elu(layer(maps))
    torch.testing.assert_close(decoder(latents)[0], decoder.head(maps), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("constant", [None, 5.0])
def test_the_decoder_s_gradient_is_that_of_automatic_differentiation(constant: float | None) -> None:
    torch.manual_seed(0)
    decoder, latents = PixelDecoder(6, 16, 8, constant), torch.randn(4, 6, requires_grad=True)
    maps, after = decoder(latents)
    grad = torch.randn_like(maps)
    with torch.no_grad():
        found = decoder.gradient(after, grad)
    torch.testing.assert_close(found, torch.autograd.grad(maps, latents, grad)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("variant", NAMES)
def test_the_gradients_are_those_of_automatic_differentiation(variant: VariantName) -> None:
    model = tiny(variant)
    beliefs = (0.3 * torch.randn(2, 3, 12)).requires_grad_()
    noise = torch.randn(2, 3, 6)
    step, after = model.evaluate(model.prepare(images()), beliefs, noise)
    bound = (step.evaluated.nll + step.kl).sum()
    expected = torch.autograd.grad(bound, (step.means, step.logits, beliefs))
    for ours, theirs in zip(model.gradients(step, after, beliefs, noise), expected, strict=True):
        assert not ours.requires_grad
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * float(theirs.abs().max()))


@pytest.mark.parametrize("variant", NAMES)
def test_the_kl_is_zero_for_the_prior_and_that_of_torch_otherwise(variant: VariantName) -> None:
    model = tiny(variant)
    prior = model.variant.prior
    free = torch.tensor(prior).expm1().log()  # softplus of it is the variance of the prior
    beliefs = torch.cat((torch.zeros(2, 3, 6), free.expand(2, 3, 6)), -1)
    prepared, noise = model.prepare(images()), torch.zeros(2, 3, 6)
    torch.testing.assert_close(model.evaluate(prepared, beliefs, noise)[0].kl, torch.zeros(2), atol=1e-5, rtol=0)
    beliefs = torch.randn(2, 3, 12)
    ours = torch.distributions.Normal(beliefs[..., :6], F.softplus(beliefs[..., 6:]).sqrt())
    expected = torch.distributions.kl_divergence(ours, torch.distributions.Normal(0.0, prior**0.5)).sum((1, 2))
    torch.testing.assert_close(model.evaluate(prepared, beliefs, noise)[0].kl, expected)


@pytest.mark.parametrize("variant", NAMES)
def test_an_image_is_refined_as_if_it_were_alone(variant: VariantName) -> None:
    model, noise = tiny(variant).eval(), torch.randn(3, 4, 3, 6)
    prepared = model.prepare(images(4))
    with torch.inference_mode():
        together = list(model.refine(prepared, noise))
        alone = list(model.refine(prepared[2:3], noise[:, 2:3]))
    for whole, one in zip(together, alone, strict=True):
        torch.testing.assert_close(whole.latents[2:3], one.latents, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(whole.evaluated.nll[2:3], one.evaluated.nll, rtol=1e-4, atol=1e-2)
    assert not torch.allclose(together[0].latents, together[1].latents)


@pytest.mark.parametrize("variant", NAMES)
def test_permuting_the_noise_permutes_the_slots(variant: VariantName) -> None:
    model, noise, order = tiny(variant), torch.randn(3, 2, 3, 6), [2, 0, 1]
    prepared = model.prepare(images())
    with torch.no_grad():
        first, permuted = (list(model.refine(prepared, one))[-1] for one in (noise, noise[:, :, order]))
    torch.testing.assert_close(permuted.latents, first.latents[:, order], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(permuted.evaluated.masks, first.evaluated.masks[:, order], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("variant", NAMES)
def test_encoding(variant: VariantName) -> None:
    model = tiny(variant).eval()
    with torch.no_grad():
        encoding, again, more = (
            model(images(), slots=slots, generator=torch.Generator().manual_seed(0)) for slots in (None, 3, 5)
        )
        decoded = model.decode(encoding.slots)
    assert torch.equal(encoding.slots, again.slots)
    assert more.masks.shape == (2, 5, 32, 32)
    torch.testing.assert_close(encoding.masks.sum(1), torch.ones(2, 32, 32))
    torch.testing.assert_close(decoded, encoding.reconstruction)


def test_the_codes_are_means_or_samples() -> None:
    found = {}
    for codes in ("mean", "sample", None):
        generator = torch.Generator().manual_seed(0)
        found[codes] = tiny(codes=codes)(images(), generator=generator).slots
    assert torch.equal(found["mean"], found[None])
    assert not torch.allclose(found["mean"], found["sample"], atol=1e-2)
    assert tiny("coat").codes == "sample"


def test_the_loss_weights_the_bounds_of_all_evaluations() -> None:
    model = tiny()
    torch.manual_seed(3)
    noise = torch.randn(3, 2, 3, 6)
    with torch.no_grad():
        bounds = [float((step.evaluated.nll + step.kl).mean()) for step in model.refine(images(), noise)]
    torch.manual_seed(3)
    losses = {name: loss.detach() for name, loss in model.training_loss({"images": images()}, torch.zeros(())).items()}
    assert float(losses["loss"]) == pytest.approx(0.5 * bounds[1] + bounds[2], rel=1e-5)
    assert float(losses["nll"] + losses["kl"]) == pytest.approx(bounds[2], rel=1e-5)
    coat = tiny("coat").training_loss({"images": images()}, torch.tensor(0.0))
    assert coat["loss"] == coat["nll"]


@pytest.mark.parametrize("variant", NAMES)
def test_the_loss_compiles_whole_and_stays_float32_in_autocast(variant: VariantName) -> None:
    model = tiny(variant)
    batch, step = {"images": images()}, torch.tensor(10.0)
    graphs: list[object] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(graph)
        return graph.forward

    compiled = model.compiled_loss(lambda part: torch.compile(part, backend=backend, fullgraph=True))
    torch.manual_seed(1)
    expected = model.training_loss(batch, step)["loss"]
    torch.manual_seed(1)
    torch.testing.assert_close(compiled(batch, step)["loss"], expected)
    assert len(graphs) == 2  # one for all refinements, one for the last evaluation
    with torch.autocast("cpu", torch.bfloat16):
        torch.manual_seed(1)
        loss = compiled(batch, step)["loss"]
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, atol=0, rtol=0.05)
    loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_the_lstm_is_torch_s_with_a_forget_bias_of_one() -> None:
    torch.manual_seed(0)
    refinement = Refinement(18, 4, channels=8, hidden=5, pooled=1, constant=True, project=False)
    cell = torch.nn.LSTMCell(5 + 8 + 1, 5)
    enter, candidate, forget, leave = refinement.gates.weight.chunk(4)
    joined = torch.cat((enter, forget, candidate, leave))  # torch's order
    cell.weight_ih.data, cell.weight_hh.data = joined[:, :14], joined[:, 14:]
    biases = [refinement.gates.bias.chunk(4)[part] for part in (0, 2, 1, 3)]
    cell.bias_ih.data, cell.bias_hh.data = torch.cat((biases[0], biases[1] + 1, *biases[2:])), torch.zeros(20)
    state, hidden = State(torch.zeros(2, 5), torch.zeros(2, 5)), None
    for inputs in torch.randn(3, 2, 14):
        state = refinement.recur(inputs, state)
        hidden = cell(inputs, hidden)
        torch.testing.assert_close(tuple(state), hidden)


@pytest.mark.slow
def test_it_learns_to_refine(fit: Fit) -> None:
    """Two squares of different colours: refined slots explain the images better than unrefined ones."""
    squares, generator = torch.zeros(8, 3, 16, 16), torch.Generator().manual_seed(0)
    for image in squares:
        colours = torch.eye(3)[torch.randperm(3, generator=generator)[:2]]
        for side, colour in enumerate(colours):
            top = int(torch.randint(10, (), generator=generator))
            image[:, top : top + 6, 8 * side + 1 : 8 * side + 7] = colour[:, None, None]
    torch.manual_seed(0)
    model = IODINE(size=16, slots=3, slot_size=8, channels=16, hidden=32, iterations=2, scale=0.3)
    fit(model, lambda _: {"images": squares}, steps=130, lr=5e-3, clip=5.0)
    with torch.no_grad():
        first, _, last = model.refine(model.prepare(squares), torch.randn(3, 8, 3, 8))
        error = (model.mixed(last) - squares).square().mean()
    assert float(last.evaluated.nll.mean()) < 0.8 * float(first.evaluated.nll.mean())
    assert float(error) < 0.6 * float(squares.var())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variant": "genesis"}, "variant must be deepmind or coat"),
        ({"size": 40}, "a multiple of 16 pixels and at least 16, not 40"),
        ({"variant": "coat", "size": 16}, "at least 32, not 16"),
        ({"scale": 0.0}, "scale must be a positive number"),
        ({"codes": "median"}, "codes must be mean or sample"),
        ({"slots": 0}, "slots must be at least 1"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        IODINE(**settings)


def test_bad_calls() -> None:
    with pytest.raises(InputError, match=r"images must have the shape \[B, 3, 32, 32\]"):
        tiny()(torch.rand(2, 3, 16, 16))
    with pytest.raises(InputError, match="slots must be at least 1"):
        tiny()(images(), slots=0)
