"""LPIPS: agreement with the networks written out, and unusable weight files. Weights are random."""

import functools
import os
import pathlib
import pickle
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from alebrije.errors import InputError, UndefinedMetricWarning
from alebrije.metrics import lpips
from tests.metrics.image_pairs import DEVICES


class Fire(nn.Module):
    def __init__(self, inputs, narrow, half):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, narrow, 1)
        self.expand1x1 = nn.Conv2d(narrow, half, 1)
        self.expand3x3 = nn.Conv2d(narrow, half, 3, padding=1)

    def forward(self, x):
        x = self.squeeze(x).relu()
        return torch.cat([self.expand1x1(x).relu(), self.expand3x3(x).relu()], 1)


def alexnet():
    sizes = [(0, 3, 64, 11), (3, 64, 192, 5), (6, 192, 384, 3), (8, 384, 256, 3), (10, 256, 256, 3)]
    return nn.ModuleDict({str(n): nn.Conv2d(i, o, k) for n, i, o, k in sizes})


def vgg16():
    layers, inputs = [], 3
    for outputs, repeats in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]:
        for _ in range(repeats):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
            inputs = outputs
        layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(*layers[:-1])


def squeezenet():
    def pool():
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool(),
        Fire(128, 32, 128), Fire(256, 32, 128), pool(), Fire(256, 48, 192), Fire(384, 48, 192),
        Fire(384, 64, 256), Fire(512, 64, 256),
    )  # fmt: skip


def alexnet_features(state, x):
    """The five compared layers of AlexNet, written out."""

    def conv(x, n, **how):
        return F.relu(F.conv2d(x, state[f"features.{n}.weight"], state[f"features.{n}.bias"], **how))

    one = conv(x, 0, stride=4, padding=2)
    two = conv(F.max_pool2d(one, 3, 2), 3, padding=2)
    three = conv(F.max_pool2d(two, 3, 2), 6, padding=1)
    four = conv(three, 8, padding=1)
    return [one, two, three, four, conv(four, 10, padding=1)]


def sequential_features(build, taps):
    """The outputs of the modules numbered `taps` of a sequence, loaded strictly from the same file."""

    def features(state, x):
        own = {key.removeprefix("features."): value for key, value in state.items() if "features" in key}
        with torch.device("meta"):
            network = build()
        network.load_state_dict(own, assign=True)
        found = []
        for n, module in enumerate(network):
            x = module(x)
            if n in taps:
                found.append(x)
        return found

    return features


