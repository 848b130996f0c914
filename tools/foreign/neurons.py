"""Metrics of neurons against disentanglement_lib, MED's release, the SNC/NK release and scikit-learn."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy
import sklearn.metrics
import torch
from sklearn import ensemble, linear_model, preprocessing, svm
from torch import nn
from torch.nn import functional as F

from alebrije import metrics
from alebrije.probes import split_rows, standardise
from foreign.code import Foreign, Outcome, Row, gin

Array = np.ndarray[Any, Any]
CLASSES = (3, 4, 5, 6)
NEURONS = 6
KINDS = ("disentangled", "entangled", "random")
LIBRARY = "packages/disentanglement_lib/evaluation/metrics"
MED = "noahcao/disentanglement_lib/disentanglement_lib/evaluation/metrics/med.py"
RELEASE = "Lou1sM/snc_nk"


def codes_and_factors(kind: str, rows: int, classes: Sequence[int] = CLASSES, seed: int = 0) -> tuple[Array, Array]:
    """Codes [N, 6] of uniform factors [N, F]: a neuron for each factor and noise, the same rotated, or noise alone.

    In the fourth kind, `mixed`, each factor leaks into all neurons, so many neurons share its importance.
    """
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(0, count, rows) for count in classes], 1)
    codes = rng.normal(size=(rows, NEURONS))
    if kind != "random":
        codes *= 0.3
        codes[:, : len(classes)] += (factors / np.array(classes) - 0.5) * 3
    if kind == "entangled":
        codes @= np.linalg.qr(rng.normal(size=(NEURONS, NEURONS)))[0]
    if kind == "mixed":
        codes @= np.eye(NEURONS) + 0.25 * rng.normal(size=(NEURONS, NEURONS))
    return codes, factors


def data_text(rows: int, classes: Sequence[int] = CLASSES, seeds: int = 1) -> str:
    """The data in words."""
    repeated = "" if seeds == 1 else f", {seeds} seeds"
    return f"3 codes of {rows:,} rows; factors of {', '.join(map(str, classes))} values{repeated}"


# --- disentanglement_lib ---


def library(foreign: Foreign, file: str, names: Sequence[str], **namespace: Any) -> SimpleNamespace:
    """Functions of disentanglement_lib with its published setting, 20 bins of equal width."""
    silent = SimpleNamespace(info=lambda *_: None)
    utils = foreign.functions(
        f"{LIBRARY}/utils.py",
        [
            "make_discretizer",
            "_histogram_discretize",
            "discrete_mutual_info",
            "discrete_entropy",
            "normalize_data",
            "obtain_representation",
        ],
        np=np,
        sklearn=sklearn,
        gin=gin(),
    )
    utils.make_discretizer = partial(utils.make_discretizer, num_bins=20, discretizer_fn=utils._histogram_discretize)
    names_there = {"np": np, "scipy": scipy, "utils": utils, "gin": gin(), "logging": silent, **namespace}
    return foreign.functions(file if "/" in file else f"{LIBRARY}/{file}.py", names, **names_there)


def mig(foreign: Foreign, rows: int) -> Outcome:
    """The score."""
    code = library(foreign, "mig", ["_compute_mig"])
    pairs = []
    for kind in KINDS:
        codes, factors = codes_and_factors(kind, rows)
        theirs = code._compute_mig(codes.T, factors.T)["discrete_mig"]
        pairs.append((metrics.mutual_information_gap(codes, factors).score, theirs))
    return Outcome(pairs)


def modularity(foreign: Foreign, rows: int) -> Outcome:
    """The score of their mutual information."""
    code = library(foreign, "modularity_explicitness", ["modularity"])
    information = library(foreign, "utils", ["discrete_mutual_info", "_histogram_discretize"], sklearn=sklearn)
    pairs = []
    for kind in KINDS:
        codes, factors = codes_and_factors(kind, rows)
        found = information.discrete_mutual_info(information._histogram_discretize(codes.T, 20), factors.T)
        pairs.append((metrics.modularity(codes, factors).score, code.modularity(found)))
    return Outcome(pairs)


def explicitness(foreign: Foreign, rows: int) -> Outcome:
    """The area under the curve for each factor, on the same held-out rows."""
    code = library(
        foreign,
        "modularity_explicitness",
        ["explicitness_per_factor"],
        linear_model=linear_model,
        metrics=sklearn.metrics,
        preprocessing=preprocessing,
    )
    pairs = []
    for kind in KINDS:
        codes, factors = codes_and_factors(kind, rows)
        fit, test = split_rows(rows, 1 / 3, 0)
        fitted, new = standardise(codes[fit], codes[test])
        theirs = [code.explicitness_per_factor(fitted.T, g[fit], new.T, g[test])[1] for g in factors.T]
        pairs.append((metrics.explicitness(codes, factors).per_factor, theirs))
    return Outcome(pairs)


def sap(foreign: Foreign, rows: int, predictor: Any) -> Outcome:
    """The predictability of each factor from each neuron, on the same rows, and the score."""
    names = ["compute_score_matrix", "compute_avg_diff_top_two"]
    code = library(foreign, "sap_score", names, svm=svm)
    pairs: list[tuple[Any, Any]] = []
    for kind in KINDS:
        codes, factors = codes_and_factors(kind, rows)
        fit, test = split_rows(rows, 1 / 3, 0)
        ours = metrics.separated_attribute_predictability(codes, factors, predictor=predictor)
        linear = predictor == "r2"
        parts = (codes.T, factors.T) * 2 if linear else (codes[fit].T, factors[fit].T, codes[test].T, factors[test].T)
        np.random.seed(0)  # noqa: NPY002  (theirs is random and has no seed of its own)
        theirs = code.compute_score_matrix(*parts, linear)
        pairs += [(ours.predictability, theirs), (ours.score, code.compute_avg_diff_top_two(theirs))]
    return Outcome(pairs)


def irs(foreign: Foreign, rows: int, quantile: float) -> Outcome:
    """The score and the robustness of each neuron to each factor."""
    code = library(foreign, "irs", ["scalable_disentanglement_score"])
    binned = library(foreign, "utils", ["_histogram_discretize"])
    pairs: list[tuple[Any, Any]] = []
    for kind in KINDS:
        codes, factors = codes_and_factors(kind, rows)
        fixed = binned._histogram_discretize(factors.T, 20).T
        theirs = code.scalable_disentanglement_score(fixed, codes, quantile)
        ours = metrics.interventional_robustness(codes, factors, quantile=quantile)
        pairs += [(ours.score, theirs["avg_score"]), (ours.per_pair, theirs["IRS_matrix"])]
    return Outcome(pairs)


# --- DCI and MED ---


def boosted(foreign: Foreign, kind: str, rows: int, classes: Sequence[int], seed: int) -> tuple[Array, Array]:
    """D, C and I of ours and of disentanglement_lib, which boosts with scikit-learn."""
    names = ["_compute_dci", "compute_importance_gbt", "disentanglement", "disentanglement_per_code", "completeness"]
    code = library(foreign, "dci", [*names, "completeness_per_factor"], ensemble=ensemble)
    codes, factors = codes_and_factors(kind, rows, classes, seed)
    fit, test = split_rows(rows, 1 / 3, 0)
    np.random.seed(seed)  # noqa: NPY002
    theirs = code._compute_dci(codes[fit].T, factors[fit].T, codes[test].T, factors[test].T)
    ours = metrics.dci(codes, factors)
    named = "disentanglement", "completeness", "informativeness_test"
    return np.array([ours.disentanglement, ours.completeness, ours.informativeness]), np.array(
        [theirs[name] for name in named]
    )


BOOSTED = (3, 4, 5)
MIXED = (10, 8, 15, 4)


def dci(foreign: Foreign, kinds: Sequence[str], rows: int, classes: Sequence[int], seeds: int) -> Outcome:
    """D and C of each kind, averaged over seeds; single seeds and I are in the note."""
    scores = np.array([[boosted(foreign, kind, rows, classes, seed) for seed in range(seeds)] for kind in kinds])
    ours, theirs = scores[:, :, 0], scores[:, :, 1]  # each [kinds, seeds, 3]
    single = np.abs(ours - theirs)
    note = f"in a single run at most {single[..., :2].max():.3f}; I: at most {single[..., 2].max():.3f}"
    return Outcome([(ours.mean(1)[:, :2], theirs.mean(1)[:, :2])], note)


def dci_linear(foreign: Foreign, rows: int) -> Outcome:
    """D, C and I with their formulas on the weights of scikit-learn."""
    names = ["disentanglement", "disentanglement_per_code", "completeness", "completeness_per_factor"]
    code = library(foreign, "dci", names)
    pairs = []
    for kind in KINDS:
        codes, factors = codes_and_factors(kind, rows)
        fit, test = split_rows(rows, 1 / 3, 0)
        fitted, new = standardise(codes[fit], codes[test])
        models = [linear_model.LogisticRegression(tol=1e-8, max_iter=1000).fit(fitted, g[fit]) for g in factors.T]
        weights = np.stack([np.abs(model.coef_).mean(0) for model in models], 1)
        accuracy = np.mean([model.score(new, g[test]) for model, g in zip(models, factors.T, strict=True)])
        found = metrics.dci(codes, factors, model="linear")
        ours = found.disentanglement, found.completeness, found.informativeness
        pairs.append((ours, (code.disentanglement(weights), code.completeness(weights), accuracy)))
    return Outcome(pairs)


def med(foreign: Foreign, rows: int, information_rows: Any) -> Outcome:
    """D, C and I; theirs counts information on the training rows."""
    names = ["_compute_med", "compute_importance_mi", "disentanglement", "disentanglement_per_code", "completeness"]
    code = library(
        foreign,
        MED,
        [*names, "completeness_per_factor"],
        linear_model=linear_model,
        preprocessing=preprocessing,
    )
    pairs = []
    for kind in KINDS:
        codes, factors = codes_and_factors(kind, rows)
        fit, test = split_rows(rows, 1 / 2, 0)
        theirs = code._compute_med(codes[fit].T, factors[fit].T, codes[test].T, factors[test].T, -1)
        found = metrics.med(codes, factors, information_rows=information_rows)
        ours = found.disentanglement, found.completeness, found.informativeness
        named = ("disentanglement", "completeness", "informativeness_test")
        pairs.append((ours, [theirs[name] for name in named]))
    return Outcome(pairs)


# --- Scores that sample ---


@dataclass(frozen=True)
class Grid:
    """All combinations of factors, each with a code, in the interface of disentanglement_lib's datasets."""

    codes: Array
    sizes: tuple[int, ...]

    @property
    def num_factors(self) -> int:
        """The number of factors."""
        return len(self.sizes)

    def sample_factors(self, count: int, random: Any) -> Array:
        """Independent uniform factors [count, F]."""
        return np.stack([random.randint(size, size=count) for size in self.sizes], 1)

    def sample_observations_from_factors(self, factors: Array, _: Any) -> Array:
        """The codes themselves."""
        return np.asarray(self.codes[np.ravel_multi_index(tuple(factors.T), self.sizes)])

    def sample_observations(self, count: int, random: Any) -> Array:
        """Codes of random combinations."""
        return self.sample_observations_from_factors(self.sample_factors(count, random), random)


