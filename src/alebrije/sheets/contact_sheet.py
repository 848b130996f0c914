"""Contact sheets of a world's scenes, a task's episodes, analogies, or a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.colors import hsv_to_rgb
from torch import Tensor

from alebrije import data, worlds
from alebrije.arrays import Bytes
from alebrije.data.datasets import SETTINGS, SIZE, SPLITS, Dataset, datasets_for, scenes_from_arrays
from alebrije.errors import InputError
from alebrije.scenes import Scenes, Vocabulary, rule
from alebrije.scenes.rules import Move, Rule, Update
from alebrije.sheets.sheet import Card, Line, Picture, Sheet, SheetSection, colored_mask, picture_of

_WHOSE = {"self": "its own", "other": "the other's"}
_STILLS = 6  # frames of a video that are shown side by side
_MASKS = "In a mask, each object has the colour and number of its line of text."
_SWAPPED = "Sprites are shown in their true colours; in the files red and blue are exchanged, as released."


@dataclass(frozen=True)
class SceneImages:
    """Scenes with their images and masks: those of a world, or the sources or targets of episodes."""

    label: str
    scenes: Scenes
    images: Tensor  # [B, 3, H, W] uint8; videos and views [B, T, 3, H, W]
    masks: Tensor | None  # [B, H, W] uint8; videos and views [B, T, H, W]
    flow: Tensor | None = None  # [B, T, 2, H, W] of videos


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: for a few images, several threads mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def contact_sheet(
    name: str,
    n: int,
    *,
    rule: str | None = None,
    alpha: float | None = None,
    split: str | None = None,
    size: int | None = None,
    seed: int | None = None,
) -> Sheet:
    """A sheet of the first `n` rows of `name`: "analogies", a world, a task as world/rule, or a folder.

    A folder is an image cache of `alebrije make`, a folder of SVIB episodes, or one with such folders for train, test
    and omni. A world takes precedence over a folder with its name, which can be written as ./name or name/. Options
    that would have no effect raise an InputError.
    """
    if n < 1:
        raise InputError(f"n must be at least 1, not {n}")
    pixels, world_seed = SIZE if size is None else size, 0 if seed is None else seed
    task_options = {"rule": rule, "alpha": alpha, "split": split}
    is_folder = name.endswith(("/", os.sep))  # as the shell completes it
    if name == "analogies":
        _refuse(task_options, "is for tasks; analogies have no rule")
        return _analogy_sheet(n, pixels, world_seed)
    is_user_world = ":" in name and not Path(name).exists()
    if not is_folder and (is_user_world or name.partition("/")[0] in worlds.names()):
        parts = datasets_for(name, rule=rule, alpha=alpha, split=split, size=pixels, seed=world_seed)
        return _world_sheet(parts, n)
    if not Path(name).exists():
        kinds = "folder" if is_folder else "world, task or folder"
        raise InputError(f"there is no {kinds} {name!r}; worlds are {', '.join(worlds.names())}")
    _refuse({**task_options, "size": size, "seed": seed}, "is for worlds; a folder is shown as it is")
    return _folder_sheet(Path(name), n)


def _refuse(options: dict[str, Any], why: str) -> None:
    """Raise an InputError for options that would have no effect."""
    for option, value in options.items():
        if value is not None:
            raise InputError(f"--{option} {value} {why}")


def _world_sheet(parts: dict[str, Dataset], n: int) -> Sheet:
    sections = [
        SheetSection(part, scene_cards(_sides(dataset.arrays(0, n), dataset.world))) for part, dataset in parts.items()
    ]
    first = next(iter(parts.values()))
    vocabulary = worlds.get(first.world).vocabulary
    about = [f"Seed {first.seed}, {first.size} x {first.size} pixels."]
    title = first.world
    if first.rule is not None:
        title = f"{first.world}/{first.rule}" + ("" if "" not in parts else f", {first.split}")
        about = [f"{rule_in_words(rule(first.rule), vocabulary)}.", _combinations(first), *about]
    return Sheet(title, " ".join([*about, *_remarks(vocabulary)]), tuple(sections))


def _combinations(dataset: Dataset) -> str:
    task = worlds.task(dataset.world, dataset.rule or "", dataset.alpha)
    train, test, total = len(task.split.train), len(task.split.test), task.world.vocabulary.size
    return f"Alpha {dataset.alpha:g}: training shows {train} of {total} combinations, the test {test} others."


def _remarks(vocabulary: Vocabulary) -> list[str]:
    return [_MASKS, *([_SWAPPED] if _is_swapped(vocabulary) else [])]


def _is_swapped(vocabulary: Vocabulary) -> bool:
    return vocabulary == worlds.get("sprites").vocabulary


def rule_in_words(task_rule: Rule, vocabulary: Vocabulary) -> str:
    """What a rule does to each object of a world, in words.

    >>> rule_in_words(rule("M-A"), worlds.get("clevr").vocabulary)
    "color <- its own shape; size <- the other's color"
    """

    def named(factor: str) -> str:  # CLEVRTex has materials instead of colours
        return "material" if factor == "color" and factor not in vocabulary else factor

    def in_words(update: Update | Move) -> str:
        if isinstance(update, Update):
            parents = [f"{_WHOSE[owner]} {named(factor)}" for owner, factor in update.parents]
            return f"{named(update.target)} <- {' + '.join(parents)}"
        if update.chooser is None:
            return "the object moves"
        owner, factor = update.chooser
        return f"the object moves by {_WHOSE[owner]} {named(factor)}"

    return "; ".join(in_words(update) for update in task_rule.updates)


# ---------------------------------------------------------------------------------------------------------- folders


def _folder_sheet(folder: Path, n: int) -> Sheet:
    if not folder.is_dir():
        raise InputError(f"{folder}: is not a folder")
    is_dataset = any(os.path.lexists(folder / name) for name in ("manifest.json", SETTINGS))
    parts = [] if is_dataset else [folder / part for part in SPLITS if (folder / part).is_dir()]
    contents = [(path.name, *_read(path, n)) for path in parts] if parts else [("", *_read(folder, n))]
    sections = tuple(SheetSection(title, scene_cards(sides)) for title, sides, _ in contents)
    _, sides, kind = contents[0]
    height, width = sides[0].images.shape[-2:]
    about = [f"{kind}, {width} x {height} pixels.", *_remarks(sides[0].scenes.vocabulary)]
    return Sheet(folder.resolve().name, " ".join(about), sections)


def _read(folder: Path, n: int) -> tuple[list[SceneImages], str]:
    """The first `n` rows of a folder, and a description of the folder."""
    if os.path.lexists(folder / "manifest.json"):
        return _read_cache(folder, n)
    with_targets = any(folder.glob("[0-9]*/target.json"))
    episodes = data.read_svib(folder, limit=n, targets=with_targets)
    assert episodes.source_images is not None
    sides = [SceneImages("source", episodes.source, episodes.source_images, episodes.source_masks)]
    if episodes.target_images is not None:
        sides.append(SceneImages("target", episodes.target, episodes.target_images, episodes.target_masks))
    return sides, f"Episodes of {episodes.source.vocabulary.name} in SVIB's file format"


def _read_cache(folder: Path, n: int) -> tuple[list[SceneImages], str]:
    cache = data.open_cache(folder, verify=False)  # checking every row would read the whole cache
    world = cache.settings.get("world")
    if not isinstance(world, str) or world not in worlds.names():
        raise InputError(f"{folder}: cannot be shown, because its settings name none of alebrije's worlds")
    try:
        sides = _sides({name: cache[name][:n] for name in cache.arrays}, world)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error
    settings = ", ".join(f"{key} {value}" for key, value in cache.settings.items() if key != "size")
    return sides, f"An image cache of {len(cache)} rows ({settings})"


def _sides(arrays: dict[str, Any], world: str) -> list[SceneImages]:
    """The scenes and images in the arrays of a dataset."""
    prefixes = ("source_", "target_") if "source_images" in arrays else ("",)
    sides = []
    for prefix in prefixes:
        scenes, (images, masks) = scenes_from_arrays(arrays, world, prefix), _images_and_masks(arrays, prefix)
        if len(images) != len(scenes):
            raise InputError(f"there are {len(images)} {prefix}images but {len(scenes)} scenes")
        if (scenes.frames or scenes.views) != (images.shape[1] if images.ndim == 5 else None):
            raise InputError(f"{prefix}images do not have as many frames or views as the scenes")
        flow = torch.from_numpy(arrays["flow"]).float() if scenes.frames and "flow" in arrays else None
        sides.append(SceneImages(prefix.removesuffix("_") or "image", scenes, images, masks, flow))
    return sides


def _images_and_masks(arrays: dict[str, Any], prefix: str) -> tuple[Tensor, Tensor]:
    """The images [B, 3, H, W] and masks [B, H, W] of a dataset, with another axis after B for videos and views."""
    tensors = []
    more = f"{prefix}path" in arrays or f"{prefix}cameras" in arrays
    for name, axes in (("images", 4 + more), ("masks", 3 + more)):
        array = arrays.get(prefix + name)
        if array is None or array.dtype != "uint8" or array.ndim != axes:
            raise InputError(f"{prefix}{name} must be a uint8 array with {axes} dimensions")
        tensors.append(torch.from_numpy(array))
    return tensors[0], tensors[1]


# ------------------------------------------------------------------------------------------------------------ cards


def scene_cards(sides: Sequence[SceneImages]) -> tuple[Card, ...]:
    """A card for each scene or episode: images, masks, and the objects in words."""
    return tuple(_scene_card(sides, row, str(row)) for row in range(len(sides[0].scenes)))


def _scene_card(sides: Sequence[SceneImages], row: int, title: str) -> Card:
    pictures: list[Picture] = []
    for side in sides:
        pictures += _picture_and_mask(side, row)
    scenes = sides[0].scenes
    background = scenes.vocabulary.background
    lines = _lines(scenes, sides[1].scenes if len(sides) > 1 else None, row)
    if len(background) > 1:
        title = f"{title}, on {background.values[int(scenes.background[row])]}"
    return Card(title, _rows(sides[0], row) or (tuple(pictures),), lines)


def _rows(side: SceneImages, row: int) -> tuple[tuple[Picture, ...], ...]:
    """The pictures of a video or of several views; nothing for a still scene from one side."""
    if side.images.ndim != 5:
        return ()
    objects = "; ".join(_objects_in_words(side.scenes, row))
    images = [picture_of(image) for image in side.images[row]]
    masks = [] if side.masks is None else [colored_mask(mask) for mask in side.masks[row]]
    if side.scenes.views:
        seen = tuple(Picture(f"view {n}", image, f"view {n}: {objects}") for n, image in enumerate(images, 1))
        return (seen, tuple(Picture("mask", mask, f"mask of view {n}") for n, mask in enumerate(masks, 1)))
    moving = [_video("video", images, objects)] + ([_video("mask", masks, "masks")] if masks else [])
    if side.flow is not None:
        moving.append(_video("flow", [colored_flow(flow) for flow in side.flow[row]], "backward flow"))
    shown = torch.linspace(0, len(images) - 1, min(_STILLS, len(images))).round().long().tolist()
    stills = tuple(Picture(f"frame {at + 1}", images[at], f"frame {at + 1}") for at in shown)
    return (tuple(moving), stills)


def _video(label: str, frames: Sequence[Bytes], alt: str) -> Picture:
    return Picture(label, frames[0], f"{label}: {alt}", rest=tuple(frames[1:]))


def colored_flow(flow: Tensor) -> Bytes:
    """Flow [2, H, W] as a picture [H, W, 3]: the hue is its direction, the saturation its length. Rest is white."""
    x, y = flow.double().numpy()
    hue = (np.arctan2(y, x) / np.pi + 1) / 2
    diagonal = float(np.hypot(*flow.shape[1:]))
    saturation = np.minimum(1.0, np.hypot(x, y) * 50 / diagonal)
    return (hsv_to_rgb(np.stack([hue, saturation, np.ones_like(hue)], -1)) * 255).round().astype(np.uint8)


def _picture_and_mask(side: SceneImages, row: int) -> list[Picture]:
    if side.images.ndim == 5:
        return []
    objects = "; ".join(_objects_in_words(side.scenes, row))
    image = side.images[row].flip(0) if _is_swapped(side.scenes.vocabulary) else side.images[row]
    pictures = [Picture(side.label, picture_of(image), f"{side.label}: {objects}")]
    if side.masks is not None:
        pictures.append(Picture("mask", colored_mask(side.masks[row]), f"mask of the {side.label}"))
    return pictures


def _object_indices(scenes: Scenes, row: int) -> list[int]:
    indices: list[int] = scenes.present[row].nonzero()[:, 0].tolist()
    return indices


def _objects_in_words(scenes: Scenes, row: int) -> list[str]:
    return [" ".join(_object_words(scenes, row, index)) for index in _object_indices(scenes, row)]


def _object_words(scenes: Scenes, row: int, index: int) -> list[str]:
    """The factors of an object: words unchanged, numbers after the factor's name."""
    values = zip(scenes.vocabulary, scenes.factors[row, index].tolist(), strict=True)
    named = [(factor.name, factor.values[value]) for factor, value in values]
    words = [value if isinstance(value, str) else f"{name} {value:.3g}" for name, value in named]
    all_words = all(isinstance(value, str) for _, value in named)
    return words if all_words else [*(f"{word}," for word in words[:-1]), words[-1]]


