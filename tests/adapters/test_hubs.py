"""timm and transformers: missing, faked, and real ones with random weights if they are installed."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alebrije.adapters import Preprocessing, check, hubs, load
from alebrije.errors import InputError
from alebrije.fingerprint import Contents
from tests.adapters.user_models import Network


@pytest.mark.parametrize(("spec", "package"), [("timm:resnet18", "timm"), ("hf:facebook/dinov2-small", "transformers")])
def test_a_missing_package(spec: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError) as caught:
        load(spec)
    assert str(caught.value) == f"{spec} needs {package}, which is not installed: pip install 'alebrije[{package}]'"
    assert not check(spec).passed


class _Broken:
    """An importer that fails as a torchvision built for another torch does."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "timm":
            raise RuntimeError("operator torchvision::nms does not exist")


def test_a_broken_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Broken(), *sys.meta_path])
    with pytest.raises(InputError, match="cannot be imported: RuntimeError: operator torchvision::nms does not exist"):
        load("timm:resnet18")


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A fake timm that records its calls."""
    asked: list[dict[str, Any]] = []

    def create_model(name: str, **options: Any) -> nn.Module:
        asked.append({"name": name, **options})
        if name != "resnet18":
            raise RuntimeError(f"Unknown model ({name})")
        return Network()

    module = ModuleType("timm")
    config = {"input_size": (3, 24, 24), "mean": (0.5, 0.4, 0.3), "std": (0.1, 0.2, 0.3), "crop_pct": 0.9}
    module.__dict__.update(
        create_model=create_model,
        list_models=lambda: ["resnet18", "resnet34", *(f"vit_{n}" for n in range(30))],
        data=SimpleNamespace(resolve_model_data_config=lambda model: config),
    )
    monkeypatch.setitem(sys.modules, "timm", module)
    return asked


class TestFakeTimm:
    def test_preprocessing_and_weights(self, timm: list[dict[str, Any]], images: Tensor) -> None:
        encoder = load("timm:resnet18")
        assert timm == [{"name": "resnet18", "pretrained": True, "num_classes": 0}]
        assert encoder.preprocessing == Preprocessing(24, (0.5, 0.4, 0.3), (0.1, 0.2, 0.3))
        assert encoder(images).codes.shape == (7, 10)
        assert load("timm:resnet18", size=32, mean=0.5).preprocessing == Preprocessing(32, (0.5,) * 3, (0.1, 0.2, 0.3))

    def test_random_weights(self, timm: list[dict[str, Any]]) -> None:
        first = load("timm:resnet18?pretrained=false").fingerprint
        assert timm[-1]["pretrained"] is False
        assert load("timm:resnet18?pretrained=false").fingerprint == first
        assert load("timm:resnet18?pretrained=false&seed=1").fingerprint != first

    @pytest.mark.usefixtures("timm")
    @pytest.mark.parametrize(
        ("spec", "sentence"),
        [
            ("timm:resnet19", "timm has no model 'resnet19'; did you mean 'resnet18'?"),
            ("timm:zzz", "timm has no model 'zzz'"),
            ("timm:resnet34", "timm:resnet34 could not be loaded: RuntimeError: Unknown model (resnet34)"),
            ("timm:resnet18?pretraned=no", "are pretrained=... or seed=..., not 'pretraned=no'"),
            ("timm:resnet18?pretrained=no", "pretrained must be true or false, and seed a whole number"),
        ],
    )
    def test_wrong_specs(self, spec: str, sentence: str) -> None:
        with pytest.raises(InputError) as caught:
            load(spec)
        assert str(caught.value).endswith(sentence)


class Tokens(nn.Module):
    """Returns what a vision transformer of transformers returns."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.pooler = nn.Linear(3, 6), nn.Linear(6, 6)

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        tokens = self.embed(pixel_values.flatten(2).transpose(1, 2))
        return SimpleNamespace(last_hidden_state=tokens, pooler_output=self.pooler(tokens[:, 0]))


