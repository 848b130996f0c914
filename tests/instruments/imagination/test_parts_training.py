"""Heads that are trained at once learn what they learn one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from alebrije.instruments.imagination.head import HeadSettings, ImageHead, Scaling, fit_heads
from alebrije.instruments.imagination.one_cycle import one_cycle
from alebrije.instruments.imagination.parts_training import _Stack, train_together

SETTINGS = HeadSettings(steps=23, batch=8, points=32, components=24, checks=3)
SHAPES = ((20,), (20,), (3, 6), (40,))  # codes: vectors, slots, and vectors longer than the components


@pytest.mark.parametrize("steps", [15, 23, 300])
def test_the_schedule_is_that_of_torch(steps: int) -> None:
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], 5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps, pct_start=0.1)
    for rate, decay in one_cycle(5e-3, steps):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rate, rel=1e-9)
        assert optimizer.param_groups[0]["betas"][0] == pytest.approx(decay, rel=1e-9)
        optimizer.step()
        schedule.step()


def test_random_points_are_the_same_in_a_buffer() -> None:
    alone, buffered = (head.training() for head in (_heads("cpu", fitted=False)[0], _heads("cpu", fitted=False)[0]))
    numbers = torch.empty(8, 1 + alone.points_per_image, dtype=torch.int32)
    for _ in range(3):
        rows, points = alone.draw(8)
        buffered.draw_into(numbers)
        assert bool((numbers[:, 0] == rows).all())
        assert bool((numbers[:, 1:] == points).all())


def _heads(device: str, settings: HeadSettings = SETTINGS, *, fitted: bool) -> list[ImageHead]:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (64, 3, 16, 16), dtype=torch.uint8, generator=generator).to(device)
    heads = []
    for seed, shape in enumerate(SHAPES):
        codes = torch.randn(64, *shape, generator=generator)
        heads.append(ImageHead((codes, images), (codes[:32], images[:32]), settings, seed, device, fitted=fitted))
    return heads


def test_heads_that_are_trained_at_once_have_the_weights_of_heads_trained_one_by_one() -> None:
    alone, together = _heads("cpu", fitted=True), _heads("cpu", fitted=False)
    before = [weight.detach().clone() for weight in together[0].parts_head.parameters()]
    train_together([head.training() for head in together], SETTINGS)
    for one, other in zip(alone, together, strict=True):
        for expected, found in zip(one.parts_head.parameters(), other.parts_head.parameters(), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-4)  # a step changes a weight by up to 6e-3
    after = [weight.detach() for weight in together[0].parts_head.parameters()]
    assert max(float((old - new).abs().max()) for old, new in zip(before, after, strict=True)) > 1e-3


def test_a_head_does_not_depend_on_those_beside_it() -> None:
    first, second = (_heads("cpu", fitted=False) for _ in range(2))
    train_together([head.training() for head in first], SETTINGS)
    train_together([second[1].training()], SETTINGS)
    pairs = zip(first[1].parts_head.parameters(), second[1].parts_head.parameters(), strict=True)
    assert all(torch.equal(expected, found) for expected, found in pairs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_a_gpu_fits_about_the_same_heads_as_the_cpu_and_the_same_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = Scaling.fit  # finds principal components from random numbers, which are others on a GPU

    def fit_on_cpu(codes: torch.Tensor, components: int) -> Scaling:
        found = fit(codes.cpu(), components)
        return Scaling(*(part if part is None else part.to(codes.device) for part in vars(found).values()))

    monkeypatch.setattr(Scaling, "fit", fit_on_cpu)
    codes = [torch.randn(64, *shape, generator=torch.Generator().manual_seed(1)) for shape in SHAPES]
    found = []
    for device in ("cpu", "cuda", "cuda"):
        heads = _heads(device, fitted=False)
        fit_heads(heads)
        found.append([head(each) for head, each in zip(heads, codes, strict=True)])
    for cpu, gpu, again in zip(*found, strict=True):
        assert torch.equal(gpu, again)
        assert float((cpu - gpu).abs().max()) < 1e-3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
@pytest.mark.parametrize(("parts", "points"), [(1, 8), (2, 8), (3, 8), (4, 8), (8, 8), (1, 16), (4, 16)])
def test_the_kernel_computes_the_gradient_of_autograd(parts: int, points: int) -> None:
    settings = replace(SETTINGS, parts=parts, points=points * parts)
    training = _heads("cuda", settings, fitted=False)[0].training()
    assert (training.parts, training.points_per_image) == (parts, points)
    stack = _Stack([training], settings)
    stack._draw(1)
    kernel, stack.heads.kernel = stack.heads.kernel, None
    expected = stack.heads.gradient(stack.table, stack.row)
    stack.heads.kernel = kernel
    assert kernel is not None
    torch.testing.assert_close(stack.heads.gradient(stack.table, stack.row), expected, rtol=1e-4, atol=1e-6)
