"""Untrained twins: a user's model with the same architecture and re-initialised weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from alebrije.adapters.encoder import Encoder
from alebrije.adapters.inputs import signature_of
from alebrije.errors import InputError
from alebrije.fingerprint import Contents
from alebrije.imports import first_line
from alebrije.seeding import seeded

_FIRST_SEED = 1_000_000  # for models of specs, which are loaded with small seeds
_RESETS = ("reset_parameters", "_reset_parameters")  # of torch's layers, and of nn.MultiheadAttention


class NotReinitialisedError(InputError):
    """The weights of a model cannot be drawn again; the message says why."""


def reinitialised(encoder: Encoder, seed: int) -> Encoder:
    """The same model with new random weights, which depend on the seed.

    - A model of alebrije is built as before its training.
    - A model that can be made again without trained weights is: one from timm, one that its class makes from a
      configuration as in transformers, or the class or function of a spec.
    - Otherwise each layer draws its weights again (`reset_parameters`), and each weight tensor keeps its scale, because
      the model's own initialisation is unknown. A parameter that no layer can reset, such as a class token, is drawn
      from a normal distribution with its mean and standard deviation.

    The given encoder keeps its weights. On a GPU, matrix products of the new one are rounded to TF32 (`Encoder`): with
    weights that are random draws, that changes no statistic, and three twins take as long as the model.

    >>> encoder = Encoder(nn.Sequential(nn.Flatten(), nn.Linear(48, 2)))
    >>> images = torch.rand(1, 3, 4, 4)
    >>> before = encoder(images).vector
    >>> bool((reinitialised(encoder, 1)(images).vector == before).any())
    False
    >>> bool((encoder(images).vector == before).all())
    True
    """
    made: Any
    if encoder.plan is not None:
        made = replace(encoder.plan, seed=seed).new_model().eval()
    else:
        made = _WithWeights(encoder, _new_weights(encoder, seed))
    return Encoder(
        made,
        name=encoder.name,
        preprocessing=encoder.preprocessing,
        device=encoder.device,
        batch=encoder.batch,
        layer=encoder.layer,
        pool=encoder.pool,
        plan=encoder.plan,
        tf32=True,
    )


class _WithWeights:
    """A model that runs with other weights, and gets its own back after each call."""

    def __init__(self, encoder: Encoder, weights: Sequence[Mapping[str, Tensor]]) -> None:
        self.model, self.modules, self.weights, self.takes = encoder.model, encoder.modules, weights, encoder.takes
        self.__signature__ = signature_of(encoder.model)  # it has the same parameters

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        with _swapped(self.modules, self.weights):
            return self.model(*arguments, **options)

    def decode(self, codes: Tensor) -> Any:
        """What the model's own `decode` returns with the other weights."""
        decoder: Any = self.model
        with _swapped(self.modules, self.weights):
            return decoder.decode(codes)


@contextmanager
def _swapped(modules: Sequence[nn.Module], weights: Sequence[Mapping[str, Tensor]]) -> Iterator[None]:
    """Let the parameters and buffers of modules hold other tensors for a while. Nothing is copied."""
    swaps = [(own, new[name]) for module, new in zip(modules, weights, strict=True) for name, own in _tensors(module)]
    before = [own.data for own, _ in swaps]
    try:
        for own, other in swaps:
            own.data = other
        yield
    finally:
        for (own, _), data in zip(swaps, before, strict=True):
            own.data = data


def _new_weights(encoder: Encoder, seed: int) -> list[dict[str, Tensor]]:
    """New parameters and buffers for each module of a model, by name."""
    if not encoder.parameters:
        raise NotReinitialisedError(f"{encoder.name} has no torch parameters")
    try:
        with torch.no_grad(), seeded(seed, encoder.device):
            fresh = _made_again(encoder, seed) or [_configured(module) or _reset(module) for module in encoder.modules]
            return [_like(module, new) for module, new in zip(encoder.modules, fresh, strict=True)]
    except Exception as error:  # a user's module may refuse to be copied or reset in any way
        raise NotReinitialisedError(f"{encoder.name} cannot be re-initialised: {first_line(error)}") from error


def _made_again(encoder: Encoder, seed: int) -> list[nn.Module] | None:
    """The modules of the model that its spec makes with other random weights; None if it makes the same weights."""
    if encoder.remake is None:
        return None
    fresh = list(Contents.of(encoder.remake(_FIRST_SEED + seed)).modules)
    alike = len(fresh) == len(encoder.modules) and all(map(_same_shapes, encoder.modules, fresh))
    if alike and any(map(_differs, encoder.modules, fresh)):
        return fresh
    encoder.remake = None  # so that it is tried once
    return None


def _configured(module: nn.Module) -> nn.Module | None:
    """A new model of the same configuration, if the class of the module makes models from configurations."""
    config = getattr(module, "config", None)
    if config is None or not callable(getattr(type(module), "_from_config", None)):
        return None
    made: nn.Module = type(module)(copy.deepcopy(config))  # transformers' models take their configuration alone
    return made if _same_shapes(module, made) and _differs(module, made) else None


def _reset(module: nn.Module) -> nn.Module:
    """A copy of a module with new weights: inner layers first, so that a module's own way of doing it wins.

    It is on the CPU, so that a GPU gets the same weights.
    """
    fresh = copy.deepcopy(module).cpu()
    for part in reversed(list(fresh.modules())):
        reset = next((way for name in _RESETS if callable(way := getattr(part, name, None))), None)
        before = [(weight, weight.detach().clone()) for weight in part.parameters(recurse=False)]
        if reset is not None:
            reset()
        for weight, old in before:
            _rescale(weight, old) if reset is not None else _redraw(weight)
    return fresh


def _rescale(weight: Tensor, old: Tensor) -> None:
    """Give a matrix or kernel that was drawn again the scale that it had; a constant one stays."""
    if weight.ndim < 2:
        return
    spread, before = (float(values.detach().float().std(correction=0)) for values in (weight, old))
    if before == 0:
        weight.copy_(old)
    elif spread > 0:
        weight.mul_(before / spread)


def _redraw(weight: Tensor) -> None:
    """Draw a parameter from a normal distribution with its mean and standard deviation; a constant one stays."""
    values = weight.detach().float()
    spread = float(values.std(correction=0))
    if weight.is_floating_point() and spread > 0:
        weight.normal_(float(values.mean()), spread)


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _same_shapes(module: nn.Module, other: nn.Module) -> bool:
    own, new = ({name: tensor.shape for name, tensor in _tensors(each)} for each in (module, other))
    return own == new


def _differs(module: nn.Module, other: nn.Module) -> bool:
    """Whether two modules of the same shapes have different weights."""
    own = dict(_tensors(module))
    return any(not torch.equal(own[name].cpu(), weight.cpu()) for name, weight in other.named_parameters())


def _like(module: nn.Module, fresh: nn.Module) -> dict[str, Tensor]:
    """The tensors of a fresh module, with the devices and dtypes of the given one."""
    new = dict(_tensors(fresh))
    return {name: new[name].data.to(own.device, own.dtype) for name, own in _tensors(module)}
