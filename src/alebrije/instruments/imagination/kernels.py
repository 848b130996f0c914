"""The Triton kernel of `parts_training`, imported only on a GPU."""

from __future__ import annotations

import triton
import triton.language as tl

WARPS = 8
PRECISION = tl.constexpr("tf32x3")  # of products: three in TF32, together about as exact as float32
FEW = tl.constexpr(16)  # the smallest side of a product


@triton.jit
def column(table, index, number, K: tl.constexpr, P: tl.constexpr):
    """A column of a table [K * P, ...], as [K, P]."""
    return tl.reshape(tl.sum(tl.where(index[None, :] == number, table, 0.0), 1), (K, P))


@triton.jit
def multiply(left, right):
    """A product in nearly float32."""
    return tl.dot(left, right, input_precision=PRECISION)


@triton.jit
def points_of_parts(
    table, row, points, background, own, pixels, weights, of_parts, centres, frequencies,
    grad_parts, grad_centres, grad_weights, width, tail, corpus, count, images, places, parts, scale,
    H: tl.constexpr, F: tl.constexpr, J: tl.constexpr, K: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """The gradients of the loss of one image and one head, through `PartsHead.render` with two layers.

    `of_parts` [M, B, parts, H] and `centres` [M, B, parts, 2] are maps of the parts. The render weights of head m are
    the last `tail` of its row of `weights` [M, width]: from_point [H, 2 + 4F], two layers [H, H] with biases, and
    colour_and_weight [4, H] with its bias; `grad_weights` [M, B, tail] are laid out in the same way. The true images
    are number `own` [M] of `pixels` [A, corpus, 3, count].
    """
    head, image = tl.program_id(1), tl.program_id(0)
    program = head * images + image
    k, p, h, j, four = tl.arange(0, K), tl.arange(0, P), tl.arange(0, H), tl.arange(0, J), tl.arange(0, FEW)
    part, place = tl.arange(0, K * P) // P, tl.arange(0, K * P) % P  # of each row
    known, shown = part < parts, place < places
    inside = (k[:, None] < parts) & (p[None, :] < places)

    drawn = table + (tl.load(row) * tl.num_programs(1) * images + program) * (1 + places)
    at = tl.load(drawn + 1 + place, mask=shown, other=0)
    x, y = tl.load(points + 2 * at), tl.load(points + 2 * at + 1)
    x -= tl.load(centres + (program * parts + part) * 2, mask=known, other=0.0)
    y -= tl.load(centres + (program * parts + part) * 2 + 1, mask=known, other=0.0)
    frequency = tl.load(frequencies + (j - 2) % F, mask=j >= 2, other=0.0)[None, :]
    along_x = tl.where(j < 2, j == 0, (j - 2) // F % 2 == 0)[None, :]
    offset = tl.where(along_x, x[:, None], y[:, None])
    is_sine, is_cosine = (j >= 2) & (j < 2 + 2 * F), (j >= 2 + 2 * F) & (j < 2 + 4 * F)
    sine, cosine = tl.sin(offset * frequency), tl.cos(offset * frequency)
    where = tl.where(is_sine[None, :], sine, tl.where(is_cosine[None, :], cosine, 0.0))
    where = tl.where((j < 2)[None, :], offset, where)  # [K * P, J]

    start = weights + head * width + (width - tail)
    size: tl.constexpr = 2 + 4 * F
    of_first, of_second, of_last = H * size, H * size + H * H + H, H * size + 2 * (H * H + H)
    from_point = tl.load(start + h[:, None] * size + j[None, :], mask=j[None, :] < size, other=0.0)  # [H, J]
    first = tl.load(start + of_first + h[:, None] * H + h[None, :])
    second = tl.load(start + of_second + h[:, None] * H + h[None, :])
    last = tl.load(start + of_last + four[:, None] * H + h[None, :], mask=four[:, None] < 4, other=0.0)  # [FEW, H]
    index = (program * parts + part[:, None]) * H + h[None, :]
    zero = multiply(where, tl.trans(from_point)) + tl.load(of_parts + index, mask=known[:, None], other=0.0)
    zero = tl.maximum(zero, 0.0)
    one = tl.maximum(multiply(zero, tl.trans(first)) + tl.load(start + of_first + H * H + h)[None, :], 0.0)
    two = tl.maximum(multiply(one, tl.trans(second)) + tl.load(start + of_second + H * H + h)[None, :], 0.0)
    output = multiply(two, tl.trans(last)) + tl.load(start + of_last + 4 * H + four, mask=four < 4, other=0.0)[None, :]

    logits = tl.where(inside, column(output, four, 3, K, P), -float("inf"))
    most = tl.maximum(tl.max(logits, 0), 0.0)
    odds, behind = tl.exp(logits - most[None, :]), tl.exp(-most)
    total = tl.sum(odds, 0) + behind
    share, behind = odds / total[None, :], behind / total
    at = tl.load(drawn + 1 + p, mask=p < places, other=0)
    pixel = pixels + (tl.load(own + head) * corpus + tl.load(drawn)) * 3 * count + at
    grad_share, grad_behind = tl.zeros([K, P], tl.float32), tl.zeros([P], tl.float32)
    grad_output = tl.zeros([K * P, FEW], tl.float32)
    for channel in tl.static_range(3):
        colour = column(output, four, channel, K, P)
        ground = tl.load(background + (head * count + at) * 3 + channel, mask=p < places, other=0.0)
        true = tl.load(pixel + channel * count, mask=p < places, other=0).to(tl.float32) / 255
        error = tl.where(p < places, tl.sum(share * colour, 0) + behind * ground - true, 0.0)
        error *= scale
        grad_share += error[None, :] * colour
        grad_behind += error * ground
        grad_colour = tl.reshape(share * error[None, :], (K * P,))
        grad_output += tl.where(four[None, :] == channel, grad_colour[:, None], 0.0)
    mean = tl.sum(share * grad_share, 0) + behind * grad_behind
    grad_logits = tl.reshape(tl.where(inside, share * (grad_share - mean[None, :]), 0.0), (K * P,))
    grad_output += tl.where(four[None, :] == 3, grad_logits[:, None], 0.0)

    out = grad_weights + program * tail
    tl.store(
        out + of_last + four[:, None] * H + h[None, :], multiply(tl.trans(grad_output), two), mask=four[:, None] < 4
    )
    tl.store(out + of_last + 4 * H + four, tl.sum(grad_output, 0), mask=four < 4)
    grad = tl.where(two > 0, multiply(grad_output, last), 0.0)
    tl.store(out + of_second + h[:, None] * H + h[None, :], multiply(tl.trans(grad), one))
    tl.store(out + of_second + H * H + h, tl.sum(grad, 0))
    grad = tl.where(one > 0, multiply(grad, second), 0.0)
    tl.store(out + of_first + h[:, None] * H + h[None, :], multiply(tl.trans(grad), zero))
    tl.store(out + of_first + H * H + h, tl.sum(grad, 0))
    grad = tl.where(zero > 0, multiply(grad, first), 0.0)  # [K * P, H]
    tl.store(out + h[:, None] * size + j[None, :], multiply(tl.trans(grad), where), mask=j[None, :] < size)
    summed = tl.sum(tl.reshape(grad, (K, P, H)), 1)
    tl.store(grad_parts + (program * parts + k[:, None]) * H + h[None, :], summed, mask=k[:, None] < parts)
    change = tl.where(is_sine[None, :], cosine * frequency, tl.where(is_cosine[None, :], -sine * frequency, 0.0))
    change = tl.where((j < 2)[None, :], 1.0, change) * multiply(grad, from_point)
    to = grad_centres + (program * parts + k) * 2
    of_x, of_y = tl.sum(tl.where(along_x, change, 0.0), 1), tl.sum(tl.where(along_x, 0.0, change), 1)
    tl.store(to, -tl.sum(tl.reshape(of_x, (K, P)), 1), mask=k < parts)
    tl.store(to + 1, -tl.sum(tl.reshape(of_y, (K, P)), 1), mask=k < parts)
