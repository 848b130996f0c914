"""One call from a model to an answer."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from alebrije.errors import InputError
from alebrije.instruments import NAMES
from alebrije.suggest import closest, did_you_mean

if TYPE_CHECKING:  # loaded when something is evaluated, so that `import alebrije` is instant
    import torch
    from matplotlib.figure import Figure

    from alebrije.instruments.scored_files import ScoredFiles
    from alebrije.report.findings import Findings
    from alebrije.report.verdict import Verdict
    from alebrije.results import Result, ResultTable, Value
    from alebrije.studies.folder import ResultFolder
    from alebrije.studies.jobs import Progress, RunSummary
    from alebrije.studies.model import Model
    from alebrije.studies.request import Request
    from alebrije.studies.stages import Activity

_MOST_ROWS = 40  # of a table that is printed unasked


@dataclass(frozen=True)
class Report:
    """What was found about a model, and what else is in the same result folder.

    `results` are those of the requested cells. `score` finds one number among them. `save` writes the page.
    """

    model: str
    folder: ResultFolder
    keys: frozenset[str]  # of the requested cells, and of the yardsticks that the verdicts compare with
    summary: RunSummary
    _temporary: Any = field(default=None, repr=False)  # a folder that lives as long as the report

    @cached_property
    def findings(self) -> Findings:
        """Everything in the result folder, read once for the page and the terminal."""
        from alebrije.report.findings import read_findings

        return read_findings(self.folder)

    @cached_property
    def requested(self) -> Findings:
        """The findings of the requested cells."""
        return self.findings.only(self.keys)

    @property
    def results(self) -> list[Result]:
        """The results of the requested cells, done and failed, without those of untrained twins."""
        from alebrije.studies.untrained import kind_of_twin

        everything = [*self.requested.results, *self.requested.failed]
        return [result for result in everything if kind_of_twin(result.cell) is None]

    def table(self, query: str | None = None) -> ResultTable:
        """A row for each value. An InputError if the query names something that no row has."""
        from alebrije.results import result_table

        whole = result_table(self.results)
        found = whole.where(query or "")
        if query and (unmet := whole.unmet(query)):
            raise InputError(unmet[0])
        return found

    def value(self, metric: str, **labels: Any) -> Value:
        """The value of a metric with these labels, such as ``report.value("coat", corpus="occluded")``.

        It belongs to the examined model unless `model` names a reference. If several instruments compute the metric, it
        is the one that `tests` names by this metric unless `study` names another.
        """
        if not isinstance(metric, str):
            raise InputError(f"metric must be text, not {type(metric).__name__}")
        study = labels.pop("study", None)
        found = [
            (result.cell, value)
            for result in self.results
            for name, value in result.values.items()
            if name.lower() == metric.lower()
            and study in (None, result.cell.study)
            and all(result.cell.labels.get(label) == wanted for label, wanted in labels.items())
        ]
        own = [(cell, value) for cell, value in found if cell.labels.get("model") == self.model]
        if "model" not in labels and own:
            found = own
        if len({cell.study for cell, _ in found}) > 1:
            owner = _owners()[metric.lower()]
            found = [(cell, value) for cell, value in found if cell.study == owner] or found
        if not found:
            asked = labels if study is None else {"study": study, **labels}
            raise InputError(_not_found(self.results, metric, asked))
        if len(found) > 1:
            some = "; ".join(str(cell) for cell, _ in found[:4])
            raise InputError(f"{metric!r} has {len(found)} values; add labels to choose one ({some})")
        return found[0][1]

    def score(self, metric: str, **labels: Any) -> float | None:
        """The score of a metric with these labels; None if it is null."""
        return self.value(metric, **labels).score

    def save(self, path: str | Path, *, published: bool = True) -> Path:
        """Write the page, one HTML file, and return its path."""
        return write_report(self.findings if published else self.folder, path, published=published)

    def summary_table(self) -> ResultTable:
        """A row for each examined model: the score and the verdict of each instrument."""
        from alebrije.instruments.summary import summary_table

        return summary_table(self.requested)

    def figures(self, instrument: str | None = None) -> dict[str, Figure]:
        """The figures of the page as matplotlib figures by name, of one instrument or of all."""
        from alebrije import instruments
        from alebrije.report.charts import laid_out
        from alebrije.report.page import figures_of

        if instrument is not None:
            instruments.get(instrument)  # raises an InputError for an unknown name
        sections = instruments.sections_of(self.requested)
        drawings = figures_of([one for one in sections if instrument in (None, one.name)])
        return {name: laid_out(drawing.figure()) for name, drawing in drawings.items()}

    @property
    def verdicts(self) -> dict[str, dict[str, Verdict]]:
        """The verdict of each instrument on the model and on the references: by model, then by instrument."""
        from alebrije.instruments import verdicts

        return verdicts(self.requested)

    def __repr__(self) -> str:
        return f"<Report on {self.model} in {self.folder.path}: {self.summary}>"

    def _repr_html_(self) -> str:
        """The verdicts and scores in a notebook; `save` writes the whole page."""
        from alebrije.report.page import as_notebook_html

        return as_notebook_html(self.requested, self.verdicts, self.summary_table())

    def __str__(self) -> str:
        from alebrije.report.page import in_words, scope
        from alebrije.results import fit_to_width

        lines = [scope(self.requested), "", in_words(self.requested, self.verdicts), ""]
        shown = _without_raw(self.table())
        if len(shown) > _MOST_ROWS:
            lines.append(f"{len(shown)} values; `alebrije results {shlex.quote(str(self.folder.path))}` prints them")
        elif len(shown):
            lines.append(fit_to_width(shown).rstrip())
        lines += [f"failed: {result.cell}: {result.fault}" for result in self.results if result.traceback]
        return "\n".join(lines).lstrip("\n")


def _without_raw(table: ResultTable) -> ResultTable:
    """A table without the values that a relative form replaces: those depend on the scale of the codes."""
    names = {row["metric"] for row in table.rows}
    return replace(table, rows=tuple(row for row in table.rows if f"relative {row['metric']}" not in names))


def write_report(source: Findings | ResultFolder | str | Path, out: str | Path, *, published: bool = True) -> Path:
    """Write the report of a result folder as one HTML file and return its path.

    `published` puts the papers' numbers beside ours. Failed cells and damaged files are listed on the page.
    """
    from alebrije.instruments import sections_of
    from alebrije.report.page import write_page

    findings = _read(source, published)
    return write_page(findings, sections_of(findings), out)


def write_figures(
    source: Findings | ResultFolder | str | Path, out: str | Path, *, published: bool = True
) -> list[Path]:
    """Write every figure of the report as SVG and PDF into a folder and return their paths."""
    from alebrije.instruments import sections_of
    from alebrije.report import page

    return page.write_figure_files(sections_of(_read(source, published)), out)


def _read(source: Findings | ResultFolder | str | Path, published: bool) -> Findings:
    from alebrije.report.findings import Findings, read_findings
    from alebrije.studies.folder import ResultFolder, open_results

    if isinstance(source, Findings):
        return source
    return read_findings(source if isinstance(source, ResultFolder) else open_results(source), published=published)


def evaluate(
    encoder: str | Callable[..., Any],
    tests: str | Sequence[str] = NAMES,
    size: Literal["tiny", "small", "paper"] = "small",
    *,
    out: str | Path | None = None,
    beside: str | Sequence[str] = (),
    device: str | torch.device | None = None,
    pixels: int | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    batch: int = 64,
    layer: str | None = None,
    pool: Literal["cls", "mean", "tokens"] | None = None,
    method: str | None = None,
    name: str | None = None,
    worlds: str | Sequence[str] = (),
    rules: str | Sequence[str] = (),
    alphas: Sequence[float] = (),
    workers: int = 1,
    progress: Progress | None = None,
    activity: Activity | None = None,
    images: Any = None,
    masks: Any = None,
    factors: Any = None,
    factor_names: Sequence[str] | None = None,
) -> Report:
    """Examine a model: any callable from images [B, 3, H, W] in 0..1 to codes, or a spec as in `adapters.load`.

    Args:
        encoder: The model, a spec such as "timm:resnet18", or a reference.
        tests: Instruments, or names of metrics such as "coat", "snc" and "fg-ari", or "package.module:function" for a
            metric of your own.
        size: How much is computed: tiny takes seconds on a CPU, small minutes; only paper is what was published.
        out: The result folder. The same call computes only what is missing there. A temporary folder by default.
        beside: References to examine as well: pixels, oracle, projection, noise.
        device: Where the model runs.
        pixels: Side of the images that the model expects.
        mean: Per-channel mean to subtract (images in 0..1).
        std: Per-channel standard deviation to divide by.
        batch: Images per forward pass.
        layer: The submodule whose output is used instead of the model's.
        pool: The codes of a model with tokens: "cls" (the class token), "mean" or "tokens" (as slots). By default its
            own pooled output; of bare tokens, analogy and neurons take the mean and say so.
        method: The method that is called instead of the model, such as "encode".
        name: The name of the model in tables.
        worlds: The worlds to test on, for instruments with several. "data:FOLDER" are images of your own: grouping runs
            if they have masks, neurons if they have attributes.
        rules: For imagination: rules such as "S-A".
        alphas: For imagination: shares of the non-core combinations that training shows.
        workers: Processes that share the work. On a GPU each of them loads the model.
        progress: A callback for each finished cell.
        activity: A callback with what is being done, such as "rendering grouping-clevr6", when that changes.
        images: Images of your own instead of worlds: [B, 3, H, W] or [B, H, W, 3], uint8 or floats in 0..1, a list of
            images of PIL, or a dataset of Hugging Face with images, masks and attributes in its columns.
        masks: The label [B, H, W] of each of their pixels; 0 is the background.
        factors: Their attributes: [B, F], a mapping from names to columns, or a data frame. Words and numbers.
        factor_names: The names of the columns of `factors`, if it is an array.

    A model whose scores would be meaningless is refused before anything is computed (`adapters.precheck`).

    >>> import torch
    >>> from alebrije import evaluate
    >>> quarters = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
    >>> report = evaluate(quarters, tests="snc", size="tiny", name="mean colours of quarters")
    >>> 0 < report.score("snc", world="rooms") < 0.5
    True
    """
    from alebrije import instruments
    from alebrije.studies.folder import ResultFolder
    from alebrije.studies.jobs import Workers
    from alebrije.studies.model import fingerprints_kept
    from alebrije.studies.processes import started_processes
    from alebrije.studies.references import reference
    from alebrije.studies.request import SIZES, Request
    from alebrije.studies.run import plan_study, precheck_models, run_studies

    if size not in SIZES:
        raise InputError(f"size must be one of {', '.join(SIZES)}, not {size!r}")
    if out is not None and not str(out).strip():
        raise InputError("out is empty; it must be the name of a folder")
    temporary = tempfile.TemporaryDirectory(prefix="alebrije-") if out is None else None
    folder = ResultFolder(temporary.name if temporary is not None else Path(out or "."))
    if images is not None:
        worlds = _world_of(folder, images, masks, factors, factor_names, _as_tuple(worlds))
    elif masks is not None or factors is not None or factor_names is not None:
        raise InputError("masks, factors and factor_names describe images; pass the images too")
    wanted = select_tests(tests_for(_as_tuple(tests), _as_tuple(worlds)))
    loading = {"pixels": pixels, "mean": mean, "std": std, "layer": layer, "device": device}
    loading |= {"pool": pool, "method": method}
    with started_processes(workers, device) as processes:  # they get ready while the model is loaded
        model = _load(encoder, name, batch, loading)
        references = tuple(reference(each) for each in _as_tuple(beside) if each != encoder)
        request = Request(
            size=size,
            loaded=(model, *references),
            worlds=_as_tuple(worlds),
            rules=_as_tuple(rules),
            alphas=tuple(alphas),
            device=_device_of(model, device),
            only_loaded=True,
        )
        requests = _requests(request, wanted)
        with fingerprints_kept():
            planned = [plan_study(instruments.get(test), folder, each) for test, each in requests.items()]
            for test, own in _own_beside_all(
                _as_tuple(tests), wanted
            ).items():  # a whole instrument and metrics of the user
                planned.append(plan_study(instruments.get(test), folder, replace(requests[test], metrics=own)))
        precheck_models(planned, folder)
        shared = Workers(workers, progress=progress, activity=activity, processes=processes)
        summary = run_studies(planned, folder, shared)
    keys = frozenset[str]().union(*(study.all_keys for study in planned))
    return Report(str(model.labels["model"]), folder, keys, summary, temporary)


def scored_report(folder: ResultFolder, scored: ScoredFiles) -> Report:
    """The report on files of arrays that were scored into a result folder."""
    return Report("", folder, scored.keys, scored.summary)


def tests_for(tests: Sequence[str], chosen: Sequence[str]) -> tuple[str, ...]:
    """The tests to run on these worlds, if all are wanted.

    On a user's own images, those of all instruments that their folders allow; on videos and views, grouping.
    """
    from alebrije.data.user_images import user_images
    from alebrije.instruments.grouping.study import shown_by

    if tuple(tests) == NAMES and chosen and all(shown_by(world) != "images" for world in chosen):
        return ("grouping",)
    own = [images for world in chosen if (images := user_images(world)) is not None]
    if not own or len(own) < len(chosen) or tuple(tests) != NAMES:
        return tuple(tests)
    fitting = ["grouping"] if all(images.has_masks for images in own) else []
    fitting += ["neurons"] if all(images.attributes is not None for images in own) else []
    if not fitting:
        raise InputError(f"{own[0].folder}: has neither masks for grouping nor attributes for neurons")
    return tuple(fitting)


def select_tests(tests: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The instruments that tests belong to, and the wanted metrics of each; none means all.

    >>> select_tests(["coat", "neurons", "snc", "fg-ari"])
    {'analogy': ('coat',), 'neurons': (), 'grouping': ('fg-ari',)}
    """
    from alebrije.instruments import instruments
    from alebrije.metrics import catalog

    if not tests:
        raise InputError("no test was requested; name instruments or metrics")
    known, owners = instruments(), _owners()
    selected: dict[str, list[str] | None] = {}
    for test in tests:
        if test in known:
            selected[test] = None
        elif ":" in test:
            metrics = selected.setdefault(_instrument_of(test, known), [])
            if metrics is not None:
                metrics.append(test)
        elif test.lower() in owners:
            metrics = selected.setdefault(owners[test.lower()], [])
            if metrics is not None:
                metrics.append(test)
        elif test.lower() in map(str.lower, catalog()):
            raise InputError(f"{test!r} belongs to no instrument; `alebrije score` computes it from your own arrays")
        else:
            raise InputError(f"there is no test {test!r}{did_you_mean(test, [*known, *owners])}")
    return {instrument: tuple(metrics or ()) for instrument, metrics in selected.items()}


