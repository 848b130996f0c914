"""Made-up results of all four instruments, as their studies store them."""

from __future__ import annotations

import math

import numpy as np

from alebrije.metrics.coat import HARD_NEGATIVES
from alebrije.results import Cell, Machine, Result, ScoreInterval, Value
from alebrije.studies.folder import ResultFolder
from alebrije.studies.references import REFERENCES
from alebrije.studies.untrained import SAME_ARCHITECTURE

HOSTILE = "<script>alert(1)</script>"
QUOTED = """it's "quoted" & $\\frac$ <b>"""
LONG = "long-" * 60
MACHINE = Machine(python="3.12.1", torch="2.11.0", platform="Linux-x86_64", device="cpu")
FACTORS = ("shape", "color", "size")
LEVELS = {"slot-attention": 0.8, "vae": 0.35, "pixels": 0.2, "oracle": 1.0, "noise": 0.0}


def value(score, half=None, **fields):
    """A value with an interval of this half-width."""
    interval = None if half is None else ScoreInterval(low=score - half, high=score + half, method="bootstrap")
    return Value(score=score, interval=interval, direction=fields.pop("direction", "higher"), **fields)


def put(folder, study, labels, values, samples=None, **inputs):
    """Store a cell that is done."""
    subject = {"name": labels.get("model"), "encoder": labels.get("model"), "seed": labels.get("seed")}
    about = {"subject": subject, "labels": labels, **inputs}
    cell = Cell(study=study, labels={"size": "tiny", **labels}, inputs=about)
    if samples:
        folder.keep_samples(cell, **samples)
    folder.store.put(Result.done(cell, values, seconds=1.5, machine=MACHINE))
    return cell


def put_twins(folder, study, labels, metric, scores=(0.01, 0.0, -0.01), half=0.01, of=None):
    """Store the cells of the untrained twins of a model."""
    model = labels["model"]
    for seed, score in enumerate(scores):
        subject = {"untrained": SAME_ARCHITECTURE, "of": {"encoder": model if of is None else of}, "seed": seed}
        about = {**labels, "model": f"untrained twin of {model}", "seed": seed}
        put(folder, study, about, {metric: value(score, half)}, subject=subject)


def fail(folder, study, labels, message="no memory"):
    """Store a cell that failed."""
    cell = Cell(study=study, labels={"size": "tiny", **labels}, inputs={"labels": labels})
    try:
        raise RuntimeError(message)
    except RuntimeError as error:
        folder.store.put(Result.failed(cell, error, seconds=0.2, machine=MACHINE))
    return cell


