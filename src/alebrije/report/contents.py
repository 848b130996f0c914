"""What stands on a contact sheet: scenes of a world, episodes of a task, analogies, or what a folder holds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alebrije import data, worlds
from alebrije.errors import InputError
from alebrije.report.sheets import Card, Line, Picture, Section, Sheet, colored_mask, picture_of
from alebrije.scenes import Scenes, Vocabulary, rule
from alebrije.scenes.rules import Move, Rule, Update
from alebrije.studies.datasets import SETTINGS, SIZE, SPLITS, Dataset, datasets, scenes_of

_WHOSE = {"self": "its own", "other": "the other's"}
_MASKS = "In a mask each object has the colour and the number that it has in the words."
_SWAPPED = "Sprites are shown in the colours of their words; their files have red and blue exchanged, as released."


@dataclass(frozen=True)
class Side:
    """Scenes and their pictures: all that is shown of a world, or the sources or the targets of episodes."""

    label: str
    scenes: Scenes
    images: Tensor  # [B, 3, H, W] uint8
    masks: Tensor | None  # [B, H, W] uint8


@contextmanager
def one_thread() -> Iterator[None]:
    """Within this context torch uses one thread: for a few pictures, several mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def sheet_of(
    name: str,
    n: int,
    *,
    rule: str | None = None,
    alpha: float | None = None,
    split: str | None = None,
    size: int | None = None,
    seed: int | None = None,
) -> Sheet:
    """The first `n` rows of what `name` means: "analogies", a world, a task as world/rule, or a folder.

    A folder is an image cache of `alebrije make`, a folder of SVIB's episodes, or one that holds such folders for
    train, test and omni. A world comes before a folder of its name; that is meant by ./name or name/. What would have
    no effect must not be given.
    """
    if n < 1:
        raise InputError(f"n must be at least 1, not {n}")
    drawn = SIZE if size is None else size, 0 if seed is None else seed
    of_tasks = {"rule": rule, "alpha": alpha, "split": split}
    is_folder = name.endswith(("/", os.sep))  # as the shell completes its name
    if name == "analogies":
        _refuse(of_tasks, "goes with a task; analogies have no rule")
        return _analogy_sheet(n, *drawn)
    of_a_stranger = ":" in name and not Path(name).exists()
    if not is_folder and (of_a_stranger or name.partition("/")[0] in worlds.names()):
        parts = datasets(name, rule=rule, alpha=alpha, split=split, size=drawn[0], seed=drawn[1])
        return _made_sheet(parts, n)
    if not Path(name).exists():
        kinds = "folder" if is_folder else "world, task or folder"
        raise InputError(f"there is no {kinds} {name!r}; worlds are {', '.join(worlds.names())}")
    _refuse({**of_tasks, "size": size, "seed": seed}, "goes with a world; a folder is shown as it is")
    return _folder_sheet(Path(name), n)


def _refuse(options: dict[str, Any], why: str) -> None:
    """Refuses options that would have no effect."""
    for option, value in options.items():
        if value is not None:
            raise InputError(f"--{option} {value} {why}")


def _made_sheet(parts: dict[str, Dataset], n: int) -> Sheet:
    sections = [
        Section(part, scene_cards(_sides(dataset.arrays(0, n), dataset.world))) for part, dataset in parts.items()
    ]
    one = next(iter(parts.values()))
    about = [f"Seed {one.seed}, {one.size} x {one.size} pixels."]
    title = one.world
    if one.rule is not None:
        title = f"{one.world}/{one.rule}" + ("" if "" not in parts else f", {one.split}")
        law = rule_in_words(rule(one.rule), worlds.get(one.world).vocabulary)
        about = [f"{law}.", _combinations(one), *about]
    return Sheet(title, " ".join([*about, *_remarks(worlds.get(one.world).vocabulary)]), tuple(sections))


def _combinations(dataset: Dataset) -> str:
    task = worlds.task(dataset.world, dataset.rule or "", dataset.alpha)
    shown, kept, every = len(task.split.train), len(task.split.test), task.world.vocabulary.size
    return f"Alpha {dataset.alpha:g}: training shows {shown} of {every} combinations, the test {kept} others."


def _remarks(vocabulary: Vocabulary) -> list[str]:
    return [_MASKS, *([_SWAPPED] if _is_swapped(vocabulary) else [])]


def _is_swapped(vocabulary: Vocabulary) -> bool:
    return vocabulary == worlds.get("sprites").vocabulary


