"""One call from a model to an answer."""

from __future__ import annotations

import difflib
import logging
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from alebrije import adapters
from alebrije.adapters import Adapted
from alebrije.errors import InputError
from alebrije.metrics.record import catalog
from alebrije.models.catalog import suggestion
from alebrije.named import nearest
from alebrije.report.words import Verdict
from alebrije.results import Result, Table, Value, folded, table
from alebrije.studies.cells import Job, Progress, Tally
from alebrije.studies.folder import Folder
from alebrije.studies.protocol import SIZES, STUDY_NAMES, Ask, Size, planned, run_study, studies
from alebrije.studies.subjects import REFERENCES, Model, Subject, reference

_LOG = logging.getLogger("alebrije")
_MOST_ROWS = 40  # of a table that is printed without being asked for


@dataclass(frozen=True)
class Report:
    """What was found about a model, and what is stored beside it in the same folder.

    `results` are of the cells that were asked for; `score` finds one number among them; `save` writes the page.
    """

    model: str
    folder: Folder
    keys: frozenset[str]
    tally: Tally
    _temporary: Any = field(default=None, repr=False)  # a folder that lives as long as the report

    @property
    def results(self) -> list[Result]:
        """The results of the cells that were asked for, done and failed."""
        return [result for result in self.folder.store.all() if result.key in self.keys]

    def table(self, query: str | None = None) -> Table:
        """A row for each value; a query that names what no row has is refused."""
        whole = table(self.results)
        found = whole.where(query or "")
        if query and not len(found) and (unmet := whole.unmet(query)):
            raise InputError(unmet[0])
        return found

    def value(self, metric: str, **labels: Any) -> Value:
        """The one value of a metric with these labels, such as ``report.value("coat", corpus="occluded")``.

        It is of the model that was examined, unless `model` names a reference beside it.
        """
        found = [
            (result.cell, value)
            for result in self.results
            for name, value in result.values.items()
            if name.lower() == metric.lower()
            and all(result.cell.labels.get(label) == wanted for label, wanted in labels.items())
        ]
        own = [(cell, value) for cell, value in found if cell.labels.get("model") == self.model]
        if "model" not in labels and own:
            found = own  # and not the references beside it
        if not found:
            raise InputError(_nothing_found(self.results, metric, labels))
        if len(found) > 1:
            told = "; ".join(str(cell) for cell, _ in found[:4])
            raise InputError(f"{len(found)} values are called {metric!r}: name labels that choose one ({told})")
        return found[0][1]

    def score(self, metric: str, **labels: Any) -> float | None:
        """The score of the one value of a metric with these labels; None where it could not be found."""
        return self.value(metric, **labels).score

    def save(self, path: str | Path, *, published: bool = True) -> Path:
        """Writes the page, one HTML file with everything in it."""
        from alebrije.report.page import write_report

        return write_report(self.folder, Path(path), published=published)

    @property
    def verdicts(self) -> dict[str, dict[str, Verdict]]:
        """What the instruments say of the model and of the references beside it, in words."""
        from alebrije.report.page import verdicts

        return verdicts(self.folder, self.keys)

    def __repr__(self) -> str:
        return f"<Report on {self.model} in {self.folder.path}: {self.tally}>"

    def __str__(self) -> str:
        from alebrije.report.page import in_words

        lines = [in_words(self.verdicts), ""]
        shown = self.table()
        if len(shown) > _MOST_ROWS:
            lines.append(f"{len(shown)} values; `alebrije results {shlex.quote(str(self.folder.path))}` prints them")
        elif len(shown):
            lines.append(folded(shown).rstrip())
        lines += [f"failed: {result.cell}: {result.fault}" for result in self.results if result.traceback]
        return "\n".join(lines)


