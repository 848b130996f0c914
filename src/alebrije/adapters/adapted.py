"""Adapted: a stranger's model behind one door, through which images go in and an Encoding comes out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from alebrije.adapters.contents import Contents
from alebrije.adapters.embeddings import Embeddings
from alebrije.adapters.outputs import read
from alebrije.adapters.preprocessing import Preprocessing, as_bytes, check_images
from alebrije.data.checks import whole_number
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.named import first_line, nearest
from alebrije.seeding import seeded
from alebrije.train.plan import Plan

CPU = torch.device("cpu")
_KINDS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)  # of weights that images can share
UNKNOWN_SIZE = 128  # pixels a side of the images that a model of unknown size is tried with, as worlds draw them


class Adapted:
    """Any model as an encoder: images [B, 3, H, W], uint8 or floats in 0..1 and of any size, to an `Encoding`.

    Images are prepared as `preprocessing` says and go through the model `batch` at a time, without gradients and in
    eval mode, which is undone afterwards. Codes come back as 32-bit floats on the device of the images.

    A model may draw random numbers, as Slot Attention does. They are seeded by the images of a batch and by `seed`, so
    the same call gives the same codes, calls with other images draw other numbers, and torch's own generators stay as
    they were.

    `name` is what to call it and stands for what cannot be seen of it (see `fingerprint`), `spec` what it was asked for
    by, `plan` the plan of a model that was trained here, `layer` the submodule whose output is taken instead of the
    model's.

    >>> encoder = Adapted(nn.Sequential(nn.Flatten(), nn.Linear(48, 5)), preprocessing=Preprocessing(size=4))
    >>> encoder(torch.zeros(10, 3, 64, 64, dtype=torch.uint8)).vector.shape
    torch.Size([10, 5])
    >>> encoder.kind, encoder.parameters
    ('vector', 245)
    """

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        name: str | None = None,
        spec: str | None = None,
        preprocessing: Preprocessing | None = None,
        device: str | torch.device | None = None,
        batch: int = 64,
        layer: str | None = None,
        plan: Plan | None = None,
    ) -> None:
        if not callable(model):
            raise InputError(f"a model must be something that can be called with images, not {type(model).__name__}")
        self.model = model
        self.name = name or spec or _title(model)
        self.spec = spec
        self.preprocessing = preprocessing or Preprocessing()
        self.batch = whole_number("batch", batch, 1)
        self.layer = layer
        self.plan = plan
        self.contents = Contents.of(model)
        self.modules = self.contents.modules
        self.device = self._placed(device)
        self.reading: str | None = None  # how the last output was read, in words
        self._stands_for = name
        self._tapped = None if layer is None else self._submodule(layer)
        self._tried: Encoding | None = None

    def __call__(self, images: Tensor, *, seed: int = 0) -> Encoding:
        """What the model makes of images [B, 3, H, W]; masks and drawings have the size that the model gives them."""
        return _joined([self._encode(part, seed) for part in self._batches(images)])

    def codes(self, images: Tensor, *, seed: int = 0) -> Tensor:
        """The vectors [B, D] or slots [B, K, D] alone: masks and drawings of many images would fill the memory."""
        return torch.cat([self._encode(part, seed).codes for part in self._batches(images)])

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all that decides the codes: weights, classes, preprocessing, layer.

        The weights are read anew each time it is asked for, because the model may have been trained on.
        """
        return self.contents.fingerprint(self.preprocessing, self.layer, name=self._stands_for)

    @property
    def parameters(self) -> int:
        """How many numbers it has learned; 0 where none can be seen."""
        found = {id(weight): weight for module in self.modules for weight in module.parameters()}
        return sum(weight.numel() for weight in found.values())

    @property
    def kind(self) -> Literal["vector", "slots"]:
        """Whether an image becomes one vector or several; two images of noise are tried to find out."""
        return "slots" if self._trial().vector is None else "vector"

    @property
    def draws(self) -> bool:
        """Whether it gives images back."""
        return self._trial().reconstruction is not None

    @property
    def reads_scenes(self) -> bool:
        """Whether it was trained here to read scenes, as SVIB's Oracle is: of images it has no codes."""
        return self.plan is not None and self.plan.reads_scenes

    def __repr__(self) -> str:
        return f"<Adapted {self.name}, images {self.preprocessing}, on {self.device}>"

    def _batches(self, images: Tensor) -> Iterator[Tensor]:
        images = check_images(images)
        for first in range(0, len(images), self.batch):
            yield images[first : first + self.batch]

    def _trial(self) -> Encoding:
        if isinstance(self.model, Embeddings):
            return next(iter(self.model.stored.values()))
        if self._tried is None:
            size = self.preprocessing.size or UNKNOWN_SIZE
            noise = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0))
            self._tried = self(noise)
        return self._tried

    def _encode(self, images: Tensor, seed: int) -> Encoding:
        prepared = self.prepare(images)
        encoding, self.reading = read(self.run(prepared, seed=seed_of(images, seed)), prepared)
        parts = {name: getattr(encoding, name) for name in ("vector", "slots", "masks", "reconstruction")}
        return Encoding(**{name: None if part is None else part.to(images.device) for name, part in parts.items()})

    def prepare(self, images: Tensor) -> Tensor:
        """Images as the model is handed them: on its device, preprocessed, and of the type of its weights."""
        weights = (weight.dtype for module in self.modules for weight in module.parameters())
        kind = next((kind for kind in weights if kind.is_floating_point), torch.float32)
        return self.preprocessing(images.to(self.device)).to(kind if kind in _KINDS else torch.float32)

    def run(self, prepared: Tensor, *, seed: int = 0) -> Any:
        """What the model returns for prepared images, or its layer; what it raises becomes one sentence."""
        taken: list[Any] = []
        hook = None
        if self._tapped is not None:
            hook = self._tapped.register_forward_hook(lambda *passed: taken.append(passed[-1]))
        try:
            with torch.no_grad(), _in_eval_mode(self.modules), seeded(seed, self.device):
                output = self.model(prepared)
        except InputError:
            raise
        except torch.OutOfMemoryError as error:
            raise InputError(
                f"{self.name} ran out of memory with {len(prepared)} images at once; give a smaller batch"
            ) from error
        except (Exception, SystemExit) as error:  # a stranger's model may end in any way
            fault = first_line(error)
            raise InputError(f"{self.name} failed on images {list(prepared.shape)}: {fault}") from error
        finally:
            if hook is not None:
                hook.remove()
        if self.layer is not None and not taken:
            raise InputError(f"{self.name} did not pass through its layer {self.layer!r}")
        return taken[-1] if taken else output

    def _placed(self, device: str | torch.device | None) -> torch.device:
        """Where the model is, after it has been brought where it is wanted."""
        if device is not None:
            try:
                place = torch.empty(0, device=device).device
                for module in self.modules:
                    module.to(place)
            except (AssertionError, RuntimeError, NotImplementedError) as error:
                fault = first_line(error)
                raise InputError(f"{self.name} cannot be brought to the device {str(device)!r}: {fault}") from None
            return place
        for module in self.modules:
            for tensor in (*module.parameters(), *module.buffers()):
                return tensor.device
        return CPU

    def _submodule(self, layer: str) -> nn.Module:
        named: dict[str, nn.Module] = {
            name: part for module in self.modules for name, part in module.named_modules() if name
        }
        if not named:
            raise InputError(f"{self.name} has no layers that can be seen, so there is no layer {layer!r}")
        if layer not in named:
            raise InputError(f"{self.name} has no layer {layer!r}{nearest(layer, list(named))}")
        return named[layer]


