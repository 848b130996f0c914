"""Training on a GPU without waiting for the host: a table of batches, and Adam in one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from alebrije.graphs import Repeated

CPU = torch.device("cpu")


def epoch_batches(rows: int, epochs: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """The rows of each batch; every epoch has each row once, in a new order.

    >>> [len(batch) for batch in epoch_batches(5, 2, 3, torch.Generator())]
    [3, 2, 3, 2]
    """
    for _ in range(epochs):
        yield from torch.split(torch.randperm(rows, generator=generator), batch_size)


class BatchTable:
    """Batches [S, B] on a device, with the share [S, B] of each row in the mean over its batch.

    Short batches are filled up with rows whose share is zero.

    >>> table = BatchTable([torch.tensor([4, 2]), torch.tensor([1])], 2, CPU)
    >>> table.rows.tolist(), table.shares.tolist()
    ([[4, 2], [1, 1]], [[0.5, 0.5], [1.0, 0.0]])
    """

    def __init__(self, batches: Iterable[Tensor], batch_size: int, device: torch.device) -> None:
        rows, shares = [], []
        for batch in batches:
            missing = batch_size - len(batch)
            rows.append(torch.cat((batch, batch[:1].expand(missing))) if missing else batch)
            shares.append(torch.cat((torch.full((len(batch),), 1 / len(batch)), torch.zeros(missing))))
        self.rows, self.shares = torch.stack(rows).to(device), torch.stack(shares).to(device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)  # of the next batch

    def run(self, step: Callable[[Tensor, Tensor], object]) -> None:
        """Call a step with the rows and the shares of each batch, in order; a GPU repeats it by itself."""

        def next_step() -> None:
            step(self.rows.index_select(0, self.number)[0], self.shares.index_select(0, self.number)[0])
            self.number.add_(1)

        Repeated(next_step, self.rows.device).run(len(self.rows))


def fused_adam(weights: Tensor, gradient: Tensor, rate: float) -> torch.optim.Adam | None:
    """Adam for one flat tensor of weights with this gradient, in one kernel; None on a CPU."""
    if weights.device.type != "cuda":
        return None
    parameter = nn.Parameter(weights)
    parameter.grad = gradient
    return torch.optim.Adam([parameter], rate, fused=True, capturable=True)
