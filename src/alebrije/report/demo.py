"""The demonstration: two models that are trained in a minute, three references, all four instruments, one report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from alebrije.report.commands import note_command
from alebrije.report.page import in_words, verdicts, write_report
from alebrije.report.words import Verdict
from alebrije.studies.cells import Progress, Tally
from alebrije.studies.folder import Folder
from alebrije.studies.protocol import Ask, run_study, studies
from alebrije.studies.subjects import Noise, Oracle, Pixels, Subject, Trained
from alebrije.train.plan import plan


@dataclass(frozen=True)
class Shown:
    """Where the page is, what became of the cells, and what was found."""

    page: Path
    tally: Tally
    verdicts: dict[str, dict[str, Verdict]]

    @property
    def words(self) -> str:
        """The verdicts as text."""
        return in_words(self.verdicts)


def run_demo(out: str | Path, *, workers: int = 1, progress: Progress | None = None) -> Shown:
    """Train, examine and report; what is in the folder already is not computed again."""
    folder = Folder(out)
    subjects = demo_subjects(folder)
    ask = Ask(size="tiny", subjects=subjects, only_subjects=True)
    tally = Tally()
    for study in studies().values():
        tally += run_study(study, folder, ask, workers=workers, progress=progress)
        note_command(folder, study.name, "alebrije demo")
    return Shown(write_report(folder, folder.path / "report.html"), tally, verdicts(folder))


def demo_subjects(folder: Folder) -> tuple[Subject, ...]:
    """The five that are examined: each of the models knows one world, and is new to the others."""
    return (
        Oracle(),
        Trained(plan("beta-vae", preset_name="tiny"), folder, more={"trained_on": "dsprites"}),
        Trained(plan("slot-attention", preset_name="tiny"), folder, more={"trained_on": "sprites"}),
        Pixels(),
        Noise(),
    )
