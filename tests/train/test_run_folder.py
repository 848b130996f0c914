"""Run folders: which plan may use a folder, and what is stored there."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alebrije import __version__
from alebrije.errors import InputError
from alebrije.train.plan import Plan, plan
from alebrije.train.run_folder import PLAN_FILE, claim_folder, read_plan


def tiny(model: str = "beta-vae", **changes: Any) -> Plan:
    return plan(model, preset_name="tiny", **changes)


def add_checkpoint(folder: Path) -> None:
    """Add a checkpoint to the run in a folder."""
    path = folder / "checkpoints" / "step-000000001"
    path.mkdir(parents=True)
    (path / "step.json").write_text("{}")


@pytest.mark.parametrize("name", ["paper", "tiny"])
@pytest.mark.parametrize("model", ["factor-vae", "ssm-slot", "moco", "svib-oracle"])
def test_a_stored_plan_is_read_back(tmp_path: Path, model: str, name: str) -> None:
    made = plan(model, preset_name=name, seed=5)
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made
    claim_folder(made, tmp_path / "new" / "run")
    assert read_plan(tmp_path / "new" / "run") == made
    assert json.loads((tmp_path / "new" / "run" / PLAN_FILE).read_text())["alebrije"] == __version__


def test_the_same_plan_writes_nothing(tmp_path: Path) -> None:
    claim_folder(tiny(), tmp_path)
    (tmp_path / "history.jsonl").write_text("")
    before = (tmp_path / PLAN_FILE).stat().st_mtime_ns
    claim_folder(tiny(), tmp_path)
    assert (tmp_path / PLAN_FILE).stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        ("beta-vae", {"seed": 1}, "seed 0, not 1"),
        ("beta-vae", {"world": "rooms"}, "world 'dsprites', not 'rooms'"),
        ("beta-vae", {"images": 64}, "images 0, not 64"),
        ("beta-vae", {"settings": {"steps": 301}}, "steps 300, not 301"),
        ("beta-vae", {"settings": {"lr": 1.0}}, r"lr 0\.002, not 1\.0"),
        ("beta-vae", {"settings": {"betas": "0.5,0.9"}}, r"betas \[0\.9, 0\.999\], not \[0\.5, 0\.9\]"),
        ("beta-vae", {"settings": {"beta": 9}}, r"beta 4\.0, not 9\.0"),
        ("beta-vae", {"settings": {"latents": 9}}, "latents 10, not 9"),
        ("moco", {"settings": {"momentum": 0.5}}, r"momentum 0\.99, not 0\.5"),
        ("beta-tcvae", {"settings": {"alpha": 2}}, r"alpha 1\.0, not 2\.0"),
        ("i2i-vit", {"alpha": 0.2}, r"alpha 0\.6, not 0\.2"),
        ("i2i-vit", {"rule": "M-NA"}, "rule 'S-A', not 'M-NA'"),
        ("slot-attention", {"rule": "S-A"}, "rule None, not 'S-A'"),
    ],
)
def test_another_plan_is_refused(tmp_path: Path, model: str, changes: dict[str, Any], words: str) -> None:
    claim_folder(tiny(model), tmp_path)
    add_checkpoint(tmp_path)
    with pytest.raises(InputError, match=f"holds a run with {words}; use the same settings to continue it"):
        claim_folder(tiny(model, **changes), tmp_path)
    assert read_plan(tmp_path) == tiny(model)


def test_a_run_without_checkpoints_is_replaced(tmp_path: Path) -> None:
    claim_folder(tiny(settings={"lr": 0.5}), tmp_path)
    claim_folder(tiny(settings={"lr": 0.1}), tmp_path)
    assert read_plan(tmp_path) == tiny(settings={"lr": 0.1})


def test_another_model_is_named_first(tmp_path: Path) -> None:
    claim_folder(tiny("beta-vae"), tmp_path)
    add_checkpoint(tmp_path)
    with pytest.raises(InputError, match="holds a run with model 'beta-vae', not 'moco'"):
        claim_folder(tiny("moco"), tmp_path)


def test_an_explicit_default_is_no_difference(tmp_path: Path) -> None:
    claim_folder(tiny(), tmp_path)
    claim_folder(tiny(settings={"latents": 10, "weight_decay": 0}), tmp_path)
    assert read_plan(tmp_path).settings["latents"] == 10


def test_settings_missing_in_an_older_run_get_their_defaults(tmp_path: Path) -> None:
    made = tiny()
    stored = made.to_json()
    del stored["settings"]["likelihood"], stored["recipe"]["betas"]
    (tmp_path / PLAN_FILE).write_text(json.dumps(stored | {"alebrije": "0.0.1"}))
    claim_folder(made, tmp_path)
    add_checkpoint(tmp_path)
    claim_folder(made, tmp_path)
    with pytest.raises(InputError, match="likelihood 'bernoulli', not 'gaussian'"):
        claim_folder(tiny(settings={"likelihood": "gaussian"}), tmp_path)
    with pytest.raises(InputError, match=r"betas \[0.9, 0.999\], not \[0.5, 0.9\]"):
        claim_folder(replace(made, recipe=replace(made.recipe, betas=(0.5, 0.9))), tmp_path)


def test_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="contains other files and no run"):
        claim_folder(tiny(), tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_leftovers_of_a_killed_start_are_ignored(tmp_path: Path) -> None:
    (tmp_path / f".{PLAN_FILE}.abc.part").write_text("{")
    claim_folder(tiny(), tmp_path)
    assert read_plan(tmp_path) == tiny()


def test_a_file_at_the_path_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(InputError, match="run: cannot be written"):
        claim_folder(tiny(), tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read"),
        ('{"model": "beta-v', "cannot be read"),
        ("\x00\x00", "cannot be read"),
        ("[1, 2]", "not (a|the) plan"),
        ("{}", "not (a|the) plan"),
        ('{"model": "beta-vae"}', "not (a|the) plan"),
    ],
)
def test_a_damaged_plan(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / PLAN_FILE).write_text(text)
    with pytest.raises(InputError, match=f"{PLAN_FILE} .*{words}"):
        read_plan(tmp_path)
    with pytest.raises(InputError):
        claim_folder(tiny(), tmp_path)
    assert (tmp_path / PLAN_FILE).read_text() == text


@pytest.mark.parametrize(
    "damage",
    [{"recipe": ["steps"]}, {"recipe": 5}, {"recipe": {}}, {"recipe": {"betas": None}}],
    ids=str,
)
def test_a_plan_with_a_damaged_part(tmp_path: Path, damage: dict[str, Any]) -> None:
    (tmp_path / PLAN_FILE).write_text(json.dumps(tiny().to_json() | damage))
    with pytest.raises(InputError, match="not a plan that this version can read"):
        read_plan(tmp_path)
    add_checkpoint(tmp_path)
    with pytest.raises(InputError, match="holds a run with"):
        claim_folder(tiny(), tmp_path)


def test_no_plan(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.json cannot be read"):
        read_plan(tmp_path)
