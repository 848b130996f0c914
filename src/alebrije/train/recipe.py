"""Recipes: how long, how fast and how carefully to learn, as data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import torch
from torch import nn

from alebrije.errors import InputError
from alebrije.train.rows import Row, Rows

T = TypeVar("T")
Betas = tuple[float, float]

TAIL = 0.3  # the last part of a run, in which the rate of the decay "tail" falls
LEAST = 0.02  # what it falls to


@dataclass(frozen=True)
class Recipe:
    """Everything about training that is not the model, the data or the machine.

    `lr` and `betas` are one value for all parameters, or a table from the beginnings of parameter names to values: the
    longest that fits counts, and "" fits all. `batch` is what one update learns from, over all devices and all
    `accumulate` parts into which each of them cuts its share.

    The learning rate rises in a straight line over the first `warmup` steps and is multiplied by the decay: `halving`
    halves it every `half_life` steps from the first step on, `cosine` ends at zero, `tail` is level and then falls to a
    fiftieth over the last 30 percent.

    >>> Recipe(steps=100, batch=8, lr=1e-3, warmup=10).rate(4)
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
    decay: Literal["constant", "halving", "cosine", "tail"] = "constant"
    half_life: int | None = None
    clip: float | None = None
    clip_by: Literal["norm", "largest", "value"] = "norm"  # `largest` is the norm that counts the largest entry alone
    clip_each: bool = False  # encoder, decoder and so on by themselves, lest the largest loss starve the others
    accumulate: int = 1
    precision: Literal["float32", "bfloat16"] = "bfloat16"  # of the arithmetic; weights are float32

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            if get_origin(kind) is Literal:
                words = ", ".join(get_args(kind))
                _require(
                    getattr(self, name) in get_args(kind), f"{name} must be one of {words}, not {getattr(self, name)!r}"
                )
        for pair in self.betas.values() if isinstance(self.betas, Mapping) else [self.betas]:
            _require(all(0 <= beta < 1 for beta in pair), f"betas must be at least 0 and less than 1, not {pair}")
        for name in ("steps", "batch", "accumulate"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")
        for rate in self.lr.values() if isinstance(self.lr, Mapping) else [self.lr]:
            _require(math.isfinite(rate) and rate > 0, f"lr must be a positive number, not {rate}")
        _require(self.clip is None or self.clip > 0, f"clip must be positive, not {self.clip}")
        _require(self.warmup >= 0, f"warmup must be at least 0, not {self.warmup}")
        _require(
            self.warmup < self.steps or not self.warmup, f"a warmup of {self.warmup} steps never ends in {self.steps}"
        )
        _require(self.decay != "halving" or (self.half_life or 0) > 0, "the decay `halving` needs a half_life of steps")
        _require(
            self.batch % self.accumulate == 0,
            f"a batch of {self.batch} cannot be cut into {self.accumulate} equal parts",
        )

    def rate(self, step: int) -> float:
        """What the learning rate is multiplied by at a step, the first being 0."""
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        part = step / self.steps
        if self.decay == "halving":
            assert self.half_life is not None
            return rise * math.exp2(-step / self.half_life)
        if self.decay == "cosine":
            return rise * 0.5 * (1.0 + math.cos(math.pi * part))
        if self.decay == "tail":
            return rise * (1.0 - (1.0 - LEAST) * max(0.0, part - (1.0 - TAIL)) / TAIL)
        return rise

    def optimiser_of(self, model: nn.Module) -> Rows:
        """Adam or SGD on rows of parameters, one for each learning rate; rates are tensors beside the parameters."""
        groups: dict[tuple[str, float, Betas, torch.dtype], list[nn.Parameter]] = {}
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                part = name.partition(".")[0] if self.clip_each else ""
                kind = part, _of_part(self.lr, name), _of_part(self.betas, name), weight.dtype
                groups.setdefault(kind, []).append(weight)
        if not groups:
            raise InputError(f"{type(model).__name__} has no parameters that could learn")
        rows: dict[str, list[Row]] = {}
        options: list[dict[str, Any]] = []
        for (part, lr, betas, _), weights in groups.items():
            row = Row(weights)
            rows.setdefault(part, []).append(row)
            option = {"params": [row.values], "lr": torch.tensor(lr, device=row.values.device), "peak": lr}
            options.append(option | ({"betas": betas} if self.optimiser == "adam" else {}))
        if self.optimiser == "sgd":
            momentum, decay = self.momentum, self.weight_decay
            return Rows(rows, torch.optim.SGD(options, momentum=momentum, weight_decay=decay, fused=True))
        capturable = row.values.is_cuda
        adam = torch.optim.Adam(
            options, eps=self.eps, weight_decay=self.weight_decay, fused=True, capturable=capturable
        )
        return Rows(rows, adam)

    def clip_gradients(self, parts: Mapping[str, list[nn.Parameter]]) -> None:
        """Keep the gradients of each part within bounds; without `clip_each` there is one."""
        if self.clip is None:
            return
        for weights in parts.values():
            if self.clip_by == "value":
                nn.utils.clip_grad_value_(weights, self.clip)
            else:
                nn.utils.clip_grad_norm_(weights, self.clip, norm_type=2.0 if self.clip_by == "norm" else math.inf)


def _of_part(table: T | Mapping[str, T], name: str) -> T:
    """The value of a parameter: the table's entry with the longest beginning of its name."""
    if not isinstance(table, Mapping):
        return table
    known = [start for start in table if name.startswith(start)]
    if not known:
        raise InputError(f"the recipe has no learning rate for the parameter {name}; it has {', '.join(table)}")
    return table[max(known, key=len)]


def _require(good: bool, sentence: str) -> None:
    if not good:
        raise InputError(sentence)
