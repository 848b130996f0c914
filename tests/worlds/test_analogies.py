from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from alebrije import metrics, worlds
from alebrije.errors import InputError
from alebrije.metrics.coat import HARD_NEGATIVES
from alebrije.render.silhouettes import silhouettes, visible_masks, visible_pixels
from alebrije.scenes import Scenes
from alebrije.worlds import Analogies
from alebrije.worlds.partitions import partitions

COUNT = 8
Objects = set[tuple[float, ...]]


@cache
def cases(occluded: bool) -> Analogies:
    return worlds.analogies("clevr", COUNT, occluded=occluded)


def objects(scenes: Scenes) -> list[Objects]:
    """Each scene's objects as a set: factors, position, rotation. No two objects of a scene stand in one place."""
    rows = torch.cat([scenes.factors.double(), scenes.position, scenes.rotation[..., None]], -1)
    return [{tuple(row) for row in scene[here].tolist()} for scene, here in zip(rows, scenes.present, strict=True)]


def foreground(scenes: Scenes) -> Tensor:
    return (visible_masks(silhouettes(scenes, 240)) > 0).int()


def crowd(found: Analogies) -> Scenes:
    """All objects of each case in one scene."""
    parts = {
        name: torch.cat([getattr(found.b, name), getattr(found.c, name)], 1)
        for name in ("factors", "position", "present", "rotation")
    }
    return Scenes.of(found.b.vocabulary, camera=found.b.camera, lamps=found.b.lamps, **parts)


def both(test: object) -> object:
    return pytest.mark.parametrize("occluded", [True, False], ids=["occluded", "clear"])(test)  # type: ignore[arg-type]


@both
def test_the_objects_add_up(occluded: bool) -> None:
    found = cases(occluded)
    for a, b, c, d in zip(*map(objects, (found.a, found.b, found.c, found.d)), strict=True):
        added = b - a
        assert a < b
        assert c < d
        assert d - c == added
        assert not a & c
        assert len(a) >= 3
        assert len(c) >= 3
        assert len(b) <= 6
        assert len(d) <= 6
        assert len(b | d) in (7, 8)


@both
def test_the_scenes_of_a_case_share_all_but_the_ground(occluded: bool) -> None:
    found = cases(occluded)
    white = found.a.vocabulary.background.index("white")
    for scenes in (found.a, found.b, found.c, found.d, *found.negatives.values()):
        scenes.check()
        assert scenes.objects == 6
        assert torch.equal(scenes.camera, found.a.camera)  # type: ignore[arg-type]
        assert torch.equal(scenes.lamps, found.a.lamps)  # type: ignore[arg-type]
    assert torch.equal(found.a.background, found.b.background)
    assert not (found.a.background == white).any()
    for scenes in (found.c, found.d, *found.negatives.values()):
        assert (scenes.background == white).all()


@both
def test_on_white_only_the_ground_of_a_and_b_changes(occluded: bool) -> None:
    found, white = cases(occluded), worlds.analogies("clevr", COUNT, occluded=occluded, white=True)
    for name in "ab":
        assert not getattr(white, name).background.any()
        before = getattr(found, name)
        assert replace(getattr(white, name), background=before.background).equals(before)
    for name in "cd":
        assert getattr(white, name).equals(getattr(found, name))
    assert all(scenes.equals(found.negatives[name]) for name, scenes in white.negatives.items())


@both
def test_objects_keep_one_order(occluded: bool) -> None:
    found = cases(occluded)
    whole = [[tuple(row) for row in scene.tolist()] for scene in found.d.position]
    for scenes in (found.c, found.negatives["drop"]):
        for row, here in enumerate(scenes.present):
            places = [whole[row].index(tuple(place)) for place in scenes.position[row][here].tolist()]
            assert places == sorted(places)


def test_pixels_do_not_add_up_where_objects_are_occluded() -> None:
    for occluded in (True, False):
        found = cases(occluded)
        a, b, c, d = map(foreground, (found.a, found.b, found.c, found.d))
        wrong = (b - a + c - d).abs().flatten(1).sum(1)
        assert bool((wrong > 1400).all() if occluded else (wrong < 400).all())


@both
def test_every_object_of_the_crowd_is_visible(occluded: bool) -> None:
    scenes = crowd(cases(occluded))
    depth = silhouettes(scenes, 240)
    assert bool(((visible_pixels(depth) >= 200) | ~scenes.present).all())
    if occluded:
        assert int((depth.isfinite().sum(1) > 1).flatten(1).sum(1).min()) > 800


def test_the_negatives_are_those_that_coat_names() -> None:
    assert (*cases(True).negatives, "pixel") == HARD_NEGATIVES


@both
def test_drop_lacks_one_object(occluded: bool) -> None:
    for d, wrong in zip(objects(cases(occluded).d), objects(cases(occluded).negatives["drop"]), strict=True):
        assert wrong < d
        assert len(wrong) == len(d) - 1


@both
def test_object_has_one_of_a_for_one_of_its_own(occluded: bool) -> None:
    found = cases(occluded)
    for a, d, wrong in zip(objects(found.a), objects(found.d), objects(found.negatives["object"]), strict=True):
        assert len(d - wrong) == len(wrong - d) == 1
        assert wrong - d <= a


