"""The colours of background and objects in SVIB's mask images.

| world | background | object 0 | object 1 | edges |
|---|---|---|---|---|
| CLEVR | (64, 64, 64) | (0, 0, 0) | (255, 0, 0) | exact |
| CLEVRTex | (0, 0, 0) | (227, 0, 0) | (0, 227, 0) | anti-aliased |
| dSprites, none released; as the released code writes them | (0, 0, 0) | (255, 0, 0) | (0, 0, 255) | anti-aliased |

Released scenes have two objects. Further objects get the corners and middles of the colour cube, in the order of
`itertools.product((0, 255, 128), repeat=3)`, except those closer than 64 to a colour in use.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numpy as np

from alebrije.arrays import Bytes
from alebrije.errors import InputError
from alebrije.scenes import Vocabulary

Color = tuple[int, int, int]

_SOLID: tuple[Color, ...] = ((64, 64, 64), (0, 0, 0), (255, 0, 0))
_FLAT: tuple[Color, ...] = ((0, 0, 0), (255, 0, 0), (0, 0, 255))
_BY_NAME: dict[str, tuple[Color, ...]] = {"clevrtex": ((0, 0, 0), (227, 0, 0), (0, 227, 0))}


def is_solid(vocabulary: Vocabulary) -> bool:
    """Whether a world's objects are solid, which means that they have a material."""
    return "material" in vocabulary


def mask_palette(vocabulary: Vocabulary, objects: int) -> Bytes:
    """The colours [objects + 1, 3] of the background and of every object of a world.

    >>> from alebrije.worlds.vocabularies import CLEVR
    >>> mask_palette(CLEVR, 3).tolist()
    [[64, 64, 64], [0, 0, 0], [255, 0, 0], [0, 0, 255]]
    """
    colors = _extended(_BY_NAME.get(vocabulary.name, _SOLID if is_solid(vocabulary) else _FLAT))
    if objects + 1 > len(colors):
        raise InputError(f"masks of {vocabulary.name} have colours for {len(colors) - 1} objects, not for {objects}")
    return np.array(colors[: objects + 1], np.uint8)


@cache
def _extended(released: tuple[Color, ...]) -> tuple[Color, ...]:
    colors = list(released)
    for color in product((0, 255, 128), (0, 255, 128), (0, 255, 128)):
        if min(math.dist(color, taken) for taken in colors) >= 64:
            colors.append(color)
    return tuple(colors)


def color_mask(labels: Bytes, palette: Bytes) -> Bytes:
    """Labels [H, W] as an image [H, W, 3]."""
    if labels.size and int(labels.max()) >= len(palette):
        raise InputError(f"a mask has the label {int(labels.max())} in a scene of {len(palette) - 1} objects")
    return palette[labels]


def mask_labels(image: Bytes, palette: Bytes, *, exact: bool) -> Bytes:
    """An image [H, W, 3] as labels [H, W], by the nearest colour; with `exact` other colours raise an InputError.

    The released code also used the nearest colour to count visible pixels. In CLEVRTex it puts the border between
    object and background where the colour passes 113.5.
    """
    apart = image[..., None, :].astype(np.int32) - palette.astype(np.int32)  # [H, W, K, 3]
    distance = (apart**2).sum(axis=-1)
    if exact and distance.min(axis=-1).any():
        color = tuple(int(channel) for channel in image[distance.min(axis=-1) > 0][0])
        raise InputError(f"the mask has the colour {color}, which is neither the background nor an object")
    return np.asarray(distance.argmin(axis=-1)).astype(np.uint8)


def is_exact(vocabulary: Vocabulary) -> bool:
    """Whether the released masks of a world have no mixed colours at edges."""
    return is_solid(vocabulary) and vocabulary.name not in _BY_NAME
