"""One door: what goes in, what comes out, and what stays untouched."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from strangers import Network, Slots, mean_colour
from torch import Tensor, nn

from alebrije import adapters
from alebrije.adapters import Preprocessing, load
from alebrije.encoding import Encoding
from alebrije.errors import InputError


class TestPreprocessing:
    def test_by_hand(self) -> None:
        image = torch.full((1, 3, 4, 4), 51, dtype=torch.uint8)  # 0.2
        made = Preprocessing(size=2, mean=(0.2, 0.1, 0.0), std=(1.0, 0.5, 0.1))(image)
        assert made.shape == (1, 3, 2, 2)
        torch.testing.assert_close(made[0, :, 0, 0], torch.tensor([0.0, 0.2, 2.0]))

    def test_shrinking_is_antialiased(self) -> None:
        stripes = torch.zeros(1, 3, 64, 64)
        stripes[..., ::4] = 1  # which plain interpolation would step over
        torch.testing.assert_close(Preprocessing(size=16)(stripes).mean(), torch.tensor(0.25), rtol=0, atol=0.02)

    def test_bytes_and_floats_are_the_same(self, images: Tensor) -> None:
        encoder = load(mean_colour, size=9, mean=0.5, std=0.25)
        torch.testing.assert_close(encoder(images).vector, encoder(images / 255).vector)

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"size": 0}, r"pixels \(size\) must be at least 1"),
            ({"size": 2.5}, r"pixels \(size\) must be a whole number"),
            ({"mean": (0.5, 0.5)}, "mean must be a number for each of the three colours"),
            ({"std": (1.0, 0.0, 1.0)}, "std must be greater than 0"),
            ({"mean": float("nan")}, "mean must be a number for each"),
            ({"mean": "grey"}, "mean must be a number or three"),
            ({"batch": 0}, "batch must be at least 1"),
        ],
    )
    def test_what_cannot_work_is_refused(self, settings: dict[str, Any], sentence: str) -> None:
        with pytest.raises(InputError, match=sentence):
            load(mean_colour, **settings)

    @pytest.mark.parametrize(
        ("wrong", "sentence"),
        [
            (torch.zeros(3, 8, 8), r"must have the shape \[B, 3, H, W\]"),
            (torch.zeros(2, 1, 8, 8), r"must have the shape \[B, 3, H, W\]"),
            (torch.zeros(0, 3, 8, 8), r"must have the shape"),
            (torch.full((1, 3, 8, 8), 255.0), "reach from 255 to 255"),
            (torch.full((1, 3, 8, 8), -1.0), "reach from -1"),
            (torch.full((1, 3, 8, 8), torch.nan), "reach from nan"),
            (torch.zeros(1, 3, 8, 8, dtype=torch.int64), "not int64"),
            ("a.png", "not str"),
        ],
    )
    def test_wrong_images_are_refused(self, wrong: Any, sentence: str) -> None:
        with pytest.raises(InputError, match=sentence):
            load(mean_colour)(wrong)


class TestEncoding:
    def test_a_network_in_batches(self, images: Tensor) -> None:
        network = Network().eval()
        encoder = load(network, size=16, mean=0.5, std=0.5, batch=3)
        prepared = Preprocessing(16, (0.5,) * 3, (0.5,) * 3)(images)
        found = encoder(images)
        torch.testing.assert_close(found.vector, network(prepared).detach())
        assert found.codes.requires_grad is False
        assert (encoder.kind, encoder.draws, encoder.name) == ("vector", False, "Network")
        assert encoder.parameters == sum(weight.numel() for weight in network.parameters())

    def test_slots_and_masks(self, images: Tensor) -> None:
        encoder = load(Slots(), batch=4)
        found = encoder(images)
        assert found.slots is not None
        assert found.masks is not None
        assert (found.slots.shape, found.masks.shape) == ((7, 5, 6), (7, 5, 20, 20))
        assert encoder.kind == "slots"
        assert encoder.reading == "slots [B, 5, 6], under 'slots', with masks"
        torch.testing.assert_close(encoder.codes(images), found.slots)

    def test_eval_mode_and_nothing_left_behind(self, images: Tensor) -> None:
        network = Network().train()
        network.layer1.eval()
        modes = [part.training for part in network.modules()]
        weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        state, kept = torch.random.get_rng_state(), images.clone()
        encoder = load(network)
        torch.testing.assert_close(encoder(images).codes, encoder(images).codes, rtol=0, atol=0)
        assert [part.training for part in network.modules()] == modes
        assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())
        assert torch.equal(state, torch.random.get_rng_state())
        assert torch.equal(images, kept)

    def test_a_failure_leaves_the_mode_as_it_was(self) -> None:
        network = Network().train()
        with pytest.raises(InputError, match=r"Network failed on images \[1, 3, 8, 8\]: RuntimeError"):
            load(lambda images: network(images[:, :2]), name="Network")(torch.zeros(1, 3, 8, 8))
        assert network.training

    def test_a_model_cannot_spoil_the_images(self, images: Tensor) -> None:
        floats = images / 255
        kept = floats.clone()
        load(lambda given: given.zero_().mean((2, 3)))(floats)
        assert torch.equal(floats, kept)

    def test_random_numbers_depend_on_images_and_seed(self, images: Tensor) -> None:
        encoder = load(lambda given: torch.randn(len(given), 4))
        first = encoder(images).codes
        torch.rand(3)
        assert torch.equal(first, encoder(images).codes)
        assert torch.equal(first, encoder(images / 255).codes)
        assert not torch.equal(first, encoder(images, seed=1).codes)
        assert not torch.equal(first, encoder(images.flip(0)).codes)

    def test_weights_of_other_types(self, images: Tensor) -> None:
        for kind in (torch.float64, torch.bfloat16):
            found = load(nn.Sequential(nn.Flatten(), nn.Linear(1200, 2)).to(kind))(images)
            assert found.codes.dtype == torch.float32

    def test_a_layer(self, images: Tensor) -> None:
        network = Network()
        encoder = load(network, layer="layer1")
        features = network.eval().layer1(torch.relu(network.bn1(network.conv1(images / 255)))).mean((2, 3))
        torch.testing.assert_close(encoder(images).vector, features.detach())
        assert encoder.reading == "the mean over the places of a feature map [B, 16, 5, 5]"
        assert not network.layer1._forward_hooks
        assert encoder.fingerprint != load(network).fingerprint
        with pytest.raises(InputError, match="no layer 'layer9'; did you mean 'layer1'"):
            load(network, layer="layer9")
        with pytest.raises(InputError, match="no layers that can be seen"):
            load(mean_colour, layer="conv1")

    def test_a_device_that_is_not_there(self) -> None:
        with pytest.raises(InputError, match="cannot be brought to the device 'nowhere'"):
            load(Network(), device="nowhere")

    def test_only_what_can_be_called(self) -> None:
        with pytest.raises(InputError, match="something that can be called with images, not int"):
            load(3)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="Network is a class; give an instance"):
            load(Network)
        with pytest.raises(InputError, match="adapted already"):
            load(load(Network()))


Pair = namedtuple("Pair", "slots masks")


class TestOutputs:
    codes, slots, masks = torch.rand(7, 4), torch.rand(7, 2, 4), torch.rand(7, 2, 20, 20)

    def read(self, output: Any, images: Tensor) -> tuple[Encoding, str]:
        encoder = load(lambda given: output)
        found = encoder(images)
        assert encoder.reading is not None
        return found, encoder.reading

    @pytest.mark.parametrize(
        "output",
        [
            codes,
            codes.double(),
            codes.numpy(),
            Encoding(vector=codes),
            {"codes": codes, "logits": torch.rand(7, 9)},
            {"anything": codes, "loss": 3.0},
            (codes, torch.rand(7, 9)),
            [codes],
            (Encoding(vector=codes), None),
            codes[:, :, None, None].expand(-1, -1, 3, 3),
            {"pooler_output": codes[:, :, None, None], "last_hidden_state": torch.rand(7, 4, 3, 3)},
            {"last_hidden_state": codes[:, None].expand(-1, 5, -1)},
            SimpleNamespace(image_embeds=codes, text_embeds=None),
        ],
        ids=lambda output: type(output).__name__,
    )
    def test_vectors(self, output: Any, images: Tensor) -> None:
        found, _ = self.read(output, images)
        assert found.vector is not None
        torch.testing.assert_close(found.vector, self.codes)

    @pytest.mark.parametrize(
        "output",
        [
            Encoding(slots=slots, masks=masks),
            {"masks": masks, "slots": slots},
            {"masks": masks[:, :, None], "slots": slots},
            SimpleNamespace(slots=slots, masks=masks),
            Pair(slots, masks),
            (slots, torch.rand(7, 3, 20, 20), masks),
        ],
        ids=lambda output: type(output).__name__,
    )
    def test_slots_with_masks(self, output: Any, images: Tensor) -> None:
        found, _ = self.read(output, images)
        assert found.slots is not None
        assert found.masks is not None
        assert torch.equal(found.slots, self.slots)
        assert torch.equal(found.masks, self.masks)

    def test_a_drawing_is_kept(self, images: Tensor) -> None:
        found, how = self.read({"vector": self.codes, "reconstruction": torch.rand(7, 3, 20, 20)}, images)
        assert found.reconstruction is not None
        assert how == "a vector [B, 4], under 'vector', with reconstruction"

    @pytest.mark.parametrize(
        ("output", "sentence"),
        [
            (None, "the model returned None; accepted are"),
            (codes[:, 0], r"a tensor \[7\]; accepted are"),
            (torch.rand(7, 1, 2, 3, 4), r"a tensor \[7, 1, 2, 3, 4\]; accepted are"),
            (codes[:5], "gave 5 codes for 7 images"),
            (torch.rand(7, 0), r"codes of shape \[7, 0\], which hold no numbers"),
            (codes.long(), "must hold floats, not int64"),
            (torch.rand(7, 3, 20, 20), "returned images like those it was given"),
            ((torch.rand(7, 3, 20, 20), codes, codes), "not clear which part holds the codes"),
            ({"a": codes, "b": codes}, "a dictionary with 'a', 'b'"),
            ({}, "a dictionary with nothing in it"),
            ((), "a tuple of nothing"),
            (codes.tolist(), "returned a list of 7 parts, each a list, and it is not clear"),
            ([[1.0], codes], r"returned a list of a list and a tensor \[7, 4\], and"),
            ("codes", "an object of type str"),
            ({"slots": codes}, r"slots that the model returned must have the shape \[B, K, D\]"),
            ({"slots": slots, "masks": masks[:, :1]}, "2 slots but 1 masks"),
        ],
        ids=lambda output: type(output).__name__,
    )
    def test_everything_else_is_refused(self, output: Any, sentence: str, images: Tensor) -> None:
        with pytest.raises(InputError, match=sentence):
            self.read(output, images)


def test_the_room_is_public() -> None:
    import alebrije

    assert alebrije.adapters is adapters
    assert all(hasattr(adapters, name) for name in adapters.__all__)
