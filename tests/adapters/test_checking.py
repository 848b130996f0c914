"""What `check` says about models that can be evaluated, and about each way in which one cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from strangers import Network, Slots, mean_colour
from torch import Tensor, nn

from alebrije import models
from alebrije.adapters import Adapted, CheckReport, Finding, Preprocessing, check, load, look_before
from alebrije.errors import InputError
from alebrije.train.plan import plan


class Variant(nn.Module):
    """Flattens and projects, with something wrong around it."""

    def __init__(self, wrong: Any) -> None:
        super().__init__()
        self.project, self.wrong = nn.Linear(3 * 16 * 16, 6), wrong

    def forward(self, images: Tensor) -> Any:
        return self.wrong(self, images)

    def codes(self, images: Tensor) -> Tensor:
        codes: Tensor = self.project(images.flatten(1))
        return codes


def found(wrong: Any, about: str) -> Finding:
    return looked_at(wrong)[about]


def looked_at(wrong: Any) -> CheckReport:
    torch.manual_seed(0)
    return check(Variant(wrong).eval(), size=16)


class TestGoodModels:
    @pytest.mark.parametrize(
        "model", [Network().eval(), Slots().eval(), mean_colour], ids=["network", "slots", "function"]
    )
    def test_there_is_nothing_to_say(self, model: Any) -> None:
        report = check(model, size=32, mean=0.5, std=0.5)
        assert report.passed, str(report)
        assert {one.level for one in report.findings} == {"ok"}
        assert str(report).startswith(f"{report.name} can be evaluated.\n")

    def test_an_adapted_model_is_taken_as_it_is(self) -> None:
        encoder = load(Network().eval(), size=24)
        assert "resized to 24 x 24" in check(encoder)["images"].sentence

    def test_training_mode_is_noted_and_left(self) -> None:
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
        made = plan("oracle", preset_name="tiny", images=4, settings={"steps": 1})
        oracle = Adapted(made.new_model().eval(), name="mine", preprocessing=Preprocessing(size=made.size), plan=made)
        report = check(oracle)
        assert report.passed
        assert report["output"].sentence.startswith("It reads scenes, not images")
        assert "pixels" not in str(report)
        assert look_before(oracle) == []

    def test_nothing_is_left_behind(self) -> None:
        network = Network().eval()
        weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        state = torch.random.get_rng_state()
        check(network)
        assert torch.equal(state, torch.random.get_rng_state())
        assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())


class TestWrongModels:
    def test_dropout_that_is_always_on(self) -> None:
        finding = found(lambda self, images: self.codes(F.dropout(images, 0.5)), "repeats")
        assert finding.level in ("note", "problem")
        assert "random" in finding.sentence
        assert "training=self.training" in finding.mend

    def test_a_wrapped_network_in_training_mode(self) -> None:
        network = Network(16).train()
        hidden = {"networks": np.array([network], dtype=object)}  # where it cannot be seen
        report = check(lambda images: hidden["networks"][0](images), size=32)
        assert not report.passed
        assert report["repeats"].level == "problem"

    def test_random_codes(self) -> None:
        report = looked_at(lambda self, images: torch.randn(len(images), 6))
        assert report["repeats"].level == report["reacts"].level == "problem"
        assert not report.passed

    def test_random_slots(self) -> None:
        assert found(lambda self, images: torch.randn(len(images), 3, 6), "reacts").level == "problem"

    def test_a_little_noise(self) -> None:
        finding = found(lambda self, images: self.codes(images) + 1e-3 * torch.randn(len(images), 6), "repeats")
        assert finding.level == "note"

    def test_noise_of_its_own(self) -> None:
        draw = np.random.default_rng(0)
        finding = found(lambda self, images: self.codes(images) + torch.from_numpy(draw.normal(size=6)), "repeats")
        assert finding.level == "problem"
        assert "other codes each time" in finding.sentence

    def test_not_a_number(self) -> None:
        report = looked_at(lambda self, images: self.codes(images) * torch.nan)
        assert "for images of scenes, black, white, noise" in report["numbers"].sentence
        assert report["numbers"].level == "problem"
        assert "repeats" not in report

    def test_not_a_number_on_flat_images_only(self) -> None:
        def standardised(self: Variant, images: Tensor) -> Tensor:
            middle, scale = images.mean((1, 2, 3), keepdim=True), images.std((1, 2, 3), keepdim=True)
            return self.codes((images - middle) / scale)

        report = looked_at(standardised)
        assert report["numbers"].level == "problem"
        assert "for images of black, white." in report["numbers"].sentence
        assert report["repeats"].level == "ok"

    def test_codes_that_depend_on_the_batch(self) -> None:
        finding = found(lambda self, images: self.codes(images) - self.codes(images).mean(0), "batches")
        assert finding.level == "problem"
        assert "depends on the others in its batch" in finding.sentence

    def test_batch_norm_without_running_statistics(self) -> None:
        norm = nn.BatchNorm2d(3, track_running_stats=False)
        assert found(lambda self, images: self.codes(norm(images)), "batches").level == "problem"

    def test_codes_that_depend_on_the_place_in_the_batch(self) -> None:
        finding = found(lambda self, images: self.codes(images) + torch.arange(len(images))[:, None], "batches")
        assert finding.level == "problem"

    def test_codes_that_depend_on_a_late_place_in_the_batch(self) -> None:
        finding = found(lambda self, images: self.codes(images) + (torch.arange(len(images)) > 4)[:, None], "batches")
        assert finding.level == "problem"

    def test_a_squeezed_batch(self) -> None:
        finding = found(lambda self, images: self.codes(images).squeeze(), "batches")
        assert finding.level == "problem"
        assert "squeeze" in finding.mend

    @pytest.mark.parametrize(
        ("wrong", "sentence"),
        [
            (lambda self, images: self.codes(images)[:, 0], "The model returned a tensor [8]; accepted are"),
            (lambda self, images: self.codes(images)[1:], "gave 7 codes for 8 images"),
            (lambda self, images: None, "The model returned None; accepted are"),
            (lambda self, images: images, "returned images like those it was given"),
            (lambda self, images: self.codes(images).argmax(1, keepdim=True), "must hold floats, not int64"),
            (lambda self, images: 1 / 0, "Variant failed on images [8, 3, 16, 16]: ZeroDivisionError"),
            (lambda self, images: self.codes(images[..., 1:]), "Variant failed on images [8, 3, 16, 16]: RuntimeError"),
        ],
        ids=["rank", "length", "none", "images", "integers", "raises", "shapes"],
    )
    def test_no_codes(self, wrong: Any, sentence: str) -> None:
        report = looked_at(wrong)
        assert not report.passed
        assert sentence in report["output"].sentence
        assert report["output"].mend

    def test_it_changes_its_input(self) -> None:
        finding = found(lambda self, images: self.codes(images.mul_(2)), "input")
        assert (finding.level, finding.mend[:5]) == ("note", "clone")

    def test_it_gives_the_same_for_all_images(self) -> None:
        assert found(lambda self, images: self.codes(images * 0), "reacts").level == "problem"

    def test_it_wants_bytes(self) -> None:
        finding = found(lambda self, images: self.codes((images * 0.999).floor()), "reacts")
        assert finding.level == "problem"
        assert "not bytes" in finding.mend

    def test_it_tracks_gradients(self) -> None:
        def tracked(self: Variant, images: Tensor) -> Tensor:
            with torch.enable_grad():
                return self.codes(images)

        assert found(tracked, "gradients").level == "note"

    def test_tokens_are_no_slots(self) -> None:
        finding = found(lambda self, images: images.flatten(2).transpose(1, 2), "output")
        assert (finding.level, "tokens" in finding.mend) == ("note", True)

    def test_it_cannot_be_told_from_others(self) -> None:
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


def test_the_report_can_be_read() -> None:
    text = str(looked_at(lambda self, images: self.codes(images.mul_(0))))
    assert text.startswith("Variant cannot be evaluated as it is: 1 problem and 1 note.")
    assert "-> " in text
    assert max(map(len, text.splitlines())) <= 110


def test_embeddings(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).normal(size=(5, 4)).astype("f4")
    np.savez(tmp_path / "codes.npz", codes=codes)
    report = check(f"embeddings:{tmp_path / 'codes.npz'}")
    assert report.passed
    assert report["images"].level == "note"
    codes[2, 1] = np.nan
    np.savez(tmp_path / "codes.npz", codes=codes)
    assert "1 of the codes is not a number" in check(f"embeddings:{tmp_path / 'codes.npz'}")["numbers"].sentence
    codes[3, 1] = np.inf
    np.savez(tmp_path / "codes.npz", codes=codes)
    assert "2 of the codes are not numbers" in check(f"embeddings:{tmp_path / 'codes.npz'}")["numbers"].sentence
    np.savez(tmp_path / "codes.npz", codes=np.ones((5, 4)))
    assert check(f"embeddings:{tmp_path / 'codes.npz'}")["reacts"].level == "problem"


class TestLookBefore:
    """A quick look before an evaluation: it refuses, or says what bears on the scores."""

    def test_what_is_fine_is_not_mentioned(self) -> None:
        assert look_before(Adapted(Network())) == []

    @pytest.mark.parametrize(
        ("model", "words"),
        [
            (lambda images: images.mean((2, 3)) / 0, "it gives codes that are not numbers, or infinite"),
            (lambda images: torch.rand(len(images), 8), "its codes are random"),
            (lambda images: torch.ones(len(images), 8), "it gives all images the same codes"),
            (lambda images: images.mean(), r"the model returned a tensor \[\]"),
        ],
    )
    def test_what_leaves_no_meaning_is_refused(self, model: Callable[..., Tensor], words: str) -> None:
        with pytest.raises(InputError, match=f"^mine cannot be evaluated as it is: {words}") as caught:
            look_before(Adapted(model, name="mine"))
        assert "\n" not in str(caught.value)

    def test_what_is_doubtful_is_told(self) -> None:
        (told,) = look_before(Adapted(lambda images: images.mean((2, 3)) - images.mean((0, 2, 3)), name="mine"))
        assert told.startswith("mine: the code of an image depends on the others in its batch")

    def test_a_model_of_single_images(self) -> None:
        def single(images: Tensor) -> Tensor:
            if len(images) > 1:
                raise RuntimeError("one at a time")
            return images[:, :, ::16, ::16].flatten(1)

        assert look_before(Adapted(single, batch=1)) == []
        with pytest.raises(InputError, match="it failed on images"):
            look_before(Adapted(single, name="mine"))

    def test_few_images_are_looked_at(self) -> None:
        seen: list[int] = []

        def counting(images: Tensor) -> Tensor:
            seen.append(len(images))
            return images[:, :, ::16, ::16].flatten(1)

        look_before(Adapted(counting))
        assert sum(seen) < 64

    def test_embeddings(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "codes.npz", codes=np.eye(4, dtype=np.float32))
        with pytest.raises(InputError, match="does not say which images"):
            look_before(load(f"embeddings:{tmp_path / 'codes.npz'}"))

    def test_embeddings_with_a_code_that_is_not_a_number(self, tmp_path: Path) -> None:
        codes, images = np.eye(4, dtype=np.float32), np.eye(4, 48, dtype=np.uint8).reshape(4, 3, 4, 4)
        np.savez(tmp_path / "codes.npz", codes=codes, images=images)
        assert look_before(load(f"embeddings:{tmp_path / 'codes.npz'}")) == []
        codes[2, 1] = np.nan
        np.savez(tmp_path / "codes.npz", codes=codes, images=images)
        with pytest.raises(InputError, match="1 of the codes is not a number, or infinite; embed this image again"):
            look_before(load(f"embeddings:{tmp_path / 'codes.npz'}"))

    def test_advice_about_the_size_is_right_everywhere(self) -> None:
        fixed = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 4))
        with pytest.raises(InputError, match="--pixels on the command line, pixels= in evaluate, size= in check"):
            look_before(Adapted(fixed))
        assert look_before(Adapted(fixed), pixels=16) == []