@pytest.mark.parametrize("name", ["color", "material", "shape", "size"])
def test_attributes_differ_on_one_object(name: str) -> None:
    found = cases(True)
    wrong = found.negatives[name]
    changed = wrong.factors != found.d.factors
    axis = wrong.vocabulary.axis(name)
    assert changed.flatten(1).sum(1).tolist() == [1] * COUNT
    assert bool((changed[..., axis].sum(1) == 1).all())
    assert torch.equal(wrong.present, found.d.present)
    assert bool(wrong.present[changed[..., axis]].all())
    assert torch.equal(wrong.position[..., :2], found.d.position[..., :2])
    assert torch.equal(wrong.position[..., 2][wrong.present], wrong.codes("size")[wrong.present])
    assert len(changed[..., axis].int().argmax(1).unique()) > 1  # not always the same object


@pytest.mark.parametrize("name", ["drop", "object", "shape", "size"])
def test_negatives_have_another_outline(name: str) -> None:
    masks = [visible_masks(silhouettes(scenes, 240)) for scenes in (cases(True).d, cases(True).negatives[name])]
    assert bool((masks[0] != masks[1]).flatten(1).any(1).all())


@pytest.mark.parametrize("name", ["color", "material"])
def test_negatives_look_different(name: str) -> None:
    world = worlds.get("coat")
    images = [
        world.render(scenes[:3], size=96).images.short() for scenes in (cases(True).d, cases(True).negatives[name])
    ]
    assert bool(((images[0] - images[1]).abs().amax((1, 2, 3)) > 20).all())


def test_coat_takes_them_in_this_order() -> None:
    def code(scenes: Scenes) -> Tensor:
        """Everything there is to say about a scene, summed over its objects; the ground apart."""
        parts = [torch.nn.functional.one_hot(scenes.factor(factor.name), len(factor)) for factor in scenes.vocabulary]
        each = torch.cat([torch.cat(parts, -1).double(), scenes.position], -1) * scenes.present[..., None]
        ground = torch.nn.functional.one_hot(scenes.background, len(scenes.vocabulary.background))
        return torch.cat([each.sum(1), ground.double()], -1)

    found = cases(True)
    negatives = {name: code(scenes) for name, scenes in found.negatives.items()}
    score = metrics.coat(code(found.a), code(found.b), code(found.c), code(found.d), negatives)
    assert score.score == pytest.approx(1.0)
    assert score.passed


@both
def test_a_case_depends_on_the_seed_and_its_number_alone(occluded: bool) -> None:
    found = cases(occluded)
    again = worlds.analogies("clevr", 3, occluded=occluded)
    rest = worlds.analogies("clevr", 2, occluded=occluded, start=2)
    for name in "abcd":
        assert getattr(again, name).equals(getattr(found[:3], name))
        assert getattr(rest, name).equals(getattr(found[2:4], name))
    for name, scenes in again.negatives.items():
        assert scenes.equals(found.negatives[name][:3])
    assert not worlds.analogies("clevr", 1, seed=1, occluded=occluded).d.equals(again.d[:1])


def test_blocks_join(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["alebrije.worlds.analogies"]  # the room's name for it is the function
    monkeypatch.setattr(module, "_BLOCK", 4)
    told: list[tuple[int, int]] = []
    found = worlds.analogies("clevr", 5, occluded=False, start=2, progress=lambda *news: told.append(news))
    assert told == [(2, 5), (5, 5)]
    assert len(found) == 5
    assert found[1].a.equals(worlds.analogies("clevr", 1, occluded=False, start=3).a)
    assert found[4].a.equals(worlds.analogies("clevr", 1, occluded=False, start=6).a)
    assert len(worlds.analogies("clevr", 0, occluded=False)) == 0


def test_the_pixel_negative_is_arithmetic_on_pictures() -> None:
    a, b, c = (torch.tensor(values, dtype=torch.uint8) for values in ([0, 200, 10], [255, 100, 20], [255, 50, 30]))
    assert Analogies.pixel_negative(a, b, c).tolist() == [255, 0, 40]
    with pytest.raises(InputError, match="b_images must be uint8"):
        Analogies.pixel_negative(a, b.float(), c)
    with pytest.raises(InputError, match="c_images must be uint8 and of the same shape"):
        Analogies.pixel_negative(a, b, c[:2])


def test_partitions_are_those_of_the_release() -> None:
    sizes = {many: {tuple(int(part).bit_count() for part in row) for row in partitions(many)[0]} for many in (7, 8)}
    assert sizes == {7: {(3, 1, 3)}, 8: {(3, 1, 4), (3, 2, 3), (4, 1, 3)}}
    assert [len(partitions(many)[0]) for many in (7, 8)] == [140, 1120]
    parts, residue = partitions(8)
    assert not residue[:, [1 << item for item in range(8)]].any()  # what one object covers adds up
    own, added, last = parts[0].tolist()
    assert residue[0, own | added] == 1
    assert residue[0, added | last] == 1
    assert residue[0, own | last] == 0
    assert residue[0, own | added | last] == 0


@pytest.mark.parametrize("world", ["sprites", "coat", "kitchen"])
def test_other_worlds_have_no_analogies(world: str) -> None:
    with pytest.raises(InputError, match='the world "clevr"'):
        worlds.analogies(world, 1)


@pytest.mark.parametrize("wrong", [{"n": -1}, {"n": 1, "seed": 0.5}, {"n": 1, "start": -2}])
def test_counts_and_seeds_are_whole_numbers(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"must be a whole number|must be at least 0"):
        worlds.analogies("clevr", **wrong)  # type: ignore[arg-type]
