"""What is doubtful in the tables of single runs of Mahon et al. 2024, by arithmetic within the tables. Data only."""

from __future__ import annotations

from collections.abc import Mapping

OVER_TWO = ("product of 2", "mean of 2")  # over shape and size, in the words of Table 6

# Columns that look swapped. Both factors are read correctly in at least a + b - 1 and at most min(a, b) of all images,
# where a and b are the accuracies of shape and size; as printed many rows break that, with the columns swapped none do.
_SHAPE_AND_HUE = {"shape": "obj h", "obj h": "shape"}
_SHAPE_AND_BACKGROUND = {"shape": "bg h", "bg h": "shape"}
SWAPPED: Mapping[str, Mapping[str, str]] = {
    **{f"Table {number}": _SHAPE_AND_HUE for number in (33, 34, 35, 36, 37, 38, 46)},
    **{f"Table {number}": _SHAPE_AND_BACKGROUND for number in (24, 42)},
}

# rows of normal test sets that repeat another row: table, head, run, and the other row
_COPIED_ROWS = (
    (12, "NK1", 2, "SNC of run 2 in Table 18"),
    (13, "NK1", 1, "run 0"),
    (13, "SNC", 1, "run 0"),
    (13, "SNC", 2, "run 0"),
    (13, "NK1", 3, "run 2"),
    (17, "NK1", 2, "run 0"),
    (18, "SNC", 2, "NK1 of run 2 in Table 12"),
    (18, "NK1", 3, "run 2"),
    (18, "NK1", 4, "run 0"),
    (21, "linear", 3, "run 2"),
    (24, "NK1", 3, "run 2"),
)
_LINEAR_IS_MLP = ((28, "3-1"), (29, "2-1"), (35, "7-1"), (43, "0-5"))  # table, pair
_IMPOSSIBLE_PRODUCTS = (
    ("dsprites", "PartedVAE-ss", "DCI-C"),
    ("dsprites", "PartedVAE-ss", "DCI-I"),
    ("3dshapes", "beta-TCVAE", "DCI-I"),
)


def _run(number: int, **cells: str | float) -> tuple[str, Mapping[str, str | float]]:
    return "single_runs", {"source": f"Table {number}", **cells}


NOTES_ON_RUNS: tuple[tuple[str, Mapping[str, str | float], str], ...] = (
    *(
        (
            "metric_variants",
            {"dataset": dataset, "model": model, "metric": metric, "over": over},
            "the product of two fractions cannot exceed their mean, but it does here",
        )
        for dataset, model, metric in _IMPOSSIBLE_PRODUCTS
        for over in OVER_TWO
    ),
    ("metric_variants", {"metric": "DCI"}, "not the mean of D, C and I of the same table"),
    *(
        ("single_runs", {"source": source, "factor": factor}, f"looks swapped with the column of {other}")
        for source, columns in SWAPPED.items()
        for factor, other in columns.items()
    ),
    *(
        (*_run(number, test_set="normal", head=head, run=run), f"the same as {other}")
        for number, head, run, other in _COPIED_ROWS
    ),
    *((*_run(number, test_set=pair), "its linear and its MLP row are the same") for number, pair in _LINEAR_IS_MLP),
    (*_run(24, head="SNC", factor="both"), "seems to be of size and background; the other rows are of size and shape"),
    *((*_run(22, head="MLP", run=run, factor="bg h"), "0, so this run seems to have failed") for run in (2, 3)),
    (*_run(44, test_set="0-0", head="linear"), "printed on two lines, which are joined here"),
    (*_run(15, head="MLP", run=1, factor="both"), "larger than the accuracy of size, which is impossible"),
)
