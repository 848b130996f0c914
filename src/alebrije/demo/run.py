"""`alebrije demo`: models of the zoo, or models trained in a minute, examined beside three references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from alebrije import adapters, zoo
from alebrije.demo.openings import openings
from alebrije.evaluate import Report
from alebrije.instruments import get, instruments, sections_of
from alebrije.report.opening import Opening
from alebrije.report.page import write_page
from alebrije.studies.commands import note_command
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Progress, RunSummary, Workers
from alebrije.studies.model import LoadedModel, Model, TrainedModel
from alebrije.studies.references import Noise, Oracle, Pixels
from alebrije.studies.request import Request
from alebrije.studies.run import PlannedStudy, plan_study, run_studies
from alebrije.studies.stages import Activity
from alebrije.train.plan import plan

# models of the zoo for each instrument, the first that there is
CANDIDATES: Mapping[str, tuple[str, ...]] = {
    "grouping": ("slot-attention", "bo-qsa"),
    "neurons": ("annealed-vae", "beta-tcvae"),
    "imagination": ("i2i-vit", "svib-oracle"),
}
_WORLDS = {"grouping": ("clevr6",), "neurons": ("dsprites",)}  # that the chosen models were trained on


@dataclass(frozen=True)
class DemoReport(Report):
    """The report of the demo; its page begins with what the models of the zoo can do."""

    @cached_property
    def openings(self) -> list[Opening]:
        """What each chosen model can do, and where it fails."""
        return openings(self.requested, chosen())

    def save(self, path: str | Path, *, published: bool = True) -> Path:
        """Write the page, one HTML file, and return its path."""
        return write_page(self.findings, sections_of(self.findings), path, self.openings)


def run_demo(
    out: str | Path, *, workers: int = 1, progress: Progress | None = None, activity: Activity | None = None
) -> DemoReport:
    """Examine one model of the zoo with each instrument, beside references. Only what is missing is computed."""
    folder = ResultFolder(out)
    requests = {
        name: Request("tiny", loaded=zoo_models(name), worlds=_WORLDS.get(name, ()), only_loaded=True)
        for name in CANDIDATES
    }
    planned = [plan_study(get(name), folder, request) for name, request in requests.items()]
    summary = _run(planned, "alebrije demo", folder, Workers(workers, progress=progress, activity=activity))
    return DemoReport("the demo", folder, _keys(planned), summary)


def run_trained_demo(
    out: str | Path, *, workers: int = 1, progress: Progress | None = None, activity: Activity | None = None
) -> Report:
    """Train two models for some seconds and examine them with all instruments, beside references."""
    folder = ResultFolder(out)
    request = Request(size="tiny", loaded=trained_models(folder), only_loaded=True)
    planned = [plan_study(instrument, folder, request) for instrument in instruments().values()]
    summary = _run(planned, "alebrije demo --train", folder, Workers(workers, progress=progress, activity=activity))
    return Report("the demo", folder, _keys(planned), summary)


def zoo_models(instrument: str) -> tuple[Model, ...]:
    """The model of the zoo chosen for an instrument, if the zoo has it, and the references."""
    name = chosen().get(instrument)
    models = [] if name is None else [LoadedModel(adapters.load(f"zoo:{name}"))]
    return *models, Oracle(), Pixels(), Noise()


def chosen() -> dict[str, str]:
    """The model of the zoo for each instrument."""
    known = zoo.names()
    return {
        instrument: names[0] for instrument, each in CANDIDATES.items() if (names := [n for n in each if n in known])
    }


def trained_models(folder: ResultFolder) -> tuple[Model, ...]:
    """Two models and the references. Each trained model knows one world and is new to the others."""
    return (
        Oracle(),
        TrainedModel(plan("beta-vae", preset_name="tiny"), folder, more={"trained_on": "dsprites"}),
        TrainedModel(plan("slot-attention", preset_name="tiny"), folder, more={"trained_on": "sprites"}),
        Pixels(),
        Noise(),
    )


def _run(planned: Sequence[PlannedStudy], command: str, folder: ResultFolder, workers: Workers) -> RunSummary:
    """Compute what is missing, and note the command that did."""
    summary = run_studies(planned, folder, workers)
    for study in planned:
        note_command(folder, study.study.name, command)
    return summary


def _keys(planned: Sequence[PlannedStudy]) -> frozenset[str]:
    return frozenset[str]().union(*(study.all_keys for study in planned))
