"""BRDFs: radiance per irradiance on a surface that faces the light; see `alebrije.render.brdf`."""

from __future__ import annotations

import triton
import triton.language as tl

from alebrije.render.gpu.vectors import clamp

SMALLEST: tl.constexpr = tl.constexpr(0.18 * 2.0**-12.473931188)  # radiance that is shown black
PI: tl.constexpr = tl.constexpr(3.141592653589793)


@triton.jit
def fresnel(cosine, index):
    """Share of light that a smooth dielectric of this index of refraction reflects at this cosine."""
    g = tl.sqrt(index * index - 1.0 + cosine * cosine)
    a = (g - cosine) / (g + cosine)
    b = (cosine * (g + cosine) - 1.0) / (cosine * (g - cosine) + 1.0)
    return 0.5 * a * a * (1.0 + b * b)


@triton.jit
def ggx(hx, hy, hz, nl, nv, ax, ay):
    """Anisotropic microfacets after Trowbridge and Reitz."""
    part = hx / ax * (hx / ax) + hy / ay * (hy / ay) + hz * hz
    density = 1.0 / (PI * ax * ay * (part * part))
    square = ax * ay
    to_light = nl / (nl + tl.sqrt(square + (1.0 - square) * nl * nl))
    to_camera = 1.0 / (nv + tl.sqrt(square + (1.0 - square) * nv * nv))
    return density * to_light * to_camera


@triton.jit
def beckmann(nh, nl, nv, alpha):
    """Microfacets after Beckmann, with Walter's fit of Smith's masking."""
    cosine = nh * nh
    density = tl.exp((1.0 - 1.0 / cosine) / (alpha * alpha)) / (PI * alpha * alpha * cosine * cosine)
    return density * unmasked(nl, alpha) * unmasked(nv, alpha) / (4.0 * nv)


@triton.jit
def unmasked(cosine, alpha):
    """Smith's masking."""
    a = cosine / (alpha * tl.sqrt(tl.maximum(1.0 - cosine * cosine, 1e-6)))
    fit = (3.535 * a + 2.181 * a * a) / (1.0 + 2.276 * a + 2.577 * a * a)
    return tl.where(a < 1.6, fit, 1.0)


@triton.jit
def velvet(nh, nl, nv, hv, sigma):
    """Ashikhmin's velvet: bright at grazing angles."""
    across = tl.maximum(1.0 - nh * nh, 1e-4)
    density = tl.exp(-nh * nh / (across * (sigma * sigma))) / (sigma * sigma * PI * across * across)
    groove = 2.0 * nh / tl.maximum(hv, 1e-4)
    masked = tl.minimum(groove * tl.minimum(nv, nl), 1.0)
    return 0.25 * density * masked / nv


@triton.jit
def sigmoid(value):
    """The logistic function."""
    return 1.0 / (1.0 + tl.exp(-value))


@triton.jit
def srgb(linear):
    """The sRGB transfer function."""
    clipped = clamp(linear, 0.0, 1.0)
    curve = 1.055 * tl.exp2(tl.log2(tl.maximum(clipped, 1e-6)) * (1 / 2.4)) - 0.055
    return tl.where(clipped <= 0.0031308, clipped * 12.92, curve)


@triton.jit
def filmic(linear):
    """Blender's Filmic view with Very High Contrast."""
    stops = tl.minimum(tl.log2(tl.maximum(linear, SMALLEST) / 0.18), 6.5)
    log_odds = ((((4.081e-05 * stops + 2.632e-04) * stops + 2.447e-04) * stops + 6.436e-05) * stops + 0.8358) * stops
    return sigmoid(log_odds + 2.247e-03)
