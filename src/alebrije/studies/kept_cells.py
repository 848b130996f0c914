"""Cells of the reference `pixels`, kept once per machine: they depend on seeds and code alone, as world images do.

Every verdict compares with pixels, so without this each result folder would compute the same numbers. What is kept are
the values and the samples for pictures. An entry holds them as arrays with checksums, and its name is a digest of the
cell's key and of all code of this package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from alebrije.arrays import Array
from alebrije.data.machine_cache import CacheUnusableError, machine_cache, package_digest
from alebrije.results import Value
from alebrije.studies.references import is_pixels
from alebrije.studies.stages import SCORING, in_stage
from alebrije.worlds.user_worlds import CONTENTS

if TYPE_CHECKING:
    from alebrije.results import Cell
    from alebrije.studies.folder import ResultFolder
    from alebrije.studies.jobs import Job

_VALUES, _SAMPLES = "values", "sample-"  # names of arrays: the values as JSON, and those for pictures
_OF_FILES = (CONTENTS, "checksum")  # in the inputs of cells on images that are not alebrije's own


class _NotKeptError(Exception):
    """Values that say why there are none, which may be due to this machine or its memory."""

    def __init__(self, values: Mapping[str, Value | float]) -> None:
        super().__init__()
        self.values = values


@dataclass(frozen=True)
class Kept:
    """Where a cell is kept: in the cache of the machine, under these settings, for this device."""

    settings: Mapping[str, Any]
    device: str

    @property
    def exists(self) -> bool:
        """Whether it was computed before; a damaged entry counts."""
        cache = machine_cache()
        return cache is not None and cache.has(self.settings, self.device)


def kept_once(job: Job, device: str) -> Job:
    """The same job, whose values are kept once per machine if it examines pixels on images of alebrije."""
    if job.model is None or not is_pixels(job.model) or _mentions(job.cell.inputs):
        return job
    packages = {name: version(name) for name in ("scipy", "scikit-learn")}
    settings = {"name": f"pixels-{job.cell.study}", "cell": job.cell.key, "package": package_digest(), **packages}
    return replace(job, kept=Kept(settings, device))


def kept_values(job: Job, folder: ResultFolder) -> Mapping[str, Value | float]:
    """The values of a job: those that the machine has, or computed and then kept."""
    cache = machine_cache()
    if job.kept is None or cache is None:
        return job.work()

    def compute() -> dict[str, Array]:
        with in_stage(SCORING):
            values = job.work()
        if any(isinstance(value, Value) and value.score is None for value in values.values()):
            raise _NotKeptError(values)
        return _as_arrays(values, folder.samples(job.cell))

    try:
        with in_stage("reading and waiting"):
            arrays = cache.get(job.kept.settings, compute, job.kept.device)
    except _NotKeptError as error:
        return error.values
    except CacheUnusableError as error:
        if error.arrays is None:
            return job.work()
        arrays = dict(error.arrays)
    return _from_arrays(arrays, job.cell, folder)


def _as_arrays(values: Mapping[str, Value | float], samples: Mapping[str, Array]) -> dict[str, Array]:
    full = {name: value if isinstance(value, Value) else Value(score=value) for name, value in values.items()}
    text = json.dumps({name: value.model_dump(mode="json") for name, value in full.items()})
    pictures = {f"{_SAMPLES}{name}": array for name, array in samples.items()}
    return {_VALUES: np.frombuffer(text.encode(), dtype=np.uint8), **pictures}


def _from_arrays(arrays: Mapping[str, Array], cell: Cell, folder: ResultFolder) -> dict[str, Value]:
    samples = {name.removeprefix(_SAMPLES): array for name, array in arrays.items() if name.startswith(_SAMPLES)}
    if samples:
        folder.keep_samples(cell, **samples)
    stored = json.loads(np.asarray(arrays[_VALUES]).tobytes())
    return {name: Value.model_validate(value) for name, value in stored.items()}


def _mentions(inputs: Any) -> bool:
    """Whether the inputs of a cell name a file or the code of a user."""
    if isinstance(inputs, Mapping):
        return any(name in inputs for name in _OF_FILES) or any(map(_mentions, inputs.values()))
    return isinstance(inputs, (list, tuple)) and any(map(_mentions, inputs))
