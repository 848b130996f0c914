"""`alebrije check`: whether a user's model can be evaluated, and how to fix it if not."""

from __future__ import annotations

from pathlib import Path

import pytest

from alebrije import evaluate
from alebrije.adapters.check import SIZES
from alebrije.cli import main
from alebrije.cli.check import rendered_sizes
from alebrije.errors import InputError
from alebrije.instruments import NAMES

MODELS = """
import torch
from torch import nn

class Good(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())

    def forward(self, images):
        return self.layers(images)

def loaded():
    return Good()

class Mean(nn.Module):
    def forward(self, images):
        return images.mean((2, 3))

class At64(Mean):
    def forward(self, images):
        if images.shape[-1] != 64:
            raise ValueError("64 pixels only")
        return super().forward(images)

class Noisy(Good):
    def forward(self, images):
        return torch.randn(len(images), 8)
"""


@pytest.fixture
def user_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module of models in the current folder."""
    name = f"user_models_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_a_good_model(user_models: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", f"{user_models}:Good", "--pixels", "32", "--mean", "0.5", "0.5", "0.5", "--device", "cpu"])
    out = capsys.readouterr().out
    assert f"{user_models}:Good can be evaluated" in out
    assert "vector [B, 32]" in out


def test_a_name_cannot_control_the_terminal(user_models: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", f"{user_models}:Mean", "--pixels", "32", "--device", "cpu", "--name", "\x1b[31mred\x1b[0m"])
    out = capsys.readouterr().out
    assert "red can be evaluated" in out
    assert "\x1b" not in out


def test_weights_that_may_be_random_are_noted(user_models: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The weights of a class may be random; a function may load weights, and some models have none."""
    for name, noted in (("Good", True), ("loaded", False), ("Mean", False)):
        main(["check", f"{user_models}:{name}", "--pixels", "32", "--device", "cpu"])
        assert ("its weights are random (fixed seed)" in " ".join(capsys.readouterr().out.split())) == noted
    main(["eval", f"{user_models}:Good", "--tests", "mig", "--size", "tiny", "--pixels", "32", "--out", "found"])
    assert f"{user_models}:Good: it was made from its class" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "code"), [(["check"], 1), (["eval", "--out", "found"], 2)])
def test_too_many_pixels_are_refused(
    user_models: str, command: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*command, f"{user_models}:Good", "--pixels", "20000"])
    assert stopped.value.code == code
    printed = capsys.readouterr()
    assert "ixels (size) must be at most 2,048, not 20,000" in printed.out + printed.err
    with pytest.raises(InputError, match="must be at most 2,048"):
        evaluate(lambda images: images.mean((2, 3)), tests="mig", size="tiny", pixels=20_000)


def test_a_random_model(user_models: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["check", f"{user_models}:Noisy", "--device", "cpu"])
    assert stopped.value.code == 1
    out = capsys.readouterr().out
    assert "cannot be evaluated as it is" in out
    assert "random" in out


@pytest.mark.parametrize(("spec", "words"), [(":Godo", "did you mean 'Good'?"), ("x:Good", "x")])
def test_a_missing_model(user_models: str, spec: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["check", user_models + spec, "--device", "cpu"])
    assert stopped.value.code == 1
    assert words in capsys.readouterr().out


def test_a_reference_needs_no_check(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "oracle"])
    assert capsys.readouterr().out == "oracle is a built-in reference and can be evaluated.\n"


def test_the_sizes_are_those_of_an_evaluation() -> None:
    assert set(rendered_sizes(NAMES, "small")) == set(SIZES)
    assert set(rendered_sizes(NAMES, "tiny")) == {32, 64}
    assert rendered_sizes(["snc"], "paper") == (64,)


def test_check_and_eval_refuse_in_the_same_words(user_models: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", f"{user_models}:At64", "--device", "cpu"])
    checked = " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        main(["eval", f"{user_models}:At64", "--device", "cpu", "--out", "found"])
    refused = capsys.readouterr().err
    words = f"{user_models}:At64 failed on images [8, 3, 128, 128]: ValueError: 64 pixels only"
    assert words in checked
    assert words.removeprefix(f"{user_models}:At64 ") in refused
    for tests in (["neurons"], ["grouping", "snc"]):
        main(["check", f"{user_models}:At64", "--device", "cpu", "--tests", *tests])
        assert "can be evaluated" in capsys.readouterr().out
