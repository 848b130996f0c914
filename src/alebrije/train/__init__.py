"""Training: one loop, one checkpoint format.

`plan.plan` makes a plan, `run.run_plan` carries it out in a folder, `loop.train` takes the steps.
"""

from alebrije.errors import DivergedError
from alebrije.train.checkpoint import checkpoints, load_weights
from alebrije.train.loop import train
from alebrije.train.options import RunOptions
from alebrije.train.preloading import preload
from alebrije.train.recipe import Recipe
from alebrije.train.scene_sets import AllImages, Images, TaskEpisodes, TaskSources
from alebrije.train.sources import PreloadedSource, StreamedSource

__all__ = [
    "AllImages",
    "DivergedError",
    "Images",
    "PreloadedSource",
    "Recipe",
    "RunOptions",
    "StreamedSource",
    "TaskEpisodes",
    "TaskSources",
    "checkpoints",
    "load_weights",
    "preload",
    "train",
]
