"""Analogies (COAT): four scenes with B - A = D - C, and hard negatives of D."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from alebrije.arrays import Flags, Floats, Integers
from alebrije.checks import whole_number
from alebrije.errors import InputError
from alebrije.scenes import Scenes
from alebrije.scenes.scenes import Index, normalise_index
from alebrije.worlds.coverage import coarse_coverage
from alebrije.worlds.partitions import SETS, covered_twice, partitions
from alebrije.worlds.samplers import Crowd, sample_surroundings
from alebrije.worlds.streams import CLEAR_ANALOGIES, OCCLUDED_ANALOGIES, block_generator
from alebrije.worlds.threads import in_threads, spare_threads
from alebrije.worlds.vocabularies import COAT
from alebrije.worlds.world import Progress

SIDE = 240  # pixels per side of the images in which COAT counts pixels
LEAST_VISIBLE = 200
LEAST_OVERLAP = 800
OCCLUDED_FROM = 1400  # pixels where the masks of A, B, C and D do not add up
# The released test_generation.py has the condition "< 400", and "> 1400" in a comment.
CLEAR_BELOW = 400
MAX_OBJECTS = 6
ATTRIBUTES = ("color", "material", "shape", "size")

_BLOCK = 32  # cases per random generator
_CANDIDATES = {True: 1024, False: 128}  # scenes per round if occluded or not: five to seven of them give a case
# (size, slack): small images with relaxed thresholds reject most scenes; the rest is counted at full size. No case was
# lost by this in twenty thousand scenes.
_COARSE_CHECKS = ((40, 0.7), (80, 0.85))
_SMALL = 40  # pixels per side up to which coverage is counted in a faster way
_RAYS_AT_ONCE = 2_000_000
_CROWD = Crowd(COAT, 7, 8, size=SIDE, least=LEAST_VISIBLE, corner=3.5)


@dataclass(frozen=True, eq=False)
class Analogies:
    """Cases of b - a + c = d with their hard negatives, named and ordered as `metrics.coat` expects.

    All scenes of a case share camera, lamps and object positions; A and B have a coloured ground, C and D a white one
    (with `on_white`, all have a white one).
    Every scene has six object slots, present objects first, always in the same order.

    `negatives` are D with one thing wrong: "drop" lacks an object, "object" has one of A's objects instead of one of
    its own, "color", "material", "shape" and "size" differ in that attribute of one object. The seventh, "pixel",
    exists only as images (`pixel_negative`).
    """

    a: Scenes
    b: Scenes
    c: Scenes
    d: Scenes
    negatives: Mapping[str, Scenes]

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, index: Index) -> Analogies:
        rows = normalise_index(index, len(self))
        negatives = {name: scenes[rows] for name, scenes in self.negatives.items()}
        return Analogies(self.a[rows], self.b[rows], self.c[rows], self.d[rows], negatives)

    def on_white(self) -> Analogies:
        """The same cases with a white ground in A and B as well."""
        return replace(self, a=_on_white(self.a), b=_on_white(self.b))

    @staticmethod
    def pixel_negative(a_images: Tensor, b_images: Tensor, c_images: Tensor) -> Tensor:
        """B - A + C pixel by pixel, clipped to 0..255: correct wherever nothing is hidden. uint8, on the same device.

        >>> a, b, c = (torch.tensor([value], dtype=torch.uint8) for value in (10, 250, 30))
        >>> Analogies.pixel_negative(a, b, c).tolist()
        [255]
        """
        for name, images in (("a", a_images), ("b", b_images), ("c", c_images)):
            if images.dtype != torch.uint8 or images.shape != a_images.shape:
                raise InputError(
                    f"{name}_images must be uint8 and of the same shape, not {images.dtype}, {list(images.shape)}"
                )
        return (b_images.short() - a_images.short() + c_images.short()).clamp_(0, 255).to(torch.uint8)


def analogies(
    world: str = "clevr",
    n: int = 1600,
    seed: int = 0,
    occluded: bool = True,
    start: int = 0,
    progress: Progress | None = None,
    white: bool = False,
) -> Analogies:
    """Cases `start` to `start + n` of COAT's analogies: B is A, and D is C, with the same objects added.

    As released, seven or eight objects of COAT's world are sampled, each visible in 200 of 240 x 240 pixels, with more
    than 800 pixels covered by two or more of them. They are partitioned into the objects of A (three or four), the
    added ones (one or two) and the objects of C (three or four). `occluded` requires more than 1400 pixels where the
    foreground masks violate B - A + C = D, so that pixels alone cannot solve the analogy; otherwise it is fewer than
    400. One of the valid partitions of a scene is chosen: a scene gives one case, so cases are independent, whereas the
    release kept all.

    With `white`, the ground of A and B is white too (Appendix C.3). Nothing else changes: case by case, the objects,
    the negatives, C and D are those of the corpus on coloured grounds.

    The labels are the paper's, b - a + c = d, as in `metrics.coat`; the released code calls B what is A here. A case
    depends only on the seed and its index, so `start` continues a corpus. Attributes may change on any object of D,
    whereas the release uses a fixed object for each; as there, an object that grows may touch another.

    Occluded cases are rare, about one in 180 sampled scenes, and clear ones one in 19: 1,600 take some minutes.
    `progress(done, n)` is called after each block.

    >>> from alebrije import worlds
    >>> cases = worlds.analogies("clevr", 2, occluded=False)
    >>> [int(scenes.present[0].sum()) for scenes in (cases.a, cases.b, cases.c, cases.d)]
    [3, 5, 3, 5]
    """
    if world != "clevr":
        raise InputError(f'analogies exist only in the world "clevr", with the objects of COAT, not in {world!r}')
    n, seed, start = whole_number("n", n), whole_number("seed", seed), whole_number("start", start)
    stream = OCCLUDED_ANALOGIES if occluded else CLEAR_ANALOGIES
    numbers = range(start // _BLOCK, max(start + n - 1, start) // _BLOCK + 1)

    def sample(block: int) -> Analogies:
        begin, end = max(start - block * _BLOCK, 0), min(start + n - block * _BLOCK, _BLOCK)
        cases = _cases(block_generator(seed, stream, block), max(end, 1), bool(occluded))[begin:end]
        return cases.on_white() if white else cases

    blocks, done = [], 0
    for cases in in_threads(sample, numbers, min(spare_threads(), len(numbers))):
        blocks.append(cases)
        done += len(cases)
        if progress is not None:
            progress(done, n)
    return _concatenate(blocks)


def _cases(generator: np.random.Generator, count: int, occluded: bool) -> Analogies:
    """The first `count` cases of a block: one for each valid scene, in sampling order."""
    cases, total = [], 0
    while total < count:
        scenes, uniform = _sample_candidates(generator, _CANDIDATES[occluded])
        rows = np.arange(len(scenes))
        for size, slack in _COARSE_CHECKS:
            rows = rows[_partition(scenes[torch.from_numpy(rows)], size, occluded, uniform[rows, 0], slack)[0]]
        valid, parts = _partition(scenes[torch.from_numpy(rows)], SIDE, occluded, uniform[rows, 0])
        kept = rows[valid]
        if kept.size:
            cases.append(_make_cases(scenes[torch.from_numpy(kept)], parts[valid], uniform[kept, 1:]))
            total += len(kept)
    return _concatenate(cases)[:count]


def _concatenate(parts: Sequence[Analogies]) -> Analogies:
    """Several batches of analogies one after another."""
    a, b, c, d = (Scenes.concatenate([getattr(part, name) for part in parts]) for name in "abcd")
    names = parts[0].negatives
    return Analogies(a, b, c, d, {name: Scenes.concatenate([part.negatives[name] for part in parts]) for name in names})


def _sample_candidates(generator: np.random.Generator, count: int) -> tuple[Scenes, Floats]:
    """Scenes of seven or eight objects on coloured grounds, and the random numbers that turn each into a case."""
    around = sample_surroundings(generator, COAT, count, first_background=1)  # 0 is white
    present = np.arange(_CROWD.most) < generator.integers(_CROWD.fewest, _CROWD.most + 1, size=(count, 1))
    scenes = _CROWD.candidates(generator, None, present, around)
    return scenes, generator.random((count, 4 + 2 * len(ATTRIBUTES)))


def _partition(scenes: Scenes, size: int, occluded: bool, uniform: Floats, slack: float = 1) -> tuple[Flags, Integers]:
    """Which scenes are valid, by pixel counts at `size`, and a partition [B, 3] of each, chosen by `uniform` [B].

    A `slack` below 1 lowers the minimum pixel counts by that factor and drops the maximum.
    """
    share = slack * (size / SIDE) ** 2
    clear = CLEAR_BELOW * share if slack == 1.0 else np.inf
    visible, covered = coarse_coverage(scenes, size) if size <= _SMALL else _pixels(scenes, size)
    present = scenes.present.numpy()
    valid = ((visible >= share * LEAST_VISIBLE) | ~present).all(1)
    valid &= covered @ covered_twice() > share * LEAST_OVERLAP
    counts, parts = present.sum(1), np.zeros((len(scenes), 3), dtype=np.int64)
    for objects in np.unique(counts[valid]).tolist():
        rows = np.flatnonzero(valid & (counts == objects))
        choices, residue = partitions(objects)
        pixels = covered[rows] @ residue.T  # [b, P]
        fitting = pixels > share * OCCLUDED_FROM if occluded else pixels < clear
        valid[rows] = fitting.any(1)
        parts[rows] = choices[_choose(fitting, uniform[rows])]
    return valid, parts


def _pixels(scenes: Scenes, size: int) -> tuple[Integers, Floats]:
    """The number of visible pixels of each object [B, N], and of pixels that each set of objects covers [B, 256]."""
    from alebrije.render.silhouettes import SilhouettePixels

    step = max(1, _RAYS_AT_ONCE // (scenes.objects * size * size))
    visible, covered = [np.zeros((0, scenes.objects), dtype=np.int64)], [np.zeros((0, SETS))]
    for begin in range(0, len(scenes), step):
        pixels = SilhouettePixels.of(scenes[begin : begin + step], size)
        visible.append(pixels.visible().numpy())
        covered.append(pixels.sets().double().numpy())  # floats for fast products, still exact
    return np.concatenate(visible), np.concatenate(covered)


def _choose(options: Flags, uniform: Floats) -> Integers:
    """The index [B] of one of the true options [B, K], all equally likely, from uniform random numbers [B]."""
    rank = (uniform * options.sum(1)).astype(np.int64)
    return np.asarray((options.cumsum(1) == rank[:, None] + 1).argmax(1))


def _make_cases(scenes: Scenes, parts: Integers, uniform: Floats) -> Analogies:
    """The cases of scenes and their partitions [B, 3]; `uniform` [B, 11] decides the errors of the negatives."""
    own, added, last = ((parts[:, [part]] >> np.arange(scenes.objects)) & 1 == 1 for part in range(3))
    white = _on_white(scenes)
    target = added | last
    rows = np.arange(len(scenes))
    dropped, replaced = target.copy(), target.copy()
    dropped[rows, _choose(target, uniform[:, 0])] = False
    replaced[rows, _choose(target, uniform[:, 1])] = False
    replaced[rows, _choose(own, uniform[:, 2])] = True
    d = _select(white, target)
    negatives = {"drop": _select(white, dropped), "object": _select(white, replaced)}
    for index, name in enumerate(ATTRIBUTES):
        negatives[name] = _change_attribute(d, name, uniform[:, 3 + 2 * index], uniform[:, 4 + 2 * index])
    return Analogies(_select(scenes, own), _select(scenes, own | added), _select(white, last), d, negatives)


def _on_white(scenes: Scenes) -> Scenes:
    return replace(scenes, background=torch.zeros_like(scenes.background))


def _select(scenes: Scenes, chosen: Flags) -> Scenes:
    """The same scenes with only the chosen objects [B, N], in `MAX_OBJECTS` slots, in the same order."""
    order = torch.from_numpy(np.argsort(~chosen, axis=1, kind="stable")[:, :MAX_OBJECTS])
    rows = torch.arange(len(scenes))[:, None]
    per_object = {name: getattr(scenes, name)[rows, order] for name in ("factors", "position", "rotation")}
    around = {name: getattr(scenes, name) for name in ("background", "camera", "lamps")}
    return Scenes.of(scenes.vocabulary, present=torch.from_numpy(chosen)[rows, order], **per_object, **around)


def _change_attribute(scenes: Scenes, name: str, which: Floats, value: Floats) -> Scenes:
    """The same scenes with another value of a factor on one object; both are chosen by random numbers [B]."""
    axis, values = scenes.vocabulary.axis(name), len(scenes.vocabulary[name])
    index = torch.from_numpy(_choose(scenes.present.numpy(), which))
    rows = torch.arange(len(scenes))
    factors, position = scenes.factors.clone(), scenes.position.clone()
    shift = 1 + torch.from_numpy((value * (values - 1)).astype(np.int64))
    factors[rows, index, axis] = (factors[rows, index, axis] + shift) % values
    changed = replace(scenes, factors=factors)
    position[rows, index, 2] = changed.codes("size")[rows, index]  # objects stand on the ground
    return replace(changed, position=position)
