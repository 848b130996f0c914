"""Models as a study sees them: loaded by the user, or trained for the study when they are first needed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alebrije import adapters
from alebrije.adapters import Encoder
from alebrije.adapters.tokens import Tokens
from alebrije.encoding import Encoding, Shows
from alebrije.metrics import labels_from_masks
from alebrije.results.cells import Label
from alebrije.scenes import Scenes
from alebrije.studies.folder import ResultFolder
from alebrije.studies.stages import in_stage
from alebrije.train.options import RunOptions
from alebrije.train.plan import Plan
from alebrije.train.run import run_plan
from alebrije.worlds.user_worlds import user_world_inputs

TRAINING = 1  # raised when the same plan gives other weights than before
_LOG = logging.getLogger("alebrije")
_SECONDS_PER_LINE = 15.0
_MOST_IN_MEMORY = 4  # trained models that a process keeps
_TRAINED: dict[tuple[str, str], nn.Module] = {}
_fingerprints: dict[int, tuple[Encoder, str]] | None = None  # by the id of an encoder, while they are kept


@dataclass(frozen=True, eq=False)
class View:
    """Images shown to a model, what else it may need, and what references know about them.

    Videos and several views have an axis of T frames or V views after B.
    """

    images: Tensor  # uint8 [B, 3, H, W]
    scenes: Scenes | None = None  # None if the images were not rendered from scenes
    masks: Tensor | None = None  # uint8 [B, H, W]
    boxes: Tensor | None = None  # float32 [B, N, 4]: of the objects in the first frame of a video, zeros if not visible
    cameras: Tensor | None = None  # float32 [B, V, 3]: where each view is seen from

    def __len__(self) -> int:
        return len(self.images)


class Model(Protocol):
    """Anything that can be examined.

    `labels` go into tables: `model`, and what else distinguishes it, such as the seed of its training. `identity` is
    everything that decides its output; it is part of the key of each of its cells.
    """

    @property
    def labels(self) -> Mapping[str, Label]:
        """Its labels in tables."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Its part of a cell's key."""

    def encode(self, view: View) -> Encoding:
        """The encoding of the images."""

    def group(self, view: View) -> Tensor | None:
        """The group of each pixel [B, H, W] at the size of the images; None if the model does not group pixels."""

    def decode(self, codes: Tensor) -> Tensor | None:
        """Images [B, 3, H, W] in 0..1 decoded from codes; None if the model has no decoder."""


@dataclass(frozen=True)
class LoadedModel:
    """A model that exists already: the user's, or a checkpoint."""

    encoder: Encoder
    name: str = ""
    more: Mapping[str, Label] = field(default_factory=dict)

    @property
    def labels(self) -> Mapping[str, Label]:
        """Its name, what a checkpoint was trained on, and further labels."""
        plan = self.encoder.plan
        trained = {} if plan is None else {"trained_on": trained_on(plan.world, plan.rule, plan.alpha)}
        return {"model": self.name or self.encoder.name, **trained, **self.more}

    @property
    def identity(self) -> Mapping[str, Any]:
        """Weights and preprocessing; batch size and device, which change rounding and random numbers."""
        return {
            "encoder": _fingerprint(self.encoder),
            "batch": self.encoder.batch,
            "device": self.encoder.device.type,
        }

    def encode(self, view: View) -> Encoding:
        """The encoding of the images."""
        return self.encoder(view.images, boxes=view.boxes, cameras=view.cameras)

    def group(self, view: View) -> Tensor | None:
        """The slot with the largest mask at each pixel."""
        return groups_from_masks(self.encode(view), view)

    def tokens(self, view: View) -> Tokens | None:
        """The tokens of the images, if the model returns some."""
        return self.encoder.tokens(view.images)

    def decode(self, codes: Tensor) -> Tensor | None:
        """The output of the model's `decode`, if it has one."""
        decoder = getattr(self.encoder.model, "decode", None)
        return None if decoder is None else _decoded(decoder, codes.to(self.encoder.device))


@dataclass(frozen=True)
class Keep:
    """How often a training saves a checkpoint, and which multiples it keeps. Neither changes its weights."""

    save_every: int = 1000
    keep_every: int = 0


