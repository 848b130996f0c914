"""The Triton kernels of `fused`, imported only on a GPU."""

from __future__ import annotations

import triton
import triton.language as tl

ROWS = 128  # rows that a program holds at a time
FEW = 64  # rows of kernels that hold more values per row
MANY = 512  # rows of kernels that hold fewer values per row


@triton.jit
def forward(maps, bias, weight, offset, sums, rows, C: tl.constexpr, S: tl.constexpr, R: tl.constexpr, W: tl.constexpr):
    """Compute relu(maps + bias) [rows, C] @ weight.T plus offset, R rows of [rows, S] per program."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
    channel, col = tl.arange(0, C), tl.arange(0, W)
    hidden = tl.load(maps + row * C + channel[None, :], mask=row < rows, other=0.0).to(tl.float32)
    hidden += tl.load(bias + channel)[None, :]
    hidden = tl.where(hidden <= 0, 0.0, hidden)  # NaN stays NaN, so that diverged training is noticed
    weights = tl.load(weight + col[None, :] * C + channel[:, None], mask=col[None, :] < S, other=0.0)  # [C, W]
    result = tl.dot(hidden.to(maps.dtype.element_ty), weights.to(maps.dtype.element_ty))
    if offset is not None:
        result += tl.load(offset + col, mask=col < S, other=0.0)[None, :]
    tl.store(sums + row * S + col[None, :], result, mask=(row < rows) & (col[None, :] < S))


@triton.jit
def gather(sums, offset, out, rows, high, wide, S: tl.constexpr, K: tl.constexpr, R: tl.constexpr, W: tl.constexpr):
    """Outputs [rows, S] of a K x K convolution, from the contributions of each pixel [rows, K * K * S]."""
    pixel, col = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, W)[None, :]
    row, inside = pixel.to(tl.int64), (pixel < rows) & (col < S)
    x, y = pixel % wide, pixel // wide % high
    total = tl.load(offset + col, mask=col < S, other=0.0) + tl.zeros([R, W], tl.float32)
    for tap in tl.static_range(K * K):
        down, right = tap // K - K // 2, tap % K - K // 2
        in_map = (y + down >= 0) & (y + down < high) & (x + right >= 0) & (x + right < wide)
        index = (row + down * wide + right) * (K * K * S) + tap * S + col
        total += tl.load(sums + index, mask=inside & in_map, other=0.0).to(tl.float32)
    tl.store(out + row * S + col, total, mask=inside)


@triton.jit
def backward(
    grads, maps, bias, weight, out, grad_weights, grad_bias, rows, high, wide,
    C: tl.constexpr, S: tl.constexpr, K: tl.constexpr, R: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Gradient [rows, C] of the maps, and each program's share of the gradients of weights and bias."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    channel, col = tl.arange(0, C), tl.arange(0, W)
    weights = tl.load(weight + col[:, None] * C + channel[None, :], mask=col[:, None] < K * K * S, other=0.0)  # [W, C]
    weights = weights.to(maps.dtype.element_ty)
    start = tl.load(bias + channel)[None, :]
    down, right = K // 2 - col // S // K, K // 2 - col // S % K  # the neighbour that a pixel contributes to
    # A pixel on an edge has no neighbour beyond it: one bit per edge. Bit 16, set in all rows, masks columns past the
    # last; bit 32, set in all columns, masks rows past the last.
    missing = (down == -1) * 1 | (down == 1) * 2 | (right == -1) * 4 | (right == 1) * 8
    missing = tl.where(col < K * K * S, missing | 32, 16 | 32)[None, :]
    neighbour = (col % S + (down * wide + right) * S)[None, :]
    weights_total = tl.zeros([W, C], tl.float32)
    bias_total = tl.zeros([R, C], tl.float32)  # summed over rows at the end, so that threads need not wait
    for first in range(program * R, rows, programs * R):
        pixel = first + tl.arange(0, R)[:, None]
        row = pixel.to(tl.int64)
        edges = tl.where(pixel < rows, 16, 16 | 32)
        if K > 1:
            x, y = pixel % wide, pixel // wide % high
            edges = edges | (y == 0) * 1 | (y == high - 1) * 2 | (x == 0) * 4 | (x == wide - 1) * 8
        grad = tl.load(grads + row * S + neighbour, mask=(edges & missing) == 0, other=0.0)  # [R, W]
        raw = tl.load(maps + row * C + channel[None, :], mask=pixel < rows, other=0.0).to(tl.float32) + start
        result = tl.where(raw <= 0, 0.0, tl.dot(grad, weights))  # [R, C]
        tl.store(out + row * C + channel[None, :], result, mask=pixel < rows)
        weights_total = tl.dot(tl.trans(grad), tl.where(raw <= 0, 0.0, raw).to(maps.dtype.element_ty), weights_total)
        bias_total += result
    tl.store(grad_weights + (program * W + col[:, None]) * C + channel[None, :], weights_total)
    tl.store(grad_bias + program * C + channel, tl.sum(bias_total, 0))


@triton.jit
def relu_backward(grads, after, out, totals, rows, C, W: tl.constexpr, R: tl.constexpr):
    """Gradients [rows, C] where the output `after` is above zero, else zero, and each program's share of their sums."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    channel = tl.program_id(1) * W + tl.arange(0, W)
    total = tl.zeros([W], tl.float32)
    for first in range(program * R, rows, programs * R):
        row = (first + tl.arange(0, R)[:, None]).to(tl.int64)
        index, inside = row * C + channel[None, :], (row < rows) & (channel[None, :] < C)
        grad = tl.load(grads + index, mask=inside, other=0.0).to(tl.float32)
        kept = tl.where(tl.load(after + index, mask=inside, other=0.0).to(tl.float32) <= 0, 0.0, grad)
        tl.store(out + index, kept, mask=inside)
        total += tl.sum(kept, 0)
    tl.store(totals + program * C + channel, total, mask=channel < C)


