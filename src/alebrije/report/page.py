"""The report page: one HTML file that needs nothing but itself, and its figures as files for documents."""

from __future__ import annotations

import base64
import hashlib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from alebrije import __version__
from alebrije.atomic import explain_write_errors, write_atomically
from alebrije.report.charts import as_inline_svg, as_pdf, as_svg_file, laid_out
from alebrije.report.findings import Findings
from alebrije.report.opening import Opening
from alebrije.report.parts import Chart, Gallery, Section, short
from alebrije.report.verdict import CHANCE_RULE, NO_BREAK, SIGNS, Verdict, listed
from alebrije.report.yardsticks import YARDSTICK_RULE
from alebrije.results import Result, ResultTable
from alebrije.results.formats import visible
from alebrije.studies.references import ALL_REFERENCES

_UNKNOWN = "training data unknown to alebrije"
_INDENT = " " * 17  # of the text of a verdict in a terminal
_MOST_FAILURES = 200  # listed one by one
_TRY_OUT = "The size tiny is a try-out: it shows that everything runs, and its scores are rough."


@dataclass(frozen=True)
class Failure:
    """A failed cell and its error."""

    cell: str
    line: str
    traceback: str


@dataclass(frozen=True)
class Head:
    """The header of the page."""

    title: str
    facts: tuple[tuple[str, str], ...]
    failures: tuple[Failure, ...]
    failed: int
    damaged: tuple[str, ...]
    scope: str  # sizes and worlds, in a sentence


@dataclass(frozen=True)
class Judged:
    """A model and its verdicts."""

    name: str
    about: str  # what a reference is, or what the model was trained on
    verdicts: tuple[JudgedBy, ...]


@dataclass(frozen=True)
class JudgedBy:
    """The verdict of one instrument on a model, and the worlds or corpora it was tested on."""

    title: str
    study: str
    verdict: Verdict
    tested_on: str


def write_page(
    findings: Findings, sections: Sequence[Section], out: str | Path, openings: Sequence[Opening] = ()
) -> Path:
    """Write the report as one HTML file and return its path. It begins with the openings, if there are any."""
    path = Path(out)
    text = page_html(findings, sections, openings)
    with explain_write_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    return path


def in_words(findings: Findings, verdicts: Mapping[str, Mapping[str, Verdict]]) -> str:
    """Verdicts by model and instrument, and what each model was trained on, as text for a terminal."""
    lines = []
    for model, by_study in verdicts.items():
        lines += ["", f"{visible(model)} ({visible(_about(findings, model))})"]
        for study, verdict in by_study.items():
            lines.append(f"  {study:<12} {verdict.sign} {verdict.word}")
            text = textwrap.fill(verdict.unbroken, 118, initial_indent=_INDENT, subsequent_indent=_INDENT)
            lines.append(text.replace(NO_BREAK, " "))
    return "\n".join(lines).strip("\n")


def as_notebook_html(findings: Findings, verdicts: Mapping[str, Mapping[str, Verdict]], scores: ResultTable) -> str:
    """The verdicts and the scores behind them for a notebook, without styles or scripts. Names are escaped."""
    parts = [f"<p>{escape(scope(findings))}</p>", scores._repr_html_()]
    for model, by_study in verdicts.items():
        parts.append(f"<p><b>{escape(visible(model))}</b> ({escape(visible(_about(findings, model)))})</p>")
        parts += [
            f"<p>{escape(study)}: {escape(verdict.sign)} <b>{escape(verdict.word)}</b>. {escape(verdict.text)}</p>"
            for study, verdict in by_study.items()
        ]
    return "".join(parts)


def write_figure_files(sections: Sequence[Section], out: str | Path) -> list[Path]:
    """Write every figure of the report as SVG and PDF into a folder and return their paths."""
    folder = Path(out)
    written = []
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, drawing in figures_of(sections).items():
            figure = laid_out(drawing.figure())
            for ending, content in ((".svg", as_svg_file(figure)), (".pdf", as_pdf(figure))):
                write_atomically(folder / f"{name}{ending}", content)
                written.append(folder / f"{name}{ending}")
    return written


def figures_of(sections: Sequence[Section]) -> dict[str, Chart | Gallery]:
    """Every figure under a unique name."""
    named: dict[str, Chart | Gallery] = {}
    for section in sections:
        drawings: list[Chart | Gallery] = [*section.charts, *section.galleries]
        for drawing in drawings:
            name, number = drawing.name, 2
            while name in named:
                name, number = f"{drawing.name}-{number}", number + 1
            named[name] = drawing
    return named


