"""Grouping metrics against scikit-learn, torchmetrics and four releases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score
from sklearn.metrics.cluster import pair_confusion_matrix

from alebrije import metrics
from foreign.code import Foreign, Outcome, Row, tensor, tensorflow

Maps = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
KINDS = ("noisy", "merged", "split", "unrelated", "random")
SIZES = {32: 10, 128: 15, 512: 5}  # images of each size
OCLF = "amazon-science/object-centric-learning-framework"
COVERING = "addtt/object-centric-library/evaluation/metrics/segmentation_covering.py"


def label_maps(size: int, images: int, seed: int = 0) -> Maps:
    """True and predicted maps [B, H, W] of Voronoi cells; label 0 is always there in the truth."""
    rng = np.random.default_rng(seed)
    true, pred = [], []
    for image in range(images):
        segments = int(rng.integers(2, 9))
        truth = _cells(size, segments, rng)
        kind = KINDS[image % len(KINDS)]
        if kind == "noisy":
            guess = np.where(rng.random(truth.shape) < 0.1, rng.integers(0, segments, truth.shape), truth)
        elif kind == "merged":
            guess = truth // 2
        elif kind == "split":
            guess = truth + segments * (np.arange(size) % 2)
        elif kind == "unrelated":
            guess = _cells(size, int(rng.integers(2, 9)), rng)
        else:
            guess = rng.integers(0, 6, truth.shape)
        true.append(truth)
        pred.append(guess)
    return np.array(true), np.array(pred)


def edge_cases() -> Iterator[Maps]:
    """Maps of 4 x 4 pixels with a single segment, one segment per pixel, or both."""
    one, own = np.zeros((1, 4, 4), dtype=np.int64), np.arange(16).reshape(1, 4, 4)
    half = (own >= 8).astype(np.int64)
    for true in (one, own, half):
        for pred in (one, own, half):
            yield true, pred


def _cells(size: int, count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """The nearest of `count` points, for each pixel; every point has at least its own pixel."""
    points = rng.choice(size * size, count, replace=False)
    rows, columns = np.divmod(points, size)
    grid = np.arange(size)
    distance = (grid[:, None, None] - rows) ** 2 + (grid[None, :, None] - columns) ** 2
    return np.asarray(distance.argmin(2), dtype=np.int64)


def _per_image(score: Any, true: Any, pred: Any, foreground: bool = False) -> list[float]:
    values = []
    for truth, guess in zip(true, pred, strict=True):
        kept = truth > 0 if foreground else np.ones_like(truth, dtype=bool)
        values.append(float(score(truth[kept], guess[kept])))
    return values


def _one_hot(labels: Any, first: bool = False) -> torch.Tensor:
    """Masks [B, pixels, K], or [B, K, H, W] with the segments first."""
    masks = torch.nn.functional.one_hot(torch.from_numpy(labels))
    return masks.movedim(-1, 1) if first else masks.flatten(1, 2)


def _images(size: int) -> Maps:
    return label_maps(size, SIZES[size], seed=size)


# --- Adjusted Rand index and its relatives ---


def sklearn_ari(foreground: bool) -> Outcome:
    """ARI or FG-ARI of all maps and edge cases."""
    data = [_images(128), _images(512), *([] if foreground else edge_cases())]
    ignore = 0 if foreground else None
    pairs = [
        (metrics.adjusted_rand_index(*maps, ignore=ignore), _per_image(adjusted_rand_score, *maps, foreground))
        for maps in data
    ]
    return Outcome(pairs)


def torchmetrics_pairs(foreign: Foreign, name: str, ours: Any, *sizes: int) -> Outcome:
    """A clustering score of torchmetrics."""
    score = getattr(foreign.module("torchmetrics.functional.clustering"), name)
    data = [_images(size) for size in sizes]

    def tensors(truth: Any, guess: Any) -> float:
        return float(score(torch.from_numpy(guess), torch.from_numpy(truth)))

    return Outcome([(ours(*maps), _per_image(tensors, *maps)) for maps in data])


def torchmetrics_ari(foreign: Foreign, size: int) -> Outcome:
    """ARI of torchmetrics."""
    return torchmetrics_pairs(foreign, "adjusted_rand_score", metrics.adjusted_rand_index, size)


def torchmetrics_ami(foreign: Foreign) -> Outcome:
    """AMI of torchmetrics."""
    return torchmetrics_pairs(foreign, "adjusted_mutual_info_score", metrics.adjusted_mutual_information, 32)


def adjusted_pairs(foreground: bool) -> Outcome:
    """ARP and ARR by Definition 3, on the counts of scikit-learn."""
    pairs = []
    for true, pred in (_images(128), _images(512)):
        shares: list[list[float]] = []
        for truth, guess in zip(true, pred, strict=True):
            kept = truth > 0 if foreground else np.ones_like(truth, dtype=bool)
            apart, only_pred, only_true, both = map(float, pair_confusion_matrix(truth[kept], guess[kept]).ravel())
            in_pred, in_true = both + only_pred, both + only_true
            expected = in_pred * in_true / (apart + only_pred + only_true + both)
            mosts = in_pred, in_true
            shares.append([(both - expected) / (most - expected) if most > expected else 1.0 for most in mosts])
        ignore = 0 if foreground else None
        precision, recall = np.transpose(shares)
        pairs.append((metrics.adjusted_rand_precision(true, pred, ignore=ignore), precision))
        pairs.append((metrics.adjusted_rand_recall(true, pred, ignore=ignore), recall))
    return Outcome(pairs)


def multi_object_datasets(foreign: Foreign, size: int) -> Outcome:
    """ARI and FG-ARI; a true mask without its background is ignored there."""
    code = foreign.functions(
        "google-deepmind/multi_object_datasets/segmentation_metrics.py",
        ["adjusted_rand_index", "_all_equal"],
        tf=tensorflow(),
    )
    true, pred = _images(size)
    masks, guess = (tensor(_one_hot(labels).numpy()) for labels in (true, pred))
    return Outcome(
        [
            (metrics.adjusted_rand_index(true, pred), code.adjusted_rand_index(masks, guess)),
            (metrics.adjusted_rand_index(true, pred, ignore=0), code.adjusted_rand_index(masks[..., 1:], guess)),
        ]
    )


def savi(foreign: Foreign, size: int) -> Outcome:
    """ARI and FG-ARI of SAVi's release, which counts in float32."""
    jax = foreign.module("jax")
    names = {"jax": jax, "jnp": foreign.module("jax.numpy")}
    code = foreign.functions(
        "google-research/slot-attention-video/savi/lib/metrics.py", ["adjusted_rand_index"], **names
    )
    true, pred = _images(size)
    pairs = []
    for ignore in (None, 0):
        counts = int(true.max()) + 1, int(pred.max()) + 1
        theirs = code.adjusted_rand_index(true[:, None], pred[:, None], *counts, ignore_background=ignore == 0)
        pairs.append((metrics.adjusted_rand_index(true, pred, ignore=ignore), np.asarray(theirs)))
    return Outcome(pairs)


