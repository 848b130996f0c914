"""The columns of the published tables, and how their columns, words and units map to ours. Data only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from alebrije.results.published_runs import OVER_TWO


@dataclass(frozen=True)
class Column:
    """The content of a column: one of `words`, any text if `words` is empty, or a number if it is None."""

    words: tuple[str, ...] | None = None
    low: float = -math.inf
    high: float = math.inf
    optional: bool = False


def _words(*words: str, optional: bool = False) -> Column:
    return Column(words, optional=optional)


def _number(low: float, high: float = math.inf, optional: bool = False) -> Column:
    return Column(None, low, high, optional)


_PERCENT, _MAYBE_PERCENT = _number(0, 100), _number(0, 100, optional=True)
_MAYBE_VERDICT, _MAYBE_YES = _words("pass", "fail", optional=True), _words("yes", "no", optional=True)
_VARIANTS = ("raw", "no-duplicates", "no-duplicates+no-invisible")
_VAES = ("beta-VAE", "beta-TCVAE", "FactorVAE", "PartedVAE", "PartedVAE-ss", "WeakDE")
_GRIDS = ("dsprites", "3dshapes", "mpi3d")
_NEURON_METRICS = ("SNC", "NK", "MIG", "SAP", "IRS", "DCI-D", "DCI-C", "DCI-I", "MED")
_VARIED = tuple(f"{metric} {over}" for metric in ("MIG", "SAP", "DCI-C", "DCI-I") for over in OVER_TWO)
_PAIRS = ("0-0", "5-2", "2-1", "3-1", "3-2", "7-3", "0-3", "7-1", "1-4", "0-5", "1-3", "1-1", "0-2")  # size, shape
FACTORS: Mapping[str, str] = {  # our name of a factor -> theirs
    "position x": "x",
    "position y": "y",
    "scale": "size",
    "size": "size",
    "orientation": "orient",
    "shape": "shape",
    "floor hue": "floor h",
    "wall hue": "wall h",
    "object hue": "obj h",
    "color": "obj h",
    "horizontal": "hor",
    "vertical": "vert",
    "camera height": "cam he",
    "background": "bg h",
}
_FACTORS = ("x", "y", "size", "orient", "shape", "floor h", "wall h", "obj h", "hor", "vert", "cam he", "bg h")

_READ_FACTORS = (
    *(f"{factor} of object {number}" for factor in ("shape", "size", "material") for number in (1, 2)),
    "material of the background",
)

TABLES: Mapping[str, Mapping[str, Column]] = {
    "coat": {
        "model": _words("pixels", "autoencoder", "beta-TCVAE", "slot-attention", "iodine", "moco-v2"),
        "variant": _words(*_VARIANTS, optional=True),
        "corpus": _words("occluded", "unoccluded"),
        "train_set": _words("iid", "correlated", optional=True),
        "slot_structure": _MAYBE_YES,
        "factorized_prior": _MAYBE_YES,
        "paradigm": _words("generative", "discriminative", optional=True),
        "ari": _MAYBE_PERCENT,
        "ari_sem": _MAYBE_PERCENT,
        "hn_l2": _MAYBE_VERDICT,
        "coat_l2": _MAYBE_PERCENT,
        "coat_l2_sem": _MAYBE_PERCENT,
        "hn_acos": _MAYBE_VERDICT,
        "coat_acos": _MAYBE_PERCENT,
        "coat_acos_sem": _MAYBE_PERCENT,
        "source": _words("Table 1"),
    },
    "tre": {
        "model": _words("slot-attention", "beta-VAE"),
        "variant": _words(*_VARIANTS, "beta=0", "beta=1", "beta=2", "beta=3"),
        "tre": _number(0),
        "spread": _number(0),
        "source": _words("Table 2 (appendix D)"),
    },
    "svib": {
        "environment": _words("dsprites", "clevr", "clevrtex"),
        "task": _words("S-A", "M-A", "S-NA", "M-NA"),
        "alpha": _number(0, 1),
        "model": _words("I2I-CNN", "I2I-ViT", "SSM-VAE", "SSM-Slot", "Oracle"),
        "metric": _words("lpips", "mse_ood"),
        "value": _number(0),
        "source": _words("Table 8", "Table 9", "Table 10", "Table 11"),
    },
    "svib_means": {
        "environment": _words("dsprites", "clevr", "clevrtex"),
        "alpha": _number(0, 1),
        "model": _words("I2I-CNN", "I2I-ViT", "SSM-VAE", "SSM-Slot", "Oracle"),
        "lpips": _number(0),
        "source": _words("Table 1"),
    },
    "svib_factors": {
        "environment": _words("clevrtex"),
        "factor": _words(*_READ_FACTORS),
        "accuracy": _PERCENT,
        "source": _words("Table 5"),
    },
    "slots": {"finding": _words(), "value": _number(0), "source": _words("Section 4.1", "Figure 5")},
    "disentanglement": {
        "dataset": _words(*_GRIDS),
        "model": _words(*_VAES),
        "metric": _words(*_NEURON_METRICS, "MLP", "linear"),
        "value": _PERCENT,
        "std": _MAYBE_PERCENT,
        "source": _words("Table 2", "Table 7"),
    },
    "compositional_generalisation": {
        "dataset": _words(*_GRIDS),
        "model": _words(*_VAES, "MTD"),
        "setting": _words("CG", "linear CG", "normal test set"),
        "feature": _words("shape", "size", "both"),
        "accuracy": _PERCENT,
        "source": _words("Table 3"),
    },
    "metric_cg_correlation": {
        "metric": _words(*_NEURON_METRICS, "DCI", *_VARIED),
        "scope": _words("3dshapes", "all"),
        "pearson": _number(-1, 1),
        "source": _words("Table 4", "Table 6"),
    },
    "metric_variants": {
        "dataset": _words(*_GRIDS),
        "model": _words(*_VAES),
        "metric": _words(*_NEURON_METRICS, "DCI"),
        "over": _words("all factors", *OVER_TWO),
        "value": _PERCENT,
        "source": _words("Table 8"),
    },
    "single_runs": {
        "dataset": _words(*_GRIDS),
        "model": _words(*_VAES, "MTD"),
        "test_set": _words("normal", *_PAIRS),
        "run": _number(0, 5, optional=True),
        "head": _words("SNC", "linear", "NK1", "MLP", "model"),
        "factor": _words(*_FACTORS, "both"),
        "accuracy": _PERCENT,
        "source": _words(*(f"Table {number}" for number in range(9, 48))),
    },
    "metric_toy_models": {
        "metric": _words(*_NEURON_METRICS, "DCI"),
        "M1": _PERCENT,
        "M2": _PERCENT,
        "source": _words("Table 1"),
    },
}

_COAT, _SVIB, _SLOTS, _NEURONS = "Xie et al. 2022", "Kim et al. 2023", "Zimmermann et al. 2023", "Mahon et al. 2024"
PAPERS: Mapping[str, str] = {
    "coat": _COAT,
    "tre": _COAT,
    "svib": _SVIB,
    "svib_means": _SVIB,
    "svib_factors": _SVIB,
    "slots": _SLOTS,
    "disentanglement": _NEURONS,
    "compositional_generalisation": _NEURONS,
    "metric_cg_correlation": _NEURONS,
    "metric_toy_models": _NEURONS,
    "metric_variants": _NEURONS,
    "single_runs": _NEURONS,
}


@dataclass(frozen=True)
class Link:
    """Maps one column of numbers in a published table to our metrics and labels."""

    table: str
    metrics: tuple[str, ...]  # our names, in any spelling
    columns: Mapping[str, tuple[str, ...]]  # their column -> our labels for it; the first one given counts
    needs: tuple[str, ...]  # columns that need a label of ours
    value: str = "value"
    only: Mapping[str, str] = field(default_factory=dict)  # their column -> required cell
    words: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)  # their column -> our word -> theirs
    ours: Mapping[str, Any] = field(default_factory=dict)  # our label -> required value
    assumes: Mapping[str, Any] = field(default_factory=dict)  # our label -> required value, if given
    scale: float = 1.0  # theirs times this is ours
    unit: str = "as printed"
    spread: str | None = None
    spread_is: Literal["standard error", "standard deviation", "unknown"] = "unknown"
    runs: int | None = None
    run: str | None = None  # their column that numbers the runs of a table; the mean over them counts
    notes: tuple[str, ...] = ()


_MODEL = {"model": ("model",)}
_MODEL_WORDS = {"model": {"ae": "autoencoder", "moco": "moco-v2"}}
_FRACTION: dict[str, Any] = {"scale": 0.01, "unit": "percent in the paper, a fraction here"}
_PIXELS = {"pixels": 128}  # sums over an image, and LPIPS, depend on its size

_COAT_SCORE = Link(
    "coat",
    ("coat", "COAT, squared distance"),
    {
        **_MODEL,
        "variant": ("variant",),
        "corpus": ("corpus", "occluded"),
        "train_set": ("train_set", "trained_on"),
    },
    needs=("model", "corpus"),
    value="coat_l2",
    spread="coat_l2_sem",
    spread_is="standard error",
    runs=5,
    words={
        **_MODEL_WORDS,
        "corpus": {True: "occluded", False: "unoccluded", "clear": "unoccluded"},
        "train_set": {"coat": "iid", "coat-correlated": "correlated"},
    },
    assumes={"step": "the last"},
    **_FRACTION,
)
_SVIB_ERROR = Link(
    "svib",
    ("out-of-distribution error", "mse-sum", "out-of-distribution mse-sum"),
    {**_MODEL, "environment": ("environment", "world"), "task": ("task", "rule"), "alpha": ("alpha",)},
    needs=("environment", "task", "alpha", "model"),
    only={"metric": "mse_ood"},
    # "oracle" alone is our reference; a head of ours predicts its images
    words={
        "environment": {"sprites": "dsprites"},
        "model": {"svib-oracle": "Oracle", "oracle": "the reference"},
        "task": {"ShAASh": "S-A", "NShAASh": "S-NA", "MMix2": "M-A", "MNMix2": "M-NA"},  # names in the analysis
    },
    assumes=_PIXELS,
    unit="squared error, summed over the channels and pixels of an image of 128 pixels a side",
)
_SVIB_MEAN = replace(
    _SVIB_ERROR,
    table="svib_means",
    metrics=("mean lpips over rules",),
    columns={name: column for name, column in _SVIB_ERROR.columns.items() if name != "task"},
    words={name: words for name, words in _SVIB_ERROR.words.items() if name != "task"},
    needs=("environment", "alpha", "model"),
    value="lpips",
    only={},
    unit="as printed, images of 128 pixels a side",
)
_READ_FACTOR = tuple(
    Link(
        "svib_factors",
        (factor,),
        {"environment": ("environment", "world")},
        needs=("environment",),
        only={"factor": factor},
        value="accuracy",
        assumes=_PIXELS,
        notes=("the paper gives neither the number of images nor the training of the network",),
        **_FRACTION,
    )
    for factor in _READ_FACTORS
)
_NEURON_SCORE = Link(
    "disentanglement",
    ("SNC", "NK", "linear", "linear accuracy", "MLP", "MLP accuracy"),
    {**_MODEL, "dataset": ("dataset", "world"), "metric": ("metric",)},
    needs=("dataset", "model", "metric"),
    only={"source": "Table 2"},
    words={
        "dataset": {"rooms": "3dshapes", "shapes3d": "3dshapes", "arm": "mpi3d"},
        "metric": {"linear accuracy": "linear", "MLP accuracy": "MLP"},
    },
    spread="std",
    spread_is="standard deviation",
    runs=5,
    **_FRACTION,
)
_GENERALISATION = Link(
    "compositional_generalisation",
    ("compositional generalisation", "compositional generalisation accuracy", "CG accuracy", "CG"),
    {**_MODEL, "dataset": ("dataset", "world"), "setting": ("setting",), "feature": ("feature",)},
    needs=("dataset", "model", "setting", "feature"),
    value="accuracy",
    words={"dataset": _NEURON_SCORE.words["dataset"]},
    **_FRACTION,
)
_PREDICTION = Link(
    "metric_cg_correlation",
    ("correlation with generalisation", "pearson with generalisation"),
    {"metric": ("predictor",), "scope": ("scope", "world")},
    needs=("metric", "scope"),
    value="pearson",
    words={"scope": _NEURON_SCORE.words["dataset"]},
)
_MEAN_OVER_FACTORS = replace(
    _NEURON_SCORE,
    metrics=("linear mean", "MLP mean"),
    words={**_NEURON_SCORE.words, "metric": {"linear mean": "linear", "MLP mean": "MLP"}},
)
_BOTH_RIGHT = Link(
    "single_runs",
    ("MLP both",),
    {**_MODEL, "dataset": ("dataset", "world"), "test_set": ("test_set",)},
    needs=("dataset", "model", "test_set"),
    value="accuracy",
    only={"head": "MLP", "factor": "both"},
    words={
        "dataset": _NEURON_SCORE.words["dataset"],
        "test_set": {
            **{f"size {pair[0]}, shape {pair[-1]}": pair for pair in _PAIRS},
            **dict.fromkeys(("one split", *(f"{splits} splits" for splits in range(2, 6))), "normal"),
        },
    },
    run="run",
    **_FRACTION,
)
_READ_BY_MTD = replace(
    _BOTH_RIGHT,
    notes=(
        "read by MTD itself, which is trained with all labels, and not by a head",
        "our mtd is a reimplementation of the idea, so the two are not comparable",
    ),
)
_MTD_ROWS = (("MLP both", {"head": "model", "factor": "both"}), ("MLP of each factor", {"head": "model"}))
_OVER_SHAPE_AND_SIZE = tuple(
    Link(
        "metric_variants",
        (f"{metric} {over}",),
        {**_MODEL, "dataset": ("dataset", "world")},
        needs=("dataset", "model"),
        only={"metric": metric, "over": over},
        words={"dataset": _NEURON_SCORE.words["dataset"]},
        **(_FRACTION if metric in ("SNC", "NK") else {}),
    )
    for metric, over in (("SNC", OVER_TWO[0]), ("NK", OVER_TWO[0]), *(name.split(" ", 1) for name in _VARIED))
)
_TOY = Link(
    "metric_toy_models",
    ("MIG", "SAP", "DCI", "MED", "SNC", "NK"),
    {"metric": ("metric",)},
    needs=("metric",),
    **_FRACTION,
)
_FINDING = Link("slots", (), {}, needs=(), notes=("a correlation over the whole grid of slots; no label is needed",))

LINKS: tuple[Link, ...] = (
    _COAT_SCORE,
    replace(_COAT_SCORE, metrics=("coat-acos", "COAT, angle"), value="coat_acos", spread="coat_acos_sem"),
    replace(
        _COAT_SCORE,
        metrics=("fg-ari",),
        value="ari",
        spread="ari_sem",
        notes=("the paper does not say whether background pixels count; comparable papers leave them out",),
    ),
    Link(
        "tre",
        ("tre", "tree reconstruction error"),
        {**_MODEL, "variant": ("variant", "beta")},
        needs=("model", "variant"),
        value="tre",
        words={  # its sweep is of the beta-TCVAE (Section 5.1)
            "model": {**_MODEL_WORDS["model"], "beta-tcvae": "beta-VAE"},
            "variant": {word: f"beta={beta}" for beta in range(4) for word in (f"{beta}", f"{beta}.0")},
        },
        assumes={"trained_on": "coat", "step": "the last"},
        spread="spread",
        notes=(
            "the paper does not specify the composition function or the meaning of ±",
            "depends on the scale of the codes, so other models are not comparable",
        ),
    ),
    _SVIB_ERROR,
    replace(
        _SVIB_ERROR,
        metrics=("lpips", "out-of-distribution lpips"),
        only={"metric": "lpips"},
        unit="as printed, images of 128 pixels a side",
    ),
    _SVIB_MEAN,
    *_READ_FACTOR,
    _NEURON_SCORE,
    replace(
        _NEURON_SCORE,
        metrics=("MIG", "SAP", "IRS", "DCI-D", "DCI-C", "DCI-I", "MED"),
        only={"source": "Table 7"},
        spread=None,
        runs=None,
    ),
    *(replace(_MEAN_OVER_FACTORS, ours={"test_set": splits}) for splits in ("one split", "5 splits")),
    _BOTH_RIGHT,
    *(replace(_BOTH_RIGHT, metrics=(f"{h} both",), only={"head": h, "factor": "both"}) for h in ("SNC", "linear")),
    *(
        replace(_BOTH_RIGHT, metrics=(f"{ours} of each factor",), only={"head": theirs})
        for ours, theirs in (("SNC", "SNC"), ("linear", "linear"), ("knockout", "NK1"), ("MLP", "MLP"))
    ),
    *(replace(_READ_BY_MTD, metrics=(metric,), only=only) for metric, only in _MTD_ROWS),
    *_OVER_SHAPE_AND_SIZE,
    _GENERALISATION,
    _PREDICTION,
    replace(_TOY, value="M1", ours={"model": "M1"}),
    replace(_TOY, value="M2", ours={"model": "M2"}),
    replace(
        _FINDING,
        metrics=("pearson(PSNR, FG-ARI)",),
        only={"finding": "pearson(PSNR; FG-ARI) over the 15x15 K_train x K_eval grid of Slot Attention on CLEVR"},
    ),
    replace(
        _FINDING,
        metrics=("pearson(PSNR, FG-ARP)",),
        only={"finding": "pearson(PSNR; FG-ARP) over the same grid"},
    ),
    replace(
        _FINDING,
        metrics=("pearson(PSNR, its transpose)",),
        only={"finding": "pearson(PSNR grid; its transpose)"},
    ),
)
