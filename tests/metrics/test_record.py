"""Every metric does what its record declares.

Follows scikit-learn's metrics/cluster/tests/test_common.py: a new metric fails here until its record declares
invariances that hold and `ANSWERS` has its values for an oracle, noise, a constant and a single sample.
"""

import copy
import dataclasses
import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from alebrije import metrics
from alebrije.errors import InputError
from alebrije.metrics import Record, Score, catalog
from alebrije.metrics.record import Direction, Invariance
from tests.metrics import references

approx = pytest.approx

CATALOG = catalog()
PAIRS = [(name, invariance) for name, record in CATALOG.items() for invariance in sorted(record.invariances)]

# public functions that are not metrics
TOOLS = {
    "align_neurons",
    "catalog",
    "drop_duplicate_slots",
    "drop_invisible_slots",
    "find",
    "register",
    "labels_from_masks",
    "match_slots",
}

# smaller settings, so that a metric can be called many times
REDUCED = {
    "nk": {"epochs": 10},
    "beta-vae": {"train": 600, "test": 1000},
    "factor-vae": {"train": 600, "test": 1000},
    "tre": {"steps": 60},
    "coat": {"group": 16},
    "coat-l2": {"group": 16},
    "coat-acos": {"group": 16},
}
TRAINED = {"nk", "sap", "dci", "dci-linear", "med", "med-raw", "beta-vae", "factor-vae", "explicitness", "tre"}
COSTLY = {*TRAINED, "lpips"}  # fewer examples

ROUNDING, SINGLE = 1e-9, 1e-5  # relative: sums in another order, and single precision


@pytest.fixture(scope="module", autouse=True)
def random_lpips_weights(tmp_path_factory):
    """A torch hub with AlexNet and its heads in the published format, with random weights; no others are read."""
    folder = tmp_path_factory.mktemp("hub") / "checkpoints"
    folder.mkdir()
    draw = torch.Generator().manual_seed(0)
    sizes = {0: (64, 3, 11), 3: (192, 64, 5), 6: (384, 192, 3), 8: (256, 384, 3), 10: (256, 256, 3)}
    backbone, heads = {}, {}
    for tap, (layer, (outputs, inputs, kernel)) in enumerate(sizes.items()):
        weight = torch.randn(outputs, inputs, kernel, kernel, generator=draw)
        backbone[f"features.{layer}.weight"] = weight / (inputs * kernel**2) ** 0.5
        backbone[f"features.{layer}.bias"] = 0.1 * torch.randn(outputs, generator=draw)
        heads[f"lin{tap}.model.1.weight"] = torch.rand(1, outputs, 1, 1, generator=draw)
    torch.save(backbone, folder / "alexnet-owt-random.pth")
    torch.save(heads, folder / "alex.pth")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.hub, "get_dir", lambda: str(folder.parent))
        yield


# Calling metrics and comparing their results


def call(record, arguments, **settings):
    """The result of a metric, which must be in the range of its record and have a reason if it is NaN."""
    result = record(**arguments, **{**REDUCED.get(record.name, {}), **settings})
    values, (low, high) = headline(result), record.range
    assert ((values >= low - 1e-9) & (values <= high + 1e-9) | np.isnan(values)).all(), (record.name, values)
    if isinstance(result, Score):
        assert isinstance(result.score, float)
        assert not math.isnan(result.score) or result.reason
    return result


def headline(result):
    """The score, or the values per image, as an array [1] or [B]."""
    return np.atleast_1d(numpy(result.score if isinstance(result, Score) else result))


def numpy(value):
    return np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value)


def fields(result, whole=False):
    """What to compare: the values per image, or the score and the fields that have no order; all if `whole`."""
    if not isinstance(result, Score):
        return {"per image": numpy(result)}
    kept = {"score", "per_factor", "disentanglement", "completeness", "informativeness", "relative", "passed"}
    found = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    if whole:
        return {name: numpy(v) for name, v in found.items() if isinstance(v, (float, bool, np.ndarray, torch.Tensor))}
    return {name: numpy(value) for name, value in found.items() if name in kept}


def assert_agree(found, expected, tolerance):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


def mapped(arguments, change, names=None):
    """The arguments with `change` applied to every array, or to those called `names`, hard negatives included."""
    return {
        name: value
        if names and name not in names
        else {key: change(array) for key, array in value.items()}
        if isinstance(value, Mapping)
        else change(value)
        for name, value in arguments.items()
    }