def scene(rng, side, objects=3):
    """An image [3, H, W] of discs, and its labels."""
    rows, columns = np.indices((side, side))
    labels = np.zeros((side, side), np.uint8)
    image = np.stack([60 + rows // 2, 70 + rows // 2, 80 + columns // 3]).astype(np.uint8)
    for number in range(1, objects + 1):
        y, x = rng.integers(side // 5, side - side // 5, 2)
        inside = (rows - y) ** 2 + (columns - x) ** 2 < (side // 7) ** 2
        labels[inside] = number
        image[:, inside] = rng.integers(60, 255, (3, 1), dtype=np.uint8)
    return image, labels


def analogies(folder, models=LEVELS, side=64, seeds=2):
    """COAT on both corpora."""
    for model, level in models.items():
        for corpus in ("occluded", "unoccluded"):
            for seed in range(seeds if model in ("slot-attention", "vae") else 1):
                rng = np.random.default_rng(seed)
                score = level * (1.0 if model != "pixels" or corpus == "unoccluded" else 0.6) + 0.01 * seed
                failed = {"vae": ("drop", "size"), "noise": HARD_NEGATIVES}.get(model, ())
                tests = {
                    name: {"p_hat": 0.49 if name in failed else 0.97, "p_value": 0.5, "passed": name not in failed}
                    for name in HARD_NEGATIVES
                }
                labels = {"model": model, "corpus": corpus, "train_set": "iid"}
                if model in ("slot-attention", "vae"):
                    labels["seed"] = seed
                if model == "slot-attention":
                    labels["variant"] = "no-duplicates+no-invisible"
                details = {"tests": tests, "passed": not failed, "negatives": list(HARD_NEGATIVES)}
                values = {"coat": value(score, 0.03, details=details), "coat-acos": value(score / 2, 0.02)}
                if model == "noise":
                    values["fg-ari"] = Value(score=None, reason="this model has no masks")
                images = {letter: np.stack([scene(rng, side)[0] for _ in range(4)]) for letter in "abcd"}
                negatives = np.stack([[scene(rng, side)[0] for _ in HARD_NEGATIVES] for _ in range(4)])
                losses = rng.uniform(1, 2, 4)
                samples = {
                    **images,
                    "decoded": images["d"] // 2 + 60,
                    "negatives": negatives,
                    "losses": losses,
                    "negative_losses": losses[:, None] + np.where(np.isin(HARD_NEGATIVES, failed), -0.5, 0.5),
                }
                put(folder, "analogy", labels, values, samples)
            if model not in REFERENCES:
                about = {name: label for name, label in labels.items() if name not in ("seed", "train_set")}
                put_twins(folder, "analogy", about, "coat")


def imaginations(folder, models=LEVELS, side=64, alphas=(0.2, 0.6)):
    """Errors and factors in one world."""
    for model, level in models.items():
        for alpha in alphas:
            rng = np.random.default_rng(0)
            others = {"in-distribution": min(1.0, level + 0.15), "of true images": 0.99, "chance": 0.25}
            factors = {
                f"{name} accuracy": value(max(0.3, level - 0.2 * (name == "shape")), details=others) for name in FACTORS
            }
            values = {
                "in-distribution error": value(20 + 80 * (1 - level), 2, direction="lower"),
                "out-of-distribution error": value(30 + 200 * (1 - level) - 20 * alpha, 5, direction="lower"),
                "gap": value(0.5, direction="lower"),
                "error of an unchanged image": value(180.0, direction="lower"),
                "skill": value(level, 0.04),
                "factor accuracy": value(max(0.3, level - 0.07), details=others),
                "in-distribution factor accuracy": value(min(1.0, level + 0.15)),
                "factor accuracy of true images": value(0.99),
                **factors,
            }
            target = np.stack([scene(rng, side)[0] for _ in range(4)])
            source = np.stack([scene(rng, side)[0] for _ in range(4)])
            predicted = (target * (0.5 + level / 2)).astype(np.uint8)
            samples = {"source": source, "target": target, "predicted": predicted}
            samples |= {f"{name}_in": array[:2] for name, array in samples.items()}
            labels = {"model": model, "world": "sprites", "rule": "S-A", "alpha": alpha, "seed": 0}
            put(folder, "imagination", labels, values, samples)
            if model not in REFERENCES:
                put_twins(folder, "imagination", labels, "skill")
        labels = {"model": model, "world": "sprites", "rule": "S-A"}
        put(folder, "imagination", labels, {"alpha-efficiency": value(0.4, direction="lower")})


def groupings(folder, models=LEVELS, side=64, slots=(3, 5, 7)):
    """A grid of slots for Slot Attention, single cells for the others, and the correlations."""
    for model, level in models.items():
        grid = [(a, b) for a in slots for b in slots] if model == "slot-attention" else [(None, None)]
        for train, test in grid:
            rng = np.random.default_rng(1)
            images, true, groups = [], [], []
            for at in range(3):
                image, labels = scene(rng, side, 4)
                images.append(image)
                true.append(labels)
                groups.append(_grouped(labels, level, at, rng))
            ari = level - 0.05 * abs((train or 5) - 5)
            score = value(ari, 0.03, details={"by objects": {"3": ari, "4": ari - 0.05, "5": None, "6": ari - 0.1}})
            values = {"fg-ari": score, "fg-arp": value(min(1, ari + 0.15), 0.02), "fg-arr": value(ari - 0.1, 0.02)}
            values |= {"ari": value(ari / 2), "psnr": value(25 + 5 * level)}
            if model == "vae":
                values = dict.fromkeys(values, Value(score=None, reason="the model has no masks"))
            about = {"model": model, "world": "clevr6"}
            if train is not None:
                about |= {"train_slots": train, "test_slots": test, "initial": "random", "seed": 0}
            samples = {"images": np.stack(images), "true": np.stack(true), "groups": np.stack(groups).astype(np.uint8)}
            put(folder, "grouping", about, values, samples if model != "vae" else None)
            if model not in REFERENCES and train == test:
                put_twins(folder, "grouping", about, "fg-ari")
    correlations = {"pearson(PSNR, FG-ARI)": value(0.5, 0.1), "pearson(PSNR, FG-ARP)": value(0.85, 0.05)}
    put(folder, "grouping", {"world": "clevr6"}, correlations)


def _grouped(labels, level, at, rng):
    if level < 0.1:
        return rng.integers(0, 7, labels.shape)
    groups = labels.copy()
    if level < 1 and at == 0:
        groups[labels == 2] = 1
    if level < 1 and at == 1:
        columns = np.indices(labels.shape)[1]
        groups[(labels == 1) & (columns % 8 < 4)] = 7
    return groups


def neurons(folder, models=LEVELS):
    """Scores, generalisation and correlations."""
    for model, level in models.items():
        rng = np.random.default_rng(3)
        information = rng.uniform(0, 0.05, (10, 4))
        information[[0, 2, 4, 6], range(4)] = 0.1 + level
        details = {"information": information, "alignment": [0, 2, 4, 6], "factor_names": [*FACTORS, "x"]}
        for seed in range(3 if model == "vae" else 1):
            found = level * 0.9 + 0.02 * seed
            values = {
                "SNC": value(found, 0.02, details=details),
                "NK": value(found * 0.8, 0.03),
                "MIG": value(found / 2),
            }
            values |= {"DCI-D": value(found * 0.7), "SAP": value(math.nan)}
            put(folder, "neurons", {"model": model, "world": "dsprites", "seed": seed}, values)
        if model not in REFERENCES:
            put_twins(folder, "neurons", {"model": model, "world": "dsprites"}, "SNC")
        for setting, share in {"CG": 0.5, "linear CG": 0.4, "normal test set": 0.95}.items():
            labels = {"model": model, "world": "dsprites", "setting": setting, "feature": "both", "seed": 0}
            put(folder, "neurons", labels, {"CG accuracy": value(share * level, 0.05)})
    for predictor, found in {"SNC": 0.8, "NK": 0.6, "MIG": 0.7}.items():
        labels = {"predictor": predictor, "scope": "all"}
        put(folder, "neurons", labels, {"correlation with generalisation": value(found, 0.15)})


def everything(path, models=LEVELS, side=64):
    """All four studies."""
    folder = ResultFolder(path)
    analogies(folder, models, side)
    imaginations(folder, models, side)
    groupings(folder, models, side)
    neurons(folder, models)
    return folder


def hostile(path):
    """Names that look like markup, a failure, a damaged file, and few of the usual results."""
    folder = ResultFolder(path)
    models = {HOSTILE: 0.9, QUOTED: 0.4, LONG: 0.1}
    analogies(folder, models, 32)
    neurons(folder, models)
    groupings(folder, {HOSTILE: 0.5}, 32)
    fail(folder, "imagination", {"model": HOSTILE, "world": HOSTILE}, "</pre><script>alert(2)</script>")
    (folder.store.folder / "neurons-broken-0123456789abcdef.json").write_text('{"half": ')
    put(folder, "odd " + HOSTILE, {"model": HOSTILE}, {"</script>": value(1.0), "$x": value(2.0)})
    return folder
