from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alebrije.errors import InputError
from alebrije.scenes import Episodes, Factor, Scenes, Vocabulary

TOY = Vocabulary(
    "toy",
    (
        Factor("color", ("red", "blue"), ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))),
        Factor("size", ("small", "large"), (0.1, 0.3)),
    ),
    background=Factor("background", ("black", "white")),
)


def toy(count: int = 5, objects: int = 2, seed: int = 0, **others: Any) -> Scenes:
    generator = torch.Generator().manual_seed(seed)
    return Scenes.of(
        TOY,
        torch.randint(2, (count, objects, 2), generator=generator),
        torch.rand(count, objects, 2, generator=generator, dtype=torch.float64),
        background=torch.arange(count) % 2,
        names=[f"{seed}-{row}" for row in range(count)],
        **others,
    )


def full(count: int = 5) -> Scenes:
    return toy(
        count,
        camera=torch.rand(count, 3),
        lamps=torch.rand(count, 3, 3),
        pixels=torch.rand(count, 2, 3),
        rotation=torch.rand(count, 2),
    )


def test_factors_and_vocabularies_say_what_they_hold() -> None:
    assert TOY.counts == (2, 2)
    assert TOY.size == 4
    assert TOY.combinations() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert TOY["size"].index("large") == 1
    assert TOY["color"].index_of_code([0, 0, 1]) == 1
    assert "shape" not in TOY
    assert TOY.describe((1, 0)) == "blue small"


def test_bad_vocabularies_are_refused_in_a_sentence() -> None:
    with pytest.raises(InputError, match="the factor 'empty' has no values"):
        Factor("empty", ())
    with pytest.raises(InputError, match="has 2 values but 1 codes"):
        Factor("color", ("red", "blue"), (1,))
    with pytest.raises(InputError, match="color has no value 'green'; it has red, blue"):
        TOY["color"].index("green")
    with pytest.raises(InputError, match="is outside the vocabulary"):
        TOY["size"].index_of_code(0.2)
    with pytest.raises(InputError, match="toy has no factor 'shape'; it has color, size"):
        TOY.axis("shape")
    with pytest.raises(InputError, match="with distinct names, not color, color"):
        Vocabulary("twice", (TOY["color"], TOY["color"]))
    with pytest.raises(InputError, match="nothing needs factors"):
        Vocabulary("nothing", ())


def test_lists_keep_double_precision() -> None:
    scenes = Scenes.of(TOY, [[[0, 1]]], [[[1 / 3, 0.1]]], camera=[[0.1, 0.2, 0.3]])
    assert scenes.position.tolist() == [[[1 / 3, 0.1]]]
    assert scenes.camera is not None
    assert scenes.camera.tolist() == [[0.1, 0.2, 0.3]]


def test_codes_are_looked_up_for_every_object() -> None:
    scenes = Scenes.of(TOY, [[[0, 1], [1, 0]]], [[[0, 0], [1, 1]]])
    assert scenes.codes("size").tolist() == [[0.3, 0.1]]
    assert scenes.codes("color").tolist() == [[[1, 0, 0], [0, 0, 1]]]
    assert scenes.factor("color").tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (0, [0]),
        (-1, [4]),
        (np.int64(3), [3]),
        (torch.tensor(2), [2]),
        (slice(1, 3), [1, 2]),
        (slice(None, None, -2), [4, 2, 0]),
        (slice(9, 12), []),
        ([3, 0, 3], [3, 0, 3]),
        ((1, 0), [1, 0]),
        ([-1, -5], [4, 0]),
        ([], []),
        (range(0), []),
        (range(1, 3), [1, 2]),
        (np.zeros(0, dtype=np.int64), []),
        (np.array([3, 0], dtype=np.uint64), [3, 0]),
        (torch.tensor([3, 0], dtype=torch.uint8), [3, 0]),
        (np.array([4, 1]), [4, 1]),
        (torch.tensor([True, False, False, True, False]), [0, 3]),
        ([False] * 4 + [True], [4]),
    ],
)
def test_every_kind_of_index_keeps_the_batch_axis(index: Any, rows: list[int]) -> None:
    scenes = full()
    picked = scenes[index]
    assert len(picked) == len(rows)
    assert picked.names == tuple(f"0-{row}" for row in rows)
    for name, tensor in scenes.tensors():
        assert torch.equal(getattr(picked, name), tensor[torch.tensor(rows, dtype=torch.int64)])
    images = torch.rand(5, 3, 4, 4)
    episodes = Episodes(scenes, scenes, source_images=images)[index]
    assert episodes.source.equals(picked)
    assert episodes.source_images is not None
    assert torch.equal(episodes.source_images, images[torch.tensor(rows, dtype=torch.int64)])
    assert episodes.target_masks is None


