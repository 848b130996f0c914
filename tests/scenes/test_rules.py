from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alebrije.errors import InputError
from alebrije.scenes import ANALYSIS_RULES, Rule, Scenes, Vocabulary, apply_rule, rule, scenes_from_json
from alebrije.scenes.rules import BENCHMARK_RULES, RULES, Move, Update, quadrants
from alebrije.worlds.vocabularies import CLEVR, CLEVRTEX, ROOMS, SPRITES

TASKS = {
    "S-A": "Single_Atomic",
    "S-NA": "Single_Non-Atomic",
    "M-A": "Multiple_Atomic",
    "M-NA": "Multiple_Non-Atomic",
}
RELEASED = {"dSprites": SPRITES, "CLEVR": CLEVR, "CLEVRTex": CLEVRTEX}


def read(vocabulary: Vocabulary, files: list[Path]) -> Scenes:
    return scenes_from_json(vocabulary, [json.loads(file.read_text()) for file in files])


def random_scenes(vocabulary: Vocabulary, count: int, seed: int = 0, objects: int = 2) -> Scenes:
    generator = torch.Generator().manual_seed(seed)
    columns = [torch.randint(size, (count, objects), generator=generator) for size in vocabulary.counts]
    factors = torch.stack(columns, -1)
    position = torch.rand(count, objects, 2, generator=generator, dtype=torch.float64)
    if "material" in vocabulary:
        sizes = torch.tensor(vocabulary["size"].codes, dtype=torch.float64)[factors[..., vocabulary.axis("size")]]
        position = torch.cat([6 * position - 3, sizes[..., None]], -1)
    return Scenes.of(vocabulary, factors, position)


@pytest.mark.parametrize("task", BENCHMARK_RULES)
@pytest.mark.parametrize("world", RELEASED)
def test_rules_turn_every_genuine_source_into_its_genuine_target(svib_samples: Path, world: str, task: str) -> None:
    sources = sorted((svib_samples / world / TASKS[task]).rglob("source.json"))
    assert len(sources) == 24
    source = read(RELEASED[world], sources)
    target = read(RELEASED[world], [file.with_name("target.json") for file in sources])
    made = apply_rule(rule(task), source)
    assert made.equals(target)
    assert made.names == target.names == source.names
    assert made.pixels is None


def test_the_papers_form_of_m_na_is_not_what_the_release_follows(svib_samples: Path) -> None:
    sources = sorted((svib_samples / "dSprites/Multiple_Non-Atomic").rglob("source.json"))
    source = read(SPRITES, sources)
    target = read(SPRITES, [file.with_name("target.json") for file in sources])
    agree = (apply_rule(rule("M-NA-paper"), source).factors == target.factors).all(-1)
    assert 0 < int(agree.sum()) < agree.numel() / 2


def by_hand(name: str, me: dict[str, float], you: dict[str, float], sizes: dict[str, int]) -> dict[str, float]:
    """The target of one sprite, one rule at a time, with plain arithmetic."""

    def quadrant(one: dict[str, float]) -> int:
        if one["x"] >= 0.5:
            return 1 if one["y"] >= 0.5 else 4
        return 2 if one["y"] >= 0.5 else 3

    out = dict(me)
    if name in ("CP", "MIntra", "MMix1"):
        out["x"] = me["x"] + 0.3
    if name in ("NCP", "MNIntra", "MNMix1"):
        axis, way = [("y", -0.3), ("y", 0.3), ("x", -0.3), ("x", 0.3)][int(you["size"])]
        out[axis] = me[axis] + way
    if name in ("ShAC", "MIntra", "MMix2"):
        out["color"] = me["shape"] % sizes["color"]
    if name in ("NShAC", "MNIntra", "MNMix2"):
        out["color"] = (me["shape"] + quadrant(me)) % sizes["color"]
    if name in ("ShAASh", "MMix1", "MInter"):
        out["shape"] = you["shape"]
    if name in ("NShAASh", "MNMix1", "MNInter"):
        out["shape"] = (me["shape"] + you["shape"]) % sizes["shape"]
    if name in ("CAASi", "MMix2", "MInter"):
        out["size"] = you["color"] % sizes["size"]
    if name in ("NCAASi", "MNMix2", "MNInter"):
        out["size"] = (you["color"] + quadrant(you)) % sizes["size"]
    return out


