"""Work that takes little longer for several cells than for one, done for all of them when the first is computed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from alebrije.results import Value

if TYPE_CHECKING:
    from alebrije.studies.jobs import Job

Work = Callable[[], Mapping[str, Value | float]]
_LOG = logging.getLogger("alebrije")


@dataclass(frozen=True)
class Together:
    """How a cell is computed beside others with the same key, such as heads that a GPU trains at once.

    `start` gets the items of all missing cells and returns the work that is left for each; None if that cell has to be
    computed by itself. The values of a cell must not depend on which others are computed beside it.
    """

    key: Hashable
    item: Any
    start: Callable[[Sequence[Any]], Sequence[Work | None]]


def joined(jobs: Sequence[Job]) -> list[Job]:
    """The same jobs; the first of those that belong together starts the work of all."""
    groups: dict[Hashable, _Group] = {}
    found = []
    for job in jobs:
        if job.together is None or (job.kept is not None and job.kept.exists):
            found.append(job)
            continue
        group = groups.setdefault(job.together.key, _Group())
        group.members[job.cell.key] = job.together
        found.append(replace(job, work=partial(group.work, job.cell.key, job.work)))
    return found


class _Group:
    """Cells that belong together, and the work that is left for each once they have been started."""

    def __init__(self) -> None:
        self.members: dict[str, Together] = {}
        self.left: dict[str, Work | None] | None = None

    def work(self, key: str, alone: Work) -> Mapping[str, Value | float]:
        """Compute one cell, as `alone` does it."""
        if self.left is None:
            self.left = self._started() if len(self.members) > 1 else {}
        left = self.left.pop(key, None)
        return alone() if left is None else left()

    def _started(self) -> dict[str, Work | None]:
        members = list(self.members.values())
        try:
            return dict(zip(self.members, members[0].start([each.item for each in members]), strict=True))
        except Exception as error:  # such as too little memory for all: each cell tries by itself, and reports its own
            _LOG.debug("%d cells are computed one by one: %s", len(members), error)
            return {}
