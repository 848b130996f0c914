"""What the fingerprint tells apart, and what it must not."""

from __future__ import annotations

import functools
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from alebrije.adapters import load
from alebrije.errors import InputError
from tests.adapters.user_models import Network, mean_colour


class Holder:
    """A callable that is no module but holds one."""

    def __init__(self, network: nn.Module, scale: float = 1.0) -> None:
        self.network, self.scale = network, scale

    def __call__(self, images: Tensor) -> Tensor:
        codes: Tensor = self.network(images) * self.scale
        return codes

    def encode(self, images: Tensor) -> Tensor:
        return self(images)


def network(seed: int = 0) -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network()


def flip_one_bit(weight: Tensor) -> None:
    with torch.no_grad():
        weight.view(-1)[:1].view(torch.int32).bitwise_xor_(1)


# what users write, with a network that is handed to no one: it is a global, of theirs or of another module
STRANGER = """
import functools
import torch
from torch import nn
import another

def linear(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Dropout(), nn.Flatten(), nn.Linear(48, 2))

net = another.net = another.inner.net = another.inner.other = linear(0)
another.inner.another = another
not_used = linear(5)

def in_comprehension(x):
    return torch.cat([net(part) for part in x.split(8)])

def in_lambda(x):
    return (lambda given: net(given))(x)

def in_function(x):
    def within(given):
        def deeper(given):
            return net(given)
        return deeper(given)
    return within(x)

def of_module(x):
    return torch.cat([another.net(part) for part in x.split(8)])

def of_inner_module(x):
    return another.inner.other(x)

class Calls:
    def __call__(self, x):
        return self.within(x)

    def within(self, x):
        return torch.cat([net(part) for part in x.split(8)])

class Inherits(Calls):
    pass

class Forwards(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.size = not_used[2].out_features

    @torch.no_grad()
    def forward(self, x):
        return self.scale * net(x)

class Holds:
    held = {"it": [net]}

    def __call__(self, x):
        return self.held["it"][0](x)

class HoldsInModule(nn.Module):
    held = {"it": [net]}

    def forward(self, x):
        return self.held["it"][0](x)

class AsProperty:
    @property
    def network(self):
        asked.append(self)
        return net

    @staticmethod
    def run(network, x):
        return network(x)

    def __call__(self, x):
        return self.run(self.network, x)

class ByDefault(nn.Module):
    def forward(self, x, using=net):
        return using(x)

class Makes:
    def __init__(self):
        self.network = net

def made_within(x):
    return Makes().network(x)

def of_class(x):
    return Holds.held["it"][0](x)

asked = []
with_a_set = lambda x: net(x) if str(x.dtype) not in {"one", "two", "three", "four"} else x
partial = functools.partial(in_comprehension)
bound = Calls().within
calls, inherits, forwards, holds, holds_in_module = Calls(), Inherits(), Forwards(), Holds(), HoldsInModule()
as_property, by_default = AsProperty(), ByDefault()
in_sequence = nn.Sequential(Forwards())
"""
WAYS = [
    "in_comprehension",
    "in_lambda",
    "in_function",
    "of_module",
    "of_inner_module",
    "calls",
    "inherits",
    "forwards",
    "holds",
    "holds_in_module",
    "as_property",
    "by_default",
    "made_within",
    "of_class",
    "partial",
    "bound",
    "in_sequence",
    "with_a_set",
]


def written(folder: Path) -> dict[str, Any]:
    """All that the stranger's file defines."""
    another = sys.modules["another"] = types.ModuleType("another")
    vars(another)["inner"] = types.ModuleType("another.inner")
    stranger = sys.modules["stranger"] = types.ModuleType("stranger")  # where the text of classes is looked for
    path = folder / "stranger.py"
    path.write_text(STRANGER)
    stranger.__file__ = str(path)
    with torch.random.fork_rng(devices=[]):
        exec(compile(STRANGER, path, "exec"), vars(stranger))
    return vars(stranger)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for name in ("stranger", "another"):
        sys.modules.pop(name, None)