def sampled(foreign: Foreign, name: str, seeds: int = 5) -> Outcome:
    """The mean score over seeds of the beta-VAE or the FactorVAE score on all combinations of factors."""
    points = {"num_train": 500, "num_eval": 1000, "batch_size": 16}
    names = ["_generate_training_batch", "_generate_training_sample"]
    if name == "beta-vae":
        code = library(foreign, "beta_vae", ["compute_beta_vae_sklearn", *names], linear_model=linear_model)
        run, ours = code.compute_beta_vae_sklearn, metrics.beta_vae_score
    else:
        names += ["compute_factor_vae", "_prune_dims", "_compute_variances"]
        code = library(foreign, "factor_vae", names)
        run, ours = partial(code.compute_factor_vae, num_variance_estimate=10_000), metrics.factor_vae_score
    factors = np.stack(np.unravel_index(np.arange(int(np.prod(CLASSES))), CLASSES), 1)
    scores = np.empty((2, len(KINDS), seeds))
    for i, kind in enumerate(KINDS):
        codes = grid_codes(kind, factors)
        for seed in range(seeds):
            random = np.random.RandomState(seed)
            scores[1, i, seed] = run(Grid(codes, CLASSES), lambda x: x, random, **points)["eval_accuracy"]
            scores[0, i, seed] = ours(codes, factors, train=500, test=1000, batch=16, seed=seed).score
    error = np.sqrt(scores.var(2, ddof=1).sum(0) / seeds).max()
    note = f"both sample; means over {seeds} seeds, whose difference has a standard error of at most {error:.4f}"
    return Outcome([(scores[0].mean(1), scores[1].mean(1))], note)


