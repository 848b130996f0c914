"""Subjects: who is examined. Models of any origin, and references whose marks are known beforehand."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alebrije import adapters
from alebrije.adapters import Adapted
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.metrics import labels_from_masks
from alebrije.models.catalog import suggestion
from alebrije.results.cells import Label
from alebrije.scenes import Scenes
from alebrije.studies.folder import Folder
from alebrije.studies.own_worlds import own_world
from alebrije.studies.training import carry_out
from alebrije.train.plan import Plan

REFERENCES = ("pixels", "oracle", "projection", "noise")
CALLED = {"oracle": "svib-oracle"}  # a model whose own name is that of a reference
TRAINING = 1  # raised when the same plan comes to other weights than before
_LOG = logging.getLogger("alebrije")
_SECONDS_A_LINE = 15.0
_AT_HAND = 4  # trained models that a process keeps
_TRAINED: dict[tuple[str, str], nn.Module] = {}


@dataclass(frozen=True, eq=False)
class View:
    """What a subject is shown: images, and for references what they show."""

    images: Tensor  # uint8 [B, 3, H, W]
    scenes: Scenes | None = None  # None where no scene stands behind an image
    masks: Tensor | None = None  # uint8 [B, H, W]

    def __len__(self) -> int:
        return len(self.images)


class Subject(Protocol):
    """Something that can be examined.

    `labels` are for tables: `model`, and what else tells it from its like, such as the seed of its training.
    `identity` is everything that decides its answers, for the keys of cells.
    """

    @property
    def labels(self) -> Mapping[str, Label]:
        """Words for tables."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What makes the keys of its cells."""

    def encode(self, view: View) -> Encoding:
        """The codes of images."""

    def group(self, view: View) -> Tensor | None:
        """Which group each pixel belongs to [B, H, W] by the size of the images; None where it does not group."""

    def decode(self, codes: Tensor) -> Tensor | None:
        """Images [B, 3, H, W] in 0..1 of codes; None where it does not draw."""


@dataclass(frozen=True)
class Model:
    """A model that is at hand."""

    adapted: Adapted
    name: str = ""
    more: Mapping[str, Label] = field(default_factory=dict)

    @property
    def labels(self) -> Mapping[str, Label]:
        """How it is called."""
        return {"model": self.name or self.adapted.name, **self.more}

    @property
    def identity(self) -> Mapping[str, Any]:
        """Its weights and how images are prepared for it, and what rounding and the noise of a batch depend on."""
        return {
            "encoder": self.adapted.fingerprint,
            "batch": self.adapted.batch,
            "device": self.adapted.device.type,
        }

    def encode(self, view: View) -> Encoding:
        """What it makes of the images."""
        return self.adapted(view.images)

    def group(self, view: View) -> Tensor | None:
        """The slot that claims each pixel."""
        return grouped(self.encode(view), view)

    def decode(self, codes: Tensor) -> Tensor | None:
        """What the model draws of codes, if it has a `decode`."""
        draw = getattr(self.adapted.model, "decode", None)
        return None if draw is None else drawn(draw, codes.to(self.adapted.device))


