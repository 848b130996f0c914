"""Speed and memory of the metrics, as ratios measured in one run; `make bench` prints them and stores JSON.

Each rival is what people run today: a loop over scikit-learn, or the same networks trained one after another.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import adjusted_rand_score

from alebrije import __version__, metrics
from alebrije.metrics.dci import completeness, disentanglement
from alebrije.probes import split_rows

KINDS = (10, 10, 8, 15, 4, 10)
OUT = Path(__file__).parent / "metrics.json"


def codes_and_factors(rows: int = 10_000, neurons: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Six factors, each in a neuron of its own, leaking into the others and blurred."""
    draw = np.random.default_rng(0)
    factors = np.stack([draw.integers(0, kinds, rows) for kinds in KINDS], 1)
    codes = draw.normal(size=(rows, neurons)) * 0.3
    codes[:, : len(KINDS)] += (factors / KINDS - 0.5) * 3
    return codes @ (np.eye(neurons) + 0.25 * draw.normal(size=(neurons, neurons))), factors


def best_of(repeats: int, call: Callable[[], Any]) -> tuple[float, Any]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        answer = call()
        times.append(time.perf_counter() - start)
    return min(times), answer


def bench_rand_index() -> dict[str, Any]:
    draw = np.random.default_rng(0)
    true = draw.integers(0, 11, (256, 16, 16)).repeat(8, 1).repeat(8, 2)
    pred = np.where(draw.random(true.shape) < 0.3, draw.integers(0, 11, true.shape), true)
    ours, scores = best_of(5, lambda: metrics.adjusted_rand_index(true, pred))
    loop = lambda: [adjusted_rand_score(t.ravel(), p.ravel()) for t, p in zip(true, pred, strict=True)]  # noqa: E731
    theirs, expected = best_of(2, loop)
    return {
        "what": "ARI, 256 images of 128 x 128, 11 labels, against a loop over scikit-learn",
        "ratio": theirs / ours,
        "wanted": 30,
        "seconds": ours,
        "rival_seconds": theirs,
        "largest_difference": float(np.abs(scores - expected).max()),
    }


def bench_dci() -> dict[str, Any]:
    codes, factors = codes_and_factors()
    ours, fast = best_of(2, lambda: metrics.dci(codes, factors))
    fit, test = split_rows(len(codes), 1 / 3, 0)
    start = time.perf_counter()
    models = [GradientBoostingClassifier(random_state=0).fit(codes[fit], g[fit]) for g in factors.T]
    right = [(m.predict(codes[test]) == g[test]).mean() for m, g in zip(models, factors.T, strict=True)]
    theirs = time.perf_counter() - start
    importance = np.stack([m.feature_importances_ for m in models], 1)
    slow = {"D": disentanglement(importance), "C": completeness(importance), "I": float(np.mean(right))}
    quick = {"D": fast.disentanglement, "C": fast.completeness, "I": fast.informativeness}
    return {
        "what": "DCI with boosted trees, 10,000 x 10 codes, 6 factors, against GradientBoostingClassifier per factor",
        "ratio": theirs / ours,
        "wanted": 30,
        "seconds": ours,
        "rival_seconds": theirs,
        "ours": quick,
        "rival": slow,
        "largest_difference": max(abs(quick[k] - slow[k]) for k in slow),
        "difference_wanted": 0.03,
    }


def plain_knockout(codes: np.ndarray, factors: np.ndarray, alignment: np.ndarray) -> float:
    """The same networks, optimiser and batches, trained one after another with autograd; returns NK."""
    fit, test = split_rows(len(codes), 1 / 3, 0)
    scaled = torch.from_numpy((codes - codes[fit].mean(0)) / codes[fit].std(0)).float()
    drops = []
    for factor, neuron in enumerate(alignment):
        accuracies = []
        for columns in (range(codes.shape[1]), [i for i in range(codes.shape[1]) if i != neuron]):
            rows, labels = scaled[:, list(columns)], torch.from_numpy(factors[:, factor])
            network = torch.nn.Sequential(
                torch.nn.Linear(rows.shape[1], 256), torch.nn.ReLU(), torch.nn.Linear(256, KINDS[factor])
            )
            optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
            order = torch.Generator().manual_seed(0)
            train_rows, train_labels = rows[fit], labels[fit]
            for _ in range(75):
                for batch in torch.split(torch.randperm(len(train_rows), generator=order), 64):
                    optimiser.zero_grad()
                    torch.nn.functional.cross_entropy(network(train_rows[batch]), train_labels[batch]).backward()
                    optimiser.step()
            accuracies.append(float((network(rows[test]).argmax(1) == labels[test]).float().mean()))
        drops.append(accuracies[0] - accuracies[1])
    return float(np.mean(drops))