def grid_codes(kind: str, factors: Array) -> Array:
    """Codes of the kinds of `codes_and_factors` for given factors."""
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(len(factors), NEURONS))
    if kind != "random":
        codes *= 0.6
        codes[:, : factors.shape[1]] += (factors / factors.max(0) - 0.5) * 3
    return np.asarray(codes @ np.linalg.qr(rng.normal(size=(NEURONS, NEURONS)))[0]) if kind == "entangled" else codes


# --- SNC and NK ---


@contextlib.contextmanager
def temporary_folder() -> Iterator[None]:
    """Work in an empty folder: the release writes files where it runs."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def aligner(foreign: Foreign, codes: Array, factors: Array, held_out: tuple[Array, Array], epochs: int) -> Any:
    """The release's `PredictorAligner` with its data."""
    labels = foreign.module("dl_utils.label_funcs")
    names = ["cond_ent_for_alignment", "combo_acc", "normalize", "np_ent"]
    known = {"np": np, "get_num_labels": labels.get_num_labels, "stats": scipy.stats}
    utils = foreign.functions(f"{RELEASE}/utils.py", names, **known)
    code = foreign.functions(
        f"{RELEASE}/snc_nk.py",
        ["PredictorAligner"],
        np=np,
        torch=torch,
        nn=nn,
        F=F,
        os=os,
        join=os.path.join,
        Adam=torch.optim.Adam,
        lr_scheduler=torch.optim.lr_scheduler,
        DataLoader=Batches,
        check_dir=lambda name: os.makedirs(name, exist_ok=True),
        CifarLikeDataset=lambda codes, labels: (codes, labels),
        numpyify=lambda values: values.cpu().numpy(),
        get_num_labels=labels.get_num_labels,
        get_trans_dict=labels.get_trans_dict,
        get_trans_dict_from_cost_mat=labels.get_trans_dict_from_cost_mat,
        **vars(utils),
    )
    made = code.PredictorAligner("data", "codes", "agreement", epochs)
    made.set_data(codes, factors, *held_out)
    return made


