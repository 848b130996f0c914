"""LPIPS: the distance between two images in the features of a classifier (Zhang et al. 2018, version 0.1).

The three classifiers are tables of layers, numbered as in torchvision's `features`, so torchvision's weight files fit.
Users bring the weights: nothing is downloaded. Files are read as plain tensors. A `.pth` is read only with
``torch.load(weights_only=True)``, which runs no code from the file.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
from torch.func import functional_call

from alebrije.arrays import ArrayOrTensor
from alebrije.errors import InputError
from alebrije.files import WEIGHTS, check_unpacked_size, is_zip, open_regular
from alebrije.metrics.images import check_image_pair, device_of, image_batches, image_metric
from alebrije.metrics.inputs import answer_like, widest_float
from alebrije.metrics.reasons import warn_undefined

Network = Literal["alex", "vgg", "squeeze"]
Tensors = Mapping[str, torch.Tensor]

_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)  # ImageNet's statistics on the -1..1 scale
_EPSILON = 1e-10  # added to the length of a feature vector before division
_VALUES_AT_ONCE = 3 << 16  # 4 images of 128 x 128, which keeps VGG near a gigabyte
_SUFFIXES = (".safetensors", ".pth")


class _Conv(nn.Conv2d):
    """A convolution and a ReLU; the padding is half the kernel by default."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, padding: int | None = None) -> None:
        super().__init__(inputs, outputs, kernel, stride, kernel // 2 if padding is None else padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).relu()


class _Fire(nn.Module):
    """SqueezeNet's module: a narrow 1x1 convolution, then a 1x1 and a 3x3 convolution in parallel."""

    def __init__(self, inputs: int, narrow: int, outputs: int) -> None:
        super().__init__()
        self.squeeze = _Conv(inputs, narrow, 1)
        self.expand1x1 = _Conv(narrow, outputs // 2, 1)
        self.expand3x3 = _Conv(narrow, outputs // 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.squeeze(x)  # [B, narrow, H, W]
        return torch.cat([self.expand1x1(x), self.expand3x3(x)], dim=1)


@dataclass(frozen=True)
class Classifier:
    """A network: its file name, its smallest image side, its layers by number, and the layers that are compared."""

    file: str
    least: int
    layers: Mapping[int, nn.Module]
    taps: tuple[tuple[int, int], ...]  # (layer, its channels)


def _head(tap: int) -> str:
    return f"lin{tap}.model.1.weight"


with torch.device("meta"):  # layers hold no weights of their own
    _CLASSIFIERS: Mapping[str, Classifier] = {
        "alex": Classifier(
            file="alexnet-owt-*",
            least=31,
            layers={
                0: _Conv(3, 64, 11, stride=4, padding=2), 2: nn.MaxPool2d(3, 2),
                3: _Conv(64, 192, 5), 5: nn.MaxPool2d(3, 2),
                6: _Conv(192, 384), 8: _Conv(384, 256), 10: _Conv(256, 256),
            },
            taps=((0, 64), (3, 192), (6, 384), (8, 256), (10, 256)),
        ),
        "vgg": Classifier(
            file="vgg16-*",
            least=16,
            layers={
                0: _Conv(3, 64), 2: _Conv(64, 64), 4: nn.MaxPool2d(2, 2),
                5: _Conv(64, 128), 7: _Conv(128, 128), 9: nn.MaxPool2d(2, 2),
                10: _Conv(128, 256), 12: _Conv(256, 256), 14: _Conv(256, 256), 16: nn.MaxPool2d(2, 2),
                17: _Conv(256, 512), 19: _Conv(512, 512), 21: _Conv(512, 512), 23: nn.MaxPool2d(2, 2),
                24: _Conv(512, 512), 26: _Conv(512, 512), 28: _Conv(512, 512),
            },
            taps=((2, 64), (7, 128), (14, 256), (21, 512), (28, 512)),
        ),
        "squeeze": Classifier(
            file="squeezenet1_1-*",
            least=17,
            layers={
                0: _Conv(3, 64, stride=2, padding=0), 2: nn.MaxPool2d(3, 2, ceil_mode=True),
                3: _Fire(64, 16, 128), 4: _Fire(128, 16, 128), 5: nn.MaxPool2d(3, 2, ceil_mode=True),
                6: _Fire(128, 32, 256), 7: _Fire(256, 32, 256), 8: nn.MaxPool2d(3, 2, ceil_mode=True),
                9: _Fire(256, 48, 384), 10: _Fire(384, 48, 384), 11: _Fire(384, 64, 512), 12: _Fire(512, 64, 512),
            },
            taps=((0, 64), (4, 128), (7, 256), (9, 384), (10, 384), (11, 512), (12, 512)),
        ),
    }  # fmt: skip


@image_metric(
    "lpips",
    title="Learned perceptual image patch similarity",
    range=(0.0, math.inf),
    direction="lower",
    cites="Zhang et al. 2018, version 0.1",
)
def lpips(
    target: ArrayOrTensor, predicted: ArrayOrTensor, network: Network = "alex", weights: str | Path | None = None
) -> Any:
    """Perceptual distance of each image [B] to its prediction, from 0 (equal) up; images have 3 channels.

    Features are scaled to unit length at every pixel. Their squared differences are weighted by channel, averaged over
    pixels and summed over layers (Equation 1 of Zhang et al. 2018), all in float64 (float32 on MPS). The numbers of Kim
    et al. 2023 use ``network="alex"``.

    Weights are searched for in the folder `weights`, then in torch hub's checkpoint folder, by their published names:
    the classifier (`alexnet-owt-*`, `vgg16-*`, `squeezenet1_1-*`) and its heads (`alex`, `vgg`, `squeeze`, or
    `lpips_alex` and so on), as `.safetensors` or `.pth`. Without them every value is NaN, and an
    `UndefinedMetricWarning` names the missing file.

    >>> lpips(images, images, weights="my/weights")  # doctest: +SKIP
    array([0., 0.])
    """
    if network not in _CLASSIFIERS:
        raise InputError(f"network must be one of {', '.join(map(repr, _CLASSIFIERS))}, got {network!r}")
    classifier = _CLASSIFIERS[network]
    check_image_pair(target, predicted)
    if target.shape[1] != 3 or min(target.shape[2:]) < classifier.least:
        raise InputError(
            f"LPIPS with {network!r} needs images of 3 channels and at least {classifier.least} x "
            f"{classifier.least} pixels, got shape {list(target.shape)}"
        )
    device = device_of(target)
    dtype = widest_float(device)
    files = weight_files(network, weights)
    if files is None:
        _warn_of_missing_files(network, _folders(weights))
        for _ in image_batches(target, predicted):
            pass  # bad images are refused with or without weights
        return answer_like(target, torch.full((len(target),), math.nan, dtype=dtype, device=device))
    tensors = {key: value.to(device, dtype) for key, value in _load(classifier, *files).items()}
    with torch.no_grad():
        batches = image_batches(target, predicted, _VALUES_AT_ONCE)
        return answer_like(target, torch.cat([_distances(classifier, tensors, *pair) for pair in batches]))


def _distances(classifier: Classifier, tensors: Tensors, target: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
    shift, scale = (target.new_tensor(values).view(1, 3, 1, 1) for values in (_SHIFT, _SCALE))
    x = (2 * torch.cat([target, predicted]) - 1 - shift) / scale  # [2B, 3, H, W]
    heads = {layer: tensors[_head(k)] for k, (layer, _) in enumerate(classifier.taps)}
    total = target.new_zeros(len(target))
    for number, layer in classifier.layers.items():
        weights = {key: tensors[f"features.{number}.{key}"] for key, _ in layer.named_parameters()}
        x = functional_call(layer, weights, x)  # [2B, C, h, w]
        if number in heads:
            total += _weighted_difference(x, heads[number])
    return total


def _weighted_difference(features: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
    unit = features / (torch.linalg.vector_norm(features, dim=1, keepdim=True) + _EPSILON)
    target, predicted = unit.chunk(2)
    return F.conv2d((target - predicted).square(), head).mean((1, 2, 3))  # [B, C, h, w] -> [B]


def _folders(weights: str | Path | None) -> list[Path]:
    hub = Path(torch.hub.get_dir()) / "checkpoints"
    if weights is None:
        return [hub]
    if not Path(weights).is_dir():
        raise InputError(f"weights must be a folder that exists, got {str(weights)!r}")
    return [Path(weights), hub]


def weight_files(network: Network = "alex", weights: str | Path | None = None) -> tuple[Path, Path] | None:
    """The files of the classifier and of its heads that `lpips` reads; None if either is missing."""
    backbone, heads = (_first_file(stems, _folders(weights)) for stems in _stems(network))
    return (backbone, heads) if backbone and heads else None


def _stems(network: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (_CLASSIFIERS[network].file,), (network, f"lpips_{network}")


def _warn_of_missing_files(network: str, folders: list[Path]) -> None:
    missing = " and ".join(
        " or ".join(stem + suffix for stem in stems for suffix in _SUFFIXES)
        for stems in _stems(network)
        if _first_file(stems, folders) is None
    )
    text = f"LPIPS is NaN without its weights: there is no {missing} in {' or '.join(map(str, folders))}"
    warn_undefined(text)


def _first_file(stems: tuple[str, ...], folders: list[Path]) -> Path | None:
    for folder in folders:
        for stem in stems:
            for suffix in _SUFFIXES:
                for file in sorted(folder.glob(stem + suffix)):
                    return file
    return None


def _load(classifier: Classifier, backbone: Path, heads: Path) -> Tensors:
    """Exactly the tensors that the network needs."""
    weighting = _take(heads, {_head(tap): (1, channels, 1, 1) for tap, (_, channels) in enumerate(classifier.taps)})
    for key, tensor in weighting.items():
        if bool((tensor < 0).any()):
            raise InputError(f"{heads}: {key} must hold the weights of a distance, but some are negative")
    layers = {
        f"features.{number}.{key}": tuple(parameter.shape)
        for number, layer in classifier.layers.items()
        for key, parameter in layer.named_parameters()
    }
    return _take(backbone, layers) | weighting


def _take(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """The tensors named in `shapes` from a file, as float64; an InputError for the first that is missing or wrong."""
    tensors = _read(file)
    taken = {}
    for key, shape in shapes.items():
        if key not in tensors:
            raise InputError(f"{file} lacks the float tensor {key}")
        if tuple(tensors[key].shape) != shape:
            raise InputError(f"{file}: {key} must have shape {list(shape)}, got {list(tensors[key].shape)}")
        taken[key] = tensors[key].detach().double()
        if not bool(taken[key].isfinite().all()):
            raise InputError(f"{file}: {key} must be finite, but some values are NaN or infinite")
    return taken


def _read(file: Path) -> dict[str, torch.Tensor]:
    """The dense float tensors of a weight file; a file that holds code is refused and the code is never run."""
    try:
        with open_regular(file, WEIGHTS) as opened:
            if file.suffix == ".safetensors":
                content = load_file(file)
            else:
                if is_zip(opened):
                    with zipfile.ZipFile(opened) as archive:
                        check_unpacked_size(archive, file, WEIGHTS)
                    opened.seek(0)
                content = torch.load(opened, map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{file} cannot be read as a file of plain tensors ({type(error).__name__})") from error
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
