"""Checks of numbers, devices and images that users pass in, with one sentence for each mistake."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import operator
import types
import typing
from collections import abc
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from alebrije.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])

# the least value of whole numbers with these names
_LEAST = {
    "seed": 0,
    "bins": 1,
    "train": 1,
    "test": 1,
    "batch": 1,
    "batch_size": 1,
    "steps": 0,
}
# the largest value of whole numbers with these names: more would never end, or not fit into any memory
_MOST = {
    "seed": 2**63 - 1,
    "bins": 10**6,
    "train": 10**9,
    "test": 10**9,
    "batch": 10**7,
    "batch_size": 10**9,
    "hidden": 10**6,
    "epochs": 10**7,
    "steps": 10**9,
    "group": 10**9,
}
IMAGE_SHAPES = {"images": "[B, 3, H, W]", "videos": "[B, T, 3, H, W]", "views": "[B, V, 3, H, W]"}
_OVERSHOOT = 0.01  # resizing or an autoencoder may push floats slightly outside 0..1


def whole_number(name: str, value: Any, least: int | None = 0) -> int:
    """`value` as an int; an InputError if it is not a whole number or is less than `least`, where that is not None.

    >>> whole_number("limit", 3, least=1)
    3
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        found = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, not {_shown(value)}") from None
    if least is not None and found < least:
        raise InputError(f"{name} must be at least {least}, not {found}")
    return found


def check_array(name: str, value: Any) -> None:
    """Raise an InputError unless `value` is a numpy array or a torch tensor.

    >>> import numpy as np
    >>> check_array("codes", np.zeros((2, 3)))
    """
    import numpy as np
    import torch

    if not isinstance(value, (np.ndarray, torch.Tensor)):
        raise InputError(f"{name} must be a numpy array or a torch tensor, got {type(value).__name__}")


