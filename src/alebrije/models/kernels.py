"""Triton kernels of `fused`, which imports them where there is a GPU."""

from __future__ import annotations

import triton
import triton.language as tl

ROWS = 128  # that a program holds at a time
WIDTH = 16  # sums at most; a product of matrices has no narrower side


@triton.jit
def forward(maps, bias, weight, offset, sums, rows, C: tl.constexpr, S: tl.constexpr, R: tl.constexpr, W: tl.constexpr):
    """Sums [rows, S] of R rows of relu(maps + bias) [rows, C]."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
    channel, one = tl.arange(0, C), tl.arange(0, W)
    lit = tl.load(maps + row * C + channel[None, :], mask=row < rows, other=0.0).to(tl.float32)
    lit += tl.load(bias + channel)[None, :]
    lit = tl.where(lit <= 0, 0.0, lit)  # what is no number stays none, lest a training that diverged go on unseen
    weights = tl.load(weight + one[None, :] * C + channel[:, None], mask=one[None, :] < S, other=0.0)  # [C, W]
    found = tl.dot(lit.to(maps.dtype.element_ty), weights.to(maps.dtype.element_ty))
    found += tl.load(offset + one, mask=one < S, other=0.0)[None, :]
    tl.store(sums + row * S + one[None, :], found, mask=(row < rows) & (one[None, :] < S))


@triton.jit
def backward(
    slopes, maps, bias, weight, out, of_weights, of_bias, of_offset, rows,
    C: tl.constexpr, S: tl.constexpr, R: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Gradients [rows, C] of the maps, and each program's share of those of weights, bias and offset."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    channel, one = tl.arange(0, C), tl.arange(0, W)
    weights = tl.load(weight + one[:, None] * C + channel[None, :], mask=one[:, None] < S, other=0.0)  # [W, C]
    weights = weights.to(maps.dtype.element_ty)
    start = tl.load(bias + channel)[None, :]
    to_weights = tl.zeros([W, C], tl.float32)
    to_bias = tl.zeros([C], tl.float32)
    to_offset = tl.zeros([W], tl.float32)
    for first in range(program * R, rows, programs * R):
        row = (first + tl.arange(0, R)[:, None]).to(tl.int64)
        slope = tl.load(slopes + row * S + one[None, :], mask=(row < rows) & (one[None, :] < S), other=0.0)  # [R, W]
        raw = tl.load(maps + row * C + channel[None, :], mask=row < rows, other=0.0).to(tl.float32) + start
        low = slope.to(maps.dtype.element_ty)
        found = tl.where(raw <= 0, 0.0, tl.dot(low, weights))  # [R, C]
        tl.store(out + row * C + channel[None, :], found, mask=row < rows)
        to_weights += tl.dot(tl.trans(low), tl.where(raw <= 0, 0.0, raw).to(maps.dtype.element_ty))
        to_bias += tl.sum(found, 0)
        to_offset += tl.sum(slope.to(tl.float32), 0)
    tl.store(of_weights + (program * W + one[:, None]) * C + channel[None, :], to_weights)
    tl.store(of_bias + program * C + channel, to_bias)
    tl.store(of_offset + program * W + one, to_offset)