@dataclass(frozen=True)
class Trained:
    """A model that is trained for a study, when it is first asked."""

    plan: Plan
    folder: Folder
    device: str = "cpu"
    more: Mapping[str, Label] = field(default_factory=dict)

    @property
    def labels(self) -> Mapping[str, Label]:
        """Its name and the seed of its training."""
        return {"model": CALLED.get(self.plan.model, self.plan.model), "seed": self.plan.seed, **self.more}

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that decides its weights."""
        stored = {name: value for name, value in self.plan.to_json().items() if name != "alebrije"}
        device = torch.device(self.device).type
        return {"plan": stored, "training": TRAINING, "device": device, **own_world(self.plan.world)}

    @property
    def place(self) -> Path:
        """The folder of its run."""
        later = {} if TRAINING == 1 else {"training": TRAINING}  # the folders of the first version do not tell it
        told = {"device": self.identity["device"], **own_world(self.plan.world), **later}
        return self.folder.run({**self.identity["plan"], **told})

    def model(self) -> nn.Module:
        """The model at the end of its training, on its device and in eval mode; trained now unless it was before.

        While one process trains it, others that ask for it wait. One that was killed is continued.
        """
        key = str(self.place.resolve()), self.device
        if key not in _TRAINED:
            with self.folder.locked(self.place.name):
                model = carry_out(self.plan, self.place, device=self.device, progress=_telling(self.plan)).eval()
            while len(_TRAINED) >= _AT_HAND:
                del _TRAINED[next(iter(_TRAINED))]
            _TRAINED[key] = model
        return _TRAINED[key]

    def adapted(self) -> Adapted:
        """The trained model as an encoder."""
        return Adapted(
            self.model(),
            name=self.plan.model,
            preprocessing=adapters.Preprocessing(size=self.plan.size),
            device=self.device,
            plan=self.plan,
        )

    def encode(self, view: View) -> Encoding:
        """What it makes of the images."""
        return self.adapted()(view.images)

    def group(self, view: View) -> Tensor | None:
        """The slot that claims each pixel."""
        return Model(self.adapted()).group(view)

    def decode(self, codes: Tensor) -> Tensor | None:
        """What it draws of codes."""
        return Model(self.adapted()).decode(codes)


def _telling(plan: Plan) -> Callable[[int, int, float, dict[str, float]], None]:
    """A listener that logs how far a training is, now and then."""
    last = [time.perf_counter()]

    def tell(step: int, of: int, speed: float, losses: dict[str, float]) -> None:
        if time.perf_counter() - last[0] >= _SECONDS_A_LINE:
            last[0] = time.perf_counter()
            left = (of - step) * plan.recipe.batch / max(speed, 1e-9) / 60
            _LOG.info("training %s: step %d of %d, %.1f minutes left", plan.model, step, of, left)

    return tell


@dataclass(frozen=True)
class Pixels:
    """The image itself, scaled to `size` pixels a side; each study has its own unless one is given.

    Its groups are clusters of colours.
    """

    size: int | None = None
    clusters: int = 7

    @property
    def labels(self) -> Mapping[str, Label]:
        """pixels"""
        return {"model": "pixels"}

    @property
    def identity(self) -> Mapping[str, Any]:
        """The size."""
        return {"reference": "pixels", "version": 1, "size": self.size, "clusters": self.clusters}

    def encode(self, view: View) -> Encoding:
        """All pixels in a row."""
        return Encoding(vector=resized(view.images, self.size or view.images.shape[-1]).flatten(1))

    def group(self, view: View) -> Tensor | None:
        """The cluster of each pixel's colour, by k-means in each image from colours far apart."""
        return clustered(view.images, self.clusters)

    def decode(self, codes: Tensor) -> Tensor | None:
        """The image again."""
        side = math.isqrt(codes.shape[1] // 3)
        return codes.reshape(-1, 3, side, side).clamp(0, 1)


@dataclass(frozen=True)
class Oracle:
    """The truth: a slot for each object with its factors, one-hot, and its place, and one for a ground of many colours.

    Of a world with one object in each scene the code is one number for each factor. With `project` the code is a
    random projection of the sum over the slots to that many numbers, which adds and subtracts as scenes do.
    """

    project: int | None = None
    seed: int = 0

    @property
    def labels(self) -> Mapping[str, Label]:
        """oracle, or projection"""
        return {"model": "oracle" if self.project is None else "projection"}

    @property
    def identity(self) -> Mapping[str, Any]:
        """The projection."""
        return {"reference": "oracle", "version": 1, "project": self.project, "seed": self.seed}

    def encode(self, view: View) -> Encoding:
        """What is known about the scenes."""
        if view.scenes is None:
            raise InputError("the oracle reads scenes, and there is none behind this image")
        if view.scenes.objects == 1 and self.project is None:
            counts = torch.tensor(view.scenes.vocabulary.counts)
            return Encoding(vector=view.scenes.factors[:, 0] / (counts - 1).clamp_min(1))
        slots = factor_slots(view.scenes)
        if self.project is None:
            return Encoding(slots=slots)
        generator = torch.Generator().manual_seed(self.seed)
        directions = torch.randn(slots.shape[2], self.project, generator=generator) / self.project**0.5
        return Encoding(vector=slots.sum(1) @ directions)

    def group(self, view: View) -> Tensor | None:
        """The true masks."""
        return None if view.masks is None else view.masks.long()

    def decode(self, codes: Tensor) -> Tensor | None:
        """It does not draw."""
        return None


@dataclass(frozen=True)
class Noise:
    """Numbers that have nothing to do with what is seen, the same whenever the same image is seen."""

    width: int = 64
    groups: int = 7
    seed: int = 0

    @property
    def labels(self) -> Mapping[str, Label]:
        """noise"""
        return {"model": "noise"}

    @property
    def identity(self) -> Mapping[str, Any]:
        """The seed."""
        return {"reference": "noise", "version": 1, "width": self.width, "groups": self.groups, "seed": self.seed}

    def encode(self, view: View) -> Encoding:
        """A vector of normal noise for each image."""
        return Encoding(vector=torch.stack([torch.randn(self.width, generator=one) for one in self._luck(view)]))

    def group(self, view: View) -> Tensor | None:
        """A group for each pixel by chance."""
        shape = view.images.shape[-2:]
        return torch.stack([torch.randint(self.groups, shape, generator=one) for one in self._luck(view)])

    def decode(self, codes: Tensor) -> Tensor | None:
        """It does not draw."""
        return None

    def _luck(self, view: View) -> list[torch.Generator]:
        """A generator for each image."""
        seeds = (
            hashlib.blake2b(image.numpy().tobytes(), digest_size=7, salt=self.seed.to_bytes(8, "big")).digest()
            for image in view.images.cpu()
        )
        return [torch.Generator().manual_seed(int.from_bytes(seed, "big")) for seed in seeds]


def stranger(subject: Subject) -> Adapted | None:
    """The model of a subject that comes from outside; None for references and for what was trained here."""
    return subject.adapted if isinstance(subject, Model) and subject.adapted.plan is None else None


def sized(subject: Subject, size: int) -> Subject:
    """The same subject; pixels of no size of their own have this one."""
    return replace(subject, size=size) if isinstance(subject, Pixels) and subject.size is None else subject


def reference(name: str, size: int | None = None) -> Subject:
    """A reference by its name; `size` is that of the pixels."""
    made: dict[str, Subject] = {
        "pixels": Pixels(size),
        "oracle": Oracle(),
        "projection": Oracle(project=256),
        "noise": Noise(),
    }
    if name not in made:
        raise InputError(f"there is no reference {name!r}{suggestion(name, list(made))}")
    return made[name]


def subject_of(spec: str, *, device: str | None = None, size: int | None = None, **prepared: Any) -> Subject:
    """A subject by what a user types: a reference, or any spec that `adapters.load` knows."""
    if spec in REFERENCES:
        return reference(spec, size)
    return Model(adapters.load(spec, device=device, **prepared))


def factor_slots(scenes: Scenes) -> Tensor:
    """What is known of each object [B, N, D]: its factors one-hot and its place; zeros where there is none.

    Where the ground has colours, a further slot tells it.
    """
    vocabulary, present = scenes.vocabulary, scenes.present
    parts = [F.one_hot(scenes.factors[..., axis], count) for axis, count in enumerate(vocabulary.counts)]
    known = torch.cat([part.float() for part in (*parts, scenes.position)], -1) * present[..., None]
    if len(vocabulary.background) < 2:
        return known
    ground = F.one_hot(scenes.background, len(vocabulary.background)).float()
    return torch.cat([F.pad(known, (0, ground.shape[1])), F.pad(ground, (known.shape[2], 0))[:, None]], 1)


def resized(images: Tensor, size: int) -> Tensor:
    """Images uint8 as floats in 0..1, `size` pixels a side."""
    floats = images.float() / 255
    if images.shape[-1] == size and images.shape[-2] == size:
        return floats
    return F.interpolate(floats, (size, size), mode="bilinear", antialias=True)


def drawn(draw: Any, codes: Tensor) -> Tensor:
    """What a model's `decode` gives for codes: an image each, alone or before masks, in colour."""
    with torch.no_grad():
        answer = draw(codes)
    images: Tensor = answer[0] if isinstance(answer, tuple) else getattr(answer, "reconstruction", answer)
    return images.expand(-1, 3, -1, -1).clamp(0, 1).float().cpu()


def grouped(encoding: Encoding, view: View) -> Tensor | None:
    """The slot that claims each pixel [B, H, W], after scaling masks to the size of the images; None without masks."""
    masks, shape = encoding.masks, view.images.shape[-2:]
    if masks is None:
        return None
    if masks.shape[-2:] != shape:
        masks = F.interpolate(masks.float(), tuple(shape), mode="bilinear")
    labels: Tensor = labels_from_masks(masks)
    return labels


def clustered(images: Tensor, clusters: int, rounds: int = 10) -> Tensor:
    """K-means of colours in each image [B, H, W]; each further centre begins at the colour farthest from the others."""
    pixels = (images.float() / 255).flatten(2).transpose(1, 2)  # [B, P, 3]
    centres = pixels.median(1, keepdim=True).values  # [B, 1, 3]
    for _ in range(clusters - 1):
        far = torch.cdist(pixels, centres).amin(2).argmax(1)
        centres = torch.cat([centres, pixels[torch.arange(len(pixels)), far][:, None]], 1)
    for _ in range(rounds):
        nearest = F.one_hot(torch.cdist(pixels, centres).argmin(2), clusters).float()  # [B, P, K]
        counts = nearest.sum(1)[..., None]
        centres = torch.where(counts > 0, nearest.transpose(1, 2) @ pixels / counts.clamp_min(1), centres)
    return torch.cdist(pixels, centres).argmin(2).reshape(-1, *images.shape[-2:])
