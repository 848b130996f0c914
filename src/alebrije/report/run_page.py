"""The page of a run: its settings, the curves of its history, and samples of its last checkpoint.

It only reads, so it can be written while the run goes on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from alebrije import __version__, adapters, worlds
from alebrije.atomic import explain_write_errors, write_atomically
from alebrije.errors import InputError
from alebrije.files import parse_json
from alebrije.metrics import labels_from_masks
from alebrije.report.charts import COLORS, WIDTH, as_inline_svg, styled
from alebrije.report.parts import Shot, Strip, short
from alebrije.sheets.sheet import colored_mask, picture_of
from alebrije.studies.model import trained_on
from alebrije.train.checkpoint import checkpoints, step_of
from alebrije.train.history import read_lines
from alebrije.train.plan import Plan
from alebrije.train.run_folder import PLAN_FILE, read_plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 2_000_000  # of the shown scenes: neither training nor its check uses it
_MOST_POINTS = 500  # of a curve; more are thinned out
_PACE = ("images per second", "seconds")


@dataclass(frozen=True)
class Curve:
    """One number of the history over the steps."""

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]

    def figure(self) -> Figure:
        """The curve as a small chart."""
        from matplotlib.figure import Figure

        every = max(1, -(-len(self.steps) // _MOST_POINTS))
        with styled():
            figure = Figure(figsize=(WIDTH, 2.2), layout="constrained")
            axes = figure.add_subplot()
            few = len(self.steps) < 30
            axes.plot(
                self.steps[::every], self.values[::every], color=COLORS[0], marker="o" if few else "", ms=3, lw=1.3
            )
            axes.set(xlabel="step", title=short(self.name, 48))
        return figure


def is_run(folder: str | Path) -> bool:
    """Whether a folder holds a run of `alebrije train`."""
    return (Path(folder) / PLAN_FILE).is_file()


def write_run_page(folder: str | Path, out: str | Path, n: int = 6) -> Path:
    """Write the page of a run with samples of `n` images, and return its path."""
    run, path = Path(folder), Path(out)
    path = path if path.suffix == ".html" else path.with_name(f"{path.name}.html")
    plan = read_plan(run)
    strips, legend = _samples(run, plan, n)
    environment = Environment(
        loader=PackageLoader("alebrije.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    assert environment.loader is not None
    drawn = iter(range(10**6))
    text = environment.get_template("run.html").render(
        version=__version__,
        style=Markup(environment.loader.get_source(environment, "report.css")[0]),
        title=f"{plan.record.title} on {trained_on(plan.world, plan.rule, plan.alpha)}",
        facts=_facts(run, plan),
        curves=read_curves(run),
        svg=lambda curve: Markup(as_inline_svg(curve.figure(), f"f{next(drawn)}")),
        strips=strips,
        legend=legend,
    )
    with explain_write_errors(path):
        write_atomically(path, text)
    return path


def read_curves(run: Path) -> list[Curve]:
    """The numbers of the history: losses, scores of training checks, then speed. Damaged lines are left out."""
    path = run / "history.jsonl"
    points: dict[str, dict[int, float]] = {}
    for line in read_lines(path) if path.is_file() else ():
        try:
            entry: dict[str, Any] = dict(parse_json(line, path))
            step = int(entry.pop("step"))
        except (ValueError, KeyError, TypeError):
            continue
        for name, value in entry.items():
            if isinstance(value, (int, float)) and math.isfinite(value):
                points.setdefault(str(name), {})[step] = float(value)
    points.pop("seconds", None)
    names = sorted(points, key=lambda name: (name in _PACE, name == "lr"))
    return [Curve(name, tuple(points[name]), tuple(points[name].values())) for name in names]


def _facts(run: Path, plan: Plan) -> list[tuple[str, str]]:
    saved = checkpoints(run)
    last = step_of(saved[-1]) if saved else 0
    settings = ", ".join(f"{name} {short(value, 24)}" for name, value in plan.settings.items())
    recipe = ", ".join(f"{name} {short(value, 24)}" for name, value in vars(plan.recipe).items())
    return [
        ("last checkpoint", f"step {last:,} of {plan.recipe.steps:,}"),
        ("preset", plan.preset),
        ("seed", str(plan.seed)),
        ("pixels", str(plan.size)),
        ("model", settings or "no settings"),
        ("training", recipe),
        ("folder", str(run)),
    ]


def _samples(run: Path, plan: Plan, n: int) -> tuple[list[Strip], str]:
    """What the last checkpoint makes of images that it has not seen, and a sentence about them."""
    saved = checkpoints(run)
    if not saved:
        return [], "There is no checkpoint yet."
    if plan.record.takes != "images" or plan.predicts or plan.world not in worlds.names():
        return [], "Samples are shown for models of single images of alebrije's worlds."
    world = worlds.get(plan.world)
    images = world.images(world.sample(n, seed=SEED), plan.size)
    try:
        encoding = adapters.load(f"checkpoint:{saved[-1]}")(images)
    except InputError as error:
        return [], f"The last checkpoint cannot be shown: {error}"
    strips = [Strip("", tuple(shots)) for shots in _shots(images, encoding.masks, encoding.reconstruction)]
    words = f"New scenes of {plan.world}, and what the checkpoint of step {step_of(saved[-1]):,} makes of them."
    if len(strips[0].pictures) == 1:
        words += " The model neither reconstructs images nor has masks."
    return strips, words


def _shots(
    images: torch.Tensor, masks: torch.Tensor | None, reconstructions: torch.Tensor | None
) -> Sequence[Sequence[Shot]]:
    rows: list[list[Shot]] = [[Shot("image", picture_of(image.numpy()), "the image")] for image in images]
    if reconstructions is not None:
        pixels = (reconstructions.float().clamp(0, 1).expand(-1, 3, -1, -1) * 255).round().byte().cpu().numpy()
        for row, image in zip(rows, pixels, strict=True):
            row.append(Shot("reconstruction", picture_of(image), "the model's reconstruction"))
    if masks is not None:
        for row, labels in zip(rows, labels_from_masks(masks).cpu().numpy(), strict=True):
            row.append(Shot("slots", colored_mask(labels + 1), "the slot with the largest mask at each pixel"))
    return rows
