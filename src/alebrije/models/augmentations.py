"""The augmentations of MoCo v2 on batches of images, on any device.

SimCLR's augmentations as adopted by Chen et al. 2020 ("Improved Baselines with Momentum Contrastive Learning"): crop
and resize, colour jitter, greyscale, blur, flip. `Augmentation` samples the strengths for each image; the functions
apply given strengths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije.errors import InputError

_TRIES = 10  # boxes sampled for a crop before falling back to the whole image
_NO_BLUR = 0.01  # pixels; in float32 a Gaussian this narrow has all its weight on one pixel


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """Random views of images [B, 3, H, W] in 0..1; the defaults are those of MoCo v2.

    - Crop: a box of `smallest_crop` to 1 of the area and aspect ratio 3/4 to 4/3, resized bilinearly to the full size.
    - Colour jitter with probability `jitter_chance`: brightness, contrast and saturation by factors of 1 - `jitter` to
      1 + `jitter`, hue by up to `hue` turns, always in this order. The original samples the order for each image, but
      the first three commute up to clipping, so only the position of hue differs.
    - Greyscale, blur (standard deviation of 0.1 to 2 pixels) and horizontal flip, each with its own probability.

    >>> images = torch.rand(4, 3, 64, 64)
    >>> Augmentation()(images).shape
    torch.Size([4, 3, 64, 64])
    """

    smallest_crop: float = 0.2
    jitter: float = 0.4
    hue: float = 0.1
    jitter_chance: float = 0.8
    grey_chance: float = 0.2
    blur_chance: float = 0.5
    flip_chance: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.smallest_crop <= 1:
            raise InputError(f"smallest_crop must be a share of the area in (0, 1], not {self.smallest_crop}")
        if not 0 <= self.hue <= 0.5:
            raise InputError(f"hue must be in turns, from 0 to 0.5, not {self.hue}")
        for name in ("jitter", "jitter_chance", "grey_chance", "blur_chance", "flip_chance"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} must be from 0 to 1, not {getattr(self, name)}")

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """One random view of each image, in float32; random numbers come from torch's generator of the device."""
        count, device = len(images), images.device

        def uniform(low: float, high: float) -> Tensor:
            return torch.rand(count, device=device) * (high - low) + low

        def chosen(chance: float) -> Tensor:
            return torch.rand(count, device=device) < chance

        # A flip only mirrors the crop, so one resampling does both.
        views = crop(images.float(), random_boxes(count, self.smallest_crop, device), chosen(self.flip_chance))
        jittered = adjust_brightness(views, uniform(1 - self.jitter, 1 + self.jitter))
        jittered = adjust_contrast(jittered, uniform(1 - self.jitter, 1 + self.jitter))
        jittered = adjust_saturation(jittered, uniform(1 - self.jitter, 1 + self.jitter))
        jittered = rotate_hue(jittered, uniform(-self.hue, self.hue))
        views = torch.where(_per_image(chosen(self.jitter_chance)), jittered, views)
        views = torch.where(_per_image(chosen(self.grey_chance)), greyscale(views), views)
        sigmas = torch.where(chosen(self.blur_chance), uniform(0.1, 2.0), _NO_BLUR)
        return gaussian_blur(views, sigmas).clamp(0, 1)  # rounding can make the weights sum to slightly more than one


def random_boxes(count: int, smallest: float, device: torch.device | None = None) -> Tensor:
    """Boxes [B, 4] (left, top, width, height, as shares of a square image) of random area, aspect ratio and position.

    The area is uniform in `smallest` to 1 and the logarithm of width / height is uniform between those of 3/4 and 4/3.
    Of ten samples the first that fits is used, or else the whole image.
    """
    area = torch.rand(count, _TRIES, device=device) * (1 - smallest) + smallest
    log_ratio = (torch.rand(count, _TRIES, device=device) * 2 - 1) * math.log(4 / 3)
    sizes = torch.stack([(area * log_ratio.exp()).sqrt(), (area / log_ratio.exp()).sqrt()], dim=-1)  # [B, tries, 2]
    fits = (sizes <= 1).all(-1)  # [B, tries]
    first = fits.float().argmax(1)
    size = sizes.gather(1, first[:, None, None].expand(-1, -1, 2))[:, 0]  # [B, 2]
    size = torch.where(fits.any(1, keepdim=True), size, 1.0)
    return torch.cat([torch.rand(count, 2, device=device) * (1 - size), size], dim=1)


