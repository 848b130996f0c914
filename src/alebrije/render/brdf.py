"""BRDFs: the lobes of Cycles' shaders that CLEVR's two materials are mixed from.

Each lobe takes cosines between directions (n: normal, l: to the light, v: to the camera, h: half vector) and returns
radiance per irradiance on a surface that faces the light. The cosine of incidence is included.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

Alpha = float | Tensor  # roughness of a microfacet lobe, one number or one per point


def fresnel(cosine: Tensor, index: float) -> Tensor:
    """Share of light that a smooth dielectric of this index of refraction reflects at this cosine."""
    g = (index * index - 1.0 + cosine * cosine).sqrt()
    a = (g - cosine) / (g + cosine)
    b = (cosine * (g + cosine) - 1.0) / (cosine * (g - cosine) + 1.0)
    return 0.5 * a * a * (1.0 + b * b)


def ggx(hx: Tensor, hy: Tensor, hz: Tensor, nl: Tensor, nv: Tensor, alpha: tuple[Alpha, Alpha]) -> Tensor:
    """Anisotropic microfacets after Trowbridge and Reitz; `h` is in the frame of tangent, bitangent and normal."""
    ax, ay = alpha
    density = 1.0 / (math.pi * ax * ay * ((hx / ax).square() + (hy / ay).square() + hz.square()).square())
    square = ax * ay
    to_light = nl / (nl + (square + (1.0 - square) * nl * nl).sqrt())
    to_camera = 1.0 / (nv + (square + (1.0 - square) * nv * nv).sqrt())
    return density * to_light * to_camera


def beckmann(nh: Tensor, nl: Tensor, nv: Tensor, alpha: float) -> Tensor:
    """Microfacets after Beckmann, with Walter's fit of Smith's masking."""
    cosine = nh * nh
    density = torch.exp((1.0 - 1.0 / cosine) / (alpha * alpha)) / (math.pi * alpha * alpha * cosine * cosine)
    return density * _unmasked(nl, alpha) * _unmasked(nv, alpha) / (4.0 * nv)


def _unmasked(cosine: Tensor, alpha: float) -> Tensor:
    a = cosine / (alpha * (1.0 - cosine * cosine).clamp_min(1e-6).sqrt())
    fit = (3.535 * a + 2.181 * a * a) / (1.0 + 2.276 * a + 2.577 * a * a)
    return torch.where(a < 1.6, fit, torch.ones_like(fit))


def velvet(nh: Tensor, nl: Tensor, nv: Tensor, hv: Tensor, sigma: float) -> Tensor:
    """Ashikhmin's velvet: bright at grazing angles."""
    across = (1.0 - nh * nh).clamp_min(1e-4)
    density = torch.exp(-nh * nh / (across * (sigma * sigma))) / (sigma * sigma * math.pi * across * across)
    groove = 2.0 * nh / hv.clamp_min(1e-4)
    masked = torch.minimum(groove * torch.minimum(nv, nl), torch.ones_like(nh))
    return 0.25 * density * masked / nv