def oclf_ari(foreign: Foreign) -> Outcome:
    """ARI and FG-ARI of the object-centric learning framework."""
    code = foreign.functions(
        f"{OCLF}/ocl/metrics/utils.py", ["adjusted_rand_index", "fg_adjusted_rand_index"], torch=torch
    )
    pairs = []
    for true, pred in (_images(128), _images(512)):
        masks, guess = _one_hot(true), _one_hot(pred)
        pairs.append((metrics.adjusted_rand_index(true, pred), code.adjusted_rand_index(guess, masks)))
        foreground = code.fg_adjusted_rand_index(guess, masks)
        pairs.append((metrics.adjusted_rand_index(true, pred, ignore=0), foreground))
    return Outcome(pairs)


def library_ari(foreign: Foreign) -> Outcome:
    """ARI and FG-ARI of the object-centric library."""
    file = "addtt/object-centric-library/evaluation/metrics/ari.py"
    code = foreign.functions(file, ["ari"], torch=torch, adjusted_rand_score=adjusted_rand_score)
    true, pred = _images(128)
    pairs = []
    for ignore in (None, 0):
        theirs = code.ari(torch.from_numpy(true), torch.from_numpy(pred), 0 if ignore is None else 1)
        pairs.append((metrics.adjusted_rand_index(true, pred, ignore=ignore), theirs.numpy()))
    return Outcome(pairs)


# --- Overlap ---


def oclf_overlap(foreign: Foreign, matching: str, ours: Any, ignore: int | None) -> Outcome:
    """Mean IoU or mean best overlap of each image; the metric of OCLF is fed one image at a time."""
    torchmetrics, scipy = foreign.module("torchmetrics"), foreign.module("scipy")
    foreign.module("scipy.optimize")
    code = foreign.functions(
        f"{OCLF}/ocl/metrics/masks.py",
        ["UnsupervisedMaskIoUMetric", "unsupervised_mask_iou"],
        torch=torch,
        torchmetrics=torchmetrics,
        scipy=scipy,
        __name__="foreign",
    )
    pairs = []
    for true, pred in (_images(128), _images(512)):
        masks, guess = _one_hot(true, first=True), _one_hot(pred, first=True)
        theirs = []
        for image in range(len(true)):
            metric = code.UnsupervisedMaskIoUMetric(matching=matching, ignore_background=ignore == 0)
            metric.update(guess[image : image + 1], masks[image : image + 1])
            theirs.append(float(metric.compute()))
        pairs.append((ours(true, pred, ignore=ignore), theirs))
    return Outcome(pairs)


