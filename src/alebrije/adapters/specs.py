"""Specs: a model by what a user types, brought behind the one door."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from alebrije.adapters.adapted import Adapted
from alebrije.adapters.embeddings import read_embeddings
from alebrije.adapters.preprocessing import Preprocessing, preprocessing
from alebrije.adapters.zoos import from_hub, from_timm
from alebrije.errors import InputError
from alebrije.named import first_line, object_named
from alebrije.seeding import seeded
from alebrije.train import checkpoints, load_weights
from alebrije.train.plan import Plan, read_plan

FORMS = "package.module:object, timm:NAME, hf:NAME, checkpoint:DIR or embeddings:FILE"
_OPTIONS = {  # of each kind of spec, after a question mark: name=value, with & between them
    "timm": ("pretrained", "seed"),
    "hf": ("pretrained", "seed", "revision"),
    "checkpoint": (),
    "embeddings": ("images",),
}


def load(
    spec: str | Callable[..., Any],
    *,
    device: str | torch.device | None = None,
    size: int | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    batch: int = 64,
    layer: str | None = None,
    name: str | None = None,
) -> Adapted:
    """A model as an encoder, from the model itself or from a text that says where it is.

    - `package.module:object`: an encoder, or a class or function without required arguments that makes one. The current
      directory can be imported from, as with ``python -m``.
    - `timm:NAME`: pretrained, or ``timm:NAME?pretrained=false`` with weights drawn from ``&seed=0``.
    - `hf:NAME`: a model of the Hugging Face hub or a folder in its format; ``?revision=...`` and ``?pretrained=false``.
    - `checkpoint:DIR`: the last checkpoint of a run that `alebrije train` wrote, or one of its checkpoints.
    - `embeddings:FILE`: codes of images that alebrije made, see `Embeddings`; ``?images=FOLDER`` says of which.

    `size`, `mean` and `std` say how images are prepared; unless given, they are those that the zoo or the run knows,
    and otherwise nothing is done. The model is moved to `device` if one is given, and else stays where it is. Models
    that are made here from random weights are the same each time.

    >>> load(lambda images: images.mean((2, 3)), size=16)(torch.ones(4, 3, 64, 64)).vector.shape
    torch.Size([4, 3])
    >>> load("timmy:resnet18")
    Traceback (most recent call last):
        ...
    alebrije.errors.InputError: there is no module 'timmy'; did you mean 'timm:resnet18'?
    """
    given = preprocessing(size, mean, std)
    if isinstance(spec, Adapted):
        raise InputError(f"{spec.name} is adapted already")
    if not isinstance(spec, str):
        if isinstance(spec, type):
            raise InputError(f"{spec.__qualname__} is a class; give an instance of it")
        return Adapted(spec, name=name, preprocessing=given, device=device, batch=batch, layer=layer)
    kind, colon, rest = spec.partition(":")
    if not (kind and colon and rest):
        weights = Path(spec).suffix in (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
        hint = "; for a file of weights, name a function that makes the model and loads them" if weights else ""
        raise InputError(f"{spec!r} names no model; a model is {FORMS}{hint}")
    if kind == "embeddings" and (given != Preprocessing() or layer is not None):
        raise InputError("embeddings are codes already: size, mean, std and layer have no meaning for them")
    model, known, plan = _made(kind, rest)
    prepared = Preprocessing(given.size or known.size, given.mean or known.mean, given.std or known.std)
    return Adapted(
        model, name=name, spec=spec, preprocessing=prepared, device=device, batch=batch, layer=layer, plan=plan
    )


def _made(kind: str, rest: str) -> tuple[Any, Preprocessing, Plan | None]:
    """The model that a spec means, the preprocessing that is known of it, and its plan if it was trained here."""
    if kind not in _OPTIONS:
        return _from_python(kind, rest), Preprocessing(), None
    place, options = _options(kind, rest)
    if kind == "checkpoint":
        return _from_checkpoint(Path(place))
    if kind == "embeddings":
        return read_embeddings(place, options.get("images")), Preprocessing(), None
    return *(from_timm if kind == "timm" else from_hub)(place, **options), None


def _options(kind: str, rest: str) -> tuple[str, dict[str, Any]]:
    """The name or place in a spec, and what follows its question mark; a kind without options may have one in it."""
    place, _, query = rest.partition("?") if _OPTIONS[kind] else (rest, "", "")
    options: dict[str, Any] = {}
    for pair in query.split("&") if query else ():
        option, sign, value = pair.partition("=")
        if option not in _OPTIONS[kind] or not (sign and value):
            listed = " or ".join(f"{one}=..." for one in _OPTIONS[kind])
            raise InputError(f"after {kind}:{place}? there can be {listed}, not {pair!r}")
        options[option] = value
    try:
        if "pretrained" in options:
            options["pretrained"] = {"true": True, "false": False}[options["pretrained"].lower()]
        if "seed" in options:
            options["seed"] = int(options["seed"])
    except (KeyError, ValueError):
        raise InputError(f"{kind}:{rest}: pretrained is true or false, and seed a whole number") from None
    return place, options


def _from_checkpoint(folder: Path) -> tuple[nn.Module, Preprocessing, Plan]:
    """A model that was trained here, in eval mode: of a run's folder the last checkpoint, or the one that is named."""
    named = (folder / "step.json").is_file()
    run = folder.resolve().parents[1] if named else folder
    if not run.is_dir():
        raise InputError(f"checkpoint:{folder}: there is no such folder")
    if not (run / "run.json").is_file():
        raise InputError(f"checkpoint:{folder}: that folder holds no run; `alebrije train ... --out DIR` makes one")
    plan = read_plan(run)
    there = [folder] if named else checkpoints(run)
    if not there:
        raise InputError(f"checkpoint:{folder}: the run has no checkpoint yet")
    model = plan.new_model()
    load_weights(there[-1], model)
    return model.eval(), Preprocessing(size=plan.size), plan