def seed_of(images: Tensor, seed: int) -> int:
    """A seed that depends on the images and on nothing else but `seed`."""
    digest = hashlib.blake2b(as_bytes(images).numpy().tobytes(), digest_size=7)
    return (int.from_bytes(digest.digest(), "big") + seed) % 2**63


@contextmanager
def _in_eval_mode(modules: Iterable[nn.Module]) -> Iterator[None]:
    """All modules in eval mode, and afterwards each as it was."""
    modes = [(part, part.training) for module in modules for part in module.modules()]
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def _joined(encodings: list[Encoding]) -> Encoding:
    """The encodings of batches as one."""
    parts = {name: [getattr(one, name) for one in encodings] for name in ("vector", "slots", "masks", "reconstruction")}
    shapes = {tuple(one.codes.shape[1:]) for one in encodings}
    if len(shapes) > 1:
        raise InputError(f"the model gave codes of different shapes for different batches: {sorted(shapes)}")
    there = {name: tensors for name, tensors in parts.items() if all(one is not None for one in tensors)}
    return Encoding(**{name: torch.cat(tensors) for name, tensors in there.items()})


def _title(model: object) -> str:
    for attribute in ("__qualname__", "__name__"):
        if isinstance(title := getattr(model, attribute, None), str):
            return title
    return type(model).__qualname__