# Realistic inputs, by the names of a metric's arguments; `size` makes them larger


def segmentations(rng, size):
    true = rng.integers(0, 2 + size, (size + 1, 6, 5 + size))
    return [{"true": true, "pred": np.where(rng.random(true.shape) < 0.7, true, rng.integers(0, 3, true.shape))}]


def representations(rng, size):
    """Factors of 2 to 4 values, mixed a little over more neurons than factors, with noise."""
    rows, kinds = 80 + 25 * size, rng.integers(2, 5, 2 + size % 2)
    factors = np.stack([rng.integers(0, kind, rows) for kind in kinds], 1)
    mixing = np.eye(len(kinds), len(kinds) + size) + 0.3 * rng.normal(size=(len(kinds), len(kinds) + size))
    return [{"codes": factors @ mixing + 0.2 * rng.normal(size=(rows, mixing.shape[1])), "factors": factors}]


def analogies(rng, size):
    """Vectors, and slots whose last two are blank in every other scene."""
    examples = []
    for shape in ((20 + 9 * size, 3 + size), (20 + 9 * size, 2 + size % 3, 3 + size)):
        a, b, c = rng.normal(size=(3, *shape))
        if len(shape) == 3:
            blank = rng.normal(size=shape[-1])
            a[::2, -2:] = b[::2, -2:] = c[::2, -2:] = blank
        d = b - a + c + 0.3 * rng.normal(size=shape)
        negatives = {"object": d + rng.normal(size=shape), "color": d + 0.1 * rng.normal(size=shape)}
        examples.append({"a": a, "b": b, "c": c, "d": d, "negatives": negatives})
    return examples


def images(rng, size):
    target = rng.random((size + 1, 3, 31 + size, 33))
    return [{"target": target, "predicted": target + 0.2 * rng.normal(size=target.shape)}]


def errors(rng, size):
    return [{"in_distribution": rng.exponential(1, 9 + size), "out_of_distribution": rng.exponential(2, 5 * size)}]


def curves(rng, size):
    alphas, oracle = rng.permutation(6 + size) / (6 + size), 1 + rng.random(6 + size)
    return [{"alphas": alphas, "model": oracle * rng.uniform(0.5, 2.0, len(oracle)), "oracle": oracle}]


EXAMPLES = {
    ("true", "pred"): segmentations,
    ("codes", "factors"): representations,
    ("a", "b", "c", "d", "negatives"): analogies,
    ("target", "predicted"): images,
    ("in_distribution", "out_of_distribution"): errors,
    ("alphas", "model", "oracle"): curves,
}
CODES = ("codes", "a", "b", "c", "d", "negatives")


def examples(record, seed, size):
    return EXAMPLES[record.inputs](np.random.default_rng(seed), size)


# The transformations: each calls the metric twice and returns two results that must agree


def another_order(rng, length):
    """A random order that differs from the original."""
    order = rng.permutation(length)
    return np.roll(order, 1) if (order == np.arange(length)).all() else order


def sample_order(record, arguments, rng):
    # arrays of the same length get the same order
    orders = {len(array): another_order(rng, len(array)) for array in arguments.values()}
    expected = fields(call(record, arguments))
    if "per image" in expected:
        expected["per image"] = expected["per image"][orders[len(expected["per image"])]]
    return fields(call(record, mapped(arguments, lambda array: array[orders[len(array)]]))), expected


def neuron_permutation(record, arguments, rng):
    order = another_order(rng, arguments[record.inputs[0]].shape[-1])
    changed = mapped(arguments, lambda codes: codes[..., order], CODES)
    return fields(call(record, changed)), fields(call(record, arguments))


def slot_permutation(record, arguments, rng):
    def shuffle(slots):
        order = rng.permuted(np.tile(np.arange(slots.shape[1]), (len(slots), 1)), axis=1)  # different in each scene
        return np.take_along_axis(slots, order[:, :, None], 1)

    if arguments["a"].ndim == 2:
        return {}, {}  # vectors have no slots
    return fields(call(record, mapped(arguments, shuffle))), fields(call(record, arguments))


