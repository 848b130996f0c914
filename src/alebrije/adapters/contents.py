"""Contents: all that decides what a stranger's callable computes, as far as it can be seen, and its SHA-256.

Results are filed under the fingerprint of the model that they are of, so two models must never share one. A callable is
more than its name: `lambda images: network(images)[0]` computes with the weights of `network`, which are found in its
closure. So does an object whose methods name a global `network` or `module.network`, or whose class holds it: names are
followed through the code of users. What cannot be seen, such as the session of another runtime, is told and not passed
over.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import inspect
import logging
import re
import sys
import threading
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
_TELLING = (re.Pattern, range, slice, np.dtype, torch.layout, torch.memory_format, types.UnionType, types.EllipsisType)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_PASSED_OVER = (logging.Logger, torch.device, types.GenericAlias, *_LOCKS)
# classes that come in versions of packages, and of this one: their name tells what they compute
_PACKAGES = {"torch", "torchvision", "timm", "transformers", "numpy", "alebrije"} | sys.stdlib_module_names - {
    "__main__"
}
_OF_EVERY_MODULE = {*vars(nn.Module()), "device", "name_or_path"}  # none of which changes what it computes
# of the attributes of modules in those packages, the settings, and the functions that they were given
_TOLD = (*_PLAIN, tuple, list, Tensor, np.ndarray, types.FunctionType, types.BuiltinFunctionType, functools.partial)
_WEIGHTS = (Tensor, np.ndarray, nn.Module)
_MOST = 20_000  # things looked at, after which something is not a model but half a program
_DEEPEST = 150  # things within things, before Python's own limit
_BY_GLOBAL_NAME = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_MAKING = {"__init__", "__new__", "__init_subclass__"}  # which an object has behind it: what they made is in it
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


@dataclass(frozen=True)
class Unseen:
    """A thing whose contents cannot be told."""

    what: str


Array = np.ndarray[Any, Any]
Pieces = Iterator[str | Tensor | Array | nn.Module | Unseen]


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
        self.classes: set[tuple[int, bool]] = set()
        self.weightless: set[tuple[int, bool]] = set()  # classes met within modules that lead to no weights
        self.depth = 0
        self.modules = 0  # that it is within

    def into(self, label: str, thing: Any) -> Pieces:
        if isinstance(thing, _PASSED_OVER):
            return
        if isinstance(thing, (*_PLAIN, *_TELLING)):
            yield f"{label}={thing!r}"
            return
        if isinstance(thing, _NAMED):
            yield f"{label}={_qualified(thing)}"
            if isinstance(thing, type):
                yield from self._source(thing)
                yield from self._classes([thing], made=False)
            elif not isinstance(owner := getattr(thing, "__self__", None), types.ModuleType):
                yield from self.into(f"{label}.self", owner)  # a method of C
            return
        if id(thing) in self.seen:
            yield f"{label}: again"
            return
        self.seen[id(thing)] = thing
        if len(self.seen) > _MOST or self.depth > _DEEPEST:
            yield Unseen(f"what hangs on {label or 'the model'}")
            return
        self.depth += 1
        yield from self._inside(label, thing)
        self.depth -= 1

    def _inside(self, label: str, thing: Any) -> Pieces:
        if isinstance(thing, Tensor | np.ndarray):
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
            if all(isinstance(one, (*_PLAIN, tuple, type)) for one in thing):
                yield f"{label}: {sorted(map(repr, thing))}"
            else:  # whose order, and names, are addresses
                yield Unseen(f"the set {label.lstrip('.')}")
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
            yield from self._classes([type(thing)], made=True)
        else:
            yield Unseen(f"{label.lstrip('.') or 'the model'}, of type {_qualified(type(thing))},")

    def _function(self, label: str, function: types.FunctionType) -> Pieces:
        yield f"{label}: {_qualified(function)}"
        yield from self._source(function)
        for name, value in sorted(_named_by(function).items()):
            yield from self.into(name, value)
        for name, value in (("defaults", function.__defaults__), ("keywords", function.__kwdefaults__)):
            yield from self.into(f"{label}.{name}", value)

    def _classes(self, kinds: list[type], *, made: bool) -> Pieces:
        """What classes compute with; within a module only if weights are in it, else its own tell it from others."""
        before = self.seen.copy(), self.classes.copy()
        kinds = [kind for kind in kinds if (id(kind), made) not in self.weightless]
        pieces = [piece for kind in kinds for piece in self._class(kind, made=made)]
        if not self.modules or any(isinstance(piece, _WEIGHTS) for piece in pieces):
            yield from pieces
        else:
            self.seen, self.classes = before
            self.weightless.update((id(kind), made) for kind in kinds)

    def _class(self, kind: type, *, made: bool) -> Pieces:
        """What the methods of a user's class name, and what it holds itself; its text is told by `_source`.

        An object that is `made` already is not made again, so what its `__init__` names does not count.
        """
        for one in kind.__mro__:
            if _packaged(one) or {(id(one), False), (id(one), made)} & self.classes:
                continue
            self.classes.add((id(one), made))
            if self.depth > _DEEPEST:
                yield Unseen(f"what hangs on {_qualified(one)}")
                continue
            self.depth += 1
            for name, value in sorted(vars(one).items()):
                label = f"{one.__qualname__}.{name}"
                if isinstance(function := _behind(value), types.FunctionType):
                    if not (made and name in _MAKING):
                        yield from self._method(label, function)
                elif not (name.startswith("__") or name == "_abc_impl" or isinstance(value, (*_PLAIN, *_SLOTS))):
                    yield from self.into(label, value)
            self.depth -= 1

    def _method(self, label: str, function: types.FunctionType) -> Pieces:
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        given = {f"{label}.default {number}": value for number, value in enumerate(defaults)}
        for name, value in sorted({**_named_by(function), **given}.items()):
            yield from self.into(name, value)

    def _module(self, label: str, module: nn.Module) -> Pieces:
        """The classes and settings of a module; its weights are looked at whenever the fingerprint is asked for."""
        self.seen |= {id(part): part for part in module.modules()}
        self.modules += 1
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
                if attribute not in _OF_EVERY_MODULE and isinstance(value, told) and not isinstance(value, _TELLING):
                    # what cannot be seen is passed over: the weights and the class tell modules apart
                    yield from (one for one in self.into(f"{place}.{attribute}", value) if not isinstance(one, Unseen))
        kinds = list(dict.fromkeys(map(type, module.modules())))
        yield from (one for one in self._classes(kinds, made=True) if not isinstance(one, Unseen))
        self.modules -= 1

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


def _named_by(function: types.FunctionType) -> dict[str, Any]:
    """What a function and those within it name: in its closure, in its globals, and as `module.name`."""
    codes = list(_codes(function.__code__))
    found = {} if _in_package(function) else _globals_of(function, codes)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__" and cell != types.CellType():  # one that is empty as yet
            found[name] = cell.cell_contents
    names = {name for code in codes for name in code.co_names}
    for name, value in list(found.items()):
        if isinstance(value, types.ModuleType):
            found |= _of_module(name, value, names, set())
    return found


def _globals_of(function: types.FunctionType, codes: list[types.CodeType]) -> dict[str, Any]:
    steps = (step for code in codes for step in dis.get_instructions(code))
    names = {step.argval for step in steps if step.opname in _BY_GLOBAL_NAME}
    told = (*_TOLD, nn.Module) if _installed(function.__module__) else object
    there = {name: function.__globals__[name] for name in names if name in function.__globals__}
    return {name: value for name, value in there.items() if isinstance(value, told)}


def _of_module(label: str, module: types.ModuleType, names: set[str], above: set[int]) -> dict[str, Any]:
    """Of a user's module, and of those in it, the attributes that have one of these names."""
    found: dict[str, Any] = {}
    if _known(module) or id(module) in above:
        return found
    for name in names & vars(module).keys():
        value = vars(module)[name]
        if isinstance(value, types.ModuleType):
            found |= _of_module(f"{label}.{name}", value, names, above | {id(module)})
        elif isinstance(value, _WEIGHTS) or not _installed(module.__name__):
            found[f"{label}.{name}"] = value
    return found


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Instructions, and those of the functions, classes and comprehensions within."""
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _behind(value: Any) -> Any:
    """The function that a user wrote for an attribute of a class, without what packages wrap around it."""
    if isinstance(value, property | functools.cached_property):
        value = value.fget if isinstance(value, property) else value.func
    elif isinstance(value, staticmethod | classmethod):
        value = value.__func__
    while isinstance(value, types.FunctionType) and _in_package(value) and "__wrapped__" in vars(value):
        value = vars(value)["__wrapped__"]
    return value


def _of_tensor(label: str, tensor: Tensor | Array) -> Iterator[str | Tensor | Array | Unseen]:
    yield f"{label}: {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
    if isinstance(tensor, np.ndarray):
        if tensor.dtype.kind in "biufcSU":
            yield tensor
        else:
            yield Unseen(f"the array {label.lstrip('.')} of type {tensor.dtype}")
    elif tensor.is_meta or tensor.layout != torch.strided or tensor.is_quantized:
        yield Unseen(f"the tensor {label.lstrip('.')}")
    else:
        yield tensor.detach()


def _bytes(piece: str | Tensor | Array) -> bytes:
    if isinstance(piece, np.ndarray):
        piece = np.ascontiguousarray(piece).tobytes().hex()
    if isinstance(piece, str):
        return f"{piece!r};".encode()
    return piece.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _qualified(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '') or ''}.{getattr(thing, '__qualname__', getattr(thing, '__name__', ''))}"


def _instructions(code: types.CodeType) -> str:
    inner = [_instructions(one) if isinstance(one, types.CodeType) else _constant(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"


def _constant(value: Any) -> str:
    return f"{sorted(map(repr, value))}" if isinstance(value, frozenset) else repr(value)


def _known(thing: Any) -> bool:
    """Whether a class, function or module is part of a package that models are commonly made of."""
    name = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", None)
    return (name or "").partition(".")[0] in _PACKAGES


def _in_package(function: types.FunctionType) -> bool:
    """Whether a function, or what wraps it, was written in such a package; what wraps bears the name of the wrapped."""
    return _known(function) or str(function.__globals__.get("__name__")).partition(".")[0] in _PACKAGES


def _packaged(kind: type) -> bool:
    return _known(kind) or _installed(kind.__module__)


def _installed(module: str | None) -> bool:
    """Whether a module came with an installed package, which has much in it that is no model, and no user's weights."""
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return bool({"site-packages", "dist-packages"} & set(PurePath(file).parts))