@pytest.mark.parametrize("name", list(chain(*ANALYSIS_RULES.values())))
def test_the_sixteen_rules_of_the_analysis_agree_with_plain_arithmetic(name: str) -> None:
    source = random_scenes(SPRITES, 60)
    target = apply_rule(rule(name), source)
    sizes = dict(zip(SPRITES.names, SPRITES.counts, strict=True))
    for row in range(len(source)):
        objects = [
            dict(zip((*SPRITES.names, "x", "y"), factors + position, strict=True))
            for factors, position in zip(source.factors[row].tolist(), source.position[row].tolist(), strict=True)
        ]
        for k in (0, 1):
            wanted = by_hand(name, objects[k], objects[1 - k], sizes)
            assert target.factors[row, k].tolist() == [wanted[factor] for factor in SPRITES.names]
            assert target.position[row, k].tolist() == [wanted["x"], wanted["y"]]


def test_the_analysis_has_four_rules_of_each_kind_and_names_the_tasks() -> None:
    assert [len(names) for names in ANALYSIS_RULES.values()] == [4, 4, 4, 4]
    assert len(RULES) == 4 + 1 + 16
    for task, name in {"S-A": "ShAASh", "S-NA": "NShAASh", "M-A": "MMix2", "M-NA": "MNMix2"}.items():
        assert rule(task).updates == rule(name).updates
    for kind, names in ANALYSIS_RULES.items():
        for name in names:
            assert len(rule(name).updates) == (1 if kind.startswith("single") else 2)
    assert rule("MNIntra").targets == ("position", "color")


def test_quadrants_belong_to_the_right_and_upper_side_of_the_middle() -> None:
    assert quadrants(torch.tensor([[0.5, 0.5], [0.49, 0.5], [0.49, 0.49], [0.5, 0.49]])).tolist() == [1, 2, 3, 4]
    solid = torch.tensor([[0.0, 0.0, 1.0], [-0.1, 0.0, 1.0], [-0.1, -0.1, 1.0], [0.3, -0.1, 1.0]])
    assert quadrants(solid).tolist() == [1, 2, 3, 4]


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(sorted(RULES)), world=st.sampled_from([SPRITES, CLEVR, CLEVRTEX]), seed=st.integers(0, 999))
def test_a_rule_stays_in_the_vocabulary_is_blind_to_order_and_leaves_its_source(
    name: str, world: Vocabulary, seed: int
) -> None:
    source = random_scenes(world, 5, seed)
    before = source.factors.clone(), source.position.clone()
    target = apply_rule(rule(name), source)
    target.check()
    assert torch.equal(source.factors, before[0])
    assert torch.equal(source.position, before[1])
    swapped = replace(source, factors=source.factors.flip(1), position=source.position.flip(1))
    after = apply_rule(rule(name), swapped)
    assert torch.equal(after.factors.flip(1), target.factors)
    assert torch.equal(after.position.flip(1), target.position)
    one_by_one = Scenes.concatenate([apply_rule(rule(name), scene) for scene in source])
    assert one_by_one.equals(target)
    if world is not SPRITES:
        assert torch.equal(target.position[..., 2], target.codes("size"))


def test_absent_places_stay_absent_wherever_they_are() -> None:
    source = random_scenes(CLEVR, 4)
    target = apply_rule(rule("M-NA"), source)
    assert apply_rule(rule("M-NA"), source.padded(5)).equals(target.padded(5))
    gap = torch.tensor([2, 0, 1])  # the absent third place first
    wide = source.padded(3)
    moved = replace(wide, **{f: getattr(wide, f)[:, gap] for f in ("factors", "present", "position", "rotation")})
    assert torch.equal(apply_rule(rule("M-NA"), moved).factors[:, 1:], target.factors)
    assert not apply_rule(rule("M-NA"), moved).factors[:, 0].any()


