"""Known doubts about published numbers. Data only."""

from __future__ import annotations

from collections.abc import Mapping

from alebrije.results.published_runs import NOTES_ON_RUNS

# the table, the rows, and the reason
NOTES: tuple[tuple[str, Mapping[str, str | float], str], ...] = (
    (
        "disentanglement",
        {"dataset": "3dshapes", "metric": "SNC"},
        "seems to be adjusted for a chance of 1/20 in size, orientation and shape, which have 8, 15 and 4 values",
    ),
    (
        "disentanglement",
        {"dataset": "mpi3d", "metric": "SNC"},
        "seems to be adjusted for a chance of 1/33 in camera height and background, which have 3 values each",
    ),
    *(
        ("disentanglement", {"metric": metric}, f"its spread looks like that of {other}, by the runs of Tables 9 to 26")
        for metric, other in (("MLP", "NK"), ("NK", "MLP"))
    ),
    ("disentanglement", {"metric": "MLP"}, "a plain accuracy, though the caption says that chance was subtracted"),
    ("disentanglement", {"metric": "linear"}, "a plain accuracy, though the caption says that chance was subtracted"),
    (
        "disentanglement",
        {"metric": "MED"},
        "neither with normalised columns nor the mean of D, C and I: that gives pure noise more than some values",
    ),
    (
        "disentanglement",
        {"dataset": "dsprites", "model": "WeakDE", "metric": "DCI-I"},
        "below the accuracy of guessing, so it may not be a plain accuracy",
    ),
    (
        "disentanglement",
        {"dataset": "dsprites", "model": "WeakDE", "source": "Table 2"},
        "disagrees with the tables of single runs in the paper's appendix",
    ),
    (
        "compositional_generalisation",
        {"setting": "normal test set", "feature": "both"},
        "but for MTD, the mean over all factors of Tables 9 to 26, and no joint accuracy of shape and size",
    ),
    (
        "compositional_generalisation",
        {"feature": "shape"},
        "the columns of shape and size look swapped compared with the paper's appendix",
    ),
    (
        "compositional_generalisation",
        {"feature": "size"},
        "the columns of shape and size look swapped compared with the paper's appendix",
    ),
    *NOTES_ON_RUNS,
)

# our worlds that stand for a dataset whose images cannot be rendered again, and how they differ
STAND_INS: Mapping[str, str] = {
    "rooms": "our rooms is a stand-in for 3D Shapes: the same factors, counts and order, but our own images",
    "arm": "our arm is a stand-in for MPI3D: the same factors, counts and order, but our own images of another arm",
}
