"""A step that is taken many times: on a GPU most of its calls are replays of a CUDA graph.

A step of a small network is a dozen short kernels, and launching them one by one takes longer than running them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from alebrije.imports import first_line

_LOG = logging.getLogger("alebrije")
_PLAIN_CALLS = 3  # before the capture, so that libraries choose and load their kernels


class Repeated:
    """Calls a step any number of times. The step must change tensors in place and read nothing else that changes.

    On a GPU, `together` calls are captured as one graph when at least that many are wanted after a few plain ones. If
    the capture fails, as with a library that allocates by itself, all calls are plain.

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
        self.capturable = True

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
            graph = self._captured() if times - first >= self.together else None
            replays = 0 if graph is None else (times - first) // self.together
            for _ in range(replays):
                assert graph is not None
                graph.replay()
            self._plainly(times - first - replays * self.together)
        current.wait_stream(self.stream)

    def _plainly(self, times: int) -> None:
        for _ in range(times):
            self.step()
        self.plain_calls += times

    def _captured(self) -> torch.cuda.CUDAGraph | None:
        if self.graph is None and self.capturable:
            graph = torch.cuda.CUDAGraph()  # thread_local: another thread may use the GPU during the capture
            try:
                with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
                    for _ in range(self.together):
                        self.step()
                self.graph = graph
            except RuntimeError as error:  # nothing has run, so nothing has changed
                self.capturable = False
                _LOG.warning("steps on a GPU cannot be captured as a graph and are slower: %s", first_line(error))
        return self.graph
