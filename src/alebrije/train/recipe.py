"""Recipes: steps, batch size, optimizer, learning rate schedule and clipping, as data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import torch
from torch import nn

from alebrije.errors import InputError
from alebrije.train.flat_optimizer import FlatOptimizer, FlatParameters
from alebrije.train.plateau import Plateau, PlateauRule

T = TypeVar("T")
Betas = tuple[float, float]

TAIL = 0.3  # share of the steps over which the decay "tail" falls
TAIL_END = 0.02  # factor that it falls to


@dataclass(frozen=True)
class Recipe:
    """Everything about training that is not the model, the data or the machine.

    `lr` and `betas` are one value for all parameters, or a table from prefixes of parameter names to values. The
    longest matching prefix counts, and "" matches all. `batch` is the number of images in one update, over all devices
    and all `accumulate` parts that each device splits its share into.

    The learning rate rises linearly over the first `warmup` steps and is multiplied by the decay: `halving` halves it
    every `half_life` steps from the first step on, `cosine` ends at zero, `tail` is constant and then falls to a
    fiftieth over the last 30 percent. `plateau` multiplies the rate by `drop` when the mean loss of `window` steps (an
    epoch, say) was not lower than before by the share `threshold` for more than `patience` windows; `PlateauRule`
    explains the rest.

    >>> Recipe(steps=100, batch=8, lr=1e-3, warmup=10).lr_factor(4)
    0.5
    """

    steps: int
    batch: int
    lr: float | Mapping[str, float]
    optimiser: Literal["adam", "sgd"] = "adam"
    betas: Betas | Mapping[str, Betas] = (0.9, 0.999)
    eps: float = 1e-8
    momentum: float = 0.9
    weight_decay: float = 0.0
    warmup: int = 0
    decay: Literal["constant", "halving", "cosine", "tail", "plateau"] = "constant"
    half_life: int | None = None
    window: int | None = None
    patience: int = 1
    threshold: float = 0.01
    cooldown: int = 0
    drop: float = 0.5
    clip: float | None = None
    clip_by: Literal["norm", "largest", "value"] = "norm"  # `largest` is the maximum norm
    clip_each: bool = False  # clip encoder, decoder and so on separately; else one large loss shrinks all updates
    accumulate: int = 1
    precision: Literal["float32", "bfloat16"] = "bfloat16"  # of the computation; weights are float32

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            if get_origin(kind) is Literal:
                words, value = ", ".join(get_args(kind)), getattr(self, name)
                _require(value in get_args(kind), f"{name} must be one of {words}, not {value!r}")
        for pair in self.betas.values() if isinstance(self.betas, Mapping) else [self.betas]:
            _require(all(0 <= beta < 1 for beta in pair), f"betas must be at least 0 and less than 1, not {pair}")
        for name in ("steps", "batch", "accumulate"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")
        for rate in self.lr.values() if isinstance(self.lr, Mapping) else [self.lr]:
            _require(math.isfinite(rate) and rate > 0, f"lr must be a positive number, not {rate}")
        _require(self.clip is None or self.clip > 0, f"clip must be positive, not {self.clip}")
        _require(self.warmup >= 0, f"warmup must be at least 0, not {self.warmup}")
        _require(self.warmup < self.steps, f"a warmup of {self.warmup} steps never ends in {self.steps}")
        _require(self.decay != "halving" or (self.half_life or 0) > 0, "the decay `halving` needs a half_life")
        _require(self.decay != "plateau" or (self.window or 0) > 0, "the decay `plateau` needs a window of steps")
        for name in ("patience", "cooldown"):
            _require(getattr(self, name) >= 0, f"{name} must be at least 0, not {getattr(self, name)}")
        _require(0 <= self.threshold < 1, f"threshold must be at least 0 and less than 1, not {self.threshold}")
        _require(0 < self.drop < 1, f"drop must be between 0 and 1, not {self.drop}")
        remainder = self.batch % self.accumulate
        _require(not remainder, f"a batch of {self.batch} cannot be split into {self.accumulate} equal parts")

    def lr_factor(self, step: int) -> float:
        """Return the factor of the learning rate at a step, counted from 0; without that of a plateau."""
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        part = step / self.steps
        if self.decay == "halving":
            assert self.half_life is not None
            return rise * math.exp2(-step / self.half_life)
        if self.decay == "cosine":
            return rise * 0.5 * (1.0 + math.cos(math.pi * part))
        if self.decay == "tail":
            return rise * (1.0 - (1.0 - TAIL_END) * max(0.0, part - (1.0 - TAIL)) / TAIL)
        return rise

    def make_optimizer(self, model: nn.Module) -> FlatOptimizer:
        """Return Adam or SGD on flat parameters, one group for each learning rate; the rates are tensors."""
        weights_by_group: dict[tuple[str, float, Betas, torch.dtype], list[nn.Parameter]] = {}
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                part = name.partition(".")[0] if self.clip_each else ""
                key = part, _by_prefix(self.lr, name), _by_prefix(self.betas, name), weight.dtype
                weights_by_group.setdefault(key, []).append(weight)
        if not weights_by_group:
            raise InputError(f"{type(model).__name__} has no trainable parameters")
        groups: dict[str, list[FlatParameters]] = {}
        options: list[dict[str, Any]] = []
        for (part, lr, betas, _), weights in weights_by_group.items():
            flat = FlatParameters(weights)
            groups.setdefault(part, []).append(flat)
            option = {"params": [flat.values], "lr": torch.tensor(lr, device=flat.values.device), "peak": lr}
            options.append(option | ({"betas": betas} if self.optimiser == "adam" else {}))
        rule = self.plateau_rule
        plateau = None if rule is None else Plateau(rule, flat.values.device)
        decay = self.weight_decay
        if self.optimiser == "sgd":
            sgd = torch.optim.SGD(options, momentum=self.momentum, weight_decay=decay, fused=True)
            return FlatOptimizer(groups, sgd, plateau)
        capturable = flat.values.is_cuda
        adam = torch.optim.Adam(options, eps=self.eps, weight_decay=decay, fused=True, capturable=capturable)
        return FlatOptimizer(groups, adam, plateau)

    @property
    def plateau_rule(self) -> PlateauRule | None:
        """The rule of the decay `plateau`, or None."""
        if self.decay != "plateau":
            return None
        assert self.window is not None
        return PlateauRule(self.window, self.patience, self.threshold, self.cooldown, self.drop)

    def clip_gradients(self, parts: Mapping[str, list[nn.Parameter]]) -> None:
        """Clip the gradients of each part; without `clip_each` there is one part."""
        if self.clip is None:
            return
        for weights in parts.values():
            if self.clip_by == "value":
                nn.utils.clip_grad_value_(weights, self.clip)
            else:
                nn.utils.clip_grad_norm_(weights, self.clip, norm_type=2.0 if self.clip_by == "norm" else math.inf)


PLATEAU = ("window", "patience", "threshold", "cooldown", "drop")  # fields that only the decay `plateau` reads


def _by_prefix(table: T | Mapping[str, T], name: str) -> T:
    """Return the value for a parameter: the entry with the longest matching prefix of its name."""
    if not isinstance(table, Mapping):
        return table
    matching = [prefix for prefix in table if name.startswith(prefix)]
    if not matching:
        raise InputError(f"the recipe has no learning rate for the parameter {name}; it has {', '.join(table)}")
    return table[max(matching, key=len)]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InputError(message)
