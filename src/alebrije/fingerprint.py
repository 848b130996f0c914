"""Fingerprints: a SHA-256 of everything that determines what a user's callable computes, as far as it can be inspected.

Results are stored under the fingerprint of their model, so two models must never share one. A callable is more than its
name: `lambda images: network(images)[0]` computes with the weights of `network`, which are in its closure. The same
holds for an object whose methods refer to a global `network` or `module.network`, or whose class holds it. References
are therefore followed through user code. Objects that cannot be inspected, such as the session of another runtime, are
reported, not ignored.
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

from alebrije.arrays import Array
from alebrije.errors import InputError

_PLAIN = (type(None), bool, int, float, complex, str, bytes, enum.Enum, PurePath, torch.dtype, torch.Size, np.generic)
_BY_NAME = (type, types.ModuleType, types.BuiltinFunctionType, types.MethodWrapperType, np.ufunc)
_BY_REPR = (re.Pattern, range, slice, np.dtype, torch.layout, torch.memory_format, types.UnionType, types.EllipsisType)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_IGNORED = (logging.Logger, torch.device, types.GenericAlias, *_LOCKS)
# packages with versions, where a class name is enough to identify what it computes
_PACKAGES = {"torch", "torchvision", "timm", "transformers", "numpy", "alebrije"} | sys.stdlib_module_names - {
    "__main__"
}
_INTERNALS = {*vars(nn.Module()), "device", "name_or_path"}  # none of these changes what a module computes
# types of module attributes that are settings, in classes of those packages
_SETTINGS = (*_PLAIN, tuple, list, Tensor, np.ndarray, types.FunctionType, types.BuiltinFunctionType, functools.partial)
_WEIGHTS = (Tensor, np.ndarray, nn.Module)
_MAX_OBJECTS = 20_000  # a model has fewer; beyond that we are walking through a whole program
_MAX_DEPTH = 150  # nesting, below Python's recursion limit
_BY_GLOBAL_NAME = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_CONSTRUCTORS = {"__init__", "__new__", "__init_subclass__"}  # for an instance, their effect is in its attributes
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


@dataclass(frozen=True)
class Opaque:
    """An object whose contents cannot be inspected."""

    name: str


Pieces = Iterator[str | Tensor | Array | nn.Module | Opaque]


@dataclass(frozen=True, eq=False)
class Contents:
    """Everything a callable computes with.

    `modules` are the torch modules in it: itself, or those in its closure, globals and attributes. `rest` is the
    SHA-256 of everything else (classes, sources, settings), taken at construction because models may store traces of
    their last input in attributes. `opaque` names the objects that could not be inspected.

    >>> network = nn.Linear(2, 2)
    >>> Contents.of(network.forward).modules == (network,)
    True
    """

    modules: tuple[nn.Module, ...]
    rest: str
    opaque: tuple[str, ...]

    @classmethod
    def of(cls, model: object) -> Contents:
        """Inspect a model."""
        modules, opaque, digest = [], [], hashlib.sha256()
        for piece in _Walker().visit("", model):
            if isinstance(piece, nn.Module):
                modules.append(piece)
            elif isinstance(piece, Opaque):
                opaque.append(piece.name)
            else:
                digest.update(_bytes(piece))
        return cls(tuple(modules), digest.hexdigest(), tuple(opaque))

    def fingerprint(self, *about: object, name: str | None = None) -> str:
        """The SHA-256 of the current weights (names, shapes, dtypes, bytes), the rest, and `about`.

        Device and training mode make no difference. For classes and functions outside the known packages the source
        counts too, so an edited `forward` is a different model. An object with a string attribute `fingerprint` is
        identified by it. Opaque objects raise an InputError unless a `name` is given to stand for them.

        >>> Contents.of(nn.ReLU()).fingerprint() == Contents.of(nn.ReLU()).fingerprint()
        True
        >>> Contents.of(nn.ReLU()).fingerprint() == Contents.of(nn.GELU()).fingerprint()
        False
        """
        if self.opaque and name is None:
            raise InputError(
                f"{self.opaque[0]} cannot be inspected, so this model cannot be distinguished from others; "
                "give a name that identifies the model and its version"
            )
        digest = hashlib.sha256(f"{self.rest} {about!r} {name if self.opaque else None!r}".encode())
        for module in self.modules:
            weights = {**dict(module.named_parameters()), **dict(module.named_buffers()), **module.state_dict()}
            for key in sorted(weights):
                if isinstance(weights[key], Tensor):
                    for piece in _tensor_pieces(key, weights[key]):
                        if isinstance(piece, Opaque):
                            raise InputError(f"{piece.name} holds no plain numbers, so this model has no fingerprint")
                        digest.update(_bytes(piece))
        return digest.hexdigest()


class _Walker:
    """One traversal of an object graph that visits nothing twice."""

    def __init__(self) -> None:
        self.visited: dict[int, object] = {}  # holds references, so that no id is reused
        self.classes: set[tuple[int, bool]] = set()
        self.without_weights: set[tuple[int, bool]] = set()  # classes inside modules that lead to no weights
        self.depth = 0
        self.module_depth = 0  # how many modules the current object is inside

    def visit(self, label: str, obj: Any) -> Pieces:
        if isinstance(obj, _IGNORED):
            return
        if isinstance(obj, (*_PLAIN, *_BY_REPR)):
            yield f"{label}={obj!r}"
            return
        if isinstance(obj, _BY_NAME):
            yield f"{label}={_qualified(obj)}"
            if isinstance(obj, type):
                yield from self._source(obj)
                yield from self._classes([obj], instance=False)
            elif not isinstance(owner := getattr(obj, "__self__", None), types.ModuleType):
                yield from self.visit(f"{label}.self", owner)  # a method implemented in C
            return
        if id(obj) in self.visited:
            yield f"{label}: again"
            return
        self.visited[id(obj)] = obj
        if len(self.visited) > _MAX_OBJECTS or self.depth > _MAX_DEPTH:
            yield Opaque(f"the objects below {label or 'the model'}")
            return
        self.depth += 1
        yield from self._container(label, obj)
        self.depth -= 1

    def _container(self, label: str, obj: Any) -> Pieces:
        if isinstance(obj, Tensor | np.ndarray):
            yield from _tensor_pieces(label, obj)
        elif isinstance(obj, torch.Generator):
            yield from _tensor_pieces(label, obj.get_state())
        elif isinstance(obj, nn.Module):
            yield obj
            yield from self._module(label, obj)
        elif isinstance(obj, Mapping):
            for key, value in obj.items():
                yield from self.visit(f"{label}[{key!r}]", value)
        elif isinstance(obj, tuple | list):
            yield f"{label}: {len(obj)}"
            for number, value in enumerate(obj):
                yield from self.visit(f"{label}[{number}]", value)
        elif isinstance(obj, set | frozenset):
            if all(isinstance(item, (*_PLAIN, tuple, type)) for item in obj):
                yield f"{label}: {sorted(map(repr, obj))}"
            else:  # order and repr depend on memory addresses
                yield Opaque(f"the set {label.lstrip('.')}")
        else:
            yield from self._object(label, obj)

    def _object(self, label: str, obj: Any) -> Pieces:
        if isinstance(declared := getattr(obj, "fingerprint", None), str):
            yield f"{label}: {_qualified(type(obj))} {declared}"
        elif isinstance(obj, types.MethodType):
            yield f"{label}: {obj.__func__.__qualname__}"
            yield from self.visit(f"{label}.self", obj.__self__)
            if not isinstance(obj.__self__, nn.Module):
                yield from self.visit(label, obj.__func__)
        elif isinstance(obj, functools.partial):
            for part in ("func", "args", "keywords"):
                yield from self.visit(f"{label}.{part}", getattr(obj, part))
        elif compiled := getattr(obj, "_torchdynamo_orig_callable", None):
            yield from self.visit(label, compiled)
        elif isinstance(obj, types.FunctionType):
            yield from self._function(label, obj)
        elif hasattr(obj, "__wrapped__"):
            yield from self.visit(label, obj.__wrapped__)
        elif hasattr(obj, "__dict__"):
            yield f"{label}: {_qualified(type(obj))}"
            yield from self._source(type(obj))
            for name in sorted(vars(obj)):
                yield from self.visit(f"{label}.{name}", vars(obj)[name])
            yield from self._classes([type(obj)], instance=True)
        else:
            yield Opaque(f"{label.lstrip('.') or 'the model'}, of type {_qualified(type(obj))},")

    def _function(self, label: str, function: types.FunctionType) -> Pieces:
        yield f"{label}: {_qualified(function)}"
        yield from self._source(function)
        for name, value in sorted(_referenced(function).items()):
            yield from self.visit(name, value)
        for name, value in (("defaults", function.__defaults__), ("keywords", function.__kwdefaults__)):
            yield from self.visit(f"{label}.{name}", value)

    def _classes(self, kinds: list[type], *, instance: bool) -> Pieces:
        """What classes compute with; inside a module only if that includes weights, else its weights identify it."""
        before = self.visited.copy(), self.classes.copy()
        kinds = [kind for kind in kinds if (id(kind), instance) not in self.without_weights]
        pieces = [piece for kind in kinds for piece in self._class(kind, instance=instance)]
        if not self.module_depth or any(isinstance(piece, _WEIGHTS) for piece in pieces):
            yield from pieces
        else:
            self.visited, self.classes = before
            self.without_weights.update((id(kind), instance) for kind in kinds)

    def _class(self, kind: type, *, instance: bool) -> Pieces:
        """What the methods of a user's class refer to, and its attributes; `_source` covers its source.

        For an existing `instance`, references of `__init__` do not count.
        """
        for base in kind.__mro__:
            known = _in_package(base) or _installed(base.__module__)
            if known or {(id(base), False), (id(base), instance)} & self.classes:
                continue
            self.classes.add((id(base), instance))
            if self.depth > _MAX_DEPTH:
                yield Opaque(f"the objects below {_qualified(base)}")
                continue
            self.depth += 1
            for name, value in sorted(vars(base).items()):
                label = f"{base.__qualname__}.{name}"
                if isinstance(function := _user_function(value), types.FunctionType):
                    if not (instance and name in _CONSTRUCTORS):
                        yield from self._method(label, function)
                elif not (name.startswith("__") or name == "_abc_impl" or isinstance(value, (*_PLAIN, *_SLOTS))):
                    yield from self.visit(label, value)
            self.depth -= 1

    def _method(self, label: str, function: types.FunctionType) -> Pieces:
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        given = {f"{label}.default {number}": value for number, value in enumerate(defaults)}
        for name, value in sorted({**_referenced(function), **given}.items()):
            yield from self.visit(name, value)

    def _module(self, label: str, module: nn.Module) -> Pieces:
        """Classes and settings of a module; its weights are read when the fingerprint is computed."""
        self.visited |= {id(part): part for part in module.modules()}
        self.module_depth += 1
        for name, part in module.named_modules():
            path = f"{label}.{name}"
            yield f"{path}: {_qualified(type(part))}"
            yield from self._source(type(part))
            if isinstance(code := getattr(part, "code", None), str):  # traced or scripted modules
                yield code
            if type(part).__module__.startswith("torch._dynamo"):
                continue  # the wrapper of torch.compile counts its own calls
            allowed = _SETTINGS if _in_package(type(part)) else object
            for attribute, value in sorted(vars(part).items()):
                if attribute not in _INTERNALS and isinstance(value, allowed) and not isinstance(value, _BY_REPR):
                    # ignore opaque values: weights and class identify a module
                    pieces = self.visit(f"{path}.{attribute}", value)
                    yield from (piece for piece in pieces if not isinstance(piece, Opaque))
        kinds = list(dict.fromkeys(map(type, module.modules())))
        yield from (piece for piece in self._classes(kinds, instance=True) if not isinstance(piece, Opaque))
        self.module_depth -= 1

    def _source(self, obj: Any) -> Iterator[str]:
        """The source of a class or function, or its bytecode if there is no source."""
        for item in obj.__mro__ if isinstance(obj, type) else (obj,):
            if _in_package(item):
                continue
            # the source of a lambda is a whole line, which may hold several
            if isinstance(item, types.FunctionType) and item.__name__ == "<lambda>":
                yield _instructions(item.__code__)
            try:
                yield inspect.getsource(item)
            except (OSError, TypeError):
                functions = vars(item).values() if isinstance(item, type) else (item,)
                yield from (_instructions(f.__code__) for f in functions if isinstance(f, types.FunctionType))


def _referenced(function: types.FunctionType) -> dict[str, Any]:
    """The objects that a function and its nested functions refer to: closure, globals, and `module.name`."""
    codes = list(_nested_codes(function.__code__))
    values = {} if _written_in_package(function) else _global_values(function, codes)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__" and cell != types.CellType():  # skip empty cells
            values[name] = cell.cell_contents
    names = {name for code in codes for name in code.co_names}
    for name, value in list(values.items()):
        if isinstance(value, types.ModuleType):
            values |= _module_values(name, value, names, set())
    return values


def _global_values(function: types.FunctionType, codes: list[types.CodeType]) -> dict[str, Any]:
    steps = (step for code in codes for step in dis.get_instructions(code))
    names = {step.argval for step in steps if step.opname in _BY_GLOBAL_NAME}
    allowed = (*_SETTINGS, nn.Module) if _installed(function.__module__) else object
    present = {name: function.__globals__[name] for name in names if name in function.__globals__}
    return {name: value for name, value in present.items() if isinstance(value, allowed)}


def _module_values(label: str, module: types.ModuleType, names: set[str], above: set[int]) -> dict[str, Any]:
    """The attributes with these names in a user's module and its submodules."""
    values: dict[str, Any] = {}
    if _in_package(module) or id(module) in above:
        return values
    for name in names & vars(module).keys():
        value = vars(module)[name]
        if isinstance(value, types.ModuleType):
            values |= _module_values(f"{label}.{name}", value, names, above | {id(module)})
        elif isinstance(value, _WEIGHTS) or not _installed(module.__name__):
            values[f"{label}.{name}"] = value
    return values


