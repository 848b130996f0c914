"""Worlds and metrics of users, by their import path."""

from __future__ import annotations

from pathlib import Path

import pytest

from alebrije import metrics, worlds
from alebrije.errors import InputError

CODE = """
from alebrije.metrics import register
from alebrije.worlds import get

copy = get("sprites")
number = 3

def function():
    raise SystemExit("it was called")

@register("user-{name}", title="t", instrument="neurons", inputs=("codes", "factors"), cites="c", invariances=())
def metric(codes, factors):
    return 0.5
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"user_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(CODE.replace("{name}", name.replace("_", "-")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("alebrije.metrics.record._CATALOG", metrics.catalog())  # undone after the test
    return name


def test_a_world_by_its_import_path(module: str) -> None:
    world = worlds.get(f"{module}:copy")
    assert world.name == f"{module}:copy"
    assert world.sample(3, seed=4).equals(worlds.get("sprites").sample(3, seed=4))


def test_a_name_that_may_come_from_a_file_is_not_called(module: str) -> None:
    with pytest.raises(InputError, match="is function, not a World"):
        worlds.get(f"{module}:function")
    with pytest.raises(InputError, match="is int, not a World"):
        worlds.get(f"{module}:number")
    with pytest.raises(InputError, match="did you mean 'copy'"):
        worlds.get(f"{module}:coppy")
    with pytest.raises(InputError, match="there is no module"):
        worlds.get("nowhere_at_all:copy")


def test_a_metric_by_its_import_path(module: str) -> None:
    record = metrics.find(f"{module}:metric")
    assert record(None, None) == 0.5
    assert record.name.startswith("user-")
    with pytest.raises(InputError, match="is not a metric"):
        metrics.find(f"{module}:function")
