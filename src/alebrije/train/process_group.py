"""The process group: all processes that train one model together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor, distributed, nn

from alebrije.errors import InputError
from alebrije.seeding import default_generator, seeded


def process_count() -> int:
    """Return how many processes `torchrun` started, including this one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train one model, each with its device; just one unless `torchrun` started several."""

    device: torch.device
    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> ProcessGroup:
        """Join the processes that `torchrun` started together with this one."""
        size = process_count()
        if size == 1:
            return cls(device)
        if device.type == "cuda":
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
        if not distributed.is_initialized():
            # Optimizers import the compiler. Imported after this, it would keep the group's threads alive.
            import_module("torch._dynamo")
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(device, distributed.get_rank(), size)

    def check_batch(self, model: nn.Module, batch: int, parts: int) -> None:
        """Raise an InputError if the batch has no equal shares, or if the model needs whole batches."""
        if batch % (self.size * parts):
            into = f" in {parts} parts each" if parts > 1 else ""
            raise InputError(f"a batch of {batch} cannot be shared by {self.size} devices{into}")
        if self.size * parts > 1 and (reason := getattr(model, "whole_batch_reason", None)):
            raise InputError(f"{type(model).__name__} {reason}: train it in one process, with accumulate 1")

    def broadcast_weights(self, model: nn.Module) -> None:
        """Copy the weights of rank 0 to all processes; a model made without a seed differs between them."""
        if self.size > 1:
            for tensor in model.state_dict().values():
                message = tensor.contiguous()
                distributed.broadcast(message, 0)
                tensor.copy_(message)

    def reduce_losses(self, bad_step: Tensor, totals: dict[str, Tensor]) -> None:
        """Replace `bad_step` by its minimum over the processes, and `totals` by their means."""
        if self.size > 1:
            distributed.all_reduce(bad_step, distributed.ReduceOp.MIN)
            self.average(list(totals.values()))

    def average(self, tensors: list[Tensor]) -> None:
        """Replace tensors by their means over the processes, in one message."""
        if self.size > 1:
            message = torch.cat([tensor.reshape(-1) for tensor in tensors])
            distributed.all_reduce(message)
            message /= self.size
            means = torch.split(message, [tensor.numel() for tensor in tensors])
            for tensor, mean in zip(tensors, means, strict=True):
                tensor.copy_(mean.view_as(tensor))

    def random_states(self) -> Tensor:
        """Return the state of each process's generator. [P, S]"""
        state = default_generator(self.device).get_state()
        if self.size == 1:
            return state[None]
        states = [torch.empty_like(state, device=self.device) for _ in range(self.size)]
        distributed.all_gather(states, state.to(self.device))
        return torch.stack(states).cpu()

    def set_random_state(self, states: Tensor, seed: int) -> None:
        """Restore this process's generator from `states`, or seed it if they are from another kind of device."""
        generator = default_generator(self.device)
        if states.shape[1] == len(generator.get_state()):
            generator.set_state(states[self.rank].clone())
        else:
            generator.manual_seed(seed * 1_000 + self.rank + 1)

    def should_stop(self, requested: bool, synchronise: bool) -> bool:
        """Return whether any process was asked to stop; several processes only find out when they synchronise."""
        if self.size == 1:
            return requested
        if not synchronise:
            return False
        any_requested = torch.tensor(float(requested), device=self.device)
        distributed.all_reduce(any_requested, distributed.ReduceOp.MAX)
        return bool(any_requested)

    def leave(self) -> None:
        """Leave the group; a process that just exits would kill its communication threads and crash."""
        if self.size > 1 and distributed.is_initialized():
            distributed.barrier()
            distributed.destroy_process_group()

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            distributed.barrier()

    @contextmanager
    def own_random_numbers(self, seed: int) -> Iterator[None]:
        """Seed this process's generators, and restore the caller's state afterwards."""
        with seeded(seed * 1_000 + self.rank + 1, self.device):  # not the seed that the weights were sampled with
            yield

    @contextmanager
    def own_stream(self) -> Iterator[None]:
        """On a GPU, use a stream that can be captured, and tune convolutions to the shapes they get."""
        if self.device.type != "cuda":
            yield
            return
        before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        outer, inner = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        inner.wait_stream(outer)  # the outer stream may still be writing what we read
        try:
            with torch.cuda.stream(inner):
                yield
        finally:
            outer.wait_stream(inner)
            torch.backends.cudnn.benchmark = before
