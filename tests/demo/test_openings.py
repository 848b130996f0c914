"""The opening of the demo's page: sentences follow the results."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alebrije import zoo
from alebrije.data.checked_arrays import FileRecord
from alebrije.demo import openings as module
from alebrije.demo.openings import openings
from alebrije.report.findings import read_findings
from alebrije.report.opening import Opening
from alebrije.report.page import page_html
from alebrije.studies.folder import ResultFolder
from alebrije.train.plan import plan
from alebrije.zoo import Training
from tests.report.fake_studies import put, value

CHOSEN = {"grouping": "slots", "neurons": "vae", "imagination": "vit"}
MODELS = {"slots": ("slot-attention", {"world": "clevr6"}), "vae": ("annealed-vae", {}), "vit": ("i2i-vit", {})}


@pytest.fixture(autouse=True)
def _fake_zoo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cards without weights, and pictures of one colour."""

    def card(name: str) -> zoo.Card:
        model, more = MODELS[name]
        made = plan(model, dry_run=False, **more).to_json()  # type: ignore[arg-type]
        training = Training(command="alebrije train", steps=1, machine="a test")
        return zoo.Card(name=name, plan=made, weights=FileRecord(size=1, sha256="0" * 64), training=training)

    monkeypatch.setattr(zoo, "card", card)
    monkeypatch.setattr(module, "pictures", lambda name, count: [("image", torch.full((count, 3, 8, 8), 0.5))])


def made(path: Path) -> tuple[list[Opening], ResultFolder]:
    folder = ResultFolder(path)
    shared = {"world": "clevr6", "size": "tiny"}
    for slots, score in ((7, 0.96), (4, 0.71), (9, 0.9)):
        labels = {"model": "zoo:slots", **shared, "train_slots": 7, "test_slots": slots}
        put(folder, "grouping", labels, {"fg-ari": value(score, 0.01)})
    put(folder, "grouping", {"model": "pixels", **shared}, {"fg-ari": value(0.5, 0.01)})
    details = {
        "per_factor": {"shape": 0.1, "position x": 0.65},
        "accuracy": {"shape": 0.4, "position x": 0.66},
        "chance": {"shape": 0.33, "position x": 0.03},
    }
    snc = value(0.38, 0.02).model_copy(update={"details": details})
    put(folder, "neurons", {"model": "zoo:vae", "world": "dsprites", "size": "tiny"}, {"SNC": snc})
    errors = {"out-of-distribution error": 40.0, "in-distribution error": 16.0, "error of an unchanged image": 1000.0}
    values = {name: value(number, 1.0) for name, number in errors.items()}
    values |= {"shape accuracy": value(0.9, 0.02), "color accuracy": value(1.0, 0.0)}
    put(folder, "imagination", {"model": "zoo:vit", "world": "sprites", "size": "tiny"}, values)
    return openings(read_findings(folder), CHOSEN), folder


def test_each_model_says_what_it_can_do_and_where_it_fails(tmp_path: Path) -> None:
    slots, vae, vit = made(tmp_path)[0]
    assert slots.title == "Slot Attention, trained on clevr6: finds the objects"
    assert slots.can.startswith("With 7 slots its FG-ARI on clevr6 is 0.96 (")
    assert slots.can.endswith("clusters of colour, the reference pixels, reach 0.50.")
    assert slots.fails.endswith("with 4 of them objects have to share slots, and FG-ARI is 0.71.")
    assert vae.title.endswith("one neuron each for position x")
    assert vae.can == "The best single neuron tells position x (66 % right, guessing 3 %)."
    assert vae.fails.startswith("No neuron tells shape (40 % right, guessing 33 %). So SNC is 0.38")
    assert vit.title.endswith("imagines new combinations")
    assert "with 4 % of the error of an unchanged image; right in the pictures: shape 90 % and color 100 %." in vit.can
    assert vit.fails == "New combinations still have 2.5 times the error of known ones, and shape suffers most."


def test_they_open_the_page(tmp_path: Path) -> None:
    found, folder = made(tmp_path)
    page = page_html(read_findings(folder), [], found)
    assert page.index("What each can do, and where it fails") < page.index("What they can and cannot do")
    assert page.count('class="model opening"') == 3
    assert "What each can do" not in page_html(read_findings(folder), [])


def test_a_model_without_results_has_no_opening(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    put(folder, "grouping", {"model": "pixels", "world": "clevr6"}, {"fg-ari": value(0.5)})
    assert openings(read_findings(folder), CHOSEN) == []
