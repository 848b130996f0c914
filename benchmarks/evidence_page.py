"""Curves and tables of docs/evidence.md, from the records in docs/evidence.

    python benchmarks/evidence_page.py

The script draws the curves of each group of runs and replaces the tables of the page, each between the marks with its
name. The text is written by hand: results first, then table and picture, details folded.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot as plt

from alebrije.metrics import generalisation_gap

Record = dict[str, Any]

DOCS = Path(__file__).parents[1] / "docs"
TITLES = {
    "i2i-cnn": "I2I-CNN",
    "i2i-vit": "I2I-ViT",
    "ssm-vae": "SSM-VAE",
    "ssm-slot": "SSM-Slot",
    "svib-oracle": "Oracle",
    "beta-vae": "beta-VAE",
    "beta-tcvae": "beta-TCVAE",
    "slot-attention": "Slot Attention",
    "oracle-unmixed": "Oracle without mixing",
    "oracle-slow": "Oracle, released recipe",
    "ssm-slot-long": "SSM-Slot, 40,000 steps",
    "ssm-slot-again": "SSM-Slot, 40,000 steps, second run",
    "ssm-slot-longest": "SSM-Slot, 80,000 steps",
    "ssm-slot-slow": "SSM-Slot, released recipe",
    "i2i-vit-again": "I2I-ViT, second run",
    "annealed-vae": "AnnealedVAE",
}
PUBLISHED = TITLES | dict.fromkeys(("oracle-unmixed", "oracle-slow"), "Oracle") | {"i2i-vit-again": "I2I-ViT"}
PUBLISHED |= dict.fromkeys(("ssm-slot-long", "ssm-slot-again", "ssm-slot-longest", "ssm-slot-slow"), "SSM-Slot")
MORE = "black", "gold", "teal", "navy", "saddlebrown", "crimson"
COLOURS = dict(zip(TITLES, (*plt.rcParams["axes.prop_cycle"].by_key()["color"], *MORE), strict=True))


def records(group: str) -> list[Record]:
    """The records of a group of runs."""
    return [json.loads(path.read_text()) for path in sorted((DOCS / "evidence").glob(f"{group}-*.json"))]


def model_of(record: Record) -> str:
    """The name of a run's model; a variant, another recipe or a longer run has its own name."""
    name = str(record["run"].split("/")[1])
    return "svib-oracle" if name == "oracle" else name  # the old name of the model in older records


def published(name: str) -> list[dict[str, str]]:
    """Rows of a table of published numbers."""
    text = (files("alebrije.results") / "published" / f"{name}.csv").read_text()
    return list(csv.DictReader(text.splitlines()))


def published_error(model: str, alpha: float) -> float:
    """SVIB's out-of-distribution error on sprites, S-A."""
    asked = {"environment": "dsprites", "task": "S-A", "metric": "mse_ood", "model": PUBLISHED[model]}
    rows = [row for row in published("svib") if all(row[key] == value for key, value in asked.items())]
    return next(float(row["value"]) for row in rows if float(row["alpha"]) == alpha)


def published_score(model: str, metric: str) -> str:
    """Published score of a model on dSprites, with its standard deviation if there is one; a dash if it has none."""
    asked = {"dataset": "dsprites", "model": PUBLISHED[model], "metric": metric}
    rows = [row for row in published("disentanglement") if all(row[key] == value for key, value in asked.items())]
    if not rows:
        return "-"
    row = max(rows, key=lambda row: bool(row["std"]))
    return row["value"] + (f" ± {row['std']}" if row["std"] else "")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def length(record: Record) -> str:
    """Steps done, and steps planned if those are more."""
    done, planned = record["steps"], record["of steps"]
    return f"{done:,}" if done == planned else f"{done:,} of {planned:,}"


def spread(error: float | None) -> str:
    """A standard error as text, if there is one."""
    return "" if error is None else f" ± {error:.1f}"


