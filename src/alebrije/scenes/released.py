"""The released JSON of a scene: read and written without loss.

There are two layouts. A flat world writes each object's shape, size, rotation, `2d_coords` and colour (0 to 255). A
solid one, a world whose objects have a material, writes the colour as RGBA from 0 to 1, `3d_coords` and
`pixel_coords` (column, row, depth), and for the whole scene the camera and three lamps. Where the ground varies it is
there as well: `ground_material` if it is one of the objects' materials, else `background`, a word.
Rotations are in radians; all released ones are 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alebrije.errors import InputError
from alebrije.scenes.scenes import Scenes
from alebrije.scenes.vocabulary import Factor, Vocabulary

HALF_WIDTH = 16 / 35  # of the picture at distance 1: half of a 32 mm sensor behind a 35 mm lens, 49.134 degrees in all
_LAMPS = ("Lamp_Key", "Lamp_Back", "Lamp_Fill")


def scenes_from_json(vocabulary: Vocabulary, records: Sequence[Mapping[str, Any]]) -> Scenes:
    """The scenes of parsed JSON records, one record per scene, in a world's vocabulary.

    Scenes with fewer objects than the largest are filled up with absent ones. Keys that the layout does not have are
    left aside, such as the `depth` that a later version of the released code adds to sprites.

    >>> from alebrije.worlds.vocabularies import SPRITES
    >>> circle = {"shape": "circle", "size": 0.325, "rotation": 0.0, "2d_coords": [0.5, 0.25], "color": [0, 255, 0]}
    >>> scenes = scenes_from_json(SPRITES, [{"image_filename": "00000000", "objects": [circle]}])
    >>> scenes.describe(), scenes.position.tolist()
    (['green circle medium'], [[[0.5, 0.25]]])
    """
    solid = _is_solid(vocabulary)
    if not isinstance(records, Sequence) or not records:
        raise InputError("records must be a list of parsed scenes, at least one")
    rows = [(record, f"scene {row}") for row, record in enumerate(records)]
    listed = [_objects(record, where) for record, where in rows]
    fields = _read_objects(vocabulary, listed, solid)
    fields["names"] = [_word(record, "image_filename", where) for record, where in rows]
    if solid:
        fields["camera"] = [_numbers(record, "Camera", 3, where) for record, where in rows]
        fields["lamps"] = [[_numbers(record, lamp, 3, where) for lamp in _LAMPS] for record, where in rows]
        fields["background"] = [_background(vocabulary, record, where) for record, where in rows]
    return Scenes.of(vocabulary, **fields)


def _read_objects(vocabulary: Vocabulary, listed: list[list[Any]], solid: bool) -> dict[str, Any]:
    """The fields of `Scenes` that have an axis for objects, scenes filled up to the largest."""
    shape = (len(listed), max(map(len, listed)))
    columns = 3 if solid else 2
    factors = np.zeros((*shape, len(vocabulary.factors)), dtype=np.int64)
    present, rotation = np.zeros(shape, dtype=bool), np.zeros(shape)
    position, pixels = np.zeros((*shape, columns)), np.zeros((*shape, 3))
    for row, objects in enumerate(listed):
        for place, one in enumerate(objects):
            where = f"object {place} of scene {row}"
            _mapping(one, where)
            present[row, place] = True
            factors[row, place] = [_index(factor, one, where, solid) for factor in vocabulary]
            rotation[row, place] = _number(_value(one, "rotation", where), "rotation", where)
            position[row, place] = _numbers(one, f"{columns}d_coords", columns, where)
            if solid:
                pixels[row, place] = _pixel(one, where)
    fields = {"factors": factors, "present": present, "rotation": rotation, "position": position}
    return fields | ({"pixels": pixels} if solid else {})


def scenes_to_json(scenes: Scenes, size: tuple[int, int] = (128, 128)) -> list[dict[str, Any]]:
    """One record per scene, ready for `json.dump`; absent objects are left out.

    What `scenes_from_json` has read comes out equal to what was read. Scenes of our own get `pixel_coords` by
    projection onto a picture of `size` (width, height), and their index, in eight digits, as a name.

    >>> from alebrije.worlds.vocabularies import SPRITES
    >>> scenes = Scenes.of(SPRITES, factors=[[[0, 0, 2]]], position=[[[0.5, 0.25]]])
    >>> scenes_to_json(scenes)[0]["objects"]
    [{'color': [0, 255, 0], 'shape': 'circle', 'size': 0.325, 'rotation': 0.0, '2d_coords': [0.5, 0.25]}]
    """
    vocabulary, solid = scenes.vocabulary, _is_solid(scenes.vocabulary)
    columns = 3 if solid else 2
    if scenes.position.shape[-1] != columns:
        raise InputError(f"objects of {vocabulary.name} have {columns} coordinates, not {scenes.position.shape[-1]}")
    names = scenes.names or [f"{row:08d}" for row in range(len(scenes))]
    records: list[dict[str, Any]] = [{"image_filename": name, "objects": []} for name in names]
    if solid:
        _add_surroundings(records, scenes)
        pixels = scenes.pixels if scenes.pixels is not None else pixel_coords(scenes.position, scenes.camera, size)
    factors, position, rotation = scenes.factors.tolist(), scenes.position.tolist(), scenes.rotation.tolist()
    recorded = pixels.tolist() if solid else None
    for row, place in scenes.present.nonzero().tolist():
        codes = zip(vocabulary, factors[row][place], strict=True)
        one = {factor.name: _code(factor, index, solid) for factor, index in codes}
        one["rotation"] = rotation[row][place]
        one[f"{columns}d_coords"] = position[row][place]
        if recorded is not None:
            column, line, depth = recorded[row][place]
            one["pixel_coords"] = [int(column), int(line), depth]
        records[row]["objects"].append(one)
    return records


def _add_surroundings(records: list[dict[str, Any]], scenes: Scenes) -> None:
    if scenes.camera is None or scenes.lamps is None:
        raise InputError(f"scenes of {scenes.vocabulary.name} need a camera and lamps to be written")
    key, ground = _background_key(scenes.vocabulary), scenes.vocabulary.background
    words = ground.codes if key == "ground_material" else ground.values
    everything = zip(records, scenes.camera.tolist(), scenes.lamps.tolist(), scenes.background.tolist(), strict=True)
    for record, camera, lamps, background in everything:
        record |= {"Camera": camera, **dict(zip(_LAMPS, lamps, strict=True))}
        if key is not None:
            record[key] = words[background]


def pixel_coords(position: Tensor, camera: Tensor | None, size: tuple[int, int] = (128, 128)) -> Tensor:
    """Column, row and depth [B, N, 3] at which cameras [B, 3] see positions [B, N, 3] on a picture of width x height.

    The camera looks at the origin, z up, with CLEVR's lens along the picture's longer side. Columns and rows are
    rounded to integers, rows counted from the top; depth is the distance along the viewing axis. Objects
    outside the picture have coordinates outside it.

    >>> centre = pixel_coords(torch.zeros(1, 1, 3).double(), torch.tensor([[7.5, -6.5, 5.4]]).double())
    >>> centre.round(decimals=3).tolist()
    [[[64.0, 64.0, 11.299]]]
    """
    if camera is None:
        raise InputError("pixel coordinates need a camera")
    width, height = size
    forward = torch.nn.functional.normalize(-camera, dim=-1)  # [B, 3]
    right = torch.stack([forward[:, 1], -forward[:, 0], torch.zeros_like(forward[:, 0])], dim=-1)
    right = torch.nn.functional.normalize(right, dim=-1)
    up = torch.linalg.cross(right, forward)
    axes = torch.stack([right, up, forward], dim=-1)  # [B, 3, 3]
    across, upward, depth = ((position - camera[:, None]) @ axes).unbind(-1)  # [B, N] each
    scale = max(width, height) / (2 * HALF_WIDTH)
    if not bool((depth > 0).all()):
        raise InputError("an object behind the camera has no pixel coordinates")
    column = torch.round(width / 2 + scale * across / depth)
    row = torch.round(height / 2 - scale * upward / depth)
    return torch.stack([column, row, depth], dim=-1)


# ----------------------------------------------------------------------------------------------- one value at a time


def _is_solid(vocabulary: Vocabulary) -> bool:
    if not {"shape", "size"} <= set(vocabulary.names):
        raise InputError(f"{vocabulary.name} has no released JSON layout: its objects need a shape and a size")
    return "material" in vocabulary


def _background_key(vocabulary: Vocabulary) -> str | None:
    if len(vocabulary.background) == 1:
        return None
    return "ground_material" if vocabulary.background.codes == vocabulary["material"].codes else "background"


def _background(vocabulary: Vocabulary, record: Mapping[str, Any], where: str) -> int:
    key = _background_key(vocabulary)
    if key is None:
        return 0
    word = _word(record, key, where)
    ground = vocabulary.background
    try:
        return ground.index_of_code(word) if key == "ground_material" else ground.index(word)
    except InputError as error:
        raise InputError(f"{where} has an unknown {key}: {error}") from None


def _code(factor: Factor, index: int, solid: bool) -> Any:
    code = factor.codes[index]
    if isinstance(code, tuple):
        return [*code, 1.0] if solid else list(code)  # solid colours carry an opacity
    return code


def _index(factor: Factor, one: Mapping[str, Any], where: str, solid: bool) -> int:
    """The index of an object's value, by its code."""
    example = factor.codes[0]
    if isinstance(example, str):
        code: Any = _word(one, factor.name, where)
    elif isinstance(example, tuple):
        numbers = _numbers(one, factor.name, len(example) + solid, where)
        if solid and numbers[-1] != 1:
            raise InputError(f"{where} has a {factor.name} whose opacity is {numbers[-1]} instead of 1")
        code = numbers[: len(example)]
    else:
        code = _number(_value(one, factor.name, where), factor.name, where)
    try:
        return factor.index_of_code(code)
    except InputError as error:
        raise InputError(f"{where} has an unknown {factor.name}: {error}") from None


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be a mapping of keys to values, not {type(value).__name__}")
    return value