class TestFingerprintOfWhatIsNamed:
    @pytest.mark.parametrize("way", WAYS)
    def test_weights_count(self, folder: Path, way: str) -> None:
        there = written(folder)
        encoder = load(there[way])
        first = encoder.fingerprint
        assert load(there[way]).fingerprint == first
        assert load(written(folder)[way]).fingerprint == first
        flip_one_bit(there["net"][2].weight)
        assert encoder.fingerprint != first
        assert load(there[way]).fingerprint == encoder.fingerprint
        assert there["asked"] == []

    @pytest.mark.parametrize("way", WAYS)
    def test_the_network_is_found_and_no_other(self, folder: Path, way: str) -> None:
        there = written(folder)
        encoder = load(there[way])
        assert [module for module in encoder.modules if module is there["net"]]
        assert not [module for module in encoder.modules if module is there["not_used"]]
        assert there["net"].training
        images = torch.rand(3, 3, 4, 4)
        assert torch.equal(encoder(images).codes, encoder(images, seed=1).codes)  # without dropout
        assert there["net"].training

    def test_another_process_gives_the_same(self, folder: Path) -> None:
        here = {way: load(there).fingerprint for way, there in written(folder).items() if way in WAYS}
        (folder / "elsewhere").mkdir()
        (folder / "elsewhere" / "stranger.py").write_text(STRANGER)
        program = f"""
import sys, types
sys.path.insert(0, {str(folder / "elsewhere")!r})
another = sys.modules["another"] = types.ModuleType("another")
another.inner = types.ModuleType("another.inner")
import stranger
from alebrije.adapters import load
for way in {WAYS}:
    print(way, load(getattr(stranger, way)).fingerprint)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert dict(line.split() for line in done.stdout.splitlines()) == here

    def test_a_tensor_counts(self) -> None:
        text = "class Adds:\n    def __call__(self, x):\n        return [part + table for part in x]\n"

        def made(table: Any) -> str:
            there: dict[str, Any] = {"__name__": "adds", "table": table}
            exec(text, there)
            return load(there["Adds"]()).fingerprint

        for kind in (torch.tensor, np.array):
            assert made(kind([1.0, 2.0])) == made(kind([1.0, 2.0]))
            assert made(kind([1.0, 2.0])) != made(kind([1.0, 3.0]))

    def test_what_refers_to_itself_has_an_end(self) -> None:
        class Knot:
            def __init__(self) -> None:
                self.me, self.all = self, [self]
                self.all.append(self.all)  # type: ignore[arg-type]

            def __call__(self, images: Tensor) -> Tensor:
                return knots[0](images) if len(knots) > 2 else first(images)

        def first(images: Tensor) -> Tensor:
            return second(images) if Knot.same else images.mean((2, 3))

        def second(images: Tensor) -> Tensor:
            return first(images) + len(Knot.tied)

        knots: list[Any] = [Knot(), Knot]
        knots.append(knots)
        Knot.same, Knot.tied = Knot, knots  # type: ignore[attr-defined]
        begun = time.perf_counter()
        assert load(knots[0]).fingerprint == load(knots[0]).fingerprint
        assert time.perf_counter() - begun < 2

    def test_what_is_too_deep_needs_a_name(self) -> None:
        chain: list[Any] = []
        for _ in range(5000):
            chain = [chain]
        with pytest.raises(InputError, match="cannot be inspected"):
            load(lambda images: images.mean((2, 3)) + len(chain)).fingerprint  # noqa: B018


class TestFingerprint:
    wrapped: tuple[Any, ...] = (
        lambda net: net,
        lambda net: lambda images: net(images),
        lambda net: net.forward,
        lambda net: Holder(net),
        lambda net: Holder(net).encode,
        lambda net: functools.partial(nn.Module.__call__, net),
        lambda net: {"it": lambda images: net(images)}["it"],
        lambda net: nn.Sequential(net, nn.Identity()),
        lambda net: torch.compile(lambda images: net(images), backend="eager"),
        lambda net: torch.compile(net, backend="eager"),
        lambda net: functools.wraps(net.forward)(lambda images: net(images)),
    )

    @pytest.mark.parametrize("wrap", wrapped)
    def test_one_bit_of_a_weight(self, wrap: Any) -> None:
        net = network()
        encoder = load(wrap(net))
        first = encoder.fingerprint
        assert len(first) == 64
        assert load(wrap(network())).fingerprint == first
        assert encoder.parameters == sum(weight.numel() for weight in net.parameters())
        encoder(torch.zeros(2, 3, 16, 16))
        assert encoder.fingerprint == first
        flip_one_bit(net.layer1[0].weight)
        assert encoder.fingerprint != first

    def test_what_makes_no_difference(self) -> None:
        first = load(network()).fingerprint
        assert load(network(), batch=3, device="cpu").fingerprint == first
        assert load(network().eval()).fingerprint == first
        assert load(network().requires_grad_(False)).fingerprint == first
        assert load(network().to(memory_format=torch.channels_last)).fingerprint == first

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
    def test_the_device_makes_no_difference(self) -> None:
        assert load(network(), device="cuda").fingerprint == load(network()).fingerprint

    def test_what_makes_one(self) -> None:
        changed = network()
        changed.bn1.running_mean[0] = 1
        wider = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False))
        narrow = nn.Sequential(nn.Flatten(), nn.Linear(2, 4, bias=False))
        with torch.no_grad():
            wider[1].weight.fill_(0.5)
            narrow[1].weight.fill_(0.5)
        made = [
            load(network()),
            load(network(), size=16),
            load(network(), mean=0.5),
            load(network(), std=0.5),
            load(network(1)),
            load(changed),
            load(network().double()),
            load(nn.Sequential(network())),
            load(wider),
            load(narrow),
            load(Holder(network())),
            load(Holder(network(), scale=2.0)),
            load(nn.Conv2d(3, 3, 1, stride=1).requires_grad_(False).apply(lambda one: nn.init.ones_(one.weight))),
            load(mean_colour),
            load(lambda images: images.amax((2, 3))),
            load(lambda images: images.amin((2, 3))),
        ]
        prints = [one.fingerprint for one in made]
        assert len(set(prints)) == len(prints)

    def test_settings_that_are_no_weights(self) -> None:
        from alebrije import models

        def slots(count: int) -> str:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                return load(models.build("slot-attention", size=16, slots=count, channels=8)).fingerprint

        assert slots(3) == slots(3)
        assert slots(3) != slots(4)  # with random initial slots, their number is in no weight

    def test_functions_that_a_module_was_given(self) -> None:
        def layer(activation: Any) -> str:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                return load(nn.TransformerEncoderLayer(4, 2, 8, activation=activation)).fingerprint

        assert layer("relu") == layer("relu")
        assert layer("relu") != layer("gelu")
        assert layer(lambda given: given * 2) != layer(lambda given: given * 3)

    def test_modules_in_a_plain_list_count(self) -> None:
        class Heads(nn.Module):
            def __init__(self, head: nn.Module) -> None:
                super().__init__()
                self.heads = [head]  # which torch does not see

            def forward(self, images: Tensor) -> Tensor:
                codes: Tensor = self.heads[0](images)
                return codes

        net = network().train()
        encoder = load(Heads(net))
        first = encoder.fingerprint
        assert encoder.parameters > 0
        assert torch.equal(encoder(torch.ones(2, 3, 16, 16)).codes, encoder(torch.ones(2, 3, 16, 16), seed=1).codes)
        flip_one_bit(net.fc.weight)
        assert encoder.fingerprint != first

    def test_traces_of_what_was_seen_do_not_count(self) -> None:
        class Remembers(Network):
            def forward(self, images: Tensor) -> Tensor:
                self.last, self.calls = images.mean(), getattr(self, "calls", 0) + 1
                return super().forward(images)

        encoder = load(Remembers())
        first = encoder.fingerprint
        encoder(torch.ones(2, 3, 16, 16))
        assert encoder.fingerprint == first

    def test_traced_modules(self) -> None:
        def traced(function: Any) -> str:
            class Whole(nn.Module):
                def forward(self, images: Tensor) -> Tensor:
                    return function(images)  # type: ignore[no-any-return]

            return load(torch.fx.symbolic_trace(Whole())).fingerprint

        assert traced(torch.relu) == traced(torch.relu)
        assert traced(torch.relu) != traced(torch.tanh)

    def test_a_model_that_was_trained_on(self) -> None:
        net = network()
        encoder = load(net)
        first = encoder.fingerprint
        flip_one_bit(net.fc.weight)
        flip_one_bit(net.fc.weight)
        assert encoder.fingerprint == first

    def test_weights_that_were_never_made(self) -> None:
        with torch.device("meta"):
            empty = Network()
        with pytest.raises(InputError, match="on the device 'meta', where tensors have no values"):
            load(empty).fingerprint  # noqa: B018

    def test_an_edited_model_is_another(self, tmp_path: Any) -> None:
        def made(text: str) -> str:
            path = tmp_path / f"m{abs(hash(text))}.py"
            path.write_text(text)
            names: dict[str, Any] = {"__name__": "edited"}
            exec(compile(text, str(path), "exec"), names)
            return load(names["encode"]).fingerprint

        text = "def encode(images):\n    return images.mean((2, 3)) * 2\n"
        assert made(text) == made(text)
        assert made(text) != made(text.replace("* 2", "* 3"))

    def test_arrays_in_globals_and_defaults(self) -> None:
        def made(value: float) -> str:
            table = np.full((3, 2), value)
            return load(lambda images, table=table: images.mean((2, 3)).numpy() @ table).fingerprint

        assert made(1.0) == made(1.0)
        assert made(1.0) != made(2.0)

    def test_what_cannot_be_seen_needs_a_name(self) -> None:
        class Session:
            __slots__ = ()

            def __call__(self, images: Tensor) -> Tensor:
                return images.mean((2, 3))

        session = Session()
        encoder = load(lambda images: session(images))
        assert encoder(torch.zeros(1, 3, 4, 4)).vector is not None
        with pytest.raises(InputError, match=r"session, of type .*Session, cannot be inspected"):
            encoder.fingerprint  # noqa: B018
        named = load(session, name="session 3")
        assert named.name == "session 3"
        assert named.fingerprint == load(Session(), name="session 3").fingerprint
        assert named.fingerprint != load(session, name="session 4").fingerprint

    def test_an_object_that_tells_is_believed(self) -> None:
        class Told:
            def __init__(self, fingerprint: str) -> None:
                self.fingerprint, self.lock = fingerprint, object()

            def __call__(self, images: Tensor) -> Tensor:
                return images.mean((2, 3))

        assert load(Told("a")).fingerprint == load(Told("a")).fingerprint
        assert load(Told("a")).fingerprint != load(Told("b")).fingerprint