def crop(images: Tensor, boxes: Tensor, flipped: Tensor | None = None) -> Tensor:
    """Resize boxes [B, 4] (left, top, width, height, as shares of the image) bilinearly to the size of the image.

    Where `flipped` [B] is true, the view is mirrored horizontally.
    """
    height, width = images.shape[2:]
    left, top, wide, high = boxes[:, :, None].unbind(1)  # [B, 1] each
    across = (torch.arange(width, device=images.device) + 0.5) / width  # pixel centres, as shares of the box
    down = (torch.arange(height, device=images.device) + 0.5) / height
    if flipped is not None:
        across = torch.where(flipped[:, None], 1 - across, across)
    x = (2 * (left + wide * across) - 1)[:, None, :].expand(-1, height, -1)  # [B, H, W], -1 to 1 over the image
    y = (2 * (top + high * down) - 1)[:, :, None].expand(-1, -1, width)
    grid = torch.stack([x, y], dim=-1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False).clamp(0, 1)


def greyscale(images: Tensor) -> Tensor:
    """Luma after ITU-R BT.601, 0.299 red + 0.587 green + 0.114 blue, in all three channels."""
    red, green, blue = images.unbind(1)
    return (0.299 * red + 0.587 * green + 0.114 * blue)[:, None].expand_as(images)


def adjust_brightness(images: Tensor, factors: Tensor) -> Tensor:
    """Multiply images by their factors [B], and clip."""
    return (images * _per_image(factors)).clamp(0, 1)


def adjust_contrast(images: Tensor, factors: Tensor) -> Tensor:
    """Blend images with their mean grey (factors [B] below 1) or extrapolate away from it, and clip."""
    return _blend(images, greyscale(images).mean((1, 2, 3), keepdim=True), factors)


def adjust_saturation(images: Tensor, factors: Tensor) -> Tensor:
    """Blend images with their greyscale (factors [B] below 1) or extrapolate away from it, and clip."""
    return _blend(images, greyscale(images), factors)


def rotate_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Rotate the hue (as in HSV) of images by `turns` [B], in full circles."""
    red, green, blue = images.unbind(1)  # [B, H, W]
    value, chroma = images.amax(1), images.amax(1) - images.amin(1)
    divisor = torch.where(chroma > 0, chroma, 1.0)  # grey has no hue, so any divisor will do
    hue = torch.where(
        value == red,
        (green - blue) / divisor,
        torch.where(value == green, (blue - red) / divisor + 2, (red - green) / divisor + 4),
    )  # in sixths of a turn
    hue = hue + 6 * turns[:, None, None]
    sixths = torch.stack([5 + hue, 3 + hue, 1 + hue], dim=1) % 6  # [B, 3, H, W]
    return value[:, None] - chroma[:, None] * torch.minimum(sixths, 4 - sixths).clamp(0, 1)


def gaussian_blur(images: Tensor, sigmas: Tensor) -> Tensor:
    """Blur images with standard deviations [B] in pixels; at the border the weights inside the image sum to one."""
    height, width = images.shape[2:]
    with torch.autocast(images.device.type, enabled=False):  # half precision would cause banding in smooth images
        return _blur_weights(height, sigmas) @ images @ _blur_weights(width, sigmas).mT


def _blur_weights(size: int, sigmas: Tensor) -> Tensor:
    """Weights [B, 1, S, S] of the pixels of a line (columns) in each blurred pixel (rows)."""
    position = torch.arange(size, device=sigmas.device, dtype=sigmas.dtype)
    distance = (position[:, None] - position[None, :]) / sigmas[:, None, None, None]
    return torch.softmax(-0.5 * distance.square(), dim=-1)


def _blend(images: Tensor, others: Tensor, factors: Tensor) -> Tensor:
    return torch.lerp(others.expand_as(images), images, _per_image(factors)).clamp(0, 1)


def _per_image(values: Tensor) -> Tensor:
    """Values [B] as [B, 1, 1, 1]."""
    return values[:, None, None, None]
