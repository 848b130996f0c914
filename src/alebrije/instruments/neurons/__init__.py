"""Neurons: is each factor held by one neuron? SNC, NK and generalisation to new combinations (Mahon et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence

from alebrije.instruments.instrument import Instrument
from alebrije.instruments.neurons import accuracies
from alebrije.instruments.neurons.correlation import CORRELATION, correlation_jobs
from alebrije.instruments.neurons.generalisation import ACCURACY, PAIR_ACCURACIES
from alebrije.instruments.neurons.section import section
from alebrije.instruments.neurons.study import jobs
from alebrije.instruments.neurons.values import METRICS
from alebrije.instruments.neurons.variants import VARIANTS, variant_jobs
from alebrije.instruments.neurons.verdict import RULE, decisive, judge
from alebrije.results import Result
from alebrije.studies.jobs import Job


def summary_jobs(results: Sequence[Result]) -> list[Job]:
    """The cells computed from other cells: metrics over shape and size, and correlations."""
    return [*variant_jobs(results), *correlation_jobs(results)]


INSTRUMENT = Instrument(
    name="neurons",
    title="Neurons",
    question="Is each factor held by one neuron and by that one alone, and does that predict generalisation?",
    cites="Mahon et al. 2024",
    metrics=(*METRICS, ACCURACY, *PAIR_ACCURACIES, *accuracies.VALUES, *VARIANTS, CORRELATION),
    jobs=jobs,
    verdict=judge,
    rule=RULE,
    decisive=decisive,
    score="SNC",
    section=section,
    summary_jobs=summary_jobs,
)
