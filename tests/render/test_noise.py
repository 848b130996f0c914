"""Noise: continuity, derivatives, uniformity, and the same bits on every device."""

from __future__ import annotations

import torch

from alebrije.render.noise import Noise, cell_random, layered_noise
from tests.render.tiles import tile


def test_noise_is_continuous_and_its_slopes_are_its_derivatives() -> None:
    noise, step = Noise(9, 7, seed=5, octaves=3), 1e-3
    uv = tile(50)
    value, slope = layered_noise(uv, noise)
    assert value.abs().max() <= 1
    for axis, cells in ((0, noise.columns), (1, noise.rows)):
        ahead = uv.clone()
        ahead[:, axis] += step / cells
        change = layered_noise(ahead, noise)[0] - value
        assert change.abs().max() < 0.02
        assert torch.allclose(change / step, slope[..., axis], atol=0.2)
        assert (change / step - slope[..., axis]).abs().mean() < 0.02


def test_noises_computed_together_equal_single_ones() -> None:
    uv, noises = tile(30), (Noise(9, 7, 5, octaves=3), Noise(3, 4, 6), Noise(5, 5, 7, octaves=2))
    together = layered_noise(uv, *noises)
    for index, noise in enumerate(noises):
        assert torch.allclose(together[0][index], layered_noise(uv, noise)[0][0], atol=1e-6)
        assert torch.allclose(together[1][index], layered_noise(uv, noise)[1][0], atol=1e-5)


def test_cells_are_uniform_and_independent_of_their_neighbours() -> None:
    column, row = torch.meshgrid(torch.arange(256).int(), torch.arange(256).int(), indexing="ij")
    values = cell_random(column, row, seed=1)
    counts = torch.histc(values, 16, 0, 1)
    assert (counts / values.numel() - 1 / 16).abs().max() < 0.004
    centred = values - 0.5
    for shifted in (centred.roll(1, 0), centred.roll(1, 1), centred.roll((1, 1), (0, 1))):
        assert (centred * shifted).mean().abs() * 12 < 0.02
    assert (cell_random(column, row, seed=2) - values).abs().mean() > 0.3


def test_cells_agree_with_python_integers() -> None:
    # Overflow must not differ between devices: compare with Python's integers, wrapped to 32 bits.
    def expected(column: int, row: int, seed: int) -> float:
        number = (column * 0x3C6EF373 + row * 0x1B56C4E9 + seed * 0x2545F491) % 2**32
        number = (number ^ number >> 16) * 0x7FEB352D % 2**32
        number = (number ^ number >> 15) * 0x846CA68B % 2**32
        return ((number ^ number >> 16) % 2**24) / 2**24

    cells = [(0, 0), (3, 5), (20, 17), (700, 1023), (-4, 9)]
    column, row = torch.tensor(cells, dtype=torch.int32).unbind(-1)
    assert cell_random(column, row, 11).tolist() == [expected(*cell, 11) for cell in cells]
