"""The report: one page that needs nothing but itself, and its figures as files for documents."""

from __future__ import annotations

import base64
import hashlib
import textwrap
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from alebrije import __version__
from alebrije.atomic import disk_trouble_named, write_atomically
from alebrije.report.charts import as_inline_svg, as_pdf, as_svg_file, laid_out
from alebrije.report.findings import Findings, read_findings
from alebrije.report.parts import Chart, Gallery, Section, short
from alebrije.report.sections import INSTRUMENTS, sections_of
from alebrije.report.words import CHANCE_RULE, NO_BREAK, RULES, SIGNS, Verdict, listed
from alebrije.results import Result
from alebrije.results.rendering import visible
from alebrije.studies.folder import Folder, opened
from alebrije.studies.subjects import REFERENCES

_MOST_FAILURES = 200  # that are listed one by one


@dataclass(frozen=True)
class Failure:
    """A cell that failed, what it was, and why."""

    cell: str
    line: str
    traceback: str


@dataclass(frozen=True)
class Head:
    """What is to be known of the whole page."""

    title: str
    facts: tuple[tuple[str, str], ...]
    failures: tuple[Failure, ...]
    failed: int
    damaged: tuple[str, ...]


@dataclass(frozen=True)
class Judged:
    """A model, and what each instrument says of it."""

    name: str
    reference: str
    verdicts: tuple[tuple[str, str, Verdict], ...]  # the instrument, its anchor, its verdict


_ABOUT = {
    "oracle": "reference: the true factors and masks",
    "projection": "reference: a random projection of the true factors",
    "pixels": "reference: the image itself",
    "noise": "reference: numbers that have nothing to do with the image",
}


def write_report(folder: Folder | str | Path, out: str | Path, *, published: bool = True) -> Path:
    """Writes the report of a study's folder as one HTML file and returns its path.

    `published` sets the papers' numbers beside ours. What is damaged or failed in the folder is said on the page.
    """
    source = folder if isinstance(folder, Folder) else opened(folder)
    findings = read_findings(source, published=published)
    path = Path(out)
    text = page_html(findings)
    with disk_trouble_named(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    return path


def verdicts(folder: Folder | str | Path, keys: Container[str] | None = None) -> dict[str, dict[str, Verdict]]:
    """What the instruments say of each model in a folder: by the name of the model, then by that of the instrument.

    With `keys` only the results of these cells count.
    """
    findings = read_findings(folder if isinstance(folder, Folder) else opened(folder), published=False, keys=keys)
    return {
        one.name: {study: verdict for _, study, verdict in one.verdicts}
        for one in _judged(findings, sections_of(findings))
    }


def in_words(judged: Mapping[str, Mapping[str, Verdict]]) -> str:
    """Verdicts as text for a terminal."""
    lines = []
    for name, found in judged.items():
        lines += ["", visible(name)]
        for study, verdict in found.items():
            head = f"  {study:<12} {verdict.sign} {verdict.word:<13} "
            text = textwrap.fill(verdict.unbroken, 118, initial_indent=head, subsequent_indent=" " * len(head))
            lines.append(text.replace(NO_BREAK, " "))
    return "\n".join(lines).strip("\n")


def write_figures(folder: Folder | str | Path, out: str | Path, *, published: bool = True) -> list[Path]:
    """Writes every figure of the report as an SVG and as a PDF into a folder and returns their paths."""
    source = folder if isinstance(folder, Folder) else opened(folder)
    place = Path(out)
    written = []
    with disk_trouble_named(place):
        place.mkdir(parents=True, exist_ok=True)
        for name, drawn in figures_of(sections_of(read_findings(source, published=published))).items():
            figure = laid_out(drawn.figure())
            for ending, content in ((".svg", as_svg_file(figure)), (".pdf", as_pdf(figure))):
                write_atomically(place / f"{name}{ending}", content)
                written.append(place / f"{name}{ending}")
    return written


def figures_of(sections: Sequence[Section]) -> dict[str, Chart | Gallery]:
    """Every figure under a name of its own."""
    named: dict[str, Chart | Gallery] = {}
    for section in sections:
        drawings: list[Chart | Gallery] = [*section.charts, *section.galleries]
        for drawn in drawings:
            name, number = drawn.name, 2
            while name in named:
                name, number = f"{drawn.name}-{number}", number + 1
            named[name] = drawn
    return named


def page_html(findings: Findings) -> str:
    """The page. Everything in it that comes from results is escaped; nothing in it is fetched."""
    sections = sections_of(findings)
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
        judged=_judged(findings, sections),
        instruments=[(section.name, section.title) for section in sections if section.name in INSTRUMENTS],
        sections=sections,
        rules=[(section.title, RULES[section.name]) for section in sections if section.name in RULES],
        chance_rule=CHANCE_RULE,
        signs=SIGNS,
        svg=_Drawn(),
        short=short,
    )


class _Drawn:
    """Draws charts for the page and numbers them; what users named is escaped by matplotlib."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, chart: Chart) -> Markup:
        self.count += 1
        return Markup(as_inline_svg(chart.figure(), f"f{self.count}"))


def _source(environment: Environment, name: str) -> str:
    """A file beside the template, as it is, with the line ends that a browser counts in a hash."""
    assert environment.loader is not None
    text = environment.loader.get_source(environment, name)[0]
    return text.replace("\r\n", "\n")


def _head(findings: Findings) -> Head:
    models = [name for name in findings.subjects if name not in REFERENCES] or list(findings.subjects)
    told = [short(name, 40) for name in models[:3]]
    names = listed([*told, f"{len(models) - 3} more"] if len(models) > 3 else told)
    facts = [
        ("examined", ", ".join(short(name, 60) for name in findings.subjects) or "nothing"),
        ("instruments", ", ".join(findings.studies) or "none"),
        ("cells", _cells(findings)),
        *_when(findings),
        *_machines(findings),
        ("folder", str(findings.folder.path)),
    ]
    if findings.older:
        facts.append(("left out", f"{findings.older:,} earlier results with the labels of later ones"))
    failures = tuple(_failure(result) for result in findings.failed[:_MOST_FAILURES])
    return Head(
        title=f"Do the parts of {names} recombine?" if names else "Do their parts recombine?",
        facts=tuple(facts),
        failures=failures,
        failed=len(findings.failed),
        damaged=tuple(visible(str(problem)) for problem in findings.problems),
    )


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
    told = [
        f"{one.device}, {one.platform}, Python {one.python}, torch {one.torch or 'unknown'}"
        for one in list(machines)[:4]
    ]
    told += [f"and {len(machines) - 4} more"] if len(machines) > 4 else []
    versions = dict.fromkeys(result.library_version for result in everything)
    return [("machine", "; ".join(told)), ("alebrije", ", ".join(versions))] if told else []


def _failure(result: Result) -> Failure:
    text = (result.traceback or "").strip()
    lines = text.splitlines() or [""]
    return Failure(visible(str(result.cell)), visible(lines[-1]), text)


def _judged(findings: Findings, sections: Sequence[Section]) -> list[Judged]:
    """Every model with its verdicts; references after models."""
    by_section = {section.name: dict(section.verdicts) for section in sections if section.name in INSTRUMENTS}
    titles = {section.name: section.title for section in sections}
    return [
        Judged(
            name,
            _ABOUT.get(name, ""),
            tuple((titles[study], study, verdicts[name]) for study, verdicts in by_section.items() if name in verdicts),
        )
        for name in findings.subjects
    ]
