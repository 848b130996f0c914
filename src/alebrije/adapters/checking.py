"""Checking: whether a stranger's model can be evaluated, in plain words, and how to mend what stands in the way."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from alebrije.adapters.adapted import UNKNOWN_SIZE, Adapted
from alebrije.adapters.embeddings import Embeddings
from alebrije.adapters.outputs import read
from alebrije.adapters.specs import load, names_a_class
from alebrije.encoding import Encoding
from alebrije.errors import InputError
from alebrije.worlds import get as get_world

Level = Literal["ok", "note", "problem"]
_SCENES = 8
_EXACT, _CLOSE = 1e-4, 1e-2  # differences, as parts of how much the codes of different images differ
_BEARS_ON_SCORES = ("weights", "output", "repeats", "batches")  # of what is only noted
_GIVE_SIZE = "give the size that it takes: --pixels on the command line, pixels= in evaluate, size= in check"
_READS_SCENES = "It reads scenes, not images, so it has no codes; imagination alone can examine it."
_MANY_SLOTS = 32  # more are likely the tokens of a transformer


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, what was found, and how to mend it if it needs to be."""

    about: str
    level: Level
    sentence: str
    mend: str = ""
    spoils: bool = False  # no score could mean anything


@dataclass(frozen=True)
class CheckReport:
    """What was found about a model; it has `passed` if there are no problems."""

    name: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether the model can be evaluated."""
        return not any(one.level == "problem" for one in self.findings)

    def __getitem__(self, about: str) -> Finding:
        """The finding about something; it is an error if that was not looked at."""
        return next(one for one in self.findings if one.about == about)

    def __contains__(self, about: str) -> bool:
        return any(one.about == about for one in self.findings)

    def __str__(self) -> str:
        counts = {level: sum(one.level == level for one in self.findings) for level in ("problem", "note")}
        told = [f"{count} {level}{'s' if count > 1 else ''}" for level, count in counts.items() if count]
        verdict = "can be evaluated" if self.passed else "cannot be evaluated as it is"
        lines = [f"{self.name} {verdict}{': ' if told else '.'}{' and '.join(told)}{'.' if told else ''}", ""]
        width = max((len(one.about) for one in self.findings), default=0)
        for one in self.findings:
            head = f"  {one.level:<7}  {one.about:<{width}}  "
            rest = " " * len(head)
            lines.append(textwrap.fill(one.sentence, 110, initial_indent=head, subsequent_indent=rest))
            if one.mend:
                lines.append(textwrap.fill(f"-> {one.mend}", 110, initial_indent=rest, subsequent_indent=f"{rest}   "))
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
    name: str | None = None,
) -> CheckReport:
    """Whether a model can be evaluated; the arguments are those of `load`, and an `Adapted` is taken as it is.

    The model sees eight scenes of sprites, alone, together, in another order and twice, and images that are black,
    white and noise. It is asked for what an evaluation relies on: that it gives one code for each image, always the
    same one, which depends on that image and on nothing else.

    >>> from torch import nn
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 8))
    >>> report = check(network, size=16)
    >>> report.passed, report["output"].sentence
    (True, 'It gives a vector [B, 8].')
    >>> check(lambda images: torch.rand(len(images), 8))["repeats"].level
    'problem'
    """
    if isinstance(spec, Adapted):
        adapted = spec
    else:
        try:
            adapted = load(spec, device=device, size=size, mean=mean, std=std, batch=batch, layer=layer, name=name)
        except InputError as error:
            title = name or (spec if isinstance(spec, str) else type(spec).__qualname__)
            return CheckReport(title, (Finding("model", "problem", _sentence(str(error))),))
    if isinstance(adapted.model, Embeddings):
        return CheckReport(adapted.name, tuple(_of_embeddings(adapted, adapted.model)))
    looked = _Check(adapted)
    return CheckReport(adapted.name, tuple(looked.without_codes() if adapted.reads_scenes else looked.findings()))


def look_before(adapted: Adapted, pixels: int | None = None) -> list[str]:
    """A quick look at a model before it is evaluated, without what only people want to know, as of its speed.

    One whose scores would mean nothing is refused; the sentences that are given are what else bears on its scores.
    A model that does not say which size it takes sees images of so many `pixels` a side. At one that reads scenes there
    is nothing to look: its codes have no scores, and where it predicts by itself, no codes are needed.

    >>> look_before(Adapted(lambda images: images.mean((2, 3))))
    []
    >>> look_before(Adapted(lambda images: images.mean((2, 3)) / 0))
    Traceback (most recent call last):
        ...
    alebrije.errors.InputError: <lambda> cannot be evaluated as it is: it gives codes that are not numbers, or ...
    """
    if adapted.reads_scenes:
        return []
    if isinstance(adapted.model, Embeddings):
        found = _of_embeddings(adapted, adapted.model)
    else:
        found = _Check(adapted, pixels).relied_on()
    if spoilt := [one for one in found if one.spoils]:  # the last explains those before it
        raise InputError(f"{adapted.name} cannot be evaluated as it is: {_within(spoilt[-1], adapted.name)}")
    told = [one for one in found if one.level == "problem" or (one.level == "note" and one.about in _BEARS_ON_SCORES)]
    return [f"{adapted.name}: {_within(one, adapted.name)}" for one in told]


class _Check:
    """One look at a model that encodes images."""

    def __init__(self, adapted: Adapted, pixels: int | None = None) -> None:
        self.adapted = adapted
        size = adapted.preprocessing.size or pixels or UNKNOWN_SIZE
        world = get_world("sprites")
        self.scenes = world.images(world.sample(_SCENES, seed=0), size)
        self.training = any(part.training for module in adapted.modules for part in module.modules())

    def findings(self) -> list[Finding]:
        """All that can be found; where the model gives no codes at all, that alone."""
        found = self.relied_on()
        if any(one.about == "output" and one.level == "problem" for one in found):
            return found
        return [*found, self.fingerprint(), self.speed()]

    def weights(self) -> list[Finding]:
        """A note if they may be nobody's."""
        learned = any(list(module.parameters()) for module in self.adapted.modules)
        sentence = "It was made here from its class, so unless that loads weights they are random, of a fixed seed."
        mend = "to examine trained weights, name a function that makes the model and loads them"
        return [Finding("weights", "note", sentence, mend)] if learned and names_a_class(self.adapted.spec) else []

    def without_codes(self) -> list[Finding]:
        """What can be found of a model that reads scenes."""
        return [self.device(), Finding("output", "note", _READS_SCENES), self.mode(), self.fingerprint()]

    def relied_on(self) -> list[Finding]:
        """What an evaluation relies on."""
        found = [self.preprocessing(), self.device(), *self.weights()]
        prepared = self.adapted.prepare(self.scenes[: self.adapted.batch])
        before = prepared.clone()
        try:
            raw = self.adapted.run(prepared)
        except InputError as error:
            mend = f"see that it takes floats [B, 3, H, W]; if it takes one size only, {_GIVE_SIZE}"
            return [*found, Finding("output", "problem", _sentence(str(error)), mend, spoils=True)]
        try:
            encoding, how = read(raw, before)
            codes = encoding.codes if self.adapted.batch >= _SCENES else self.codes(self.scenes)
        except InputError as error:
            mend = "wrap it in a function that returns the codes, or take those of a submodule: --layer, layer="
            return [*found, Finding("output", "problem", _sentence(str(error)), mend, spoils=True)]
        found += [self.output(encoding, how), self.numbers(encoding), self.mode(), self.gradients(raw)]
        found.append(_input(prepared, before))
        if bool(codes.isfinite().all()):
            found += [self.reaction(codes), *self.steadiness(codes)]
        return found

    def codes(self, images: Tensor, seed: int = 0) -> Tensor:
        parts = []
        for first in range(0, len(images), self.adapted.batch):
            prepared = self.adapted.prepare(images[first : first + self.adapted.batch])
            parts.append(read(self.adapted.run(prepared, seed=seed), prepared)[0].codes)
        if len({part.shape[1:] for part in parts}) > 1:
            raise InputError(f"{self.adapted.name} gave codes of different shapes for different batches")
        return torch.cat(parts)

    def preprocessing(self) -> Finding:
        how = self.adapted.preprocessing
        sentence = f"Images are handed over as floats in 0..1, {how}."
        if how.mean is None and how.std is None and self.adapted.plan is None:
            return Finding(
                "images",
                "ok",
                sentence,
                "if it was trained on normalised images, give its --mean and --std",
            )
        return Finding("images", "ok", sentence)

    def device(self) -> Finding:
        places = {str(weight.device) for module in self.adapted.modules for weight in module.parameters()}
        if len(places) > 1:
            mend = "give device=... to bring it all to one"
            return Finding("device", "note", f"Its weights are on several devices: {', '.join(sorted(places))}.", mend)
        place = self.adapted.device
        if place.type == "cpu" and torch.cuda.is_available() and self.adapted.modules:
            return Finding("device", "note", "It is on the CPU, though there is a GPU.", "give device='cuda'")
        return Finding("device", "ok", f"It is on {place}.")

    def output(self, encoding: Encoding, how: str) -> Finding:
        sentence = f"It gives {how}."
        if encoding.slots is not None and encoding.slots.shape[1] > _MANY_SLOTS:
            mend = "if these are the tokens of a transformer, return their mean or the class token"
            return Finding("output", "note", f"{sentence} That is a great many slots.", mend)
        return Finding("output", "ok", sentence)

    def numbers(self, encoding: Encoding) -> Finding:
        noise = torch.rand(2, *self.scenes.shape[1:], generator=torch.Generator().manual_seed(0))
        tried = {"black": torch.zeros_like(noise), "white": torch.ones_like(noise), "noise": noise}
        try:
            codes = {"scenes": encoding.codes, **{what: self.codes(images) for what, images in tried.items()}}
        except InputError as error:
            mend = "see that it takes any number of images"
            return Finding("numbers", "problem", _sentence(str(error)), mend, spoils=True)
        broken = [what for what, found in codes.items() if not bool(found.isfinite().all())]
        if broken:
            sentence = f"It gives codes that are not numbers, or infinite, for images of {', '.join(broken)}."
            mend = (
                "look for a division by a deviation that is 0, or a logarithm of 0; load weights that did not diverge"
            )
            return Finding("numbers", "problem", sentence, mend, spoils="scenes" in broken)
        largest = max(float(found.abs().max()) for found in codes.values())
        return Finding("numbers", "ok", f"All codes are finite, also of black, white and noise; up to {largest:.3g}.")

    def mode(self) -> Finding:
        if not self.adapted.modules:
            return Finding("eval mode", "ok", "No torch module can be seen in it, so eval mode is its own affair.")
        if self.training:
            sentence = "It was in training mode; it is in eval mode whenever it encodes, and then as it was again."
            return Finding("eval mode", "note", sentence, "call .eval() to see the same codes elsewhere")
        return Finding("eval mode", "ok", "It is in eval mode.")

    def gradients(self, raw: object) -> Finding:
        parts = raw.values() if isinstance(raw, dict) else raw if isinstance(raw, tuple | list) else (raw,)
        if any(isinstance(part, Tensor) and part.requires_grad for part in parts):
            sentence = "It tracks gradients though it was told not to, which takes memory and time."
            return Finding("gradients", "note", sentence, "take torch.enable_grad() out of its forward")
        return Finding("gradients", "ok", "No gradients are tracked.")

    def reaction(self, codes: Tensor) -> Finding:
        """With the same random numbers, other images must give other codes."""
        try:
            others = self.codes(self.scenes.roll(1, 0))
        except InputError as error:
            return Finding("reacts", "problem", _sentence(str(error)), spoils=True)
        if float((codes - others).abs().max()) <= 1e-6 * max(float(codes.abs().max()), 1e-30):
            sentence = "It gives all images the same codes, whatever they show."
            mend = (
                "see that it uses its input, and that it expects floats in 0..1 and not bytes; mean and std scale them"
            )
            return Finding("reacts", "problem", sentence, mend, spoils=True)
        return Finding("reacts", "ok", "Different images have different codes.")

    def steadiness(self, codes: Tensor) -> list[Finding]:
        """Whether the same images always have the same codes, and whether other images of a batch change them."""
        try:
            again, reseeded = self.codes(self.scenes), self.codes(self.scenes, seed=1)
        except InputError as error:
            return [Finding("repeats", "problem", _sentence(f"with the same images again, {error}"), spoils=True)]
        if (apart := _apart(codes, again)) > _CLOSE:
            sentence = "The same images have other codes each time, though torch's seed is the same."
            mend = "keep no state between calls, and draw random numbers from torch's own generator if at all"
            return [Finding("repeats", "problem", sentence, mend, spoils=True)]
        if _apart(codes, reseeded) > _EXACT:
            return [self._random(codes, reseeded)]
        if apart > _EXACT:
            repeats = Finding("repeats", "note", f"The same images twice: codes differ by {apart:.1g} of their spread.")
        else:
            repeats = Finding("repeats", "ok", "The same images always have the same codes.")
        return [repeats, self._batches(codes)]

    def _random(self, codes: Tensor, reseeded: Tensor) -> Finding:
        mend = "return the mean of what is sampled; give F.dropout training=self.training"
        if codes.ndim == 3:
            sentence = "Its slots depend on random numbers; they are seeded by the images, so results can be repeated."
            return Finding("repeats", "note", sentence)
        noise = float((codes - reseeded).std() / 2**0.5)
        share = noise / max(float((codes - codes.mean(0)).std()), 1e-30)
        if share > 0.5:
            sentence = f"Its codes are random: {min(share, 1):.0%} of what tells images apart is noise."
            return Finding("repeats", "problem", sentence, mend, spoils=True)
        sentence = f"Its codes are partly random ({share:.1%} of their spread); the seed is fixed by the images."
        return Finding("repeats", "note", sentence, f"{mend}; or keep it: results can be repeated")

    def _batches(self, codes: Tensor) -> Finding:
        order = torch.arange(_SCENES).flip(0)
        try:
            alone = torch.cat([self.codes(self.scenes[one : one + 1]) for one in range(3)])
            turned = self.codes(self.scenes[order])
        except InputError as error:
            mend = "see that it takes a single image, and that it does not squeeze the axis of the batch away"
            return Finding("batches", "problem", _sentence(f"with a single image or another order, {error}"), mend)
        apart = max(_apart(codes, torch.cat((alone, codes[3:]))), _apart(codes[order.to(codes.device)], turned))
        if apart <= _EXACT:
            return Finding("batches", "ok", "An image has the same code alone, in a batch and in another order.")
        sentence = f"The code of an image depends on the others in its batch, by {apart:.1g} of the codes' spread."
        if apart <= _CLOSE:
            mend = "nothing need be done: arithmetic of few digits, as TF32 on a GPU, rounds differently in batches"
            return Finding("batches", "note", sentence, mend)
        mend = "let batch norm use its running statistics, and normalise within an image and not over the batch"
        return Finding("batches", "problem", sentence, mend)

    def fingerprint(self) -> Finding:
        try:
            print_ = self.adapted.fingerprint
        except InputError as error:
            return Finding("fingerprint", "problem", _sentence(str(error)), "give name=...")
        count = f"{self.adapted.parameters:,} parameters"
        return Finding(
            "fingerprint", "ok", f"{print_[:12]}, over {count if self.adapted.parameters else 'its source'}."
        )

    def speed(self) -> Finding:
        begun = time.perf_counter()
        self.codes(self.scenes).sum().item()  # the sum is waited for
        each = (time.perf_counter() - begun) / _SCENES
        return Finding(
            "speed", "ok", f"{1000 * each:.2g} ms for an image, {_SCENES} at a time, on {self.adapted.device}."
        )


