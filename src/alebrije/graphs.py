"""A step that is taken many times: on a GPU most of its calls are replays of a CUDA graph.

A step of a small network is a dozen short kernels, and launching them one by one takes longer than running them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_PLAIN_CALLS = 3  # before the capture, so that libraries choose and load their kernels


class Repeated:
    """Calls a step any number of times. The step must change tensors in place and read nothing else that changes.

    On a GPU, `together` calls are captured as one graph when at least that many are wanted after a few plain ones.

    >>> count = torch.zeros(())
    >>> Repeated(lambda: count.add_(1), count.device).run(10)
    >>> count.item()
    10.0
    """

    def __init__(self, step: Callable[[], object], device: torch.device, together: int = 20) -> None:
        self.step, self.together = step, together
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self.graph: torch.cuda.CUDAGraph | None = None
        self.plain_calls = 0

    def run(self, times: int) -> None:
        """Take the step `times` times. Later work on the current stream waits for them; this call does not."""
        if self.stream is None:
            self._plainly(times)
            return
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            first = min(times, max(_PLAIN_CALLS - self.plain_calls, 0))
            self._plainly(first)
            replays, rest = divmod(times - first, self.together)
            for _ in range(replays):
                self._captured().replay()
            self._plainly(rest)
        current.wait_stream(self.stream)

    def _plainly(self, times: int) -> None:
        for _ in range(times):
            self.step()
        self.plain_calls += times

    def _captured(self) -> torch.cuda.CUDAGraph:
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()  # thread_local: another thread may use the GPU during the capture
            with torch.cuda.graph(self.graph, stream=self.stream, capture_error_mode="thread_local"):
                for _ in range(self.together):
                    self.step()
        return self.graph
