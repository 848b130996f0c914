"""Videos and views: every frame or view is rendered as a scene; boxes and flow come from the same rays."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from alebrije.render.frames import Frames
from alebrije.render.solid import render_solid
from alebrije.render.stage import HALF_WIDTH, camera_axes
from alebrije.scenes import Scenes


def render_frames(scenes: Scenes, size: int = 64, device: str | torch.device = "cpu") -> Frames:
    """Render the T frames of videos, or the V views of scenes: `Frames` with an axis [B, T] or [B, V] at the front.

    Videos also have `boxes` and `flow`.
    """
    count = scenes.frames or scenes.views or 1
    flat = render_solid(scenes.at_once(), size, device)
    shaped = {
        name: None if tensor is None else tensor.reshape(len(scenes), count, *tensor.shape[1:])
        for name, tensor in vars(flat).items()
    }
    frames = Frames(**shaped)  # type: ignore[arg-type]
    if scenes.frames is None:
        return frames
    boxes = visible_boxes(frames.masks, scenes.objects)
    return replace(frames, boxes=boxes, flow=backward_flow(scenes.to(device), frames))


def visible_boxes(masks: Tensor, objects: int) -> Tensor:
    """The box around the visible pixels of each object: top, left, bottom, right as shares of the image. [B, T, N, 4]

    Bottom and right are the edges after the last pixel. Objects without a pixel have zeros.
    """
    boxes = []
    for item in range(objects):
        shown = masks == item + 1  # [B, T, H, W]
        edges = []
        for axis in (-1, -2):  # rows that show the object, then columns
            lines = shown.any(axis)
            count = lines.shape[-1]
            first = lines.int().argmax(-1)
            last = count - lines.flip(-1).int().argmax(-1)
            edges.append(torch.stack([first, last], -1) / count)
        box = torch.stack([edges[0][..., 0], edges[1][..., 0], edges[0][..., 1], edges[1][..., 1]], -1)
        boxes.append(torch.where(shown.any(-1).any(-1)[..., None], box, torch.zeros_like(box)))
    return torch.stack(boxes, 2) if boxes else masks.new_zeros((*masks.shape[:2], 0, 4), dtype=torch.float32)


def backward_flow(scenes: Scenes, frames: Frames) -> Tensor:
    """From the centre of every pixel to where its point was one frame before, in pixels: x and y. [B, T, 2, H, W]

    The point is on the object that the mask shows, or on the ground. Before the first frame, objects and camera move
    as between the first two.
    """
    assert scenes.path is not None
    assert scenes.camera is not None
    assert frames.depth is not None
    length, size = frames.images.shape[1], frames.images.shape[-1]
    cameras = scenes.cameras if scenes.cameras is not None else scenes.camera[:, None].expand(-1, length, -1)
    poses = scenes.path.transpose(1, 2)  # [B, T, N, 4]
    still = torch.zeros_like(poses[:, :, :1])  # the ground
    now, before = (torch.cat([still, moved], 2) for moved in (poses, _one_before(poses)))
    rows = torch.arange(size, device=poses.device, dtype=poses.dtype) + 0.5
    line, column = torch.meshgrid(rows, rows, indexing="ij")
    flows = [
        _flow(frames.masks[:, t], frames.depth[:, t], now[:, t], before[:, t], cameras[:, t], earlier, column, line)
        for t, earlier in enumerate(_one_before(cameras).unbind(1))
    ]
    return torch.stack(flows, 1).float()


def _one_before(states: Tensor) -> Tensor:
    """The state one frame before each of the T frames [B, T, ...]; the first two frames tell the one before them."""
    earliest = 2 * states[:, :1] - states[:, 1:2] if states.shape[1] > 1 else states
    return torch.cat([earliest, states[:, :-1]], 1)


def _flow(
    masks: Tensor,
    depth: Tensor,
    now: Tensor,
    before: Tensor,
    camera: Tensor,
    earlier: Tensor,
    column: Tensor,
    line: Tensor,
) -> Tensor:
    """The flow of one frame of B videos, with poses [B, N + 1, 4] of the ground and the objects. [B, 2, H, W]"""
    size = masks.shape[-1]
    scale = 2.0 * HALF_WIDTH / size
    right, up, forward = (axis.T[:, :, None, None] for axis in camera_axes(camera.T))  # [B, 3, 1, 1]
    across, down = (column - size / 2) * scale, (line - size / 2) * scale
    point = camera[:, :, None, None] + (forward + right * across - up * down) * depth[:, None]  # [B, 3, H, W]
    owner = masks.long()[:, None].expand(-1, 4, -1, -1).flatten(2)
    shape = (len(masks), 4, size, size)
    own, past = (poses.transpose(1, 2).gather(2, owner).reshape(shape) for poses in (now, before))
    point = _turned(point - own[:, :3], past[:, 3] - own[:, 3]) + past[:, :3]
    right, up, forward = (axis.T[:, :, None, None] for axis in camera_axes(earlier.T))
    offset = point - earlier[:, :, None, None]
    away = (offset * forward).sum(1).clamp_min(1e-3)
    x = (offset * right).sum(1) / away / scale + size / 2
    y = size / 2 - (offset * up).sum(1) / away / scale
    return torch.stack([x - column, y - line], 1)


def _turned(offset: Tensor, angle: Tensor) -> Tensor:
    """Offsets [B, 3, H, W], turned about the vertical by angles [B, H, W]."""
    cosine, sine = angle.cos(), angle.sin()
    x, y, z = offset.unbind(1)
    return torch.stack([x * cosine - y * sine, x * sine + y * cosine, z], 1)
