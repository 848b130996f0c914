"""A run becomes an entry of the zoo and is loaded again; what is damaged or unknown is refused in one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from alebrije import zoo
from alebrije.data.checked_arrays import file_record
from alebrije.errors import InputError
from alebrije.train import checkpoints, load_weights
from alebrije.train.options import RunOptions
from alebrije.train.plan import plan
from alebrije.train.run import run_plan
from alebrije.zoo.entries import halved

COMMAND = "alebrije train factor-vae --preset tiny"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A FactorVAE after two steps: its discriminator is no part of the encoder."""
    folder = tmp_path_factory.mktemp("zoo") / "run"
    made = plan("factor-vae", preset_name="tiny", images=64, settings={"steps": 2, "batch": 4}, dry_run=False)
    run_plan(made, folder, RunOptions(check_size=1))
    return folder


@pytest.fixture(scope="module")
def made(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zoo of one model."""
    folder = tmp_path_factory.mktemp("zoo") / "models"
    zoo.add_run(run, "factor-vae", COMMAND, minutes=0.5, machine="a test", commit="0123456", folder=folder)
    return folder


@pytest.fixture
def entry(made: Path, tmp_path: Path) -> Path:
    """A copy of that zoo that may be damaged."""
    shutil.copytree(made, tmp_path / "models")
    return tmp_path / "models"


def trained(run: Path) -> nn.Module:
    model = plan("factor-vae", preset_name="tiny", images=64, settings={"steps": 2, "batch": 4}).new_model()
    load_weights(checkpoints(run)[-1], model)
    return model.eval()


def test_codes_are_those_of_the_run_within_half_precision(run: Path, made: Path) -> None:
    images = torch.rand(4, 3, 64, 64)
    theirs, ours = zoo.load("factor-vae", made), trained(run)
    assert not theirs.training
    assert {weight.dtype for weight in theirs.parameters()} == {torch.float32}
    with torch.no_grad():
        expected = ours(images).vector
        assert torch.allclose(theirs(images).vector, expected, atol=2e-3 * float(expected.abs().max()))
    for name, weight in theirs.state_dict().items():
        if not name.startswith("discriminator."):
            assert torch.equal(weight, ours.state_dict()[name].half().float())


def test_the_card_says_how_it_was_trained(made: Path) -> None:
    card = zoo.card("factor-vae", made)
    assert (card.name, card.title, card.world) == ("factor-vae", "FactorVAE", "dsprites")
    assert (card.training.command, card.training.steps, card.training.minutes) == (COMMAND, 2, 0.5)
    assert card.read_plan().recipe.steps == 2
    assert zoo.names(made) == ("factor-vae",)
    assert card.megabytes == (made / "factor-vae" / "weights.safetensors").stat().st_size / 1e6


def test_only_what_encodes_and_decodes_is_kept(made: Path) -> None:
    stored = load_file(made / "factor-vae" / "weights.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    assert not [name for name in stored if name.startswith("discriminator.")]
    assert zoo.card("factor-vae", made).megabytes < 1.1


def test_an_entry_is_replaced(run: Path, entry: Path) -> None:
    zoo.add_run(run, "factor-vae", "another command", folder=entry)
    assert zoo.card("factor-vae", entry).training.command == "another command"


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes, but"),
        (lambda path: path.write_bytes(bytes([path.read_bytes()[0]]) + path.read_bytes()[1:-9] + b"123456789"), "SHA"),
        (lambda path: path.unlink(), "cannot be read: No such file or directory"),
    ],
)
def test_damaged_weights(damage: object, sentence: str, entry: Path) -> None:
    damage(entry / "factor-vae" / "weights.safetensors")  # type: ignore[operator]
    with pytest.raises(InputError, match=sentence):
        zoo.load("factor-vae", entry)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda weights: {"other": torch.zeros(1)}, "holds the weights of another model than FactorVAE"),
        (
            lambda weights: weights | {"extra": torch.zeros(1)},
            "holds the weights of another model than FactorVAE: extra",
        ),
        (lambda weights: {name: torch.zeros(1) for name in weights}, "weights of other shapes"),
    ],
)
def test_weights_of_another_model(change: object, sentence: str, entry: Path) -> None:
    path = entry / "factor-vae" / "weights.safetensors"
    save_file(change(load_file(path)), path)  # type: ignore[operator]
    card = zoo.card("factor-vae", entry).model_copy(update={"weights": file_record(path)})
    (entry / "factor-vae" / "card.json").write_text(card.model_dump_json())
    with pytest.raises(InputError, match=sentence):
        zoo.load("factor-vae", entry)


def test_a_file_that_is_no_file_of_weights(entry: Path) -> None:
    path = entry / "factor-vae" / "weights.safetensors"
    path.write_bytes(b"no weights")
    card = zoo.card("factor-vae", entry).model_copy(update={"weights": file_record(path)})
    (entry / "factor-vae" / "card.json").write_text(card.model_dump_json())
    with pytest.raises(InputError, match="is no file of weights"):
        zoo.load("factor-vae", entry)


@pytest.mark.parametrize("text", ["{}", "[1]", "no JSON", '{"name": 3}'])
def test_a_damaged_card(text: str, entry: Path) -> None:
    (entry / "factor-vae" / "card.json").write_text(text)
    with pytest.raises(InputError, match="is damaged"):
        zoo.card("factor-vae", entry)


def test_an_unknown_name(made: Path) -> None:
    with pytest.raises(InputError, match="the zoo has no model 'factor-vea'; did you mean 'factor-vae'"):
        zoo.load("factor-vea", made)


def test_values_that_half_precision_cannot_hold() -> None:
    with pytest.raises(InputError, match="the weight scale has values that half precision cannot hold"):
        halved({"scale": torch.tensor([1e6])})
    assert halved({"count": torch.tensor(2**40)})["count"] == 2**40


def test_a_run_without_a_checkpoint(tmp_path: Path, run: Path) -> None:
    shutil.copy(run / "run.json", tmp_path)
    with pytest.raises(InputError, match="the run has no checkpoint yet"):
        zoo.add_run(tmp_path, "nothing", COMMAND, folder=tmp_path / "models")
