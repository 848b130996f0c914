"""Seeds for a while: repeatable numbers inside, no trace outside, and no device touched that was not named."""

from __future__ import annotations

import pytest
import torch

from alebrije.seeding import default_generator, seeded
from alebrije.train.plan import plan


def test_numbers_repeat_inside_and_go_on_outside() -> None:
    torch.manual_seed(5)
    expected = torch.rand(4)[2:]
    torch.manual_seed(5)
    torch.rand(2)
    with seeded(1):
        first = torch.rand(3)
    with seeded(1):
        assert torch.equal(torch.rand(3), first)
    with seeded(2):
        assert not torch.equal(torch.rand(3), first)
    assert torch.equal(torch.rand(2), expected)


def test_an_error_inside_leaves_no_trace() -> None:
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError), seeded(1):
        torch.rand(3) @ torch.rand(4)
    assert torch.equal(torch.get_rng_state(), before)


def test_other_devices_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    set_anew: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", set_anew.append)
    monkeypatch.setattr(torch, "manual_seed", set_anew.append)
    with seeded(3):
        torch.rand(1)
    plan("ae", preset_name="tiny", world="dsprites").new_model()
    assert set_anew == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_device_that_is_named_is_seeded_and_restored() -> None:
    device = torch.device("cuda")
    before = default_generator(device).get_state()
    with seeded(1, device):
        first = torch.rand(3, device=device)
    assert torch.equal(default_generator(device).get_state(), before)
    with seeded(1, device):
        assert torch.equal(torch.rand(3, device=device), first)