@dataclass(frozen=True)
class TrainedModel:
    """A model that is trained for a study when it is first needed."""

    plan: Plan
    folder: ResultFolder
    device: str = "cpu"
    more: Mapping[str, Label] = field(default_factory=dict)
    kept: Keep = Keep()  # which of its checkpoints the run keeps besides the last

    @property
    def labels(self) -> Mapping[str, Label]:
        """Its name and the seed of its training."""
        return {"model": self.plan.model, "seed": self.plan.seed, **self.more}

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that decides its weights."""
        stored = {name: value for name, value in self.plan.to_json().items() if name != "alebrije"}
        device = torch.device(self.device).type
        return {"plan": stored, "training": TRAINING, "device": device, **user_world_inputs(self.plan.world)}

    @property
    def path(self) -> Path:
        """The folder of its run."""
        later = {} if TRAINING == 1 else {"training": TRAINING}  # folders of the first version lack it
        more = {"device": self.identity["device"], **user_world_inputs(self.plan.world), **later}
        return self.folder.run_path({**self.identity["plan"], **more})

    def module(self) -> nn.Module:
        """The trained network in eval mode on its device. It is trained now unless it was before.

        Other processes that need it wait for the one that trains it. An interrupted training continues.
        """
        key = str(self.path.resolve()), self.device
        if key not in _TRAINED:
            with (
                in_stage("reading and waiting"),
                self.folder.locked(self.path.name),
                in_stage("training", self.plan.model),
            ):
                progress = _log_progress(self.plan)
                options = RunOptions(device=self.device, step_progress=progress, **vars(self.kept))
                module = run_plan(self.plan, self.path, options).eval()
            while len(_TRAINED) >= _MOST_IN_MEMORY:
                del _TRAINED[next(iter(_TRAINED))]
            _TRAINED[key] = module
        return _TRAINED[key]

    def encoder(self) -> Encoder:
        """The trained network as an encoder."""
        return Encoder(
            self.module(),
            name=self.plan.model,
            preprocessing=adapters.Preprocessing(size=self.plan.size),
            device=self.device,
            plan=self.plan,
        )

    def encode(self, view: View) -> Encoding:
        """The encoding of the images."""
        return LoadedModel(self.encoder()).encode(view)

    def group(self, view: View) -> Tensor | None:
        """The slot with the largest mask at each pixel."""
        return LoadedModel(self.encoder()).group(view)

    def decode(self, codes: Tensor) -> Tensor | None:
        """The output of the network's `decode`, if it has one."""
        return LoadedModel(self.encoder()).decode(codes)


@contextmanager
def fingerprints_kept() -> Iterator[None]:
    """A block in which no model changes, so that the weights of each are read once."""
    global _fingerprints
    before, _fingerprints = _fingerprints, {}
    try:
        yield
    finally:
        _fingerprints = before


def _fingerprint(encoder: Encoder) -> str:
    if _fingerprints is None:
        return encoder.fingerprint
    if id(encoder) not in _fingerprints:
        _fingerprints[id(encoder)] = encoder, encoder.fingerprint  # kept alive, so that no other gets its id
    return _fingerprints[id(encoder)][1]


def trained_on(world: str, rule: str | None, alpha: float | None) -> str:
    """The world or task that a model learned from.

    >>> trained_on("sprites", "S-A", 0.6)
    'sprites/S-A at alpha 0.6'
    """
    return f"{world}{f'/{rule}' if rule else ''}{f' at alpha {alpha:g}' if rule and alpha is not None else ''}"


def plan_of(model: Model) -> Plan | None:
    """The plan that a model was or will be trained by; None for references and for models trained elsewhere."""
    plan = model.encoder.plan if isinstance(model, LoadedModel) else getattr(model, "plan", None)
    return plan if isinstance(plan, Plan) else None


def encoding_device(model: Model) -> torch.device:
    """Where a model encodes images; the CPU for references."""
    if isinstance(model, LoadedModel):
        return model.encoder.device
    return torch.device(getattr(model, "device", "cpu"))


def takes_of(model: Model) -> Shows | None:
    """What a model takes: images, videos or views; None for references, which take all of them."""
    of = getattr(model, "of", model)  # a twin takes what its model takes
    if isinstance(of, LoadedModel):
        return of.encoder.takes
    plan = plan_of(of)
    return None if plan is None else plan.record.takes


def user_encoder(model: Model) -> Encoder | None:
    """The encoder of a model trained elsewhere, which needs a precheck; None for all others."""
    return model.encoder if isinstance(model, LoadedModel) and model.encoder.plan is None else None


def groups_from_masks(encoding: Encoding, view: View) -> Tensor | None:
    """The slot with the largest mask at each pixel [B, H, W] of the images, videos or views; None without masks."""
    masks, shape = encoding.masks, view.images.shape[-2:]
    if masks is None:
        return None
    each = masks.flatten(0, -4)  # [B * T, K, H, W]
    if each.shape[-2:] != shape:
        each = F.interpolate(each.float(), tuple(shape), mode="bilinear")
    labels: Tensor = labels_from_masks(each)
    return labels.reshape(*masks.shape[:-3], *labels.shape[1:])


def _decoded(decoder: Any, codes: Tensor) -> Tensor:
    """RGB images from a `decode` that returns images, or images and masks, or an encoding."""
    with torch.no_grad():
        output = decoder(codes)
    images: Tensor = output[0] if isinstance(output, tuple) else getattr(output, "reconstruction", output)
    return images.expand(-1, 3, -1, -1).clamp(0, 1).float().cpu()


def _log_progress(plan: Plan) -> Callable[[int, int, float, dict[str, float]], None]:
    """A callback that logs the progress of a training every few seconds."""
    last = [time.perf_counter()]

    def log(step: int, steps: int, speed: float, losses: dict[str, float]) -> None:
        if time.perf_counter() - last[0] >= _SECONDS_PER_LINE:
            last[0] = time.perf_counter()
            left = (steps - step) * plan.recipe.batch / max(speed, 1e-9) / 60
            _LOG.info("training %s: step %d of %d, %.1f minutes left", plan.model, step, steps, left)

    return log


def identity_on(model: Model, device: str) -> dict[str, Any]:
    """The identity of a model whose codes are examined on a device, where sums are rounded differently than on a CPU.

    Models that are evaluated on a device have it in their identity; references have not.
    """
    kind = torch.device(device).type
    return {**({} if kind == "cpu" else {"device": kind}), **model.identity}
