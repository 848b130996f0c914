"""What the fingerprint tells apart, and what it must not."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from strangers import Network, mean_colour
from torch import Tensor, nn

from alebrije.adapters import load
from alebrije.errors import InputError


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
        with pytest.raises(InputError, match=r"the tensor bn1\.bias holds no plain numbers"):
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
        with pytest.raises(InputError, match=r"session, of type .*Session, cannot be looked into"):
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
