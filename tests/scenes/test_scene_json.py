from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from alebrije import worlds
from alebrije.errors import InputError
from alebrije.scenes import Scenes, Vocabulary, scenes_from_json, scenes_to_json
from alebrije.scenes.scene_json import pixel_coords
from alebrije.worlds.vocabularies import CLEVR, CLEVR_MANY, CLEVRTEX, COAT, ROOMS, SPRITES

RELEASED = {"dSprites": SPRITES, "CLEVR": CLEVR, "CLEVRTex": CLEVRTEX}
CAMERA = (7.48113, -6.50764, 5.34367)
LAMPS = ((6.44671, -2.90517, 4.2584), (-1.1685, 2.64602, 5.81574), (-4.67112, -4.0136, 3.01122))

SPRITE_SCENE = {
    "image_filename": "00000007",
    "objects": [
        {"shape": "circle", "size": 0.125, "rotation": 0.0, "2d_coords": [0.1, 0.7], "color": [255, 127, 0]},
        {"shape": "star_4", "size": 0.425, "rotation": 0.0, "2d_coords": [1 / 3, 0.3], "color": [0, 255, 0]},
    ],
}
SOLID_OBJECT = {
    "color": [0.0, 1.0, 1.0, 1.0],
    "material": "MyMetal",
    "3d_coords": [1.25, -0.5, 1.5],
    "pixel_coords": [60, 71, 9.5],
    "size": 1.5,
    "shape": "Suzanne",
    "rotation": 0.0,
}
SOLID_SCENE = {
    "image_filename": "000002407125036774",
    "objects": [SOLID_OBJECT],
    "Camera": list(CAMERA),
    "Lamp_Key": list(LAMPS[0]),
    "Lamp_Back": list(LAMPS[1]),
    "Lamp_Fill": list(LAMPS[2]),
}


def kinds(value: Any) -> Any:
    """The same tree with types in the place of values, since 1 == 1.0."""
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    return [kinds(item) for item in value] if isinstance(value, list) else type(value)


def genuine(samples: Path, world: str) -> list[dict[str, Any]]:
    files = sorted((samples / world).rglob("*.json"))
    assert len(files) == 192
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.parametrize("world", RELEASED)
def test_every_genuine_file_comes_out_as_it_went_in(svib_samples: Path, world: str) -> None:
    records = genuine(svib_samples, world)
    written = scenes_to_json(scenes_from_json(RELEASED[world], records))
    assert written == records
    assert kinds(written) == kinds(records)
    assert json.loads(json.dumps(written)) == records


@pytest.mark.parametrize("world", ["CLEVR", "CLEVRTex"])
def test_projection_gives_the_recorded_pixels(svib_samples: Path, world: str) -> None:
    scenes = scenes_from_json(RELEASED[world], genuine(svib_samples, world))
    assert scenes.pixels is not None
    ours = pixel_coords(scenes.position, scenes.camera)
    assert (ours[..., :2] == scenes.pixels[..., :2]).double().mean() > 0.99
    assert torch.allclose(ours[..., 2], scenes.pixels[..., 2], rtol=0, atol=1e-5)
    written = scenes_to_json(replace(scenes, pixels=None))
    assert kinds(written) == kinds(scenes_to_json(scenes))


def test_numbers_keep_all_their_digits() -> None:
    scenes = scenes_from_json(SPRITES, [SPRITE_SCENE])
    assert scenes.position[0, 1, 0].item() == 1 / 3
    assert scenes_to_json(scenes) == [SPRITE_SCENE]
    solid = scenes_from_json(CLEVR, [SOLID_SCENE])
    assert solid.camera is not None
    assert solid.camera.tolist() == [list(CAMERA)]
    assert solid.lamps is not None
    assert solid.lamps.tolist() == [[list(lamp) for lamp in LAMPS]]


def test_a_depth_that_later_code_adds_to_sprites_is_left_aside() -> None:
    deeper = copy.deepcopy(SPRITE_SCENE)
    deeper["objects"][0]["depth"] = 3  # type: ignore[index]
    assert scenes_from_json(SPRITES, [deeper]).equals(scenes_from_json(SPRITES, [SPRITE_SCENE]))


def test_scenes_of_different_length_are_filled_up_and_written_without_the_filling() -> None:
    alone = {**SPRITE_SCENE, "objects": SPRITE_SCENE["objects"][1:]}
    nothing = {**SPRITE_SCENE, "objects": []}
    scenes = scenes_from_json(SPRITES, [SPRITE_SCENE, alone, nothing])
    assert scenes.present.tolist() == [[True, True], [True, False], [False, False]]
    assert scenes_to_json(scenes) == [SPRITE_SCENE, alone, nothing]
    assert scenes_to_json(scenes_from_json(SPRITES, [nothing])) == [nothing]


