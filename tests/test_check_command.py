"""`alebrije check`: whether a stranger's model can be evaluated, in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest

from alebrije import evaluate
from alebrije.cli import main
from alebrije.errors import InputError

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

class Noisy(Good):
    def forward(self, images):
        return torch.randn(len(images), 8)
"""


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of models in the current folder, as a user has it."""
    name = f"strangers_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_a_model_that_is_fine(strangers: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", f"{strangers}:Good", "--pixels", "32", "--mean", "0.5", "0.5", "0.5", "--device", "cpu"])
    out = capsys.readouterr().out
    assert f"{strangers}:Good can be evaluated" in out
    assert "vector [B, 32]" in out


def test_weights_that_may_be_nobodys_are_noted(strangers: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A class is made here, so its weights may be random; a function may have loaded them, and some have none."""
    for name, noted in (("Good", True), ("loaded", False), ("Mean", False)):
        main(["check", f"{strangers}:{name}", "--pixels", "32", "--device", "cpu"])
        assert ("unless that loads weights they are random" in capsys.readouterr().out) == noted
    main(["eval", f"{strangers}:Good", "--tests", "mig", "--size", "tiny", "--pixels", "32", "--out", "found"])
    assert f"{strangers}:Good: it was made here from its class" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "code"), [(["check"], 1), (["eval", "--out", "found"], 2)])
def test_images_that_are_too_large_are_refused(
    strangers: str, command: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*command, f"{strangers}:Good", "--pixels", "20000"])
    assert stopped.value.code == code
    told = capsys.readouterr()
    assert "ixels (size) must be at most 2,048, not 20,000" in told.out + told.err
    with pytest.raises(InputError, match="must be at most 2,048"):
        evaluate(lambda images: images.mean((2, 3)), tests="mig", size="tiny", pixels=20_000)


def test_a_model_that_is_not(strangers: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["check", f"{strangers}:Noisy", "--device", "cpu"])
    assert stopped.value.code == 1
    out = capsys.readouterr().out
    assert "cannot be evaluated as it is" in out
    assert "random" in out


@pytest.mark.parametrize(("spec", "words"), [(":Godo", "did you mean 'Good'?"), ("x:Good", "x")])
def test_a_model_that_is_not_there(strangers: str, spec: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["check", strangers + spec, "--device", "cpu"])
    assert stopped.value.code == 1
    assert words in capsys.readouterr().out
