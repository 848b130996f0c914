"""Specs of Python objects and of runs trained here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from alebrije.adapters import load
from alebrije.adapters.untrained import reinitialised
from alebrije.checks import check_images
from alebrije.errors import InputError
from alebrije.train import checkpoints
from alebrije.train.options import RunOptions
from alebrije.train.plan import plan
from alebrije.train.run import run_plan
from alebrije.train.run_folder import claim_folder
from tests.adapters.user_models import Autoencoder


class TestPython:
    @pytest.mark.parametrize(
        ("spec", "width"),
        [
            ("tests.adapters.user_models:Network", 10),
            ("tests.adapters.user_models:make_network", 4),
            ("tests.adapters.user_models:instance", 3),
            ("tests.adapters.user_models:mean_colour", 3),
            ("tests.adapters.user_models:instance.forward", 3),
        ],
    )
    def test_an_object_a_class_or_a_factory(self, spec: str, width: int, images: Tensor) -> None:
        encoder = load(spec, size=16)
        assert encoder(images).codes.shape == (7, width)
        assert encoder.name == spec
        assert load(spec, name="mine").name == "mine"

    def test_random_weights_are_the_same_each_time(self) -> None:
        state = torch.random.get_rng_state()
        assert (
            load("tests.adapters.user_models:Network").fingerprint
            == load("tests.adapters.user_models:Network").fingerprint
        )
        assert torch.equal(state, torch.random.get_rng_state())

    def test_the_fingerprint_is_the_same_in_another_process(self, own_folder: Path) -> None:
        """Results are looked up by fingerprint later, so it must not contain addresses or the order of a set."""
        text = "from torch import nn\nnet = nn.Linear(48, 2)\nnn.init.ones_(net.weight)\nnn.init.zeros_(net.bias)\n"
        text += (
            "names = {'a', 'b', 'c', 'd'}\n\n\ndef encode(images):\n    return net(images.flatten(1)) * len(names)\n"
        )
        (own_folder / "steady.py").write_text(text)
        code = "from alebrije.adapters import load; print(load('steady:encode', size=4).fingerprint)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == load("steady:encode", size=4).fingerprint

    def test_the_current_directory(self, own_folder: Path, images: Tensor) -> None:
        (own_folder / "zoo").mkdir()
        (own_folder / "zoo" / "mine.py").write_text("def encode(images):\n    return images.mean((2, 3))\n")
        assert load("zoo.mine:encode")(images).codes.shape == (7, 3)

    @pytest.mark.parametrize(
        ("spec", "sentence"),
        [
            ("resnet18", "there is no model 'resnet18'; a spec is one of package.module:object, timm:NAME"),
            ("tests.adapters.user_models:", "there is no model"),
            ("weights.pt", "for a file of weights, name a function that makes the model and loads them"),
            (
                "tests.adapters.user_models:Netwrok",
                "'tests.adapters.user_models' has no 'Netwrok'; did you mean 'Network'?",
            ),
            ("tests.adapters.user_models:number", "is int, which cannot be called with images"),
            ("tests.adapters.user_models:NeedsWidth", "needs width; name an instance, or a function that makes one"),
            ("tim:resnet18", "there is no module 'tim'; did you mean 'timm:resnet18'?"),
            ("alebrije.modles:build", "there is no module 'alebrije.modles'; did you mean 'alebrije.models'?"),
            ("my_zooo:encode", "there is no module 'my_zooo'; did you mean 'my_zoo'?"),
            ("broken:encode", "the module 'broken' cannot be imported: ZeroDivisionError"),
            ("hungry:encode", "the module 'hungry' needs 'no_such_package', which is not installed"),
            ("my_zoo:fails", "my_zoo:fails could not be made: ValueError: no weights"),
            ("my_zoo:nothing", "my_zoo:nothing made NoneType, which cannot be called"),
        ],
    )
    def test_wrong_specs_give_one_sentence(self, spec: str, sentence: str, own_folder: Path) -> None:
        text = "def fails():\n    raise ValueError('no weights\\nat all')\n\n\ndef nothing():\n    pass\n"
        (own_folder / "my_zoo.py").write_text(text)
        (own_folder / "broken.py").write_text("1 / 0\n")
        (own_folder / "hungry.py").write_text("import no_such_package\n")
        with pytest.raises(InputError) as caught:
            load(spec)
        assert sentence in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps of the tiny preset, with a checkpoint after each."""
    folder = tmp_path_factory.mktemp("runs") / "beta-vae"
    made = plan("beta-vae", preset_name="tiny", settings={"steps": 2}, images=32)
    run_plan(made, folder, RunOptions(check_size=4, save_every=1))
    return folder