# --- Tables ---


def svib_errors() -> str:
    """Errors of every run next to SVIB's."""
    head = ("alpha", "model", "steps", "in distribution", "out of distribution", "gap", "paper, out of distribution")
    rows = []
    for record in sorted(records("svib"), key=lambda r: (-r["plan"]["alpha"], r["found"]["out-of-distribution error"])):
        found, alpha = record["found"], record["plan"]["alpha"]
        inside, outside = found["in-distribution error"], found["out-of-distribution error"]
        rows.append(
            (
                alpha,
                TITLES[model_of(record)],
                length(record),
                f"{inside:.1f}{spread(found.get('in-distribution standard error'))}",
                f"{outside:.1f}{spread(found.get('out-of-distribution standard error'))}",
                f"{generalisation_gap(inside, outside).score:.2f}",
                published_error(model_of(record), alpha),
            )
        )
    return table(head, rows)


def svib_order() -> str:
    """Models by out-of-distribution error, ours and the paper's, for each alpha."""
    rows = []
    for alpha in sorted({record["plan"]["alpha"] for record in records("svib")}, reverse=True):
        errors = {
            model_of(record): record["found"]["out-of-distribution error"]
            for record in records("svib")
            if record["plan"]["alpha"] == alpha
        }
        ours = [TITLES[model] for model in sorted(errors, key=errors.__getitem__)]
        theirs = [PUBLISHED[model] for model in sorted(errors, key=lambda each, at=alpha: published_error(each, at))]  # type: ignore[misc]
        rows.append((alpha, " < ".join(ours), " < ".join(dict.fromkeys(theirs))))
    return table(("alpha", "ours", "the same models in the paper"), rows)


def neuron_scores() -> str:
    """Scores of every run next to the published ones, in percent."""
    rows = []
    for record in records("neurons"):
        found = record["found"]
        scores = [
            f"{100 * found[metric]:.1f}" if metric in found else "not measured" for metric in ("MIG", "SNC", "NK")
        ]
        theirs = [published_score(model_of(record), metric) for metric in ("MIG", "SNC", "NK")]
        pairs = [each for pair in zip(scores, theirs, strict=True) for each in pair]
        rows.append((TITLES[model_of(record)], record["plan"]["seed"], length(record), *pairs))
    head = [each for metric in ("MIG", "SNC", "NK") for each in (metric, f"{metric}, paper")]
    return table(("model", "seed", "steps", *head), rows)


def annealed_scores() -> str:
    """SNC and MIG of AnnealedVAE along its training, in percent, and the accuracies after 40,000 steps."""
    shown = (10_000, 20_000, 30_000, 40_000, 50_000, 60_000)
    rows = []
    for record in (each for each in records("neurons") if "over training" in each["found"]):
        scores = {each["step"]: each for each in record["found"]["over training"]}
        cells = [f"{100 * scores[step]['SNC']:.1f} / {100 * scores[step]['MIG']:.1f}" for step in shown]
        middle = [f"{100 * each:.0f}" for each in scores[40_000]["accuracy"]]
        rows.append((record["plan"]["seed"], *cells, ", ".join(middle)))
    factors = "shape, scale, orientation, x, y"
    return table(("seed", *(f"{step:,} steps" for step in shown), f"accuracies at 40,000: {factors}"), rows)


def annealing_trials() -> str:
    """SNC and MIG of AnnealedVAEs with other settings, in percent, for three seeds."""
    found: dict[str, dict[tuple[int, int], Record]] = {}
    for row in json.loads((DOCS / "evidence" / "annealing-trials.json").read_text())["rows"]:
        found.setdefault(row["name"], {})[row["step"], row["seed"]] = row
    head = ("settings, except for these as in `paper`", *(f"{step:,} steps: seeds 0, 1, 2" for step in (5_000, 10_000)))
    rows = []
    for name, scores in found.items():
        cells = [
            [f"{100 * s['SNC']:.0f} / {100 * s['MIG']:.0f}" for (t, _), s in scores.items() if t == step]
            for step in (5_000, 10_000)
        ]
        rows.append((name, *(", ".join(cell) for cell in cells)))
    return table(head, sorted(rows, key=lambda row: row[0] != "paper"))