def test_everything_around_the_objects_stays() -> None:
    source = random_scenes(CLEVRTEX, 3)
    source = replace(
        source,
        background=torch.tensor([1, 5, 7]),
        camera=torch.rand(3, 3).double(),
        lamps=torch.rand(3, 3, 3).double(),
        names=("a", "b", "c"),
        pixels=torch.zeros(3, 2, 3).double(),
    )
    target = apply_rule(rule("M-A"), source)
    assert target.names == source.names
    assert target.pixels is None
    for name in ("background", "camera", "lamps", "rotation", "present"):
        assert torch.equal(getattr(target, name), getattr(source, name))
    assert torch.equal(target.factor("material"), source.factor("shape"))


def test_a_move_shifts_by_a_fraction_of_the_field_and_may_leave_the_frame() -> None:
    flat = Scenes.of(SPRITES, [[[0, 0, 0], [1, 1, 1]]], [[[0.9, 0.5], [0.1, 0.5]]])
    assert apply_rule(rule("CP"), flat).position[0, 0].tolist() == [pytest.approx(1.2), 0.5]
    solid = random_scenes(CLEVR, 8)
    shift = apply_rule(rule("CP"), solid).position - solid.position
    assert torch.allclose(shift, torch.tensor([1.8, 0.0, 0.0], dtype=torch.float64))


def test_no_scenes_give_no_scenes() -> None:
    assert len(apply_rule(rule("MNIntra"), random_scenes(CLEVR, 0))) == 0


def test_what_cannot_be_done_is_said_in_a_sentence() -> None:
    with pytest.raises(InputError, match=r"there is no rule 'M-B'; did you mean 'M-A'"):
        rule("M-B")
    with pytest.raises(InputError, match=r"needs two objects in every scene, but scene 0 has 3"):
        apply_rule(rule("S-A"), random_scenes(SPRITES, 2, objects=3))
    with pytest.raises(InputError, match=r"rooms has no factor 'size'"):
        apply_rule(rule("CAASi"), random_scenes(ROOMS, 2))
    with pytest.raises(InputError, match="sets a target twice"):
        Rule("twice", (Move(((0.1, 0.0),)), Move(((0.0, 0.1),))))
    with pytest.raises(InputError, match="not to 'mine'"):
        Rule("whose", (Update("color", (("mine", "shape"),)),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (Update("color", ()), "sets color without a parent"),
        (Update("color", ("self", "shape")), "is a pair like"),  # type: ignore[arg-type]
        (Move(()), "needs steps of two finite numbers each, at least one step"),
        (Move(((0.1, 0.2, 0.3),)), "needs steps of two finite numbers each"),  # type: ignore[arg-type]
        (Move(((0.1, 0.2), (0.1,))), "needs steps of two finite numbers each"),  # type: ignore[arg-type]
        (Move((0.1, 0.2)), "needs steps of two finite numbers each"),  # type: ignore[arg-type]
        (Move(((0.1, float("nan")),)), "needs steps of two finite numbers each"),
        (Move(((0.1, 0.2), (0.2, 0.1))), "has 2 steps but no chooser"),
        ("ShAC", "consists of updates and moves, not of 'ShAC'"),
    ],
)
def test_rules_that_say_nothing_are_refused(update: Update | Move, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Rule("odd", (update,))


def test_colour_and_material_are_one_where_there_are_no_colours() -> None:
    both = Rule("both", (Update("color", (("other", "shape"),)), Update("material", (("self", "shape"),))))
    apply_rule(both, random_scenes(CLEVR, 2))
    with pytest.raises(InputError, match="sets colour and material, the same factor in clevrtex"):
        apply_rule(both, random_scenes(CLEVRTEX, 2))


@pytest.mark.parametrize("name", [None, ["S-A"], 3])
def test_names_of_rules_are_words(name: object) -> None:
    with pytest.raises(InputError, match="there is no rule"):
        rule(name)  # type: ignore[arg-type]
