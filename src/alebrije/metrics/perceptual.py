"""LPIPS: the distance of two images in the features of a classifier (Zhang et al. 2018, version 0.1).

The three classifiers are tables of layers, numbered as in torchvision's `features`, whose weight files fit.
The weights are the user's to bring: nothing is downloaded. Files are read as plain tensors: a `.pth` only by
``torch.load(weights_only=True)``, which builds tensors and containers and runs no code that a file may hold.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from alebrije.errors import InputError, UndefinedMetricWarning
from alebrije.metrics.arrays import Array, in_kind
from alebrije.metrics.imagination import check_images, device_of, image_batches, widest_float
from alebrije.metrics.record import register

Network = Literal["alex", "vgg", "squeeze"]
Tensors = Mapping[str, torch.Tensor]
Shapes = dict[str, tuple[int, ...]]

_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)  # ImageNet's statistics on the -1..1 scale
_EPSILON = 1e-10  # added to the length of a feature vector before division
_VALUES_AT_ONCE = 3 << 16  # 4 images of 128 x 128, which keeps VGG near a gigabyte
_SUFFIXES = (".safetensors", ".pth")


@dataclass(frozen=True)
class Conv:
    """A convolution and the ReLU after it, padded by half the kernel unless said otherwise."""

    inputs: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    padding: int | None = None

    def shapes(self, name: str) -> Shapes:
        """The tensors this layer needs, by their names in the weight file."""
        weight = (self.outputs, self.inputs, self.kernel, self.kernel)
        return {f"{name}.weight": weight, f"{name}.bias": (self.outputs,)}

    def apply(self, x: torch.Tensor, tensors: Tensors, name: str) -> torch.Tensor:
        """[B, inputs, H, W] -> [B, outputs, h, w]."""
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        padding = self.kernel // 2 if self.padding is None else self.padding
        return F.relu(F.conv2d(x, weight, bias, stride=self.stride, padding=padding))


@dataclass(frozen=True)
class Fire:
    """SqueezeNet's module: a narrow 1x1 convolution, then a 1x1 and a 3x3 one side by side."""

    inputs: int
    narrow: int
    outputs: int

    @property
    def _parts(self) -> dict[str, Conv]:
        half = self.outputs // 2
        return {
            "squeeze": Conv(self.inputs, self.narrow, 1),
            "expand1x1": Conv(self.narrow, half, 1),
            "expand3x3": Conv(self.narrow, half, 3),
        }

    def shapes(self, name: str) -> Shapes:
        """The tensors this layer needs, by their names in the weight file."""
        needed: Shapes = {}
        for part, conv in self._parts.items():
            needed |= conv.shapes(f"{name}.{part}")
        return needed

    def apply(self, x: torch.Tensor, tensors: Tensors, name: str) -> torch.Tensor:
        """[B, inputs, H, W] -> [B, outputs, H, W]."""
        parts = self._parts
        x = parts["squeeze"].apply(x, tensors, f"{name}.squeeze")  # [B, narrow, H, W]
        sides = [parts[side].apply(x, tensors, f"{name}.{side}") for side in ("expand1x1", "expand3x3")]
        return torch.cat(sides, dim=1)


@dataclass(frozen=True)
class Pool:
    """Max pooling with stride 2."""

    kernel: int
    ceil: bool = False

    def shapes(self, name: str) -> Shapes:
        """Pooling needs no tensors."""
        return {}

    def apply(self, x: torch.Tensor, tensors: Tensors, name: str) -> torch.Tensor:
        """[B, C, H, W] -> [B, C, h, w]."""
        return F.max_pool2d(x, self.kernel, stride=2, ceil_mode=self.ceil)


@dataclass(frozen=True)
class Classifier:
    """A network: the name of its file, its layers by number, which are compared, and the least image side."""

    file: str
    least: int
    layers: Mapping[int, Conv | Fire | Pool]
    taps: tuple[tuple[int, int], ...]  # (layer, its channels)

    @property
    def backbone_shapes(self) -> Shapes:
        """Every tensor needed of the classifier's own file."""
        needed: Shapes = {}
        for number, layer in self.layers.items():
            needed |= layer.shapes(f"features.{number}")
        return needed

    @property
    def head_shapes(self) -> Shapes:
        """Every tensor needed of the file of linear heads."""
        return {_head(k): (1, channels, 1, 1) for k, (_, channels) in enumerate(self.taps)}


