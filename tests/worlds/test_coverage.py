"""Coverage of small images agrees with the silhouettes of the renderer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from alebrije import worlds
from alebrije.render.silhouettes import SilhouettePixels
from alebrije.worlds.coverage import coarse_coverage


@pytest.mark.parametrize("world", ["coat", "clevrtex"])
@pytest.mark.parametrize("closer", [1.0, 0.6])
def test_coverage_is_that_of_silhouettes(world: str, closer: float) -> None:
    scenes = worlds.get(world).sample(40, seed=3)
    assert scenes.camera is not None
    scenes = replace(scenes, camera=scenes.camera * closer)
    expected = SilhouettePixels.of(scenes, 40)
    visible, sets = coarse_coverage(scenes, 40)
    np.testing.assert_array_equal(visible, expected.visible().numpy())
    np.testing.assert_array_equal(sets, expected.sets().numpy())
    assert (visible > 0).any()
    assert (sets[:, 3:] > 0).any()
