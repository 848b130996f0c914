"""SSM-VAE and SSM-Slot: likelihoods in closed form, which loss trains which part, and that they learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.models.learner import Batch, Learner
from alebrije.models.state_space import SSMVAE, SSMSlot, StateSpace, gaussian_nll, mean_kl

Fit = Callable[..., list[float]]
STEP = torch.tensor(0.0)

DECODER: dict[str, Any] = {
    "size": 16,
    "dynamics_blocks": 2,
    "decoder_width": 64,
    "decoder_blocks": 2,
    "dropout": 0.0,
}
SLOTS: dict[str, Any] = {"slots": 3, "iterations": 2, "slot_size": 32, "channels": 16, "features": 32, "hidden": 32}
TINY: dict[str, Callable[[], StateSpace]] = {
    "SSM-VAE": lambda: SSMVAE(channels=16, latents=32, **DECODER),
    "SSM-Slot": lambda: SSMSlot(**SLOTS, **DECODER),
}


@pytest.fixture(scope="module")
def episodes() -> Batch:
    task = worlds.task("sprites", "S-A")
    sampled = task.train(16, seed=0)
    return {
        "source": task.world.render(sampled.source, size=16).images / 255,
        "target": task.world.render(sampled.target, size=16).images / 255,
    }


@pytest.fixture(params=sorted(TINY))
def tiny(request: pytest.FixtureRequest) -> StateSpace:
    torch.manual_seed(0)
    return TINY[request.param]()


def _error(first: Tensor, second: Tensor) -> float:
    return float((first - second).detach().square().mean())


def _losses(model: StateSpace, batch: Batch, seed: int = 1) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    return model.training_loss(batch, STEP)  # type: ignore[no-any-return, operator]


def _gradients(model: StateSpace, batch: Batch) -> dict[str, Tensor]:
    """The gradient of each part, in one vector."""
    model.zero_grad()
    _losses(model, batch)["loss"].backward()  # type: ignore[no-untyped-call]
    parts: dict[str, list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        parts.setdefault(name.split(".")[0], []).append(parameter.grad.flatten().clone())
    return {part: torch.cat(gradients) for part, gradients in parts.items()}


def _shift(module: nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.05 * torch.randn_like(parameter)


def _parameters(model: nn.Module, part: str) -> int:
    return sum(parameter.numel() for name, parameter in model.named_parameters() if name.startswith(part))


def test_likelihood_and_divergence_agree_with_torch() -> None:
    torch.manual_seed(0)
    mean, log_variance, value = torch.randn(3, 5, 7).double()
    nll = -Normal(mean, 0.3).log_prob(value).mean()
    torch.testing.assert_close(gaussian_nll(mean, value, 0.3), nll.float())
    kl = kl_divergence(Normal(mean, (0.5 * log_variance).exp()), Normal(0.0, 1.0)).mean()
    torch.testing.assert_close(mean_kl(mean, log_variance), kl.float())


def test_is_a_learner_that_predicts(tiny: StateSpace, episodes: Batch) -> None:
    assert isinstance(tiny, Learner)
    tiny.eval()
    predicted = tiny.predict(episodes)
    assert predicted.shape == (16, 3, 16, 16)
    assert predicted.min() >= 0
    assert predicted.max() <= 1
    assert {name.split(".")[0] for name, _ in tiny.named_parameters()} == {"encoder", "dynamics", "decoder"}


def test_predicts_from_the_predicted_latents(tiny: StateSpace, episodes: Batch) -> None:
    tiny.eval()
    torch.manual_seed(1)
    codes = tiny(episodes["source"]).codes
    expected = tiny.decoder(tiny.dynamics(codes if codes.ndim == 3 else codes[:, None])).clamp(0, 1)
    torch.manual_seed(1)
    torch.testing.assert_close(tiny.predict(episodes), expected)


def test_parts_add_up_to_the_loss(tiny: StateSpace, episodes: Batch) -> None:
    losses = _losses(tiny, episodes)
    parts = {name: loss for name, loss in losses.items() if name != "loss"}
    assert {"dynamics", "probe"} < set(parts)
    assert not any(part.requires_grad for part in parts.values())
    torch.testing.assert_close(losses["loss"].detach(), torch.stack(list(parts.values())).sum())


def test_no_loss_reaches_the_parts_before_its_own(tiny: StateSpace, episodes: Batch) -> None:
    before = _gradients(tiny, episodes)
    assert all(gradient.abs().max() > 0 for gradient in before.values())
    _shift(tiny.decoder)
    probed = _gradients(tiny, episodes)
    assert torch.equal(probed["encoder"], before["encoder"])
    assert torch.equal(probed["dynamics"], before["dynamics"])
    assert not torch.allclose(probed["decoder"], before["decoder"])
    _shift(tiny.dynamics)
    moved = _gradients(tiny, episodes)
    assert torch.equal(moved["encoder"], before["encoder"])
    assert not torch.allclose(moved["dynamics"], before["dynamics"])
    assert not torch.allclose(moved["decoder"], probed["decoder"])  # the probe reads what the dynamics predict


def test_probe_and_dynamics_losses(tiny: StateSpace, episodes: Batch) -> None:
    """Both are means: over the latents of the target, and over its pixels."""
    losses = _losses(tiny, episodes)
    torch.manual_seed(1)
    if isinstance(tiny, SSMVAE):
        source, target = (tiny(episodes[name]).vector[:, None] for name in ("source", "target"))
    else:
        both = tiny.encoder(torch.stack((episodes["source"], episodes["target"]), dim=1))  # type: ignore[operator]
        source, target = both.unbind(1)
    predicted = tiny.dynamics(source)
    assert losses["dynamics"].item() == pytest.approx(_error(predicted, target), rel=1e-4)
    assert losses["probe"].item() == pytest.approx(_error(tiny.decoder(predicted), episodes["target"]), rel=1e-4)


def test_half_precision_and_compilation(tiny: StateSpace, episodes: Batch) -> None:
    whole = _losses(tiny, episodes)
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16):
        half = tiny.training_loss(episodes, STEP)  # type: ignore[operator]
    for name, loss in half.items():
        assert loss.dtype == torch.float32
        assert loss.item() == pytest.approx(whole[name].item(), rel=0.1)
    torch.manual_seed(1)
    compiled = torch.compile(tiny.training_loss, backend="eager", fullgraph=True)(episodes, STEP)
    torch.testing.assert_close(compiled["loss"], whole["loss"])


def test_likelihood_of_a_vae_that_decodes_to_black(episodes: Batch) -> None:
    """Black images: log sigma + log(2 pi) / 2 and half the mean square over the variance, and KL 0 from the prior."""
    torch.manual_seed(0)
    model = SSMVAE(channels=8, latents=8, sigma=0.1, beta=3.0, **DECODER)
    nn.init.zeros_(model.encoder.deconvolutions[-1].weight)
    nn.init.zeros_(model.encoder.deconvolutions[-1].bias)
    nn.init.zeros_(model.encoder.posterior[-1].weight)
    losses = _losses(model, episodes)
    square = torch.cat((episodes["source"], episodes["target"])).square().mean().item()
    assert losses["nll"].item() == pytest.approx(-2.302585 + 0.918939 + square / 0.02, rel=1e-4)
    assert losses["kl"].item() == 0
    with torch.no_grad():
        model.encoder.posterior[-1].bias[:8] = 2.0  # a posterior mean of 2 has a divergence of 2
    assert _losses(model, episodes)["kl"].item() == pytest.approx(3 * 2.0)


def test_vae_encodes_the_posterior_mean(episodes: Batch) -> None:
    torch.manual_seed(0)
    model = SSMVAE(channels=16, latents=32, **DECODER).eval()
    encoding = model(episodes["source"])
    assert torch.equal(encoding.vector, model(episodes["source"]).vector)
    torch.testing.assert_close(encoding.reconstruction, model.encoder.decode(encoding.vector))


def test_slot_reconstruction_is_summed_over_pixels_and_averaged_over_frames(episodes: Batch) -> None:
    torch.manual_seed(0)
    model = SSMSlot(**SLOTS, **DECODER)
    torch.manual_seed(1)
    slots = model.encoder(torch.stack((episodes["source"], episodes["target"]), dim=1))
    errors = 0.0
    for frame, name in enumerate(("source", "target")):
        images, masks = model.encoder.decode(slots[:, frame])
        torch.testing.assert_close(masks.sum(1), torch.ones(16, 16, 16))
        errors += float((images - episodes[name]).detach().square().sum())
    assert _losses(model, episodes)["reconstruction"].item() == pytest.approx(errors / (2 * 16), rel=1e-4)


def test_ssm_slot_starts_as_its_release() -> None:
    """Kaiming before a ReLU; mean and scale of the slots as torch counts a tensor [1, 1, 64], here [1, 64]."""
    torch.manual_seed(0)
    model = SSMSlot().encoder
    expected = {
        "mlp.1.weight": (6 / 192) ** 0.5,
        "mlp.3.weight": (6 / 384) ** 0.5,
        "corrector.queries.weight": (6 / 128) ** 0.5,
        "corrector.mlp.1.weight": (6 / 64) ** 0.5,
        "corrector.mlp.3.weight": (6 / 256) ** 0.5,
        "initial.mean": (6 / 128) ** 0.5,
        "initial.log_scale": (6 / 128) ** 0.5,
    }
    largest = {name: float(model.state_dict()[name].abs().max()) for name in expected}  # of a uniform distribution
    assert largest == pytest.approx(expected, rel=0.04)


def test_a_generator_decides_the_initial_slots(episodes: Batch) -> None:
    torch.manual_seed(0)
    model = SSMSlot(**SLOTS, **DECODER).eval()
    first, again, other = (
        model(episodes["source"], generator=torch.Generator().manual_seed(seed)).slots for seed in (5, 5, 6)
    )
    assert torch.equal(first, again)
    assert not torch.allclose(first, other, atol=1e-3)
    one, two = (model.predict(episodes, torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(one, two)


def test_slots_are_carried_from_the_first_frame_to_the_second(episodes: Batch) -> None:
    torch.manual_seed(0)
    model = SSMSlot(**SLOTS, **DECODER).eval()

    def encoded(*frames: str) -> Tensor:
        video = torch.stack([episodes[name] for name in frames], dim=1)
        return model.encoder(video, torch.Generator().manual_seed(0))  # type: ignore[no-any-return]

    both, first = encoded("source", "target"), encoded("source")
    torch.testing.assert_close(both[:, 0], first[:, 0])  # later frames have no effect on earlier ones
    carried, _ = model.encoder.corrector(
        model.encoder.mlp(model.encoder.positions(model.encoder.convolutions(episodes["target"])).flatten(2).mT),
        model.encoder.predictor(first[:, 0]),
        iterations=2,
    )
    torch.testing.assert_close(both[:, 1], carried)


def test_the_order_of_slots_has_no_effect_on_the_dynamics() -> None:
    torch.manual_seed(0)
    model, slots = SSMSlot(**SLOTS, **DECODER).eval(), torch.randn(2, 3, 32)
    torch.testing.assert_close(model.predict_from_latents(slots[:, [2, 0, 1]]), model.predict_from_latents(slots))


def test_parameters_of_the_paper() -> None:
    # a block of width 64: attention 4 * 64^2, feed-forward 2 * 64 * 256 + 256 + 64, 2 norms of 2 * 64; and a last norm
    block, probe = 4 * 64**2 + (2 * 64 * 256 + 256 + 64) + 4 * 64, 4_745_136 + 64 * 192
    vae, slot = SSMVAE(), SSMSlot()
    for model in (vae, slot):
        assert _parameters(model, "dynamics.") == 4 * block + 2 * 64 == 199_040
        assert _parameters(model, "decoder.") == probe
    down = (75 * 64 + 64) + 3 * (1600 * 64 + 64)  # convolutions 3 -> 64 and three 64 -> 64, 5 x 5
    code = (4096 * 256 + 256) + (256 * 128 + 128)
    back = (64 * 256 + 256) + (256 * 4096 + 4096)
    up = 3 * (1600 * 64 + 64) + (1600 * 3 + 3)
    assert _parameters(vae, "encoder.") == down + code + back + up == 2_775_491
    features = (75 * 64 + 64) + 2 * (1600 * 64 + 64) + (1600 * 192 + 192) + (4 * 192 + 192)
    features += 2 * 192 + 2 * (192 * 192 + 192)
    corrector = (2 * 192 + 2 * 64) + (64 * 64 + 2 * 192 * 64)  # norms; queries, keys, values
    corrector += 6 * 64 * 64 + 6 * 64 + 2 * 64 + (2 * 64 * 192 + 192 + 64)  # GRU; norm and MLP
    drawing = (4 * 64 + 64) + 3 * (1600 * 64 + 64) + (1600 * 4 + 4)
    savi = features + 2 * 64 + corrector + (block + 2 * 64) + drawing
    assert _parameters(slot, "encoder.") == savi == 1_035_844


@pytest.mark.parametrize("size", [8, 32, 64])
def test_slots_are_decoded_at_other_sizes(size: int) -> None:
    model = SSMSlot(**SLOTS, **{**DECODER, "size": size})
    masks = model(torch.zeros(1, 3, size, size)).masks
    assert masks is not None
    assert masks.shape == (1, 3, size, size)


def test_bad_arguments_and_images_are_named(tiny: StateSpace, episodes: Batch) -> None:
    with pytest.raises(InputError, match="divisible by 16"):
        SSMVAE(size=40)
    with pytest.raises(InputError, match="sigma above 0"):
        SSMVAE(sigma=0.0)
    with pytest.raises(InputError, match="8 times a power of 2"):
        SSMSlot(size=96)
    with pytest.raises(InputError, match="slots must be at least 1"):
        SSMSlot(slots=0)
    with pytest.raises(InputError, match="width must be divisible by heads"):
        SSMSlot(predictor_heads=5)
    with pytest.raises(InputError, match=r"images must have the shape \[B, 3, 16, 16\]"):
        tiny(torch.zeros(2, 3, 32, 32))
    with pytest.raises(InputError, match=r"target must have the shape \[B, 3, 16, 16\]"):
        _losses(tiny, {**episodes, "target": torch.zeros(16, 3, 8, 8)})


@pytest.mark.parametrize(("name", "steps", "lr", "part"), [("SSM-VAE", 450, 3e-3, 0.25), ("SSM-Slot", 300, 2e-3, 0.5)])
def test_learns_sixteen_episodes(name: str, steps: int, lr: float, part: float, episodes: Batch, fit: Fit) -> None:
    """Reconstructions and predictions of targets have a fraction of the error of the mean target."""
    torch.manual_seed(0)
    model = TINY[name]()
    fit(model, lambda step: episodes, steps=steps, lr=lr, clip=1e9)  # one norm for all parts would starve the probe
    target = episodes["target"]
    mean = _error(target.mean(0).expand_as(target), target)  # 0.062
    torch.manual_seed(0)
    with torch.no_grad():
        reconstructed, predicted = model(target).reconstruction, model.predict(episodes)
    assert _error(reconstructed, target) < 0.25 * mean
    assert _error(predicted, target) < part * mean
