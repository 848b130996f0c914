"""Outputs: how the output of a model is read as an Encoding.

- A tensor [B, D] is a vector, [B, K, D] are slots, and [B, C, H, W] is a feature map, averaged over pixels.
- A dictionary or object is read by name: `slots`, then `vector`, `codes`, `embeddings`, `embedding`, `image_embeds`,
  `features`, `pooler_output`, then the mean over `last_hidden_state`. `masks` and `reconstruction` are kept. A
  dictionary with a single tensor is read as that tensor.
- Masks [B, K, H, W] may keep a channel, [B, K, 1, H, W].
- A tuple or list of slots [B, K, D] and masks [B, K, H, W] is read as both. Any other is read as its first part if that
  has two or three axes; if the first part is an image, the codes are somewhere else.
- For videos, slots are [B, T, K, D] or, the same in all frames, [B, K, D], and masks [B, T, K, H, W]; for several views
  [B, K, D] and [B, V, K, H, W]. There are no feature maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.arrays import ArrayOrTensor
from alebrije.encoding import Encoding
from alebrije.errors import InputError

_ACCEPTED = (
    "accepted are a tensor [B, D], slots [B, K, D], a feature map [B, C, H, W], an Encoding, or a dictionary or object "
    "with `vector`, or `slots` and `masks`"
)
_VECTORS = ("vector", "codes", "embeddings", "embedding", "image_embeds", "features", "pooler_output")
_CODES = ("slots", *_VECTORS, "last_hidden_state")
_EXTRAS = ("masks", "reconstruction")


def read_output(output: Any, images: Tensor) -> tuple[Encoding, str]:
    """Read the output of a model for images [B, 3, H, W], videos or views as an `Encoding`, and describe how.

    >>> encoding, description = read_output(torch.zeros(2, 8, 4, 4), torch.zeros(2, 3, 64, 64))
    >>> encoding.vector.shape, description
    (torch.Size([2, 8]), 'the mean over the pixels of a feature map [B, 8, 4, 4]')
    """
    encoding, description = _read(output, images)
    if len(encoding) != len(images):
        raise InputError(f"the model returned {len(encoding)} codes for {len(images)} images instead of one per image")
    if images.ndim == 5 and encoding.frames not in (None, images.shape[1]):
        given = f"it was given {images.shape[1]}"
        raise InputError(f"the model returned masks or slots of {encoding.frames} frames or views, and {given}")
    if images.ndim == 4 and encoding.frames is not None:
        raise InputError(f"the model returned {encoding.frames} frames or views for each image")
    if 0 in encoding.codes.shape:
        raise InputError(f"the model returned codes of shape {list(encoding.codes.shape)}, which are empty")
    return encoding, description


def _read(output: Any, images: Tensor) -> tuple[Encoding, str]:
    if isinstance(output, Encoding):
        kind = "slots" if output.vector is None else "a vector"
        parts = {name: getattr(output, name) for name in ("vector", "slots", *_EXTRAS)}
        encoding = Encoding(**{name: None if part is None else _floats(name, part) for name, part in parts.items()})
        extras = "".join(f", with {part}" for part in _EXTRAS if parts[part] is not None)
        return encoding, f"an Encoding with {kind} {_shape(output.codes)}{extras}"
    if isinstance(output, Tensor | np.ndarray):
        return _from_tensor(_floats("output", output), images)
    named = _named_tensors(output)
    if any(name in named for name in _CODES):
        return _from_names(named, images)
    if isinstance(output, Mapping) and len(named) == 1:
        (name, tensor), *_ = named.items()
        encoding, description = _from_tensor(_floats(name, tensor), images)
        return encoding, f"{description}, under {name!r}"
    if isinstance(output, tuple | list) and output:
        return _from_tuple(output, images)
    raise InputError(f"the model returned {_describe(output)}; {_ACCEPTED}")


def _from_tensor(tensor: Tensor, images: Tensor) -> tuple[Encoding, str]:
    if tensor.ndim == 2:
        return Encoding(vector=tensor), f"a vector {_shape(tensor)}"
    if tensor.ndim == 3:
        return Encoding(slots=tensor), f"slots {_shape(tensor)}"
    if tensor.ndim == images.ndim and tensor.shape[1:] == images.shape[1:]:
        raise InputError("the model returned images of the same shape as its input; it must return codes")
    if tensor.ndim == 4 and images.ndim == 5:
        return Encoding(slots=tensor), f"slots {_shape(tensor)} of each frame"
    if tensor.ndim == 4:
        return Encoding(vector=tensor.mean((2, 3))), f"the mean over the pixels of a feature map {_shape(tensor)}"
    raise InputError(f"the model returned {_describe(tensor)}; {_ACCEPTED}")


def _from_names(named: Mapping[str, Any], images: Tensor) -> tuple[Encoding, str]:
    name = next(name for name in _CODES if name in named)
    codes = _floats(name, named[name])
    if name == "last_hidden_state" and codes.ndim == 3:
        encoding, description = Encoding(vector=codes.mean(1)), f"the mean over the {codes.shape[1]} tokens of {name!r}"
    elif name == "slots" and codes.ndim not in (3, images.ndim - 1):
        shapes = "[B, K, D] or [B, T, K, D]" if images.ndim == 5 else "[B, K, D]"
        raise InputError(f"the slots that the model returned must have the shape {shapes}, not {list(codes.shape)}")
    else:
        encoding, description = _from_tensor(codes, images)
        description = f"{description}, under {name!r}"
    extras = {part: _floats(part, named[part]) for part in _EXTRAS if part in named}
    return replace(encoding, **extras), description + "".join(f", with {part}" for part in extras)


def _from_tuple(output: tuple[Any, ...] | list[Any], images: Tensor) -> tuple[Encoding, str]:
    tensors = [part for part in output if isinstance(part, Tensor)]
    first = output[0]
    slot_axes = (3, images.ndim - 1)  # 3 alone for images, 3 or 4 for videos
    if isinstance(first, Tensor) and first.ndim in slot_axes:
        axes = (len(first), *images.shape[1:-3], first.shape[-2])
        masks = [tensor for tensor in tensors if _are_masks(tensor, axes)]
        if masks:
            return _from_names({"slots": first, "masks": masks[0]}, images)
    if len(output) == 1 or isinstance(first, Encoding) or (isinstance(first, Tensor) and first.ndim in (2, *slot_axes)):
        encoding, description = _read(first, images)
        return encoding, f"{description}, the first of {len(output)} parts" if len(output) > 1 else description
    raise InputError(f"the model returned {_describe(output)}, and it is unclear which part has the codes; {_ACCEPTED}")


def _are_masks(tensor: Tensor, axes: tuple[int, ...]) -> bool:
    """Whether a tensor has the shape of masks: these axes up to that of the slots, perhaps a channel, then H and W."""
    count = len(axes)
    has_channel = tensor.ndim == count + 3 and tensor.shape[count] == 1
    return tensor.shape[:count] == axes and (tensor.ndim == count + 2 or has_channel)


def _named_tensors(output: Any) -> dict[str, Any]:
    """The tensors of a dictionary, or the attributes of an object that have a known name."""
    if isinstance(output, Mapping):
        return {str(name): part for name, part in output.items() if isinstance(part, Tensor | np.ndarray)}
    attributes = {name: getattr(output, name, None) for name in (*_CODES, *_EXTRAS)}
    return {name: part for name, part in attributes.items() if isinstance(part, Tensor | np.ndarray)}


def _floats(name: str, array: ArrayOrTensor) -> Tensor:
    try:
        tensor = torch.as_tensor(array).detach()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"the {name} that the model returned must be floats, not {array.dtype}") from None
    if name != "masks" and not tensor.is_floating_point():  # hard masks may be integers or booleans
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise InputError(f"the {name} that the model returned must be floats, not {dtype}")
    return tensor.float()


def _describe(output: Any) -> str:
    """Describe an output in an error message.

    >>> _describe((torch.zeros(2, 3), None))
    'a tuple of a tensor [2, 3] and None'
    """
    if isinstance(output, Tensor | np.ndarray):
        return f"a tensor {list(output.shape)}"
    if output is None:
        return "None"
    if isinstance(output, tuple | list):
        parts = [_describe_part(part) for part in output[:4]] + ["more"] * (len(output) > 4)
        if len(output) > 2 and len({_describe_part(part) for part in output}) == 1:
            return f"a {type(output).__name__} of {len(output):,} parts, each {parts[0]}"
        listed = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
        return f"a {type(output).__name__} of {listed}" if parts else f"an empty {type(output).__name__}"
    if isinstance(output, Mapping):
        names = ", ".join(repr(name) for name in list(output)[:8])
        return f"a dictionary with {names}" if names else "an empty dictionary"
    return f"an object of type {type(output).__name__}"


def _describe_part(part: Any) -> str:
    return f"a {type(part).__name__}" if isinstance(part, tuple | list) else _describe(part)


def _shape(tensor: Tensor) -> str:
    """The shape with B for the batch size, such as [B, 8]."""
    return f"[B, {', '.join(map(str, tensor.shape[1:]))}]"
