from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.render.dsprites import dsprites_images
from alebrije.render.frames import Frames
from alebrije.render.silhouettes import silhouettes, visible_masks, visible_pixels
from alebrije.scenes import Scenes, scenes_from_json
from alebrije.worlds.samplers import CAMERA, LAMPS, well_visible
from alebrije.worlds.streams import BLOCK
from alebrije.worlds.vocabularies import CLEVR, SPRITES
from alebrije.worlds.world import _part_size

SOLID_PAIRS = ("clevr", "clevrtex")
CROWDS = {
    "clevr6": (3, 6, 128, 32),
    "clevr10": (3, 10, 128, 32),
    "coat": (3, 6, 240, 200),
    "coat-correlated": (3, 6, 240, 200),
}


@cache
def sampled(name: str) -> Scenes:
    """A block and a bit, so that every test sees scenes of two blocks."""
    return worlds.get(name).sample(BLOCK + 6)


def distances(scenes: Scenes) -> Tensor:
    """Between the centres of all objects, on the ground, [B, N, N]; infinite where one is absent or both are one."""
    flat = scenes.position[..., :2]
    apart = (flat[:, :, None] - flat[:, None]).norm(dim=-1)
    both = scenes.present[:, :, None] & scenes.present[:, None] & ~torch.eye(scenes.objects, dtype=torch.bool)
    return apart.masked_fill(~both, math.inf)


def radii(scenes: Scenes) -> Tensor:
    size = scenes.codes("size")
    return size[:, :, None] + size[:, None]


@pytest.mark.parametrize("name", worlds.names())
def test_a_scene_depends_on_the_seed_and_its_number_alone(name: str) -> None:
    world, scenes = worlds.get(name), sampled(name)
    assert len(scenes) == BLOCK + 6
    assert world.sample(3).equals(scenes[:3])
    assert world.sample(5, start=BLOCK + 1).equals(scenes[BLOCK + 1 :])
    assert not scenes[BLOCK:].equals(scenes[:6])
    scenes.check()


@pytest.mark.parametrize("name", ["sprites", "clevr", "clevr6", "dsprites"])
def test_parts_of_a_stream_may_begin_anywhere(name: str) -> None:
    world, scenes = worlds.get(name), sampled(name)
    assert world.sample(4, start=BLOCK - 2).equals(scenes[BLOCK - 2 : BLOCK + 2])
    assert not world.sample(3, seed=1).equals(scenes[:3])


def test_sampling_leaves_the_global_generators_alone() -> None:
    before = np.random.get_state()[1].copy(), torch.get_rng_state()  # type: ignore[union-attr]  # noqa: NPY002
    worlds.get("clevr").sample(1)
    after = np.random.get_state()[1], torch.get_rng_state()  # noqa: NPY002
    assert np.array_equal(before[0], after[0])
    assert torch.equal(before[1], after[1])


def test_no_scene_is_a_batch_too() -> None:
    scenes = worlds.get("sprites").sample(0)
    assert len(scenes) == 0
    assert worlds.get("sprites").render(scenes).images.shape == (0, 3, 128, 128)


def test_sprites_keep_their_distance_and_stay_inside() -> None:
    scenes = worlds.get("sprites").sample(2000)
    sizes = scenes.codes("size")
    assert bool((distances(scenes) >= 0.4 * radii(scenes)).all())
    assert bool((scenes.position >= 0.4 * sizes[..., None]).all())
    assert bool((scenes.position <= 1 - 0.4 * sizes[..., None]).all())
    counts = torch.bincount(
        torch.from_numpy(np.ravel_multi_index(scenes.factors.flatten(0, 1).numpy().T, SPRITES.counts))
    )
    assert len(counts) == 64
    assert 30 < int(counts.min()) <= int(counts.max()) < 100  # 62.5 are expected of each combination


@pytest.mark.parametrize("name", SOLID_PAIRS)
def test_solid_pairs_follow_svib(name: str) -> None:
    scenes = sampled(name)
    assert bool((distances(scenes) >= radii(scenes)).all())
    assert float(scenes.position[..., :2].abs().max()) <= 3
    assert torch.equal(scenes.position[..., 2], scenes.codes("size"))
    assert not scenes.rotation.any()
    assert scenes.camera is not None
    assert scenes.lamps is not None
    assert 0.4 < float((scenes.camera - torch.tensor(CAMERA).double()).abs().max()) <= 0.5
    assert 0.9 < float((scenes.lamps - torch.tensor(LAMPS).double()).abs().max()) <= 1.0
    assert len(scenes.background.unique()) == len(scenes.vocabulary.background)
    masks = visible_masks(silhouettes(scenes, 128)).flatten(1)
    assert all(int((masks == value).sum(1).min()) >= 100 for value in (0, 1, 2))


