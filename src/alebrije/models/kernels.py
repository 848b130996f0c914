"""The Triton kernels of `fused`, which imports them where there is a GPU."""

from __future__ import annotations

import triton
import triton.language as tl

ROWS = 128  # that a program holds at a time
FEW = 64  # the same where it holds more of each row
MANY = 512  # and less


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
    if offset is not None:
        found += tl.load(offset + one, mask=one < S, other=0.0)[None, :]
    tl.store(sums + row * S + one[None, :], found, mask=(row < rows) & (one[None, :] < S))


@triton.jit
def gather(sums, offset, out, rows, high, wide, S: tl.constexpr, K: tl.constexpr, R: tl.constexpr, W: tl.constexpr):
    """Outputs [rows, S] of a convolution of K x K places, from what each place gives to all [rows, K * K * S]."""
    place, one = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, W)[None, :]
    row, inside = place.to(tl.int64), (place < rows) & (one < S)
    x, y = place % wide, place // wide % high
    total = tl.load(offset + one, mask=one < S, other=0.0) + tl.zeros([R, W], tl.float32)
    for number in tl.static_range(K * K):
        down, right = number // K - K // 2, number % K - K // 2
        there = (y + down >= 0) & (y + down < high) & (x + right >= 0) & (x + right < wide)
        at = (row + down * wide + right) * (K * K * S) + number * S + one
        total += tl.load(sums + at, mask=inside & there, other=0.0).to(tl.float32)
    tl.store(out + row * S + one, total, mask=inside)


@triton.jit
def backward(
    slopes, maps, bias, weight, out, of_weights, of_bias, rows, high, wide,
    C: tl.constexpr, S: tl.constexpr, K: tl.constexpr, R: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Gradients [rows, C] of the maps, and each program's share of those of weights and bias."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    channel, one = tl.arange(0, C), tl.arange(0, W)
    weights = tl.load(weight + one[:, None] * C + channel[None, :], mask=one[:, None] < K * K * S, other=0.0)  # [W, C]
    weights = weights.to(maps.dtype.element_ty)
    start = tl.load(bias + channel)[None, :]
    down, right = K // 2 - one // S // K, K // 2 - one // S % K  # where a place gives to
    # A place on an edge gives nothing beyond it: a bit for each of the four. Columns past the last have bit 16, as all
    # rows have; rows past the last have bit 32, as all columns have.
    beyond = (down == -1) * 1 | (down == 1) * 2 | (right == -1) * 4 | (right == 1) * 8
    beyond = tl.where(one < K * K * S, beyond | 32, 16 | 32)[None, :]
    taker = (one % S + (down * wide + right) * S)[None, :]
    to_weights = tl.zeros([W, C], tl.float32)
    to_bias = tl.zeros([R, C], tl.float32)  # rows are added up at the end: threads would have to wait for each other
    for first in range(program * R, rows, programs * R):
        place = first + tl.arange(0, R)[:, None]
        row = place.to(tl.int64)
        edges = tl.where(place < rows, 16, 16 | 32)
        if K > 1:
            x, y = place % wide, place // wide % high
            edges = edges | (y == 0) * 1 | (y == high - 1) * 2 | (x == 0) * 4 | (x == wide - 1) * 8
        slope = tl.load(slopes + row * S + taker, mask=(edges & beyond) == 0, other=0.0)  # [R, W]
        raw = tl.load(maps + row * C + channel[None, :], mask=place < rows, other=0.0).to(tl.float32) + start
        found = tl.where(raw <= 0, 0.0, tl.dot(slope, weights))  # [R, C]
        tl.store(out + row * C + channel[None, :], found, mask=place < rows)
        to_weights = tl.dot(tl.trans(slope), tl.where(raw <= 0, 0.0, raw).to(maps.dtype.element_ty), to_weights)
        to_bias += found
    tl.store(of_weights + (program * W + one[:, None]) * C + channel[None, :], to_weights)
    tl.store(of_bias + program * C + channel, tl.sum(to_bias, 0))


@triton.jit
def gate(slopes, lit, out, totals, rows, C, W: tl.constexpr, R: tl.constexpr):
    """Slopes [rows, C] where `lit` is above zero, else none, and each program's share of their sums over the rows."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    channel = tl.program_id(1) * W + tl.arange(0, W)
    total = tl.zeros([W], tl.float32)
    for first in range(program * R, rows, programs * R):
        row = (first + tl.arange(0, R)[:, None]).to(tl.int64)
        at, inside = row * C + channel[None, :], (row < rows) & (channel[None, :] < C)
        slope = tl.load(slopes + at, mask=inside, other=0.0).to(tl.float32)
        kept = tl.where(tl.load(lit + at, mask=inside, other=0.0).to(tl.float32) <= 0, 0.0, slope)
        tl.store(out + at, kept, mask=inside)
        total += tl.sum(kept, 0)
    tl.store(totals + program * C + channel, total, mask=channel < C)


@triton.jit
def gated_product(
    slopes, weight, lit, out, totals, rows, K, C, R: tl.constexpr, W: tl.constexpr, D: tl.constexpr
):  # fmt: skip
    """slopes [rows, K] @ weight [K, C] where `lit` [rows, C] is above zero, else none, and its sums over R rows."""
    blocks = tl.cdiv(C, W)  # of channels, side by side: they share the slopes
    block, part = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    channel = block * W + tl.arange(0, W)
    row = part.to(tl.int64) * R + tl.arange(0, R)[:, None]
    inside = (row < rows) & (channel[None, :] < C)
    kept = tl.zeros([R, W], tl.float32)
    for first in range(0, K, D):
        at = first + tl.arange(0, D)
        slope = tl.load(slopes + row * K + at[None, :], mask=(row < rows) & (at[None, :] < K), other=0.0)
        mask = (at[:, None] < K) & (channel[None, :] < C)
        kept = tl.dot(slope, tl.load(weight + at[:, None] * C + channel[None, :], mask=mask, other=0.0), kept)
    kept = tl.where(tl.load(lit + row * C + channel[None, :], mask=inside, other=0.0).to(tl.float32) <= 0, 0.0, kept)
    tl.store(out + row * C + channel[None, :], kept, mask=inside)
    tl.store(totals + part * C + channel, tl.sum(kept, 0), mask=channel < C)


@triton.jit
def patches(
    images, out, rows, high, wide, in_high, in_wide, stride, padding,
    C: tl.constexpr, SIDE: tl.constexpr, N: tl.constexpr, W: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """Rows of N numbers [B * high * wide, N], each a square of an image [B, C, in_high, in_wide], then zeros."""
    row = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    number = tl.arange(0, W)[None, :]
    image, place = row // (high * wide), row % (high * wide)
    y = place // wide * stride - padding + number // (SIDE * C)
    x = place % wide * stride - padding + number // C % SIDE
    inside = (row < rows) & (number < SIDE * SIDE * C) & (y >= 0) & (y < in_high) & (x >= 0) & (x < in_wide)
    start = image.to(tl.int64) * (C * in_high * in_wide)
    pixel = tl.load(images + start + number % C * (in_high * in_wide) + y * in_wide + x, mask=inside, other=0.0)
    tl.store(out + row.to(tl.int64) * N + number, pixel, mask=(row < rows) & (number < N))
