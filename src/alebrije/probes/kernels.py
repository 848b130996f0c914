"""The Triton kernels of `fused`, imported only on a GPU.

A step of Adam is taken by the programs that compute a tile of the gradient, so gradients are never stored. Products are
computed in float32, or for networks as three products in TF32, which are about as exact and faster there. No sum
depends on how many classifiers there are.
"""

from __future__ import annotations

import triton
import triton.language as tl

TILE = 64  # neurons or hidden units that a program holds at a time
FEW = 32  # hidden units of programs that pass over all neurons: more programs, since each takes long
BETA_1, BETA_2, EPSILON = tl.constexpr(0.9), tl.constexpr(0.999), tl.constexpr(1e-8)


@triton.jit
def adam(weights, means, squares, index, inside, gradient, rate, corrections, number):
    """Take a step of Adam on some weights."""
    weight = tl.load(weights + index, mask=inside, other=0.0)
    mean = tl.load(means + index, mask=inside, other=0.0)
    square = tl.load(squares + index, mask=inside, other=0.0)
    mean += (gradient - mean) * (1 - BETA_1)
    square = square * BETA_2 + gradient * gradient * (1 - BETA_2)
    first, second = tl.load(corrections + 2 * number), tl.load(corrections + 2 * number + 1)
    weight -= rate / first * mean / (tl.sqrt(square / second) + EPSILON)
    tl.store(weights + index, weight, mask=inside)
    tl.store(means + index, mean, mask=inside)
    tl.store(squares + index, square, mask=inside)


@triton.jit
def class_errors(logits, labels, shares, count, K: tl.constexpr):
    """The gradient of the mean cross-entropy with respect to logits [B, K]."""
    known = tl.arange(0, K)[None, :]
    logits = tl.where(known < count, logits, -float("inf"))
    odds = tl.exp(logits - tl.max(logits, 1)[:, None])
    return (odds / tl.sum(odds, 1)[:, None] - (known == labels[:, None])) * shares[:, None]


@triton.jit
def hidden_units(
    number, batches, data, first, active, L, H, batch, B: tl.constexpr, H_TILE: tl.constexpr, L_TILE: tl.constexpr
):  # fmt: skip
    """Active hidden units [M, batch, H]: relu of the rows [batch, L] of this step @ first [M, L, H]."""
    step, model = tl.load(number), tl.program_id(1)
    sample, unit = tl.arange(0, B), tl.program_id(0) * H_TILE + tl.arange(0, H_TILE)
    row = tl.load(batches + step * batch + sample, mask=sample < batch, other=0)
    total = tl.zeros([B, H_TILE], tl.float32)
    for start in range(0, L, L_TILE):
        neuron = start + tl.arange(0, L_TILE)
        codes = tl.load(data + row[:, None] * L + neuron[None, :], mask=neuron[None, :] < L, other=0.0)
        inside = (neuron[:, None] < L) & (unit[None, :] < H)
        weights = tl.load(first + (model * L + neuron[:, None]) * H + unit[None, :], mask=inside, other=0.0)
        total = tl.dot(codes, weights, total, input_precision="tf32x3")
    index = (model * batch + sample[:, None]) * H + unit[None, :]
    tl.store(active + index, tl.maximum(total, 0.0), mask=(sample[:, None] < batch) & (unit[None, :] < H))


@triton.jit
def second_layer(
    number, batches, shares, labels, counts, corrections, rate, active, back,
    second, second_means, second_squares, bias, bias_means, bias_squares,
    models, classes, H, batch, B: tl.constexpr, K: tl.constexpr, H_TILE: tl.constexpr,
):  # fmt: skip
    """A step of the second layer [M, classes, H] and its bias, and the gradient [M, batch, H] of the hidden units."""
    step, model = tl.load(number), tl.program_id(0)
    sample, known = tl.arange(0, B), tl.arange(0, K)
    row = tl.load(batches + step * batch + sample, mask=sample < batch, other=0)
    share = tl.load(shares + step * batch + sample, mask=sample < batch, other=0.0)
    label = tl.load(labels + row * models + model)
    in_bias = known < classes
    logits = tl.zeros([B, K], tl.float32) + tl.load(bias + model * classes + known, mask=in_bias, other=0.0)[None, :]
    for start in range(0, H, H_TILE):
        unit = start + tl.arange(0, H_TILE)
        inside = (sample[:, None] < batch) & (unit[None, :] < H)
        units = tl.load(active + (model * batch + sample[:, None]) * H + unit[None, :], mask=inside, other=0.0)
        inside = (known[None, :] < classes) & (unit[:, None] < H)
        weights = tl.load(second + (model * classes + known[None, :]) * H + unit[:, None], mask=inside, other=0.0)
        logits = tl.dot(units, weights, logits, input_precision="tf32x3")
    error = class_errors(logits, label, share, tl.load(counts + model), K)
    for start in range(0, H, H_TILE):
        unit = start + tl.arange(0, H_TILE)
        inside = (sample[:, None] < batch) & (unit[None, :] < H)
        index = (model * batch + sample[:, None]) * H + unit[None, :]
        units = tl.load(active + index, mask=inside, other=0.0)
        of_weights = (model * classes + known[:, None]) * H + unit[None, :]
        in_weights = in_bias[:, None] & (unit[None, :] < H)
        weights = tl.load(second + of_weights, mask=in_weights, other=0.0)
        gradient = tl.dot(error, weights, input_precision="tf32x3")
        tl.store(back + index, tl.where(units > 0, gradient, 0.0), mask=inside)
        gradient = tl.dot(tl.trans(error), units, input_precision="tf32x3")
        adam(second, second_means, second_squares, of_weights, in_weights, gradient, rate, corrections, step)
    adam(bias, bias_means, bias_squares, model * classes + known, in_bias, tl.sum(error, 0), rate, corrections, step)


