"""One call from a model to an answer."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from alebrije import adapters
from alebrije.adapters import Adapted
from alebrije.errors import InputError
from alebrije.models.catalog import suggestion
from alebrije.report.words import Verdict
from alebrije.results import Result, Table, Value, table
from alebrije.studies.cells import Progress, Tally
from alebrije.studies.folder import Folder
from alebrije.studies.protocol import SIZES, STUDY_NAMES, Ask, Size, planned, run_study, studies
from alebrije.studies.subjects import REFERENCES, Model, Subject, reference

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
        """A row for each value."""
        return table(self.results, query)

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
            there = {name for result in self.results for name in result.values}
            raise InputError(f"there is no value {metric!r} with these labels{suggestion(metric, sorted(there))}")
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
        columns = [name for name in shown.columns if name != "key" and any(row.get(name) for row in shown.rows)]
        if len(shown) > _MOST_ROWS:
            lines.append(f"{len(shown)} values; `alebrije results {shlex.quote(str(self.folder.path))}` prints them")
        elif len(shown):
            lines.append(Table(tuple(columns), shown.rows).render("text").rstrip())
        lines += [f"failed: {result.cell}: {_last_line(result)}" for result in self.results if result.traceback]
        return "\n".join(lines)


def evaluate(
    encoder: str | Callable[..., Any],
    tests: str | Sequence[str] = STUDY_NAMES,
    size: Size = "small",
    *,
    out: str | Path | None = None,
    beside: Sequence[str] = (),
    device: str | torch.device | None = None,
    pixels: int | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    batch: int = 64,
    layer: str | None = None,
    name: str | None = None,
    worlds: Sequence[str] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Examine a model: any callable from images [B, 3, H, W] in 0..1 to codes, or a spec as in `adapters.load`.

    `tests` are instruments (analogy, imagination, grouping, neurons), or names of metrics such as "coat", "snc" and
    "fg-ari". `size` is how much is done: tiny takes seconds on a CPU and small minutes; only paper is what was
    published. `beside` are references to examine as well: pixels, oracle, projection, noise. `pixels`, `mean` and `std`
    say how images are prepared. Results go to `out` if it is given; the same call computes only what is missing there.

    >>> from alebrije import evaluate
    >>> quarters = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
    >>> report = evaluate(quarters, tests="snc", size="tiny", name="mean colours of quarters")
    >>> 0 < report.score("snc", world="rooms") < 0.5
    True
    """
    if size not in SIZES:
        raise InputError(f"size must be one of {', '.join(SIZES)}, not {size!r}")
    wanted = chosen((tests,) if isinstance(tests, str) else tests)
    subject: Subject
    if isinstance(encoder, str) and encoder in REFERENCES:
        subject = reference(encoder)
    elif isinstance(encoder, Adapted):
        subject = Model(encoder, name or "")
    else:
        loaded = adapters.load(
            encoder, device=device, size=pixels, mean=mean, std=std, batch=batch, layer=layer, name=name
        )
        prepared = {"layer": layer, "input_size": pixels}
        subject = Model(loaded, more={name: value for name, value in prepared.items() if value is not None})
    place = subject.adapted.device if isinstance(subject, Model) else torch.device(device or "cpu")
    subjects = [subject, *(reference(each) for each in beside if each != encoder)]
    temporary = tempfile.TemporaryDirectory(prefix="alebrije-") if out is None else None
    folder = Folder(temporary.name if temporary is not None else Path(out or ".")).ready()
    common = Ask(size=size, subjects=tuple(subjects), worlds=tuple(worlds), device=str(place), only_subjects=True)
    asks = {name: replace(common, metrics=metrics) for name, metrics in wanted.items()}
    known = studies()
    # all are planned before any is run, so that what cannot work is refused at once
    keys = {job.cell.key for name, ask in asks.items() for job in planned(known[name], folder, ask)}
    tally = Tally()
    for name, ask in asks.items():
        tally += run_study(known[name], folder, ask, workers=workers, progress=progress)
    return Report(str(subject.labels["model"]), folder, frozenset(keys), tally, temporary)


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
            raise InputError(f"there is no test {test!r}{suggestion(test, [*known, *names])}")
    return {study: tuple(metrics or ()) for study, metrics in found.items()}


def _last_line(result: Result) -> str:
    return (result.traceback or "").strip().rpartition("\n")[2]