def rule_in_words(law: Rule, vocabulary: Vocabulary) -> str:
    """What a rule does to each object of a world.

    >>> rule_in_words(rule("M-A"), worlds.get("clevr").vocabulary)
    "color <- its own shape; size <- the other's color"
    """

    def named(factor: str) -> str:  # surfaces take the part of colours where there are none
        return "material" if factor == "color" and factor not in vocabulary else factor

    def said(update: Update | Move) -> str:
        if isinstance(update, Update):
            parents = [f"{_WHOSE[owner]} {named(factor)}" for owner, factor in update.parents]
            return f"{named(update.target)} <- {' + '.join(parents)}"
        if update.chooser is None:
            return "the object moves"
        owner, factor = update.chooser
        return f"the object moves by {_WHOSE[owner]} {named(factor)}"

    return "; ".join(said(update) for update in law.updates)


# ---------------------------------------------------------------------------------------------------------- folders


def _folder_sheet(folder: Path, n: int) -> Sheet:
    if not folder.is_dir():
        raise InputError(f"{folder}: is not a folder")
    is_dataset = any((folder / name).is_file() for name in ("manifest.json", SETTINGS))
    parts = [] if is_dataset else [folder / part for part in SPLITS if (folder / part).is_dir()]
    found = [(path.name, *_read(path, n)) for path in parts] if parts else [("", *_read(folder, n))]
    sections = tuple(Section(title, scene_cards(sides)) for title, sides, _ in found)
    pictures = found[0][1][0]
    height, width = pictures.images.shape[-2:]
    about = [f"{found[0][2]}, {width} x {height} pixels.", *_remarks(pictures.scenes.vocabulary)]
    return Sheet(folder.resolve().name, " ".join(about), sections)


def _read(folder: Path, n: int) -> tuple[list[Side], str]:
    """What is to be shown of a folder, and what kind of folder it is."""
    if (folder / "manifest.json").is_file():
        return _read_cache(folder, n)
    with_targets = any(folder.glob("[0-9]*/target.json"))
    episodes = data.read_svib(folder, limit=n, targets=with_targets)
    assert episodes.source_images is not None
    sides = [Side("source", episodes.source, episodes.source_images, episodes.source_masks)]
    if episodes.target_images is not None:
        sides.append(Side("target", episodes.target, episodes.target_images, episodes.target_masks))
    return sides, f"Episodes of {episodes.source.vocabulary.name} as SVIB's files hold them"


def _read_cache(folder: Path, n: int) -> tuple[list[Side], str]:
    cache = data.open_cache(folder, verify=False)  # to look at a few rows, not all need be read
    world = cache.settings.get("world")
    if not isinstance(world, str) or world not in worlds.names():
        raise InputError(f"{folder}: the settings of this cache name none of alebrije's worlds, so it cannot be shown")
    try:
        sides = _sides({name: cache[name][:n] for name in cache.arrays}, world)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error
    settings = ", ".join(f"{key} {value}" for key, value in cache.settings.items() if key != "size")
    return sides, f"An image cache of {len(cache)} rows ({settings})"


def _sides(arrays: dict[str, Any], world: str) -> list[Side]:
    """What the arrays of a dataset hold."""
    prefixes = ("source_", "target_") if "source_images" in arrays else ("",)
    sides = []
    for prefix in prefixes:
        scenes, (images, masks) = scenes_of(arrays, world, prefix), _pictures(arrays, prefix)
        if len(images) != len(scenes):
            raise InputError(f"there are {len(images)} {prefix}images of {len(scenes)} scenes")
        sides.append(Side(prefix.removesuffix("_") or "image", scenes, images, masks))
    return sides


def _pictures(arrays: dict[str, Any], prefix: str) -> tuple[Tensor, Tensor]:
    """Images and masks of the kind that worlds draw."""
    found = []
    for name, axes in (("images", 4), ("masks", 3)):
        array = arrays.get(prefix + name)
        if array is None or array.dtype != "uint8" or array.ndim != axes:
            raise InputError(f"{prefix}{name} must be there and hold bytes on {axes} axes")
        found.append(torch.from_numpy(array))
    return found[0], found[1]


# ------------------------------------------------------------------------------------------------------------ cards


def scene_cards(sides: Sequence[Side]) -> tuple[Card, ...]:
    """A card for each scene or episode: pictures, masks, and the objects in words."""
    return tuple(_scene_card(sides, row, str(row)) for row in range(len(sides[0].scenes)))


