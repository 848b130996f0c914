"""Several parts heads of the same shape side by side, and the gradients of their losses.

Their weights are the rows of one tensor. `vmap` computes all heads with the kernels of one. On a GPU, a Triton kernel
renders the points of an image from its parts and computes the gradients, without storing what lies between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from alebrije.kernels import HAS_TRITON
from alebrije.models.head import PartsHead

if TYPE_CHECKING:
    from alebrije.instruments.imagination.parts_training import PartsTraining

_RENDERED = ("from_point", "layers", "colour_and_weight")  # layers that the kernel computes, the last of a head
_MOST_VALUES = 2**13  # hidden values of all points of an image that a program holds
_LEAST_ROWS = 128  # with its eight warps; the kernel that Triton compiles for 64 reads outside of memory on an H200


class StackedHeads:
    """M parts heads, what they learn from, and their weights [M, W].

    Equal images are stored once: the heads of several models learn from the same episodes.
    """

    def __init__(self, trainings: Sequence[PartsTraining]) -> None:
        first = trainings[0]
        named = [dict(each.head.named_parameters()) for each in trainings]
        self.shapes = {name: weight.shape for name, weight in named[0].items()}
        self.weights = torch.stack([torch.cat([w.detach().flatten() for w in each.values()]) for each in named])
        self.codes = torch.stack([each.codes for each in trainings])  # [M, N, D] or [M, N, K, D]
        images = {each.pixels.data_ptr(): each.pixels for each in trainings}
        self.pixels = torch.stack(list(images.values()))  # [A, N, 3, P]
        own = [list(images).index(each.pixels.data_ptr()) for each in trainings]
        self.own = torch.tensor(own, device=self.weights.device)[:, None]
        self.background = torch.stack([each.background for each in trainings])  # [M, P, 3]
        self.points, self.head = first.points, first.head
        self.each = torch.arange(len(trainings), device=self.weights.device)[:, None]
        self.colours = vmap(self._colours)
        self.placed = vmap(self._placed)
        self.kernel = _Kernel(self, first) if _fits(first) else None

    def gradient(self, table: Tensor, row: Tensor) -> Tensor:
        """The gradient [M, W] of the mean squared errors of one step.

        A row of the table has the numbers of the images and of the points of each [M, B, 1 + P].
        """
        weights = {
            name: part.view(len(part), *shape).detach().requires_grad_()
            for (name, shape), part in zip(self.shapes.items(), self.split(self.weights), strict=True)
        }
        drawn = table.index_select(0, row)[0].long()
        codes = self.codes[self.each, drawn[..., 0]]
        if self.kernel is not None:
            return self.kernel.gradient(weights, codes, table, row)
        rows, at = drawn[..., 0], drawn[..., 1:]
        true = self.pixels[self.own[..., None], rows[..., None], :, at].float() / 255  # [M, B, P, 3]
        found = self.colours(weights, codes, self.points[at], self.background[self.each[..., None], at])
        losses = (found - true).square().flatten(1).mean(1)
        gradients = torch.autograd.grad(losses.sum(), list(weights.values()))
        return torch.cat([each.flatten(1) for each in gradients], 1)

    def split(self, weights: Tensor) -> Sequence[Tensor]:
        """The weights of each layer, from all [..., W]."""
        parts: Sequence[Tensor] = torch.split(weights, [shape.numel() for shape in self.shapes.values()], -1)
        return parts

    def _colours(self, weights: Mapping[str, Tensor], codes: Tensor, points: Tensor, ground: Tensor) -> Tensor:
        found: Tensor = functional_call(self.head, dict(weights), (codes, points, ground))
        return found

    def _placed(self, weights: Mapping[str, Tensor], codes: Tensor) -> tuple[Tensor, Tensor]:
        named = {f"head.{name}": weight for name, weight in weights.items()}
        found: tuple[Tensor, Tensor] = functional_call(_Placed(self.head), named, (codes,))
        return found


class _Placed(nn.Module):
    """What the kernel reads of the parts of a code: a map of each to hidden units, and its centre."""

    def __init__(self, head: PartsHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        parts = self.head.parts_of(codes)
        return self.head.from_part(parts), self.head.centre(parts)


def _fits(training: PartsTraining) -> bool:
    """Whether the kernel can be used for heads of this shape."""
    hidden = training.head.from_part.out_features
    parts, places = _padded(training.parts, training.points_per_image)
    values = parts * places * hidden
    usual = len(training.head.layers) == 2 and hidden == _power_of_two(hidden)
    return training.codes.device.type == "cuda" and HAS_TRITON and usual and values <= _MOST_VALUES


class _Kernel:
    """Gradients through the kernel, and the tensors that it writes."""

    def __init__(self, stack: StackedHeads, training: PartsTraining) -> None:
        self.stack, self.places, self.parts = stack, training.points_per_image, training.parts
        self.hidden = training.head.from_part.out_features
        self.before = [
            name for name in stack.shapes if not name.startswith(_RENDERED)
        ]  # layers that it does not compute
        self.tail = sum(shape.numel() for name, shape in stack.shapes.items() if name not in self.before)

    def gradient(self, weights: Mapping[str, Tensor], codes: Tensor, table: Tensor, row: Tensor) -> Tensor:
        """The gradient [M, W]."""
        from alebrije.instruments.imagination import kernels

        stack, frequencies = self.stack, self.stack.head.frequencies
        parts, places = _padded(self.parts, self.places)
        (heads, images), width = codes.shape[:2], stack.weights.shape[1]
        of_parts, centres = stack.placed(weights, codes)  # [M, B, K, H] and [M, B, K, 2]
        of_parts, centres = of_parts.contiguous(), centres.contiguous()
        to_parts, to_centres = torch.empty_like(of_parts), torch.empty_like(centres)
        of_weights = of_parts.new_empty(heads, images, self.tail)
        kernels.points_of_parts[(images, heads)](
            *(table, row, stack.points, stack.background, stack.own, stack.pixels, stack.weights),
            *(of_parts.detach(), centres.detach(), frequencies, to_parts, to_centres, of_weights),
            *(width, self.tail, stack.pixels.shape[1], stack.pixels.shape[3], images, self.places, self.parts),
            2 / (images * self.places * 3),
            H=self.hidden,
            F=len(frequencies),
            J=_power_of_two(2 + 4 * len(frequencies)),
            K=parts,
            P=places,
            num_warps=kernels.WARPS,
        )
        before = [weights[name] for name in self.before]
        gradients = torch.autograd.grad((of_parts, centres), before, (to_parts, to_centres))
        return torch.cat([*(each.flatten(1) for each in gradients), of_weights.sum(1)], 1)


def _padded(parts: int, places: int) -> tuple[int, int]:
    """The parts and points that a program computes for an image, with unused ones."""
    wide = _power_of_two(parts, 1)
    return wide, max(_power_of_two(places), _LEAST_ROWS // wide)


def _power_of_two(number: int, least: int = 16) -> int:
    return max(least, 1 << (number - 1).bit_length())