class Batches:
    """The batches of a `DataLoader`, in a new order for each loop, without reading rows one by one."""

    def __init__(self, data: tuple[Array, Array], shuffle: bool, batch_size: int) -> None:
        self.codes, self.labels = map(torch.as_tensor, data)
        self.shuffle, self.batch_size = shuffle, batch_size

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        count = len(self.codes)
        order = torch.randperm(count) if self.shuffle else torch.arange(count)
        for rows in order.split(self.batch_size):
            yield self.codes[rows], self.labels[rows]


def snc(foreign: Foreign, rows: int, classes: Sequence[int]) -> Outcome:
    """The accuracy of each factor's neuron; the alignments must be equal."""
    pairs: list[tuple[Any, Any]] = []
    for kind in KINDS:
        codes, factors = codes_and_factors(kind, rows, classes)
        with temporary_folder():
            made = aligner(foreign, codes, factors, (codes, factors), epochs=1)
            correct = made.accs_from_alignment(is_single_neurons=True, is_mlp="none")[1]
        ours = metrics.single_neuron_classification(codes, factors)
        pairs.append((ours.accuracy, [each.mean() for each in correct]))
        pairs.append((ours.alignment, [made.trans_dict[factor] for factor in range(len(classes))]))
    return Outcome(pairs)


def nk(foreign: Foreign, rows: int, seeds: int = 1) -> Outcome:
    """The drop of accuracy on the same held-out rows, averaged over factors."""
    scores = np.empty((2, len(KINDS), seeds))
    for i, kind in enumerate(KINDS):
        codes, factors = codes_and_factors(kind, rows)
        codes = codes.astype(np.float32)
        for seed in range(seeds):
            fit, test = split_rows(rows, 1 / 3, seed)
            scores[0, i, seed] = metrics.neuron_knockout(codes, factors, seed=seed).score
            with temporary_folder(), torch.random.fork_rng():
                torch.manual_seed(seed)
                made = aligner(foreign, codes[fit], factors[fit], (codes[test], factors[test]), epochs=75)
                made.set_maybe_loaded_trans_dict()
                full = made.accs_from_alignment(is_single_neurons=False, is_mlp=True)[1]
                without = [made.exclusive_mlp(f, f, 1)[1] for f in range(len(CLASSES))]
            scores[1, i, seed] = np.mean(full) - np.mean(without)
    means = scores.mean(2)
    listed = ", ".join(f"{kind} {a:.3f} and {b:.3f}" for kind, a, b in zip(KINDS, *means, strict=True))
    return Outcome([(means[0], means[1])], f"ours and theirs: {listed}")


