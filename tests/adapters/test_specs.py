"""Models by what a user types: Python objects, runs trained here, and files of embeddings."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import Tensor

from alebrije.adapters import load
from alebrije.errors import InputError
from alebrije.studies.datasets import Dataset, write_dataset
from alebrije.studies.training import carry_out
from alebrije.train import checkpoints
from alebrije.train.plan import plan


class TestPython:
    @pytest.mark.parametrize(
        ("spec", "width"),
        [
            ("strangers:Network", 10),
            ("strangers:make_network", 4),
            ("strangers:instance", 3),
            ("strangers:mean_colour", 3),
            ("strangers:instance.forward", 3),
        ],
    )
    def test_an_object_a_class_or_a_factory(self, spec: str, width: int, images: Tensor) -> None:
        encoder = load(spec, size=16)
        assert encoder(images).codes.shape == (7, width)
        assert encoder.name == spec
        assert load(spec, name="mine").name == "mine"

    def test_random_weights_are_the_same_each_time(self) -> None:
        state = torch.random.get_rng_state()
        assert load("strangers:Network").fingerprint == load("strangers:Network").fingerprint
        assert torch.equal(state, torch.random.get_rng_state())

    def test_another_process_finds_the_same_fingerprint(self, own_folder: Path) -> None:
        """Results are looked up by it tomorrow: no address and no order of a set may be in it."""
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
            ("resnet18", "'resnet18' names no model; a model is package.module:object, timm:NAME"),
            ("strangers:", "names no model"),
            ("weights.pt", "for a file of weights, name a function that makes the model and loads them"),
            ("strangers:Netwrok", "'strangers' has no 'Netwrok'; did you mean 'Network'?"),
            ("strangers:number", "is int, which cannot be called with images"),
            ("strangers:NeedsWidth", "needs width; name an instance, or a function that makes one"),
            ("tim:resnet18", "there is no module 'tim'; did you mean 'timm:resnet18'?"),
            ("alebrije.modles:build", "there is no module 'alebrije.modles'; did you mean 'alebrije.models'?"),
            ("my_zooo:encode", "there is no module 'my_zooo'; did you mean 'my_zoo'?"),
            ("broken:encode", "the module 'broken' cannot be imported: ZeroDivisionError"),
            ("hungry:encode", "the module 'hungry' needs 'no_such_package', which is not installed"),
            ("my_zoo:fails", "my_zoo:fails could not be made: ValueError: no weights"),
            ("my_zoo:nothing", "my_zoo:nothing made NoneType, which cannot be called"),
        ],
    )
    def test_wrong_names_end_in_a_sentence(self, spec: str, sentence: str, own_folder: Path) -> None:
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
    """Two steps of the tiny preset, and a checkpoint after each."""
    folder = tmp_path_factory.mktemp("runs") / "beta-vae"
    made = plan("beta-vae", preset_name="tiny", settings={"steps": 2}, images=32)
    carry_out(made, folder, looks=4, save_every=1)
    return folder


class TestCheckpoints:
    def test_the_last_checkpoint(self, run: Path, images: Tensor) -> None:
        encoder = load(f"checkpoint:{run}")
        assert encoder.plan is not None
        assert encoder.preprocessing.size == encoder.plan.size == 64
        assert (encoder.kind, encoder.draws) == ("vector", True)
        found = encoder(images)
        assert found.reconstruction is not None
        assert found.reconstruction.shape == (7, 3, 64, 64)
        trained = carry_out(encoder.plan, run)
        torch.testing.assert_close(found.vector, trained(encoder.preprocessing(images)).vector.detach())
        assert load(f"checkpoint:{run}").fingerprint == encoder.fingerprint

    def test_one_that_is_named(self, run: Path) -> None:
        first, last = checkpoints(run)
        assert load(f"checkpoint:{last}").fingerprint == load(f"checkpoint:{run}").fingerprint
        assert load(f"checkpoint:{first}").fingerprint != load(f"checkpoint:{run}").fingerprint

    def test_what_is_no_run(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="there is no such folder"):
            load(f"checkpoint:{tmp_path / 'nowhere'}")
        with pytest.raises(InputError, match="that folder holds no run"):
            load(f"checkpoint:{tmp_path}")
        plan("beta-vae", preset_name="tiny").settle(tmp_path)
        with pytest.raises(InputError, match="has no checkpoint yet"):
            load(f"checkpoint:{tmp_path}")

    def test_it_is_in_eval_mode_and_predicts_the_same_twice(self, tmp_path: Path) -> None:
        made = plan("oracle", preset_name="tiny", settings={"steps": 1, "dropout": 0.5}, images=4)
        carry_out(made, tmp_path / "run", looks=1)
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


def write(path: Path, **arrays: Any) -> str:
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        save_file(arrays, path)
    return f"embeddings:{path}"


class TestEmbeddings:
    codes = np.random.default_rng(0).normal(size=(7, 5)).astype("f4")

    @pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
    def test_images_in_the_file(self, suffix: str, tmp_path: Path, images: Tensor) -> None:
        encoder = load(write(tmp_path / f"codes{suffix}", codes=self.codes, images=images.numpy()), batch=3)
        order = [6, 0, 0, 3]
        assert encoder(images[order]).codes.numpy() == pytest.approx(self.codes[order])
        assert encoder(images[order] / 255).codes.numpy() == pytest.approx(self.codes[order])
        words = "codes of 7 different images, and the image asked for is not one of them: embeddings cannot encode"
        with pytest.raises(InputError, match=words):
            encoder(images.flip(3))

    def test_what_alebrije_made(self, tmp_path: Path) -> None:
        """As a user does it: images out, codes back, and the same scenes drawn again find their codes."""
        folder, dataset = tmp_path / "images", Dataset("sprites", size=16)
        write_dataset(dataset, 7, folder)
        spec = write(tmp_path / "codes.npz", codes=self.codes)
        encoder = load(f"{spec}?images={folder}")
        drawn = torch.from_numpy(dataset.arrays(0, 7)["images"])
        assert encoder(drawn).codes.numpy() == pytest.approx(self.codes)
        with pytest.raises(InputError, match="does not say which images its codes are of"):
            load(spec)(drawn)

    def test_episodes(self, tmp_path: Path) -> None:
        folder, dataset = tmp_path / "images", Dataset("sprites", "S-A", size=16)
        write_dataset(dataset, 7, folder)
        spec = write(tmp_path / "codes.npz", source_codes=self.codes, target_codes=-self.codes)
        drawn = dataset.arrays(0, 7)
        both = torch.from_numpy(np.concatenate((drawn["target_images"][:3], drawn["source_images"])))
        assert load(f"{spec}?images={folder}")(both).codes.numpy() == pytest.approx(
            np.concatenate((-self.codes[:3], self.codes))
        )

    def test_slots_with_masks(self, tmp_path: Path, images: Tensor) -> None:
        masks = np.random.default_rng(0).random((7, 2, 4, 4))
        arrays = {"codes": np.ones((7, 2, 3)), "masks": masks, "images": images.numpy()}
        encoder = load(write(tmp_path / "codes.npz", **arrays))
        assert (encoder.kind, encoder.draws, encoder.parameters) == ("slots", False, 0)
        found = encoder(images[2:4])
        assert found.slots is not None
        assert found.masks is not None
        assert found.masks.numpy() == pytest.approx(masks[2:4])

    def test_the_fingerprint_is_that_of_codes_and_images(self, tmp_path: Path, images: Tensor) -> None:
        def print_of(name: str, codes: Any, shown: Any) -> str:
            return load(write(tmp_path / name, codes=codes, images=shown)).fingerprint

        first = print_of("a.npz", self.codes, images.numpy())
        assert print_of("b.safetensors", self.codes, images.numpy()) == first
        assert print_of("a.npz", np.nextafter(self.codes, np.float32(9)), images.numpy()) != first
        assert print_of("a.npz", self.codes, 255 - images.numpy()) != first

    @pytest.mark.parametrize(
        ("arrays", "sentence"),
        [
            ({"features": codes}, "there are no 'codes' in the file; it holds features"),
            ({"codes": codes[0]}, r"codes must be floats \[N, D\]"),
            ({"codes": codes.astype(int)}, r"codes must be floats \[N, D\]"),
            ({"codes": np.zeros((0, 5), "f4")}, r"codes must be floats \[N, D\]"),
            ({"codes": codes[:4], "images": np.zeros((7, 3, 4, 4), "u1")}, "there are 4 codes but 7 images"),
            ({"codes": codes, "images": np.zeros((7, 4, 4, 3), "u1")}, r"images must be uint8 \[N, 3, H, W\]"),
        ],
    )
    def test_wrong_files(self, arrays: dict[str, Any], sentence: str, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=sentence):
            load(write(tmp_path / "codes.npz", **arrays))

    def test_pickles_are_not_opened(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="pickled objects, which are never loaded"):
            load(write(tmp_path / "codes.npz", codes=np.array([{"a": 1}], dtype=object)))

    def test_other_options(self, tmp_path: Path) -> None:
        spec = write(tmp_path / "codes.npz", codes=self.codes)
        with pytest.raises(InputError, match="embeddings are codes already"):
            load(spec, size=16)
        with pytest.raises(InputError, match=r"there can be images=\.\.\., not 'image=x'"):
            load(f"{spec}?image=x")
        with pytest.raises(InputError, match="there is no cache here"):
            load(f"{spec}?images={tmp_path}")
        with pytest.raises(InputError, match="there is no such file"):
            load("embeddings:nowhere.npz")