def _of_embeddings(adapted: Adapted, table: Embeddings) -> list[Finding]:
    """What can be said about codes alone."""
    found = []
    for side, encoding in table.stored.items():
        codes, what = encoding.codes, f"{side}codes"
        found.append(Finding("output", "ok", f"It holds {what} {list(codes.shape)} of {len(codes):,} images."))
        if not bool(codes.isfinite().all()):
            rows = int((~codes.isfinite()).flatten(1).any(1).sum())
            verb, again = ("is not a number", "this image") if rows == 1 else ("are not numbers", "these images")
            sentence = f"{rows:,} of the {what} {verb}, or infinite."
            found.append(Finding("numbers", "problem", sentence, f"embed {again} again", spoils=True))
        elif len(codes) > 1 and float((codes - codes[0]).abs().max()) <= 1e-6 * float(codes.abs().max()):
            sentence = f"All {what} are the same, whatever the images show."
            found.append(Finding("reacts", "problem", sentence, spoils=True))
        else:
            found.append(Finding("numbers", "ok", f"All {what} are finite, and they differ."))
    if table.rows:
        sentence = f"Codes are looked up for {len(table.rows):,} images; it cannot encode others."
        found.append(Finding("images", "ok", sentence))
    else:
        mend = "add ?images=FOLDER, the folder that `alebrije make` wrote, or `images` beside the codes in the file"
        sentence = "The file does not say which images its codes are of, so they cannot be looked up."
        found.append(Finding("images", "note", sentence, mend, spoils=True))
    return [*found, Finding("fingerprint", "ok", f"{adapted.fingerprint[:12]}, over codes and images.")]