# network: module, file name, channels of the heads, smallest image, reference features
NETWORKS = {
    "alex": (alexnet, "alexnet-owt-7be5be79", (64, 192, 384, 256, 256), 31, alexnet_features),
    "vgg": (
        vgg16, "vgg16-397923af", (64, 128, 256, 512, 512), 16, sequential_features(vgg16, (3, 8, 15, 22, 29)),
    ),
    "squeeze": (
        squeezenet, "squeezenet1_1-b8a52dc0", (64, 128, 256, 384, 384, 512, 512), 17,
        sequential_features(squeezenet, (1, 4, 7, 9, 10, 11, 12)),
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def hub(tmp_path_factory, monkeypatch):
    """An empty hub, so that no test reads the user's own weights."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "checkpoints").mkdir()
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(folder))
    return folder / "checkpoints"


@functools.cache
def random_states(network):
    build, _, channels, *_ = NETWORKS[network]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        backbone = {f"features.{key}": value for key, value in build().state_dict().items()}
        heads = {f"lin{k}.model.1.weight": torch.rand(1, c, 1, 1) for k, c in enumerate(channels)}
    return {**backbone, "classifier.1.weight": torch.ones(2, 2)}, heads


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    """A folder with all six files as they are published, but random inside."""
    folder = tmp_path_factory.mktemp("weights")
    for network, (_, file, *_) in NETWORKS.items():
        backbone, heads = random_states(network)
        torch.save(backbone, folder / f"{file}.pth")
        torch.save(heads, folder / f"{network}.pth")
    return folder


@pytest.fixture
def alex(tmp_path):
    """The two AlexNet states and a function that writes them, changed or not, to a folder of their own."""
    backbone, heads = random_states("alex")

    def write(backbone=backbone, heads=heads):
        torch.save(backbone, tmp_path / "alexnet-owt-0.pth")
        torch.save(heads, tmp_path / "alex.pth")
        return tmp_path

    return backbone, heads, write


def images(side, count=2, seed=0):
    rng = np.random.default_rng(seed)
    target = rng.random((count, 3, side, side + 5))
    return target, target + 0.1 * rng.standard_normal(target.shape)


def reference_lpips(network, target, predicted):
    """Image by image, tap by tap, pixel mean of the weighted squared difference of unit features."""
    features = NETWORKS[network][4]
    backbone, heads = ({key: value.double() for key, value in state.items()} for state in random_states(network))
    mean, spread = torch.tensor([[-0.030, -0.088, -0.188], [0.458, 0.448, 0.450]], dtype=torch.float64)
    values = []
    for pair in zip(target, predicted, strict=True):
        taps = []
        for image in pair:
            pixels = (torch.tensor(image).permute(1, 2, 0) * 2 - 1 - mean) / spread
            with torch.no_grad():
                taps.append(features(backbone, pixels.permute(2, 0, 1)[None]))
        value = 0.0
        for k, (a, b) in enumerate(zip(*taps, strict=True)):
            a, b = (x / ((x**2).sum(1, keepdim=True).sqrt() + 1e-10) for x in (a, b))
            head = heads[f"lin{k}.model.1.weight"][0]  # [C, 1, 1]
            value += float((head * (a - b)[0] ** 2).sum(0).mean())
        values.append(value)
    return values


@pytest.mark.parametrize("side", [36, "least"])
@pytest.mark.parametrize("network", NETWORKS)
def test_lpips_agrees_with_the_networks_written_out(network, side, weights):
    target, predicted = images(NETWORKS[network][3] if side == "least" else side)
    got = lpips(target, predicted, network=network, weights=weights)
    np.testing.assert_allclose(got, reference_lpips(network, target, predicted), rtol=1e-9)
    assert (got > 0).all()


@pytest.mark.parametrize("network", NETWORKS)
def test_lpips_refuses_images_too_small(network, weights):
    least = NETWORKS[network][3]
    target = np.ones((1, 3, least + 9, least - 1))
    with pytest.raises(InputError, match=rf"at least {least} x {least} pixels, got shape \[1, 3, "):
        lpips(target, target, network=network, weights=weights)
    with pytest.raises(RuntimeError, match="too small"):
        reference_lpips(network, target, target)


@pytest.mark.parametrize("network", NETWORKS)
def test_lpips_is_a_distance(network, weights):
    target, other = images(31, count=1)
    other = other.clip(0, 1)  # so that either may be the target
    there = lpips(target, other, network=network, weights=weights)
    np.testing.assert_array_equal(lpips(target, target, network=network, weights=weights), 0)
    np.testing.assert_allclose(lpips(other, target, network=network, weights=weights), there, rtol=1e-9)


def test_lpips_does_not_depend_on_the_batch_size(weights, monkeypatch):
    target, predicted = images(40, count=5)
    whole = lpips(target, predicted, weights=weights)
    monkeypatch.setattr(sys.modules["alebrije.metrics.lpips"], "_VALUES_AT_ONCE", 2 * target[0].size)
    np.testing.assert_allclose(lpips(target, predicted, weights=weights), whole, rtol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
def test_lpips_returns_tensors_for_tensors(weights, device):
    target, predicted = images(40)
    expected = lpips(target, predicted, weights=str(weights))
    assert isinstance(expected, np.ndarray)
    guess = torch.tensor(predicted, device=device, requires_grad=True)
    got = lpips(torch.tensor(target, device=device), guess, weights=weights)
    assert got.device == guess.device
    assert not got.requires_grad
    np.testing.assert_allclose(got.cpu(), expected, rtol=1e-9)


def test_pixels_without_features_have_distance_0(alex):
    backbone, _, write = alex
    dead = {key: -1e6 * torch.ones_like(value) if "bias" in key else value for key, value in backbone.items()}
    np.testing.assert_array_equal(lpips(*images(40), weights=write(dead)), 0)


def test_lpips_accepts_uint8(weights):
    target, predicted = np.random.default_rng(1).integers(0, 256, (2, 2, 3, 40, 40), dtype=np.uint8)
    expected = lpips(target / 255, predicted / 255, weights=weights)
    np.testing.assert_allclose(lpips(target, predicted, weights=weights), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_lpips_without_weights_is_nan_and_warns(kind, hub, tmp_path):
    target, predicted = map(kind, images(40))
    with pytest.warns(UndefinedMetricWarning, match="alexnet-owt-.*pth and alex.*lpips_alex.pth") as caught:
        got = lpips(target, predicted, weights=tmp_path)
    assert type(got) is type(target)
    assert got.shape == (2,)
    assert bool((got != got).all())
    assert str(tmp_path) in str(caught[0].message)
    assert str(hub) in str(caught[0].message)


def test_lpips_names_only_the_missing_file(alex):
    _, _, write = alex
    folder = write()
    (folder / "alex.pth").unlink()
    with pytest.warns(UndefinedMetricWarning) as caught:
        lpips(*images(40), weights=folder)
    assert "alexnet-owt" not in str(caught[0].message)


def test_weights_are_found_in_the_hub_and_in_either_format(alex, hub):
    backbone, heads, write = alex
    expected = lpips(*images(40), weights=write())
    torch.save(backbone, hub / "alexnet-owt-1.pth")
    save_file(heads, hub / "lpips_alex.safetensors")
    np.testing.assert_array_equal(lpips(*images(40)), expected)


def test_weights_folder_comes_before_the_hub(alex, hub):
    backbone, heads, write = alex
    expected = lpips(*images(40), weights=write())
    torch.save(backbone, hub / "alexnet-owt-1.pth")
    torch.save({key: 2 * value for key, value in heads.items()}, hub / "alex.pth")
    np.testing.assert_array_equal(lpips(*images(40), weights=write()), expected)
    np.testing.assert_allclose(lpips(*images(40)), 2 * expected, rtol=1e-12)


class Hostile:
    """An object whose unpickling writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (self.path,)


def pickle_plainly(value, path):
    path.write_bytes(pickle.dumps(value, protocol=2))


@pytest.mark.parametrize("file", ["alexnet-owt-0.pth", "alex.pth"])
@pytest.mark.parametrize("save", [torch.save, pickle_plainly])
def test_hostile_files_are_refused_and_not_run(alex, save, file, tmp_path):
    _, _, write = alex
    folder, trace = write(), tmp_path / "trace"
    save({"features.0.weight": Hostile(trace)}, folder / file)
    with pytest.raises(InputError, match=f"{file} cannot be read as a file of plain tensors"):
        lpips(*images(40), weights=folder)
    assert not trace.exists()
    pickle.loads(pickle.dumps(Hostile(trace)))
    assert trace.exists()  # it would have


@pytest.mark.parametrize("name", ["alex.pth", "alex.safetensors"])
@pytest.mark.parametrize("content", [b"", b"not a weight file", b"PK\x03\x04" + bytes(50)])
def test_broken_files_are_refused(alex, name, content):
    _, _, write = alex
    folder = write()
    (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name} cannot be read"):
        lpips(*images(40), weights=folder)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        (0, {"features.6.bias": None}, "alexnet-owt-0.pth lacks the float tensor features.6.bias"),
        (0, {"features.6.bias": torch.ones(384, dtype=torch.int64)}, "lacks the float tensor features.6"),
        (0, {"features.6.bias": torch.ones(384).to_sparse()}, "lacks the float tensor features.6"),
        (0, {"features.3.weight": torch.ones(192, 64, 3, 3)},
         r"features.3.weight must have shape \[192, 64, 5, 5\], got \[192, 64, 3, 3\]"),
        (0, {"features.0.bias": torch.full((64,), torch.nan)}, "features.0.bias must be finite"),
        (1, {"lin4.model.1.weight": None}, "alex.pth lacks the float tensor lin4.model.1.weight"),
        (1, {"lin1.model.1.weight": torch.ones(1, 64, 1, 1)}, "lin1.model.1.weight must have shape"),
        (1, {"lin1.model.1.weight": -torch.ones(1, 192, 1, 1)}, "some are negative"),
    ],
)  # fmt: skip
def test_wrong_weights_are_refused_by_name(alex, part, change, message):
    *states, write = alex
    states[part] = {key: value for key, value in {**states[part], **change}.items() if value is not None}
    with pytest.raises(InputError, match=message):
        lpips(*images(40), weights=write(*states))


def test_file_without_names_is_refused(alex):
    _, _, write = alex
    with pytest.raises(InputError, match=r"alex.pth must hold tensors by name, got list"):
        lpips(*images(40), weights=write(heads=[torch.ones(3)]))


def test_lpips_refuses_bad_arguments(tmp_path):
    with pytest.raises(InputError, match="weights must be a folder that exists"):
        lpips(*images(40), weights=tmp_path / "nowhere")
    with pytest.raises(InputError, match="network must be one of 'alex', 'vgg', 'squeeze', got 'resnet'"):
        lpips(*images(40), network="resnet")
    with pytest.raises(InputError, match=r"3 channels .* got shape \[1, 1, 40, 40\]"):
        lpips(np.ones((1, 1, 40, 40)), np.ones((1, 1, 40, 40)))
    with pytest.raises(InputError, match="same shape"):
        lpips(images(40)[0], images(41)[1])


@pytest.mark.parametrize("name", ["alex.pth", "alex.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_weights_that_are_no_regular_file_are_refused(tmp_path, name, kind):
    (tmp_path / "alexnet-owt-x.pth").touch()
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(InputError, match=f"{name}: is not a regular file"):
        lpips(*images(40), weights=tmp_path)
