"""Tone mapping: values measured in Blender, and the sRGB standard."""

from __future__ import annotations

import torch

from alebrije.render.tone_mapping import filmic, srgb


def test_filmic_known_answers() -> None:
    # Measured on 16-bit images that Blender 3.4.1 saved.
    linear = torch.tensor([0.0, 0.001, 0.01, 0.05, 0.18, 0.5, 1.0, 2.0, 4.0, 16.0])
    measured = torch.tensor([0.0, 0.44, 7.63, 45.02, 127.58, 197.68, 226.93, 242.55, 250.05, 254.97])
    assert torch.allclose(filmic(linear) * 255, measured, atol=0.5)
    assert (filmic(linear[[0, 6]]) * 255).round().tolist() == [0, 227]


def test_filmic_is_monotonic() -> None:
    values = filmic(torch.cat((torch.tensor([-1.0, 0.0]), 2.0 ** torch.linspace(-14, 10, 500))))
    assert (values.diff() >= 0).all()
    assert values.min() >= 0
    assert values.max() <= 1


def test_srgb_known_answers() -> None:
    values = srgb(torch.tensor([-0.5, 0.0, 0.001, 0.2140, 1.0, 3.0]))
    assert torch.allclose(values, torch.tensor([0.0, 0.0, 0.01292, 0.5, 1.0, 1.0]), atol=1e-3)
