"""The codes that a model gives a corpus, computed once for all cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from alebrije.arrays import Floats, Integers
from alebrije.instruments.neurons.images import Corpus
from alebrije.studies.encode import batches, check_codes_finite, examining, on_device
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import Model

LONG = 256  # neurons; beyond it, metrics that fit a model to each neuron or to all of them need a request by name
HUGE = 4096  # neurons; beyond it, everything that takes minutes does
_VERSION = 1  # raised when the same model gives other codes
_BATCH = 256
ATTRIBUTES = "attributes"  # a detail: what was left out of a user's attributes or divided into bins


@dataclass(frozen=True)
class Codes:
    """Codes [N, L]. `slots` is the number of slots they are the mean of, if any; `notes` are about the attributes."""

    values: Floats
    slots: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """The number of neurons."""
        return int(self.values.shape[1])

    @property
    def details(self) -> dict[str, Any]:
        """How they were pooled and what was left out of the attributes, for the details of a value."""
        pooled = {} if self.slots is None else {"codes": f"the mean over {self.slots} slots"}
        return {**pooled, **({ATTRIBUTES: list(self.notes)} if self.notes else {})}


@dataclass(frozen=True)
class EncodedCorpus:
    """A corpus and a model that encodes it.

    `identity` is that of the model. It is kept because computing it reads all weights.
    """

    folder: ResultFolder
    corpus: Corpus
    model: Model
    identity: Mapping[str, Any]
    device: str = "cpu"  # where images are rendered and heads are trained

    def factors(self) -> Integers:
        """The values [N, F] of the factors that vary."""
        return self.corpus.factors(self.folder, self.device)

    def codes(self) -> Codes:
        """The codes of all images; slots are averaged."""
        settings = {"name": "codes", "version": _VERSION, "subject": self.identity, "images": self.corpus.settings}
        arrays = self.folder.cached(settings, self._encode)
        check_codes_finite(arrays["codes"])
        return Codes(np.asarray(arrays["codes"], dtype=np.float64), int(arrays["slots"]) or None, self.corpus.notes)

    def _encode(self) -> Mapping[str, npt.ArrayLike]:
        parts, slots = [], 0
        for batch in batches(on_device(self.model, self.corpus.view(self.folder, self.device)), _BATCH):
            with examining(self.model, f"they must be of the images of `{self.corpus.command}`"):
                found = self.model.encode(batch)
            slots = 0 if found.slots is None else found.slots.shape[1]
            codes = found.codes if found.slots is None else found.slots.mean(1)  # [B, L]
            parts.append(codes.detach().float())
        return {"codes": torch.cat(parts).cpu().numpy(), "slots": np.array(slots)}


def too_long(width: int, name: str) -> str:
    """Why a value that takes long was not computed."""
    return f"not computed for codes of {width} neurons unless {name} is requested by name"