def _head(tap: int) -> str:
    return f"lin{tap}.model.1.weight"


_CLASSIFIERS: Mapping[str, Classifier] = {
    "alex": Classifier(
        file="alexnet-owt-*",
        least=31,
        layers={
            0: Conv(3, 64, 11, stride=4, padding=2), 2: Pool(3),
            3: Conv(64, 192, 5), 5: Pool(3),
            6: Conv(192, 384), 8: Conv(384, 256), 10: Conv(256, 256),
        },
        taps=((0, 64), (3, 192), (6, 384), (8, 256), (10, 256)),
    ),
    "vgg": Classifier(
        file="vgg16-*",
        least=16,
        layers={
            0: Conv(3, 64), 2: Conv(64, 64), 4: Pool(2),
            5: Conv(64, 128), 7: Conv(128, 128), 9: Pool(2),
            10: Conv(128, 256), 12: Conv(256, 256), 14: Conv(256, 256), 16: Pool(2),
            17: Conv(256, 512), 19: Conv(512, 512), 21: Conv(512, 512), 23: Pool(2),
            24: Conv(512, 512), 26: Conv(512, 512), 28: Conv(512, 512),
        },
        taps=((2, 64), (7, 128), (14, 256), (21, 512), (28, 512)),
    ),
    "squeeze": Classifier(
        file="squeezenet1_1-*",
        least=17,
        layers={
            0: Conv(3, 64, stride=2, padding=0), 2: Pool(3, ceil=True),
            3: Fire(64, 16, 128), 4: Fire(128, 16, 128), 5: Pool(3, ceil=True),
            6: Fire(128, 32, 256), 7: Fire(256, 32, 256), 8: Pool(3, ceil=True),
            9: Fire(256, 48, 384), 10: Fire(384, 48, 384), 11: Fire(384, 64, 512), 12: Fire(512, 64, 512),
        },
        taps=((0, 64), (4, 128), (7, 256), (9, 384), (10, 384), (11, 512), (12, 512)),
    ),
}  # fmt: skip


@register("lpips", title="Learned perceptual image patch similarity", instrument="imagination",
          inputs=("target", "predicted"), range=(0.0, math.inf), direction="lower",
          cites="Zhang et al. 2018, version 0.1",
          invariances=("sample order", "batch split", "dtype", "device"))  # fmt: skip
def lpips(target: Array, predicted: Array, network: Network = "alex", weights: str | Path | None = None) -> Any:
    """Perceptual distance of each image [B] to its prediction, from 0 (the same) up; images have 3 channels.

    Features are scaled to unit length at every pixel; their squared differences are weighted by channel,
    averaged over pixels and summed over layers (Equation 1 of Zhang et al. 2018), all in float64 (on MPS
    float32). The numbers of Kim et al. 2023 are those of ``network="alex"``.

    Weights are looked for in the folder `weights`, then in torch hub's folder of checkpoints, under their
    published names: the classifier (`alexnet-owt-*`, `vgg16-*`, `squeezenet1_1-*`) and its heads (`alex`,
    `vgg`, `squeeze`, or `lpips_alex` and so on), as `.safetensors` or `.pth`. Without them every value is not
    a number and an `UndefinedMetricWarning` says what was missing.

    >>> lpips(images, images, weights="my/weights")  # doctest: +SKIP
    array([0., 0.])
    """
    if network not in _CLASSIFIERS:
        raise InputError(f"network must be one of {', '.join(map(repr, _CLASSIFIERS))}, got {network!r}")
    classifier = _CLASSIFIERS[network]
    check_images(target, predicted)
    if target.shape[1] != 3 or min(target.shape[2:]) < classifier.least:
        raise InputError(
            f"LPIPS with {network!r} needs images of 3 channels and at least {classifier.least} x "
            f"{classifier.least} pixels, got shape {list(target.shape)}"
        )
    device = device_of(target)
    dtype = widest_float(device)
    files = _find_files(network, _folders(weights))
    if files is None:
        for _ in image_batches(target, predicted):
            pass  # images that would be refused with weights are refused without them
        return in_kind(target, torch.full((len(target),), math.nan, dtype=dtype, device=device))
    tensors = {key: value.to(device, dtype) for key, value in _load(classifier, *files).items()}
    with torch.no_grad():
        batches = image_batches(target, predicted, _VALUES_AT_ONCE)
        return in_kind(target, torch.cat([_distances(classifier, tensors, *pair) for pair in batches]))


