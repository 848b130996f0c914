"""Scenes: a batch of scenes as a dataclass of tensors, without pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.scenes.vocabulary import Vocabulary

Index = int | slice | Tensor | Sequence[int]

_PER_OBJECT = ("factors", "position", "rotation", "pixels", "path")
_COLUMNS = {"position": (2, 3), "pixels": (3,), "path": (4,), "cameras": (3,)}
_PER_SCENE = {"background": (), "camera": (3,), "lamps": (3, 3)}  # the shape after the first axis


def normalise_index(index: Index, count: int) -> slice | Tensor:
    """An index into `count` rows as a slice, or as a CPU tensor [n] of row indices, so that the first axis is kept.

    >>> normalise_index(-1, 3), normalise_index([True, False, True], 3).tolist(), normalise_index((2, 0), 3).tolist()
    (slice(2, 3, None), [0, 2], [2, 0])
    """
    if isinstance(index, slice):  # torch has no negative steps
        return index if (index.step or 1) > 0 else torch.tensor(range(count)[index], dtype=torch.int64)
    if isinstance(index, list | tuple | range) and not len(index):
        return torch.zeros(0, dtype=torch.int64)
    try:
        rows = index.detach().cpu().numpy() if isinstance(index, Tensor) else np.asarray(index)
    except (TypeError, ValueError, RuntimeError):  # ragged lists, types unknown to NumPy
        rows = np.asarray(None)
    if rows.dtype.kind not in "biu" or rows.ndim > 1:
        raise IndexError(f"an index must be whole numbers, a slice or a mask, not {index!r}")
    if rows.dtype.kind == "b":
        if rows.shape != (count,):
            raise IndexError(f"a mask over {count} rows cannot have the shape {list(rows.shape)}")
        return torch.from_numpy(np.flatnonzero(rows))
    if rows.size and not -count <= (lowest := int(rows.min())) <= (highest := int(rows.max())) < count:
        raise IndexError(f"there is no row {lowest if lowest < -count else highest} among {count}")
    if rows.ndim == 0:
        return slice(int(rows) % count, int(rows) % count + 1)
    return torch.from_numpy(rows.astype(np.int64) % max(count, 1))


def _tensor(value: Any, name: str, dtype: torch.dtype | None = None) -> Tensor:
    """The argument `name` as a tensor."""
    try:
        return torch.as_tensor(np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(f"{name} must be an array or nested lists of numbers of equal length") from None


def _integers(value: Any, name: str) -> Tensor:
    """The argument `name` as an int64 tensor; an InputError unless all values are whole numbers."""
    tensor = _tensor(value, name)
    if tensor.is_complex() or (tensor.is_floating_point() and not bool((tensor == tensor.round()).all())):
        raise InputError(f"{name} must be whole numbers: indices of values in the vocabulary")
    return tensor.long()


@dataclass(frozen=True, eq=False)
class Scenes:
    """B scenes of at most N objects with F factors each.

    A video is a scene whose objects have a `path`, and whose camera may move: T frames. Scenes that are seen from V
    `cameras` have no path. In both, `position`, `rotation` and `camera` are those of the first frame or view, and
    `at_once` gives all frames or views as scenes of their own.

    Positions are in the unit square, y up, in flat worlds, and in world units in solid ones, where the third coordinate
    is the height of the object's centre. Absent objects (`present` false) have factors 0 and position 0.

    >>> from alebrije.scenes import Factor, Scenes, Vocabulary
    >>> toy = Vocabulary("toy", (Factor("color", ("red", "blue")),))
    >>> scenes = Scenes.of(toy, factors=[[[0], [1]], [[1], [1]]], position=[[[0, 0], [1, 1]], [[0, 1], [1, 0]]])
    >>> len(scenes), scenes.objects, scenes[1].describe()
    (2, 2, ['blue, blue'])
    """

    vocabulary: Vocabulary
    factors: Tensor  # [B, N, F] int64
    present: Tensor  # [B, N] bool
    position: Tensor  # [B, N, 2 or 3] float64
    rotation: Tensor  # [B, N] float64, radians about the vertical (solid) or the viewing axis (flat)
    background: Tensor  # [B] int64, an index into vocabulary.background
    camera: Tensor | None = None  # [B, 3] float64
    lamps: Tensor | None = None  # [B, 3, 3] float64: key, back, fill
    pixels: Tensor | None = None  # [B, N, 3] float64: column, row, depth as the released files record them
    names: tuple[str, ...] | None = None  # the released image_filename
    path: Tensor | None = None  # [B, N, T, 4] float64: position and rotation in every frame
    cameras: Tensor | None = None  # [B, T or V, 3] float64: the camera of every frame or view

    @classmethod
    def of(
        cls,
        vocabulary: Vocabulary,
        factors: Any,
        position: Any,
        *,
        present: Any = None,
        rotation: Any = None,
        background: Any = None,
        camera: Any = None,
        lamps: Any = None,
        pixels: Any = None,
        names: Sequence[str] | None = None,
        path: Any = None,
        cameras: Any = None,
    ) -> Scenes:
        """Scenes from arrays or nested lists; by default objects are present, unrotated and on the first background."""
        indices = _integers(factors, "factors")
        if indices.ndim != 3 or indices.shape[-1] != len(vocabulary.factors):
            wanted = f"[scenes, objects, {len(vocabulary.factors)}]"
            raise InputError(f"factors must have the shape {wanted} in {vocabulary.name}, not {list(indices.shape)}")
        count, objects = indices.shape[:2]
        given = {"rotation": rotation, "camera": camera, "lamps": lamps, "pixels": pixels}
        given |= {"path": path, "cameras": cameras}
        real = {name: None if value is None else _tensor(value, name, torch.float64) for name, value in given.items()}
        real["position"] = _tensor(position, "position", torch.float64)
        if real["rotation"] is None:
            real["rotation"] = torch.zeros(count, objects, dtype=torch.float64, device=indices.device)
        exists = indices.new_ones(count, objects).bool() if present is None else _tensor(present, "present").bool()
        ground = indices.new_zeros(count) if background is None else _integers(background, "background")
        label = None if names is None else tuple(names)
        scenes = cls(vocabulary, factors=indices, present=exists, background=ground, names=label, **real)  # type: ignore[arg-type]
        scenes.check()
        return scenes if bool(exists.all()) else scenes._cleared()

    def _cleared(self) -> Scenes:
        """The same scenes with zeros for absent objects, so that equal scenes have equal tensors."""
        cleared = {
            name: tensor.masked_fill(~self.present.reshape(*self.present.shape, *[1] * (tensor.ndim - 2)), 0)
            for name, tensor in self.tensors()
            if name in _PER_OBJECT
        }
        return replace(self, **cleared)  # type: ignore[arg-type]

    def check(self) -> None:
        """Raise an InputError if shapes do not fit, a number is not finite or a value is outside the vocabulary."""
        count, objects = self.factors.shape[:2]
        for name, tensor in self.tensors():
            if name == "cameras":
                if tensor.ndim != 3 or tuple(tensor.shape) != (count, tensor.shape[1], 3) or not tensor.shape[1]:
                    wanted = f"[{count}, frames or views, 3]"
                    raise InputError(f"cameras must have the shape {wanted}, not {list(tensor.shape)}")
            elif name in _PER_SCENE:
                if tuple(tensor.shape) != (count, *_PER_SCENE[name]):
                    wanted = str([count, *_PER_SCENE[name]])
                    raise InputError(f"{name} must have the shape {wanted}, not {list(tensor.shape)}")
            elif tuple(tensor.shape[:2]) != (count, objects):
                raise InputError(f"{name} must begin with the shape {[count, objects]}, not {list(tensor.shape)}")
            columns = _COLUMNS.get(name, ())
            if columns and (tensor.ndim == 2 or tensor.shape[-1] not in columns):
                wanted = " or ".join(map(str, columns))
                raise InputError(f"{name} must have {wanted} columns, not the shape {list(tensor.shape)}")
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                raise InputError(f"{name} must be finite")
        self._check_frames()
        if self.names is not None and len(self.names) != count:
            raise InputError(f"{count} scenes cannot have {len(self.names)} names")
        for axis, factor in enumerate(self.vocabulary):
            used = self.factors[..., axis][self.present]
            if used.numel() and not 0 <= int(used.min()) <= int(used.max()) < len(factor):
                raise InputError(f"{factor.name} must lie in 0..{len(factor) - 1} in {self.vocabulary.name}")
        grounds = len(self.vocabulary.background)
        if count and not 0 <= int(self.background.min()) <= int(self.background.max()) < grounds:
            raise InputError(f"background must lie in 0..{grounds - 1} in {self.vocabulary.name}")

    def _check_frames(self) -> None:
        """Raise an InputError unless path and cameras fit each other and the first frame."""
        if self.path is not None:
            if self.path.ndim != 4 or not self.path.shape[2] or self.position.shape[-1] != 3:
                raise InputError(
                    "path must have the shape [scenes, objects, frames, 4] in scenes of three coordinates, "
                    f"not {list(self.path.shape)}"
                )
            if self.cameras is not None and self.cameras.shape[1] != self.path.shape[2]:
                raise InputError(
                    f"a path of {self.path.shape[2]} frames needs as many cameras, not {self.cameras.shape[1]}"
                )
        if self.cameras is not None and self.camera is None:
            raise InputError("cameras need a camera, that of the first frame or view")

    @property
    def frames(self) -> int | None:
        """The number of frames of a video; None for still scenes."""
        return None if self.path is None else self.path.shape[2]

    @property
    def views(self) -> int | None:
        """The number of cameras that see a still scene; None for videos and for scenes with one camera."""
        return None if self.cameras is None or self.path is not None else self.cameras.shape[1]

    def at_once(self) -> Scenes:
        """All frames or views as scenes of their own, those of the first scene first; other scenes as they are."""
        count = self.frames or self.views
        if count is None:
            return self
        repeated: dict[str, Any] = {name: tensor.repeat_interleave(count, 0) for name, tensor in self.tensors()}
        if self.path is not None:
            poses = self.path.transpose(1, 2).flatten(0, 1)  # [B * T, N, 4]
            repeated |= {"position": poses[..., :3].contiguous(), "rotation": poses[..., 3].contiguous()}
        if self.cameras is not None:
            repeated["camera"] = self.cameras.flatten(0, 1)
        return replace(self, **repeated | {"path": None, "cameras": None, "pixels": None, "names": None})

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Name and tensor of every field that is set."""
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                yield name, value

    def __len__(self) -> int:
        return len(self.factors)

    @property
    def objects(self) -> int:
        """The size of the object axis, N."""
        return self.factors.shape[1]

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.factors.device

    def __getitem__(self, index: Index) -> Scenes:
        """A selection of scenes. A single index keeps the batch axis: `scenes[3]` is a batch of one."""
        rows = normalise_index(index, len(self))
        picked: dict[str, Any] = {name: tensor[rows] for name, tensor in self.tensors()}
        if self.names is not None:
            chosen = range(len(self))[rows] if isinstance(rows, slice) else rows.tolist()
            picked["names"] = tuple(self.names[row] for row in chosen)
        return replace(self, **picked)

    def __iter__(self) -> Iterator[Scenes]:
        return (self[row] for row in range(len(self)))

    def to(self, device: str | torch.device) -> Scenes:
        """The same scenes on another device. MPS has no float64, so positions become float32 there."""
        single = torch.device(device).type == "mps"
        moved = {
            name: (tensor.float() if single and tensor.is_floating_point() else tensor).to(device)
            for name, tensor in self.tensors()
        }
        return replace(self, **moved)  # type: ignore[arg-type]

    def factor(self, name: str) -> Tensor:
        """One factor of every object, [B, N] int64."""
        return self.factors[..., self.vocabulary.axis(name)]

    def codes(self, name: str) -> Tensor:
        """The codes of a numeric factor for every object: sizes [B, N], colours [B, N, 3], float64 (float32 on MPS)."""
        table = torch.tensor(self.vocabulary[name].codes, dtype=self.position.dtype, device=self.device)
        return table[self.factor(name)]

    def equals(self, other: Scenes) -> bool:
        """Whether both hold exactly the same scenes, ignoring names and recorded pixels."""
        ours, theirs = dict(self.tensors()), dict(other.tensors())
        for tensors in (ours, theirs):
            tensors.pop("pixels", None)
        return (
            self.vocabulary == other.vocabulary
            and ours.keys() == theirs.keys()
            and all(torch.equal(ours[name].cpu(), theirs[name].cpu()) for name in ours)
        )

    def describe(self) -> list[str]:
        """Each scene in words."""
        scenes = zip(self.factors, self.present, strict=True)
        return [", ".join(map(self.vocabulary.describe, factors[present].tolist())) for factors, present in scenes]

    @staticmethod
    def concatenate(batches: Sequence[Scenes]) -> Scenes:
        """Several batches one after another; those with fewer objects are padded with absent ones.

        Recorded pixels and names are kept if all batches have them. Cameras and lamps affect the image, so all batches
        must have them or none.
        """
        if not batches:
            raise InputError("there are no scenes to concatenate")
        first, most = batches[0], max(batch.objects for batch in batches)
        if any(batch.vocabulary != first.vocabulary for batch in batches):
            raise InputError("scenes of different vocabularies cannot be concatenated")
        for item in ("camera", "lamps", "path", "cameras"):
            if len({getattr(batch, item) is None for batch in batches}) > 1:
                raise InputError(f"scenes with {item} and scenes without cannot be concatenated")
        if len({batch.position.shape[2:] for batch in batches}) > 1:
            raise InputError("scenes with two and with three coordinates cannot be concatenated")
        if len({(batch.frames, batch.views) for batch in batches}) > 1:
            raise InputError("scenes with different numbers of frames or views cannot be concatenated")
        padded = [batch.padded(most) for batch in batches]
        common = [name for name, _ in first.tensors() if all(getattr(batch, name) is not None for batch in batches)]
        joined: dict[str, Any] = {name: torch.cat([getattr(batch, name) for batch in padded]) for name in common}
        for item in ("camera", "lamps", "pixels", "path", "cameras"):
            joined.setdefault(item, None)
        named = all(batch.names is not None for batch in batches)
        joined["names"] = tuple(name for batch in batches for name in batch.names or ()) if named else None
        return replace(first, **joined)

    def padded(self, objects: int) -> Scenes:
        """The same scenes with absent objects added up to `objects`."""
        extra = objects - self.objects
        if extra < 0:
            raise InputError(f"scenes of {self.objects} objects cannot be padded to {objects}")
        if extra == 0:
            return self
        wider = {
            name: torch.cat([tensor, tensor.new_zeros(len(self), extra, *tensor.shape[2:])], dim=1)
            for name, tensor in self.tensors()
            if name in ("present", *_PER_OBJECT)
        }
        return replace(self, **wider)  # type: ignore[arg-type]