@pytest.mark.parametrize(
    "index",
    [
        5,
        -6,
        [0, 7],
        [0.5],
        [True, False],
        True,
        [[0, 1]],
        torch.tensor(9),
        torch.zeros(0),
        np.zeros(0),
        np.zeros((0, 2), dtype=int),
        [[]],
        np.array([2**64 - 1], dtype=np.uint64),
        torch.tensor([2**63 - 1]),
        [2**70],
        "0",
        "",
        [[0], [0, 1]],
        torch.zeros(2, dtype=torch.bfloat16),
    ],
)
def test_indices_outside_are_refused(index: Any) -> None:
    with pytest.raises(IndexError):
        toy()[index]
    with pytest.raises(IndexError):
        Episodes(toy(), toy())[index]


@pytest.mark.parametrize("index", [None, ..., 1.0, {}, "all"])
def test_an_invalid_index_is_refused(index: Any) -> None:
    with pytest.raises(IndexError, match="an index must be whole numbers, a slice or a mask, not"):
        toy()[index]


def test_iteration_ends_after_the_last() -> None:
    assert [scene.names for scene in toy(3)] == [("0-0",), ("0-1",), ("0-2",)]
    assert len(list(Episodes(toy(3), toy(3)))) == 3  # type: ignore[call-overload]


@settings(max_examples=30, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=4),
    cut=st.integers(0, 16),
)
def test_what_is_concatenated_can_be_cut_apart_again(shapes: list[tuple[int, int]], cut: int) -> None:
    batches = [toy(count, objects, seed) for seed, (count, objects) in enumerate(shapes)]
    joined = Scenes.concatenate(batches)
    joined.check()
    assert len(joined) == sum(map(len, batches))
    assert joined.objects == max(batch.objects for batch in batches)
    assert Scenes.concatenate([joined[:cut], joined[cut:]]).equals(joined)
    first = 0
    for batch in batches:
        part = joined[first : first + len(batch)]
        assert part.equals(batch.padded(joined.objects))
        assert part.describe() == batch.describe()
        assert part.names == batch.names
        first += len(batch)


def test_concatenation_keeps_only_what_all_batches_have() -> None:
    joined = Scenes.concatenate([full(), replace(full(2), pixels=None)])
    assert joined.camera is not None
    assert joined.pixels is None
    assert joined.names is not None
    assert Scenes.concatenate([toy(2), replace(toy(2), names=None)]).names is None


@pytest.mark.parametrize("item", ["camera", "lamps"])
def test_cameras_and_lamps_are_never_dropped(item: str) -> None:
    without = replace(full(2), **{item: None})  # type: ignore[arg-type]
    for batches in ([full(), without], [without, full()]):
        with pytest.raises(InputError, match=f"scenes with {item} and scenes without cannot be concatenated"):
            Scenes.concatenate(batches)
    assert getattr(Scenes.concatenate([without, without]), item) is None


def test_whole_numbers_may_come_as_floats_or_backwards() -> None:
    scenes = Scenes.of(TOY, np.array([[[0.0, 1.0]], [[1.0, 0.0]]])[::-1], [[[0.5, 0.5]]] * 2)
    assert scenes.factors.tolist() == [[[1, 0]], [[0, 1]]]


def test_padding_adds_absent_objects_and_nothing_else() -> None:
    scenes = full()
    wide = scenes.padded(4)
    wide.check()
    assert wide.present.tolist() == [[True, True, False, False]] * 5
    assert not wide.factors[:, 2:].any()
    assert not wide.position[:, 2:].any()
    assert wide.describe() == scenes.describe()
    assert scenes.padded(2) is scenes
    assert wide.camera is scenes.camera


