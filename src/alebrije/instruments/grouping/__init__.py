"""Grouping: are pixels grouped into objects? ARI, ARP and ARR (Zimmermann et al. 2023)."""

from alebrije.instruments.grouping.parts import METRICS, MORE, PARTS, REQUESTED
from alebrije.instruments.grouping.section import section
from alebrije.instruments.grouping.slots import CORRELATIONS, correlation_jobs
from alebrije.instruments.grouping.study import jobs
from alebrije.instruments.grouping.verdict import RULE, decisive, judge
from alebrije.instruments.instrument import Instrument

INSTRUMENT = Instrument(
    name="grouping",
    title="Grouping",
    question="Are pixels grouped into objects: too coarse, right, or too fine?",
    cites="Zimmermann et al. 2023",
    metrics=(*METRICS, *MORE, *REQUESTED, *PARTS, *CORRELATIONS),
    jobs=jobs,
    verdict=judge,
    rule=RULE,
    decisive=decisive,
    score="fg-ari",
    section=section,
    summary_jobs=correlation_jobs,
)
