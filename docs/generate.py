"""Build hooks of the documentation site: pages and tables made from the code, the benchmarks and the root documents.

MkDocs calls the `on_*` functions (see `mkdocs.yml`). A page asks for a table by a line such as

    <!-- generated: metrics -->

and nothing generated is committed, so nothing can go stale. `python docs/generate.py metrics` prints one table.
"""

from __future__ import annotations

import ast
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "alebrije"
MARK = re.compile(r"^<!-- generated: (?P<name>[a-z ]+) -->$", re.MULTILINE)
ROOM = re.compile(r"^(?P<name>[a-z_]+)(?P<kind>/|\.py) ", re.MULTILINE)
ROOT_PAGES = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


EVALUATIONS = {  # rows of benchmarks/evaluation.json in words
    "eval": "`eval`, empty cache",
    "eval, second model": "`eval` of a second model, images cached",
    "eval without yardsticks": "`eval`, empty cache, without pixels and untrained twins",
    "corpus": "corpus of COAT: 256 occluded cases, 128 px",
}


NETWORKS = {"small": "A small network, 64 px.", "vit": "A ViT-S/16 with random weights, 224 px."}


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def _unbroken(text: str) -> str:
    """Text that stays on one line of a narrow column."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def benchmark(name: str) -> dict[str, Any]:
    """The numbers that `make bench` stored."""
    stored: dict[str, Any] = json.loads((ROOT / "benchmarks" / f"{name}.json").read_text(encoding="utf-8"))
    return stored


def measured(name: str) -> bool:
    """Whether there are numbers of this benchmark."""
    return (ROOT / "benchmarks" / f"{name}.json").exists()


def machine(stored: dict[str, Any]) -> str:
    """The machine and the versions behind some numbers, as a line of text."""
    versions = stored.get("versions") or {name: stored[name] for name in ("python", "torch") if name in stored}
    device = stored.get("device", "cpu")
    where = stored["machine"] if device == "cpu" else f"{device}, {stored['machine']}"
    return f"*{where}; " + ", ".join(f"{name} {version}" for name, version in versions.items()) + "*"


# --- Catalogs ---


def metrics() -> str:
    """One table of metrics for each instrument."""
    from alebrije.metrics import catalog

    records = list(catalog().values())
    parts = []
    for instrument in dict.fromkeys(record.instrument for record in records):
        rows = []
        for record in records:
            if record.instrument == instrument:
                settings = ", ".join(f"{key}={value!r}" for key, value in record.settings.items())
                function = record.function.__name__
                call = f"[`{function}`][alebrije.metrics.{function}]" + (f" with `{settings}`" if settings else "")
                low, high = map(_bound, record.range)
                needs = ", ".join(record.inputs)
                span = _unbroken(f"{low} to {high}")
                rows.append((f"`{record.name}`", record.title, call, needs, span, record.direction, record.cites))
        head = ("name", "metric", "function", "needs", "range", "better", "source")
        parts.append(f"## {instrument.capitalize()}\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def _bound(value: float) -> str:
    return f"{'-' if value < 0 else ''}∞" if math.isinf(value) else f"{value:g}"


def worlds() -> str:
    """The factors of every world."""
    from alebrije import worlds

    rows = []
    for name in worlds.names():
        world = worlds.get(name)
        factors = ", ".join(f"{factor.name} ({len(factor.values)})" for factor in world.vocabulary.factors)
        rows.append((f"`{name}`", factors, f"{world.vocabulary.size:,}", world.size))
    return table(("world", "factors of an object (values)", "combinations", "default size in pixels"), rows)


def models() -> str:
    """Every model with the length of its presets; parameters are counted at the sizes of `paper`."""
    from alebrije.models import catalog
    from alebrije.train.plan import plan

    rows = []
    for record in catalog().values():
        plans = [plan(record.name, preset_name=name, dry_run=False) for name in ("paper", "small", "tiny")]
        count = f"{record.parameter_count(**plans[0].settings):,}"
        lengths = (_unbroken(f"{made.recipe.steps:,} x {made.recipe.batch}") for made in plans)
        rows.append((f"`{record.name}`", record.title, record.learns_from, count, *lengths, record.cites))
    head = ("name", "model", "learns from", "parameters", "`paper`: steps x batch", "`small`", "`tiny`", "source")
    return table(head, rows)


def presets() -> str:
    """Where the settings of every preset `paper` come from."""
    from alebrije.train.presets import PRESETS

    rows = []
    for model, choices in PRESETS.items():
        for preset in choices["paper"]:
            rows.append((f"`{model}`", ", ".join(preset.data), preset.size, f"{preset.recipe.steps:,}", preset.origin))
    return table(("model", "learns from", "pixels", "steps", "source of the settings"), rows)


# --- Benchmarks ---


def metric_speed() -> str:
    """Metrics against the implementations that people use today, in one run."""
    stored = benchmark("metrics")
    rows = []
    for entry in stored.values():
        if isinstance(entry, dict) and "ratio" in entry:
            what, _, rival = entry["what"].partition(", against ")
            seconds = (_unbroken(f"{entry[name]:.3g} s") for name in ("seconds", "rival_seconds"))
            rows.append((what, rival, *seconds, _times(entry["ratio"])))
    head = ("metric and input", "compared with", "ours", "theirs", "times as fast")
    return f"{machine(stored)}\n\n{table(head, rows)}"


def metric_seconds() -> str:
    """Seconds of all other metrics, and the memory of the largest cases."""
    stored = benchmark("metrics")
    seconds = [(f"`{name}`", f"{value:.3f}") for name, value in stored["other_metrics_seconds"].items()]
    rows = []
    for slots in (7, 11):
        entry = stored[f"coat_{slots}_slots"]
        case = f"COAT, 1,600 cases of {slots} slots of 64 numbers, 7 hard negatives"
        rows.append((case, f"{entry['seconds']:.1f}", f"{entry['peak_gigabytes']:.2f}"))
    for count in (10_000, 80_000):
        peak = stored[f"neurons_{count}_rows"]["peak_gigabytes"]
        rows.append((f"all metrics of neurons, {count:,} rows", "", f"{peak:.2f}"))
    return f"{table(('metric', 'seconds'), seconds)}\n\n{table(('case', 'seconds', 'peak memory in GB'), rows)}"


def world_speed() -> str:
    """Images per second of the ray tracer by number of objects and size, and of the other worlds."""
    stored = benchmark("worlds")
    devices = [device for device in ("cpu", "cuda") if device in stored]
    sizes = sorted({entry["size"] for entry in stored[devices[0]]["clevr"]})
    rows: list[list[str]] = []
    for objects in sorted({entry["objects"] for entry in stored[devices[0]]["clevr"]}):
        row = [f"clevr, {objects} objects"]
        for device in devices:
            speed = {
                entry["size"]: entry["images per second"]
                for entry in stored[device]["clevr"]
                if entry["objects"] == objects
            }
            row += [f"{speed[size]:,.0f}" for size in sizes]
        rows.append(row)
    head = ["", *(f"{_device(stored[device])}, {size} px" for device in devices for size in sizes)]
    others = [
        (name, *(f"{stored[device]['others'][name]:,.0f}" for device in devices))
        for name in stored[devices[0]]["others"]
    ]
    lines = [
        f"- {_device(stored[device])}: {stored[device]['machine']}, torch {stored[device]['torch']}."
        for device in devices
    ]
    parts = ["\n".join(lines), table(head, rows), table(["", *(_device(stored[device]) for device in devices)], others)]
    return "\n\n".join(parts)


def _device(stored: dict[str, Any]) -> str:
    return "H200" if "H200" in stored["machine"] else "CPU"


def rendering_against() -> str:
    """How many times as fast the renderer is on a CPU as an earlier version."""
    rows = [
        (e["world"], e["threads"], f"{e['cpu']:.1f}", f"{e['wall']:.1f}")
        for e in benchmark("worlds")["cpu"]["against"]["worlds"]
    ]
    return table(("world", "threads", "CPU time", "wall time"), rows)


def small_batches() -> str:
    """Speed of the ray tracer on the GPU in smaller batches."""
    rows = [
        (e["objects"], e["size"], f"{e['batch']:,}", f"{e['images per second']:,.0f}")
        for e in benchmark("worlds")["cuda"]["smaller batches"]
    ]
    return table(("objects", "pixels", "batch", "images per second"), rows)


def first_images() -> str:
    """Seconds to the first image on the GPU, and its speed against that of plain torch."""
    stored = benchmark("worlds")["cuda"]
    speeds = {entry["world"]: entry for entry in stored.get("torch path", [])}
    rows = []
    for entry in stored.get("first image", []):
        speed = speeds[entry["world"]]
        seconds = (f"{entry[state]:.1f} s" for state in ("nothing compiled", "compiled before"))
        rate = (f"{speed[path]:,.0f}" for path in ("kernels", "torch"))
        rows.append((f"`{entry['world']}`", *seconds, f"{speed['batch']:,}", *rate))
    head = ("world", "first image", "compiled before", "batch", "images/s, kernels", "images/s, plain torch")
    return table(head, rows)


def training_speed() -> str:
    """Milliseconds of a training step against a plain float32 loop of the same model."""
    stored = benchmark("models")
    rows = []
    for case in stored["cases"]:
        flops = case["arithmetic TFLOP"]
        rows.append(
            (
                case["case"],
                f"{case['ms']:.3g}",
                f"{case['busy ms']:.3g}",
                f"{case['plain ms']:.3g}",
                _times(case["times faster"]),
                f"{flops:.2g}" if flops < 1 else f"{flops:.1f}",
                f"{flops / case['ms']:.2g}",
                f"{case['peak GiB']:.1f}",
            )
        )
    head = (
        "model",
        "ms per step",
        "kernels busy, ms",
        "plain loop, ms",
        "times as fast",
        "TFLOP",
        "PFLOP/s",
        "peak GiB",
    )
    return f"{machine(stored)}\n\n{table(head, rows)}"


def convolutions() -> str:
    """Speed of the convolutions of Slot Attention, plain and in pairs of columns."""
    stored = benchmark("convolutions")
    rows = [
        (entry["layer"], *(f"{entry[f'{part} PFLOP/s']:.2f}" for part in ("forward", "of maps", "of weights")))
        for entry in stored["layers"]
    ]
    head = ("layer", "forward, PFLOP/s", "gradient of maps", "gradient of weights")
    return f"{machine(stored)}\n\n{table(head, rows)}"


def study_overhead() -> str:
    """How much of a study is the harness and how much is rendering."""
    stored = benchmark("studies")
    cells = [
        (entry["workers"], f"{entry['seconds']:.1f}", f"{entry['seconds again']:.2f}")
        for entry in stored["a thousand cells"]
    ]
    rows = []
    for entry in [*stored["overhead"], *stored["with trainings"]]:
        case = entry["study"] + (f" with {', '.join(entry['models'])} trained" if "models" in entry else ", references")
        harness, rendering = entry["harness"] / entry["seconds"], entry["drawing"] / entry["seconds"]
        device = entry.get("device", "cpu").replace("cpu", "CPU")
        rows.append((case, device, entry["cells"], f"{entry['seconds']:.1f}", f"{harness:.1%}", f"{rendering:.1%}"))
    head = ("study", "device", "cells", "seconds", "harness", "rendering")
    empty = table(("processes", "seconds", "seconds when all are done already"), cells)
    return f"{machine(stored)}\n\n{empty}\n\n{table(head, rows)}"


def evaluation() -> str:
    """How long `alebrije eval` takes, on a CPU and, if that was measured, on a GPU."""
    return "\n\n".join(map(_evaluation, ("evaluation", *(name for name in ("evaluation_cuda",) if measured(name)))))


def _evaluation(name: str) -> str:
    """The table of one machine, beside an older version if that was measured in the same run."""
    stored = benchmark(name)
    network = NETWORKS[stored.get("network", "small")]
    old, new = stored.get("old"), stored["new"]
    rows = []
    for name, entry in new.items():
        stages = sorted(entry["stages"].items(), key=lambda stage: -stage[1])
        parts = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in stages if seconds >= 0.5)
        beside = [f"{old[name]['seconds']:.0f}", _times(old[name]["seconds"] / entry["seconds"])] if old else []
        rows.append((EVALUATIONS[name], *beside, f"{entry['seconds']:.0f}", parts))
    before = (f"seconds, {stored['old commit']}", "times as fast") if old else ()
    return f"{network} {machine(stored)}\n\n{table(('work', *before, 'seconds', 'time by stage'), rows)}"


def heads() -> str:
    """How long heads take to fit on a GPU; empty until it was measured."""
    if not measured("heads"):
        return ""
    stored = benchmark("heads")
    rows = [(name, *(f"{seconds:.2f}" for seconds in times)) for name, times in stored["seconds"].items()]
    settings = f"{stored['rows']:,} x {stored['neurons']} codes, {stored['epochs']} epochs; {stored['steps']:,} steps."
    head = ("heads", "seconds, kernels compiled or loaded", "seconds, again")
    return f"{settings} {machine(stored)}\n\n{table(head, rows)}"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


def thresholds() -> str:
    """All thresholds of verdicts."""
    from alebrije.report.thresholds import THRESHOLDS

    rows = [(name, f"{one.value:g}", one.decides, one.why) for name, one in THRESHOLDS.items()]
    return table(("threshold", "value", "what it decides", "why"), rows)


def untrained() -> str:
    """How often untrained networks got each verdict, by instrument and kind of network."""
    stored = json.loads((ROOT / "docs" / "evidence" / "untrained.json").read_text(encoding="utf-8"))
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for row in stored["rows"]:
        own = counts.setdefault((row["instrument"], row["model"].partition("-")[0]), {})
        own[row["verdict"]] = own.get(row["verdict"], 0) + 1
    rows = [
        (instrument, kind, "; ".join(f"{verdict}: {count}" for verdict, count in own.items()))
        for (instrument, kind), own in sorted(counts.items())
    ]
    return table(("instrument", "network", "verdicts"), rows)


def zoo() -> str:
    """Every model of the zoo: its picture, how it was trained, its scores with their intervals."""
    from alebrije import zoo
    from alebrije.instruments import instruments

    rows = []
    for card in zoo.cards():
        shown = ROOT / "docs" / "zoo" / f"{card.name}.jpg"
        picture = f"![{card.title} on {card.world}](zoo/{card.name}.jpg){{ width=160 }}" if shown.exists() else ""
        minutes = "" if card.training.minutes is None else f", {card.training.minutes:.1f} minutes"
        trained = f"{card.training.steps:,} steps{minutes}"
        scores = [
            "<br>".join(_zoo_score(one) for one in card.scores if one.instrument == name) for name in instruments()
        ]
        rows.append((f"`zoo:{card.name}`", picture, card.world, f"{card.megabytes:.1f}", trained, *scores))
    head = ("model", "picture", "learned from", "MB", "training", *instruments())
    return f'<div class="sortable" markdown>\n\n{table(head, rows)}\n\n</div>'


def _zoo_score(score: Any) -> str:
    """A score with its interval, and what it was tested on."""
    interval = "" if score.low is None else f" ({score.low:.3g} to {score.high:.3g})"
    return f"{score.metric} {score.value:.3g}{interval}<br><small>{score.tested_on}, {score.size}</small>"


def zoo_references() -> str:
    """The scores of the references at the sizes that the zoo was examined at."""
    from alebrije import zoo
    from alebrije.instruments import instruments
    from alebrije.report.findings import read_findings
    from alebrije.report.sections import mean_known
    from alebrije.studies.folder import ResultFolder
    from alebrije.studies.references import REFERENCES

    findings = read_findings(ResultFolder(zoo.RESULTS), published=False).all
    rows = []
    for size in dict.fromkeys(finding.get("size") for finding in findings):
        for name in REFERENCES:
            cells = []
            for each in instruments().values():
                own = [f for f in findings if (f.study, f.get("model"), f.get("size")) == (each.name, name, size)]
                found = mean_known(each.decisive(own), each.score)
                interval = "" if found is None or not found.interval else f" ({found.interval})"
                cells.append("" if found is None else f"{each.score} {found.value:.3g}{interval}")
            if any(cells):
                rows.append((name, size, *cells))
    return f'<div class="sortable" markdown>\n\n{table(("reference", "size", *instruments()), rows)}\n\n</div>'


TABLES: dict[str, Callable[[], str]] = {
    "metrics": metrics,
    "worlds": worlds,
    "models": models,
    "presets": presets,
    "metric speed": metric_speed,
    "metric seconds": metric_seconds,
    "world speed": world_speed,
    "rendering against": rendering_against,
    "small batches": small_batches,
    "first images": first_images,
    "training speed": training_speed,
    "convolutions": convolutions,
    "study overhead": study_overhead,
    "evaluation": evaluation,
    "heads": heads,
    "thresholds": thresholds,
    "untrained": untrained,
    "zoo": zoo,
    "zoo references": zoo_references,
}


def filled(markdown: str) -> str:
    """A page with its tables, and with links to the pages made from root documents instead of to these documents."""
    for page, document in ROOT_PAGES.items():
        markdown = markdown.replace(f"](../{document}", f"]({page}")
    return MARK.sub(lambda mark: TABLES[mark["name"]](), markdown)


# --- Pages that are made from elsewhere ---


def root_page(name: str) -> str:
    """README, CONTRIBUTING or CHANGELOG as a page of the site: links point to pages instead of files."""
    text = (ROOT / ROOT_PAGES[name]).read_text(encoding="utf-8")
    for page, document in ROOT_PAGES.items():
        text = text.replace(f"]({document})", f"]({page})")
    return text.replace("](docs/", "](")


def rooms() -> list[str]:
    """The rooms in the order of CONTRIBUTING.md, as far as they exist."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = [match["name"] for match in ROOM.finditer(text)]
    return [name for name in names if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()]