def test_equal_scenes_are_equal_names_and_recorded_pixels_aside() -> None:
    scenes = full()
    assert scenes.equals(replace(scenes, names=None, pixels=None))
    assert not scenes.equals(replace(scenes, camera=None))
    assert not scenes.equals(replace(scenes, position=scenes.position + 1e-12))
    assert not scenes.equals(scenes[:4])
    assert scenes.to("cpu").equals(scenes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"factors": [[0, 1]]}, r"factors must have the shape \[scenes, objects, 2\] in toy, not \[1, 2\]"),
        ({"factors": [[[0, 2]]]}, r"size must lie in 0..1 in toy"),
        ({"factors": [[[-1, 0]]]}, r"color must lie in 0..1 in toy"),
        ({"position": [[[0.0, 0.0], [1.0, 1.0]]]}, r"position must begin with the shape \[1, 1\], not \[1, 2, 2\]"),
        ({"position": [[[0.0]]]}, r"position must have 2 or 3 columns, not the shape \[1, 1, 1\]"),
        ({"position": [[0.0]]}, r"position must have 2 or 3 columns, not the shape \[1, 1\]"),
        ({"position": [[[0.0, float("nan")]]]}, r"position must be finite"),
        ({"camera": [[0.0, 1.0]]}, r"camera must have the shape \[1, 3\], not \[1, 2\]"),
        ({"camera": [[[0.0, 1.0, 2.0]]]}, r"camera must have the shape \[1, 3\], not \[1, 1, 3\]"),
        ({"lamps": [[[0.0, 1.0, 2.0]]]}, r"lamps must have the shape \[1, 3, 3\], not \[1, 1, 3\]"),
        ({"lamps": [[0.0, 1.0, 2.0]]}, r"lamps must have the shape \[1, 3, 3\], not \[1, 3\]"),
        ({"factors": [[[0.9, 1.0]]]}, r"factors must be whole numbers"),
        ({"factors": np.array([[[0.0, np.nan]]])}, r"factors must be whole numbers"),
        ({"background": [0.5]}, r"background must be whole numbers"),
        ({"factors": "red"}, r"factors must be an array or nested lists of numbers"),
        ({"factors": [[["red", "small"]]]}, r"factors must be an array or nested lists of numbers"),
        ({"factors": [[[0, 1], [0]]]}, r"factors must be an array or nested lists of numbers"),
        ({"position": [[[0.5], [0.5, 0.5]]]}, r"position must be an array or nested lists of numbers"),
        ({"position": None}, r"position must be an array or nested lists of numbers"),
        ({"present": "yes"}, r"present must be an array or nested lists of numbers"),
        ({"background": "black"}, r"background must be an array or nested lists of numbers"),
        ({"lamps": [[[0.0, 1.0, float("inf")]] * 3]}, r"lamps must be finite"),
        ({"rotation": [0.0]}, r"rotation must begin with the shape \[1, 1\]"),
        ({"present": [[True, True]]}, r"present must begin with the shape \[1, 1\]"),
        ({"background": [2]}, r"background must lie in 0..1 in toy"),
        ({"background": [0, 0]}, r"background must have the shape \[1\]"),
        ({"names": ["a", "b"]}, r"1 scenes cannot have 2 names"),
    ],
)
def test_bad_scenes_are_refused_in_a_sentence(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"factors": [[[0, 1]]], "position": [[[0.5, 0.5]]]}
    Scenes.of(TOY, **good)
    with pytest.raises(InputError, match=message):
        Scenes.of(TOY, **(good | change))


def test_absent_objects_are_cleared() -> None:
    scenes = Scenes.of(
        TOY, [[[0, 1], [9, 9]]], [[[0.5, 0.5], [3.0, 4.0]]], present=[[True, False]], pixels=[[[1, 2, 3], [4, 5, 6]]]
    )
    assert scenes.factors.tolist() == [[[0, 1], [0, 0]]]
    assert scenes.position.tolist() == [[[0.5, 0.5], [0, 0]]]
    assert scenes.pixels is not None
    assert scenes.pixels.tolist() == [[[1, 2, 3], [0, 0, 0]]]
    assert scenes.equals(Scenes.of(TOY, [[[0, 1]]], [[[0.5, 0.5]]]).padded(2))


def test_what_does_not_join_is_refused() -> None:
    with pytest.raises(InputError, match="there are no scenes to concatenate"):
        Scenes.concatenate([])
    other = Vocabulary("other", TOY.factors)
    with pytest.raises(InputError, match="different vocabularies"):
        Scenes.concatenate([toy(1), Scenes.of(other, [[[0, 0]]], [[[0, 0]]])])
    with pytest.raises(InputError, match="two and with three coordinates"):
        Scenes.concatenate([toy(1), Scenes.of(TOY, [[[0, 0]]], [[[0, 0, 0]]])])
    with pytest.raises(InputError, match="scenes of 2 objects cannot be padded to 1"):
        toy().padded(1)
