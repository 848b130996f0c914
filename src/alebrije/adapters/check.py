"""Check: whether a user's model can be evaluated, and how to fix it if not."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from alebrije.adapters.embeddings import Embeddings
from alebrije.adapters.encoder import DEFAULT_SIZE, VIDEO_SIZE, Encoder
from alebrije.adapters.inputs import PROBED
from alebrije.adapters.specs import is_class_spec, load
from alebrije.adapters.tokens import MOST_SLOTS, Pool, read_tokens
from alebrije.checks import IMAGE_SHAPES
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.worlds import get as get_world

Level = Literal["ok", "note", "problem"]
_SCENES = 8
_EXACT, _CLOSE = 1e-4, 1e-2  # differences between codes, as fractions of their spread over images
_LONG = 20.0  # seconds: a full batch that takes longer is not tried
_WORLDS = {"images": "sprites", "videos": "moving", "views": "clevr3d"}  # what a model is probed with
_AFFECTS_SCORES = ("weights", "output", "repeats", "batches")  # topics whose notes are repeated before an evaluation
_PASS_SIZE = "pass that size: --pixels on the command line, pixels= in evaluate, size= in check"
SIZES = (128, 64)  # sides of the images that `evaluate` renders by default
_READS_SCENES = "It reads scenes, not images, so it has no codes; only imagination can examine it."


@dataclass(frozen=True)
class CheckItem:
    """One checked property of a model: what was found, and how to fix it if needed."""

    topic: str
    level: Level
    sentence: str
    fix: str = ""
    blocks: bool = False  # scores would be meaningless, so the model is not evaluated


@dataclass(frozen=True)
class CheckReport:
    """All checked properties of a model; the model has `passed` if there are no problems."""

    name: str
    items: tuple[CheckItem, ...]

    @property
    def passed(self) -> bool:
        """Whether the model can be evaluated and its scores mean what they should."""
        return not any(item.level == "problem" for item in self.items)

    @property
    def blocked(self) -> bool:
        """Whether an evaluation refuses the model, in the words of the last item that blocks it."""
        return any(item.blocks for item in self.items)

    def __getitem__(self, topic: str) -> CheckItem:
        """The item about a topic, which must have been checked."""
        return next(item for item in self.items if item.topic == topic)

    def __contains__(self, topic: str) -> bool:
        return any(item.topic == topic for item in self.items)

    def __str__(self) -> str:
        totals = {level: sum(item.level == level for item in self.items) for level in ("problem", "note")}
        counts = " and ".join(f"{total} {level}{'s' if total > 1 else ''}" for level, total in totals.items() if total)
        verdict = "can be evaluated" if self.passed else "can be evaluated, but its scores may be wrong"
        verdict = "cannot be evaluated as it is" if self.blocked else verdict
        lines = [f"{self.name} {verdict}{': ' if counts else ''}{counts}.", ""]
        width = max((len(item.topic) for item in self.items), default=0)
        for item in self.items:
            head = f"  {item.level:<7}  {item.topic:<{width}}  "
            indent = " " * len(head)
            lines.append(textwrap.fill(item.sentence, 110, initial_indent=head, subsequent_indent=indent))
            if item.fix:
                lines.append(
                    textwrap.fill(f"-> {item.fix}", 110, initial_indent=indent, subsequent_indent=f"{indent}   ")
                )
        return "\n".join(lines)


def check(
    spec: str | Callable[..., Any],
    *,
    device: str | torch.device | None = None,
    size: int | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    batch: int = 64,
    layer: str | None = None,
    pool: Pool | None = None,
    method: str | None = None,
    name: str | None = None,
    rendered: Sequence[int] = SIZES,
) -> CheckReport:
    """Check whether a model can be evaluated. The arguments are those of `load`; an `Encoder` is used as it is.

    The model encodes eight scenes of sprites: alone, as a batch, in another order and twice. It also encodes black,
    white and noise images. An evaluation needs one code per image that depends on that image only and is always the
    same. Without `size`, the model gets images as they are rendered: `rendered` pixels a side, by default the sizes
    of `evaluate`.

    >>> from torch import nn
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 8))
    >>> report = check(network, size=16)
    >>> report.passed, report["output"].sentence
    (True, 'It returns a vector [B, 8].')
    >>> check(lambda images: torch.rand(len(images), 8))["repeats"].level
    'problem'
    """
    if isinstance(spec, Encoder):
        return CheckReport(spec.name, tuple(_check_items(spec, rendered, complete=True)))
    try:
        how: dict[str, Any] = {"layer": layer, "pool": pool, "method": method}
        encoder = load(spec, device=device, size=size, mean=mean, std=std, batch=batch, name=name, **how)
    except InputError as error:
        title = name or (spec if isinstance(spec, str) else type(spec).__qualname__)
        return CheckReport(title, (CheckItem("model", "problem", _sentence(str(error)), blocks=True),))
    return CheckReport(encoder.name, tuple(_check_items(encoder, rendered, complete=True)))


def precheck(encoder: Encoder, pixels: int | Sequence[int] | None = None) -> list[str]:
    """Check a model before it is evaluated, and return warnings about its scores.

    This is `check` without speed and fingerprint. It raises an InputError if scores would be meaningless. A model of
    unknown input size gets images of `pixels` a side, one or several sizes. A model that reads scenes has no codes and
    passes.

    >>> precheck(Encoder(lambda images: images.mean((2, 3))))
    []
    >>> precheck(Encoder(lambda images: images.mean((2, 3)) / 0))
    Traceback (most recent call last):
        ...
    alebrije.errors.InputError: <lambda> cannot be evaluated as it is: it returns NaN or infinite codes ...
    """
    if encoder.reads_scenes:
        return []
    rendered = (pixels,) if isinstance(pixels, int) else tuple(pixels or (DEFAULT_SIZE,))
    items = _check_items(encoder, rendered)
    if blocking := [item for item in items if item.blocks]:  # the last one explains the others
        raise InputError(f"{encoder.name} cannot be evaluated as it is: {_clause(blocking[-1], encoder.name)}")
    return [
        f"{encoder.name}: {_clause(item, encoder.name)}"
        for item in items
        if item.level == "problem" or (item.level == "note" and item.topic in _AFFECTS_SCORES)
    ]


def _check_items(encoder: Encoder, rendered: Sequence[int], *, complete: bool = False) -> list[CheckItem]:
    """Check what scores depend on, and with `complete` also fingerprint and speed."""
    if isinstance(encoder.model, Embeddings):
        return _check_embeddings(encoder, encoder.model)
    model = _ModelCheck(encoder, rendered)
    if encoder.reads_scenes:
        return [model.device(), CheckItem("output", "note", _READS_SCENES), model.mode(), model.fingerprint()]
    items = model.score_items()
    has_codes = not any(item.topic == "output" and item.level == "problem" for item in items)
    if not complete or not has_codes:
        return items
    return [*items, *model.full_batch(), model.fingerprint(), model.speed()]


@dataclass(frozen=True, eq=False)
class _Reading:
    """What a model returns for the scenes at one size."""

    size: int
    scenes: Tensor
    prepared: Tensor  # the first batch, as the model left it
    original: Tensor  # the same batch before
    raw: Any
    encoding: Encoding  # of the first batch
    description: str
    codes: Tensor  # of all scenes


class _ModelCheck:
    """The checks of a model that encodes images."""

    def __init__(self, encoder: Encoder, rendered: Sequence[int]) -> None:
        self.encoder = encoder
        self.world = get_world(_WORLDS[encoder.takes])
        fixed = encoder.preprocessing.size
        rendered = rendered if encoder.takes == "images" else (VIDEO_SIZE,)
        self.shape = IMAGE_SHAPES[encoder.takes]
        self.sizes = (fixed,) if fixed is not None else tuple(dict.fromkeys(rendered))
        self.scenes = self.images(self.sizes[0])
        self.training = any(part.training for module in encoder.modules for part in module.modules())

    def images(self, size: int, count: int = _SCENES) -> Tensor:
        """Scenes of sprites, or short videos or views, `size` pixels a side."""
        scenes = self.world.sample(count, seed=0)
        if scenes.path is not None:
            scenes = replace(scenes, path=scenes.path[:, :, : PROBED["videos"]])
        return self.world.images(scenes, size)

    def score_items(self) -> list[CheckItem]:
        """Check everything that scores depend on; stop at the output if the model returns no codes."""
        items = [self.preprocessing(), self.device(), *self.weights()]
        found = {size: self.reading(size) for size in self.sizes}
        if faults := {size: fault for size, fault in found.items() if isinstance(fault, CheckItem)}:
            size, fault = next(iter(faults.items()))
            everywhere = len(faults) == len(found)
            return [*items, fault if everywhere else replace(fault, sentence=_at(size, fault.sentence))]
        readings = {size: reading for size, reading in found.items() if isinstance(reading, _Reading)}
        first, *others = readings.values()
        items += [self.output(readings), *self.grouping(first), self.numbers(first)]
        items += [self.mode(), self.gradients(first.raw)]
        items.append(_input(first.prepared, first.original))
        if bool(first.codes.isfinite().all()):
            items += [self.reaction(first), *self.repeatability(first.codes)]
        return [*items, *(item for reading in others for item in self.at_another_size(reading))]

    def reading(self, size: int) -> _Reading | CheckItem:
        """What the model returns for the scenes at a size, or why that is not a code of each."""
        scenes = self.scenes if size == self.sizes[0] else self.images(size)
        prepared = self.encoder.prepare(scenes[: self.encoder.batch])
        original = prepared.clone()
        try:
            raw = self.encoder.run(prepared, self.encoder.stand_ins(prepared))
        except InputError as error:
            fix = f"make it accept floats {self.shape}; if it takes one size only, {_PASS_SIZE}"
            return CheckItem("output", "problem", _sentence(str(error)), fix, blocks=True)
        try:
            encoding, description = self.encoder.read(raw, original)
            codes = encoding.codes if self.encoder.batch >= _SCENES else self.codes(scenes)
        except InputError as error:
            fix = "wrap it in a function that returns the codes, or use the output of a submodule: --layer, layer="
            return CheckItem("output", "problem", _sentence(str(error)), fix, blocks=True)
        return _Reading(size, scenes, prepared, original, raw, encoding, description, codes)

    def at_another_size(self, reading: _Reading) -> list[CheckItem]:
        """The faults that only images of another size show."""
        if not bool(reading.codes.isfinite().all()):
            sentence = _at(reading.size, "it returns NaN or infinite codes.")
            return [CheckItem("numbers", "problem", sentence, blocks=True)]
        item = self.reaction(reading)
        return [] if item.level == "ok" else [replace(item, sentence=_at(reading.size, item.sentence))]

    def codes(self, images: Tensor, seed: int = 0) -> Tensor:
        """Encode images with a seed that does not depend on them, unlike `Encoder.codes`."""
        parts = []
        for first in range(0, len(images), self.encoder.batch):
            prepared = self.encoder.prepare(images[first : first + self.encoder.batch])
            raw = self.encoder.run(prepared, self.encoder.stand_ins(prepared), seed=seed)
            parts.append(self.encoder.read(raw, prepared)[0].codes)
        if len({part.shape[1:] for part in parts}) > 1:
            raise InputError(f"{self.encoder.name} returned codes of different shapes for different batches")
        return torch.cat(parts)

    def preprocessing(self) -> CheckItem:
        steps = self.encoder.preprocessing
        normalised = steps.mean is not None or steps.std is not None or self.encoder.plan is not None
        fix = "" if normalised else "if it was trained on normalised images, pass its --mean and --std"
        kind = "images" if self.encoder.takes == "images" else f"{self.encoder.takes} {self.shape}"
        beside = "".join(f", with {name}" for name in self.encoder.conditions)
        return CheckItem("images", "ok", f"It gets {kind} in 0..1, {steps}{beside}.", fix)

    def device(self) -> CheckItem:
        devices = {str(weight.device) for module in self.encoder.modules for weight in module.parameters()}
        if len(devices) > 1:
            sentence = f"Its weights are on several devices: {', '.join(sorted(devices))}."
            return CheckItem("device", "note", sentence, "pass device=... to move all of them to one")
        if self.encoder.device.type == "cpu" and torch.cuda.is_available() and self.encoder.modules:
            return CheckItem("device", "note", "It is on the CPU, but there is a GPU.", "pass device='cuda'")
        return CheckItem("device", "ok", f"It is on {self.encoder.device}.")

    def weights(self) -> list[CheckItem]:
        """Add a note if the weights may be random because the model was made from its class."""
        learned = any(list(module.parameters()) for module in self.encoder.modules)
        if not learned or not is_class_spec(self.encoder.spec):
            return []
        sentence = "It was made from its class, so its weights are random (fixed seed) unless the class loads them."
        fix = "to examine trained weights, name a function that makes the model and loads them"
        return [CheckItem("weights", "note", sentence, fix)]

    def output(self, readings: Mapping[int, _Reading]) -> CheckItem:
        first, *others = readings.values()
        sentence = f"It returns {first.description}"
        for other in others:
            if other.description != first.description:
                sentence += f"; with images of {other.size} x {other.size} pixels, {other.description}"
        slots = max(0 if one.encoding.slots is None else one.encoding.slots.shape[1] for one in readings.values())
        if slots > MOST_SLOTS:
            fix = "if these are the tokens of a transformer, return their mean or the class token"
            sentence += f". Analogy cannot match more than {MOST_SLOTS} slots, so it uses their mean."
            return CheckItem("output", "note", sentence, fix)
        if any(_is_image(one.raw) for one in readings.values()):
            fix = "if these are reconstructions, return the codes instead, or both: a dictionary with `vector`"
            return CheckItem("output", "note", f"{sentence}. Three channels may be the colours of an image.", fix)
        return CheckItem("output", "ok", f"{sentence}.")

    def grouping(self, reading: _Reading) -> list[CheckItem]:
        """Say which tokens stand for masks, if some do."""
        clustered = self.encoder.takes == "images" and self.encoder.plan is None
        tokens = read_tokens(reading.raw, reading.original) if clustered else None
        return [] if tokens is None else [CheckItem("grouping", "ok", f"It has no masks; its {tokens} are clustered.")]

    def numbers(self, reading: _Reading) -> CheckItem:
        noise = torch.rand(2, *self.scenes.shape[1:], generator=torch.Generator().manual_seed(0))
        extremes = {"black": torch.zeros_like(noise), "white": torch.ones_like(noise), "noise": noise}
        try:
            codes = {"scenes": reading.codes, **{kind: self.codes(images) for kind, images in extremes.items()}}
        except InputError as error:
            fix = "make it accept any number of images"
            return CheckItem("numbers", "problem", _sentence(str(error)), fix, blocks=True)
        if broken := [kind for kind, values in codes.items() if not bool(values.isfinite().all())]:
            sentence = f"It returns NaN or infinite codes for these images: {', '.join(broken)}."
            fix = "look for a division by a standard deviation of 0, or for log(0); load weights that did not diverge"
            return CheckItem("numbers", "problem", sentence, fix, blocks="scenes" in broken)
        largest = max(float(values.abs().max()) for values in codes.values())
        sentence = f"All codes are finite, also for black, white and noise images; the largest is {largest:.3g}."
        return CheckItem("numbers", "ok", sentence)

    def mode(self) -> CheckItem:
        if not self.encoder.modules:
            return CheckItem("eval mode", "ok", "It has no visible torch module, so it must set eval mode itself.")
        if self.training:
            sentence = "It is in training mode; alebrije switches to eval mode while it encodes."
            return CheckItem("eval mode", "note", sentence, "call .eval() to get the same codes elsewhere")
        return CheckItem("eval mode", "ok", "It is in eval mode.")

    def gradients(self, raw: object) -> CheckItem:
        parts = raw.values() if isinstance(raw, dict) else raw if isinstance(raw, tuple | list) else (raw,)
        if any(isinstance(part, Tensor) and part.requires_grad for part in parts):
            sentence = "It tracks gradients under torch.no_grad(), which costs memory and time."
            return CheckItem("gradients", "note", sentence, "remove torch.enable_grad() from its forward")
        return CheckItem("gradients", "ok", "It tracks no gradients.")

    def reaction(self, reading: _Reading) -> CheckItem:
        """Check that other images get other codes when the random numbers are the same."""
        codes = reading.codes
        try:
            others = self.codes(reading.scenes.roll(1, 0))
        except InputError as error:
            return CheckItem("reacts", "problem", _sentence(str(error)), blocks=True)
        if float((codes - others).abs().max()) <= 1e-6 * max(float(codes.abs().max()), 1e-30):
            sentence = "It returns the same codes for all images."
            fix = "check that it uses its input and expects floats in 0..1, not uint8; mean and std rescale them"
            return CheckItem("reacts", "problem", sentence, fix, blocks=True)
        return CheckItem("reacts", "ok", "Different images have different codes.")

    def repeatability(self, codes: Tensor) -> list[CheckItem]:
        """Check that an image always has the same code, whatever else is in its batch."""
        try:
            again, reseeded = self.codes(self.scenes), self.codes(self.scenes, seed=1)
        except InputError as error:
            return [CheckItem("repeats", "problem", _sentence(f"with the same images again, {error}"), blocks=True)]
        if (difference := _difference(codes, again)) > _CLOSE:
            sentence = "It returns different codes for the same images each time, although torch's seed is the same."
            fix = "keep no state between calls, and use only torch's global generators for random numbers"
            return [CheckItem("repeats", "problem", sentence, fix, blocks=True)]
        if _difference(codes, reseeded) > _EXACT:
            return [self._randomness(codes, reseeded)]
        if difference > _EXACT:
            sentence = f"Its codes for the same images differ by {difference:.1g} of their spread."
            repeats = CheckItem("repeats", "note", sentence)
        else:
            repeats = CheckItem("repeats", "ok", "The same images always have the same codes.")
        return [repeats, self._batches(codes)]

    def _randomness(self, codes: Tensor, reseeded: Tensor) -> CheckItem:
        fix = "return the mean instead of a sample; pass training=self.training to F.dropout"
        if codes.ndim == 3:
            sentence = "Its slots depend on random numbers; these are seeded by the images, so results are repeatable."
            return CheckItem("repeats", "note", sentence)
        noise = float((codes - reseeded).std() / 2**0.5)
        share = noise / max(float((codes - codes.mean(0)).std()), 1e-30)
        if share > 0.5:
            sentence = f"Its codes are random: {min(share, 1):.0%} of their spread is noise."
            return CheckItem("repeats", "problem", sentence, fix, blocks=True)
        sentence = f"Its codes are partly random ({share:.1%} of their spread); they are seeded by the images."
        return CheckItem("repeats", "note", sentence, f"{fix}; or keep it: results are repeatable")

    def _batches(self, codes: Tensor) -> CheckItem:
        order = torch.arange(_SCENES).flip(0)
        try:
            alone = torch.cat([self.codes(self.scenes[index : index + 1]) for index in range(3)])
            reversed_codes = self.codes(self.scenes[order])
        except InputError as error:
            fix = "make it accept a single image, and do not squeeze the batch axis away"
            return CheckItem("batches", "problem", _sentence(f"with a single image or another order, {error}"), fix)
        reordered = _difference(codes[order.to(codes.device)], reversed_codes)
        difference = max(_difference(codes, torch.cat((alone, codes[3:]))), reordered)
        if difference <= _EXACT:
            return CheckItem("batches", "ok", "An image has the same code alone, in a batch and in another order.")
        sentence = f"The code of an image depends on the others in its batch, by {difference:.1g} of the codes' spread."
        if difference <= _CLOSE:
            fix = "no action is needed: low-precision arithmetic, such as TF32 on a GPU, rounds differently in batches"
            return CheckItem("batches", "note", sentence, fix)
        fix = "let batch norm use its running statistics, and normalise within an image, not over the batch"
        return CheckItem("batches", "problem", sentence, fix)

    def fingerprint(self) -> CheckItem:
        try:
            digest = self.encoder.fingerprint[:12]
        except InputError as error:
            return CheckItem("fingerprint", "problem", _sentence(str(error)), "pass name=...", blocks=True)
        count = self.encoder.parameters
        return CheckItem("fingerprint", "ok", f"{digest}, of {f'{count:,} parameters' if count else 'its source'}.")

    def full_batch(self) -> list[CheckItem]:
        """Encode as many images at once as an evaluation does; nothing to report if that works or takes long."""
        start = time.perf_counter()
        self.codes(self.scenes).sum().item()
        count = self.encoder.at_once(self.scenes)
        if (time.perf_counter() - start) * count / _SCENES > _LONG or count <= _SCENES:
            return []
        try:
            self.codes(self.images(self.sizes[0], count))
        except InputError as error:
            sentence = _sentence(f"with {count} {self.encoder.takes} at once, {error}")
            return [CheckItem("batches", "problem", sentence, "make it accept any number of images", blocks=True)]
        return []

    def speed(self) -> CheckItem:
        start = time.perf_counter()
        self.codes(self.scenes).sum().item()  # .item() waits for the GPU
        seconds = (time.perf_counter() - start) / _SCENES
        sentence = f"{1000 * seconds:.2g} ms per image, {_SCENES} at a time, on {self.encoder.device}."
        return CheckItem("speed", "ok", sentence)


def _check_embeddings(encoder: Encoder, embeddings: Embeddings) -> list[CheckItem]:
    """Check stored codes without a model."""
    items = []
    for prefix, encoding in embeddings.stored.items():
        codes, name = encoding.codes, f"{prefix}codes"
        items.append(CheckItem("output", "ok", f"It has {name} {list(codes.shape)} of {len(codes):,} images."))
        if not bool(codes.isfinite().all()):
            rows = int((~codes.isfinite()).flatten(1).any(1).sum())
            verb, images = ("is", "this image") if rows == 1 else ("are", "these images")
            sentence = f"{rows:,} of the {name} {verb} NaN or infinite."
            items.append(CheckItem("numbers", "problem", sentence, f"encode {images} again", blocks=True))
        elif len(codes) > 1 and float((codes - codes[0]).abs().max()) <= 1e-6 * float(codes.abs().max()):
            items.append(CheckItem("reacts", "problem", f"All {name} are the same.", blocks=True))
        else:
            items.append(CheckItem("numbers", "ok", f"All {name} are finite, and they differ."))
    if embeddings.rows:
        sentence = f"It has codes of {len(embeddings.rows):,} different images and cannot encode others."
        items.append(CheckItem("images", "ok", sentence))
    else:
        sentence = "The file does not say which images its codes belong to."
        fix = "add ?images=FOLDER, the folder that `alebrije make` wrote, or put `images` into the file"
        items.append(CheckItem("images", "problem", sentence, fix, blocks=True))
    return [*items, CheckItem("fingerprint", "ok", f"{encoder.fingerprint[:12]}, of codes and images.")]


def _input(prepared: Tensor, original: Tensor) -> CheckItem:
    if torch.equal(prepared, original):
        return CheckItem("input", "ok", "It does not modify its input.")
    sentence = "It modifies its input; alebrije passes a copy, so no harm is done."
    return CheckItem("input", "note", sentence, "clone the images before an in-place operation")


def _is_image(output: object) -> bool:
    """Whether an output [B, 3, H, W] may be images, such as reconstructions at another size."""
    return isinstance(output, Tensor) and output.ndim == 4 and output.shape[1] == 3


def _at(size: int, sentence: str) -> str:
    """A sentence about images of one size; a name that it starts with keeps its case."""
    start = sentence[:1].lower() if sentence.startswith(("It ", "Its ", "The ", "With ", "There ")) else sentence[:1]
    return f"With images of {size} x {size} pixels, {start}{sentence[1:]}"


def _difference(codes: Tensor, others: Tensor) -> float:
    """The largest difference, as a fraction of the spread of the codes over images."""
    if codes.shape != others.shape:
        return float("inf")
    spread = float((codes - codes.mean(0)).abs().max())
    largest = float((codes - others).abs().max())
    return largest / spread if spread > 0 else largest and float("inf")


def _sentence(text: str) -> str:
    """An error message as a sentence; a message that starts with a name keeps its case."""
    start = text[:1].upper() + text[1:] if text.startswith(("the ", "there ", "a ", "with ")) else text
    return start if text.endswith(("?", ".")) else f"{start}."


def _clause(item: CheckItem, name: str) -> str:
    """An item as the rest of a sentence that starts with the name of the model."""
    text = item.sentence.rstrip(".")
    if text.startswith(f"{name} "):
        text = f"it{text.removeprefix(name)}"
    if text.startswith(("It ", "Its ", "The ", "All ", "With ", "There ")):
        text = text[:1].lower() + text[1:]
    return f"{text}; {item.fix}" if item.fix else text
