"""alebrije tells whether a vision model understands a scene as parts that recombine.

The rooms are imported when they are first used, so ``import alebrije`` is instant and does not load torch.
"""

from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"

_ROOMS = (
    *("adapters", "data", "metrics", "models", "probes", "render"),
    *("report", "results", "scenes", "studies", "train", "worlds"),
)

__all__ = ["__version__", *_ROOMS]


def __getattr__(name: str) -> ModuleType:
    if name in _ROOMS:
        return import_module(f"alebrije.{name}")
    raise AttributeError(f"module 'alebrije' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