def _nothing_found(results: Sequence[Result], metric: str, labels: Mapping[str, Any]) -> str:
    """A sentence about a value that is not among the results: what of it is, and what is nearest."""
    names = sorted({name for result in results for name in result.values})
    if not names:
        return f"there is no value {metric!r}, nor any other: {len(results)} cells failed"
    if metric in STUDY_NAMES:
        own = sorted({name for result in results if result.cell.study == metric for name in result.values})
        return f"{metric!r} is an instrument, not a value; its values here are {', '.join(own) or 'none'}"
    having = [one.cell for one in results if metric.lower() in {name.lower() for name in one.values}]
    if not having:
        return f"there is no value {metric!r}{_not_asked(results, metric) or _instead(metric, names)}"
    for label, wanted in labels.items():
        known = list(dict.fromkeys(name for cell in having for name in cell.labels))
        if label not in known:
            return f"{metric!r} has no label {label!r}{_instead(label, known)}"
        there = list(dict.fromkeys(cell.labels[label] for cell in having if cell.labels.get(label) is not None))
        if wanted not in there:
            return f"there is no {metric!r} with {label}={wanted!r}{_instead(str(wanted), list(map(str, there)))}"
    told = "; ".join(str(cell) for cell in having[:4])
    asked = " ".join(f"{label}={wanted}" for label, wanted in labels.items())
    return f"{metric!r} was found, but not with {asked} together; it was for {told}"


def _not_asked(results: Sequence[Result], metric: str) -> str:
    """The end of a sentence about the name of a metric that no result has; empty where it is no such name."""
    for study in studies().values():
        if metric.lower() in {name.lower() for name in study.metrics}:
            failed = any(result.cell.study == study.name and result.traceback for result in results)
            why = "was not among the tests, or its cell failed" if failed else "was not among the tests"
            return f" here: it belongs to {study.name}, and {why}"
    return ""


def _instead(wrong: str, known: list[str]) -> str:
    """The end of a sentence about a wrong name: the nearest, or all."""
    return nearest(wrong, known) or f"; there are {', '.join(known)}"


