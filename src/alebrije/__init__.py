"""alebrije tells whether a vision model understands a scene as parts that recombine.

The rooms are imported when they are first used, so ``import alebrije`` is instant and does not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alebrije.encoding import Encoding
    from alebrije.report.evaluation import evaluate

__version__ = "0.1.0"

_ROOMS = (
    *("adapters", "data", "metrics", "models", "probes", "render"),
    *("report", "results", "scenes", "studies", "train", "worlds"),
)

_NAMES = {"evaluate": "report.evaluation", "Encoding": "encoding"}  # what is worth typing without its room

__all__ = ["Encoding", "__version__", "evaluate", *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"alebrije.{name}")
    if name in _NAMES:
        return getattr(import_module(f"alebrije.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'alebrije' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