def source_of(room: str) -> Path:
    """The file with the docstring of a room."""
    package = PACKAGE / room / "__init__.py"
    return package if package.is_file() else PACKAGE / f"{room}.py"


def api_pages() -> Iterator[tuple[str, str]]:
    """The path and the text of each page of the API reference: an overview, and one page for each room."""
    rows = []
    for room in rooms():
        tree = ast.parse(source_of(room).read_text(encoding="utf-8"))
        summary = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
        rows.append((f"[`alebrije.{room}`]({room}.md)", summary))
        listed = any(isinstance(node, ast.Assign) and "__all__" in ast.unparse(node.targets[0]) for node in tree.body)
        options = (
            "" if listed or source_of(room).name != "__init__.py" else "    options:\n      show_submodules: true\n"
        )
        yield f"api/{room}.md", f"# alebrije.{room}\n\n::: alebrije.{room}\n{options}"
    intro = (
        "# API reference\n\nEach folder of `src/alebrije` is a *room*. Data flows down this list: a room imports only "
        "from rooms above it. Names documented here are public. Functions take NumPy arrays or torch tensors and "
        "return the same kind.\n\n"
    )
    yield "api/index.md", intro + table(("room", "contents"), rows)


# --- Hooks of MkDocs ---


def on_config(config: Any) -> Any:
    """Put the pages of the API reference where the navigation says `API reference`."""
    pages = ["api/index.md", *({room: f"api/{room}.md"} for room in rooms())]
    config.nav = [
        {"API reference": pages} if item == {"API reference": "api/index.md"} else item for item in config.nav
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made from the root documents and from docstrings."""
    from mkdocs.structure.files import File

    made = [*((page, root_page(page)) for page in ROOT_PAGES), *api_pages()]
    for path, text in made:
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the tables of a page."""
    return filled(markdown)


if __name__ == "__main__":
    print(TABLES[" ".join(sys.argv[1:])]())