def _from_python(module: str, attribute: str) -> Any:
    """The encoder that `module:attribute` means."""
    return _instance(f"{module}:{attribute}", object_named(module, attribute, _near_module))


def names_a_class(spec: str | None) -> bool:
    """Whether a spec that was loaded is `package.module:object`, and the object a class."""
    kind, _, rest = (spec or "").partition(":")
    return bool(rest) and kind not in _OPTIONS and isinstance(object_named(kind, rest, _near_module), type)


def _instance(spec: str, found: Any) -> Any:
    """The encoder itself, made if it is a class or a function that needs no arguments."""
    if not callable(found):
        raise InputError(f"{spec} is {type(found).__name__}, which cannot be called with images")
    if not (isinstance(found, type) or inspect.isfunction(found)):
        return found
    try:
        needed = [
            one.name
            for one in inspect.signature(found).parameters.values()
            if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        ]
    except (TypeError, ValueError):  # a class of C tells nothing
        needed = []
    if needed and not isinstance(found, type):
        return found
    if needed:
        raise InputError(f"{spec} needs {', '.join(needed)}; name an instance, or a function that makes one")
    try:
        with seeded(0):
            made = found()
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{spec} could not be made: {first_line(error)}") from error
    if not callable(made):
        raise InputError(f"{spec} made {type(made).__name__}, which cannot be called with images")
    return made


def _near_module(module: str, attribute: str) -> str:
    """The end of a sentence about a module that is not there."""
    if near := difflib.get_close_matches(module, _OPTIONS, n=1, cutoff=0.7):
        return f"; did you mean '{near[0]}:{attribute}'?"
    parent, _, last = module.rpartition(".")
    try:
        paths = importlib.import_module(parent).__path__ if parent else [os.getcwd()]
    except Exception:  # the parent is not there either
        return f" here; a model is {FORMS}"
    known = [one.name for one in pkgutil.iter_modules(paths)]
    found = difflib.get_close_matches(last, known, n=1, cutoff=0.5)
    return f"; did you mean '{parent + '.' if parent else ''}{found[0]}'?" if found else f"; a model is {FORMS}"
