"""Encoding: the output type of every model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from alebrije.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

Shows = Literal["images", "videos", "views"]  # what a world shows of a scene, and what a model takes

_SHAPES = {
    "vector": "[B, D]",
    "slots": "[B, K, D] or [B, T, K, D]",
    "masks": "[B, K, H, W] or [B, T, K, H, W]",
    "reconstruction": "[B, 3, H, W] or [B, T, 3, H, W]",
}
_IMAGE_AXES = {"vector": 2, "slots": 3, "masks": 4, "reconstruction": 4}  # frames and views add one


@dataclass(frozen=True, eq=False)
class Encoding:
    """The output of a model for a batch of images, of videos, or of scenes that are seen from several sides.

    An image has one `vector` or several `slots`. Slot models may add `masks`, which sum to 1 over the slots; a channel,
    [B, K, 1, H, W], is dropped. Models with a decoder may add a `reconstruction`, nominally in 0..1.

    A video has slots, masks and a reconstruction of each of its T frames, and slot k is the same object in all of them.
    A scene that is seen from V sides has one set of slots, and masks and a reconstruction of each view. A video may
    have one set of slots for all frames, too; only the masks then say which frame they belong to.

    >>> import torch
    >>> Encoding(slots=torch.zeros(2, 7, 64)).codes.shape
    torch.Size([2, 7, 64])
    >>> video = Encoding(slots=torch.zeros(2, 6, 7, 64), masks=torch.zeros(2, 6, 7, 32, 32))
    >>> video.frames, len(video[:1]), video.frame(0).slots.shape
    (6, 1, torch.Size([2, 7, 64]))
    """

    vector: Tensor | None = None  # [B, D]
    slots: Tensor | None = None  # [B, K, D]; of videos [B, T, K, D]
    masks: Tensor | None = None  # [B, K, H, W]; of videos [B, T, K, H, W], of views [B, V, K, H, W]
    reconstruction: Tensor | None = None  # [B, 3, H, W]; of videos [B, T, 3, H, W], of views [B, V, 3, H, W]

    def __post_init__(self) -> None:
        if (self.vector is None) == (self.slots is None):
            raise InputError("an encoding has either a vector or slots")
        if self._masks_have_channel():
            assert self.masks is not None
            object.__setattr__(self, "masks", self.masks.squeeze(-3))
        for name, tensor in self.parts().items():
            extra = tensor.ndim - _IMAGE_AXES[name]
            if extra not in ((0,) if name == "vector" else (0, 1)):
                shape = list(tensor.shape)
                raise InputError(f"the {name} of an encoding must have the shape {_SHAPES[name]}, not {shape}")
            if len(tensor) != len(self.codes):
                raise InputError(f"an encoding has codes of {len(self.codes)} images but {name} of {len(tensor)}")
        if len(set(self._frames_of_parts().values())) > 1:
            parts = (f"{name} of {count or 'no'} frames or views" for name, count in self._frames_of_parts().items())
            raise InputError(f"an encoding has {' but '.join(parts)}")
        if self.slots is not None and self.masks is not None and self.masks.shape[-3] != self.slots.shape[-2]:
            raise InputError(f"an encoding has {self.slots.shape[-2]} slots but {self.masks.shape[-3]} masks")

    @property
    def codes(self) -> Tensor:
        """The vector or the slots, whichever is set."""
        codes = self.slots if self.vector is None else self.vector
        assert codes is not None
        return codes

    @property
    def frames(self) -> int | None:
        """The number of frames of a video or of views of a scene; None for images."""
        return next(iter(self._frames_of_parts().values()), 0) or None

    def frame(self, index: int) -> Encoding:
        """The encoding of the images of one frame or view."""
        count = self.frames
        if count is None:
            raise InputError("an encoding of images has no frames or views")
        if not -count <= index < count:
            raise IndexError(f"there is no frame or view {index} among {count}")
        return self._each(lambda name, part: part[:, index] if part.ndim > _IMAGE_AXES[name] else part)

    def parts(self) -> dict[str, Tensor]:
        """Name -> tensor, for the parts that are set."""
        return {name: part for name in _SHAPES if (part := getattr(self, name)) is not None}

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: int | slice | Tensor | list[int]) -> Encoding:
        """The encodings of some of the B images, videos or scenes. A single index keeps the batch axis."""
        if isinstance(index, int):
            if not -len(self) <= index < len(self):
                raise IndexError(f"there is no row {index} among {len(self)}")
            index = slice(index % len(self), index % len(self) + 1)
        rows = index
        return self._each(lambda name, part: part[rows])

    def _each(self, change: Callable[[str, Tensor], Tensor]) -> Encoding:
        changed: Any = {name: change(name, part) for name, part in self.parts().items()}
        return Encoding(**changed)

    def _masks_have_channel(self) -> bool:
        """Whether masks have an axis of length 1 between slots and pixels; one slot in several views is none."""
        if self.masks is None or self.masks.ndim not in (5, 6) or self.masks.shape[-3] != 1:
            return False
        return self.slots is None or self.masks.shape[:-3] == self.slots.shape[:-1]

    def _frames_of_parts(self) -> dict[str, int]:
        """The frames or views of each part that shows how many there are; 0 of images.

        A vector, and slots without an axis of frames, can belong to either.
        """
        several = {name: part.ndim > _IMAGE_AXES[name] for name, part in self.parts().items()}
        return {
            name: part.shape[1] if several[name] else 0
            for name, part in self.parts().items()
            if several[name] or name in ("masks", "reconstruction")
        }