def number(name: str, value: Any) -> float:
    """`value` as a float; an InputError if it is not a finite number.

    >>> number("level", 0.5)
    0.5
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"{name} must be a number, not {_shown(value)}")
    try:
        found = float(value)
    except OverflowError:  # of a whole number
        found = math.inf
    if not math.isfinite(found):
        raise InputError(f"{name} must be a finite number, not {_shown(value)}")
    return found


def checked(function: F) -> F:
    """The function with the types of its arguments checked by their annotations.

    Whole numbers, numbers, flags, choices and arrays are checked; other annotations, and whether values fit together,
    are left to the function.

    >>> @checked
    ... def repeat(word: str, times: int) -> str:
    ...     return word * times
    >>> repeat("a", times=2.5)
    Traceback (most recent call last):
    alebrije.errors.InputError: times must be a whole number, not 2.5
    """
    signature = inspect.signature(function)

    @functools.cache
    def annotations() -> Mapping[str, Any]:
        try:
            return typing.get_type_hints(function)
        except (NameError, TypeError, AttributeError):  # a name that is imported for type checkers only
            return {}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            _check_argument(name, value, annotations().get(name))
        return function(*args, **kwargs)

    return cast(F, call)


def _check_argument(name: str, value: Any, annotation: Any) -> None:
    kinds = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    if typing.get_origin(annotation) is typing.Union:
        kinds = typing.get_args(annotation)
    if value is None and type(None) in kinds:
        return
    if any("ndarray" in str(kind) for kind in kinds):
        if typing.get_origin(annotation) is not abc.Mapping:
            _check_arraylike(name, value, numbers_too=float in kinds)
        elif isinstance(value, abc.Mapping):
            for key, part in value.items():
                _check_arraylike(f"{name}.{key}", part, numbers_too=False)
    elif int in kinds:
        if whole_number(name, value, _LEAST.get(name)) > (most := _MOST.get(name, math.inf)):
            raise InputError(f"{name} must be at most {most}, not {value}")
    elif float in kinds:
        number(name, value)
    elif bool in kinds:
        if not isinstance(value, bool):
            raise InputError(f"{name} must be True or False, not {_shown(value)}")
    elif typing.get_origin(annotation) is Literal:
        choices = typing.get_args(annotation)
        if not isinstance(value, str):  # the function refuses unknown words itself
            *first, last = map(repr, choices)
            raise InputError(f"{name} must be {', '.join(first)} or {last}, got {_shown(value)}")
    elif str in kinds and not isinstance(value, tuple(kind for kind in kinds if isinstance(kind, type))):
        raise InputError(f"{name} must be text, not {type(value).__name__}")


def _check_arraylike(name: str, value: Any, numbers_too: bool) -> None:
    """Raise an InputError unless `value` is an array, has a shape and slices like one, or is a list of numbers."""
    import numpy as np
    import torch

    if isinstance(value, torch.Tensor):
        _check_dense(name, value)
        return
    if hasattr(value, "shape") and hasattr(value, "__getitem__"):
        return
    if isinstance(value, list | tuple):
        try:
            if np.asarray(value).dtype.kind in "fiub":
                return
        except (ValueError, TypeError):
            pass
        raise InputError(f"{name} must hold numbers in rows of equal length")
    if isinstance(value, bool) or not (numbers_too and isinstance(value, numbers.Real)):
        raise InputError(f"{name} must be a numpy array or a torch tensor, got {type(value).__name__}")


def _check_dense(name: str, tensor: Tensor) -> None:
    """Raise an InputError unless a tensor has values that can be read: not on `meta`, sparse, quantised or nested."""
    import torch

    if tensor.is_nested or tensor.layout != torch.strided or tensor.is_quantized:
        raise InputError(f"{name} must be a dense tensor, not a nested, sparse or quantised one")
    if tensor.is_meta:
        raise InputError(f"{name} is on the device meta and has no values")


def _shown(value: Any) -> str:
    """A wrong value in a sentence: an array by its type, because it would take several lines."""
    return type(value).__name__ if hasattr(value, "shape") else repr(value)


def usable_device(device: str | torch.device) -> torch.device:
    """A device that torch can use here; "auto" is a GPU if there is one.

    >>> usable_device("cpu")
    device(type='cpu')
    """
    import torch

    if device == "auto":
        has_gpu = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
        return torch.device(next(name for name, available in has_gpu.items() if available))
    try:
        found = torch.device(device)
        torch.zeros(1, device=found)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        if "out of memory" in str(error):
            raise InputError(f"{device} is out of memory; other programs use all of it") from None
        raise InputError(f"torch cannot use the device {str(device)!r} on this machine") from None
    return found


def check_images(images: Tensor, shows: str = "images") -> Tensor:
    """The images as a tensor; an InputError unless they are [B, 3, H, W], uint8 or floats in 0..1.

    Videos are [B, T, 3, H, W], and several views of scenes [B, V, 3, H, W].

    >>> import torch
    >>> check_images(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 3, 8, 8])
    """
    import torch

    shape = IMAGE_SHAPES[shows]
    try:
        images = torch.as_tensor(images)
    except (RuntimeError, TypeError, ValueError):
        raise InputError(f"{shows} must be a tensor {shape}, not {type(images).__name__}") from None
    if images.ndim != (4 if shows == "images" else 5) or images.shape[-3] != 3 or 0 in images.shape:
        raise InputError(f"{shows} must have the shape {shape}, not {list(images.shape)}")
    if images.dtype != torch.uint8:
        if not images.is_floating_point():
            raise InputError(f"{shows} must be uint8 or floats in 0..1, not {str(images.dtype).removeprefix('torch.')}")
        least, most = (float(end) for end in images.aminmax())
        if not -_OVERSHOOT <= least <= most <= 1 + _OVERSHOOT:
            raise InputError(f"{shows} must be uint8 or floats in 0..1, but range from {least:.4g} to {most:.4g}")
    return images
