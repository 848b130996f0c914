"""Contents: all that decides what a stranger's callable computes, as far as it can be seen, and its SHA-256.

Results are filed under the fingerprint of the model that they are of, so two models must never share one. A callable is
more than its name: `lambda images: network(images)[0]` computes with the weights of `network`, which are found in its
closure. What cannot be seen, such as the session of another runtime, is told and not passed over.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import logging
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from alebrije.errors import InputError

_PLAIN = (type(None), bool, int, float, complex, str, bytes, enum.Enum, PurePath, torch.dtype, torch.Size, np.generic)
_NAMED = (type, types.ModuleType, types.BuiltinFunctionType, types.MethodWrapperType, np.ufunc)
_PASSED_OVER = (logging.Logger, torch.device, types.GenericAlias)
# classes that come in versions of packages, and of this one: their name tells what they compute
_PACKAGES = {"torch", "torchvision", "timm", "transformers", "numpy", "alebrije"} | sys.stdlib_module_names - {
    "__main__"
}
_OF_EVERY_MODULE = {*vars(nn.Module()), "device", "name_or_path"}  # none of which changes what it computes
# of the attributes of modules in those packages, the settings, and the functions that they were given
_TOLD = (*_PLAIN, tuple, list, Tensor, np.ndarray, types.FunctionType, types.BuiltinFunctionType, functools.partial)
_MOST = 20_000  # things looked at, after which something is not a model but half a program


@dataclass(frozen=True)
class Unseen:
    """A thing whose contents cannot be told."""

    what: str


Pieces = Iterator[str | Tensor | nn.Module | Unseen]


@dataclass(frozen=True, eq=False)
class Contents:
    """What a callable computes with.

    `modules` are the torch modules in it: itself, or those in its closure, globals and attributes. `rest` is the
    SHA-256 of all else, classes, sources and settings, as it was when it was looked at: models leave traces of what
    they last saw in their attributes. `unseen` are things that could not be looked into.

    >>> network = nn.Linear(2, 2)
    >>> Contents.of(network.forward).modules == (network,)
    True
    """

    modules: tuple[nn.Module, ...]
    rest: str
    unseen: tuple[str, ...]

    @classmethod
    def of(cls, model: object) -> Contents:
        """The contents of a model."""
        modules, unseen, digest = [], [], hashlib.sha256()
        for piece in _Walk().into("", model):
            if isinstance(piece, nn.Module):
                modules.append(piece)
            elif isinstance(piece, Unseen):
                unseen.append(piece.what)
            else:
                digest.update(_bytes(piece))
        return cls(tuple(modules), digest.hexdigest(), tuple(unseen))

    def fingerprint(self, *about: object, name: str | None = None) -> str:
        """The SHA-256 of it all: weights as they are now, with names, shapes, types and bytes, the rest, and `about`.

        The device makes no difference, nor does training mode. Of classes and functions outside of the packages that
        models are commonly made of, the source counts as well, so that an edited `forward` is another model. An object
        that has a text as its `fingerprint` is believed. What cannot be seen is refused unless there is a `name`, which
        then stands for it.

        >>> Contents.of(nn.ReLU()).fingerprint() == Contents.of(nn.ReLU()).fingerprint()
        True
        >>> Contents.of(nn.ReLU()).fingerprint() == Contents.of(nn.GELU()).fingerprint()
        False
        """
        if self.unseen and name is None:
            raise InputError(
                f"{self.unseen[0]} cannot be looked into, so this model could not be told from another; "
                "give a name that stands for it and its version"
            )
        digest = hashlib.sha256(f"{self.rest} {about!r} {name if self.unseen else None!r}".encode())
        for module in self.modules:
            weights = {**dict(module.named_parameters()), **dict(module.named_buffers()), **module.state_dict()}
            for key in sorted(weights):
                if isinstance(weights[key], Tensor):
                    for piece in _of_tensor(key, weights[key]):
                        if isinstance(piece, Unseen):
                            raise InputError(f"{piece.what} holds no plain numbers, so this model has no fingerprint")
                        digest.update(_bytes(piece))
        return digest.hexdigest()


class _Walk:
    """One way through a thing, on which nothing is visited twice."""

    def __init__(self) -> None:
        self.seen: dict[int, object] = {}  # held, so that no number is given anew

    def into(self, label: str, thing: Any) -> Pieces:
        if isinstance(thing, _PASSED_OVER):
            return
        if isinstance(thing, _PLAIN):
            yield f"{label}={thing!r}"
            return
        if isinstance(thing, _NAMED):
            yield f"{label}={_qualified(thing)}"
            if isinstance(thing, type):
                yield from self._source(thing)
            elif not isinstance(owner := getattr(thing, "__self__", None), types.ModuleType):
                yield from self.into(f"{label}.self", owner)  # a method of C
            return
        if id(thing) in self.seen:
            yield f"{label}: again"
            return
        self.seen[id(thing)] = thing
        if len(self.seen) > _MOST:
            yield Unseen(f"what hangs on {label or 'the model'}")
        elif isinstance(thing, Tensor | np.ndarray):
            yield from _of_tensor(label, thing)
        elif isinstance(thing, torch.Generator):
            yield from _of_tensor(label, thing.get_state())
        elif isinstance(thing, nn.Module):
            yield thing
            yield from self._module(label, thing)
        elif isinstance(thing, Mapping):
            for key, value in thing.items():
                yield from self.into(f"{label}[{key!r}]", value)
        elif isinstance(thing, tuple | list):
            yield f"{label}: {len(thing)}"
            for number, value in enumerate(thing):
                yield from self.into(f"{label}[{number}]", value)
        elif isinstance(thing, set | frozenset):
            yield f"{label}: {sorted(map(repr, thing))}"
        else:
            yield from self._callable(label, thing)

    def _callable(self, label: str, thing: Any) -> Pieces:
        if isinstance(told := getattr(thing, "fingerprint", None), str):
            yield f"{label}: {_qualified(type(thing))} {told}"
        elif isinstance(thing, types.MethodType):
            yield f"{label}: {thing.__func__.__qualname__}"
            yield from self.into(f"{label}.self", thing.__self__)
            if not isinstance(thing.__self__, nn.Module):
                yield from self.into(label, thing.__func__)
        elif isinstance(thing, functools.partial):
            for part in ("func", "args", "keywords"):
                yield from self.into(f"{label}.{part}", getattr(thing, part))
        elif compiled := getattr(thing, "_torchdynamo_orig_callable", None):
            yield from self.into(label, compiled)
        elif isinstance(thing, types.FunctionType):
            yield from self._function(label, thing)
        elif hasattr(thing, "__wrapped__"):
            yield from self.into(label, thing.__wrapped__)
        elif hasattr(thing, "__dict__"):
            yield f"{label}: {_qualified(type(thing))}"
            yield from self._source(type(thing))
            for name in sorted(vars(thing)):
                yield from self.into(f"{label}.{name}", vars(thing)[name])
        else:
            yield Unseen(f"{label.lstrip('.') or 'the model'}, of type {_qualified(type(thing))},")

    def _function(self, label: str, function: types.FunctionType) -> Pieces:
        yield f"{label}: {_qualified(function)}"
        yield from self._source(function)
        found = inspect.getclosurevars(function)
        names = found.nonlocals if _known(function) else {**found.globals, **found.nonlocals}
        for name in sorted(names):
            yield from self.into(name, names[name])
        for name, value in (("defaults", function.__defaults__), ("keywords", function.__kwdefaults__)):
            yield from self.into(f"{label}.{name}", value)

    def _module(self, label: str, module: nn.Module) -> Pieces:
        """The classes and settings of a module; its weights are looked at whenever the fingerprint is asked for."""
        self.seen |= {id(part): part for part in module.modules()}
        for name, part in module.named_modules():
            place = f"{label}.{name}"
            yield f"{place}: {_qualified(type(part))}"
            yield from self._source(type(part))
            if isinstance(code := getattr(part, "code", None), str):  # of modules that were traced or scripted
                yield code
            if type(part).__module__.startswith("torch._dynamo"):
                continue  # what torch.compile wraps around a module counts its own calls
            told = _TOLD if _known(type(part)) else object
            for attribute, value in sorted(vars(part).items()):
                if attribute not in _OF_EVERY_MODULE and isinstance(value, told):
                    # what cannot be seen is passed over: the weights and the class tell modules apart
                    yield from (one for one in self.into(f"{place}.{attribute}", value) if not isinstance(one, Unseen))

    def _source(self, thing: Any) -> Iterator[str]:
        """What a class or function does: its text, or else its instructions."""
        for one in thing.__mro__ if isinstance(thing, type) else (thing,):
            if _known(one):
                continue
            if (
                isinstance(one, types.FunctionType) and one.__name__ == "<lambda>"
            ):  # whose text is a line, which may hold another
                yield _instructions(one.__code__)
            try:
                yield inspect.getsource(one)
            except (OSError, TypeError):
                functions = vars(one).values() if isinstance(one, type) else (one,)
                yield from (_instructions(each.__code__) for each in functions if isinstance(each, types.FunctionType))


def _of_tensor(label: str, tensor: Tensor | np.ndarray[Any, Any]) -> Iterator[str | Tensor | Unseen]:
    yield f"{label}: {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
    if isinstance(tensor, np.ndarray):
        if tensor.dtype.kind in "biufcSU":
            yield np.ascontiguousarray(tensor).tobytes().hex()
        else:
            yield Unseen(f"the array {label.lstrip('.')} of type {tensor.dtype}")
    elif tensor.is_meta or tensor.layout != torch.strided or tensor.is_quantized:
        yield Unseen(f"the tensor {label.lstrip('.')}")
    else:
        yield tensor.detach()


def _bytes(piece: str | Tensor) -> bytes:
    if isinstance(piece, str):
        return f"{piece!r};".encode()
    return piece.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _qualified(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '') or ''}.{getattr(thing, '__qualname__', getattr(thing, '__name__', ''))}"


def _instructions(code: types.CodeType) -> str:
    inner = [_instructions(one) if isinstance(one, types.CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"


def _known(thing: Any) -> bool:
    """Whether a class or function is part of a package that models are commonly made of."""
    return (thing.__module__ or "").partition(".")[0] in _PACKAGES
