"""MOVi from small files in its format, whole and damaged."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from alebrije.data import read_movi
from alebrije.errors import InputError
from tests.data.tfrecord_writer import example, write_tfrecord

T, SIDE = 3, 8


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def video(seed: int, instances: int = 2) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The features of a record, and the arrays that they tell of. The first instance is hidden in the last frame."""
    draw = np.random.default_rng(seed)
    images = draw.integers(0, 256, (T, SIDE, SIDE, 3), dtype=np.uint8)
    masks = draw.integers(0, instances + 1, (T, SIDE, SIDE), dtype=np.uint8)
    boxes = draw.random((instances, T, 4)).astype(np.float32)
    flow = draw.integers(0, 65536, (T, SIDE, SIDE, 2))
    shown = [[frame for frame in range(T) if (item, frame) != (0, T - 1)] for item in range(instances)]
    visibility = draw.integers(1, 50, (instances, T))
    cameras = draw.random((T, 3)).astype(np.float32)
    features: dict[str, Any] = {
        "metadata/video_name": [b"one"],
        "video": [png(frame) for frame in images],
        "segmentations": [png(frame) for frame in masks],
        "camera/positions": cameras.reshape(-1).tolist(),
        "instances/visibility": visibility.reshape(-1).tolist(),
        "instances/bboxes/ragged_row_lengths_0": list(map(len, shown)),
        "instances/bboxes/ragged_flat_values": [
            float(value) for item, own in enumerate(shown) for frame in own for value in boxes[item, frame]
        ],
        "instances/bbox_frames/ragged_row_lengths_0": list(map(len, shown)),
        "instances/bbox_frames/ragged_flat_values": [frame for own in shown for frame in own],
        "backward_flow": flow.reshape(-1).tolist(),
        "metadata/backward_flow_range": [-3.0, 5.0],
    }
    boxes[0, T - 1] = 0
    return features, {"images": images, "masks": masks, "boxes": boxes, "flow": flow, "visibility": visibility} | {
        "cameras": cameras
    }


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_what_is_written_is_read(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "movi_a-train.tfrecord-00000-of-00001"
    made = [video(0), video(1, instances=3)]
    write_tfrecord(path, [example(features) for features, _ in made], compression)
    clips = read_movi(path)
    assert len(clips) == 2
    for row, (_, told) in enumerate(made):
        count = len(told["boxes"])
        assert np.array_equal(clips.images[row].permute(0, 2, 3, 1), told["images"])
        assert np.array_equal(clips.masks[row], told["masks"])
        assert np.array_equal(clips.boxes[row, :, :count].transpose(0, 1), told["boxes"])
        assert np.array_equal(clips.visibility[row, :, :count].T, told["visibility"])
        assert np.array_equal(clips.cameras[row], told["cameras"])
        assert clips.flow is not None
        expected = told["flow"] / 65535 * 8 - 3
        assert np.allclose(clips.flow[row, :, 0], expected[..., 1], atol=1e-5)  # x is the column
        assert np.allclose(clips.flow[row, :, 1], expected[..., 0], atol=1e-5)
    assert not clips.boxes[0, :, 2:].any()
    assert torch.equal(read_movi(path, 1, start=1).images, clips.images[1:])
    assert read_movi(path, flow=False).flow is None


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: f.pop("video"), "'video' must be a list of 1 to 1000 PNG files"),
        (lambda f: f["video"].pop(), "'video' has the shape"),
        (lambda f: f["video"].__setitem__(1, b"GIF89a"), "frame 1 of 'video' is not a sound PNG file"),
        (lambda f: f["video"].__setitem__(1, f["video"][1][:60]), "frame 1 of 'video' is not a sound PNG file"),
        (lambda f: f["video"].__setitem__(0, png(np.zeros((8, 8), np.uint8))), "has the mode L, not RGB"),
        (lambda f: f["video"].__setitem__(0, png(np.zeros((4, 4, 3), np.uint8))), "differ in size"),
        (lambda f: f["segmentations"].__setitem__(0, png(np.full((8, 8), 9, np.uint8))), "shows instance 9"),
        (lambda f: f["segmentations"].__setitem__(0, png(np.zeros((2, 3000), np.uint8))), "more than 2048 a side"),
        (lambda f: f["instances/visibility"].pop(), "'instances/visibility' has 5 values"),
        (lambda f: f["camera/positions"].pop(), "'camera/positions' has 8 values, but must have 3 x 3"),
        (lambda f: f["camera/positions"].__setitem__(0, float("nan")), "'camera/positions' must be finite"),
        (lambda f: f["instances/bbox_frames/ragged_flat_values"].__setitem__(0, 7), "must lie in 0..2"),
        (lambda f: f["instances/bboxes/ragged_row_lengths_0"].__setitem__(0, 99), "do not fit together"),
        (lambda f: f["instances/bboxes/ragged_flat_values"].pop(), "do not fit together"),
        (lambda f: f["backward_flow"].__setitem__(0, 70000), "'backward_flow' must lie in 0..65535"),
        (lambda f: f["backward_flow"].pop(), "'backward_flow' has 383 values"),
        (lambda f: f.update({"metadata/backward_flow_range": [1.0]}), "must have 2"),
    ],
)
def test_records_that_do_not_fit(tmp_path: Path, change: Change, sentence: str) -> None:
    features, _ = video(0)
    change(features)
    write_tfrecord(tmp_path / "one", [example(features)])
    with pytest.raises(InputError, match=f"record 0 is invalid: .*{sentence}"):
        read_movi(tmp_path / "one")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "movi"
    write_tfrecord(path, [example(video(0)[0])])
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        with pytest.raises(InputError):
            read_movi(path)
        path.write_bytes(whole[:at])
        with pytest.raises(InputError):
            read_movi(path)