def test_genuine_scenes_pass_the_visibility_rule(svib_samples: Path) -> None:
    files = sorted((svib_samples / "CLEVR").rglob("source.json")) + sorted(
        (svib_samples / "CLEVR").rglob("target.json")
    )
    genuine = scenes_from_json(CLEVR, [json.loads(file.read_text()) for file in files])
    assert well_visible(genuine, 128, 100).mean() > 0.98  # single pixels of an outline may differ from Blender's


@pytest.mark.parametrize("name", CROWDS)
def test_crowds_follow_clevr(name: str) -> None:
    fewest, most, size, least = CROWDS[name]
    scenes = sampled(name)
    counts = scenes.present.sum(1)
    assert scenes.objects == most
    assert counts.unique().tolist() == list(range(fewest, most + 1))
    assert bool((distances(scenes) - radii(scenes) >= 0.25 - 1e-9).all())
    assert float(scenes.position[..., :2].abs().max()) <= 3
    assert torch.equal(scenes.position[..., 2][scenes.present], scenes.codes("size")[scenes.present])
    turns = scenes.rotation[scenes.present]
    assert 0 <= float(turns.min()) < 0.2
    assert 6 < float(turns.max()) < 2 * math.pi
    assert len(scenes.background.unique()) == len(scenes.vocabulary.background)
    depth = torch.cat([silhouettes(scenes[[row]], size) for row in range(len(scenes))])
    assert bool(((visible_pixels(depth) >= least) | ~scenes.present).all())


@pytest.mark.parametrize("name", CROWDS)
def test_crowds_keep_clevrs_margins(name: str) -> None:
    scenes = sampled(name)
    assert scenes.camera is not None
    away = -scenes.camera[:, None, None, :2] / scenes.camera[:, None, None, :2].norm(dim=-1, keepdim=True)
    right = torch.stack([away[..., 1], -away[..., 0]], -1)
    offset = scenes.position[:, :, None, :2] - scenes.position[:, None, :, :2]
    between = distances(scenes).isfinite()
    for axis in (away, right):
        assert float((offset * axis).sum(-1).abs()[between].min()) >= 0.4


@pytest.mark.parametrize("name", ["coat", "coat-correlated"])
def test_coat_keeps_off_the_corners(name: str) -> None:
    assert float(sampled(name).position[:, 1:, :2].sum(-1).abs().max()) <= 3.5


def test_correlated_objects_are_alike_and_close() -> None:
    scenes = sampled("coat-correlated")
    for name in ("color", "material"):
        values = scenes.factor(name)
        assert bool(((values == values[:, :1]) | ~scenes.present).all())
        assert len(values[:, 0].unique()) == len(scenes.vocabulary[name])
    for name in ("shape", "size"):
        assert bool(((scenes.factor(name) != scenes.factor(name)[:, :1]) & scenes.present).any(1).float().mean() > 0.5)
    spread = (scenes.position - scenes.position[:, :1])[..., :2].abs().amax(-1)
    assert float(spread[scenes.present].max()) <= 2


@pytest.mark.parametrize("name", ["sprites", "clevr", "rooms", "arm", "coat", "coat-correlated"])
def test_combinations_can_be_chosen(name: str) -> None:
    world = worlds.get(name)
    rng = np.random.default_rng(0)
    chosen = {tuple(rng.integers(world.vocabulary.counts).tolist()) for _ in range(5)}
    scenes = world.sample(40, combinations=sorted(chosen))
    assert set(map(tuple, scenes.factors[scenes.present].tolist())) == chosen


@pytest.mark.parametrize(
    "wrong", [[], [(0, 0)], [(0, 0, 9)], [(0, 0, -1)], [(0.5, 0, 0)], [(0, 0, 0), (0, 0)], 3, "abc"]
)
def test_combinations_of_another_kind_are_refused(wrong: object) -> None:
    with pytest.raises(InputError, match="combinations"):
        worlds.get("sprites").sample(1, combinations=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [{"n": -1}, {"n": 1.5}, {"n": 1, "seed": -1}, {"n": 1, "seed": None}, {"n": 1, "start": -1}]
)
def test_counts_and_seeds_are_whole_numbers(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"must be a whole number|must be at least 0"):
        worlds.get("sprites").sample(**wrong)  # type: ignore[arg-type]


