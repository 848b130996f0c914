"""Examine the models of the zoo and the references, and store the results in the package.

    python tools/zoo_examine.py WORK [--size small] [--models NAME ...] [--tests INSTRUMENT ...] [--jobs N]
    python tools/zoo_examine.py WORK --store

Run it in the root of the repository. WORK is a result folder; the same command computes only what is missing there.
`--store` copies its cells into the package and writes the scores into the cards. Untrained twins are left out.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from alebrije import adapters, instruments, zoo
from alebrije.atomic import write_atomically
from alebrije.errors import InputError
from alebrije.report.findings import Finding, read_findings
from alebrije.report.sections import mean_known
from alebrije.results import latest_results
from alebrije.results.store import file_name
from alebrije.studies.folder import CELLS, ResultFolder
from alebrije.studies.jobs import Workers
from alebrije.studies.model import LoadedModel, Model
from alebrije.studies.references import REFERENCES, reference
from alebrije.studies.request import Request
from alebrije.studies.run import PlannedStudy, plan_study, run_studies
from alebrije.zoo.cards import CARD, MODELS

PACKAGE = Path("src/alebrije/zoo")
MORE = {"neurons": ("NK",), "imagination": ("out-of-distribution error",)}  # values beside the score of an instrument


def main() -> None:
    """Examine, or store what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--size", default="small")
    parser.add_argument("--models", nargs="*", default=[*REFERENCES, *zoo.names()])
    parser.add_argument("--tests", nargs="*", default=list(instruments.NAMES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    folder = ResultFolder(given.work)
    if given.store:
        store(folder)
        return
    for name in given.models:
        for test in given.tests:
            for planned in plans(folder, test, given.size, name, given.device):
                summary = run_studies([planned], folder, Workers(given.jobs))
                print(f"{name}, {test}, {given.size}: {summary}", flush=True)


def plans(folder: ResultFolder, test: str, size: str, name: str, device: str) -> Iterator[PlannedStudy]:
    """The cells of a model, without its yardsticks; none if the instrument cannot examine it."""
    request = Request(size=size, loaded=(model(name, device),), only_loaded=True, device=device)  # type: ignore[arg-type]
    try:
        yield replace(plan_study(instruments.get(test), folder, request), yardsticks=())
    except InputError as error:
        print(f"{name}, {test}: {error}", flush=True)


def model(name: str, device: str) -> Model:
    """A reference, or a model of the zoo."""
    return reference(name) if name in REFERENCES else LoadedModel(adapters.load(f"zoo:{name}", device=device))


def store(folder: ResultFolder) -> None:
    """Copy the cells into the package, and write the scores into the cards."""
    results = [result for result in latest_results(folder.store.all())[0] if result.status == "done"]
    target = PACKAGE / "results" / CELLS
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for result in results:
        name = file_name(result.cell)
        shutil.copy(folder.path / CELLS / name, target / name)
    findings = read_findings(ResultFolder(PACKAGE / "results"), published=False).all
    for name in zoo.names():
        own = [finding for finding in findings if finding.get("model") == f"zoo:{name}"]
        card = zoo.card(name).model_copy(update={"scores": tuple(scores(own))})
        write_atomically(MODELS / name / CARD, card.model_dump_json(indent=2) + "\n")
        print(f"{name}: {len(card.scores)} scores")
    print(f"{len(results)} cells, {sum(path.stat().st_size for path in target.iterdir()) / 1e6:.1f} MB")


def scores(own: Sequence[Finding]) -> Iterator[zoo.CardScore]:
    """The score of each instrument at the largest size, over the settings that its verdict is about."""
    size = next((size for size in ("paper", "small", "tiny") if any(one.get("size") == size for one in own)), None)
    for instrument in instruments.instruments().values():
        every = [one for one in own if one.study == instrument.name and one.get("size") == size]
        chosen = instrument.decisive(every)
        for metric in (instrument.score, *MORE.get(instrument.name, ())):
            found = mean_known(chosen, metric)
            if found is None or found.value is None:
                continue
            yield zoo.CardScore(
                instrument=instrument.name,
                metric=metric,
                tested_on=", ".join(dict.fromkeys(map(tested_on, chosen))),
                size=str(size),
                value=found.value,
                low=found.low,
                high=found.high,
            )


def tested_on(finding: Finding) -> str:
    """The world, task or corpus of a finding."""
    rule, alpha = finding.get("rule"), finding.get("alpha")
    task = f"/{rule} at alpha {alpha:g}" if rule else ""
    return f"{finding.get('world') or finding.get('corpus')}{task}"


if __name__ == "__main__":
    main()
