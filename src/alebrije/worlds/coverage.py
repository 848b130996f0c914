"""Which objects cover the pixels of small images: a coarse look at thousands of sampled scenes."""

from __future__ import annotations

import numpy as np
import torch

from alebrije.arrays import Floats, Integers
from alebrije.scenes import Scenes


def coarse_coverage(scenes: Scenes, size: int) -> tuple[Integers, Floats]:
    """The number of visible pixels of each object [B, N], and of pixels that each set of them covers [B, 2 ** N].

    The same numbers as `SilhouettePixels` for images of at most 40 pixels a side, but pixels beside the outline of an
    object's bounding sphere are not tried. In larger images the bound there could cut off a corner of a near object.
    """
    from alebrije.render.rays import intersect, view_rays
    from alebrije.render.stage import HALF_WIDTH, build_stage
    from alebrije.worlds.covering import bounded_pixels, count_pixels

    stage = build_stage(scenes)
    cameras = np.stack([part.numpy() for part in (stage.camera, stage.right, stage.up, stage.forward)])
    spheres = stage.centre.numpy(), stage.reach.numpy(), stage.kind.numpy()
    instance, pixel = bounded_pixels(cameras, *spheres, size, HALF_WIDTH)
    owner, inner = torch.from_numpy(instance), torch.from_numpy(pixel)
    scene, row = stage.scene_of(owner), inner.div(size, rounding_mode="floor")
    direction = view_rays(stage, scene, inner - row * size + 0.5, row + 0.5, size)
    depth = intersect(stage, owner, stage.camera.index_select(1, scene), direction)
    return count_pixels(stage.scenes, stage.objects, size * size, instance, pixel, depth.numpy())
