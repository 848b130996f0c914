"""The kernels of the ray tracer draw what the torch path draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from alebrije import worlds
from alebrije.render import solid
from alebrije.render.fields import load_field
from alebrije.render.frames import Frames
from alebrije.render.gpu_tracer import KINDS, packed_field, shape_table
from alebrije.render.library import shape_named
from alebrije.render.solid import render_solid
from alebrije.scenes import Factor, Scenes, Vocabulary
from alebrije.scenes.furniture import BOXES
from alebrije.worlds.vocabularies import CLEVR, CLEVRTEX

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SHAPES = (*CLEVR["shape"].codes, *CLEVRTEX["shape"].codes, *BOXES)


def both(monkeypatch: pytest.MonkeyPatch, scenes: Scenes, size: int) -> tuple[Frames, Frames]:
    """The frames of the kernels and of the torch path, both computed on the GPU."""
    traced = render_solid(scenes, size, "cuda").to("cpu")
    monkeypatch.setattr(solid, "can_trace", lambda device: False)
    return traced, render_solid(scenes, size, "cuda").to("cpu")


def assert_same(here: Frames, there: Frames, share: float = 0.999) -> None:
    """Images are within a level and masks equal, as on a CPU and a GPU, and so are depths and counts."""
    apart = (here.images.int() - there.images.int()).abs().amax(1)
    same = here.masks == there.masks
    assert float((apart <= 1).float().mean()) >= share
    assert float(same.float().mean()) >= 0.9999
    assert here.depth is not None
    assert there.depth is not None
    assert float((here.depth - there.depth).abs()[same].quantile(0.999)) < 1e-3
    for ours, theirs in ((here.visible, there.visible), (here.total, there.total)):
        assert int((ours - theirs).abs().max()) <= 2
    assert torch.equal(here.visible.sum(1), (here.masks > 0).sum((1, 2)))


@on_cuda
@pytest.mark.parametrize("name", ["clevr", "clevr10", "coat", "clevrtex", "furniture"])
@pytest.mark.parametrize("size", [37, 128])
def test_worlds(monkeypatch: pytest.MonkeyPatch, name: str, size: int) -> None:
    assert_same(*both(monkeypatch, worlds.get(name).sample(24, seed=8), size))


def crowd(textured: bool, objects: int, scenes: int, seed: int) -> Scenes:
    """Scenes of every shape and of random poses, absent objects among them; some objects overlap or float."""
    generator = torch.Generator().manual_seed(seed)
    shape = Factor("shape", tuple(f"{index}" for index in range(len(SHAPES))), SHAPES)
    size = Factor("size", ("tiny", "odd", "large"), (0.3, 0.77, 1.9))
    color = Factor("color", ("black", "orange", "mint"), ((0.0, 0.0, 0.0), (1.0, 0.4, 0.0), (0.3, 0.9, 0.7)))
    surface = Factor("material", ("shiny", "matt"), ("MyMetal", "Rubber"))
    factors = (CLEVRTEX["material"], size, shape) if textured else (surface, color, shape, size)
    mine = Vocabulary("mine", factors, background=CLEVRTEX.background if textured else CLEVR.background)
    indices = [torch.randint(len(factor.values), (scenes, objects), generator=generator) for factor in factors]
    position = torch.rand(scenes, objects, 3, generator=generator, dtype=torch.float64) * 7 - 3.5
    position[..., 2] = position[..., 2].abs() * 0.7
    like = worlds.get("clevr").sample(scenes, seed=seed)
    drawn = Scenes.of(
        mine,
        torch.stack(indices, -1),
        position,
        rotation=torch.rand(scenes, objects, generator=generator, dtype=torch.float64) * 7,
        camera=like.camera,
        lamps=like.lamps,
        background=torch.randint(len(mine.background), (scenes,), generator=generator),
    )
    return replace(drawn, present=torch.rand(scenes, objects, generator=generator) < 0.8)


@on_cuda
@pytest.mark.parametrize("textured", [False, True])
@pytest.mark.parametrize(("objects", "scenes"), [(1, 12), (6, 12), (70, 1)])
def test_users_vocabularies(monkeypatch: pytest.MonkeyPatch, textured: bool, objects: int, scenes: int) -> None:
    assert_same(*both(monkeypatch, crowd(textured, objects, scenes, seed=objects), 64), share=0.998)


@on_cuda
@pytest.mark.parametrize("textured", [False, True])
@pytest.mark.parametrize(
    "camera",
    [(0.0, 0.0, 9.0), (0.4, 0.3, 0.7), (6.0, 1.0, 0.05)],
    ids=["straight down", "among the objects", "near the ground"],
)
def test_odd_cameras(monkeypatch: pytest.MonkeyPatch, textured: bool, camera: tuple[float, ...]) -> None:
    """Objects behind the camera, around it and cut by it."""
    scenes = crowd(textured, 8, 12, seed=3)
    place = torch.tensor(camera, dtype=torch.float64).expand(12, 3)
    assert_same(*both(monkeypatch, replace(scenes, camera=place), 64), share=0.99)


@on_cuda
def test_runs_are_equal_and_do_not_depend_on_the_batch() -> None:
    scenes = worlds.get("clevrtex").sample(9, seed=4)
    first, again = render_solid(scenes, 64, "cuda"), render_solid(scenes, 64, "cuda")
    alone = render_solid(scenes[5:6], 64, "cuda")
    for name, tensor in vars(first).items():
        if name in ("boxes", "flow"):  # of videos
            assert tensor is None
            continue
        assert torch.equal(tensor, vars(again)[name])
        assert torch.equal(tensor[5:6], vars(alone)[name])


@pytest.mark.parametrize("name", ["monkey", "teapot"])
def test_packed_fields_hold_four_neighbours(name: str) -> None:
    field = load_field(name)
    packed = packed_field(field).reshape(field.grid.shape)
    for shift, (y, z) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        steps = packed << (48 - 16 * shift) >> 48
        theirs = field.grid[:, y:, z:]
        ours = steps[:, : theirs.shape[1], : theirs.shape[2]].float() * field.quantum
        assert torch.equal(ours, theirs)


def test_every_shape_has_a_row_of_numbers() -> None:
    assets, rows = shape_table(torch.device("cpu"), SHAPES)
    assert rows.shape == (len(SHAPES), 13)
    for code, row in zip(SHAPES, rows.tolist(), strict=True):
        kind: Any = KINDS[int(row[0])]
        shape = shape_named(code)
        assert kind == ("mesh" if shape.name in ("monkey", "teapot") else shape.name)
        assert row[2] == pytest.approx(shape.normal_step)
        if kind == "mesh":
            start, cells = int(row[3]), load_field(shape.name)
            assert torch.equal(assets[start : start + cells.grid.numel()], packed_field(cells))
