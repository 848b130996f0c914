"""What `check` says about good models, and about every way in which a model can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from alebrije import models
from alebrije.adapters import CheckItem, CheckReport, Encoder, Preprocessing, check, load, precheck
from alebrije.adapters.check import SIZES
from alebrije.errors import InputError
from alebrije.train.plan import plan
from tests.adapters.user_models import Network, Slots, mean_colour


class Variant(nn.Module):
    """Flattens and projects, with a fault around it."""

    def __init__(self, fault: Any) -> None:
        super().__init__()
        self.project, self.fault = nn.Linear(3 * 16 * 16, 6), fault

    def forward(self, images: Tensor) -> Any:
        return self.fault(self, images)

    def codes(self, images: Tensor) -> Tensor:
        codes: Tensor = self.project(images.flatten(1))
        return codes


def check_topic(fault: Any, topic: str) -> CheckItem:
    return check_variant(fault)[topic]


def check_variant(fault: Any) -> CheckReport:
    torch.manual_seed(0)
    return check(Variant(fault).eval(), size=16)


class TestGoodModels:
    @pytest.mark.parametrize(
        "model", [Network().eval(), Slots().eval(), mean_colour], ids=["network", "slots", "function"]
    )
    def test_everything_is_ok(self, model: Any) -> None:
        report = check(model, size=32, mean=0.5, std=0.5)
        assert report.passed, str(report)
        assert {item.level for item in report.items} == {"ok"}
        assert str(report).startswith(f"{report.name} can be evaluated.\n")

    def test_an_encoder_is_used_as_it_is(self) -> None:
        encoder = load(Network().eval(), size=24)
        assert "resized to 24 x 24" in check(encoder)["images"].sentence

    def test_training_mode_is_noted_and_kept(self) -> None:
        network = Network().train()
        report = check(network, size=32)
        assert report.passed
        assert report["eval mode"].level == "note"
        assert network.training

    def test_slot_attention_is_random_and_can_be_evaluated(self) -> None:
        report = check(models.build("slot-attention", size=16, slots=3, channels=8).eval(), size=16)
        assert report.passed, str(report)
        assert report["repeats"].level == "note"
        assert "seeded by the images" in report["repeats"].sentence

    def test_a_run_that_reads_scenes(self) -> None:
        made = plan("svib-oracle", preset_name="tiny", images=4, settings={"steps": 1})
        oracle = Encoder(made.new_model().eval(), name="mine", preprocessing=Preprocessing(size=made.size), plan=made)
        report = check(oracle)
        assert report.passed
        assert report["output"].sentence.startswith("It reads scenes, not images")
        assert "pixels" not in str(report)
        assert precheck(oracle) == []

    def test_weights_and_generators_are_unchanged(self) -> None:
        network = Network().eval()
        weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        state = torch.random.get_rng_state()
        check(network)
        assert torch.equal(state, torch.random.get_rng_state())
        assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())


class TestWrongModels:
    def test_dropout_that_is_always_on(self) -> None:
        item = check_topic(lambda self, images: self.codes(F.dropout(images, 0.5)), "repeats")
        assert item.level in ("note", "problem")
        assert "random" in item.sentence
        assert "training=self.training" in item.fix

    def test_a_wrapped_network_in_training_mode(self) -> None:
        network = Network(16).train()
        hidden = {"networks": np.array([network], dtype=object)}  # where it is not visible
        report = check(lambda images: hidden["networks"][0](images), size=32)
        assert not report.passed
        assert report["repeats"].level == "problem"

    def test_random_codes(self) -> None:
        report = check_variant(lambda self, images: torch.randn(len(images), 6))
        assert report["repeats"].level == report["reacts"].level == "problem"
        assert not report.passed

    def test_random_slots(self) -> None:
        assert check_topic(lambda self, images: torch.randn(len(images), 3, 6), "reacts").level == "problem"

    def test_a_little_noise(self) -> None:
        item = check_topic(lambda self, images: self.codes(images) + 1e-3 * torch.randn(len(images), 6), "repeats")
        assert item.level == "note"

    def test_noise_from_another_generator(self) -> None:
        rng = np.random.default_rng(0)
        item = check_topic(lambda self, images: self.codes(images) + torch.from_numpy(rng.normal(size=6)), "repeats")
        assert item.level == "problem"
        assert "different codes for the same images each time" in item.sentence

    def test_nan(self) -> None:
        report = check_variant(lambda self, images: self.codes(images) * torch.nan)
        assert "NaN or infinite codes for these images: scenes, black, white, noise" in report["numbers"].sentence
        assert report["numbers"].level == "problem"
        assert "repeats" not in report

    def test_nan_on_flat_images_only(self) -> None:
        def standardised(self: Variant, images: Tensor) -> Tensor:
            middle, scale = images.mean((1, 2, 3), keepdim=True), images.std((1, 2, 3), keepdim=True)
            return self.codes((images - middle) / scale)

        report = check_variant(standardised)
        assert report["numbers"].level == "problem"
        assert "NaN or infinite codes for these images: black, white." in report["numbers"].sentence
        assert report["repeats"].level == "ok"

    def test_codes_that_depend_on_the_batch(self) -> None:
        item = check_topic(lambda self, images: self.codes(images) - self.codes(images).mean(0), "batches")
        assert item.level == "problem"
        assert "depends on the others in its batch" in item.sentence

    def test_batch_norm_without_running_statistics(self) -> None:
        norm = nn.BatchNorm2d(3, track_running_stats=False)
        assert check_topic(lambda self, images: self.codes(norm(images)), "batches").level == "problem"

    def test_codes_that_depend_on_the_index_in_the_batch(self) -> None:
        item = check_topic(lambda self, images: self.codes(images) + torch.arange(len(images))[:, None], "batches")
        assert item.level == "problem"

    def test_codes_that_depend_on_a_late_index_in_the_batch(self) -> None:
        item = check_topic(
            lambda self, images: self.codes(images) + (torch.arange(len(images)) > 4)[:, None], "batches"
        )
        assert item.level == "problem"

    def test_a_squeezed_batch(self) -> None:
        item = check_topic(lambda self, images: self.codes(images).squeeze(), "batches")
        assert item.level == "problem"
        assert "squeeze" in item.fix

    @pytest.mark.parametrize(
        ("fault", "sentence"),
        [
            (lambda self, images: self.codes(images)[:, 0], "The model returned a tensor [8]; accepted are"),
            (lambda self, images: self.codes(images)[1:], "returned 7 codes for 8 images"),
            (lambda self, images: None, "The model returned None; accepted are"),
            (lambda self, images: images, "returned images of the same shape as its input"),
            (lambda self, images: self.codes(images).argmax(1, keepdim=True), "must be floats, not int64"),
            (lambda self, images: 1 / 0, "Variant failed on images [8, 3, 16, 16]: ZeroDivisionError"),
            (lambda self, images: self.codes(images[..., 1:]), "Variant failed on images [8, 3, 16, 16]: RuntimeError"),
        ],
        ids=["rank", "length", "none", "images", "integers", "raises", "shapes"],
    )
    def test_no_codes(self, fault: Any, sentence: str) -> None:
        report = check_variant(fault)
        assert not report.passed
        assert sentence in report["output"].sentence
        assert report["output"].fix

    def test_it_modifies_its_input(self) -> None:
        item = check_topic(lambda self, images: self.codes(images.mul_(2)), "input")
        assert (item.level, item.fix[:5]) == ("note", "clone")

    def test_it_returns_the_same_codes_for_all_images(self) -> None:
        assert check_topic(lambda self, images: self.codes(images * 0), "reacts").level == "problem"

    def test_it_expects_uint8(self) -> None:
        item = check_topic(lambda self, images: self.codes((images * 0.999).floor()), "reacts")
        assert item.level == "problem"
        assert "not uint8" in item.fix

    def test_it_tracks_gradients(self) -> None:
        def tracked(self: Variant, images: Tensor) -> Tensor:
            with torch.enable_grad():
                return self.codes(images)

        assert check_topic(tracked, "gradients").level == "note"

    def test_tokens_are_not_slots(self) -> None:
        item = check_topic(lambda self, images: images.flatten(2).transpose(1, 2), "output")
        assert (item.level, "tokens" in item.fix) == ("note", True)

    def test_it_has_no_fingerprint(self) -> None:
        class Session:
            __slots__ = ()

            def __call__(self, images: Tensor) -> Tensor:
                return images.mean((2, 3))

        assert check(Session())["fingerprint"].level == "problem"
        assert check(Session(), name="a session").passed

    def test_it_cannot_be_loaded(self) -> None:
        report = check("no_such_module:encoder")
        assert not report.passed
        assert report["model"].sentence.startswith("There is no module 'no_such_module'")


def test_the_text_of_the_report() -> None:
    text = str(check_variant(lambda self, images: self.codes(images.mul_(0))))
    assert text.startswith("Variant cannot be evaluated as it is: 1 problem and 1 note.")
    assert "-> " in text
    assert max(map(len, text.splitlines())) <= 110


class Decoder(nn.Module):
    """Returns images of 64 pixels a side, whatever it gets: a reconstruction that is taken for codes."""

    def forward(self, images: Tensor) -> Tensor:
        return F.interpolate(images, (64, 64), mode="bilinear")


def fixed_size(images: Tensor) -> Tensor:
    if images.shape[-1] != 128:
        raise ValueError("the wrong size")
    return images.mean((2, 3))


ODD: dict[str, Callable[[Tensor], Any]] = {
    "reconstruction": Decoder(),
    "reconstruction of half the size": lambda images: F.avg_pool2d(images, 2),
    "one size": fixed_size,
    "NaN at one size": lambda images: images.mean((2, 3)) / (images.shape[-1] == 128),
    "constant at one size": lambda images: images.mean((2, 3)) * (images.shape[-1] == 128),
    "dictionary": lambda images: {"vector": images.mean((2, 3)), "loss": torch.zeros(())},
    "dictionary without codes": lambda images: {"loss": torch.zeros(()), "step": 1},
    "tuple": lambda images: (images.mean((2, 3)), None),
    "tuple of images first": lambda images: (images, images.mean((2, 3))),
    "float64": lambda images: images.mean((2, 3)).double(),
    "integers": lambda images: (255 * images.mean((2, 3))).int(),
    "complex": lambda images: images.mean((2, 3)) * 1j,
    "numpy": lambda images: images.mean((2, 3)).numpy(),
    "meta": lambda images: images.mean((2, 3)).to("meta"),
    "sparse": lambda images: images.mean((2, 3)).to_sparse(),
    "scalars": lambda images: images.mean(),
    "one number per image": lambda images: images.mean((1, 2, 3)),
    "batch-dependent": lambda images: images.mean((2, 3)) - images.mean((0, 2, 3)),
    "dropout": lambda images: F.dropout(images.mean((2, 3)), 0.5),
    "black is NaN": lambda images: images.mean((2, 3)) / images.amax((1, 2, 3))[:, None],
    "tokens": lambda images: F.adaptive_avg_pool2d(images, 24).flatten(2).transpose(1, 2),
    "feature map": lambda images: F.avg_pool2d(images.repeat(1, 2, 1, 1), 8),
    "none": lambda images: None,
    "one at a time": lambda images: images.mean((2, 3)) if len(images) == 1 else 1 / 0,
}


@pytest.mark.parametrize("model", ODD.values(), ids=ODD)
def test_check_and_precheck_agree(model: Callable[[Tensor], Any]) -> None:
    """What an evaluation refuses or warns of, `check` reports, in the same words."""
    report = check(model, name="mine")
    words = " ".join(item.sentence for item in report.items).replace("mine", "it").lower()
    try:
        warnings = precheck(Encoder(model, name="mine"), SIZES)
    except InputError as refusal:
        assert report.blocked
        warnings = [str(refusal).replace("cannot be evaluated as it is: ", "")]
        assert not report.passed
    else:
        assert not report.blocked
    for warning in warnings:
        clause = warning.removeprefix("mine: ").removeprefix("mine ").partition(";")[0]
        assert clause.replace("mine", "it").lower() in words


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "reconstruction",
            "With images of 64 x 64 pixels, the model returned images of the same shape as its input; it must return "
            "codes.",
        ),
        (
            "one size",
            "With images of 64 x 64 pixels, mine failed on images [8, 3, 64, 64]: ValueError: the wrong size.",
        ),
        (
            "meta",
            "The model returned its vector on the device 'meta', where tensors have no values; return it on the device "
            "of the images.",
        ),
        ("sparse", "The model returned its vector as a sparse tensor; return a dense one: .to_dense()."),
        ("tokens", "It returns slots [B, 576, 3]. Analogy cannot match more than 16 slots, so it uses their mean."),
        (
            "reconstruction of half the size",
            "It returns the mean over the pixels of a feature map [B, 3, 64, 64]; with images of 64 x 64 pixels, the "
            "mean over the pixels of a feature map [B, 3, 32, 32]. Three channels may be the colours of an image.",
        ),
    ],
)
def test_what_is_said_about_odd_outputs(name: str, sentence: str) -> None:
    assert check(ODD[name], name="mine")["output"].sentence == sentence


def test_one_size_suffices_if_it_is_the_only_one() -> None:
    assert not check(fixed_size, rendered=(128,)).blocked
    assert not check(fixed_size, size=128).blocked


def test_scores_that_may_be_wrong_are_no_refusal() -> None:
    text = str(check(ODD["batch-dependent"], name="mine"))
    assert text.startswith("mine can be evaluated, but its scores may be wrong: 1 problem.")


def test_a_batch_as_large_as_in_an_evaluation() -> None:
    def small_batches(images: Tensor) -> Tensor:
        if len(images) > 16:
            raise RuntimeError("too many")
        return images.mean((2, 3))

    items = [item for item in check(small_batches, name="mine").items if item.topic == "batches"]
    assert items[-1].sentence.startswith("With 64 images at once, mine failed on images [64, 3, 128, 128]: ")
    assert not check(small_batches, batch=16).blocked


def test_weights_without_values() -> None:
    with torch.device("meta"):
        network = Network()
    report = check(network)
    assert report["model"].sentence == (
        "Network has its weight 'conv1.weight' on the device 'meta', where tensors have no values; load the weights "
        "first."
    )
    assert report.blocked


def test_embeddings(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).normal(size=(5, 4)).astype("f4")
    np.savez(tmp_path / "codes.npz", codes=codes)
    report = check(f"embeddings:{tmp_path / 'codes.npz'}")
    assert report.blocked  # as `precheck` refuses it
    assert report["images"].level == "problem"
    codes[2, 1] = np.nan
    np.savez(tmp_path / "codes.npz", codes=codes)
    assert "1 of the codes is NaN or infinite" in check(f"embeddings:{tmp_path / 'codes.npz'}")["numbers"].sentence
    codes[3, 1] = np.inf
    np.savez(tmp_path / "codes.npz", codes=codes)
    assert "2 of the codes are NaN or infinite" in check(f"embeddings:{tmp_path / 'codes.npz'}")["numbers"].sentence
    np.savez(tmp_path / "codes.npz", codes=np.ones((5, 4)))
    assert check(f"embeddings:{tmp_path / 'codes.npz'}")["reacts"].level == "problem"


class TestPrecheck:
    def test_a_good_model_gives_no_warnings(self) -> None:
        assert precheck(Encoder(Network())) == []

    @pytest.mark.parametrize(
        ("model", "words"),
        [
            (lambda images: images.mean((2, 3)) / 0, "it returns NaN or infinite codes"),
            (lambda images: torch.rand(len(images), 8), "its codes are random"),
            (lambda images: torch.ones(len(images), 8), "it returns the same codes for all images"),
            (lambda images: images.mean(), r"the model returned a tensor \[\]"),
        ],
    )
    def test_meaningless_scores_are_refused(self, model: Callable[..., Tensor], words: str) -> None:
        with pytest.raises(InputError, match=f"^mine cannot be evaluated as it is: {words}") as caught:
            precheck(Encoder(model, name="mine"))
        assert "\n" not in str(caught.value)

    def test_doubtful_scores_give_a_warning(self) -> None:
        (warning,) = precheck(Encoder(lambda images: images.mean((2, 3)) - images.mean((0, 2, 3)), name="mine"))
        assert warning.startswith("mine: the code of an image depends on the others in its batch")

    def test_a_model_of_single_images(self) -> None:
        def single(images: Tensor) -> Tensor:
            if len(images) > 1:
                raise RuntimeError("one at a time")
            return images[:, :, ::16, ::16].flatten(1)

        assert precheck(Encoder(single, batch=1)) == []
        with pytest.raises(InputError, match="it failed on images"):
            precheck(Encoder(single, name="mine"))

    def test_few_images_are_encoded(self) -> None:
        sizes: list[int] = []

        def counting(images: Tensor) -> Tensor:
            sizes.append(len(images))
            return images[:, :, ::16, ::16].flatten(1)

        precheck(Encoder(counting))
        assert sum(sizes) < 64

    def test_embeddings(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "codes.npz", codes=np.eye(4, dtype=np.float32))
        with pytest.raises(InputError, match="does not say which images"):
            precheck(load(f"embeddings:{tmp_path / 'codes.npz'}"))

    def test_embeddings_with_nan(self, tmp_path: Path) -> None:
        codes, images = np.eye(4, dtype=np.float32), np.eye(4, 48, dtype=np.uint8).reshape(4, 3, 4, 4)
        np.savez(tmp_path / "codes.npz", codes=codes, images=images)
        assert precheck(load(f"embeddings:{tmp_path / 'codes.npz'}")) == []
        codes[2, 1] = np.nan
        np.savez(tmp_path / "codes.npz", codes=codes, images=images)
        with pytest.raises(InputError, match="1 of the codes is NaN or infinite; encode this image again"):
            precheck(load(f"embeddings:{tmp_path / 'codes.npz'}"))

    def test_the_advice_about_the_size_names_every_option(self) -> None:
        fixed = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 4))
        with pytest.raises(InputError, match="--pixels on the command line, pixels= in evaluate, size= in check"):
            precheck(Encoder(fixed))
        assert precheck(Encoder(fixed), pixels=16) == []
