"""Models of videos and of several views: how they are called, read, checked and refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alebrije.adapters import Encoder, Preprocessing, check, load, precheck
from alebrije.adapters.outputs import read_output
from alebrije.adapters.untrained import reinitialised
from alebrije.encoding import Encoding
from alebrije.errors import InputError

VIDEOS = torch.rand(3, 4, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class Video(nn.Module):
    """Soft masks of every frame, and slots that are the mean colours under them."""

    takes = "videos"

    def __init__(self, slots: int = 5) -> None:
        super().__init__()
        self.attention = nn.Conv2d(3, slots, 3, padding=1)

    def forward(self, videos: Tensor) -> dict[str, Tensor]:
        logits = self.attention(videos.flatten(0, 1))
        masks = logits.softmax(1).unflatten(0, videos.shape[:2])  # [B, T, K, H, W]
        slots = torch.einsum("btkhw,btchw->btkc", masks, videos) / masks.sum((3, 4))[..., None]
        return {"slots": slots, "masks": masks}


class Conditioned(Video):
    def forward(self, videos: Tensor, boxes: Tensor) -> dict[str, Tensor]:
        output = super().forward(videos)
        return {**output, "slots": output["slots"] + boxes.sum((1, 2))[:, None, None, None]}


class Views(nn.Module):
    takes = "views"

    def forward(self, views: Tensor, cameras: Tensor) -> tuple[Tensor, Tensor]:
        masks = torch.stack([views[:, :, 0], 1 - views[:, :, 0]], 2)  # [B, V, 2, H, W]
        slots = views.mean((1, 3, 4))[:, None] + cameras.sum(1)[:, None] * torch.tensor([0.0, 1.0])[:, None]
        return slots, masks


def shapes(encoding: Encoding) -> dict[str, list[int]]:
    return {name: list(part.shape) for name, part in encoding.parts().items()}


def test_a_video_model_is_called_with_videos_in_batches_of_frames() -> None:
    calls: list[int] = []
    model = Video().eval()
    model.register_forward_pre_hook(lambda module, given: calls.append(len(given[0])))
    encoder = load(model, size=8, batch=8)
    encoding = encoder(VIDEOS)
    assert encoder.takes == "videos"
    assert calls == [2, 1]  # 8 frames are two videos of 4
    assert shapes(encoding) == {"slots": [3, 4, 5, 3], "masks": [3, 4, 5, 8, 8]}
    own = model(Preprocessing(8)(VIDEOS[2])[None])["slots"].detach()
    torch.testing.assert_close(own, encoding.codes[2:])
    assert encoder.kind == "slots"


def test_boxes_and_cameras_go_to_models_that_have_such_a_parameter() -> None:
    boxes, cameras = torch.rand(3, 2, 4), torch.rand(3, 4, 3)
    plain, conditioned, views = load(Video().eval()), load(Conditioned().eval()), load(Views())
    assert (plain.conditions, conditioned.conditions, views.conditions) == ((), ("boxes",), ("cameras",))
    plain(VIDEOS, boxes=boxes)  # ignored
    moved = conditioned(VIDEOS, boxes=boxes).codes - conditioned(VIDEOS, boxes=torch.zeros(3, 2, 4)).codes
    torch.testing.assert_close(moved[:, 0, 0, 0], boxes.sum((1, 2)))
    assert shapes(views(VIDEOS, cameras=cameras)) == {"slots": [3, 2, 3], "masks": [3, 4, 2, 16, 16]}


@pytest.mark.parametrize(
    ("model", "images", "given", "sentence"),
    [
        (Video(), VIDEOS[0], {}, r"Video takes videos \[B, T, 3, H, W\] and cannot take single images, \[4, 3"),
        (nn.Flatten(), VIDEOS, {}, r"Flatten takes images \[B, 3, H, W\] and cannot take videos or several views"),
        (Conditioned(), VIDEOS, {}, r"Conditioned needs boxes \[B, N, 4\], one row of boxes for each video"),
        (Conditioned(), VIDEOS, {"boxes": torch.rand(2, 5, 4)}, r"boxes must have the shape .* not \[2, 5, 4\]"),
        (Conditioned(), VIDEOS, {"boxes": torch.rand(3, 5, 3)}, r"boxes must have the shape .* not \[3, 5, 3\]"),
        (Conditioned(), VIDEOS, {"boxes": "none"}, "boxes must be numbers"),
        (Views(), VIDEOS, {"cameras": torch.rand(3, 5, 3)}, r"cameras must have the shape .* not \[3, 5, 3\]"),
        (Video(), VIDEOS * 2, {}, "videos must be uint8 or floats in 0..1, but range from"),
        (Video(), VIDEOS[:, :, :2], {}, r"videos must have the shape \[B, T, 3, H, W\], not"),
    ],
)
def test_other_inputs_are_refused(model: nn.Module, images: Tensor, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load(model)(images, **given)


def test_an_unknown_kind_of_input_is_refused() -> None:
    model = Video()
    model.takes = "video"
    with pytest.raises(InputError, match="Video has takes = 'video'; it must be 'images', 'videos' or 'views'"):
        Encoder(model)


SLOTS, MASKS = torch.rand(3, 4, 5, 6), torch.rand(3, 4, 5, 8, 8)


@pytest.mark.parametrize(
    ("output", "axes"),
    [
        (SLOTS, 4),
        ((SLOTS, MASKS), 4),
        ((SLOTS, MASKS[:, :, :, None]), 4),
        ((SLOTS[:, 0], MASKS), 3),
        ({"slots": SLOTS[:, 0], "masks": MASKS}, 3),
        (Encoding(slots=SLOTS, masks=MASKS), 4),
        ((SLOTS, torch.rand(3, 4, 3, 8, 8), MASKS), 4),
        (torch.rand(3, 7), 2),
    ],
)
def test_outputs_for_videos(output: Any, axes: int) -> None:
    encoding, _ = read_output(output, VIDEOS)
    assert encoding.codes.ndim == axes
    if not isinstance(output, Tensor):
        assert torch.equal(encoding.masks, MASKS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        (SLOTS[:, :3], "slots of 3 frames or views, and it was given 4"),
        (VIDEOS, "images of the same shape as its input"),
        ({"slots": torch.rand(3, 7)}, r"shape \[B, K, D\] or \[B, T, K, D\], not \[3, 7\]"),
        ({"slots": SLOTS, "masks": MASKS[:, :, :4]}, "5 slots but 4 masks"),
    ],
)
def test_other_outputs_for_videos_are_refused(output: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_output(output, VIDEOS)


def test_an_image_model_must_not_return_frames() -> None:
    with pytest.raises(InputError, match="returned 4 frames or views for each image"):
        read_output(Encoding(slots=SLOTS), VIDEOS[:, 0])


@pytest.mark.parametrize("model", [Video(), Conditioned(), Views()], ids=lambda model: type(model).__name__)
def test_check_probes_with_videos_or_views(model: nn.Module) -> None:
    report = check(model.eval(), size=16)
    assert report.passed, str(report)
    assert f"It gets {model.takes} [B, " in report["images"].sentence
    assert precheck(load(model, size=16)) == []


def test_check_finds_a_video_model_that_mixes_videos() -> None:
    class Mixing(Video):
        def forward(self, videos: Tensor) -> dict[str, Tensor]:
            return super().forward(videos + videos.mean(0))

    assert check(Mixing().eval(), size=16)["batches"].level == "problem"


def test_an_untrained_twin_takes_the_same() -> None:
    encoder = load(Conditioned().eval())
    twin = reinitialised(encoder, 1)
    boxes = torch.rand(3, 2, 4)
    assert (twin.takes, twin.conditions) == ("videos", ("boxes",))
    assert not torch.equal(twin(VIDEOS, boxes=boxes).codes, encoder(VIDEOS, boxes=boxes).codes)
