"""How the loop's loss is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])

# many small kernels side by side in one, and parts of the sums of layer norms as large as is quickest
OPTIONS = ("combo_kernels", "triton.mix_order_reduction_autotune_split_size")


def compiled(function: Function) -> Function:
    """A function through torch.compile, with those options that this version of it has."""
    options: dict[str, Any] = dict.fromkeys(set(OPTIONS) & set(torch._inductor.list_options()), True)
    return torch.compile(function, options=options)  # type: ignore[return-value]
