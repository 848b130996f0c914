"""Videos and views: frames, boxes and flow."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alebrije import worlds
from alebrije.render.video import visible_boxes
from alebrije.scenes import Scenes

SIZE = 64


def still(scenes: Scenes, row: int, frame: int) -> Scenes:
    """One frame of a video as a scene, put together by hand."""
    assert scenes.path is not None
    pose = scenes.path[row : row + 1, :, frame]
    camera = scenes.camera if scenes.cameras is None else scenes.cameras[:, frame]
    assert camera is not None
    assert scenes.lamps is not None
    return Scenes.of(
        scenes.vocabulary,
        scenes.factors[row : row + 1],
        pose[..., :3],
        present=scenes.present[row : row + 1],
        rotation=pose[..., 3],
        background=scenes.background[row : row + 1],
        camera=camera[row : row + 1],
        lamps=scenes.lamps[row : row + 1],
    )


@pytest.mark.parametrize(("name", "frames"), [("moving", 24), ("scripted", 33)])
def test_each_frame_is_the_picture_of_its_scene(name: str, frames: int) -> None:
    world = worlds.get(name)
    scenes = world.sample(2, seed=3)
    assert scenes.frames == frames
    video = world.render(scenes, 32)
    assert video.images.shape == (2, frames, 3, 32, 32)
    assert video.masks.shape == (2, frames, 32, 32)
    assert video.visible.shape == (2, frames, scenes.objects)
    assert video.flow is not None
    assert video.flow.shape == (2, frames, 2, 32, 32)
    for frame in (0, 7, frames - 1):
        picture = worlds.get("clevr10").render(still(scenes, 1, frame), 32)
        assert torch.equal(picture.images[0], video.images[1, frame])
        assert torch.equal(picture.masks[0], video.masks[1, frame])


def test_boxes_hold_exactly_the_visible_pixels() -> None:
    masks = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    masks[0, 0, 2:5, 1:7] = 1
    masks[0, 0, 3, 3] = 2
    boxes = visible_boxes(masks, 3)
    assert boxes.tolist() == [[[[0.25, 0.125, 0.625, 0.875], [0.375, 0.375, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]]]]


def landed(name: str, seed: int, videos: int) -> tuple[np.ndarray, np.ndarray]:
    """For object pixels whose point is visible in the frame before: how far flow lands from it, and how many."""
    world = worlds.get(name)
    scenes = world.sample(videos, seed=seed)
    video = world.render(scenes, SIZE)
    assert video.flow is not None
    assert video.depth is not None
    return _distances(scenes, video.masks, video.depth, video.flow)


def _distances(
    scenes: Scenes, masks: torch.Tensor, depth: torch.Tensor, flow: torch.Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """Follow each object pixel by its pose, independently of the code that makes flow.

    A pixel's point in the object's own coordinates is compared with the point that the frame before shows where flow
    lands, interpolated between pixels of the same object. [n] in pixels, and the number of pixels that were followed
    """
    assert scenes.path is not None
    path, found, followed = scenes.path.numpy(), [], []
    for row in range(len(scenes)):
        cameras = scenes.cameras[row].numpy() if scenes.cameras is not None else None
        for frame in range(1, masks.shape[1]):
            local = [
                _own_points(path[row, :, t], _camera(scenes, cameras, row, t), masks[row, t], depth[row, t])
                for t in (frame - 1, frame)
            ]
            line, column = np.nonzero(masks[row, frame].numpy())
            label = masks[row, frame].numpy()[line, column]
            x = column + flow[row, frame, 0].numpy()[line, column]
            y = line + flow[row, frame, 1].numpy()[line, column]
            left, top = np.floor(x).astype(int), np.floor(y).astype(int)
            inside = (left >= 1) & (top >= 1) & (left < SIZE - 2) & (top < SIZE - 2)
            left, top = np.clip(left, 1, SIZE - 3), np.clip(top, 1, SIZE - 3)
            around = [(top + dy, left + dx) for dy in (-1, 0, 1, 2) for dx in (-1, 0, 1, 2)]
            before = masks[row, frame - 1].numpy()
            whole = np.all([before[at] == label for at in around], 0) & inside
            across, down = (x - left)[:, None], (y - top)[:, None]
            four = [local[0][top + dy, left + dx] for dy in (0, 1) for dx in (0, 1)]
            shown = (four[0] * (1 - across) + four[1] * across) * (1 - down)
            shown = shown + (four[2] * (1 - across) + four[3] * across) * down
            step = np.linalg.norm(local[0][top, left + 1] - local[0][top, left], axis=-1)  # of one pixel
            smooth = step < 0.3  # not across an edge between two faces seen at a slant
            off = np.linalg.norm(local[1][line, column] - shown, axis=-1) / np.maximum(step, 0.02)
            visible = whole & smooth & (np.linalg.norm(four[3] - four[0], axis=-1) < 0.4)
            found.append(off[visible])
            followed.append(visible.sum())
    return np.concatenate(found), np.array(followed)


def _camera(scenes: Scenes, cameras: np.ndarray | None, row: int, frame: int) -> np.ndarray:
    assert scenes.camera is not None
    return scenes.camera[row].numpy() if cameras is None else cameras[frame]


def _own_points(pose: np.ndarray, camera: np.ndarray, masks: torch.Tensor, depth: torch.Tensor) -> np.ndarray:
    """The point that each pixel shows, in the coordinates of its object. [H, W, 3]"""
    forward = -camera / np.linalg.norm(camera)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    grid = (np.arange(SIZE) + 0.5 - SIZE / 2) / (SIZE / 2) * (16 / 35)
    rays = forward + grid[None, :, None] * right - grid[:, None, None] * up
    point = camera + rays * depth.numpy()[..., None]
    label = masks.numpy().astype(int)
    own = np.concatenate([np.zeros((1, 4)), pose])[label]  # [H, W, 4]
    offset = point - own[..., :3]
    cosine, sine = np.cos(own[..., 3]), np.sin(own[..., 3])
    turned = [offset[..., 0] * cosine + offset[..., 1] * sine, offset[..., 1] * cosine - offset[..., 0] * sine]
    return np.stack([*turned, offset[..., 2]], -1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moving", "scripted"])
def test_flow_lands_on_the_same_point_of_the_object(name: str) -> None:
    """Within half a pixel for 99 % of object pixels that are visible in both frames."""
    off, followed = landed(name, seed=1, videos=4)
    assert followed.sum() > 1_000
    assert (off < 0.5).mean() >= 0.99
