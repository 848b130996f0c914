"""alebrije tells whether a vision model understands a scene as parts that recombine.

Rooms are imported when they are first used, so ``import alebrije`` is instant and does not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

from alebrije.evaluate import evaluate  # light: it loads torch only when it is called

if TYPE_CHECKING:
    from alebrije.encoding import Encoding

_ROOMS = (
    *("adapters", "data", "demo", "instruments", "metrics", "models", "probes", "render"),
    *("report", "results", "scenes", "scoring", "sheets", "studies", "train", "worlds", "zoo"),
)

__all__ = ["Encoding", "__version__", "evaluate", *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"alebrije.{name}")
    if name == "Encoding":
        return import_module("alebrije.encoding").Encoding
    raise AttributeError(f"module 'alebrije' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