class Pictures(nn.Module):
    """A model of images and text."""

    def get_image_features(self, pixel_values: Tensor) -> Tensor:
        return pixel_values.mean((2, 3))


class TestFakeTransformers:
    processor = SimpleNamespace(size={"height": 8, "width": 8}, image_mean=[0.5] * 3, image_std=[0.2] * 3)

    @pytest.fixture(autouse=True)
    def transformers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: dict[str, Any] = {}
        self.missing: list[str] = []
        self.hub_error: str | None = None
        self.model: nn.Module = Tokens()

        def from_pretrained(name: str, **options: Any) -> Any:
            if name == "no/such":
                raise OSError("no/such is not a folder\nand many more lines")
            self.asked = {"name": name, **options}
            return self.model, {"missing_keys": self.missing}

        monkeypatch.setattr(hubs, "_hub_error", lambda: self.hub_error)
        module = ModuleType("transformers")
        module.__dict__.update(
            AutoModel=SimpleNamespace(from_pretrained=from_pretrained),
            AutoImageProcessor=SimpleNamespace(from_pretrained=lambda name, **options: self.processor),
        )
        monkeypatch.setitem(sys.modules, "transformers", module)

    def test_no_remote_code_and_no_pickles(self) -> None:
        load("hf:some/model?revision=abc")
        assert self.asked.pop("output_loading_info")
        assert self.asked == {
            "name": "some/model",
            "trust_remote_code": False,
            "use_safetensors": True,
            "revision": "abc",
        }

    def test_the_pooled_output(self, images: Tensor) -> None:
        encoder = load("hf:some/model")
        assert encoder.preprocessing == Preprocessing(8, (0.5,) * 3, (0.2,) * 3)
        expected = self.model(encoder.preprocessing(images)).pooler_output
        torch.testing.assert_close(encoder(images).vector, expected.detach())
        assert encoder.parameters == 66
        assert check(encoder).passed

    def test_a_pooler_without_weights_is_not_used(self, images: Tensor) -> None:
        self.missing = ["pooler.weight", "pooler.bias"]
        encoder = load("hf:some/model")
        expected = self.model(encoder.preprocessing(images)).last_hidden_state.mean(1)
        torch.testing.assert_close(encoder(images).vector, expected.detach())

    def test_missing_weights_are_refused(self) -> None:
        self.missing = ["embed.weight"]
        with pytest.raises(InputError, match=r"lacks the weights 'embed\.weight', which would be random"):
            load("hf:some/model")

    def test_images_and_text(self, images: Tensor) -> None:
        self.model = Pictures()
        encoder = load("hf:some/model")
        torch.testing.assert_close(encoder(images).vector, encoder.preprocessing(images).mean((2, 3)))

    def test_without_a_network_only_local_files_are_read(self) -> None:
        self.hub_error = "https://huggingface.co cannot be reached: no network"
        load("hf:some/model")
        assert self.asked["local_files_only"] is True
        with pytest.raises(InputError) as caught:
            load("hf:no/such")
        assert str(caught.value) == (
            "hf:no/such is not on this machine, and https://huggingface.co cannot be reached: no network"
        )

    def test_no_such_model(self) -> None:
        with pytest.raises(InputError) as caught:
            load("hf:no/such")
        assert str(caught.value) == "hf:no/such could not be loaded: OSError: no/such is not a folder"

    def test_the_fingerprint_keeps_the_first_name_of_the_function(self) -> None:
        """Fingerprints are in the keys of stored results, so a renamed module must not change them."""
        pieces = [": alebrije.adapters.zoos._image_codes", ".defaults=None", ".keywords=None"]
        expected = hashlib.sha256("".join(f"{piece!r};" for piece in pieces).encode()).hexdigest()
        assert Contents.of(hubs._image_codes).rest == expected

    @pytest.mark.parametrize(
        ("processor", "expected"),
        [
            ({"size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": {"height": 224, "width": 224}}, 224),
            ({"size": {"shortest_edge": 256}, "do_center_crop": False, "crop_size": {"height": 224}}, 256),
            ({"size": 96}, 96),
            ({"size": {"height": 96, "width": 96}, "do_resize": False}, None),
        ],
    )
    def test_sizes(self, processor: dict[str, Any], expected: int | None) -> None:
        self.processor = SimpleNamespace(**processor, do_normalize=False)
        assert load("hf:some/model").preprocessing == Preprocessing(expected)

    def test_scales(self) -> None:
        """At any scale the model must get the values that the processor would give it."""
        grey = torch.full((1, 3, 8, 8), 51, dtype=torch.uint8)
        for factor, mean, std in ((1 / 255, 0.5, 0.25), (1 / 127.5, 1.0, 1.0), (1.0, 100.0, 50.0)):
            settings = {"rescale_factor": factor, "image_mean": [mean] * 3, "image_std": [std] * 3}
            self.processor = SimpleNamespace(size={"height": 8, "width": 8}, **settings)
            prepared = load("hf:some/model").preprocessing(grey)
            torch.testing.assert_close(prepared, torch.full_like(prepared, (51 * factor - mean) / std))