def label_permutation(record, arguments, rng):
    """Other integers for the labels of each map, or of each factor; the ignored label does not change."""

    def rename(labels, keep=None):
        names, indices = np.unique(labels, return_inverse=True)
        new = rng.choice(2**62, len(names), replace=False) - 2**61
        new[names == keep] = names[names == keep]
        return new[indices].reshape(labels.shape)

    changed = dict(arguments)
    if "factors" in arguments:
        changed["factors"] = np.stack([rename(column) for column in arguments["factors"].T], 1)
    else:
        ignored = record.settings.get("ignore")
        changed["true"] = np.stack([rename(labels, ignored) for labels in arguments["true"]])
        changed["pred"] = np.stack([rename(labels) for labels in arguments["pred"]])
    return fields(call(record, changed)), fields(call(record, arguments))


def scaling(record, arguments, rng):
    scale = rng.choice([2.0**-30, 0.001, 0.3, 7.0, 1000.0, 2.0**30])
    changed = mapped(arguments, lambda codes: codes * scale, CODES)
    return fields(call(record, changed)), fields(call(record, arguments))


def batch_split(record, arguments, rng):
    cut = rng.integers(1, len(arguments[record.inputs[0]]))
    parts = [mapped(arguments, lambda array, part=part: array[part]) for part in (slice(cut), slice(cut, None))]
    halves = [fields(call(record, part))["per image"] for part in parts]
    return {"per image": np.concatenate(halves)}, fields(call(record, arguments))


def dtype(record, arguments, rng):
    narrow = {"f": np.float32, "i": np.int32}
    changed = mapped(arguments, lambda array: array.astype(narrow[array.dtype.kind]))
    return fields(call(record, changed)), fields(call(record, arguments))


def device(record, arguments, rng, where="cpu"):
    changed = mapped(arguments, lambda array: torch.tensor(array, device=where))
    return fields(call(record, changed)), fields(call(record, arguments))


TRANSFORMATIONS = {
    "sample order": sample_order,
    "neuron permutation": neuron_permutation,
    "slot permutation": slot_permutation,
    "label permutation": label_permutation,
    "scaling": scaling,
    "batch split": batch_split,
    "dtype": dtype,
    "device": device,
}


def check_invariance(record, invariance, seed, size, change=lambda arguments: arguments):
    tolerance = SINGLE if invariance in ("dtype", "device") else ROUNDING  # also for trained metrics: seeds are fixed
    for arguments in map(change, examples(record, seed, size)):
        found = TRANSFORMATIONS[invariance](record, arguments, np.random.default_rng(seed + 1))
        assert_agree(*found, tolerance)


random_inputs = given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 4))


@pytest.mark.parametrize(("name", "invariance"), [pair for pair in PAIRS if pair[0] not in COSTLY])
@random_inputs
@settings(max_examples=12, deadline=None, derandomize=True)
def test_declared_invariances_hold(name, invariance, seed, size):
    check_invariance(CATALOG[name], invariance, seed, size)


@pytest.mark.parametrize(("name", "invariance"), [pair for pair in PAIRS if pair[0] in COSTLY])
@random_inputs
@settings(max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate])  # failures are not shrunk
def test_declared_invariances_hold_for_costly_metrics(name, invariance, seed, size):
    check_invariance(CATALOG[name], invariance, seed, size)


def rounded(arguments):
    """Codes with one decimal: many are equal, and many are on the edge of a bin."""
    return mapped(arguments, lambda codes: codes.round(1), CODES)


COUNTED = ("snc", "mig", "modularity", "med", "med-raw", "irs", "sap-r2")


@pytest.mark.parametrize(("name", "invariance"), [pair for pair in PAIRS if pair[0] in COUNTED])
@random_inputs
@settings(max_examples=5, deadline=None, derandomize=True)
def test_declared_invariances_hold_for_rounded_codes(name, invariance, seed, size):
    check_invariance(CATALOG[name], invariance, seed, size, rounded)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
@pytest.mark.parametrize("name", [name for name, record in CATALOG.items() if "device" in record.invariances])
def test_accelerator_gives_the_same_values(name):
    for size in (1, 3):
        for arguments in examples(CATALOG[name], size, size):
            assert_agree(*device(CATALOG[name], arguments, None, where="cuda"), SINGLE)


def metric_without(invariance):
    """A metric that declares an invariance that it does not have."""

    def weighted(array):
        return float((numpy(array) * np.arange(1, array.size + 1).reshape(array.shape)).sum())

    functions = {
        "dtype": lambda codes, factors: Score(score=float(codes.dtype.itemsize)),
        "device": lambda codes, factors: Score(score=float(isinstance(codes, torch.Tensor))),
        "slot permutation": lambda a, b, c, d, negatives: Score(score=weighted(c)),
        "batch split": lambda target, predicted: predicted.mean((1, 2, 3)) - target.mean(),
    }
    function = functions.get(invariance, lambda codes, factors: Score(score=weighted(codes) + weighted(factors)))
    inputs = tuple(inspect.signature(function).parameters)
    return dataclasses.replace(GOOD, function=function, inputs=inputs, invariances=frozenset([invariance]))