def test_combinations_too_large_to_stand_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alebrije.worlds.clusters.SPREAD", 0.5)
    monkeypatch.setattr("alebrije.worlds.samplers._CLUSTER_ROUNDS", 3)
    with pytest.raises(InputError, match="too large"):
        worlds.get("coat-correlated").sample(1, combinations=[(0, 0, 1, 0)])


def test_unknown_worlds_are_named() -> None:
    with pytest.raises(InputError, match="no world 'kitchen'; choose from sprites, clevr"):
        worlds.get("kitchen")


def test_grids_follow_the_order_of_the_original() -> None:
    dsprites, rooms = worlds.get("dsprites"), worlds.get("rooms")
    assert dsprites.grid([0, 1, 32, 737_279]).factors[:, 0].tolist()[1:3] == [[0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 0]]
    assert rooms.grid(range(3)).factors[:, 0, -1].tolist() == [0, 1, 2]
    images = dsprites.render(dsprites.grid([5, 400_000])).images
    assert torch.equal(images[:, 0], 255 * dsprites_images([5, 400_000]))


@pytest.mark.parametrize("wrong", [[-1], [480_000], [0.5], 3, [[0]], ["a"]])
def test_grid_indices_must_exist(wrong: object) -> None:
    with pytest.raises(InputError, match="indices"):
        worlds.get("rooms").grid(wrong)


def test_only_grids_have_indices() -> None:
    with pytest.raises(InputError, match="not a grid"):
        worlds.get("clevr").grid([0])


def test_rendering_in_batches_reports_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alebrije.worlds.world._MAX_BATCH", 64)
    monkeypatch.setattr("alebrije.worlds.world._threads", lambda device, compile: 1)
    world = worlds.get("sprites")
    scenes = world.sample(70)
    reported: list[tuple[int, int]] = []
    frames = world.render(scenes, size=32, progress=lambda done, total: reported.append((done, total)))
    assert reported == [(35, 70), (70, 70)]  # two equal parts rather than 64 and 6
    assert torch.equal(frames.images[66:], world.render(scenes[66:], size=32).images)
    assert len(frames) == len(frames.masks) == len(frames.visible) == 70


@pytest.mark.parametrize(
    ("count", "most", "threads", "step"),
    [
        (64, 24, 1, 22),  # three parts
        (64, 24, 2, 16),  # four, lest one of two threads idle while the third part is drawn
        (64, 85, 2, 32),  # two, though one would hold them
        (10, 85, 16, 5),  # not sixteen for ten images
        (3, 85, 2, 3),
        (0, 85, 2, 1),
        (1000, 10, 3, 10),  # never more than fit
    ],
)
def test_parts_are_equal_and_as_many_in_every_lane(count: int, most: int, threads: int, step: int) -> None:
    assert _part_size(count, most, threads) == step


@pytest.mark.parametrize(("free", "reserved", "allocated"), [(160, 0, 0), (100, 80, 20), (160, 40, 40)])
def test_what_torch_keeps_of_earlier_batches_counts_as_free(
    monkeypatch: pytest.MonkeyPatch, free: int, reserved: int, allocated: int
) -> None:
    for name, answer in (("memory_reserved", reserved), ("memory_allocated", allocated)):
        monkeypatch.setattr(torch.cuda, name, lambda device, answer=answer: answer << 20)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free << 20, 200 << 20))
    world = worlds.get("clevr")
    assert world._batch_size(torch.device("cuda"), 128) == (120 << 20) // (world.memory * 128 * 128)


def test_lanes_draw_what_one_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    world = worlds.get("clevr")
    scenes = world.sample(12)
    drawn = []
    for threads in (1, 3):
        monkeypatch.setattr("alebrije.worlds.world._threads", lambda device, compile, threads=threads: threads)
        drawn.append(world.render(scenes, size=32))
    assert torch.equal(drawn[0].images, drawn[1].images)
    assert torch.equal(drawn[0].masks, drawn[1].masks)


