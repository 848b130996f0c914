"""The thresholds of all verdicts, in one table, each with its reason. The documentation shows this table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Threshold:
    """A number that a verdict depends on, what it decides, and why it is this number."""

    value: float
    decides: str
    why: str


THRESHOLDS = {
    "margin": Threshold(
        0.05,
        "A score at most this far above chance or above a yardstick is no better, whatever its interval.",
        "Smaller differences come and go with details such as the size of the images.",
    ),
    "clear margin": Threshold(
        0.1,
        "A model is clearly better than a yardstick if it is at least this much better.",
        "Twice the margin.",
    ),
    "share of the rest": Threshold(
        0.5,
        "Near the top, half of what the yardstick lacks to a perfect score replaces both margins if it is less.",
        "A yardstick of 0.96 leaves no room for a margin of 0.05.",
    ),
    "COAT": Threshold(
        0.5,
        "A good model has at least this COAT.",
        "D is then nearer than halfway between the true sum and a random scene.",
    ),
    "skill": Threshold(
        0.5,
        "A good model has at least this skill if no factors were read.",
        "It removes half of the error of the best constant image.",
    ),
    "factor right": Threshold(
        0.9,
        "A factor counts as right from this share of the accuracy on true images.",
        "The reader itself errs on a few percent of true images.",
    ),
    "factor wrong": Threshold(
        0.6,
        "A factor counts as wrong below this share of the accuracy on true images.",
        "Guessing reaches a quarter to a half, depending on the number of values.",
    ),
    "FG-ARI": Threshold(
        0.8,
        "A good model has at least this FG-ARI.",
        "Published slot models that find the objects of CLEVR reach 0.9 or more; single failures cost about 0.1.",
    ),
    "FG-ARI to be balanced": Threshold(
        0.5, "Below it, equal precision and recall are not called a balance.", "Both may be low."
    ),
    "precision and recall apart": Threshold(
        0.1,
        "Groups are too fine or too coarse if precision and recall differ by more.",
        "Twice the margin: smaller differences are hardly visible in the pictures.",
    ),
    "SNC": Threshold(
        0.8,
        "A good model has at least this SNC.",
        "Each factor is then read from its neuron with few errors; the best published model reaches 0.68.",
    ),
    "NK": Threshold(0.5, "From this NK on, a factor is hardly held elsewhere.", "Half of the accuracy is lost."),
    "kept": Threshold(
        0.9,
        "Nearly all is kept from this share of the accuracy on the normal test set.",
        "The same share as for a factor that counts as right.",
    ),
    "lost": Threshold(
        0.5, "Most is lost below this share of the accuracy on the normal test set.", "More is gone than left."
    ),
    "COAT lost": Threshold(0.1, "A larger drop of COAT under occlusion is mentioned.", "Twice the margin."),
}