def _nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those of the functions, classes and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested_codes(constant)


def _user_function(value: Any) -> Any:
    """The function that a user wrote for a class attribute, without the wrappers of packages."""
    if isinstance(value, property | functools.cached_property):
        value = value.fget if isinstance(value, property) else value.func
    elif isinstance(value, staticmethod | classmethod):
        value = value.__func__
    while isinstance(value, types.FunctionType) and _written_in_package(value) and "__wrapped__" in vars(value):
        value = vars(value)["__wrapped__"]
    return value


def _tensor_pieces(label: str, tensor: Tensor | Array) -> Iterator[str | Tensor | Array | Opaque]:
    yield f"{label}: {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
    if isinstance(tensor, np.ndarray):
        if tensor.dtype.kind in "biufcSU":
            yield tensor
        else:
            yield Opaque(f"the array {label.lstrip('.')} of type {tensor.dtype}")
    elif tensor.is_meta or tensor.layout != torch.strided or tensor.is_quantized:
        yield Opaque(f"the tensor {label.lstrip('.')}")
    else:
        yield tensor.detach()


def _bytes(piece: str | Tensor | Array) -> bytes:
    if isinstance(piece, np.ndarray):
        piece = np.ascontiguousarray(piece).tobytes().hex()
    if isinstance(piece, str):
        return f"{piece!r};".encode()
    return piece.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


