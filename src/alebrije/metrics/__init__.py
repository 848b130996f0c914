"""What is measured: pure functions on arrays, one record per metric.

Functions take numpy arrays or torch tensors and answer in kind; they never change their input. `catalog` has every
metric's record: what it needs, its range and direction, what it cites, which invariances it promises.
"""

from alebrije.metrics.grouping import (  # isort: skip  (the catalog keeps the order of these imports)
    adjusted_mutual_information,
    adjusted_rand_index,
    adjusted_rand_precision,
    adjusted_rand_recall,
    labels_from_masks,
    mean_best_overlap,
    mean_iou,
    segmentation_covering,
)
from alebrije.metrics.single_neuron import align_neurons, single_neuron_classification  # isort: skip
from alebrije.metrics.knockout import neuron_knockout  # isort: skip
from alebrije.metrics.information_gap import modularity, mutual_information_gap  # isort: skip
from alebrije.metrics.separation import separated_attribute_predictability  # isort: skip
from alebrije.metrics.importance import dci, med  # isort: skip
from alebrije.metrics.robustness import interventional_robustness  # isort: skip
from alebrije.metrics.fixed_factor import beta_vae_score, factor_vae_score  # isort: skip
from alebrije.metrics.explicit import explicitness  # isort: skip
from alebrije.metrics.analogy import HARD_NEGATIVES, coat  # isort: skip
from alebrije.metrics.slots import drop_duplicate_slots, drop_invisible_slots, match_slots  # isort: skip
from alebrije.metrics.tree import tree_reconstruction_error  # isort: skip
from alebrije.metrics.imagination import (  # isort: skip
    alpha_efficiency,
    generalisation_gap,
    mean_squared_error,
    psnr,
)
from alebrije.metrics.perceptual import lpips  # isort: skip
from alebrije.metrics.record import Record, Score, catalog, find, register  # isort: skip

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
