"""A crew: the processes that train one model together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor, distributed, nn

from alebrije.errors import InputError
from alebrije.seeding import generator_of, seeded


def processes() -> int:
    """How many processes `torchrun` started, this one among them."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@dataclass(frozen=True)
class Crew:
    """The processes that train together, each with a device; alone unless `torchrun` started several."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @classmethod
    def of(cls, device: torch.device) -> Crew:
        """This process and those that `torchrun` started beside it."""
        size = processes()
        if size == 1:
            return cls(device)
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
        if not distributed.is_initialized():
            # optimisers load the compiler; loaded after this, it would keep the group's threads alive beyond its end
            import_module("torch._dynamo")
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(device, distributed.get_rank(), size)

    def see_that_it_can_share(self, model: nn.Module, batch: int, parts: int) -> None:
        """Raise an InputError if a batch has no equal shares, or the model must see it whole."""
        if batch % (self.size * parts):
            into = f" in {parts} parts each" if parts > 1 else ""
            raise InputError(f"a batch of {batch} cannot be shared by {self.size} devices{into}")
        if self.size * parts > 1 and (reason := getattr(model, "alone", None)):
            raise InputError(f"{type(model).__name__} {reason}: one process has to train it, with accumulate 1")

    def make_equal(self, model: nn.Module) -> None:
        """Give all of the crew the weights of the first: a model made without a seed is another in each process."""
        if self.size > 1:
            for tensor in model.state_dict().values():
                message = tensor.contiguous()
                distributed.broadcast(message, 0)
                tensor.copy_(message)

    def agree(self, first: Tensor, totals: dict[str, Tensor]) -> None:
        """Make a step the earliest that any of the crew has, and totals their mean over the crew."""
        if self.size > 1:
            distributed.all_reduce(first, distributed.ReduceOp.MIN)
            self.average(list(totals.values()))

    def average(self, gradients: list[Tensor]) -> None:
        """Replace gradients by their mean over the crew, in one message."""
        if self.size > 1:
            message = torch.cat([gradient.reshape(-1) for gradient in gradients])
            distributed.all_reduce(message)
            message /= self.size
            for gradient, mean in zip(
                gradients, torch.split(message, [each.numel() for each in gradients]), strict=True
            ):
                gradient.copy_(mean.view_as(gradient))

    def random_states(self) -> Tensor:
        """The states of the generators that all of the crew draw from, one row each."""
        state = generator_of(self.device).get_state()
        if self.size == 1:
            return state[None]
        rows = [torch.empty_like(state, device=self.device) for _ in range(self.size)]
        distributed.all_gather(rows, state.to(self.device))
        return torch.stack(rows).cpu()

    def set_random_state(self, states: Tensor, seed: int) -> None:
        """Bring this process's generator to its row of such states; those of another kind of device start anew."""
        generator = generator_of(self.device)
        if states.shape[1] == len(generator.get_state()):
            generator.set_state(states[self.rank].clone())
        else:
            generator.manual_seed(seed * 1_000 + self.rank + 1)

    def hears(self, asked: bool, meets: bool) -> bool:
        """Whether any of the crew was `asked` to stop, of which it hears when it `meets`; one alone hears at once."""
        if self.size == 1:
            return asked
        if not meets:
            return False
        told = torch.tensor(float(asked), device=self.device)
        distributed.all_reduce(told, distributed.ReduceOp.MAX)
        return bool(told)

    def leave(self) -> None:
        """Part when the work is done or stopped: a process that just ends would take its threads down with noise."""
        if self.size > 1 and distributed.is_initialized():
            distributed.barrier()
            distributed.destroy_process_group()

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            distributed.barrier()

    @contextmanager
    def own_random_numbers(self, seed: int) -> Iterator[None]:
        """A generator that starts from `seed` and leaves that of the caller as it was."""
        with seeded(seed * 1_000 + self.rank + 1, self.device):  # not the numbers that the weights were drawn from
            yield

    @contextmanager
    def own_stream(self) -> Iterator[None]:
        """On a GPU a stream that can be captured, and convolutions that are tuned to the shapes at hand."""
        if self.device.type != "cuda":
            yield
            return
        before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        outer, inner = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        inner.wait_stream(outer)  # what is to be read may still be on its way
        try:
            with torch.cuda.stream(inner):
                yield
        finally:
            outer.wait_stream(inner)
            torch.backends.cudnn.benchmark = before
