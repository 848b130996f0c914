"""`alebrije demo`: two models trained in a minute and three references, examined with all instruments."""

from __future__ import annotations

from pathlib import Path

from alebrije.evaluate import Report
from alebrije.instruments import instruments
from alebrije.studies.commands import note_command
from alebrije.studies.folder import ResultFolder
from alebrije.studies.jobs import Progress, Workers
from alebrije.studies.model import Model, TrainedModel
from alebrije.studies.references import Noise, Oracle, Pixels
from alebrije.studies.request import Request
from alebrije.studies.run import plan_study, run_studies
from alebrije.studies.stages import Activity
from alebrije.train.plan import plan


def run_demo(
    out: str | Path, *, workers: int = 1, progress: Progress | None = None, activity: Activity | None = None
) -> Report:
    """Train and examine the models of the demo. The same call computes only what is missing."""
    folder = ResultFolder(out)
    request = Request(size="tiny", loaded=demo_models(folder), only_loaded=True)
    planned = [plan_study(instrument, folder, request) for instrument in instruments().values()]
    summary = run_studies(planned, folder, Workers(workers, progress=progress, activity=activity))
    for study in planned:
        note_command(folder, study.study.name, "alebrije demo")
    keys = frozenset[str]().union(*(study.all_keys for study in planned))
    return Report("the demo", folder, keys, summary)


def demo_models(folder: ResultFolder) -> tuple[Model, ...]:
    """The five models. Each trained model knows one world and is new to the others."""
    return (
        Oracle(),
        TrainedModel(plan("beta-vae", preset_name="tiny"), folder, more={"trained_on": "dsprites"}),
        TrainedModel(plan("slot-attention", preset_name="tiny"), folder, more={"trained_on": "sprites"}),
        Pixels(),
        Noise(),
    )
