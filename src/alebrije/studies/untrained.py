"""Untrained twins of models: what an architecture, or random numbers of the same form, score without training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F

from alebrije import adapters
from alebrije.adapters import Encoder
from alebrije.adapters.tokens import Tokens
from alebrije.adapters.untrained import NotReinitialisedError, reinitialised
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.results import Cell
from alebrije.results.cells import Label
from alebrije.studies.model import LoadedModel, Model, TrainedModel, View, encoding_device
from alebrije.studies.references import resized
from alebrije.train.plan import Plan

TWINS = 3  # of each model, with seeds from 0
SAME_ARCHITECTURE, PROJECTION = "same architecture, re-initialised weights", "random projection of the same width"
_VERSION = 1  # raised when the same model gets other twins
_PIXELS = 32  # side of the images that a random projection reads
_KERNEL = 5  # side of the random convolution that groups pixels
_CAN_BE_DRAWN: WeakKeyDictionary[Encoder, bool] = WeakKeyDictionary()
_DRAWN: list[tuple[object, int, Encoder]] = []  # the twins that were drawn last
_MOST_WEIGHTS = 2**28  # of all twins that are kept


@runtime_checkable
class HasTwins(Protocol):
    """A model that knows its untrained twins."""

    def untrained_twins(self, count: int) -> list[Model]:
        """The twins with seeds from 0."""


@dataclass(frozen=True)
class Untrained:
    """The same architecture with re-initialised weights, drawn when they are first needed."""

    of: LoadedModel | TrainedModel
    subject: Mapping[str, Any]  # the identity of the model, kept because computing it reads all weights
    seed: int

    @property
    def labels(self) -> Mapping[str, Label]:
        """Whose twin it is."""
        return _labels(self.of, self.seed)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The architecture, and the seed of the weights."""
        return _identity(self.subject, SAME_ARCHITECTURE, self.seed)

    @property
    def plan(self) -> Plan | None:
        """The plan of the model, if alebrije trained it."""
        return self.of.plan if isinstance(self.of, TrainedModel) else self.of.encoder.plan

    @property
    def device(self) -> str:
        """The device of the model."""
        return str(encoding_device(self.of))

    def encoder(self) -> Encoder:
        """The network with new weights. It is kept, because every batch needs it; all seeds are if they are small."""
        for of, seed, encoder in _DRAWN:
            if of is self.of and seed == self.seed:
                return encoder
        _keep(self.of, self.seed, self._drawn())
        return _DRAWN[-1][2]

    def encode(self, view: View) -> Encoding:
        """The encoding of the images."""
        return LoadedModel(self.encoder()).encode(view)

    def group(self, view: View) -> Tensor | None:
        """The slot with the largest mask at each pixel."""
        return LoadedModel(self.encoder()).group(view)

    def tokens(self, view: View) -> Tokens | None:
        """The tokens of the images, if the architecture has some."""
        return self.encoder().tokens(view.images)

    def decode(self, codes: Tensor) -> Tensor | None:
        """None: nobody looks at its pictures."""
        return None

    def _drawn(self) -> Encoder:
        if isinstance(self.of, LoadedModel):
            return reinitialised(self.of.encoder, self.seed)
        plan = self.of.plan
        preprocessing = adapters.Preprocessing(size=plan.size)
        module = replace(plan, seed=self.seed).new_model().eval()
        return Encoder(
            module, name=plan.model, preprocessing=preprocessing, device=self.of.device, plan=plan, tf32=True
        )