def joint_records(kind: str) -> dict[str, Record]:
    """The records of models that were trained beside each other, by name."""
    path = DOCS / "evidence" / f"joint-{kind}.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def joint_annealed() -> str:
    """SNC and MIG of AnnealedVAE with the preset `small` along its training, and accuracies at its end, in percent."""
    found = [record for record in joint_records("neurons").values() if record["plan"]["model"] == "annealed-vae"]
    steps = sorted({row["step"] for record in found for row in record["found"]["over training"]})
    rows = []
    for record in found:
        scores = {row["step"]: row for row in record["found"]["over training"]}
        cells = [f"{100 * scores[step]['SNC']:.1f} / {100 * scores[step]['MIG']:.1f}" for step in steps]
        alone = ", ".join(f"{100 * each:.0f}" for each in record["found"]["accuracy"]["one neuron"])
        rows.append((record["plan"]["seed"], *cells, alone))
    last = f"accuracies at {steps[-1]:,}: shape, scale, orientation, x, y"
    return table(("seed", *(f"{step:,} steps" for step in steps), last), rows)


def iodine_scores() -> str:
    """Grouping scores of IODINE on coat along its training."""
    rows = json.loads((DOCS / "evidence" / "iodine-coat.json").read_text())["history"]
    head = ("steps at 32 pixels", "FG-ARI at 32 pixels", "FG-ARI at 64 pixels", "FG-ARP", "FG-ARR", "ms per step")
    names = ("FG-ARI at this size", "FG-ARI", "FG-ARP", "FG-ARR")
    return table(head, [(f"{r['step']:,}", *(f"{r[name]:.2f}" for name in names), f"{r['ms']:.1f}") for r in rows])


def slot_scores() -> str:
    """Grouping scores of the same weights with several numbers of slots."""
    metrics = ("FG-ARI", "FG-ARP", "FG-ARR", "ARI")
    rows = []
    for record in records("slots"):
        for slots, scores in record["found"].items():
            rows.append((record["plan"]["seed"], length(record), slots, *(f"{scores[each]:.3f}" for each in metrics)))
    return table(("seed", "steps", "evaluated with", *metrics), rows)


def settings() -> str:
    """Settings of every run."""
    rows = []
    for record in records("svib") + records("neurons") + records("slots"):
        plan = record["plan"]
        recipe = plan["recipe"]
        where = plan["world"] if plan["rule"] is None else f"{plan['world']}, {plan['rule']}, alpha {plan['alpha']}"
        rows.append(
            (
                TITLES[model_of(record)],
                where,
                f"{plan['preset']}, {plan['size']} pixels, batch {recipe['batch']}",
                plan["seed"],
                length(record),
                f"{record['minutes of training']:.1f}",
            )
        )
    return table(("model", "learned from", "preset, except for the steps", "seed", "steps", "minutes"), rows)


# --- Curves ---


def line(record: Record, name: str) -> tuple[list[float], list[float]]:
    """Steps and values of one quantity in the history."""
    points = sorted((each["step"], each[name]) for each in record["history"] if each.get(name) is not None)
    return [step for step, _ in points], [value for _, value in points]