def covering(foreign: Foreign, weighted: bool, ignore: int | None) -> Outcome:
    """Segmentation covering, weighted (SC) or not (mSC)."""
    code = foreign.functions(COVERING, ["compute_iou", "segmentation_covering"], torch=torch)
    pairs = []
    for true, pred in (_images(128), _images(512)):
        maps = (torch.from_numpy(labels)[:, None] for labels in (true, pred))
        mean, scaled = code.segmentation_covering(*maps, 0 if ignore is None else 1)
        ours = metrics.segmentation_covering(true, pred, ignore=ignore, weighted=weighted)
        pairs.append((ours, (scaled if weighted else mean).numpy()))
    return Outcome(pairs)


def _maps_text(*sizes: int) -> str:
    return " and ".join(f"{SIZES[size]} maps of {size} x {size} pixels" for size in sizes)


def rows() -> list[Row]:
    """All comparisons of grouping metrics."""
    both = _maps_text(128, 512)
    library, sizes = "addtt/object-centric-library", (128, 512)
    mod, video = "google-deepmind/multi_object_datasets", "google-research/slot-attention-video (SAVi)"
    single = "float32 there"
    found = [
        Row(["ari"], "scikit-learn", f"{both}; 9 edge cases", "", lambda _: sklearn_ari(False)),
        Row(["fg-ari"], "scikit-learn, foreground pixels", both, "", lambda _: sklearn_ari(True)),
        Row(["ari"], "torchmetrics", _maps_text(128), "", lambda f: torchmetrics_ari(f, 128)),
        Row(
            ["ari"],
            "torchmetrics",
            _maps_text(512),
            "theirs is wrong: its products of pair counts overflow int64, and it is below -1 for some maps",
            lambda f: torchmetrics_ari(f, 512),
        ),
        Row(["ari", "fg-ari"], OCLF, both, "", oclf_ari),
        Row(["ari", "fg-ari"], library, _maps_text(128), f"{single}; calls scikit-learn", library_ari),
    ]
    for size in sizes:
        numpy = f"{single}; run with NumPy in place of TensorFlow"
        text = _maps_text(size)
        found += [
            Row(["ari", "fg-ari"], mod, text, numpy, lambda foreign, s=size: multi_object_datasets(foreign, s)),
            Row(["ari", "fg-ari"], video, text, single, lambda foreign, s=size: savi(foreign, s)),
        ]
    found += [
        Row(["ari", "fg-ari"], "google-research/slot_attention", remark="its release has no code for ARI"),
        Row(
            ["arp", "arr"],
            "scikit-learn's pair counts in Definition 3",
            both,
            "no released code",
            lambda _: adjusted_pairs(False),
        ),
        Row(
            ["fg-arp", "fg-arr"],
            "scikit-learn's pair counts in Definition 3, foreground pixels",
            both,
            "no released code",
            lambda _: adjusted_pairs(True),
        ),
        Row(
            ["ami"],
            "scikit-learn",
            both,
            "",
            lambda _: Outcome(
                [
                    (metrics.adjusted_mutual_information(*maps), _per_image(adjusted_mutual_info_score, *maps))
                    for maps in (*map(_images, sizes), *edge_cases())
                ]
            ),
        ),
        Row(
            ["ami"],
            "torchmetrics",
            _maps_text(32),
            "",
            torchmetrics_ami,
        ),
    ]
    for ignore, name in ((None, ""), (0, ", `ignore=0`")):
        found += [
            Row([each], f"{code}{name}", both, "float32 there" if code == library else "", compare)
            for each, code, compare in (
                ("miou", OCLF, lambda f, i=ignore: oclf_overlap(f, "hungarian", metrics.mean_iou, i)),
                ("mbo", OCLF, lambda f, i=ignore: oclf_overlap(f, "best_overlap", metrics.mean_best_overlap, i)),
                ("sc", library, lambda f, i=ignore: covering(f, True, i)),
                ("msc", library, lambda f, i=ignore: covering(f, False, i)),
            )
        ]
    return found
