"""Every public function of the metrics works or names the wrong argument in one sentence; no warning leaks."""

import inspect
import warnings

import numpy as np
import pytest
import torch

from alebrije import metrics
from alebrije.errors import InputError, UndefinedMetricWarning
from alebrije.metrics import catalog

rng = np.random.default_rng(0)
SCENES = rng.normal(size=(5, 4, 2, 3))
MAPS, IMAGES = rng.integers(0, 3, (2, 2, 4, 4)), rng.random((2, 1, 3, 32, 32))
FACTORS = rng.integers(0, 2, (24, 2))
GOOD = {
    "true": MAPS[0], "pred": MAPS[1],
    "codes": FACTORS + 0.1 * rng.normal(size=(24, 2)), "factors": FACTORS, "present": np.ones((24, 2), bool),
    "a": SCENES[0], "b": SCENES[1], "c": SCENES[2], "d": SCENES[3], "negatives": {"drop": SCENES[4]},
    "target": IMAGES[0], "predicted": IMAGES[1],
    "in_distribution": np.array([1.0, 2.0]), "out_of_distribution": np.array([1.0, 3.0]),
    "alphas": np.array([0.0, 0.5]), "model": np.array([1.0, 2.0]), "oracle": np.array([2.0, 1.0]),
    "slots": SCENES[0], "masks": rng.random((4, 2, 3, 3)), "blank": np.zeros(3),
}  # fmt: skip
QUICK = {"epochs": 1, "steps": 1, "train": 20, "test": 20, "group": 2, "batch": 4}
TOOLS = ("align_neurons", "drop_duplicate_slots", "drop_invisible_slots", "labels_from_masks", "match_slots")
FUNCTIONS = {
    **{name: getattr(metrics, name) for name in TOOLS},
    **{record.function.__name__: record.function for record in catalog().values()},
}
WRONG_SETTINGS = ["x", None, [], {}, float("nan"), float("inf"), -1, 0.37, True, object(), np.zeros(2), 1j, 10**30]
WRONG_ARRAYS = [
    False, "x", None, 3, float("nan"), object(), {}, [], [[1.0], [1.0, 2.0]], [object()],
    np.zeros(()), np.zeros(0), np.zeros((1,) * 7), np.zeros((2, 0)), np.array([[object()] * 2] * 24),
    np.array([["a", "b"]] * 24), np.array([[1j, 2.0]] * 24), np.zeros((24, 2), "M8[s]"), np.zeros(24, "f8,i4"),
    torch.zeros(()), torch.zeros(3, dtype=torch.complex64), torch.zeros((1,) * 7),
    torch.zeros((24, 2), device="meta"), torch.eye(24).to_sparse(), np.full((24, 2), 1e20),
]  # fmt: skip


def arguments(function):
    """Valid values of the arrays, and quick ones of the settings."""
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in GOOD and not (name == "model" and parameter.default is not parameter.empty):
            found[name] = GOOD[name]
        elif name in QUICK:
            found[name] = QUICK[name]
    return found


def outcome(function, changed):
    """Call the function with arguments of which one may be wrong: the sentence of its error, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        try:
            function(**changed)
        except InputError as error:
            return str(error)
    return None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_valid_arguments_work_without_warnings(name):
    assert outcome(FUNCTIONS[name], arguments(FUNCTIONS[name])) is None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_arguments_work_or_are_refused_in_one_sentence(name):
    function, refused = FUNCTIONS[name], 0
    good = arguments(function)
    for argument, parameter in inspect.signature(function).parameters.items():
        array = parameter.default is parameter.empty or "Array" in str(parameter.annotation)
        for wrong in WRONG_ARRAYS if array else WRONG_SETTINGS:
            sentence = outcome(function, {**good, argument: wrong})
            refused += sentence is not None
            assert sentence is None or "\n" not in sentence, (argument, wrong)
    assert refused > 10


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.dci(GOOD["codes"], FACTORS, held_out="x"), "held_out must be a number, not 'x'"),
        (lambda: metrics.labels_from_masks(False), "masks must be a numpy array or a torch tensor, got bool"),
        (lambda: metrics.coat(*SCENES[:4], {}, group=2.5), "group must be a whole number, not 2.5"),
        (lambda: metrics.coat(*SCENES[:4], {"drop": None}), "negatives.drop must be a numpy array or a torch tensor"),
        (lambda: metrics.mean_iou(*MAPS, ignore=0.9), "ignore must be a whole number, not 0.9"),
        (lambda: metrics.segmentation_covering(*MAPS, weighted="no"), "weighted must be True or False, not 'no'"),
        (lambda: metrics.neuron_knockout(GOOD["codes"], FACTORS, seed=-1), "seed must be at least 0, not -1"),
        (lambda: metrics.mean_squared_error(*IMAGES, reduction=3), "reduction must be 'mean' or 'sum', got 3"),
        (lambda: metrics.find(3), "name must be text, not int"),
    ],
)
def test_the_sentence_names_the_argument(call, words):
    with pytest.raises(InputError, match=words):
        call()
