"""Errors of images against scikit-image, scikit-learn, torchmetrics and the LPIPS package."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.metrics import mean_squared_error

from alebrije import metrics
from foreign.code import Foreign, Outcome, Row

BACKBONES = {"alex": "alexnet-owt", "vgg": "vgg16", "squeeze": "squeezenet1_1"}


def image_pairs(images: int = 12, size: int = 64) -> list[tuple[Any, Any]]:
    """Targets and predictions [B, 3, H, W], as uint8 and as float in 0..1; the predictions have more and more noise."""
    rng = np.random.default_rng(0)
    target = rng.random((images, 3, size, size))
    noise = rng.normal(size=target.shape) * np.geomspace(1e-3, 1, images)[:, None, None, None]
    predicted = np.clip(target + noise, 0, 1)
    return [((255 * target).astype(np.uint8), (255 * predicted).astype(np.uint8)), (target, predicted)]


def unit(images: Any) -> Any:
    """Images as float in 0..1."""
    return images / 255 if images.dtype == np.uint8 else images


def errors(ours: Any, theirs: Any) -> Outcome:
    """Ours of whole batches, theirs of single images in 0..1."""
    return Outcome(
        [(ours(*pair), [theirs(unit(a), unit(b)) for a, b in zip(*pair, strict=True)]) for pair in image_pairs()]
    )


def torchmetrics_psnr(foreign: Foreign) -> Outcome:
    """PSNR of torchmetrics."""
    score = foreign.module("torchmetrics.functional").peak_signal_noise_ratio
    return errors(metrics.psnr, lambda a, b: float(score(torch.from_numpy(b), torch.from_numpy(a), data_range=1.0)))


def skimage_psnr(foreign: Foreign) -> Outcome:
    """PSNR of scikit-image."""
    score = foreign.module("skimage.metrics").peak_signal_noise_ratio
    return errors(metrics.psnr, lambda a, b: score(a, b, data_range=1.0))


def lpips(foreign: Foreign, network: str) -> Outcome:
    """LPIPS with the published heads and random weights of the classifier, the same tensors on both sides."""
    package = foreign.module("lpips")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = package.LPIPS(net=network, pnet_rand=True, verbose=False).double()
    features = {f"features.{key.partition('.')[2]}": value for key, value in model.net.state_dict().items()}
    heads = {f"lin{k}.model.1.weight": head.model[-1].weight.detach() for k, head in enumerate(model.lins)}
    with tempfile.TemporaryDirectory() as folder:
        save_file(features, Path(folder) / f"{BACKBONES[network]}-random.safetensors")
        save_file(heads, Path(folder) / f"{network}.safetensors")
        pairs = []
        for target, predicted in image_pairs(images=4):
            first, second = (torch.from_numpy(unit(images)).double() for images in (target, predicted))
            theirs = model(first, second, normalize=True).flatten().detach().numpy()
            pairs.append((metrics.lpips(target, predicted, network=network, weights=folder), theirs))
    return Outcome(pairs)


def rows() -> list[Row]:
    """All comparisons of errors of images."""
    text = "12 pairs of images of 64 x 64 pixels, uint8 and float, with more and more noise"
    few = "4 pairs of images of 64 x 64 pixels, uint8 and float"

    def summed(a: Any, b: Any) -> float:
        return float(torch.nn.functional.mse_loss(torch.from_numpy(b), torch.from_numpy(a), reduction="sum"))

    return [
        Row(
            ["mse"],
            "scikit-learn",
            text,
            "",
            lambda _: errors(metrics.mean_squared_error, lambda a, b: mean_squared_error(a.ravel(), b.ravel())),
        ),
        Row(
            ["mse-sum"],
            "torch's mse_loss, summed",
            text,
            "",
            lambda _: errors(lambda a, b: metrics.mean_squared_error(a, b, reduction="sum"), summed),
        ),
        Row(["psnr"], "scikit-image", text, "", skimage_psnr),
        Row(["psnr"], "torchmetrics", text, "", torchmetrics_psnr),
        *(
            Row(
                ["lpips"],
                f"lpips 0.1.4 (PerceptualSimilarity), `{network}`",
                few,
                "published heads, random classifier, float64 on both sides",
                lambda f, n=network: lpips(f, n),
            )
            for network in BACKBONES
        ),
        Row(["gap"], "Kim et al.", remark="we know of no released code"),
        Row(["alpha-efficiency"], "Kim et al.", remark="we know of no released code; its threshold is ours"),
    ]
