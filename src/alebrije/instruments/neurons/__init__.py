"""Neurons: is each factor held by one neuron? SNC, NK and generalisation to new combinations (Mahon et al. 2024)."""

from alebrije.instruments.instrument import Instrument
from alebrije.instruments.neurons import accuracies
from alebrije.instruments.neurons.correlation import CORRELATION, correlation_jobs
from alebrije.instruments.neurons.generalisation import ACCURACY, PAIR_ACCURACIES
from alebrije.instruments.neurons.section import section
from alebrije.instruments.neurons.study import jobs
from alebrije.instruments.neurons.values import METRICS
from alebrije.instruments.neurons.verdict import RULE, decisive, judge

INSTRUMENT = Instrument(
    name="neurons",
    title="Neurons",
    question="Is each factor held by one neuron and by that one alone, and does that predict generalisation?",
    cites="Mahon et al. 2024",
    metrics=(*METRICS, ACCURACY, *PAIR_ACCURACIES, *accuracies.VALUES, CORRELATION),
    jobs=jobs,
    verdict=judge,
    rule=RULE,
    decisive=decisive,
    score="SNC",
    section=section,
    summary_jobs=correlation_jobs,
)