def svib_curves() -> None:
    """Errors over steps: solid lines out of distribution, dashed lines in distribution."""
    found = records("svib")
    alphas = sorted({record["plan"]["alpha"] for record in found}, reverse=True)
    figure, axes = plt.subplots(len(alphas), 1, figsize=(8.5, 4.2 * len(alphas)), squeeze=False)
    for alpha, panel in zip(alphas, axes[:, 0], strict=True):
        for record in (each for each in found if each["plan"]["alpha"] == alpha):
            model = model_of(record)
            colour = COLOURS[model]
            panel.plot(*line(record, "out-of-distribution error"), color=colour, label=TITLES[model])
            panel.plot(*line(record, "in-distribution error"), color=colour, linestyle="--", linewidth=1)
            panel.axhline(published_error(model, alpha), color=colour, linestyle=":", linewidth=1)
        panel.set(title=f"sprites S-A, alpha {alpha}", xlabel="steps", ylabel="squared error per image", yscale="log")
        words = "dashed: in distribution\ndotted: the paper, 160,000 steps"
        panel.legend(title=words, fontsize=8, title_fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    keep(figure, "svib")


def neuron_curves() -> None:
    """Reconstruction errors over steps."""
    figure, panel = plt.subplots(figsize=(6, 4.2))
    for record in records("neurons"):
        model, seed = model_of(record), record["plan"]["seed"]
        if seed > 1:  # two seeds of each model show what there is to see
            continue
        style = "-" if seed == 0 else "--"
        steps, errors = line(record, "reconstruction error")
        panel.plot(steps, errors, style, color=COLOURS[model], label=f"{TITLES[model]}, seed {seed}")
    panel.set(xlabel="steps", ylabel="squared error per pixel", yscale="log", title="dsprites")
    panel.legend(fontsize=8)
    keep(figure, "neurons")


def annealed_curves() -> None:
    """SNC and MIG of AnnealedVAE over steps, a line for each seed."""
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.6), sharex=True)
    for record in (each for each in records("neurons") if "over training" in each["found"]):
        rows = record["found"]["over training"]
        for panel, metric in zip(axes, ("SNC", "MIG"), strict=True):
            steps, scores = ([each[name] for each in rows] for name in ("step", metric))
            panel.plot(steps, scores, marker=".", label=f"seed {record['plan']['seed']}")
            panel.set(xlabel="steps", title=metric, ylim=(0, 0.5))
    axes[0].legend(fontsize=8)
    keep(figure, "annealed")


def slot_curves() -> None:
    """Grouping scores over steps."""
    figure, panel = plt.subplots(figsize=(6, 4.2))
    for record in records("slots"):
        for metric, colour in zip(("FG-ARI", "FG-ARP", "FG-ARR"), COLOURS.values(), strict=False):
            style = "-" if record["plan"]["seed"] == 0 else "--"
            steps, scores = line(record, metric)
            panel.plot(steps, scores, style, color=colour, label=f"{metric}, seed {record['plan']['seed']}")
    panel.set(xlabel="steps", ylabel="score", title="clevr6, seven slots, held-out images")
    panel.legend(fontsize=8)
    keep(figure, "slots")


def keep(figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(DOCS / "evidence" / f"{name}-curves.png", dpi=110)
    plt.close(figure)


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings,
    "svib errors": svib_errors,
    "svib order": svib_order,
    "neurons": neuron_scores,
    "annealed": annealed_scores,
    "annealing trials": annealing_trials,
    "joint annealed": joint_annealed,
    "slots": slot_scores,
    "iodine": iodine_scores,
}
CURVES = {"svib": svib_curves, "neurons": neuron_curves, "slots": slot_curves}


def main() -> None:
    """Draw the curves of every group that has runs, and replace the tables of the page."""
    for group, draw in CURVES.items():
        if records(group):
            draw()
    annealed_curves()
    path = DOCS / "evidence.md"
    text = path.read_text()
    for name, made in TABLES.items():
        marks = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if marks[0] in text:
            pattern = re.escape(marks[0]) + ".*?" + re.escape(marks[1])
            text = re.sub(pattern, lambda _, n=marks, m=made: f"{n[0]}\n\n{m()}\n\n{n[1]}", text, flags=re.DOTALL)  # type: ignore[misc]
    path.write_text(text)


if __name__ == "__main__":
    main()
