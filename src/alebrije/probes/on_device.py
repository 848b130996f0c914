"""Training on a GPU without waiting for the host: a table of batches, and Adam in one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from alebrije.arrays import Floats
from alebrije.graphs import Repeated
from alebrije.probes.scaling import standardise

CPU = torch.device("cpu")


def epoch_batches(rows: int, epochs: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """The rows of each batch; every epoch has each row once, in a new order.

    >>> [len(batch) for batch in epoch_batches(5, 2, 3, torch.Generator())]
    [3, 2, 3, 2]
    """
    for _ in range(epochs):
        yield from torch.split(torch.randperm(rows, generator=generator), batch_size)


class BatchTable:
    """The batches of `epoch_batches` as a table [S, B] on a device, with the share of each row in the batch.

    The last batch of an epoch is filled up with rows whose share is zero.

    >>> table = BatchTable(5, 2, 3, torch.Generator(), CPU)
    >>> table.rows.shape, table.shares[:2, 2].tolist()
    (torch.Size([4, 3]), [0.3333333432674408, 0.0])
    """

    def __init__(
        self, rows: int, epochs: int, batch_size: int, generator: torch.Generator, device: torch.device
    ) -> None:
        orders = torch.stack([torch.randperm(rows, generator=generator) for _ in range(epochs)])
        full, rest = divmod(rows, batch_size)
        shares = torch.full((full, batch_size), 1 / batch_size)
        if rest:
            missing = batch_size - rest
            orders = torch.cat((orders, orders[:, -1:].expand(-1, missing)), 1)
            last = torch.cat((torch.full((rest,), 1 / rest), torch.zeros(missing)))
            shares = torch.cat((shares, last[None]))
        self.rows = orders.view(-1, batch_size).to(device)
        self.shares = shares.repeat(epochs, 1).to(device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)  # of the next batch

    def run(self, step: Callable[[Tensor, Tensor], object]) -> None:
        """Call a step with the rows and the shares of each batch, in order; a GPU repeats it by itself."""

        def next_step() -> None:
            step(self.rows.index_select(0, self.number)[0], self.shares.index_select(0, self.number)[0])
            self.number.add_(1)

        Repeated(next_step, self.rows.device).run(len(self.rows))


def standardised(fit: Floats, new: Floats, device: torch.device) -> tuple[Tensor, Tensor]:
    """`standardise`, computed on a device where codes are many and long: float32 [N, L] and [M, L]."""
    if device.type == "cpu":
        first, second = standardise(fit, new)
        return torch.from_numpy(first).float(), torch.from_numpy(second).float()
    inputs, others = (torch.from_numpy(codes).to(device) for codes in (fit, new))
    constant = inputs.amax(0) == inputs.amin(0)
    mean = torch.where(constant, inputs[0], inputs.mean(0))
    largest = torch.where(constant, 1.0, (inputs - mean).abs().amax(0))
    inputs, others = (inputs - mean) / largest, (others - mean) / largest
    deviation = torch.where(constant, 1.0, inputs.std(0, correction=0))
    return (inputs / deviation).float(), (others / deviation).float()


class FusedAdam:
    """Adam in one kernel for all weights. (The first use of `torch.optim` imports a compiler, which takes seconds.)"""

    def __init__(self, weights: Sequence[Tensor], rate: float) -> None:
        self.weights, self.rate = list(weights), rate
        self.means, self.squares = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
        self.steps = [torch.zeros((), device=weight.device) for weight in weights]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Change the weights by their gradients."""
        torch._foreach_add_(self.steps, 1)
        torch._fused_adam_(
            *(self.weights, list(gradients), self.means, self.squares, [], self.steps),
            lr=self.rate,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
        )
