"""Analogy: do the codes of scenes add and subtract like the scenes do? COAT (Xie et al. 2022)."""

from alebrije.instruments.analogy.section import section
from alebrije.instruments.analogy.study import jobs
from alebrije.instruments.analogy.values import METRICS
from alebrije.instruments.analogy.verdict import RULE, decisive, judge
from alebrije.instruments.instrument import Instrument

INSTRUMENT = Instrument(
    name="analogy",
    title="Analogy",
    question="Do the codes of scenes add and subtract like the scenes do?",
    cites="Xie et al. 2022",
    metrics=METRICS,
    jobs=jobs,
    options=("betas",),
    verdict=judge,
    rule=RULE,
    decisive=decisive,
    score="coat",
    section=section,
)