@pytest.mark.parametrize("invariance", get_args(Invariance))
def test_false_invariance_is_noticed(invariance):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_invariance(metric_without(invariance), invariance, seed=0, size=2)


# The records themselves


def wrong_fields(record):
    """The names of the fields of a record that are wrong."""
    parameters = inspect.signature(record.function).parameters
    required = tuple(name for name, parameter in parameters.items() if parameter.default is parameter.empty)
    wrong = {
        "name": not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", record.name),
        "function": not (record.function.__doc__ or "").strip(),
        "title": not record.title.strip(),
        "instrument": not record.instrument.strip(),
        "inputs": not record.inputs or record.inputs != required or record.inputs not in EXAMPLES,
        "range": not record.range[0] < record.range[1],
        "direction": record.direction not in get_args(Direction),
        "cites": not re.search(r"\d{4}", record.cites),  # a year at least
        "invariances": not record.invariances or not record.invariances <= TRANSFORMATIONS.keys(),
        "settings": not record.settings.keys() <= parameters.keys() - set(record.inputs),
        "version": not (isinstance(record.version, int) and record.version >= 1),
    }
    return [field for field, bad in wrong.items() if bad]


def documented(codes, factors, seed=0):
    """A made-up metric."""


GOOD = Record(
    name="made-up",
    function=documented,
    title="Made up",
    instrument="neurons",
    inputs=("codes", "factors"),
    range=(-math.inf, math.inf),
    direction="higher",
    cites="Nobody 2024",
    invariances=frozenset(["dtype"]),
)


@pytest.mark.parametrize("name", CATALOG)
def test_every_record_is_complete(name):
    assert wrong_fields(CATALOG[name]) == []
    assert CATALOG[name].name == name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("invariances", frozenset()),
        ("invariances", frozenset(["dtype", "weather"])),
        ("cites", ""),
        ("cites", "somebody"),
        ("inputs", ()),
        ("inputs", ("codes",)),
        ("range", (1.0, 0.0)),
        ("range", (1.0, math.nan)),
        ("direction", "up"),
        ("title", " "),
        ("name", "Made_up"),
        ("settings", {"speed": 3}),
        ("function", lambda codes, factors: None),
    ],
)
def test_incomplete_record_is_noticed(field, value):
    assert wrong_fields(GOOD) == []
    assert wrong_fields(dataclasses.replace(GOOD, **{field: value})) == [field]


def test_every_public_metric_has_a_record():
    public = {name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))}
    recorded = {record.function.__name__ for record in CATALOG.values()}
    assert public - TOOLS == recorded
    assert all(record.function is getattr(metrics, record.function.__name__) for record in CATALOG.values())


def test_tables_of_this_file_cover_the_catalog():
    assert ANSWERS.keys() == CATALOG.keys()
    assert TRANSFORMATIONS.keys() == set(get_args(Invariance))
    assert {name for name, record in CATALOG.items() if seeded(record)} == TRAINED


# The values of an oracle, noise, a constant and a single sample


@dataclass(frozen=True)
class Answers:
    """The expected value for each; `one` says what happens to a single sample."""

    oracle: Any
    chance: Any
    constant: Any
    one: str  # "refused", "value" or "undefined"


def simulated(sample, value):
    """The mean of `value(sample(rng))` over many samples."""
    rng = np.random.default_rng(0)
    return float(np.mean([value(sample(rng)) for _ in range(400)]))


# Noise is 4 uniform neurons against 3 fair bits, so in 20 full bins 2 N x information follows chi-square with 19
# degrees of freedom, and linear weights are half-normal. Neither is even, so D, C and modularity do not sit at 0.
def chi_square(rng):
    return rng.chisquare(19, (4, 3))


def half_normal(rng):
    return np.abs(rng.normal(size=(4, 3)))


def by_column(importance):
    return importance / importance.sum(0)


def one_factor_alone(information):
    squares = np.sort(information**2, 1)
    return (1 - squares[:, :-1].sum(1) / squares[:, -1] / 2).mean()


