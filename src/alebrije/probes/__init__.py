"""Classifiers trained on codes, many at once."""

from alebrije.probes.boosting import BoostedTrees, boost_trees
from alebrije.probes.linear import linear_predictions, logistic_regression
from alebrije.probes.mlp import KnockoutAccuracy, knockout_accuracy, mlp_predictions
from alebrije.probes.scaling import standardise
from alebrije.probes.split import split_rows
from alebrije.probes.threshold import SortedNeuron, svm_predictions

__all__ = [
    "BoostedTrees",
    "KnockoutAccuracy",
    "SortedNeuron",
    "boost_trees",
    "knockout_accuracy",
    "linear_predictions",
    "logistic_regression",
    "mlp_predictions",
    "split_rows",
    "standardise",
    "svm_predictions",
]
