"""The heads that predict images from codes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.instruments.imagination.head import HeadSettings, ImageHead, encode_sources, linear_head
from alebrije.instruments.imagination.images import ShownEpisodes
from alebrije.studies.folder import ResultFolder
from alebrije.studies.references import Oracle
from tests.instruments.imagination.running import TINY, BrokenSlots, ManySlots


def test_the_linear_head_finds_a_linear_map_and_nothing_in_noise() -> None:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randn(600, 4, generator=generator)
    target = (128 + codes @ torch.randn(4, 12, generator=generator) * 20).clamp(0, 255).byte().view(600, 3, 2, 2)
    predicted = linear_head((codes[:400], target[:400]), (codes[400:500], target[400:500]))(codes[500:])
    assert float((predicted - target[500:].flatten(1) / 255).abs().mean()) < 0.01
    noise = torch.randn(600, 4, generator=generator)
    predicted = linear_head((noise[:400], target[:400]), (noise[400:500], target[400:500]))(noise[500:])
    mean = target[:400].flatten(1).float().mean(0) / 255
    assert float((predicted - mean).abs().mean()) < 0.02


def test_many_slots_become_one_vector_and_codes_must_be_finite(folder: ResultFolder) -> None:
    shown = TINY.episodes(folder, "test", 4)
    assert encode_sources(Oracle(), shown).shape == (4, 2, 14)
    assert encode_sources(ManySlots(), shown).shape == (4, 42 * 14)
    with pytest.raises(InputError, match="finite"):
        encode_sources(BrokenSlots(), shown)


def _predict(shown: ShownEpisodes, codes: Tensor, seed: int) -> Tensor:
    settings = HeadSettings(steps=5, batch=8, points=16, components=8)
    return ImageHead((codes, shown.target_images), (codes, shown.target_images), settings, seed, "cpu")(codes)


def test_training_depends_on_the_seed_alone_and_keeps_the_global_generator(folder: ResultFolder) -> None:
    shown = TINY.episodes(folder, "known", 16)
    codes = torch.randn(16, 20, generator=torch.Generator().manual_seed(0))  # longer than the components
    before = torch.random.get_rng_state()
    first, second, other = (_predict(shown, codes, seed) for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first.shape == shown.target_images.shape
    assert 0 <= float(first.min()) <= float(first.max()) <= 1


def test_constant_codes_predict_the_mean_image(folder: ResultFolder) -> None:
    shown = TINY.episodes(folder, "known", 64)
    predicted = _predict(shown, torch.ones(64, 3), seed=0)
    mean = shown.target_images.float().mean(0) / 255
    assert float((predicted - mean).abs().mean()) < 0.05