class TestHubConnection:
    """The hub is asked once, with a short timeout; any response will do."""

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
        self.fault: Exception | None = None
        calls: list[tuple[str, float]] = []

        def head(address: str, timeout: float) -> None:
            calls.append((address, timeout))
            if self.fault is not None:
                raise self.fault

        for name, content in {
            "huggingface_hub": {},
            "huggingface_hub.constants": {"ENDPOINT": "https://hub.example"},
            "huggingface_hub.utils": {"get_session": lambda: SimpleNamespace(head=head)},
        }.items():
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
            sys.modules[name].__dict__.update(content)
        return calls

    def test_the_hub_responds(self, asked: list[tuple[str, float]]) -> None:
        assert hubs._hub_error() is None
        ((address, timeout),) = asked
        assert address == "https://hub.example"
        assert timeout <= 5

    @pytest.mark.usefixtures("asked")
    def test_the_hub_does_not_respond(self) -> None:
        self.fault = ConnectionError("Name or service not known")
        assert hubs._hub_error() == "https://hub.example cannot be reached: ConnectionError: Name or service not known"

    def test_an_unknown_version_is_not_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "huggingface_hub.constants", ModuleType("huggingface_hub.constants"))
        assert hubs._hub_error() is None


def test_the_real_huggingface_hub_is_called_correctly(monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    assert "http://127.0.0.1:9 cannot be reached: Connect" in (hubs._hub_error() or "")


def test_real_timm(images: Tensor) -> None:
    pytest.importorskip("timm")
    encoder = load("timm:resnet18?pretrained=false", size=64)
    assert encoder(images).codes.shape == (7, 512)
    assert encoder.preprocessing.mean == pytest.approx((0.485, 0.456, 0.406))
    assert check(encoder).passed


def test_real_transformers(tmp_path: Path, images: Tensor) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8
    )
    transformers.ViTModel(config).save_pretrained(tmp_path)
    settings = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}
    settings |= {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_resize": True, "do_normalize": True}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    encoder = load(f"hf:{tmp_path}")
    assert encoder.preprocessing == Preprocessing(32, (0.5,) * 3, (0.5,) * 3)
    assert encoder(images).codes.shape == (7, 16)
    assert check(encoder).passed


def test_a_folder_without_a_processor_needs_mean_and_std(tmp_path: Path, images: Tensor) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8
    )
    transformers.ViTModel(config).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"has no preprocessor_config\.json; pass --mean and --std of its training"):
        load(f"hf:{tmp_path}")
    encoder = load(f"hf:{tmp_path}", mean=0.5, std=0.25)
    assert encoder.preprocessing == Preprocessing(32, (0.5,) * 3, (0.25,) * 3)
    assert encoder(images).codes.shape == (7, 16)
    assert encoder.token_shape == (16, 4, 4)
    cls = load(f"hf:{tmp_path}", mean=0.5, std=0.25, pool="cls")
    assert cls(images).codes.shape == (7, 16)
    assert not torch.equal(cls(images).codes, encoder(images).codes)