def _lines(before: Scenes, after: Scenes | None, row: int) -> tuple[Line, ...]:
    """Each object in words, and after an arrow its words in the target."""
    lines = []
    for index in _object_indices(before, row):
        old = _object_words(before, row, index)
        words = [(word, False) for word in old]
        if after is not None:
            moved = bool((before.position[row, index, :2] != after.position[row, index, :2]).any())
            words += [("→", False)]
            words += [(new, new != was) for new, was in zip(_object_words(after, row, index), old, strict=True)]
            words += [("moved", True)] if moved else []
        lines.append(Line(tuple(words), index + 1))
    return tuple(lines)


# -------------------------------------------------------------------------------------------------------- analogies


def _analogy_sheet(n: int, size: int, seed: int) -> Sheet:
    Dataset("coat", size=size, seed=seed)  # checks both
    note = (
        "B - A + C = D: B is A plus some objects, and D is C plus the same objects. Below are the hard negatives: D "
        f"with one thing wrong. Seed {seed}, {size} x {size} pixels."
    )
    return Sheet("analogies", note, (SheetSection("", analogy_cards(worlds.analogies("clevr", n, seed), size)),))


def analogy_cards(cases: worlds.Analogies, size: int) -> tuple[Card, ...]:
    """A card for each analogy: A, B, C and D, and the hard negatives with their error."""
    render = worlds.get("coat").render
    scenes = {name.upper(): getattr(cases, name) for name in "abcd"} | dict(cases.negatives)
    images = {name: render(part, size=size).images for name, part in scenes.items()}
    images["pixel"] = cases.pixel_negative(images["A"], images["B"], images["C"])
    return tuple(_analogy_card(cases, images, row) for row in range(len(cases)))


def _analogy_card(cases: worlds.Analogies, images: dict[str, Tensor], row: int) -> Card:
    notes = {name: _error_in_words(cases.d, wrong, row) for name, wrong in cases.negatives.items()}
    notes["pixel"] = "B - A + C, pixel by pixel"
    four = tuple(Picture(name, picture_of(images[name][row]), f"scene {name}") for name in "ABCD")
    wrong = tuple(
        Picture(name, picture_of(images[name][row]), f"hard negative {name}: {note}", note)
        for name, note in notes.items()
    )
    added = _only_in(cases.d, cases.c, row)
    words = (Line((("added:", False), ("; ".join(added), True))),)
    return Card(f"case {row}", (four, wrong), words)


def _only_in(scenes: Scenes, others: Scenes, row: int) -> list[str]:
    """The objects of a scene that are not in another, in words."""
    remaining = _objects_in_words(scenes, row)
    for words in _objects_in_words(others, row):
        if words in remaining:
            remaining.remove(words)
    return remaining


def _error_in_words(right: Scenes, wrong: Scenes, row: int) -> str:
    gone, new = _only_in(right, wrong, row), _only_in(wrong, right, row)
    return f"{', '.join(gone)} → {', '.join(new) or 'gone'}"