def _objects(record: Any, where: str) -> list[Any]:
    objects = _value(_mapping(record, where), "objects", where)
    if not isinstance(objects, list):
        raise InputError(f"'objects' of {where} must be a list, not {type(objects).__name__}")
    return objects


def _value(holder: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in holder:
        raise InputError(f"{where} has no {key!r}")
    return holder[key]


def _word(holder: Mapping[str, Any], key: str, where: str) -> str:
    value = _value(holder, key, where)
    if not isinstance(value, str):
        raise InputError(f"{key!r} of {where} must be a string, not {value!r}")
    return value


def _number(value: Any, key: str, where: str) -> float:
    # bool is an int to Python, and True would pass for the size 1.0
    try:
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits, too many to repeat
        raise InputError(f"{key!r} of {where} must be a number that fits into a float") from None
    if not good:
        raise InputError(f"{key!r} of {where} must be a finite number, not {value!r}")
    return value  # type: ignore[no-any-return]


def _numbers(holder: Mapping[str, Any], key: str, length: int, where: str) -> list[float]:
    values = _value(holder, key, where)
    if not isinstance(values, list | tuple) or len(values) != length:
        raise InputError(f"{key!r} of {where} must be a list of {length} numbers, not {values!r}")
    return [_number(value, key, where) for value in values]


def _pixel(one: Mapping[str, Any], where: str) -> list[float]:
    column, row, depth = _numbers(one, "pixel_coords", 3, where)
    if column != int(column) or row != int(row):
        raise InputError(f"'pixel_coords' of {where} must begin with two integers, not {column!r} and {row!r}")
    return [column, row, depth]