def _scene_card(sides: Sequence[Side], row: int, title: str) -> Card:
    pictures: list[Picture] = []
    for side in sides:
        pictures += _picture_and_mask(side, row)
    scenes = sides[0].scenes
    ground = scenes.vocabulary.background
    lines = _lines(scenes, sides[1].scenes if len(sides) > 1 else None, row)
    if len(ground) > 1:
        title = f"{title}, on {ground.values[int(scenes.background[row])]}"
    return Card(title, (tuple(pictures),), lines)


def _picture_and_mask(side: Side, row: int) -> list[Picture]:
    objects = "; ".join(" ".join(_words(side.scenes, row, place)) for place in _places(side.scenes, row))
    image = side.images[row].flip(0) if _is_swapped(side.scenes.vocabulary) else side.images[row]
    pictures = [Picture(side.label, picture_of(image), f"{side.label}: {objects}")]
    if side.masks is not None:
        pictures.append(Picture("mask", colored_mask(side.masks[row]), f"mask of the {side.label}"))
    return pictures


def _places(scenes: Scenes, row: int) -> list[int]:
    found: list[int] = scenes.present[row].nonzero()[:, 0].tolist()
    return found


def _words(scenes: Scenes, row: int, place: int) -> list[str]:
    """An object's factors: words as they are, numbers under their name."""
    values = zip(scenes.vocabulary, scenes.factors[row, place].tolist(), strict=True)
    found = [(factor.name, factor.values[index]) for factor, index in values]
    words = [value if isinstance(value, str) else f"{name} {value:.3g}" for name, value in found]
    all_words = all(isinstance(value, str) for _, value in found)
    return words if all_words else [*(f"{word}," for word in words[:-1]), words[-1]]


def _lines(before: Scenes, after: Scenes | None, row: int) -> tuple[Line, ...]:
    """Each object in words, and what becomes of it."""
    lines = []
    for place in _places(before, row):
        was = _words(before, row, place)
        words = [(word, False) for word in was]
        if after is not None:
            moved = bool((before.position[row, place, :2] != after.position[row, place, :2]).any())
            words += [("→", False)]
            words += [(word, word != old) for word, old in zip(_words(after, row, place), was, strict=True)]
            words += [("moved", True)] if moved else []
        lines.append(Line(tuple(words), place + 1))
    return tuple(lines)


# -------------------------------------------------------------------------------------------------------- analogies


def _analogy_sheet(n: int, size: int, seed: int) -> Sheet:
    Dataset("coat", size=size, seed=seed)  # checks both
    note = (
        "B - A + C = D: B is A, and D is C, with the same objects added. Below them hard negatives, D with one thing "
        f"wrong. Seed {seed}, {size} x {size} pixels."
    )
    return Sheet("analogies", note, (Section("", analogy_cards(worlds.analogies("clevr", n, seed), size)),))


def analogy_cards(cases: worlds.Analogies, size: int) -> tuple[Card, ...]:
    """A card for each case: A, B, C and D, and the negatives with what is wrong in them."""
    draw = worlds.get("coat").render
    scenes = {name.upper(): getattr(cases, name) for name in "abcd"} | dict(cases.negatives)
    images = {name: draw(part, size=size).images for name, part in scenes.items()}
    images["pixel"] = cases.pixel_negative(images["A"], images["B"], images["C"])
    return tuple(_analogy_card(cases, images, row) for row in range(len(cases)))


def _analogy_card(cases: worlds.Analogies, images: dict[str, Tensor], row: int) -> Card:
    notes = {name: _what_is_wrong(cases.d, wrong, row) for name, wrong in cases.negatives.items()}
    notes["pixel"] = "B - A + C of the pixels"
    four = tuple(Picture(name, picture_of(images[name][row]), f"scene {name}") for name in "ABCD")
    wrong = tuple(
        Picture(name, picture_of(images[name][row]), f"hard negative {name}: {note}", note)
        for name, note in notes.items()
    )
    added = _without(cases.d, cases.c, row)
    words = (Line((("added:", False), ("; ".join(added), True))),)
    return Card(f"case {row}", (four, wrong), words)


def _without(scenes: Scenes, others: Scenes, row: int) -> list[str]:
    """The objects that some scenes have and others have not, in words."""
    left = [" ".join(_words(scenes, row, place)) for place in _places(scenes, row)]
    for place in _places(others, row):
        words = " ".join(_words(others, row, place))
        if words in left:
            left.remove(words)
    return left


def _what_is_wrong(right: Scenes, wrong: Scenes, row: int) -> str:
    gone, new = _without(right, wrong, row), _without(wrong, right, row)
    return f"{', '.join(gone)} → {', '.join(new) or 'gone'}"
