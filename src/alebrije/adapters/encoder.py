"""Encoder: a user's model with its preprocessing, device and batch size, called with images, returning an Encoding."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from alebrije.adapters.embeddings import Embeddings
from alebrije.adapters.inputs import (
    PROBED,
    check_conditions,
    check_kind,
    parameters_for_conditions,
    stand_ins,
    what_it_takes,
)
from alebrije.adapters.outputs import read_output
from alebrije.adapters.preprocessing import Preprocessing, to_uint8
from alebrije.adapters.tokens import POOLS, Pool, Tokens, pooled, read_tokens
from alebrije.checks import check_images, usable_device, whole_number
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.fingerprint import Contents
from alebrije.imports import first_line
from alebrije.seeding import generator_states, seeded
from alebrije.suggest import did_you_mean
from alebrije.train.plan import Plan

VIDEO_SIZE = 64  # the same for videos and views
DEFAULT_SIZE = 128  # pixels a side of the images that probe a model of unknown input size; worlds render this size too
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)  # weight dtypes that images are converted to


class Encoder:
    """Any model as a callable from images [B, 3, H, W], uint8 or floats in 0..1, of any size, to an `Encoding`.

    A model with the attribute ``takes = "videos"`` is called with videos [B, T, 3, H, W], one with ``takes = "views"``
    with several views of each scene [B, V, 3, H, W]; `alebrije.adapters.inputs` says what else they may get. The
    encoder has the same attribute.

    Images are preprocessed and go through the model `batch` at a time, without gradients and in eval mode; each module
    gets its mode back afterwards. Codes are float32 on the device of the images.

    A model may use random numbers, as Slot Attention does. Their seed depends on the images of a batch and on `seed`:
    the same call gives the same codes, other images get other random numbers, and torch's global generators keep their
    state.

    `name` is shown in tables and identifies what the fingerprint cannot see. `spec` is the text that named the model,
    `plan` the plan of a model that was trained here, `layer` the submodule whose output replaces the model's,
    `pool` what its codes are if it returns tokens (the class token, their mean, or all of them as slots),
    `remake` a function that makes the model again with random weights of a seed. With `tf32`, matrix products on a GPU
    round their inputs to TF32, as torch's convolutions do there; otherwise the settings of torch decide.

    >>> encoder = Encoder(nn.Sequential(nn.Flatten(), nn.Linear(48, 5)), preprocessing=Preprocessing(size=4))
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
        pool: Pool | None = None,
        plan: Plan | None = None,
        remake: Callable[[int], Any] | None = None,
        tf32: bool = False,
    ) -> None:
        if not callable(model):
            raise InputError(f"a model must be callable with images; {type(model).__name__} is not")
        self.model = model
        self.name = name or spec or _model_name(model)
        self.takes = what_it_takes(model, self.name)
        self.conditions = parameters_for_conditions(model, self.takes)
        self.spec = spec
        self.preprocessing = preprocessing or Preprocessing()
        self.batch = whole_number("batch", batch, least=1)
        self.layer = layer
        if pool not in (None, *POOLS):
            raise InputError(f"pool must be {', '.join(POOLS[:-1])} or {POOLS[-1]}, not {pool!r}")
        self.pool = pool
        self.plan = plan
        self.remake = remake
        self.tf32 = tf32
        self.contents = Contents.of(model)
        self.modules = self.contents.modules
        self._check_weights()
        self.device = self._current_device() if device is None else self._move_to(device)
        self._given_name = name
        self._hooked = None if layer is None else self._submodule(layer)
        self._sample: Encoding | None = None
        self._token_shape: tuple[int, ...] | None = None
        self._is_random = False  # whether it has used random numbers
        self._drew = False  # whether it did in its last run

    def __call__(self, images: Tensor, *, seed: int = 0, boxes: Any = None, cameras: Any = None) -> Encoding:
        """Encode images [B, 3, H, W], videos or views; masks and reconstructions keep the size that the model gives.

        `boxes` and `cameras` are ignored if the model has no such parameter.
        """
        batches = self._batches(images, {"boxes": boxes, "cameras": cameras})
        return _concatenate([self._encode(part, seed, given) for part, given in batches])

    def codes(self, images: Tensor, *, seed: int = 0, boxes: Any = None, cameras: Any = None) -> Tensor:
        """Return only vectors or slots; masks of many images would fill the memory."""
        batches = self._batches(images, {"boxes": boxes, "cameras": cameras})
        return torch.cat([self._encode(part, seed, given).codes for part, given in batches])

    def tokens(self, images: Tensor, *, seed: int = 0) -> Tokens | None:
        """The tokens of images, a vector for each patch, on the device of the model; None if it returns none."""
        runs = (self._run_seeded(part, seed, given) for part, given in self._batches(images, {}))
        parts = [read_tokens(output, prepared) for prepared, output in runs]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        if len(shapes := {part.grid.shape[1:] for part in known}) > 1:
            raise InputError(f"{self.name} returned tokens of different shapes: {sorted(map(list, shapes))}")
        return Tokens(torch.cat([part.grid for part in known]), torch.cat([part.leading for part in known]))

    def prepare(self, images: Tensor) -> Tensor:
        """Preprocess images and convert them to the device and dtype of the weights."""
        dtypes = (weight.dtype for module in self.modules for weight in module.parameters())
        dtype = next((dtype for dtype in dtypes if dtype.is_floating_point), torch.float32)
        single = images.to(self.device).flatten(0, -4)
        prepared = self.preprocessing(single).to(dtype if dtype in _DTYPES else torch.float32)
        return prepared.reshape(*images.shape[:-3], *prepared.shape[1:])

    def at_once(self, images: Tensor) -> int:
        """How many images, videos or scenes go through the model at a time: `batch` images or frames."""
        return self.batch if self.takes == "images" else max(1, self.batch // images.shape[1])

    def stand_ins(self, prepared: Tensor) -> dict[str, Tensor]:
        """Conditions for probing the model: the same for every scene."""
        frames = prepared.shape[1] if prepared.ndim == 5 else 1
        return stand_ins(self.conditions, len(prepared), frames)

    def run(self, prepared: Tensor, conditions: Mapping[str, Tensor] | None = None, *, seed: int = 0) -> Any:
        """Return the raw output of the model, or of its layer, for prepared images; any exception is an InputError."""
        outputs: list[Any] = []
        hook = None
        if self._hooked is not None:
            hook = self._hooked.register_forward_hook(lambda *arguments: outputs.append(arguments[-1]))
        try:
            with torch.no_grad(), _in_eval_mode(self.modules), seeded(seed, self.device), _in_tf32(self._in_tf32):
                before = generator_states(self.device)
                given = {name: tensor.to(prepared) for name, tensor in (conditions or {}).items()}
                output = self.model(prepared, **given)
                self._drew = generator_states(self.device) != before
        except InputError:
            raise
        except torch.OutOfMemoryError as error:
            raise InputError(
                f"{self.name} ran out of memory with {len(prepared)} images at once; use a smaller batch"
            ) from error
        except (Exception, SystemExit) as error:  # a user's model can raise anything
            raise InputError(f"{self.name} failed on images {list(prepared.shape)}: {first_line(error)}") from error
        finally:
            if hook is not None:
                hook.remove()
        if self.layer is not None and not outputs:
            raise InputError(f"{self.name} did not run its layer {self.layer!r}")
        return outputs[-1] if outputs else output

    def read(self, output: Any, prepared: Tensor) -> tuple[Encoding, str]:
        """Read what `run` returned for prepared images, and describe how it was read.

        An InputError if that is no code, or has no values that can be used.
        """
        pool = self.pool
        try:
            encoding, description = read_output(output, prepared) if pool is None else pooled(pool, output, prepared)
        except RuntimeError as error:  # of an unusual kind of tensor
            raise InputError(f"the output of the model cannot be read as codes: {first_line(error)}") from error
        for name, part in encoding.parts().items():
            if part.device.type == "meta":
                raise InputError(
                    f"the model returned its {name} on the device 'meta', where tensors have no values; "
                    "return it on the device of the images"
                )
            if part.layout != torch.strided:
                raise InputError(f"the model returned its {name} as a sparse tensor; return a dense one: .to_dense()")
        return encoding, description

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of everything that determines the codes: weights, classes, preprocessing, layer.

        It is computed on every access, because the weights may have been trained further.
        """
        pool = () if self.pool is None else (f"pool={self.pool}",)  # older fingerprints lack it
        return self.contents.fingerprint(self.preprocessing, self.layer, *pool, name=self._given_name)

    @property
    def parameters(self) -> int:
        """Number of learned parameters; 0 if the model has no visible torch module."""
        weights = {id(weight): weight for module in self.modules for weight in module.parameters()}
        return sum(weight.numel() for weight in weights.values())

    @property
    def kind(self) -> Literal["vector", "slots"]:
        """Whether an image is encoded as one vector or as slots; found by encoding two images of noise."""
        return "slots" if self.sample().vector is None else "vector"

    @property
    def reads_scenes(self) -> bool:
        """Whether the model reads scenes instead of images, as SVIB's Oracle does; it then has no codes of images."""
        return self.plan is not None and self.plan.reads_scenes

    def sample(self) -> Encoding:
        """The encoding of two images or videos of noise, made once; of embeddings, all stored codes."""
        if isinstance(self.model, Embeddings):
            return next(iter(self.model.stored.values()))
        if self._sample is None:
            noise = self._noise()
            self._sample = _concatenate([self._encode(noise, 0, self.stand_ins(noise))])
        return self._sample

    @property
    def token_shape(self) -> tuple[int, ...]:
        """The shape [D, h, w] of its tokens; empty without tokens or with masks. Found by encoding noise, once."""
        if self._token_shape is None:
            own = self.plan is None and self.takes == "images" and not isinstance(self.model, Embeddings)
            tokens = self.tokens(self._noise()) if own else None
            self._token_shape = () if tokens is None else tuple(tokens.grid.shape[1:])
        return self._token_shape

    def __repr__(self) -> str:
        return f"<Encoder {self.name}, images {self.preprocessing}, on {self.device}>"

    def _noise(self) -> Tensor:
        """Two images, videos or scenes of noise."""
        size = self.preprocessing.size or (DEFAULT_SIZE if self.takes == "images" else VIDEO_SIZE)
        frames = () if self.takes == "images" else (PROBED[self.takes],)
        return torch.rand(2, *frames, 3, size, size, generator=torch.Generator().manual_seed(0))

    def _batches(self, images: Tensor, conditions: Mapping[str, Any]) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        check_kind(images, self.takes, self.name)
        images = check_images(images, self.takes)
        wanted = check_conditions(images, conditions, self.conditions, self.name)
        step = self.at_once(images)
        for first in range(0, len(images), step):
            rows = slice(first, first + step)
            yield images[rows], {name: tensor[rows] for name, tensor in wanted.items()}

    def _encode(self, images: Tensor, seed: int, conditions: Mapping[str, Tensor]) -> Encoding:
        prepared, output = self._run_seeded(images, seed, conditions)
        encoding, _ = self.read(output, prepared)
        parts = encoding.parts()
        try:
            return Encoding(**{name: part.to(images.device) for name, part in parts.items()})
        except (RuntimeError, NotImplementedError) as error:
            devices = ", ".join(dict.fromkeys(str(part.device) for part in parts.values()))
            raise InputError(
                f"the output of the model is on {devices} and cannot be copied to {images.device}: {first_line(error)}"
            ) from error

    def _run_seeded(self, images: Tensor, seed: int, conditions: Mapping[str, Tensor]) -> tuple[Tensor, Any]:
        """The prepared images and the output of `run`, with the seed of these images if it uses random numbers.

        Most models use none, and the digest of many images takes as long on a CPU as a network on a GPU.
        """
        if not self._is_random:
            prepared = self.prepare(images)
            output = self.run(prepared, conditions, seed=seed)
            if not self._drew:
                return prepared, output
            self._is_random = True
        prepared = self.prepare(images)
        return prepared, self.run(prepared, conditions, seed=_batch_seed(images, seed))

    @property
    def _in_tf32(self) -> bool:
        return self.tf32 and self.device.type == "cuda"

    def _check_weights(self) -> None:
        """Raise an InputError if weights have no values, because they are on the device `meta`."""
        for module in self.modules:
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                if tensor.device.type == "meta":
                    raise InputError(
                        f"{self.name} has its weight {name!r} on the device 'meta', where tensors have no values; "
                        "load the weights first"
                    )

    def _current_device(self) -> torch.device:
        """The device of the first weight, or the CPU."""
        for module in self.modules:
            for tensor in (*module.parameters(), *module.buffers()):
                return tensor.device
        return torch.device("cpu")

    def _move_to(self, device: str | torch.device) -> torch.device:
        """Move the model to a device, and return the device with its index."""
        target = torch.empty(0, device=usable_device(device)).device
        try:
            for module in self.modules:
                module.to(target)
        except RuntimeError as error:
            raise InputError(f"{self.name} cannot be moved to {str(device)!r}: {first_line(error)}") from None
        return target

    def _submodule(self, layer: str) -> nn.Module:
        submodules: dict[str, nn.Module] = {
            name: part for module in self.modules for name, part in module.named_modules() if name
        }
        if not submodules:
            raise InputError(f"{self.name} has no visible layers, so it has no layer {layer!r}")
        if layer not in submodules:
            raise InputError(f"{self.name} has no layer {layer!r}{did_you_mean(layer, submodules)}")
        return submodules[layer]


def _batch_seed(images: Tensor, seed: int) -> int:
    """A seed that depends only on the images and on `seed`."""
    digest = hashlib.blake2b(to_uint8(images).numpy().tobytes(), digest_size=7)
    return (int.from_bytes(digest.digest(), "big") + seed) % 2**63


@contextmanager
def _in_tf32(wanted: bool) -> Iterator[None]:
    """Let float32 products on a GPU round their inputs to TF32, if wanted."""
    if not wanted:
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def _in_eval_mode(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Put all modules in eval mode, and restore the mode of every submodule afterwards."""
    modes = [(part, part.training) for module in modules for part in module.modules()]
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def _concatenate(encodings: list[Encoding]) -> Encoding:
    """Join the encodings of batches."""
    shapes = {tuple(encoding.codes.shape[1:]) for encoding in encodings}
    if len(shapes) > 1:
        raise InputError(f"the model returned codes of different shapes for different batches: {sorted(shapes)}")
    parts = [encoding.parts() for encoding in encodings]
    shared = [name for name in parts[0] if all(name in each for each in parts)]
    return Encoding(**{name: torch.cat([each[name] for each in parts]) for name in shared})


def _model_name(model: object) -> str:
    for attribute in ("__qualname__", "__name__"):
        if isinstance(name := getattr(model, attribute, None), str):
            return name
    return type(model).__qualname__
