"""SAVi: the release's sizes, slots that follow objects, boxes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from alebrije import models
from alebrije.errors import InputError
from alebrije.metrics import adjusted_rand_index, labels_from_masks
from alebrije.models.learner import Batch
from alebrije.models.savi import Predictor, SAVi, SAViBoxes, SAViSupervised, init_as_flax, largest_first, pick
from tests.models.conftest import Fit

TINY: dict[str, Any] = {"size": 16, "frames": 3, "slots": 3, "channels": 16, "slot_size": 32, "projections": 32}
TINY |= {"heads": 2, "predictor_hidden": 32, "decoder_channels": 16}
CLASSES = (SAVi, SAViBoxes, SAViSupervised)


def tiny(kind: type[SAVi] = SAVi, **changes: Any) -> Any:
    torch.manual_seed(0)
    return kind(**TINY | changes)


def squares(videos: int, frames: int = 3, seed: int = 0, side: int = 4) -> tuple[Batch, Tensor]:
    """Two squares that move to the right and to the left, with their masks [B, T, H, W]; both frames show both."""
    random = torch.Generator().manual_seed(seed)
    masks = torch.zeros(videos, frames, 16, 16, dtype=torch.long)
    boxes = torch.zeros(videos, frames, 4, 4)
    flow, images = torch.ones(videos, frames, 3, 16, 16), torch.full((videos, frames, 3, 16, 16), 0.5)
    tops = torch.randint(0, 9 - side, (videos, 2), generator=random) + torch.tensor([0, 8])
    lefts = torch.randint(frames, 17 - side - frames, (videos, 2), generator=random)
    for video in range(videos):
        for frame in range(frames):
            for item, way in enumerate((1, -1)):
                top, left = int(tops[video, item]), int(lefts[video, item]) + way * frame
                area = (slice(top, top + side), slice(left, left + side))
                masks[video, frame][area] = item + 1
                boxes[video, frame, item] = torch.tensor([top, left, top + side, left + side]) / 16
                flow[video, frame, 1 + item][area] = 0
                images[video, frame][:, *area] = torch.tensor([1.0, 0.2])[item]
    return {"images": images, "flow": flow, "boxes": boxes}, masks


def test_parameter_counts() -> None:
    # the release has 895,268 numbers with boxes, of which 8,320 are fixed coordinates; torch's GRU has 256 biases more
    assert models.get("savi-boxes").parameter_count() == 895_268 - 8_320 + 256
    boxes = (4 + 1) * 256 + (256 + 1) * 128
    assert models.get("savi").parameter_count() == models.get("savi-boxes").parameter_count() - boxes
    read = (128 + 1) * 256 + (256 + 1) * 4
    assert models.get("savi-supervised").parameter_count() == models.get("savi-boxes").parameter_count() + read


def test_weights_start_as_in_flax() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 2000)
    init_as_flax(layer)
    assert float(layer.weight.detach().std()) == pytest.approx(1 / 8, rel=0.02)
    assert float(layer.weight.detach().abs().max()) <= 2 / 8 / 0.87962566 + 1e-6
    upward = torch.nn.ConvTranspose2d(8, 32, 5)
    init_as_flax(upward)
    assert float(upward.weight.detach().std()) == pytest.approx((8 * 25) ** -0.5, rel=0.05)


def test_the_predictor_is_attention_and_an_mlp_with_norms_after_the_sums() -> None:
    torch.manual_seed(0)
    predictor, slots = Predictor(8, heads=2, hidden=16), torch.randn(3, 5, 8)
    own = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    own.in_proj_weight.data, own.in_proj_bias.data = predictor.projections.weight.data, predictor.projections.bias.data
    own.out_proj.load_state_dict(predictor.output.state_dict())
    mixed = F.layer_norm(slots + own(slots, slots, slots)[0], (8,), eps=1e-6)
    expected = F.layer_norm(mixed + predictor.mlp(mixed), (8,), eps=1e-6)
    torch.testing.assert_close(predictor(slots), expected)
    with pytest.raises(InputError, match="slot_size must be divisible by heads, but they are 8 and 3"):
        Predictor(8, heads=3, hidden=16)


def test_later_frames_do_not_change_earlier_slots() -> None:
    model, (batch, _) = tiny(SAViBoxes).eval(), squares(2)
    model.initial.log_scale.data.fill_(-20)  # no noise
    changed = batch["images"].clone()
    changed[:, 2] = 0
    slots, others = (model(images, batch["boxes"][:, 0]).slots for images in (batch["images"], changed))
    torch.testing.assert_close(slots[:, :2], others[:, :2])
    assert not torch.allclose(slots[:, 2], others[:, 2])


@pytest.mark.parametrize("kind", CLASSES)
def test_any_number_of_slots_and_frames_at_test_time(kind: type[SAVi]) -> None:
    model, (batch, _) = tiny(kind).eval(), squares(2, frames=5)
    given = () if kind is SAVi else (batch["boxes"][:, 0],)
    for count in (1, 2, 7):
        encoding = model(batch["images"], *given, slots=count)
        assert encoding.slots.shape == (2, 5, count, 32)
        assert encoding.masks.shape == (2, 5, count, 16, 16)
        torch.testing.assert_close(encoding.masks.sum(2), torch.ones(2, 5, 16, 16))
    assert encoding.reconstruction is None
    assert tiny(kind, target="rgb").eval()(batch["images"], *given).reconstruction.shape == batch["images"].shape


@pytest.mark.parametrize("gaussian", ["standard", "learned"])
@pytest.mark.parametrize("kind", CLASSES)
def test_surplus_slots_do_not_start_identical(kind: type[SAVi], gaussian: str) -> None:
    model, (batch, _) = tiny(kind, gaussian=gaussian).eval(), squares(2)
    given = () if kind is SAVi else (batch["boxes"][:, 0],)
    slots = model(batch["images"], *given, slots=9).slots
    between = torch.cdist(slots[:, -1], slots[:, -1]) + 1e3 * torch.eye(9)
    assert float(between.detach().amin()) > 1e-3


def test_the_first_slot_is_the_ground_and_the_next_are_the_largest_boxes() -> None:
    boxes = torch.tensor([[[0, 0, 0.1, 0.1], [0, 0, 0, 0], [0.2, 0.2, 0.9, 0.9], [0, 0, 0.3, 0.3]]])
    order, has_box = largest_first(boxes, 5)
    assert order.tolist() == [[2, 3, 0, 1, 4]]
    assert has_box.tolist() == [[True, True, True, False, False]]
    assert largest_first(boxes, 2)[0].tolist() == [[2, 3]]
    torch.testing.assert_close(pick(boxes, order)[0, 0], boxes[0, 2])
    assert pick(boxes, order)[0, 4].tolist() == [0, 0, 0, 0]
    model = tiny(SAViBoxes)
    slots = model.slots_of(pick(boxes, order), has_box)
    torch.testing.assert_close(slots[0, 0], model.from_box(torch.zeros(4)))
    torch.testing.assert_close(slots[0, 1], model.from_box(boxes[0, 2]))
    assert not torch.allclose(slots[0, 5], model.from_box(torch.zeros(4)))


def test_the_release_s_windows_are_learned_with_a_loss_summed_over_pixels() -> None:
    model, (batch, _) = tiny(), squares(2)
    slots = model.follow(batch["images"], model.start(batch))
    images, logits = model.decoder(slots.flatten(0, 1))
    mixed = (images * logits.softmax(1)).sum(1).view(2, 3, 3, 16, 16)
    expected = (mixed - batch["flow"]).square().sum() / 2
    torch.testing.assert_close(model.error(slots, batch), expected)


def test_supervision_counts_visible_objects_that_had_a_box() -> None:
    model, (batch, _) = tiny(SAViSupervised), squares(2)
    losses = model.training_loss(batch, torch.zeros(()))
    assert float(losses["loss"]) == pytest.approx(float(losses["pixels"] + losses["boxes"]), rel=1e-6)
    hidden = batch | {"boxes": batch["boxes"].clone()}
    hidden["boxes"][:, -1] = 0
    assert float(model.training_loss(hidden, torch.zeros(()))["boxes"]) == 0
    no_first = batch | {"boxes": batch["boxes"].clone()}
    no_first["boxes"][:, 0] = 0
    assert float(model.training_loss(no_first, torch.zeros(()))["boxes"]) == 0


@pytest.fixture(scope="module")
def crossing() -> Batch:
    """Enough videos that a model cannot memorise them in a few steps."""
    return squares(256, frames=2, side=6)[0]


@pytest.mark.parametrize("kind", [SAViBoxes, SAViSupervised])
def test_with_boxes_it_learns_to_follow_two_squares(kind: type[SAVi], crossing: Batch, fit: Fit) -> None:
    model = tiny(kind, frames=2, hidden=64)
    fit(model, lambda step: {name: part[8 * step % 256 :][:8] for name, part in crossing.items()}, 150, 4e-3, 0.05)
    held_out, true = squares(16, frames=2, seed=1, side=6)
    groups = labels_from_masks(model(held_out["images"], held_out["boxes"][:, 0]).masks)
    assert float(adjusted_rand_index(true, groups, ignore=0).mean()) > 0.6


def test_without_boxes_it_learns_the_colours_of_videos(fit: Fit) -> None:
    colours = torch.rand(64, 1, 3, 1, 1, generator=torch.Generator().manual_seed(0))
    videos = colours.expand(64, 2, 3, 16, 16)
    history = fit(tiny(frames=2, target="rgb"), lambda step: {"images": videos[8 * step % 64 :][:8]}, 200, 1e-3, 0.05)
    blind = float((videos - videos.mean(0)).square().sum()) / 64  # the least error that does not depend on the video
    assert sum(history[-8:]) / 8 < 0.75 * blind


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"size": 24}, "size must be a power of 2 and at least 8 pixels, not 24"),
        ({"slots": 0}, "slots must be at least 1, not 0"),
        ({"frames": 0}, "frames must be at least 1, not 0"),
    ],
)
def test_bad_settings(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        tiny(**settings)


def test_bad_inputs() -> None:
    model, (batch, _) = tiny(SAViBoxes), squares(2)
    with pytest.raises(InputError, match=r"boxes must have the shape \[2, N, 4\], not \[1, 4, 4\]"):
        model(batch["images"], batch["boxes"][:1, 0])
    with pytest.raises(InputError, match=r"videos must have the shape \[B, T, 3, 16, 16\], not \[2, 3, 16, 16\]"):
        model(batch["images"][:, 0], batch["boxes"][:, 0])
    with pytest.raises(InputError, match="SAVi needs at least one slot, not 0"):
        model(batch["images"], batch["boxes"][:, 0], slots=0)
    with pytest.raises(InputError, match=r"100,000,000 slots would need about [0-9,]+ GB, and cpu has"):
        model(batch["images"], batch["boxes"][:, 0], slots=10**8)
