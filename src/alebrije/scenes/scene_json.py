"""The released JSON of a scene, read and written without loss.

There are two layouts. Flat worlds write each object's shape, size, rotation, `2d_coords` and colour (0 to 255). Solid
worlds, whose objects have a material, write the colour as RGBA from 0 to 1, `3d_coords` and `pixel_coords` (column,
row, depth), and per scene the camera and three lamps. If the ground varies it is recorded too: as `ground_material` if
it is one of the objects' materials, else as `background`, a word. Rotations are in radians; all released ones are 0.

Videos and views are in no release. Here every object of a video has a `path`, [x, y, z, rotation] in each frame, and a
scene whose camera moves, or that several cameras see, has `Cameras`, one position for each frame or view.
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

HALF_WIDTH = 16 / 35  # of the image at distance 1: 32 mm sensor, 35 mm lens, field of view 49.134 degrees
_LAMPS = ("Lamp_Key", "Lamp_Back", "Lamp_Fill")


def scenes_from_json(vocabulary: Vocabulary, records: Sequence[Mapping[str, Any]]) -> Scenes:
    """Scenes from parsed JSON records, one per scene.

    Scenes with fewer objects than the largest are padded with absent objects. Unknown keys are ignored, such as the
    `depth` that a later version of the released code adds to sprites.

    >>> from alebrije.worlds.vocabularies import SPRITES
    >>> circle = {"shape": "circle", "size": 0.325, "rotation": 0.0, "2d_coords": [0.5, 0.25], "color": [0, 255, 0]}
    >>> scenes = scenes_from_json(SPRITES, [{"image_filename": "00000000", "objects": [circle]}])
    >>> scenes.describe(), scenes.position.tolist()
    (['green circle medium'], [[[0.5, 0.25]]])
    """
    solid = _check_solid(vocabulary)
    if not isinstance(records, Sequence) or not records:
        raise InputError("records must be a non-empty list of parsed scenes")
    rows = [(record, f"scene {row}") for row, record in enumerate(records)]
    listed = [_objects(record, where) for record, where in rows]
    fields = _read_objects(vocabulary, listed, solid)
    fields["names"] = [_word(record, "image_filename", where) for record, where in rows]
    if solid:
        fields["camera"] = [_numbers(record, "Camera", 3, where) for record, where in rows]
        fields["lamps"] = [[_numbers(record, lamp, 3, where) for lamp in _LAMPS] for record, where in rows]
        fields["background"] = [_background(vocabulary, record, where) for record, where in rows]
        fields |= _read_frames(rows, listed)
    return Scenes.of(vocabulary, **fields)


def _read_frames(rows: list[tuple[Any, str]], listed: list[list[Any]]) -> dict[str, Any]:
    """The paths of the objects and the cameras of frames or views, if the scenes have them."""
    fields: dict[str, Any] = {}
    cameras = [_rows_of(record, "Cameras", 3, where) if "Cameras" in record else None for record, where in rows]
    if any(each is not None for each in cameras):
        fields["cameras"] = np.array(_same_lengths(cameras, "Cameras"))
    paths: list[list[Any]] = []
    for items, (_, where) in zip(listed, rows, strict=True):
        named = ((item, f"object {at} of {where}") for at, item in enumerate(items))
        paths.append([_rows_of(item, "path", 4, what) if "path" in item else None for item, what in named])
    if any(path is not None for scene in paths for path in scene):
        found = _same_lengths([path for scene in paths for path in scene], "path")
        filled = np.zeros((len(listed), max(map(len, listed)), len(found[0]), 4))
        for row, scene in enumerate(paths):
            filled[row, : len(scene)] = np.array(scene).reshape(-1, *filled.shape[2:])
        fields["path"] = filled
    return fields


def _rows_of(holder: Mapping[str, Any], key: str, width: int, where: str) -> list[list[float]]:
    """A list of lists of numbers, one for each frame or view."""
    values = _value(holder, key, where)
    if not isinstance(values, list | tuple) or not values:
        raise InputError(f"{key!r} of {where} must be a list with {width} numbers for each frame or view")
    return [_numbers({key: row}, key, width, f"frame or view {index} of {where}") for index, row in enumerate(values)]


def _same_lengths(rows: list[list[list[float]] | None], key: str) -> list[list[list[float]]]:
    """The rows; an InputError unless all are there and equally long."""
    there = [row for row in rows if row is not None]
    if len(there) < len(rows) or len(set(map(len, there))) > 1:
        raise InputError(f"all scenes of a file must have {key!r}, of the same number of frames or views, or none")
    return there


def _read_objects(vocabulary: Vocabulary, listed: list[list[Any]], solid: bool) -> dict[str, Any]:
    """The per-object fields of `Scenes`, padded to the largest scene."""
    shape = (len(listed), max(map(len, listed)))
    columns = 3 if solid else 2
    factors = np.zeros((*shape, len(vocabulary.factors)), dtype=np.int64)
    present, rotation = np.zeros(shape, dtype=bool), np.zeros(shape)
    position, pixels = np.zeros((*shape, columns)), np.zeros((*shape, 3))
    for row, objects in enumerate(listed):
        for index, item in enumerate(objects):
            where = f"object {index} of scene {row}"
            _mapping(item, where)
            present[row, index] = True
            factors[row, index] = [_index(factor, item, where, solid) for factor in vocabulary]
            rotation[row, index] = _number(_value(item, "rotation", where), "rotation", where)
            position[row, index] = _numbers(item, f"{columns}d_coords", columns, where)
            if solid:
                pixels[row, index] = _pixel(item, where)
    fields = {"factors": factors, "present": present, "rotation": rotation, "position": position}
    return fields | ({"pixels": pixels} if solid else {})


def scenes_to_json(scenes: Scenes, size: tuple[int, int] = (128, 128)) -> list[dict[str, Any]]:
    """One record per scene, ready for `json.dump`, without absent objects.

    Scenes read by `scenes_from_json` are written unchanged. Other scenes get `pixel_coords` by projection onto an image
    of `size` (width, height), and their index, in eight digits, as a name.

    >>> from alebrije.worlds.vocabularies import SPRITES
    >>> scenes = Scenes.of(SPRITES, factors=[[[0, 0, 2]]], position=[[[0.5, 0.25]]])
    >>> scenes_to_json(scenes)[0]["objects"]
    [{'color': [0, 255, 0], 'shape': 'circle', 'size': 0.325, 'rotation': 0.0, '2d_coords': [0.5, 0.25]}]
    """
    vocabulary, solid = scenes.vocabulary, _check_solid(scenes.vocabulary)
    columns = 3 if solid else 2
    if scenes.position.shape[-1] != columns:
        raise InputError(f"objects of {vocabulary.name} have {columns} coordinates, not {scenes.position.shape[-1]}")
    names = scenes.names or [f"{row:08d}" for row in range(len(scenes))]
    records: list[dict[str, Any]] = [{"image_filename": name, "objects": []} for name in names]
    if solid:
        _add_view(records, scenes)
        pixels = scenes.pixels if scenes.pixels is not None else pixel_coords(scenes.position, scenes.camera, size)
    factors, position, rotation = scenes.factors.tolist(), scenes.position.tolist(), scenes.rotation.tolist()
    recorded = pixels.tolist() if solid else None
    paths = None if scenes.path is None else scenes.path.tolist()
    for row, at in scenes.present.nonzero().tolist():
        codes = zip(vocabulary, factors[row][at], strict=True)
        item = {factor.name: _code(factor, index, solid) for factor, index in codes}
        item["rotation"] = rotation[row][at]
        item[f"{columns}d_coords"] = position[row][at]
        if recorded is not None:
            column, line, depth = recorded[row][at]
            item["pixel_coords"] = [int(column), int(line), depth]
        if paths is not None:
            item["path"] = paths[row][at]
        records[row]["objects"].append(item)
    return records


def _add_view(records: list[dict[str, Any]], scenes: Scenes) -> None:
    if scenes.camera is None or scenes.lamps is None:
        raise InputError(f"scenes of {scenes.vocabulary.name} need a camera and lamps to be written")
    key, ground = _background_key(scenes.vocabulary), scenes.vocabulary.background
    words = ground.codes if key == "ground_material" else ground.values
    everything = zip(records, scenes.camera.tolist(), scenes.lamps.tolist(), scenes.background.tolist(), strict=True)
    for record, camera, lamps, background in everything:
        record |= {"Camera": camera, **dict(zip(_LAMPS, lamps, strict=True))}
        if key is not None:
            record[key] = words[background]
    if scenes.cameras is not None:
        for record, cameras in zip(records, scenes.cameras.tolist(), strict=True):
            record["Cameras"] = cameras


def pixel_coords(position: Tensor, camera: Tensor | None, size: tuple[int, int] = (128, 128)) -> Tensor:
    """Column, row and depth [B, N, 3] of positions [B, N, 3] seen by cameras [B, 3] in a width x height image.

    The camera looks at the origin, z up, with CLEVR's lens along the longer side of the image. Columns and rows are
    rounded to integers; rows count from the top; depth is the distance along the viewing axis. Objects outside the
    image have coordinates outside it.

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