@triton.jit
def first_layer(
    number, batches, corrections, rate, data, back, knocked_out, first, means, squares, L, H, batch,
    B: tl.constexpr, H_TILE: tl.constexpr, L_TILE: tl.constexpr,
):  # fmt: skip
    """A step of the first layer [M, L, H]; the weights of a model's knocked-out neuron, if any, stay."""
    step, model = tl.load(number), tl.program_id(2)
    sample = tl.arange(0, B)
    unit, neuron = tl.program_id(0) * H_TILE + tl.arange(0, H_TILE), tl.program_id(1) * L_TILE + tl.arange(0, L_TILE)
    row = tl.load(batches + step * batch + sample, mask=sample < batch, other=0)
    codes = tl.load(data + row[None, :] * L + neuron[:, None], mask=neuron[:, None] < L, other=0.0)  # [L_TILE, B]
    inside = (sample[:, None] < batch) & (unit[None, :] < H)
    errors = tl.load(back + (model * batch + sample[:, None]) * H + unit[None, :], mask=inside, other=0.0)
    gradient = tl.dot(codes, errors, input_precision="tf32x3")
    gradient = tl.where(neuron[:, None] == tl.load(knocked_out + model), 0.0, gradient)
    inside = (neuron[:, None] < L) & (unit[None, :] < H)
    index = (model * L + neuron[:, None]) * H + unit[None, :]
    adam(first, means, squares, index, inside, gradient, rate, corrections, step)


@triton.jit
def linear_errors(
    number, batches, shares, labels, counts, starts, corrections, rate, data, weights, errors,
    bias, bias_means, bias_squares, factors, total, L, batch, B: tl.constexpr, K: tl.constexpr, L_TILE: tl.constexpr,
):  # fmt: skip
    """The gradient [batch, total] of the logits of each factor, and a step of the biases [total]."""
    step, factor = tl.load(number), tl.program_id(0)
    sample, known = tl.arange(0, B), tl.arange(0, K)
    row = tl.load(batches + step * batch + sample, mask=sample < batch, other=0)
    share = tl.load(shares + step * batch + sample, mask=sample < batch, other=0.0)
    label = tl.load(labels + row * factors + factor)
    count, column = tl.load(counts + factor), tl.load(starts + factor) + known
    own = known < count
    logits = tl.zeros([B, K], tl.float32) + tl.load(bias + column, mask=own, other=0.0)[None, :]
    for start in range(0, L, L_TILE):
        neuron = start + tl.arange(0, L_TILE)
        codes = tl.load(data + row[:, None] * L + neuron[None, :], mask=neuron[None, :] < L, other=0.0)
        inside = (neuron[:, None] < L) & own[None, :]
        part = tl.load(weights + neuron[:, None] * total + column[None, :], mask=inside, other=0.0)
        logits = tl.dot(codes, part, logits, input_precision="ieee")
    error = class_errors(logits, label, share, count, K)
    tl.store(errors + sample[:, None] * total + column[None, :], error, mask=(sample[:, None] < batch) & own[None, :])
    adam(bias, bias_means, bias_squares, column, own, tl.sum(error, 0), rate, corrections, step)


@triton.jit
def linear_weights(
    number, batches, corrections, rate, data, errors, weights, means, squares, total, L, batch,
    B: tl.constexpr, K_TILE: tl.constexpr, L_TILE: tl.constexpr,
):  # fmt: skip
    """A step of the weights [L, total] of all factors."""
    step, sample = tl.load(number), tl.arange(0, B)
    neuron, column = tl.program_id(0) * L_TILE + tl.arange(0, L_TILE), tl.program_id(1) * K_TILE + tl.arange(0, K_TILE)
    row = tl.load(batches + step * batch + sample, mask=sample < batch, other=0)
    codes = tl.load(data + row[None, :] * L + neuron[:, None], mask=neuron[:, None] < L, other=0.0)  # [L_TILE, B]
    inside = (sample[:, None] < batch) & (column[None, :] < total)
    error = tl.load(errors + sample[:, None] * total + column[None, :], mask=inside, other=0.0)
    gradient = tl.dot(codes, error, input_precision="ieee")
    inside = (neuron[:, None] < L) & (column[None, :] < total)
    index = neuron[:, None] * total + column[None, :]
    adam(weights, means, squares, index, inside, gradient, rate, corrections, step)