def bench_knockout() -> dict[str, Any]:
    codes, factors = codes_and_factors()
    ours, fast = best_of(2, lambda: metrics.neuron_knockout(codes, factors))
    theirs, slow = best_of(1, lambda: plain_knockout(codes, factors, fast.alignment))
    return {
        "what": "NK, 10,000 x 10 codes, 6 factors, 75 epochs, against the same networks one after another",
        "ratio": theirs / ours,
        "wanted": 5,
        "seconds": ours,
        "rival_seconds": theirs,
        "ours": fast.score,
        "rival": slow,
    }


def coat_case(slots: int) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    a, b, c, d = draw.normal(size=(4, 1600, slots, 64)).astype(np.float32)
    negatives = {name: draw.normal(size=a.shape).astype(np.float32) for name in metrics.HARD_NEGATIVES}
    seconds, _ = best_of(1, lambda: metrics.coat(a, b, c, d, negatives))
    return {"seconds": seconds, "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def neuron_memory(rows: int) -> dict[str, Any]:
    codes, factors = codes_and_factors(rows)
    for record in metrics.catalog().values():
        if record.instrument == "neurons":
            record(codes, factors, **({"epochs": 1} if record.name == "nk" else {}))
    return {"peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def apart(call: str) -> dict[str, Any]:
    """`call` in a process of its own, so that its peak memory is its own."""
    done = subprocess.run([sys.executable, __file__, call], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def bench_others() -> dict[str, float]:
    codes, factors = codes_and_factors()
    others = [r for r in metrics.catalog().values() if r.inputs == ("codes", "factors") and r.name not in ("nk", "dci")]
    return {record.name: best_of(2, lambda record=record: record(codes, factors))[0] for record in others}


def main() -> None:
    report: dict[str, Any] = {
        "alebrije": __version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "scikit-learn": sklearn.__version__,
        },
    }
    for bench in (bench_rand_index, bench_dci, bench_knockout):
        found = report[bench.__name__] = bench()
        print(f"{found['what']}:\n  {found['ratio']:.1f} times as fast (wanted {found['wanted']})", flush=True)
        if "difference_wanted" in found:
            print(f"  largest difference {found['largest_difference']:.4f} (wanted {found['difference_wanted']})")
    for slots in (7, 11):
        found = report[f"coat_{slots}_slots"] = apart(f"coat_case({slots})")
        print(f"COAT, 1,600 cases of {slots} slots of 64, 7 negatives: {found['seconds']:.1f} s, "
              f"peak {found['peak_gigabytes']:.2f} GB", flush=True)  # fmt: skip
    for rows in (10_000, 80_000):
        found = report[f"neurons_{rows}_rows"] = apart(f"neuron_memory({rows})")
        print(f"all neuron metrics on {rows} rows: peak {found['peak_gigabytes']:.2f} GB", flush=True)
    report["other_metrics_seconds"] = bench_others()
    slowest = max(report["other_metrics_seconds"], key=report["other_metrics_seconds"].__getitem__)
    print(
        f"every other metric on 10,000 x 10 codes: at most {report['other_metrics_seconds'][slowest]:.2f} s ({slowest})"
    )
    OUT.write_text(json.dumps(report, indent=1) + "\n")
    print(f"stored in {OUT}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        name, argument = sys.argv[1].rstrip(")").split("(")
        print(json.dumps({"coat_case": coat_case, "neuron_memory": neuron_memory}[name](int(argument))))
    else:
        main()
