"""Metrics: pure functions on arrays, one file and one record per metric.

Functions take numpy arrays or torch tensors, return the same kind, and never change their input. `catalog` has the
record of every metric: its inputs, range, direction, citation and invariances.
"""
# ruff: noqa: I001  (the catalog keeps the order of these imports)

from alebrije.metrics.ari import adjusted_rand_index, adjusted_rand_precision, adjusted_rand_recall
from alebrije.metrics.iou import mean_best_overlap, mean_iou, segmentation_covering
from alebrije.metrics.ami import adjusted_mutual_information
from alebrije.metrics.masks import labels_from_masks
from alebrije.metrics.snc import align_neurons, single_neuron_classification
from alebrije.metrics.nk import neuron_knockout
from alebrije.metrics.mig import mutual_information_gap
from alebrije.metrics.modularity import modularity
from alebrije.metrics.sap import separated_attribute_predictability
from alebrije.metrics.dci import dci
from alebrije.metrics.med import med
from alebrije.metrics.irs import interventional_robustness
from alebrije.metrics.beta_vae import beta_vae_score
from alebrije.metrics.factor_vae import factor_vae_score
from alebrije.metrics.explicitness import explicitness
from alebrije.metrics.coat import HARD_NEGATIVES, coat
from alebrije.metrics.slots import drop_duplicate_slots, drop_invisible_slots, match_slots
from alebrije.metrics.tre import tree_reconstruction_error
from alebrije.metrics.mse import mean_squared_error
from alebrije.metrics.psnr import psnr
from alebrije.metrics.gap import generalisation_gap
from alebrije.metrics.alpha_efficiency import alpha_efficiency
from alebrije.metrics.lpips import lpips
from alebrije.metrics.record import Record, Score, catalog, find, register

__all__ = [
    "HARD_NEGATIVES",
    "Record",
    "Score",
    "adjusted_mutual_information",
    "adjusted_rand_index",
    "adjusted_rand_precision",
    "adjusted_rand_recall",
    "align_neurons",
    "alpha_efficiency",
    "beta_vae_score",
    "catalog",
    "coat",
    "dci",
    "drop_duplicate_slots",
    "drop_invisible_slots",
    "explicitness",
    "factor_vae_score",
    "find",
    "generalisation_gap",
    "interventional_robustness",
    "labels_from_masks",
    "lpips",
    "match_slots",
    "mean_best_overlap",
    "mean_iou",
    "mean_squared_error",
    "med",
    "modularity",
    "mutual_information_gap",
    "neuron_knockout",
    "psnr",
    "register",
    "segmentation_covering",
    "separated_attribute_predictability",
    "single_neuron_classification",
    "tree_reconstruction_error",
]