@triton.jit
def matmul_relu_backward(
    grads, weight, after, out, totals, rows, K, C, R: tl.constexpr, W: tl.constexpr, D: tl.constexpr
):  # fmt: skip
    """grads [rows, K] @ weight [K, C] where the output `after` [rows, C] is above zero, and its sums over R rows."""
    blocks = tl.cdiv(C, W)  # blocks of channels, side by side: they share the gradients
    block, part = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    channel = block * W + tl.arange(0, W)
    row = part.to(tl.int64) * R + tl.arange(0, R)[:, None]
    inside = (row < rows) & (channel[None, :] < C)
    kept = tl.zeros([R, W], tl.float32)
    for first in range(0, K, D):
        index = first + tl.arange(0, D)
        grad = tl.load(grads + row * K + index[None, :], mask=(row < rows) & (index[None, :] < K), other=0.0)
        mask = (index[:, None] < K) & (channel[None, :] < C)
        kept = tl.dot(grad, tl.load(weight + index[:, None] * C + channel[None, :], mask=mask, other=0.0), kept)
    kept = tl.where(tl.load(after + row * C + channel[None, :], mask=inside, other=0.0).to(tl.float32) <= 0, 0.0, kept)
    tl.store(out + row * C + channel[None, :], kept, mask=inside)
    tl.store(totals + part * C + channel, tl.sum(kept, 0), mask=channel < C)


@triton.jit
def patches(
    images, out, rows, high, wide, in_high, in_wide, stride, padding,
    C: tl.constexpr, SIDE: tl.constexpr, N: tl.constexpr, W: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """Patches [B * high * wide, N] of images [B, C, in_high, in_wide], zero-padded to N values."""
    row = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    tap = tl.arange(0, W)[None, :]
    image, pixel = row // (high * wide), row % (high * wide)
    y = pixel // wide * stride - padding + tap // (SIDE * C)
    x = pixel % wide * stride - padding + tap // C % SIDE
    inside = (row < rows) & (tap < SIDE * SIDE * C) & (y >= 0) & (y < in_high) & (x >= 0) & (x < in_wide)
    start = image.to(tl.int64) * (C * in_high * in_wide)
    value = tl.load(images + start + tap % C * (in_high * in_wide) + y * in_wide + x, mask=inside, other=0.0)
    tl.store(out + row.to(tl.int64) * N + tap, value, mask=(row < rows) & (tap < N))