def evaluate(
    encoder: str | Callable[..., Any],
    tests: str | Sequence[str] = STUDY_NAMES,
    size: Size = "small",
    *,
    out: str | Path | None = None,
    beside: str | Sequence[str] = (),
    device: str | torch.device | None = None,
    pixels: int | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    batch: int = 64,
    layer: str | None = None,
    name: str | None = None,
    worlds: str | Sequence[str] = (),
    rules: str | Sequence[str] = (),
    alphas: Sequence[float] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Examine a model: any callable from images [B, 3, H, W] in 0..1 to codes, or a spec as in `adapters.load`.

    `tests` are instruments (analogy, imagination, grouping, neurons), or names of metrics such as "coat", "snc" and
    "fg-ari". `size` is how much is done: tiny takes seconds on a CPU and small minutes; only paper is what was
    published. `worlds` are those to look at; for imagination `rules` are such as S-A, and `alphas` the parts of the
    non-core combinations that training shows. `beside` are references to examine as well: pixels, oracle, projection,
    noise. `pixels`, `mean` and `std` say how images are prepared. Results go to `out` if it is given; the same call
    computes only what is missing there. A model whose scores would mean nothing is refused before any is computed
    (`adapters.look_before`).

    >>> from alebrije import evaluate
    >>> quarters = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
    >>> report = evaluate(quarters, tests="snc", size="tiny", name="mean colours of quarters")
    >>> 0 < report.score("snc", world="rooms") < 0.5
    True
    """
    if size not in SIZES:
        raise InputError(f"size must be one of {', '.join(SIZES)}, not {size!r}")
    if out is not None and not str(out).strip():
        raise InputError("out must be the name of a folder, and is empty")
    wanted = chosen(_several(tests))
    prepared = {"pixels": pixels, "mean": mean, "std": std, "layer": layer, "device": device}
    subject = _examined(encoder, name, batch, prepared)
    place = subject.adapted.device if isinstance(subject, Model) else torch.device(device or "cpu")
    subjects = [subject, *(reference(each) for each in _several(beside) if each != encoder)]
    temporary = tempfile.TemporaryDirectory(prefix="alebrije-") if out is None else None
    folder = Folder(temporary.name if temporary is not None else Path(out or "."))
    common = Ask(size=size, subjects=tuple(subjects), worlds=_several(worlds), device=str(place), only_subjects=True)
    known = studies()
    asks = _asks(common, wanted, _several(rules), tuple(alphas))
    # all are planned before any is run, so that what cannot work is refused at once
    jobs = [job for name, ask in asks.items() for job in planned(known[name], folder, ask)]
    cells = [job.cell for job in jobs]
    if isinstance(subject, Model):
        missing = {cell.key for cell in folder.store.missing(cells)}
        _look_before(subject, [job for job in jobs if job.cell.key in missing])
    folder.ready()
    tally = Tally()
    for name, ask in asks.items():
        tally += run_study(known[name], folder, ask, workers=workers, progress=progress, looked=True)
    keys = frozenset(cell.key for cell in cells)
    return Report(str(subject.labels["model"]), folder, keys, tally, temporary)


def _examined(encoder: str | Callable[..., Any], name: str | None, batch: int, prepared: Mapping[str, Any]) -> Subject:
    """Who is examined: a reference by its name, a model that is adapted already, or one that is adapted here."""
    if isinstance(encoder, str) and encoder in REFERENCES:
        return reference(encoder)
    if isinstance(encoder, str) and ":" not in encoder and (near := difflib.get_close_matches(encoder, REFERENCES)):
        raise InputError(f"{encoder!r} names no model; did you mean the reference {near[0]!r}?")
    given = {word: value for word, value in prepared.items() if value is not None}
    if isinstance(encoder, Adapted):
        if given:
            raise InputError(f"{encoder.name} is adapted already: give {', '.join(given)} where it is adapted")
        return Model(encoder, name or "")
    size, labels = given.pop("pixels", None), {"layer": given.get("layer"), "input_size": prepared["pixels"]}
    loaded = adapters.load(encoder, size=size, batch=batch, name=name, **given)
    return Model(loaded, more={label: value for label, value in labels.items() if value is not None})


def _asks(
    common: Ask, wanted: Mapping[str, tuple[str, ...]], rules: tuple[str, ...], alphas: tuple[float, ...]
) -> dict[str, Ask]:
    """What is asked of each study."""
    asks = {name: replace(common, metrics=metrics) for name, metrics in wanted.items()}
    if rules or alphas:
        readers = [name for name in wanted if studies()[name].reads]
        if not readers:
            raise InputError(f"rules and alphas are for imagination, which is not among the tests {', '.join(wanted)}")
        asks |= {name: replace(asks[name], rules=rules, alphas=alphas) for name in readers}
    return asks


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    """One name, or several, as several."""
    return (names,) if isinstance(names, str) else tuple(names)


def _look_before(subject: Model, missing: Sequence[Job]) -> None:
    """Refuses a model whose scores would mean nothing, before any of its cells is computed."""
    own = [job for job in missing if job.cell.labels.get("model") == subject.labels["model"]]
    for sentence in adapters.look_before(subject.adapted, own[0].pixels) if own else ():
        _LOG.warning("%s", sentence)


def chosen(tests: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The studies that tests belong to, and of each the metrics that are wanted; none means all.

    >>> chosen(["coat", "neurons", "snc", "fg-ari"])
    {'analogy': ('coat',), 'neurons': (), 'grouping': ('fg-ari',)}
    """
    if not tests:
        raise InputError("there is no test to do; name instruments or metrics")
    known = studies()
    names = {metric.lower(): study.name for study in known.values() for metric in study.metrics}
    found: dict[str, list[str] | None] = {}
    for test in tests:
        if test in known:
            found[test] = None
        elif test.lower() in names:
            listed = found.setdefault(names[test.lower()], [])
            if listed is not None:
                listed.append(test)
        else:
            if test.lower() in map(str.lower, catalog()):
                raise InputError(f"{test!r} is no part of a test; `alebrije score` computes it of your own arrays")
            raise InputError(f"there is no test {test!r}{suggestion(test, [*known, *names])}")
    return {study: tuple(metrics or ()) for study, metrics in found.items()}