def page_html(findings: Findings, sections: Sequence[Section], openings: Sequence[Opening] = ()) -> str:
    """The page as HTML. Everything from results is escaped; nothing is fetched."""
    environment = Environment(
        loader=PackageLoader("alebrije.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (_source(environment, name) for name in ("report.css", "report.js"))
    return environment.get_template("report.html").render(
        version=__version__,
        style=Markup(style),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        head=_head(findings),
        openings=openings,
        judged=judged(findings, sections),
        instruments=[(section.name, section.title) for section in sections if section.verdicts],
        sections=sections,
        rules=[(section.title, section.rule) for section in sections if section.rule],
        shared_rules=(CHANCE_RULE, YARDSTICK_RULE),
        signs=SIGNS,
        svg=_InlineSvg(),
        short=short,
    )


class _InlineSvg:
    """Draws charts for the page with unique ids; matplotlib escapes names that users chose."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, chart: Chart) -> Markup:
        self.count += 1
        return Markup(as_inline_svg(chart.figure(), f"f{self.count}"))


def _source(environment: Environment, name: str) -> str:
    """A file beside the template, with the line ends that a browser hashes."""
    assert environment.loader is not None
    text = environment.loader.get_source(environment, name)[0]
    return text.replace("\r\n", "\n")


def _head(findings: Findings) -> Head:
    models = [name for name in findings.models if name not in ALL_REFERENCES] or list(findings.models)
    shown = [short(name, 40) for name in models[:3]]
    names = listed([*shown, f"{len(models) - 3} more"] if len(models) > 3 else shown)
    sizes, worlds = findings.label_values("size"), findings.label_values("world")
    facts = [
        ("models", ", ".join(short(name, 60) for name in findings.models) or "none"),
        ("instruments", ", ".join(findings.studies) or "none"),
        *([("size", ", ".join(sizes))] if sizes else []),
        *([("worlds", ", ".join(short(world, 40) for world in worlds))] if worlds else []),
        ("cells", _cells(findings)),
        *_when(findings),
        *_machines(findings),
        ("folder", str(findings.folder.path)),
    ]
    if findings.older:
        facts.append(
            ("skipped", f"{findings.older:,} older results with the same labels but different weights or settings")
        )
    failures = tuple(_failure(result) for result in findings.failed[:_MOST_FAILURES])
    return Head(
        title=f"Do the parts of {names} recombine?" if names else "Do their parts recombine?",
        facts=tuple(facts),
        failures=failures,
        failed=len(findings.failed),
        damaged=tuple(visible(str(problem)) for problem in findings.problems),
        scope=scope(findings),
    )


def scope(findings: Findings) -> str:
    """Sizes, worlds and corpora, in a sentence."""
    sizes, worlds, corpora = (findings.label_values(label) for label in ("size", "world", "corpus"))
    parts = [f"size {listed(sizes)}"] if sizes else []
    parts += [f"scenes of COAT {listed(corpora)}"] if corpora else []
    parts += [f"worlds {listed([short(world, 40) for world in worlds])}"] if worlds else []
    text = f"Computed at {', '.join(parts)}." if parts else ""
    return f"{text} {_TRY_OUT}" if sizes == ["tiny"] else text


def _cells(findings: Findings) -> str:
    text = f"{len(findings.results):,} done"
    text += f", {len(findings.failed):,} failed" if findings.failed else ""
    return text + (f", {len(findings.problems):,} damaged files" if findings.problems else "")


def _when(findings: Findings) -> list[tuple[str, str]]:
    if findings.times is None:
        return []
    first, last = (time.strftime("%Y-%m-%d %H:%M") for time in findings.times)
    seconds = sum(result.seconds for result in (*findings.results, *findings.failed))
    when = f"{first} UTC" if first == last else f"{first} to {last} UTC"
    return [("computed", f"{when}, {_duration(seconds)} of work")]


def _duration(seconds: float) -> str:
    for unit, length in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def _machines(findings: Findings) -> list[tuple[str, str]]:
    everything = (*findings.results, *findings.failed)
    machines = dict.fromkeys(result.machine for result in everything)
    shown = [
        f"{one.device}, {one.platform}, Python {one.python}, torch {one.torch or 'unknown'}"
        for one in list(machines)[:4]
    ]
    shown += [f"and {len(machines) - 4} more"] if len(machines) > 4 else []
    versions = dict.fromkeys(result.library_version for result in everything)
    return [("machine", "; ".join(shown)), ("alebrije", ", ".join(versions))] if shown else []


def _failure(result: Result) -> Failure:
    text = (result.traceback or "").strip()
    lines = text.splitlines() or [""]
    return Failure(visible(str(result.cell)), visible(lines[-1]), text)


def judged(findings: Findings, sections: Sequence[Section]) -> list[Judged]:
    """Every model with its verdicts, references last."""
    by_section = [(section, dict(section.verdicts)) for section in sections if section.verdicts]
    return [
        Judged(
            name,
            _about(findings, name),
            tuple(
                JudgedBy(section.title, section.name, verdicts[name], _tested_on(findings, section.name, name))
                for section, verdicts in by_section
                if name in verdicts
            ),
        )
        for name in findings.models
    ]


def _about(findings: Findings, model: str) -> str:
    """What a reference is, or what a model was trained on."""
    own = [finding for finding in findings.all if finding.model == model]
    if str(own[0].get("model") if own else model) in ALL_REFERENCES:
        return f"reference: {ALL_REFERENCES[str(own[0].get('model') if own else model)]}"
    if own and own[0].is_file:
        return "arrays in a file"
    trained = list(dict.fromkeys(finding.trained_on for finding in own if finding.trained_on))
    return f"trained on {listed(trained[:3])}{' and others' if len(trained) > 3 else ''}" if trained else _UNKNOWN


def _tested_on(findings: Findings, study: str, model: str) -> str:
    worlds, corpora = (findings.label_values(label, study, model) for label in ("world", "corpus"))
    noun = "corpus" if len(corpora) == 1 else "corpora"
    return ", ".join([*(short(world, 40) for world in worlds), *([f"the {noun} {listed(corpora)}"] if corpora else [])])