def dci_of(sample, change=lambda importance: importance):
    """The mean of D, C and an accuracy of one half."""
    both = simulated(sample, lambda x: references.disentanglement(change(x)) + references.completeness(change(x)))
    return (both + 0.5) / 3


nan = approx(math.nan, nan_ok=True)
third = approx(1 / 3, abs=0.04)  # one of three factors, guessed
half = approx(0.5, abs=0.03)
majority = approx(1 / 6, abs=0.02)  # (0 + 0 + 1/2) / 3: no neuron matters, and one value of two is guessed

ANSWERS = {
    # constant: four equal segments, all merged. Every pair found, most of those joined wrong.
    "ari": Answers(1, approx(0, abs=0.01), 0, "value"),
    "fg-ari": Answers(1, approx(0, abs=0.01), 0, "value"),
    "arp": Answers(1, approx(0, abs=0.01), 0, "value"),
    "fg-arp": Answers(1, approx(0, abs=0.01), 0, "value"),
    "arr": Answers(1, approx(0, abs=0.01), 1, "value"),
    "fg-arr": Answers(1, approx(0, abs=0.01), 1, "value"),
    # chance: of n pixels under 4 independent labels each, segments share n/16 and cover 7n/16
    "miou": Answers(1, approx(1 / 7, abs=0.02), 1 / 16, "value"),
    "mbo": Answers(1, approx(1 / 7, abs=0.02), 1 / 4, "value"),
    "sc": Answers(1, approx(1 / 7, abs=0.02), 1 / 4, "value"),
    "msc": Answers(1, approx(1 / 7, abs=0.02), 1 / 4, "value"),
    "ami": Answers(1, approx(0, abs=0.01), approx(0, abs=1e-9), "value"),
    # the best of 4 neurons is chosen, which lifts SNC by a few standard errors of 1 / sqrt(2000)
    "snc": Answers(1, approx(0, abs=0.06), approx(0, abs=1e-12), "refused"),
    # without its neuron a bit is guessed: 1 - 1/2. Held-out rows of a full grid miss what training had, hence above
    "nk": Answers(approx(0.5, abs=0.08), approx(0, abs=0.02), approx(0, abs=1e-12), "refused"),
    "mig": Answers(1, approx(0, abs=0.01), 0, "refused"),
    "modularity": Answers(1, approx(simulated(chi_square, one_factor_alone), abs=0.1), 0, "refused"),
    # the second best neuron guesses a bit: 1 - 1/2
    "sap": Answers(approx(0.5, abs=0.05), approx(0, abs=0.03), 0, "refused"),
    "sap-r2": Answers(1, approx(0, abs=0.005), 0, "refused"),
    "dci": Answers(approx(1, abs=1e-6), approx(1 / 6, abs=0.02), majority, "refused"),
    # the fitted part of a full grid is not quite a full grid: small weights remain where none should be
    "dci-linear": Answers(approx(1, abs=0.05), approx(dci_of(half_normal), abs=0.05), majority, "refused"),
    "med": Answers(approx(1, abs=1e-6), approx(dci_of(chi_square, by_column), abs=0.02), majority, "refused"),
    "med-raw": Answers(approx(1, abs=1e-6), approx(dci_of(chi_square), abs=0.02), majority, "refused"),
    # the 99th percentile of |u| is 0.99, its largest value 1
    "irs": Answers(1, approx(0.01, abs=0.01), nan, "refused"),
    "beta-vae": Answers(1, third, third, "refused"),
    "factor-vae": Answers(1, third, 0, "refused"),
    "explicitness": Answers(1, half, 0.5, "refused"),
    # one minus a ratio whose mean over the d of a group is 1 by definition
    "coat": Answers(approx(1, abs=1e-9), approx(0, abs=0.03), nan, "undefined"),
    "coat-l2": Answers(approx(1, abs=1e-6), approx(0, abs=0.03), nan, "undefined"),
    # between steps of no length the angle is a right one, and so is the angle by chance
    "coat-acos": Answers(approx(1, abs=1e-6), approx(0, abs=0.03), 0, "undefined"),
    # trained, so near 0 against a spread of 8.7; noise is as far as it lies from its mean
    "tre": Answers(
        approx(0, abs=0.2),
        approx(
            simulated(lambda rng: rng.uniform(-1, 1, (100, 4)), lambda x: np.linalg.norm(x, axis=1).mean()), rel=0.05
        ),
        approx(0, abs=0.2),
        "refused",
    ),
    # two uniform images lie 1/6 apart, a uniform and a grey one 1/12
    "mse": Answers(0, approx(1 / 6, rel=0.02), approx(1 / 12, rel=0.02), "value"),
    "mse-sum": Answers(0, approx(3 * 32 * 32 / 6, rel=0.02), approx(3 * 32 * 32 / 12, rel=0.02), "value"),
    "psnr": Answers(math.inf, approx(10 * math.log10(6), abs=0.1), approx(10 * math.log10(12), abs=0.1), "value"),
    "gap": Answers(0, approx(0, abs=0.1), nan, "value"),
    "alpha-efficiency": Answers(0, nan, nan, "value"),
    # weights are random here, so all that is known of noise is that it does not look the same
    "lpips": Answers(approx(0, abs=1e-12), None, None, "value"),
}

