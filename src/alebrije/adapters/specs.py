"""Specs: load a model from the text that names it, such as `timm:resnet18`, or from the model itself."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from alebrije import zoo
from alebrije.adapters.embeddings import read_embeddings
from alebrije.adapters.encoder import Encoder
from alebrije.adapters.hubs import has_processor, load_hugging_face, load_timm
from alebrije.adapters.preprocessing import Preprocessing, make_preprocessing
from alebrije.adapters.tokens import Pool
from alebrije.errors import InputError
from alebrije.imports import first_line, import_object
from alebrije.seeding import seeded
from alebrije.suggest import closest, did_you_mean
from alebrije.train import checkpoints, load_weights
from alebrije.train.plan import Plan
from alebrije.train.run_folder import read_plan

FORMS = "package.module:object, timm:NAME, hf:NAME, zoo:NAME, checkpoint:DIR or embeddings:FILE"
_OPTIONS = {  # the options of each kind of spec, written ?name=value&name=value
    "timm": ("pretrained", "seed"),
    "hf": ("pretrained", "seed", "revision"),
    "zoo": (),
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
    pool: Pool | None = None,
    method: str | None = None,
    name: str | None = None,
) -> Encoder:
    """Load a model as an `Encoder`, from the model itself or from a spec.

    - `package.module:object`: a model, or a class or function without required arguments that makes one. Modules in the
      current directory can be imported, as with ``python -m``.
    - `timm:NAME`: pretrained, or ``timm:NAME?pretrained=false`` with random weights of ``&seed=0``.
    - `hf:NAME`: a model of the Hugging Face hub or a folder in its format; ``?revision=...`` and ``?pretrained=false``.
    - `zoo:NAME`: a trained model that comes with alebrije, see `alebrije.zoo`.
    - `checkpoint:DIR`: the last checkpoint of a run of `alebrije train`, or one of its checkpoints.
    - `embeddings:FILE`: codes of images that alebrije made, see `Embeddings`; ``?images=FOLDER`` has the images.

    `pool` says which codes a model with tokens has: "cls", "mean" or "tokens"; by default its own pooled output, if it
    has one. `method` is called instead of the model itself; `package.module:Class.method` says the same.
    `size`, `mean` and `std` say how images are preprocessed. The defaults are the settings of the hub or run, and
    otherwise no preprocessing. The model is moved to `device` if it is given. Random weights are the same every time.

    >>> load(lambda images: images.mean((2, 3)), size=16)(torch.ones(4, 3, 64, 64)).vector.shape
    torch.Size([4, 3])
    >>> load("timmy:resnet18")
    Traceback (most recent call last):
        ...
    alebrije.errors.InputError: there is no module 'timmy'; did you mean 'timm:resnet18'?
    """
    given = make_preprocessing(size, mean, std)
    if isinstance(spec, Encoder):
        raise InputError(f"{spec.name} is already loaded")
    if not isinstance(spec, str):
        if isinstance(spec, type):
            raise InputError(f"{spec.__qualname__} is a class; pass an instance")
        model = spec if method is None else _method_of(spec, method)
        return Encoder(model, name=name, preprocessing=given, device=device, batch=batch, layer=layer, pool=pool)
    kind, colon, rest = spec.partition(":")
    if not (kind and colon and rest):
        is_weights = Path(spec).suffix in (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
        hint = "; for a file of weights, name a function that makes the model and loads them" if is_weights else ""
        raise InputError(f"there is no model {spec!r}; a spec is one of {FORMS}{hint}")
    if kind == "embeddings" and (given != Preprocessing() or (layer, pool, method) != (None, None, None)):
        raise InputError("embeddings are codes, not a model, so size, mean, std, layer, pool and method do not apply")
    if method is not None and kind in _OPTIONS:
        raise InputError(f"method={method} is for models of your own; {spec} knows how it is called")
    model, known, plan = _load_model(kind, rest)
    if kind == "hf":
        _check_normalisation(spec, given, known)
    model = model if method is None else _method_of(model, method)
    merged = Preprocessing(given.size or known.size, given.mean or known.mean, given.std or known.std)
    return Encoder(
        model,
        name=name,
        spec=spec,
        preprocessing=merged,
        device=device,
        batch=batch,
        layer=layer,
        pool=pool,
        plan=plan,
        remake=_remake(kind, rest, method),
    )


def is_class_spec(spec: str | None) -> bool:
    """Whether the spec of a loaded model is `package.module:object`, and the object is a class."""
    kind, _, rest = (spec or "").partition(":")
    return bool(rest) and kind not in _OPTIONS and isinstance(import_object(kind, rest, _module_hint), type)


def _load_model(kind: str, rest: str) -> tuple[Any, Preprocessing, Plan | None]:
    """The model of a spec, its known preprocessing, and its plan if it was trained here."""
    if kind not in _OPTIONS:
        return _make_own(kind, rest), Preprocessing(), None
    name, options = _parse_options(kind, rest)
    if kind == "zoo":
        return _load_from_zoo(name)
    if kind == "checkpoint":
        return _load_checkpoint(Path(name))
    if kind == "embeddings":
        return read_embeddings(name, options.get("images")), Preprocessing(), None
    return *(load_timm if kind == "timm" else load_hugging_face)(name, **options), None


def _remake(kind: str, rest: str, method: str | None) -> Callable[[int], Any] | None:
    """A function that makes the model of a spec again with random weights of a seed; None if there is no such way."""
    if kind == "timm":
        return partial(_random_timm, _parse_options(kind, rest)[0])
    if kind in _OPTIONS:
        return None
    return partial(_make_again, kind, rest, method)


def _random_timm(name: str, seed: int) -> Any:
    return load_timm(name, pretrained=False, seed=seed)[0]


def _make_again(module: str, rest: str, method: str | None, seed: int) -> Any:
    made = _make_own(module, rest, seed)
    return made if method is None else _method_of(made, method)


def _make_own(module: str, rest: str, seed: int = 0) -> Any:
    """The model of `package.module:object`; of `package.module:Class.method`, the method of an instance."""
    parent, _, method = rest.rpartition(".")
    target = import_object(module, rest, _module_hint)
    owner = import_object(module, parent, _module_hint) if parent else None
    if isinstance(owner, type) and inspect.isfunction(inspect.getattr_static(owner, method, None)):
        return _method_of(_make_model(f"{module}:{parent}", owner, seed), method)
    return _make_model(f"{module}:{rest}", target, seed)


def _method_of(model: Any, method: str) -> Any:
    """A method of a model, called in its place."""
    found = getattr(model, method, None)
    if not callable(found):
        public = [name for name in dir(model) if not name.startswith("_") and callable(getattr(model, name, None))]
        name = model.__name__ if inspect.isroutine(model) else type(model).__qualname__
        raise InputError(f"{name} has no method {method!r}{did_you_mean(method, public)}")
    return found


def _check_normalisation(spec: str, given: Preprocessing, known: Preprocessing) -> None:
    """Raise an InputError if neither the folder of a model nor the user says how images are normalised."""
    folder = Path(spec.partition(":")[2].partition("?")[0])
    if folder.is_dir() and not has_processor(folder) and (given.mean is None or given.std is None):
        size = "" if given.size or known.size else "--pixels, "
        raise InputError(f"{spec} has no preprocessor_config.json; pass {size}--mean and --std of its training")


def _parse_options(kind: str, rest: str) -> tuple[str, dict[str, Any]]:
    """The name or path in a spec, and its options; a kind without options may have a question mark in its path."""
    name, _, query = rest.partition("?") if _OPTIONS[kind] else (rest, "", "")
    options: dict[str, Any] = {}
    for pair in query.split("&") if query else ():
        option, sign, value = pair.partition("=")
        if option not in _OPTIONS[kind] or not (sign and value):
            allowed = " or ".join(f"{option}=..." for option in _OPTIONS[kind])
            raise InputError(f"the options of {kind}:{name} are {allowed}, not {pair!r}")
        options[option] = value
    try:
        if "pretrained" in options:
            options["pretrained"] = {"true": True, "false": False}[options["pretrained"].lower()]
        if "seed" in options:
            options["seed"] = int(options["seed"])
    except (KeyError, ValueError):
        raise InputError(f"{kind}:{rest}: pretrained must be true or false, and seed a whole number") from None
    return name, options


def _load_from_zoo(name: str) -> tuple[nn.Module, Preprocessing, Plan]:
    """A model of the zoo, in eval mode."""
    plan = zoo.card(name).read_plan()
    return zoo.load(name), Preprocessing(size=plan.size), plan


def _load_checkpoint(folder: Path) -> tuple[nn.Module, Preprocessing, Plan]:
    """Load the last checkpoint of a run, or a given checkpoint, in eval mode."""
    is_checkpoint = (folder / "step.json").is_file()
    run = folder.resolve().parents[1] if is_checkpoint else folder
    if not run.is_dir():
        raise InputError(f"checkpoint:{folder}: there is no such folder")
    if not (run / "run.json").is_file():
        raise InputError(f"checkpoint:{folder}: the folder is not a run; `alebrije train ... --out DIR` makes one")
    plan = read_plan(run)
    available = [folder] if is_checkpoint else checkpoints(run)
    if not available:
        raise InputError(f"checkpoint:{folder}: the run has no checkpoint yet")
    model = plan.new_model()
    load_weights(available[-1], model)
    return model.eval(), Preprocessing(size=plan.size), plan


def _make_model(spec: str, target: Any, seed: int = 0) -> Any:
    """The object that a spec names, or what it makes if it is a class or function without required arguments."""
    if not callable(target):
        raise InputError(f"{spec} is {type(target).__name__}, which cannot be called with images")
    if not (isinstance(target, type) or inspect.isfunction(target)):
        return target
    try:
        required = [
            parameter.name
            for parameter in inspect.signature(target).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
    except (TypeError, ValueError):  # classes written in C may have no signature
        required = []
    if required and not isinstance(target, type):
        return target
    if required:
        raise InputError(f"{spec} needs {', '.join(required)}; name an instance, or a function that makes one")
    try:
        with seeded(seed):
            model = target()
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{spec} could not be made: {first_line(error)}") from error
    if not callable(model):
        raise InputError(f"{spec} made {type(model).__name__}, which cannot be called with images")
    return model


def _module_hint(module: str, attribute: str) -> str:
    """The end of an error message about a module that does not exist."""
    if kind := closest(module, _OPTIONS, cutoff=0.7):
        return f"; did you mean '{kind}:{attribute}'?"
    parent, _, last = module.rpartition(".")
    try:
        paths = importlib.import_module(parent).__path__ if parent else [os.getcwd()]
    except Exception:  # the parent does not exist either
        return f" here; a model is {FORMS}"
    name = closest(last, [found.name for found in pkgutil.iter_modules(paths)], cutoff=0.5)
    return f"; did you mean '{parent + '.' if parent else ''}{name}'?" if name else f"; a model is {FORMS}"
