"""Classifiers trained on codes, many at once."""

from alebrije.probes.boosting import BoostedTrees, boost_trees
from alebrije.probes.linear import logistic_regression
from alebrije.probes.mlp import KnockoutAccuracy, knockout_accuracy
from alebrije.probes.scaling import standardise

__all__ = ["BoostedTrees", "KnockoutAccuracy", "boost_trees", "knockout_accuracy", "logistic_regression", "standardise"]