class TestCheckpoints:
    def test_the_last_checkpoint(self, run: Path, images: Tensor) -> None:
        encoder = load(f"checkpoint:{run}")
        assert encoder.plan is not None
        assert encoder.preprocessing.size == encoder.plan.size == 64
        assert encoder.kind == "vector"
        encoding = encoder(images)
        assert encoding.reconstruction is not None
        assert encoding.reconstruction.shape == (7, 3, 64, 64)
        trained = run_plan(encoder.plan, run)
        torch.testing.assert_close(encoding.vector, trained(encoder.preprocessing(images)).vector.detach())
        assert load(f"checkpoint:{run}").fingerprint == encoder.fingerprint

    def test_a_given_checkpoint(self, run: Path) -> None:
        first, last = checkpoints(run)
        assert load(f"checkpoint:{last}").fingerprint == load(f"checkpoint:{run}").fingerprint
        assert load(f"checkpoint:{first}").fingerprint != load(f"checkpoint:{run}").fingerprint

    def test_folders_without_a_run_or_checkpoint(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="there is no such folder"):
            load(f"checkpoint:{tmp_path / 'nowhere'}")
        with pytest.raises(InputError, match="the folder is not a run"):
            load(f"checkpoint:{tmp_path}")
        claim_folder(plan("beta-vae", preset_name="tiny"), tmp_path)
        with pytest.raises(InputError, match="has no checkpoint yet"):
            load(f"checkpoint:{tmp_path}")

    def test_it_is_in_eval_mode_and_predicts_the_same_twice(self, tmp_path: Path) -> None:
        made = plan("svib-oracle", preset_name="tiny", settings={"steps": 1, "dropout": 0.5}, images=4)
        run_plan(made, tmp_path / "run", RunOptions(check_size=1))
        model: Any = load(f"checkpoint:{tmp_path / 'run'}").model
        assert not any(part.training for part in model.modules())
        batch = {"factors": torch.zeros(2, 2, 3, dtype=torch.long), "floats": torch.rand(2, 2, 2)}
        assert torch.equal(model.predict(batch), model.predict(batch))

    def test_a_folder_with_a_question_mark_in_its_name(
        self, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(run, tmp_path / "lr=1?b=2")
        monkeypatch.chdir(tmp_path)
        assert load("checkpoint:lr=1?b=2").fingerprint == load(f"checkpoint:{run}").fingerprint
        with pytest.raises(InputError, match=r"^checkpoint:lr=1\?b=3: there is no such folder$"):
            load("checkpoint:lr=1?b=3")


class TestMethods:
    MODULE = "tests.adapters.user_models"

    def test_a_method_is_called_in_place_of_the_model(self, images: Tensor) -> None:
        by_name = load(f"{self.MODULE}:Autoencoder.encode", size=4)
        by_option = load(f"{self.MODULE}:Autoencoder", size=4, method="encode")
        given = load(Autoencoder(), size=4, method="encode")
        assert by_name(images).codes.shape == given(images).codes.shape == (7, 5)
        assert torch.equal(by_name(images).codes, by_option(images).codes)
        assert by_name.fingerprint == by_option.fingerprint
        assert by_name.parameters == 5 * 49 + 48 * 6

    def test_its_untrained_twins_are_made_by_its_class(self, images: Tensor) -> None:
        encoder = load(f"{self.MODULE}:Autoencoder.encode", size=4)
        twins = [reinitialised(encoder, seed) for seed in (0, 1)]
        codes = [twin(images).codes for twin in (encoder, *twins)]
        assert all(each.shape == (7, 5) for each in codes)
        assert not torch.equal(codes[0], codes[1])
        assert not torch.equal(codes[1], codes[2])

    def test_wrong_methods(self) -> None:
        with pytest.raises(InputError, match="check_images has no method 'encode'"):
            load(check_images, method="encode")
        with pytest.raises(InputError, match="Autoencoder has no method 'encod'; did you mean 'encode'"):
            load(f"{self.MODULE}:Autoencoder", method="encod")
        with pytest.raises(InputError, match="did you mean 'encode'"):
            load(f"{self.MODULE}:Autoencoder.encod")
        with pytest.raises(InputError, match="method=encode is for models of your own"):
            load("timm:resnet18", method="encode")