def _distances(classifier: Classifier, tensors: Tensors, target: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
    shift, scale = (target.new_tensor(values).view(1, 3, 1, 1) for values in (_SHIFT, _SCALE))
    x = (2 * torch.cat([target, predicted]) - 1 - shift) / scale  # [2B, 3, H, W]
    heads = {layer: tensors[_head(k)] for k, (layer, _) in enumerate(classifier.taps)}
    total = target.new_zeros(len(target))
    for number, layer in classifier.layers.items():
        x = layer.apply(x, tensors, f"features.{number}")  # [2B, C, h, w]
        if number in heads:
            total += _weighted_difference(x, heads[number])
    return total


def _weighted_difference(features: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
    unit = features / (torch.linalg.vector_norm(features, dim=1, keepdim=True) + _EPSILON)
    true, guess = unit.chunk(2)
    return F.conv2d((true - guess).square(), head).mean((1, 2, 3))  # [B, C, h, w] -> [B]


def _folders(weights: str | Path | None) -> list[Path]:
    hub = Path(torch.hub.get_dir()) / "checkpoints"
    if weights is None:
        return [hub]
    if not Path(weights).is_dir():
        raise InputError(f"weights must be a folder that exists, got {str(weights)!r}")
    return [Path(weights), hub]


def weight_files(network: Network = "alex", weights: str | Path | None = None) -> tuple[Path, Path] | None:
    """The files of the classifier and of its heads that `lpips` reads; None if one is nowhere."""
    backbone, heads = (_first_file(names, _folders(weights)) for names in _stems(network))
    return (backbone, heads) if backbone and heads else None


def _stems(network: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (_CLASSIFIERS[network].file,), (network, f"lpips_{network}")


def _find_files(network: str, folders: list[Path]) -> tuple[Path, Path] | None:
    """The files of the classifier and of its heads; if one is nowhere, a warning and None."""
    stems = _stems(network)
    backbone, heads = (_first_file(names, folders) for names in stems)
    if backbone and heads:
        return backbone, heads
    missing = " and ".join(
        " or ".join(name + suffix for name in names for suffix in _SUFFIXES)
        for names, file in zip(stems, (backbone, heads), strict=True)
        if file is None
    )
    places = " or ".join(map(str, folders))
    warnings.warn(
        f"LPIPS is not a number without its weights: there is no {missing} in {places}",
        UndefinedMetricWarning,
        stacklevel=3,
    )
    return None


def _first_file(stems: tuple[str, ...], folders: list[Path]) -> Path | None:
    for folder in folders:
        for stem in stems:
            for suffix in _SUFFIXES:
                for file in sorted(folder.glob(stem + suffix)):
                    return file
    return None


def _load(classifier: Classifier, backbone: Path, heads: Path) -> Tensors:
    """Every tensor the network needs, and none besides."""
    weighting = _take(heads, classifier.head_shapes)
    for key, tensor in weighting.items():
        if bool((tensor < 0).any()):
            raise InputError(f"{heads}: {key} must hold the weights of a distance, but some are negative")
    return _take(backbone, classifier.backbone_shapes) | weighting


def _take(file: Path, shapes: Shapes) -> dict[str, torch.Tensor]:
    """The tensors named in `shapes` from a file, as float64; refuses the first that is missing or unfit."""
    tensors = _read(file)
    taken = {}
    for key, shape in shapes.items():
        if key not in tensors:
            raise InputError(f"{file} lacks the float tensor {key}")
        if tuple(tensors[key].shape) != shape:
            raise InputError(f"{file}: {key} must have shape {list(shape)}, got {list(tensors[key].shape)}")
        taken[key] = tensors[key].detach().double()
        if not bool(taken[key].isfinite().all()):
            raise InputError(f"{file}: {key} must be finite, but holds values that are not")
    return taken


def _read(file: Path) -> dict[str, torch.Tensor]:
    """The dense float tensors of a weight file; code that a file may hold is refused, never run."""
    try:
        if file.suffix == ".safetensors":
            content = load_file(file)
        else:
            content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        kind = type(error).__name__
        raise InputError(f"{file} cannot be read as a file of plain tensors ({kind})") from error
    if not isinstance(content, dict):
        raise InputError(f"{file} must hold tensors by name, got {type(content).__name__}")
    return {key: value for key, value in content.items() if _is_dense_float(value)}


def _is_dense_float(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and value.is_floating_point()
        and not value.is_meta
    )
