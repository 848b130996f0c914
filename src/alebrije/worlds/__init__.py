"""Worlds: each world's vocabulary, sampler and renderer; tasks and analogies.

>>> from alebrije import worlds
>>> world = worlds.get("sprites")
>>> frames = world.render(world.sample(2), size=64)
>>> frames.images.shape, frames.masks.shape
(torch.Size([2, 3, 64, 64]), torch.Size([2, 64, 64]))
>>> task = worlds.task("sprites", "M-NA", alpha=0.4)
>>> len(task.train(10)), len(task.test(5))
(10, 5)
"""

from alebrije.worlds.analogies import Analogies, analogies
from alebrije.worlds.samplers import Grid, Sampler
from alebrije.worlds.task import Task, task
from alebrije.worlds.world import World, get, names

__all__ = ["Analogies", "Grid", "Sampler", "Task", "World", "analogies", "get", "names", "task"]