@dataclass(frozen=True)
class RandomProjection:
    """Random projections of the pixels, with as many numbers and slots as the codes of a model.

    If the model groups pixels, a random convolution groups them into as many groups. If it has tokens, they are the
    channels of one.
    """

    of: LoadedModel
    subject: Mapping[str, Any]  # the identity of the model
    seed: int
    shape: tuple[int, ...]  # of a code: [D] or [K, D], also of one frame
    groups: int | None  # None if the model has no masks
    token_shape: tuple[int, ...] = ()  # [D, h, w] if the model has tokens
    per_frame: bool = False  # whether each frame of a video has codes of its own

    @property
    def labels(self) -> Mapping[str, Label]:
        """Whose twin it is."""
        return _labels(self.of, self.seed)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The form of the codes, and the seed."""
        more: dict[str, Any] = {"per frame": True} if self.per_frame else {}
        more |= {"tokens": list(self.token_shape)} if self.token_shape else {}
        about = {"shape": list(self.shape), "groups": self.groups, **more}
        return {**_identity(self.subject, PROJECTION, self.seed), **about}

    @property
    def kind(self) -> str:
        """Whether its codes are vectors or slots."""
        return "slots" if len(self.shape) > 1 else "vector"

    def encode(self, view: View) -> Encoding:
        """The projections."""
        pixels = resized(view.images.flatten(0, -4), _PIXELS).flatten(1)  # [B * T, 3 * _PIXELS**2]
        width = torch.Size(self.shape).numel()
        directions = torch.randn(pixels.shape[1], width, generator=self._generator()) / pixels.shape[1] ** 0.5
        each = (pixels @ directions.to(pixels.device)).reshape(*view.images.shape[:-3], *self.shape)
        codes = each if self.per_frame or view.images.ndim == 4 else each.mean(1)
        return Encoding(slots=codes) if self.kind == "slots" else Encoding(vector=codes)

    def group(self, view: View) -> Tensor | None:
        """The channel of a random convolution that is largest at each pixel, after each is centred."""
        if self.groups is None:
            return None
        channels = self._convolved(view, self.groups)
        channels = channels.reshape(*view.images.shape[:-3], *channels.shape[1:])  # [B, K, H, W] or [B, T, K, H, W]
        pixels = (2, 3) if view.images.ndim == 4 else (1, 3, 4)
        return (channels - channels.mean(pixels, keepdim=True)).argmax(-3)

    def tokens(self, view: View) -> Tokens | None:
        """The channels of a random convolution, averaged over patches; None if the model has no tokens."""
        if not self.token_shape:
            return None
        width, rows, columns = self.token_shape
        maps = F.adaptive_avg_pool2d(self._convolved(view, width), (rows, columns))
        return Tokens(maps, maps.new_empty(len(maps), 0, width))

    def _convolved(self, view: View, channels: int) -> Tensor:
        """A random convolution of the images, or of all frames [B, channels, H, W]."""
        kernel = torch.randn(channels, 3, _KERNEL, _KERNEL, generator=self._generator()).to(view.images.device)
        return F.conv2d(view.images.flatten(0, -4).float() / 255, kernel, padding="same")

    def decode(self, codes: Tensor) -> Tensor | None:
        """None: it has no decoder."""
        return None

    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)


def untrained_twins(model: Model, count: int = TWINS) -> list[Model]:
    """The twins of a model with seeds from 0: none for a reference, which learns nothing.

    A model whose weights cannot be drawn again gets random projections of the same width.
    """
    if isinstance(model, LoadedModel):
        return _loaded_twins(model, count)
    if isinstance(model, TrainedModel):
        return [Untrained(model, model.identity, seed) for seed in range(count)]
    return model.untrained_twins(count) if isinstance(model, HasTwins) else []


def architecture(subject: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a model's identity that decides what its untrained twins are.

    >>> architecture({"encoder": "1234", "batch": 64, "device": "cpu"})
    {'encoder': '1234'}
    """
    plan = subject.get("plan")
    if isinstance(plan, Mapping):
        return {"plan": {name: plan.get(name) for name in ("model", "settings", "size")}}
    return {"encoder": subject.get("encoder")}


def kind_of_twin(cell: Cell) -> str | None:
    """What the untrained twin is that a cell examines; None if the cell examines something else."""
    subject = cell.inputs.get("subject")
    kind = subject.get("untrained") if isinstance(subject, Mapping) else None
    return None if kind is None else str(kind)


def _loaded_twins(model: LoadedModel, count: int) -> list[Model]:
    subject = model.identity
    if _can_be_drawn_again(model):
        return [Untrained(model, subject, seed) for seed in range(count)]
    try:
        encoding, token_shape = model.encoder.sample(), model.encoder.token_shape
    except InputError:  # raised again, and stored, by the cells of the model
        return []
    per_frame = encoding.slots is not None and encoding.slots.ndim == 4
    shape = tuple(encoding.codes.shape[2 if per_frame else 1 :])
    groups = None if encoding.masks is None else int(encoding.masks.shape[-3])
    return [RandomProjection(model, subject, seed, shape, groups, token_shape, per_frame) for seed in range(count)]


def _keep(of: object, seed: int, encoder: Encoder) -> None:
    """Keep a twin, and those of the same model if all are small."""
    same = [drawn for drawn in _DRAWN if drawn[0] is of]
    room = _MOST_WEIGHTS // max(encoder.parameters, 1)
    _DRAWN[:] = [*same[max(len(same) + 1 - room, 0) :], (of, seed, encoder)] if room > 1 else [(of, seed, encoder)]


def _can_be_drawn_again(model: LoadedModel) -> bool:
    """Whether the weights of a model can be re-initialised; tried once, and the twin is kept."""
    encoder = model.encoder
    if encoder.plan is not None:
        return True
    if encoder not in _CAN_BE_DRAWN:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as in cells: the scale of weights depends on it in the last digit
        try:
            _keep(model, 0, reinitialised(encoder, 0))
            _CAN_BE_DRAWN[encoder] = True
        except NotReinitialisedError:
            _CAN_BE_DRAWN[encoder] = False
        finally:
            torch.set_num_threads(threads)
    return _CAN_BE_DRAWN[encoder]


def _identity(subject: Mapping[str, Any], kind: str, seed: int) -> dict[str, Any]:
    about = {name: subject[name] for name in ("batch", "device") if name in subject}
    if kind == SAME_ARCHITECTURE and about.get("device") == "cuda":
        about["products"] = "tf32"  # `adapters.untrained.reinitialised`
    return {"untrained": kind, "version": _VERSION, "of": architecture(subject), "seed": seed, **about}


def _labels(model: Model, seed: int) -> dict[str, Label]:
    return {"model": f"untrained twin of {model.labels['model']}", "seed": seed}