@pytest.mark.parametrize("world", [CLEVR, CLEVRTEX, CLEVR_MANY, COAT], ids=lambda world: world.name)
def test_scenes_of_our_own_are_written_and_read_back(world: Vocabulary) -> None:
    generator = torch.Generator().manual_seed(0)
    factors = torch.stack([torch.randint(size, (6, 5), generator=generator) for size in world.counts], -1)
    sizes = torch.tensor(world["size"].codes, dtype=torch.float64)[factors[..., world.axis("size")]]
    flat = torch.rand(6, 5, 2, generator=generator, dtype=torch.float64) * 6 - 3
    scenes = Scenes.of(
        world,
        factors,
        torch.cat([flat, sizes[..., None]], -1),
        rotation=torch.rand(6, 5, generator=generator),
        background=torch.arange(6) % len(world.background),
        camera=[CAMERA] * 6,
        lamps=[LAMPS] * 6,
    )
    records = scenes_to_json(scenes, size=(320, 240))
    read = scenes_from_json(world, json.loads(json.dumps(records)))
    assert read.equals(scenes)
    assert read.names == tuple(f"{row:08d}" for row in range(6))
    assert read.pixels is not None
    assert torch.equal(read.pixels, pixel_coords(scenes.position, scenes.camera, (320, 240)))
    ground = {"clevrtex": "ground_material", "coat": "background"}.get(world.name)
    assert {key for key in records[0] if "ground" in key} == ({ground} if ground else set())
    if world is COAT:
        assert [record["background"] for record in records[:2]] == ["white", "light blue"]


def test_projection_of_known_points() -> None:
    camera = torch.tensor([[0.0, -10.0, 0.0]]).double()
    points = torch.tensor([[[0, 0, 0], [32 / 7, 0, 0], [0, 0, 32 / 7], [-32 / 14, 5, 0]]]).double()
    found = pixel_coords(points, camera)[0].tolist()
    assert found[0] == [64, 64, 10]
    assert found[1] == [128, 64, 10]  # the right edge at half the field of view
    assert found[2] == [64, 0, 10]  # rows count from the top
    assert found[3] == [64 - 21, 64, 15]
    wide = pixel_coords(points, camera, (320, 240))[0].tolist()
    assert wide[1] == [320, 120, 10]
    assert wide[2] == [160, 120 - 160, 10]


Spoil = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda scene: scene["objects"][0].update(shape="Teapot"), "object 0 of scene 1 has an unknown shape.*Teapot"),
        (lambda scene: scene["objects"][0].update(size=1.25), "object 0 of scene 1 has an unknown size.*1.25"),
        (lambda scene: scene["objects"][0].update(size=True), "'size' of object 0 of scene 1 must be a finite number"),
        (lambda scene: scene["objects"][0].update(size="1.5"), "'size' of object 0 of scene 1 must be a finite number"),
        (lambda scene: scene["objects"][0].update(material="Wood"), "object 0 of scene 1 has an unknown material"),
        (lambda scene: scene["objects"][0].update(material=3), "'material' of object 0 of scene 1 must be a string"),
        (lambda scene: scene["objects"][0].update(color=[0.5, 1.0, 1.0, 1.0]), "has an unknown color"),
        (lambda scene: scene["objects"][0].update(color=[0.0, 1.0, 1.0, 0.5]), "a color whose opacity is 0.5"),
        (lambda scene: scene["objects"][0].update(color=[0.0, 1.0, 1.0]), "'color' of object 0.*list of 4 numbers"),
        (lambda scene: scene["objects"][0].update(color="red"), "'color' of object 0.*list of 4 numbers"),
        (lambda scene: scene["objects"][0].update(rotation=math.nan), "'rotation' of object 0.*finite number, not nan"),
        (lambda scene: scene["objects"][0].update({"3d_coords": [0.0, math.inf, 1.0]}), "'3d_coords' of object 0"),
        (lambda scene: scene["objects"][0].update({"3d_coords": [0.0, 1.0]}), "'3d_coords' of.*list of 3 numbers"),
        (lambda scene: scene["objects"][0].update(pixel_coords=[0.5, 1, 9.0]), "'pixel_coords' of.*two integers"),
        (lambda scene: scene["objects"][0].pop("pixel_coords"), "object 0 of scene 1 has no 'pixel_coords'"),
        (lambda scene: scene["objects"][0].pop("color"), "object 0 of scene 1 has no 'color'"),
        (lambda scene: scene.pop("Lamp_Back"), "scene 1 has no 'Lamp_Back'"),
        (lambda scene: scene.pop("objects"), "scene 1 has no 'objects'"),
        (lambda scene: scene.update(objects={}), "'objects' of scene 1 must be a list, not dict"),
        (lambda scene: scene.update(objects=[4]), "object 0 of scene 1 must be a mapping of keys to values, not int"),
        (lambda scene: scene.update(image_filename=7), "'image_filename' of scene 1 must be a string, not 7"),
        (lambda scene: scene.update(Camera=[1, 10**400, 1]), "'Camera' of scene 1 must be a number that fits"),
        (lambda scene: scene.update(Camera=None), "'Camera' of scene 1 must be a list of 3 numbers, not None"),
    ],
)
def test_bad_records_are_named_by_object_and_key(spoil: Spoil, message: str) -> None:
    spoilt = copy.deepcopy(SOLID_SCENE)
    spoil(spoilt)
    with pytest.raises(InputError, match=message) as caught:
        scenes_from_json(CLEVR, [SOLID_SCENE, spoilt])
    assert "\n" not in str(caught.value)