@pytest.mark.parametrize("name", ["sprites", "clevr", "clevr6", "coat", "dsprites", "rooms", "arm"])
def test_every_look_gives_frames(name: str) -> None:
    world = worlds.get(name)
    scenes = sampled(name)[:2]
    frames = world.render(scenes, size=64)
    assert isinstance(frames, Frames)
    assert frames.images.shape == (2, 3, 64, 64)
    assert frames.images.dtype == frames.masks.dtype == torch.uint8
    assert frames.visible.shape == frames.total.shape == scenes.present.shape
    assert bool((frames.visible[scenes.present] > 0).all())


def test_what_cannot_be_rendered_is_refused() -> None:
    sprites = worlds.get("sprites")
    with pytest.raises(InputError, match="clevr renders scenes of the vocabulary clevr, not of sprites"):
        worlds.get("clevr").render(sprites.sample(1))
    for size in (0, -3, 12.5):
        with pytest.raises(InputError, match="size must be"):
            sprites.render(sprites.sample(1), size=size)  # type: ignore[arg-type]


# The first 64 scenes of seed 7, as first drawn. A machine that draws others breaks every comparison between machines.
FINGERPRINTS = {
    "sprites": "927d5bc2e962785a",
    "clevr": "749af5e84fdd7700",
    "clevrtex": "07e4ecc6f2af71c5",
    "clevr6": "1f80e52b43228afb",
    "coat": "263dc427cafb8fac",
    "rooms": "90c238f95a5be940",
}


@pytest.mark.parametrize("name", sorted(FINGERPRINTS))
def test_scenes_are_the_same_on_every_machine(name: str) -> None:
    digest = hashlib.sha256()
    for field, tensor in worlds.get(name).sample(64, seed=7).tensors():
        digest.update(field.encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    assert digest.hexdigest()[:16] == FINGERPRINTS[name]


@pytest.mark.parametrize("name", ["sprites", "dsprites", "rooms", "arm", "clevr"])
def test_images_alone_are_those_of_render(name: str) -> None:
    world = worlds.get(name)
    scenes = world.sample(5, seed=3)
    assert torch.equal(world.images(scenes, 32), world.render(scenes, 32).images)


def test_sprites_without_masks_have_none() -> None:
    world = worlds.get("sprites")
    frames = world.render(world.sample(300, seed=3), 16, masks=False)  # more than are drawn at a time
    assert frames.images.shape == (300, 3, 16, 16)
    assert frames.masks.shape == (300, 0, 0)
    assert frames.visible.numel() == frames.total.numel() == 0


def test_unknown_devices_and_options_are_refused() -> None:
    sprites, clevr = worlds.get("sprites"), worlds.get("clevr")
    scenes = sprites.sample(1)
    unusable = ["banana", "cuda:99", None, "" if torch.cuda.is_available() else "cuda"]
    for device in unusable:
        with pytest.raises(InputError, match="torch cannot use the device"):
            sprites.render(scenes, device=device)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the renderer of clevr has no option 'path'; it has no options"):
        clevr.render(clevr.sample(1), path="exact")
    with pytest.raises(InputError, match="the renderer of sprites has no option 'paht'; it has path, channels"):
        sprites.render(scenes, paht="exact")
    assert sprites.render(scenes, size=16, path="exact").images.shape == (1, 3, 16, 16)


def test_a_full_device_is_reported_as_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: out of memory")

    sprites = worlds.get("sprites")
    scenes = sprites.sample(1)
    monkeypatch.setattr(torch, "zeros", full)
    with pytest.raises(InputError, match="cpu is out of memory"):
        sprites.render(scenes)


@pytest.mark.parametrize("name", SOLID_PAIRS)
def test_solid_objects_have_heights(name: str) -> None:
    scenes = sampled(name)[:1]
    with pytest.raises(InputError, match=f"objects of {name} have 3 coordinates, not 2"):
        worlds.get(name).render(replace(scenes, position=scenes.position[..., :2]))


@pytest.mark.parametrize("name", [["clevr"], None, 3])
def test_names_of_worlds_are_words(name: object) -> None:
    with pytest.raises(InputError, match="there is no world"):
        worlds.get(name)  # type: ignore[arg-type]


def test_sampling_reports_progress() -> None:
    reported: list[tuple[int, int]] = []
    worlds.get("sprites").sample(BLOCK + 6, start=3, progress=lambda done, total: reported.append((done, total)))
    assert reported == [(BLOCK - 3, BLOCK + 6), (BLOCK + 6, BLOCK + 6)]