def rows() -> list[Row]:
    """All comparisons of metrics of neurons."""
    lib, text, small = "disentanglement_lib 1.5", data_text(10_000), 1500
    even, odd = (3, 4, 5, 6), (3, 7, 9, 11)
    return [
        Row(["snc"], RELEASE, data_text(12_000, even), "accuracy and alignment", lambda f: snc(f, 12_000, even)),
        Row(
            ["snc"],
            RELEASE,
            data_text(5000, odd),
            "no factor divides the rows: there borders of bins are cut off, here they are rounded",
            lambda f: snc(f, 5000, odd),
            intended=True,
        ),
        Row(
            ["nk"],
            RELEASE,
            data_text(1500),
            "other training: there rate 0.01 with decay and batch 4,096, here the paper's 0.001 and batch 64",
            lambda f: nk(f, 1500),
            intended=True,
        ),
        Row(["mig"], lib, text, "", lambda f: mig(f, 10_000)),
        Row(["modularity"], lib, text, "", lambda f: modularity(f, 10_000)),
        Row(
            ["sap"],
            lib,
            data_text(3000),
            "predictability of each pair, and the score; theirs visits rows in random order",
            lambda f: sap(f, 3000, "classifier"),
        ),
        Row(["sap-r2"], lib, text, "predictability of each pair, and the score", lambda f: sap(f, 10_000, "r2")),
        Row(
            ["dci"],
            f"{lib} (scikit-learn's GradientBoostingClassifier)",
            data_text(small, BOOSTED, 3),
            "means over seeds of D and C",
            lambda f: dci(f, KINDS, small, BOOSTED, 3),
        ),
        Row(
            ["dci"],
            f"{lib} (scikit-learn's GradientBoostingClassifier)",
            data_text(3000, BOOSTED),
            "means over seeds of D and C",
            lambda f: dci(f, KINDS, 3000, BOOSTED, 1),
        ),
        Row(
            ["dci"],
            f"{lib} (scikit-learn's GradientBoostingClassifier)",
            data_text(small, MIXED, 2).replace("3 codes", "mixed codes"),
            "means over seeds of D and C",
            lambda f: dci(f, ["mixed"], small, MIXED, 2),
        ),
        Row(
            ["dci-linear"],
            f"{lib}, on weights of scikit-learn's LogisticRegression",
            text,
            "D, C and I",
            lambda f: dci_linear(f, 10_000),
        ),
        Row(
            ["med"],
            "noahcao/disentanglement_lib (Cao et al.)",
            text,
            'D, C and I; `information_rows="training"`',
            lambda f: med(f, 10_000, "training"),
        ),
        Row(
            ["med"],
            "noahcao/disentanglement_lib (Cao et al.)",
            text,
            "D, C and I; here the information of all rows, there of the training rows",
            lambda f: med(f, 10_000, "all"),
            intended=True,
        ),
        Row(["med-raw"], "Mahon et al.", remark="no released code"),
        Row(["irs"], f"{lib}, 0.99 quantile", text, "score and each pair", lambda f: irs(f, 10_000, 0.99)),
        Row(["irs"], f"{lib}, maximum", text, "score and each pair", lambda f: irs(f, 10_000, 1.0)),
        Row(["beta-vae"], lib, grid_text(), "", lambda f: sampled(f, "beta-vae")),
        Row(["factor-vae"], lib, grid_text(), "", lambda f: sampled(f, "factor-vae")),
        Row(["explicitness"], lib, data_text(3000), "each factor", lambda f: explicitness(f, 3000)),
    ]


def grid_text() -> str:
    """The data of the scores that sample."""
    counts = ", ".join(map(str, CLASSES))
    return f"3 codes of all {int(np.prod(CLASSES))} combinations of factors of {counts} values"
