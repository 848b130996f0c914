"""Steps that are repeated, as CUDA graphs where there is a GPU."""

from __future__ import annotations

import pytest
import torch

from alebrije.graphs import Repeated

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
def test_every_step_is_taken_once_and_in_order(device: str) -> None:
    number = torch.zeros(1, dtype=torch.int64, device=device)
    seen = torch.full((200,), -1, dtype=torch.int64, device=device)

    def step() -> None:
        seen.index_copy_(0, number, number)
        number.add_(1)

    repeated = Repeated(step, number.device, together=7)
    total = 0
    for times in (2, 5, 0, 20, 7, 101):
        repeated.run(times)
        total += times
        assert number.item() == total
    assert torch.equal(seen[:total].cpu(), torch.arange(total))
    assert bool((seen[total:] == -1).all())
    assert (repeated.graph is None) == (device == "cpu")