def _instrument_of(test: str, known: Container[str]) -> str:
    """The instrument of a user's metric, `package.module:function`."""
    from alebrije.metrics import find

    record = find(test)
    if record.instrument not in known:
        raise InputError(f"{test} says that it belongs to {record.instrument!r}; it must be {', '.join(NAMES)}")
    return record.instrument


def _own_beside_all(tests: Sequence[str], wanted: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The user's metrics that are requested beside all metrics of their instrument."""
    found: dict[str, tuple[str, ...]] = {}
    for test in tests:
        instrument = _instrument_of(test, wanted) if ":" in test else ""
        if instrument and not wanted[instrument]:
            found[instrument] = (*found.get(instrument, ()), test)
    return found


def _owners() -> dict[str, str]:
    """The instrument that a test stands for, by the name of the metric in lower case."""
    from alebrije.instruments import instruments

    return {metric.lower(): each.name for each in instruments().values() for metric in each.metrics}


def _requests(request: Request, wanted: Mapping[str, tuple[str, ...]]) -> dict[str, Request]:
    """The request to each instrument: its metrics, and rules and alphas only if it uses them."""
    from alebrije import instruments

    options = {name: instruments.get(name).options for name in wanted}
    for option in ("rules", "alphas"):
        if getattr(request, option) and not any(option in used for used in options.values()):
            users = [one.name for one in instruments.instruments().values() if option in one.options]
            raise InputError(f"{option} are for {', '.join(users)}, and the tests are {', '.join(wanted)}")
    unused: dict[str, dict[str, Any]] = {
        name: {option: () for option in ("rules", "alphas") if option not in used} for name, used in options.items()
    }
    return {name: replace(request, metrics=metrics, **unused[name]) for name, metrics in wanted.items()}


def _world_of(
    folder: ResultFolder,
    images: Any,
    masks: Any,
    factors: Any,
    factor_names: Sequence[str] | None,
    chosen: Sequence[str],
) -> str:
    """Images in memory, written to the result folder, in the place of a world."""
    from alebrije.data.user_arrays import named_columns, parts_of_dataset, store_user_images

    if chosen:
        raise InputError(f"images of your own take the place of {', '.join(chosen)}; leave out worlds")
    attributes: dict[str, Sequence[Any]] | None
    if hasattr(images, "column_names"):
        if masks is not None or factors is not None:
            raise InputError("a dataset has its masks and attributes in its columns; leave out masks and factors")
        images, masks, attributes = parts_of_dataset(images)
    else:
        attributes = named_columns(factors, factor_names)
    return store_user_images(folder.ready().path, images, masks, attributes)


def _load(encoder: str | Callable[..., Any], name: str | None, batch: int, loading: Mapping[str, Any]) -> Model:
    """A reference by its name, an encoder that is loaded already, or one that is loaded here."""
    from alebrije import adapters
    from alebrije.adapters import Encoder
    from alebrije.studies.model import LoadedModel
    from alebrije.studies.references import REFERENCES, reference

    if isinstance(encoder, str) and encoder in REFERENCES:
        return reference(encoder)
    if isinstance(encoder, str) and ":" not in encoder and (near := closest(encoder, REFERENCES)):
        raise InputError(f"there is no model {encoder!r}; did you mean the reference {near!r}?")
    given = {word: value for word, value in loading.items() if value is not None}
    if isinstance(encoder, Encoder):
        if given:
            raise InputError(f"{encoder.name} is loaded already; pass {', '.join(given)} to adapters.load instead")
        return LoadedModel(encoder, name or "")
    size, labels = given.pop("pixels", None), {"layer": given.get("layer"), "input_size": loading["pixels"]}
    labels |= {"pool": given.get("pool"), "method": given.get("method")}
    loaded = adapters.load(encoder, size=size, batch=batch, name=name, **given)
    return LoadedModel(loaded, more={label: value for label, value in labels.items() if value is not None})


def _device_of(model: Model, device: str | torch.device | None) -> str:
    """Where images are rendered: the model's device, or the given one for references."""
    from alebrije.studies.model import LoadedModel

    return str(model.encoder.device if isinstance(model, LoadedModel) else device or "cpu")


def _as_tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _not_found(results: Sequence[Result], metric: str, labels: Mapping[str, Any]) -> str:
    """The sentence about a value that is not among the results."""
    names = sorted({name for result in results for name in result.values})
    if not names:
        return f"there is no value {metric!r} or any other: {len(results)} cells failed"
    if metric in NAMES:
        own = sorted({name for result in results if result.cell.study == metric for name in result.values})
        return f"{metric!r} is an instrument; its values here are {', '.join(own) or 'none'}"
    having = [one.cell for one in results if metric.lower() in {name.lower() for name in one.values}]
    if not having:
        return f"there is no value {metric!r}{_not_requested(results, metric) or _instead(metric, names)}"
    studies = sorted({cell.study for cell in having})
    if labels.get("study", studies[0]) not in studies:
        return f"{metric!r} was not computed by {labels['study']!r}, only by {' and '.join(studies)}"
    for label, wanted in labels.items():
        if label == "study":
            continue
        known = list(dict.fromkeys(name for cell in having for name in cell.labels))
        if label not in known:
            return f"{metric!r} has no label {label!r}{_instead(label, known)}"
        values = list(dict.fromkeys(cell.labels[label] for cell in having if cell.labels.get(label) is not None))
        if wanted not in values:
            return f"there is no {metric!r} with {label}={wanted!r}{_instead(str(wanted), list(map(str, values)))}"
    some = "; ".join(str(cell) for cell in having[:4])
    wanted = " ".join(f"{label}={value}" for label, value in labels.items())
    return f"{metric!r} exists, but not with {wanted} together; it exists for {some}"


def _not_requested(results: Sequence[Result], metric: str) -> str:
    """The end of the sentence about a metric of an instrument that no result has; empty for other names."""
    owner = _owners().get(metric.lower())
    if owner is None:
        return ""
    failed = any(result.cell.study == owner and result.traceback for result in results)
    why = "was not requested, or its cell failed" if failed else "was not requested"
    return f" here: it belongs to {owner} and {why}"


def _instead(wrong: str, known: list[str]) -> str:
    return did_you_mean(wrong, known) or f"; choose from {', '.join(known)}"
