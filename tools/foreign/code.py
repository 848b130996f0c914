"""Load code of others from a folder: packages are imported, functions are taken from files by name.

Many releases cannot be imported any more: they need TensorFlow 1, gin or a GPU logger for functions that need none of
these. So the functions of a comparison are read from the unchanged file, without the rest of its module.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

PACKAGES = (
    "disentanglement_lib==1.5",
    "dl-utils385==0.12.8",
    "jax==0.10.2",
    "jaxlib==0.10.2",
    "lazy-loader==0.6",
    "lightning-utilities==0.15.3",
    "lpips==0.1.4",
    "ml_dtypes==0.6.0",
    "opt_einsum==3.4.0",
    "scikit-image==0.26.0",
    "torchmetrics==1.9.0",
    "torchvision==0.28.0",
)
REPOSITORIES = {
    "Lou1sM/snc_nk": "e031048d568d",
    "SRXie/OFR": "5abd05991b79",
    "addtt/object-centric-library": "7317480248c3",
    "amazon-science/object-centric-learning-framework": "a3ce3fa74064",
    "google-deepmind/multi_object_datasets": "12439197cd73",
    "google-research/slot-attention-video": "00c2e2542e91",
    "jacobandreas/tre": "bac35621a1d2",
    "noahcao/disentanglement_lib": "999c5af5610a",
}


class MissingError(Exception):
    """Something that a comparison needs has not been fetched."""


@dataclass(frozen=True)
class Foreign:
    """The folder with the packages and repositories of others."""

    folder: Path

    def __post_init__(self) -> None:
        sys.path.append(str(self.folder / "packages"))  # last: our own NumPy and torch are used
        _declare_operators()

    def module(self, name: str) -> ModuleType:
        """An installed package."""
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise MissingError(f"package {name.partition('.')[0]}") from error

    def functions(self, file: str, names: Sequence[str], **namespace: Any) -> SimpleNamespace:
        """The named functions and classes of a file, which see the names in `namespace` and each other."""
        text = self._text(file)
        found = [node for node in ast.parse(text).body if getattr(node, "name", None) in names]
        absent = set(names) - {getattr(node, "name", None) for node in found}
        if absent:
            raise MissingError(f"{', '.join(sorted(absent))} in {file}")
        for node in found:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                node.decorator_list = []  # gin and flax
        _execute(found, file, namespace)
        return SimpleNamespace(**{name: namespace[name] for name in names})

    def statements(self, file: str, owner: str, wanted: Callable[[str], bool], **namespace: Any) -> dict[str, Any]:
        """The variables after the wanted statements of the method `forward` of a class; text decides what is wanted."""
        tree = ast.parse(self._text(file))
        methods = (
            item
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name == owner
            for item in node.body
            if isinstance(item, ast.FunctionDef) and item.name == "forward"
        )
        method = next(methods, None)
        if method is None:
            raise MissingError(f"{owner}.forward in {file}")
        simple = (node for node in ast.walk(method) if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)))
        chosen = [node for node in simple if wanted(ast.unparse(node))]
        _execute(sorted(chosen, key=lambda node: node.lineno), file, namespace)
        return namespace

    def _text(self, file: str) -> str:
        path = self.folder / file
        if not path.is_file():
            raise MissingError(file)
        return path.read_text(encoding="utf-8")


def _declare_operators() -> None:
    """Declare torchvision's operators for boxes where its build does not fit ours of torch; no comparison uses them."""
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        importlib.import_module("torchvision")


def _execute(nodes: Sequence[ast.stmt], file: str, namespace: dict[str, Any]) -> None:
    code = compile(
        ast.Module(list(nodes), []), file, "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True
    )
    exec(code, namespace)


# --- Stand-ins for libraries that a few functions need for a few names only ---


class _Tensor(np.ndarray):
    """A NumPy array with the one method of TensorFlow's tensors that is called."""

    def get_shape(self) -> SimpleNamespace:
        return SimpleNamespace(as_list=lambda: list(self.shape))


def tensor(values: Any) -> Any:
    """An array for functions that expect tensors of TensorFlow."""
    return np.asarray(values).view(_Tensor)


class _Scope:
    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def tensorflow() -> SimpleNamespace:
    """NumPy under the names of TensorFlow, in float32."""

    def axes(axis: Any) -> Any:
        return tuple(axis) if isinstance(axis, list) else axis

    return SimpleNamespace(
        float32=np.float32,
        name_scope=_Scope,
        argmax=np.argmax,
        cast=lambda values, dtype: values.astype(dtype),
        one_hot=lambda indices, depth: np.eye(depth, dtype=np.float32)[indices],
        einsum=np.einsum,
        reduce_sum=lambda values, axis: np.sum(values, axis=axes(axis)),
        reduce_all=lambda values, axis: np.all(values, axis=axes(axis)),
        equal=np.equal,
        logical_and=np.logical_and,
        ones_like=np.ones_like,
        where=np.where,
    )


def gin() -> SimpleNamespace:
    """`gin` for defaults that nobody configures."""
    return SimpleNamespace(REQUIRED=None)


# --- Rows ---


@dataclass(frozen=True)
class Outcome:
    """Values of ours and of theirs, in pairs of arrays, and a note that depends on them."""

    pairs: Sequence[tuple[Any, Any]]
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One line of the table: metrics by their names in the catalog, whose code, on which data, and how to compare.

    Without `compare` there is no code of others, and `remark` says so. `intended` marks a difference by definition.
    """

    metrics: Sequence[str]
    code: str
    data: str = ""
    remark: str = ""
    compare: Callable[[Foreign], Outcome] | None = None
    intended: bool = False


def differences(outcome: Outcome) -> Iterator[np.ndarray[Any, Any]]:
    """Absolute differences of all pairs; values that are both NaN, or the same infinity, are equal."""
    for ours, theirs in outcome.pairs:
        left, right = (np.atleast_1d(np.asarray(values, dtype=np.float64)) for values in (ours, theirs))
        if left.shape != right.shape:
            raise ValueError(f"ours and theirs differ in shape: {left.shape} and {right.shape}")
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        with np.errstate(invalid="ignore"):
            yield np.where(same, 0.0, np.abs(left - right)).ravel()
