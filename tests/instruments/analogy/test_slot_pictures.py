"""What is kept and shown of the slots of a case."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from alebrije import adapters
from alebrije.encoding import Encoding
from alebrije.instruments.analogy.slot_galleries import slot_strips
from alebrije.instruments.analogy.slot_pictures import slot_arrays
from alebrije.studies.model import LoadedModel, Model

SLOTS, SIDE = 3, 16


class Stripes(nn.Module):
    """Slots [red, green, blue, place]: slot k colours the k-th third of the image."""

    def forward(self, images: Tensor) -> Encoding:
        return Encoding(slots=images.new_zeros(len(images), SLOTS, 4))

    def decode_slots(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        images = slots[:, :, :3, None, None].expand(-1, -1, -1, SIDE, SIDE)
        place = slots[:, :, 3].round().long()
        columns = torch.arange(SIDE) * SLOTS // SIDE
        masks = (place[:, :, None] == columns).float()[:, :, None].expand(-1, -1, SIDE, -1)
        return images, masks


def scene(*colours: tuple[float, float, float]) -> Tensor:
    return torch.tensor([[[*colour, float(place)] for place, colour in enumerate(colours)]])


@pytest.fixture(scope="module")
def model() -> Model:
    return LoadedModel(adapters.load(Stripes()))


@pytest.fixture(scope="module")
def codes() -> dict[str, Tensor]:
    grey, red, green, blue = (0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
    return {
        "a": scene(grey, grey, red),
        "b": scene(green, grey, red)[:, [1, 0, 2]],  # slots have no order
        "c": scene(grey, grey, blue),
        "d": scene(green, grey, blue),
    }


def test_rows_are_matched_and_the_last_is_what_d_should_be(model: Model, codes: dict[str, Tensor]) -> None:
    found = slot_arrays(model, codes, codes, 0)
    assert found["slot_images"].shape == (5, SLOTS, 3, SIDE, SIDE)
    np.testing.assert_array_equal(found["slot_images"][4], found["slot_images"][3])
    np.testing.assert_array_equal(found["slot_masks"][4], found["slot_masks"][3])
    np.testing.assert_allclose(found["slot_masses"].sum(1), 1)
    np.testing.assert_allclose(np.sort(found["slot_masses"][0]), [5 / 16, 5 / 16, 6 / 16])
    assert not found["slot_blanked"].any()
    unit = torch.nn.functional.normalize(codes["a"][0], dim=1)
    nearest = (unit @ unit.T).fill_diagonal_(-1).amax(1)
    np.testing.assert_allclose(np.sort(found["slot_cosines"][0]), nearest.sort().values, atol=1e-6)


def test_blanked_slots_are_marked(model: Model, codes: dict[str, Tensor]) -> None:
    cleaned = dict(codes)
    cleaned["a"] = codes["a"].clone()
    cleaned["a"][0, 1] = codes["a"].mean(1)
    found = slot_arrays(model, cleaned, codes, 0)
    assert found["slot_blanked"].sum(1).tolist() == [1, 0, 0, 0]
    scenes = {role: np.zeros((1, 3, SIDE, SIDE), np.uint8) for role in "abcd"}
    strips = slot_strips({**{name: np.asarray(value) for name, value in found.items()}, **scenes})
    assert [strip.title for strip in strips] == ["A", "B", "C", "D", "B - A + C"]
    marks = [[picture.mark for picture in strip.pictures].count("wrong") for strip in strips]
    assert marks == [2, 0, 0, 0, 0]  # in its mask, and alone
    assert {len(strip.pictures) for strip in strips} == {2 + 2 * SLOTS}
    assert {picture.label for strip in strips for picture in strip.pictures[:1]} == {"A", "B", "C", "D"}
    shares = [picture.label.split(", ")[1] for picture in strips[3].pictures[2:5]]
    assert sorted(shares) == ["31 %", "31 %", "38 %"]


def test_nothing_is_kept_without_slots_or_a_decoder_of_slots(codes: dict[str, Tensor], model: Model) -> None:
    plain = LoadedModel(adapters.load(lambda images: images.mean((2, 3))))
    assert slot_arrays(plain, codes, codes, 0) == {}
    vectors = {role: code.flatten(1) for role, code in codes.items()}
    assert slot_arrays(model, vectors, vectors, 0) == {}


class OddDecoder(Stripes):
    """`decode_slots` of another form than ours."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def decode_slots(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        images, masks = super().decode_slots(slots)
        if self.kind == "fails":
            raise ValueError("no slots today")
        if self.kind == "one tensor":
            return images  # type: ignore[return-value]
        return (images, masks[:, :, None]) if self.kind == "masks with a channel" else (images, masks[:, :2])


@pytest.mark.parametrize("kind", ["fails", "one tensor", "too few masks", "masks with a channel"])
def test_a_decoder_of_another_form_costs_no_score(kind: str, codes: dict[str, Tensor]) -> None:
    found = slot_arrays(LoadedModel(adapters.load(OddDecoder(kind))), codes, codes, 0)
    assert bool(found) == (kind == "masks with a channel")


def test_incomplete_samples_show_nothing(model: Model, codes: dict[str, Tensor]) -> None:
    scenes = {role: np.zeros((1, 3, SIDE, SIDE), np.uint8) for role in "abcd"}
    whole = {name: np.asarray(value) for name, value in slot_arrays(model, codes, codes, 0).items()} | scenes
    assert slot_strips(whole)
    for name in whole:
        if name != "slot_case":
            assert slot_strips({key: value for key, value in whole.items() if key != name}) == ()
    assert slot_strips(whole | {"slot_masks": whole["slot_masks"][:, :2]}) == ()
    assert slot_strips(whole | {"slot_case": np.array(7)}) == ()
