"""Imagination: can a model predict the next scene for new combinations? SVIB (Kim et al. 2023)."""

from alebrije.instruments.imagination.alphas import OVER_ALPHAS, alpha_jobs
from alebrije.instruments.imagination.scene_reader import ACCURACIES
from alebrije.instruments.imagination.section import section
from alebrije.instruments.imagination.study import jobs
from alebrije.instruments.imagination.values import METRICS, SKILL
from alebrije.instruments.imagination.verdict import RULE, decisive, judge
from alebrije.instruments.instrument import Instrument

INSTRUMENT = Instrument(
    name="imagination",
    title="Imagination",
    question="Can a model predict the next frame for combinations it never saw?",
    cites="Kim et al. 2023",
    metrics=(*METRICS, *OVER_ALPHAS, *ACCURACIES),
    jobs=jobs,
    verdict=judge,
    rule=RULE,
    decisive=decisive,
    score=SKILL,
    section=section,
    summary_jobs=alpha_jobs,
    options=("rules", "alphas"),
)
