"""How it learns: one loop, one checkpoint format."""

from alebrije.errors import DivergedError
from alebrije.train.checkpoints import checkpoints, load_weights
from alebrije.train.loop import train
from alebrije.train.recipe import Recipe
from alebrije.train.sources import AllImages, Held, Images, Stream, TaskEpisodes, TaskSources, hold

__all__ = [
    "AllImages",
    "DivergedError",
    "Held",
    "Images",
    "Recipe",
    "Stream",
    "TaskEpisodes",
    "TaskSources",
    "checkpoints",
    "hold",
    "load_weights",
    "train",
]