def _check_solid(vocabulary: Vocabulary) -> bool:
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
        return [*code, 1.0] if solid else list(code)  # solid colours have an alpha channel
    return code


def _index(factor: Factor, item: Mapping[str, Any], where: str, solid: bool) -> int:
    """The index of an object's value, from its code."""
    example = factor.codes[0]
    if isinstance(example, str):
        code: Any = _word(item, factor.name, where)
    elif isinstance(example, tuple):
        numbers = _numbers(item, factor.name, len(example) + solid, where)
        if solid and numbers[-1] != 1:
            raise InputError(f"{where} has a {factor.name} whose opacity is {numbers[-1]} instead of 1")
        code = numbers[: len(example)]
    else:
        code = _number(_value(item, factor.name, where), factor.name, where)
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
    # bool is a subclass of int, so True would pass as the size 1.0
    try:
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits, too long for the message
        raise InputError(f"{key!r} of {where} must be a number that fits into a float") from None
    if not good:
        raise InputError(f"{key!r} of {where} must be a finite number, not {value!r}")
    return value  # type: ignore[no-any-return]


def _numbers(holder: Mapping[str, Any], key: str, length: int, where: str) -> list[float]:
    values = _value(holder, key, where)
    if not isinstance(values, list | tuple) or len(values) != length:
        raise InputError(f"{key!r} of {where} must be a list of {length} numbers, not {values!r}")
    return [_number(value, key, where) for value in values]


def _pixel(item: Mapping[str, Any], where: str) -> list[float]:
    column, row, depth = _numbers(item, "pixel_coords", 3, where)
    if column != int(column) or row != int(row):
        raise InputError(f"'pixel_coords' of {where} must begin with two integers, not {column!r} and {row!r}")
    return [column, row, depth]