# fingerprints of stored results contain these names, so a rename must not change them
_FORMER_NAMES = {
    "alebrije.adapters.encoder.Encoder": "alebrije.adapters.adapted.Adapted",
    "alebrije.adapters.hubs._image_codes": "alebrije.adapters.zoos._image_codes",
}


def _qualified(obj: Any) -> str:
    name = f"{getattr(obj, '__module__', '') or ''}.{getattr(obj, '__qualname__', getattr(obj, '__name__', ''))}"
    return _FORMER_NAMES.get(name, name)


def _instructions(code: types.CodeType) -> str:
    inner = [_instructions(item) if isinstance(item, types.CodeType) else _constant(item) for item in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"


def _constant(value: Any) -> str:
    return f"{sorted(map(repr, value))}" if isinstance(value, frozenset) else repr(value)


def _in_package(obj: Any) -> bool:
    """Whether a class, function or module belongs to one of `_PACKAGES`."""
    name = obj.__name__ if isinstance(obj, types.ModuleType) else getattr(obj, "__module__", None)
    return (name or "").partition(".")[0] in _PACKAGES


def _written_in_package(function: types.FunctionType) -> bool:
    """Whether a function, or its wrapper, was written in one of `_PACKAGES`; a wrapper copies the name it wraps."""
    return _in_package(function) or str(function.__globals__.get("__name__")).partition(".")[0] in _PACKAGES


def _installed(module: str | None) -> bool:
    """Whether a module belongs to an installed package, which holds no user weights."""
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return bool({"site-packages", "dist-packages"} & set(PurePath(file).parts))
