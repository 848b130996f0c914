"""What every study has in common: requests that make no sense are refused, and so are models whose scores would."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from alebrije.adapters import Adapted
from alebrije.cli import main
from alebrije.errors import InputError
from alebrije.studies import protocol
from alebrije.studies.folder import Folder
from alebrije.studies.protocol import STUDY_NAMES, Ask, Study, get, planned, run_study
from alebrije.studies.subjects import Model, Noise, Subject, stranger

NEURONS, GROUPING = get("neurons"), get("grouping")
Encoder = Callable[[Tensor], Tensor]


def colours(images: Tensor) -> Tensor:
    return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


def asked(*subjects: Subject, metrics: tuple[str, ...] = ("mig",)) -> Ask:
    return Ask(size="tiny", subjects=subjects, only_subjects=True, metrics=metrics)


@pytest.mark.parametrize("name", [name for name in STUDY_NAMES if name != "imagination"])
@pytest.mark.parametrize("ask", [Ask(size="tiny", rules=("S-A",)), Ask(size="tiny", alphas=(0.2,))])
def test_what_a_study_does_not_read_is_refused(name: str, ask: Ask, tmp_path: Path) -> None:
    option = "rules" if ask.rules else "alphas"
    with pytest.raises(InputError, match=f"^{name} has no {option}; they are for imagination$"):
        planned(get(name), Folder(tmp_path), ask)


def test_the_command_refuses_what_a_study_does_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["study", "neurons", "--size", "tiny", "--rules", "S-A", "--out", str(tmp_path / "found")])
    assert caught.value.code == 2
    assert "neurons has no rules; they are for imagination" in capsys.readouterr().err
    assert not (tmp_path / "found").exists()


class TestLookingBefore:
    """Models from outside are looked at once, before any of their cells is computed."""

    @pytest.mark.parametrize(
        ("encoder", "words"),
        [
            (lambda images: images.mean((2, 3)) / 0, "it gives codes that are not numbers"),
            (lambda images: torch.rand(len(images), 8), "its codes are random"),
            (lambda images: torch.ones(len(images), 8), "it gives all images the same codes"),
        ],
    )
    def test_scores_that_would_mean_nothing(self, encoder: Encoder, words: str, tmp_path: Path) -> None:
        folder = Folder(tmp_path / "found")
        ask = asked(Noise(), Model(Adapted(encoder, name="mine")))
        with pytest.raises(InputError, match=f"^mine cannot be evaluated as it is: {words}"):
            run_study(NEURONS, folder, ask)
        assert not (tmp_path / "found").exists()

    def test_what_is_doubtful_is_logged_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        subject = Model(Adapted(lambda images: colours(images) - 0.5 * images.mean((0, 2, 3)).mean(), name="mine"))
        with caplog.at_level(logging.WARNING, "alebrije"):
            run_study(NEURONS, Folder(tmp_path), asked(subject))
            run_study(NEURONS, Folder(tmp_path), asked(subject))  # nothing is missing
        assert caplog.text.count("depends on the others in its batch") == 1

    def test_who_is_looked_at(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[tuple[str, int | None]] = []

        def look(adapted: Adapted, pixels: int | None = None) -> list[str]:
            seen.append((adapted.name, pixels))
            return []

        monkeypatch.setattr(protocol.adapters, "look_before", look)
        folder, ask = Folder(tmp_path), asked(Noise(), Model(Adapted(colours, name="all of it")))
        run_study(NEURONS, folder, ask)
        run_study(NEURONS, folder, ask)  # nothing is missing
        assert seen == [("all of it", 64)]

    def test_who_passed_is_not_looked_at_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        adapted = Adapted(colours, name="passed")
        monkeypatch.setattr(protocol.adapters, "look_before", None)
        for study, metric in ((NEURONS, "mig"), (GROUPING, "psnr")):
            assert not run_study(study, Folder(tmp_path), asked(Model(adapted), metrics=(metric,)), looked=True).failed

    def test_a_model_of_the_size_that_a_study_shows(self, tmp_path: Path) -> None:
        fixed = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 4))
        assert not run_study(NEURONS, Folder(tmp_path), asked(Model(Adapted(fixed)))).failed

    @pytest.mark.parametrize("study", [get(name) for name in STUDY_NAMES], ids=STUDY_NAMES)
    def test_every_study_names_its_strangers(self, study: Study, tmp_path: Path) -> None:
        adapted = Adapted(colours, name="mine")
        jobs = planned(study, Folder(tmp_path), asked(Noise(), Model(adapted), metrics=()))
        for job in jobs:
            assert job.stranger is (adapted if job.cell.labels["model"] == "mine" else None)
        assert stranger(Noise()) is None
