"""Runs of the study, a corpus, and models with unusual codes."""

from __future__ import annotations

from functools import partial

import torch

from alebrije.encoding import Encoding
from alebrije.instruments.imagination import INSTRUMENT
from alebrije.instruments.imagination.images import Corpus
from alebrije.results import Result
from alebrije.studies.model import View
from alebrije.studies.references import Oracle
from tests.instruments import running

TINY = Corpus("sprites", "S-A", 0.6, 32)


run = partial(running.run, INSTRUMENT)


def score(result: Result, name: str) -> float:
    """A value that is not null."""
    found = result.values[name].score
    assert found is not None
    return found


class ManySlots(Oracle):
    """The slots of the oracle, followed by 40 empty ones."""

    filling = 0.0

    def encode(self, view: View) -> Encoding:
        slots = super().encode(view).slots
        assert slots is not None
        return Encoding(slots=torch.cat([slots, torch.full((len(slots), 40, slots.shape[2]), self.filling)], 1))


class BrokenSlots(ManySlots):
    """NaN in the additional slots."""

    filling = torch.nan
