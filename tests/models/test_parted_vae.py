"""PartedVAE: every term of its loss against another computation, its parts, and that it learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from alebrije import models, worlds
from alebrije.errors import InputError
from alebrije.models.parted_vae import PartedVAE, PartedVAESS, divergence_from, overlap_beyond
from tests.models.conftest import Fit


def build(**settings: Any) -> PartedVAE:
    torch.manual_seed(0)
    return PartedVAE(channels=1, **settings)


@pytest.fixture(scope="module")
def shapes() -> tuple[Tensor, Tensor]:
    """Images of dsprites, and their shapes."""
    world = worlds.get("dsprites")
    scenes = world.sample(64, seed=0)
    return world.images(scenes)[:, :1].float() / 255, scenes.factors[:, 0, 1:2]


def test_parameter_counts() -> None:
    encoder = 32 * 17 + 32 * 513 + 64 * 513 + 64 * 1025 + 256 * 1025
    heads = 10 * 257 + 3 * 257 + 256 * 4 + 2 * 257 + 2 * 3  # z, c, gate, u, class priors of u
    decoder = 256 * 7 + 1024 * 257 + (64 * 64 + 64 * 32 + 32 * 32 + 32) * 16 + 64 + 32 + 32 + 1
    assert models.get("parted-vae").parameter_count(channels=1) == encoder + heads + decoder == 762_966
    assert models.get("parted-vae-ss").parameter_count(channels=1, counts=(3,)) == 762_966


def test_the_overlap_is_the_bhattacharyya_coefficient() -> None:
    means, log_variances = torch.tensor([[0.0], [0.7], [4.0]]), torch.tensor([[0.0], [-1.2], [0.5]])
    places = torch.linspace(-30, 30, 200_001, dtype=torch.float64)[:, None]
    densities = Normal(means[:, 0].double(), (0.5 * log_variances[:, 0].double()).exp()).log_prob(places).exp()
    expected = 0.0
    for first, second in ((0, 1), (0, 2), (1, 2)):
        root = (densities[:, first] * densities[:, second]).sqrt()
        expected += max(0.0, float(torch.trapezoid(root, places[:, 0])) - 0.1)
    assert float(overlap_beyond(means, log_variances, 0.1)) == pytest.approx(expected, rel=1e-5)
    same = torch.zeros(2, 3)
    assert float(overlap_beyond(same, same, 0.1)) == pytest.approx(0.9)  # of the same Gaussians it is one
    assert float(overlap_beyond(means[:1], log_variances[:1], 0.1)) == 0


def test_the_class_kl_is_that_of_torch() -> None:
    model = build(classes=4, class_latents=2)
    parts = model.posterior(torch.rand(5, 1, 64, 64))
    ours = Normal(parts.u_mean[:, None], (0.5 * parts.u_log_variance[:, None]).exp())
    prior = Normal(model.prior_mean, (0.5 * model.prior_log_variance).exp())
    expected = (parts.log_classes.exp() * kl_divergence(ours, prior).sum(2)).sum(1).mean()
    torch.testing.assert_close(model.class_kl(parts), expected)
    assert float(model.prior_log_variance.detach().abs().max()) <= 3


def test_the_priors_of_the_classes() -> None:
    uniform, published = build(), build(class_prior="as-published")
    device = torch.device("cpu")
    torch.testing.assert_close(uniform.prior_probabilities(device), torch.full((3,), 1 / 3))
    torch.testing.assert_close(published.prior_probabilities(device), torch.tensor([0, 1 / 3, 2 / 3]))
    even = torch.full((3,), 1 / 3)
    assert float(divergence_from(even, uniform.prior_probabilities(device))) == pytest.approx(0, abs=1e-6)
    assert float(divergence_from(even, published.prior_probabilities(device))) > 8  # log(1e-12) / 3


def test_the_loss_is_the_weighted_sum_of_its_parts() -> None:
    model = build(anneal=100)
    images = torch.rand(6, 1, 64, 64)
    for step, rise in ((0.0, 0.0), (50.0, 0.5), (900.0, 1.0)):
        losses = {
            name: float(loss.detach())
            for name, loss in model.training_loss({"images": images}, torch.tensor(step)).items()
        }
        expected = losses["reconstruction"] + 50 * abs(30 * rise - losses["z_kl"]) + 50 * abs(5 * rise - losses["u_kl"])
        expected += 100 * losses["class_kl"] + 10 * losses["entropy"] + 10 * losses["overlap"]
        assert losses["loss"] == pytest.approx(expected, rel=1e-5)
        assert float(model.slope) == pytest.approx(min(8.0, 1 + 2e-4 * step))


def test_the_gate_depends_on_the_class_alone_and_only_u_reads_it() -> None:
    model = build().eval()
    images = torch.rand(8, 1, 64, 64)
    before = model.posterior(images)
    with torch.no_grad():
        model.gate.bias.fill_(-1e4)  # closes the gate
    after = model.posterior(images)
    assert torch.equal(before.z_mean, after.z_mean)
    assert torch.equal(before.log_classes, after.log_classes)
    torch.testing.assert_close(after.u_mean, model.u_head.bias[:1].expand(8, 1))
    assert not torch.allclose(before.u_mean, after.u_mean)


def test_codes() -> None:
    model, whole = build().eval(), build(codes="z+u+c").eval()
    images = torch.rand(4, 3, 64, 64)
    encoding, longer = model(images), whole(images)
    assert (encoding.vector.shape, longer.vector.shape) == ((4, 8), (4, 9))
    torch.testing.assert_close(encoding.vector[:, 5:].exp().sum(1), torch.ones(4))
    torch.testing.assert_close(torch.cat((longer.vector[:, :5], longer.vector[:, 6:]), 1), encoding.vector)
    assert torch.equal(whole.decode(longer.vector).expand(-1, 3, -1, -1), longer.reconstruction)
    with torch.no_grad():
        model.u_head.weight.zero_()
        model.u_head.bias.copy_(torch.tensor([0.3, 0.0]))
        model.prior_mean.fill_(0.3)  # then u is the mean of its prior
    encoding = model(images)
    torch.testing.assert_close(model.decode(encoding.vector).expand(-1, 3, -1, -1), encoding.reconstruction)


@pytest.mark.slow
def test_it_learns(shapes: tuple[Tensor, Tensor], fit: Fit) -> None:
    torch.manual_seed(0)
    model = PartedVAE(channels=1, anneal=100)
    history = fit(model, lambda _: {"images": shapes[0]}, steps=60, lr=2e-3, clip=1e9)
    assert sum(history[-10:]) < 0.5 * sum(history[:10])


def test_labels_reach_the_encoder_and_the_class_head_only(shapes: tuple[Tensor, Tensor]) -> None:
    model = PartedVAESS(channels=1, counts=(3,))
    assert model.classes == 3
    model.labelled_loss({"images": shapes[0], "labels": shapes[1]}).backward()
    reached = {name.partition(".")[0] for name, weight in model.named_parameters() if weight.grad is not None}
    assert reached == {"encoder", "class_head"}


def test_few_labels_are_learned(shapes: tuple[Tensor, Tensor]) -> None:
    torch.manual_seed(0)
    model = PartedVAESS(channels=1, counts=(3,))
    batch = {"images": shapes[0][:24], "labels": shapes[1][:24]}
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(40):
        optimiser.zero_grad()
        model.labelled_loss(batch).backward()
        optimiser.step()
    classes = model.eval()(batch["images"]).vector[:, -3:].argmax(1)
    assert (classes == batch["labels"][:, 0]).float().mean() > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": 2}, "channels must be 1 or 3"),
        ({"class_prior": "flat"}, "class_prior must be uniform or as-published"),
        ({"codes": "z"}, "codes must be z"),
        ({"classes": 0}, "classes must be at least 1"),
        ({"weight": -1.0}, "weight must be a finite number"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PartedVAE(**settings)


def test_bad_settings_of_labels() -> None:
    with pytest.raises(InputError, match="passes must be epoch or step"):
        PartedVAESS(passes="day")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="labels must name one factor"):
        PartedVAESS(labels="shape,scale", counts=(3, 6))