def test_bad_grounds_and_bad_lists_are_named() -> None:
    with pytest.raises(InputError, match="scene 0 has no 'ground_material'"):
        scenes_from_json(CLEVRTEX, [{**SOLID_SCENE, "objects": []}])
    with pytest.raises(InputError, match=r"scene 0 has an unknown background: .*'black'"):
        scenes_from_json(COAT, [{**SOLID_SCENE, "objects": [], "background": "black"}])
    for records in ([], {}, None):
        with pytest.raises(InputError, match="records must be a non-empty list"):
            scenes_from_json(SPRITES, records)  # type: ignore[arg-type]
    for records in ("text", [None]):
        with pytest.raises(InputError, match="scene 0 must be a mapping"):
            scenes_from_json(SPRITES, records)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rooms has no released JSON layout"):
        scenes_from_json(ROOMS, [SPRITE_SCENE])


def test_scenes_that_cannot_be_written_are_refused() -> None:
    scenes = scenes_from_json(CLEVR, [SOLID_SCENE])
    with pytest.raises(InputError, match="clevr need a camera and lamps"):
        scenes_to_json(replace(scenes, camera=None))
    with pytest.raises(InputError, match="have 3 coordinates, not 2"):
        scenes_to_json(replace(scenes, position=scenes.position[..., :2]))
    with pytest.raises(InputError, match="behind the camera"):
        scenes_to_json(replace(scenes, pixels=None, position=scenes.position + 20))


@pytest.mark.parametrize("name", ["moving", "scripted", "clevr3d", "furniture"])
def test_videos_and_views_are_written_and_read_back(name: str) -> None:
    scenes = worlds.get(name).sample(3, seed=4)
    records = json.loads(json.dumps(scenes_to_json(scenes)))
    back = scenes_from_json(scenes.vocabulary, records)
    assert back.padded(scenes.objects).equals(scenes)
    assert (back.frames, back.views) == (scenes.frames, scenes.views)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda records: records[1].pop("Cameras"), "all scenes of a file must have 'Cameras'"),
        (lambda records: records[1]["Cameras"].pop(), "all scenes of a file must have 'Cameras'"),
        (lambda records: records[0]["objects"][1].pop("path"), "all scenes of a file must have 'path'"),
        (lambda records: records[0]["objects"][1]["path"].pop(), "all scenes of a file must have 'path'"),
        (lambda records: records[0]["objects"][0].update(path=[]), "'path' of object 0 of scene 0 must be a list"),
        (
            lambda records: records[0]["objects"][0]["path"].__setitem__(2, [1, 2, 3]),
            "'path' of frame or view 2 of object 0 of scene 0 must be a list of 4 numbers",
        ),
        (lambda records: records[0].update(Cameras=7), "'Cameras' of scene 0 must be a list"),
        (lambda records: records[0]["Cameras"][0].__setitem__(0, math.nan), "must be a finite number"),
    ],
)
def test_paths_and_cameras_that_do_not_fit(change: Callable[[Any], Any], sentence: str) -> None:
    records = json.loads(json.dumps(scenes_to_json(worlds.get("scripted").sample(2, seed=4))))
    change(records)
    with pytest.raises(InputError, match=sentence):
        scenes_from_json(worlds.get("scripted").vocabulary, records)