def _input(prepared: Tensor, before: Tensor) -> Finding:
    if torch.equal(prepared, before):
        return Finding("input", "ok", "It leaves the images it is given as they were.")
    sentence = "It changes the images it is given; here it is handed a copy, so nothing else suffers."
    return Finding("input", "note", sentence, "clone the images before an operation in place")


def _apart(codes: Tensor, others: Tensor) -> float:
    """The largest difference, as a part of how much the codes of different images differ."""
    if codes.shape != others.shape:
        return float("inf")
    spread = float((codes - codes.mean(0)).abs().max())
    apart = float((codes - others).abs().max())
    return apart / spread if spread > 0 else apart and float("inf")


def _sentence(text: str) -> str:
    """A message as a sentence; one that begins with a name keeps it as it is written."""
    begun = text[:1].upper() + text[1:] if text.startswith(("the ", "there ", "a ", "with ")) else text
    return begun if text.endswith(("?", ".")) else f"{begun}."


def _within(finding: Finding, name: str) -> str:
    """A finding as the rest of a sentence that begins with the model's name."""
    text = finding.sentence.rstrip(".")
    if text.startswith(f"{name} "):
        text = f"it{text.removeprefix(name)}"
    begun = text[:1].lower() + text[1:] if text.startswith(("It ", "Its ", "The ", "All ", "With ", "There ")) else text
    return f"{begun}; {finding.mend}" if finding.mend else begun
