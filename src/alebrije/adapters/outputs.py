"""Outputs: what models return, read as an Encoding by rules that are few and written down.

- a tensor [B, D] is a vector; [B, K, D] are slots; [B, C, H, W] is a feature map, whose mean over places is the vector;
- a dictionary, or an object with attributes, is read by names: `slots`, then `vector`, `codes`, `embeddings`,
  `embedding`, `image_embeds`, `features`, `pooler_output`, then the mean over `last_hidden_state`; `masks` and
  `reconstruction` beside them are kept; a dictionary of a single tensor is read as that tensor;
- a tuple or list that holds slots [B, K, D] first and then masks [B, K, H, W] is read as both, and any other as its
  first part, if that has two or three axes: where the first part is an image, the codes are somewhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.encoding import Encoding
from alebrije.errors import InputError

ACCEPTED = (
    "accepted are a tensor [B, D], slots [B, K, D], a feature map [B, C, H, W], an Encoding, or a dictionary or object "
    "with `vector`, or `slots` and `masks`"
)
_VECTORS = ("vector", "codes", "embeddings", "embedding", "image_embeds", "features", "pooler_output")
_NAMES = ("slots", *_VECTORS, "last_hidden_state")


def read(output: Any, images: Tensor) -> tuple[Encoding, str]:
    """What a model returned for images [B, 3, H, W] as an `Encoding`, and in words how it was read.

    >>> encoding, how = read(torch.zeros(2, 8, 4, 4), torch.zeros(2, 3, 64, 64))
    >>> encoding.vector.shape, how
    (torch.Size([2, 8]), 'the mean over the places of a feature map [B, 8, 4, 4]')
    """
    encoding, how = _read(output, images)
    if len(encoding) != len(images):
        raise InputError(f"the model gave {len(encoding)} codes for {len(images)} images; it must give one for each")
    if 0 in encoding.codes.shape:
        raise InputError(f"the model gave codes of shape {_shape(encoding.codes)}, which hold no numbers")
    return encoding, how


def in_words(output: Any) -> str:
    """What was returned, for a sentence.

    >>> in_words((torch.zeros(2, 3), None))
    'a tuple of a tensor [2, 3] and None'
    """
    if isinstance(output, Tensor | np.ndarray):
        return f"a tensor {list(output.shape)}"
    if output is None:
        return "None"
    if isinstance(output, tuple | list):
        parts = [_kind(part) for part in output[:4]] + ["more"] * (len(output) > 4)
        if len(output) > 2 and len({_kind(part) for part in output}) == 1:
            return f"a {type(output).__name__} of {len(output):,} parts, each {parts[0]}"
        listed = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
        return f"a {type(output).__name__} of {listed or 'nothing'}"
    if isinstance(output, Mapping):
        return f"a dictionary with {', '.join(repr(name) for name in list(output)[:8]) or 'nothing in it'}"
    return f"an object of type {type(output).__name__}"


def _kind(part: Any) -> str:
    """A part of what was returned, in words, without what is in it in turn."""
    return f"a {type(part).__name__}" if isinstance(part, tuple | list) else in_words(part)


def _read(output: Any, images: Tensor) -> tuple[Encoding, str]:
    if isinstance(output, Encoding):
        what = "slots" if output.vector is None else "a vector"
        beside = [part for part in ("masks", "reconstruction") if getattr(output, part) is not None]
        how = f"an Encoding with {what} [B, {_rest(output.codes)}]" + "".join(f", with {part}" for part in beside)
        return _clean(output), how
    if isinstance(output, Tensor | np.ndarray):
        return _from_tensor(_floats("output", output), images)
    named = _named(output)
    if any(name in named for name in _NAMES):
        return _from_names(named, images)
    if isinstance(output, Mapping) and len(named) == 1:
        (name, tensor), *_ = named.items()
        encoding, how = _from_tensor(_floats(name, tensor), images)
        return encoding, f"{how}, under {name!r}"
    if isinstance(output, tuple | list) and output:
        return _from_tuple(output, images)
    raise InputError(f"the model returned {in_words(output)}; {ACCEPTED}")


def _from_tensor(tensor: Tensor, images: Tensor) -> tuple[Encoding, str]:
    if tensor.ndim == 2:
        return Encoding(vector=tensor), f"a vector [B, {_rest(tensor)}]"
    if tensor.ndim == 3:
        return Encoding(slots=tensor), f"slots [B, {_rest(tensor)}]"
    if tensor.ndim == 4 and tensor.shape[1:] == images.shape[1:]:
        raise InputError("the model returned images like those it was given; it must return the codes, not a drawing")
    if tensor.ndim == 4:
        return Encoding(vector=tensor.mean((2, 3))), f"the mean over the places of a feature map [B, {_rest(tensor)}]"
    raise InputError(f"the model returned {in_words(tensor)}; {ACCEPTED}")


def _from_names(named: Mapping[str, Any], images: Tensor) -> tuple[Encoding, str]:
    name = next(name for name in _NAMES if name in named)
    codes = _floats(name, named[name])
    if name == "last_hidden_state" and codes.ndim == 3:
        encoding, how = Encoding(vector=codes.mean(1)), f"the mean over the {codes.shape[1]} tokens of {name!r}"
    elif name == "slots" and codes.ndim != 3:
        raise InputError(f"the slots that the model returned must have the shape [B, K, D], not {_shape(codes)}")
    else:
        encoding, how = _from_tensor(codes, images)
        how = f"{how}, under {name!r}"
    beside = {part: _floats(part, named[part]) for part in ("masks", "reconstruction") if part in named}
    if beside.get("masks") is not None and beside["masks"].ndim == 5 and beside["masks"].shape[2] == 1:
        beside["masks"] = beside["masks"][:, :, 0]  # as decoders of single slots leave them
    return replace(encoding, **beside), how + "".join(f", with {part}" for part in beside)


def _from_tuple(output: tuple[Any, ...] | list[Any], images: Tensor) -> tuple[Encoding, str]:
    tensors = [part for part in output if isinstance(part, Tensor)]
    first = output[0]
    if isinstance(first, Tensor) and first.ndim == 3:
        masks = [one for one in tensors if one.ndim == 4 and one.shape[:2] == first.shape[:2]]
        if masks:
            return _from_names({"slots": first, "masks": masks[0]}, images)
    if len(output) == 1 or isinstance(first, Encoding) or (isinstance(first, Tensor) and first.ndim in (2, 3)):
        encoding, how = _read(first, images)
        return encoding, f"{how}, the first of {len(output)} parts" if len(output) > 1 else how
    raise InputError(
        f"the model returned {in_words(output)}, and it is not clear which part holds the codes; {ACCEPTED}"
    )


def _named(output: Any) -> dict[str, Any]:
    """The tensors of a dictionary, or those attributes of an object that have a meaning here."""
    if isinstance(output, Mapping):
        return {str(name): part for name, part in output.items() if isinstance(part, Tensor | np.ndarray)}
    found = {name: getattr(output, name, None) for name in (*_NAMES, "masks", "reconstruction")}
    return {name: part for name, part in found.items() if isinstance(part, Tensor | np.ndarray)}


def _clean(encoding: Encoding) -> Encoding:
    parts = {name: getattr(encoding, name) for name in ("vector", "slots", "masks", "reconstruction")}
    return Encoding(**{name: None if part is None else _floats(name, part) for name, part in parts.items()})


def _floats(name: str, tensor: Tensor | np.ndarray[Any, Any]) -> Tensor:
    try:
        tensor = torch.as_tensor(tensor).detach()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must hold numbers, and the model returned {in_words(tensor)} of others") from None
    if name == "masks" and not tensor.is_floating_point():
        return tensor.float()  # hard masks are masks
    if not tensor.is_floating_point():
        kind = str(tensor.dtype).removeprefix("torch.")
        raise InputError(f"the {name} that the model returned must hold floats, not {kind}")
    return tensor.float()


def _rest(tensor: Tensor) -> str:
    return ", ".join(map(str, tensor.shape[1:]))


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)