GRID = np.tile(np.stack(np.meshgrid(*[[0, 1]] * 3), -1).reshape(-1, 3), (100, 1))  # three bits, every combination
SQUARES = np.tile(np.kron([[1, 2], [3, 4]], np.ones((8, 8), int)), (2, 1, 1))


def oracle(rng):
    a, b, c = rng.normal(size=(3, 128, 5))
    true, target = SQUARES * (rng.random(SQUARES.shape) < 0.9), rng.random((2, 3, 32, 32))
    return {
        "true": true, "pred": 9 - 5 * true,
        "codes": 10.0 * GRID, "factors": GRID,
        "a": a, "b": b, "c": c, "d": b - a + c, "negatives": {"object": b - a + c + 0.1},
        "target": target, "predicted": target.copy(),
        "in_distribution": np.array([1.0, 2.0, 3.0]), "out_of_distribution": np.array([3.0, 1.0]),
        "alphas": np.array([0.4, 0.0, 0.2]), "model": np.array([1.0, 9.0, 2.0]), "oracle": np.array([1.0, 9.0, 2.0]),
    }  # fmt: skip


def noise(rng):
    a, b, c, d, negative = rng.normal(size=(5, 512, 5))
    return {
        "true": rng.integers(0, 4, (2, 64, 64)), "pred": rng.integers(0, 4, (2, 64, 64)),
        "codes": rng.uniform(-1, 1, (2000, 4)), "factors": rng.integers(0, 2, (2000, 3)),
        "a": a, "b": b, "c": c, "d": d, "negatives": {"object": negative},
        "target": rng.random((2, 3, 32, 32)), "predicted": rng.random((2, 3, 32, 32)),
        "in_distribution": rng.exponential(1, 2000), "out_of_distribution": rng.exponential(1, 1500),
        "alphas": np.array([0.0, 0.2, 0.4]), "model": rng.uniform(5, 9, 3), "oracle": rng.uniform(0.5, 1, 3),
    }  # fmt: skip


def constant(rng):
    one = np.full((128, 5), 0.7)
    return {
        "true": SQUARES, "pred": np.full_like(SQUARES, 3),
        "codes": np.full((800, 3), 0.7), "factors": GRID,
        "a": one, "b": one, "c": one, "d": one, "negatives": {"object": one},
        "target": rng.random((2, 3, 32, 32)), "predicted": np.full((2, 3, 32, 32), 0.5),
        "in_distribution": np.zeros(4), "out_of_distribution": np.zeros(3),
        "alphas": np.array([0.0, 0.2, 0.4]), "model": np.full(3, 5.0), "oracle": np.array([3.0, 2.0, 1.0]),
    }  # fmt: skip


def call_on(inputs, name, seed=0):
    arrays = inputs(np.random.default_rng(seed))
    return call(CATALOG[name], {argument: arrays[argument] for argument in CATALOG[name].inputs})


def up_to_rounding(expected):
    """Plain numbers are compared exactly, up to rounding."""
    return approx(expected, abs=1e-12) if isinstance(expected, (int, float)) else expected


@pytest.mark.parametrize("name", CATALOG)
def test_oracle_gets_the_best_value(name):
    result = call_on(oracle, name)
    assert all(value == up_to_rounding(ANSWERS[name].oracle) for value in headline(result))
    if name.startswith("coat"):
        assert result.passed
        assert result.tests["object"].p_hat == 1


@pytest.mark.parametrize("name", [name for name, answers in ANSWERS.items() if answers.chance is not None])
def test_noise_gets_the_chance_value(name):
    scores = [headline(call_on(noise, name, seed)).mean() for seed in range(2 if name == "tre" else 5)]
    assert np.mean(scores) == ANSWERS[name].chance


@pytest.mark.parametrize("name", ["coat", "coat-l2", "coat-acos"])
def test_noise_fails_hard_negatives(name):
    result = call_on(noise, name)
    assert not result.passed
    assert result.tests["object"].p_hat == approx(0.5, abs=0.07)


def test_lpips_of_noise_is_above_0():
    assert (call_on(noise, "lpips") > 1e-3).all()


@pytest.mark.parametrize("name", [name for name, answers in ANSWERS.items() if answers.constant is not None])
def test_constant_gets_the_documented_value(name):
    result = call_on(constant, name)
    assert all(value == up_to_rounding(ANSWERS[name].constant) for value in headline(result))
    if name.startswith(("dci", "med")):  # no neuron matters, so all matter alike
        assert (result.disentanglement, result.completeness) == approx((0, 0), abs=1e-9)
    if name.startswith("coat"):
        assert not result.passed


@pytest.mark.parametrize("name", [name for name, answers in ANSWERS.items() if answers.one == "refused"])
def test_single_row_is_refused(name):
    (arguments,) = examples(CATALOG[name], seed=0, size=2)
    with pytest.raises(InputError, match="codes must have at least 2 rows"):
        call(CATALOG[name], mapped(arguments, lambda array: array[:1]))


@pytest.mark.parametrize("name", [name for name, answers in ANSWERS.items() if answers.one == "value"])
def test_single_sample_has_a_value(name):
    (arguments,) = examples(CATALOG[name], seed=0, size=2)
    arguments = mapped(arguments, lambda array: array[:1])
    if name == "alpha-efficiency":
        arguments["model"] = arguments["oracle"]
    result = call(CATALOG[name], arguments)
    if isinstance(result, Score):
        assert math.isfinite(result.score)
    else:
        whole = call(CATALOG[name], examples(CATALOG[name], seed=0, size=2)[0])
        np.testing.assert_allclose(result, whole[:1], rtol=ROUNDING)


@pytest.mark.parametrize("name", [name for name, answers in ANSWERS.items() if answers.one == "undefined"])
def test_single_case_is_nan_with_a_reason(name):
    for arguments in examples(CATALOG[name], seed=0, size=2):
        result = call(CATALOG[name], mapped(arguments, lambda array: array[:1]))
        assert math.isnan(result.score)
        assert "single case" in result.reason


@pytest.mark.parametrize("name", [name for name, record in CATALOG.items() if record.inputs == ("codes", "factors")])
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(2, 9), kinds=st.integers(1, 4))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_few_rows_are_scored_or_refused(name, seed, rows, kinds):
    rng = np.random.default_rng(seed)
    codes, factors = rng.normal(size=(rows, 3)).round(1), rng.integers(0, kinds, (rows, 1 + seed % 3))
    try:
        call(CATALOG[name], {"codes": codes, "factors": factors}, **({"steps": 3} if name == "tre" else {}))
    except InputError as error:
        wanted = "2 rows are too few" if name in ("snc", "irs") and rows == 2 else "at least 2 rows"
        assert wanted in str(error)  # noqa: PT017  (a value or this sentence, and no other exception)


@pytest.mark.parametrize("name", [name for name, record in CATALOG.items() if record.inputs == ("true", "pred")])
@given(seed=st.integers(0, 2**32 - 1), pixels=st.integers(1, 7))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_few_pixels_stay_in_range(name, seed, pixels):
    rng = np.random.default_rng(seed)
    true, pred = rng.integers(1, 1 + rng.integers(1, 5), (1, 1, pixels)), rng.integers(0, 3, (1, 1, pixels))
    (value,) = call(CATALOG[name], {"true": true, "pred": pred})
    low, high = CATALOG[name].range
    assert low - 1e-12 <= value <= high + 1e-12


# Bad input


def spoiled(array, bad):
    array = array.astype(np.float64)
    array[tuple(np.array(array.shape) // 2)] = bad
    return array


SPOILED = [(name, argument) for name, record in CATALOG.items() for argument in record.inputs]


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("name", "argument"), SPOILED)
def test_nan_and_infinity_are_refused_by_name(name, argument, bad, kind):
    for arguments in examples(CATALOG[name], seed=0, size=2):
        changed = dict(arguments)
        if argument == "negatives":
            changed["negatives"] = {**arguments["negatives"], "color": spoiled(arguments["negatives"]["color"], bad)}
        else:
            changed[argument] = spoiled(arguments[argument], bad)
        wanted = "negatives.color" if argument == "negatives" else argument
        with pytest.raises(InputError, match=rf"^{wanted} must (be finite|hold integer labels)"):
            call(CATALOG[name], mapped(changed, kind))


# Kinds of arrays, unchanged inputs, determinism


def arrays_in(value):
    """Every array in a result, at any depth."""
    if isinstance(value, (np.ndarray, torch.Tensor)):
        yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from arrays_in(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from arrays_in(item)


@pytest.mark.parametrize(("kind", "type_"), [(np.asarray, np.ndarray), (torch.tensor, torch.Tensor)])
@pytest.mark.parametrize("name", CATALOG)
def test_results_have_the_kind_of_the_inputs_which_do_not_change(name, kind, type_):
    for arguments in examples(CATALOG[name], seed=0, size=2):
        given_ = mapped(arguments, kind)
        before = copy.deepcopy(given_)
        result = call(CATALOG[name], given_)
        found = list(arrays_in(result))
        assert found or name == "gap"  # two means and their ratio
        assert {type(array) for array in found} <= {type_}
        for changed, kept in zip(given_.values(), before.values(), strict=True):
            pairs = zip(changed.values(), kept.values(), strict=True) if isinstance(kept, dict) else [(changed, kept)]
            for one, other in pairs:
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(numpy(one), numpy(other))


@pytest.mark.parametrize("name", CATALOG)
def test_results_have_no_gradients(name):
    for arguments in examples(CATALOG[name], seed=0, size=2):
        tensors = mapped(arguments, torch.tensor)
        for tensor in arrays_in(tensors):
            tensor.requires_grad_(tensor.is_floating_point())
        result = call(CATALOG[name], tensors)
        assert not any(array.requires_grad for array in arrays_in(result))
        assert_agree(fields(result), fields(call(CATALOG[name], arguments)), SINGLE)


@pytest.mark.parametrize("name", CATALOG)
@pytest.mark.parametrize("layout", ["locked", "reversed", "foreign", "strided"])
def test_numpy_arrays_of_any_layout_are_accepted(name, layout):
    def lay_out(array):
        if layout == "reversed":
            return np.flip(np.flip(array).copy())  # the same values in reverse memory order
        if layout == "foreign":
            return array.astype(array.dtype.newbyteorder(">"))
        if layout == "strided":
            return np.repeat(array, 2, -1)[..., ::2]
        array = array.copy()
        array.setflags(write=False)
        return array

    for arguments in examples(CATALOG[name], seed=0, size=2):
        expected = fields(call(CATALOG[name], arguments))
        assert_agree(fields(call(CATALOG[name], mapped(arguments, lay_out))), expected, ROUNDING)


def global_states():
    return [part.tolist() for part in (np.random.get_state()[1], torch.get_rng_state())]  # noqa: NPY002


@pytest.mark.parametrize("name", CATALOG)
def test_global_generators_do_not_matter_and_do_not_change(name):
    found = []
    for state in (1, 2):
        np.random.seed(state)  # noqa: NPY002  (what a user may do)
        torch.manual_seed(state)
        before = global_states()
        found.append(fields(call_on(noise, name), whole=True))
        assert global_states() == before
    assert found[0].keys() == found[1].keys()
    for field, value in found[0].items():
        np.testing.assert_array_equal(found[1][field], value, err_msg=field)


@pytest.mark.parametrize("name", ["coat", "dci", "tre"])
def test_number_of_threads_changes_scores_by_rounding_only(name):
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append([fields(call(CATALOG[name], arguments)) for arguments in examples(CATALOG[name], 0, 3)])
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        assert_agree(one, other, 1e-6)  # docs/metrics.md promises this


def seeded(record):
    """Whether a metric is random: SAP samples its held-out rows, but its R2 form has none."""
    return "seed" in inspect.signature(record.function).parameters and record.settings.get("predictor") != "r2"


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_seed_changes_the_score(name):
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 3, (90, 2))
    arguments = {"codes": factors + rng.normal(size=(90, 2)), "factors": factors}
    scores = []
    for seed in range(4):
        result = call(CATALOG[name], arguments, seed=seed)
        assert result.settings["seed"] == seed
        scores.append(result.score)
    assert len(set(scores)) > 1
