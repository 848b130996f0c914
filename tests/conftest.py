"""The order of the tests, and genuine data for those that compare with it; they are skipped where it is absent."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from alebrije.data.machine_cache import FOLDER
from alebrije.studies.run import _yardstick_jobs as yardstick_jobs
from tests.programs import Programs

YARDSTICKS = "alebrije.studies.run._yardstick_jobs"
ROOT = Path(__file__).parents[1]
SLOW = [
    "test_pages",
    "test_fault_campaign",
    "models/test_slot_attention",
    "studies/test_jobs",
    "cli/test_eval",
    "instruments/imagination/test_study",
    "cli/test_train",
    "cli/test_make",
    "models/test_state_space",
    "demo/test_run",
    "models/test_autoencoders",
    "cli/test_study",
    "train/test_loop",
    "instruments/imagination/test_values",
    "data/test_cache",
    "worlds/test_user_worlds",
    "studies/test_run",
    "demo/test_toys_page",
    "metrics/test_record",
    "models/test_imagination",
    "instruments/analogy/test_values",
    "instruments/analogy/test_study",
    "instruments/analogy/test_section",
    "instruments/analogy/test_long_codes",
    "instruments/analogy/test_codes",
    "data/test_svib",
    "data/test_grids",
    "worlds/test_analogies",
    "report/test_page",
    "report/test_browser",
    "models/test_fused",
    "render/test_clevrtex",
    "adapters/test_specs",
    "adapters/test_hubs",
    "instruments/neurons/test_study",
    "instruments/neurons/test_generalisation",
    "test_documents",
    "scenes/test_combinations",
    "models/test_moco",
    "train/test_every_model",
    "cli/test_score",
    "cli/test_show",
    "cli/test_results",
    "test_evaluate",
    "train/test_run",
    "train/test_held_out",
    "instruments/grouping/test_study",
    "instruments/grouping/test_slots",
    "instruments/imagination/test_head",
    "worlds/test_world",
    "instruments/neurons/test_snc",
]


def pytest_configure(config: pytest.Config) -> None:
    """All tests share a new cache of world images: what one has rendered, no other renders again."""
    if not hasattr(config, "workerinput"):
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="alebrije-cache-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache of this run."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(FOLDER), ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest files first, so that no worker waits for another at the end; `make check` leaves them out."""
    rank = {ROOT / "tests" / f"{name}.py": number for number, name in enumerate(SLOW)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
    for item in items:
        if item.path in rank:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    """Starts programs that need torch without loading it each time."""
    found = Programs()
    yield found
    found.close()


def _genuine(name: str) -> Path:
    """`samples` or `combinations` of the folder of the released SVIB samples."""
    folder = Path(os.environ.get("ALEBRIJE_SVIB_SAMPLES") or ROOT / "../shared/svib")
    if not (folder / name).is_dir():
        pytest.skip(f"set ALEBRIJE_SVIB_SAMPLES to a folder of the released SVIB samples that has {name}/")
    return folder / name


@pytest.fixture(scope="session")
def svib_samples() -> Path:
    """Released episodes: {dSprites,CLEVR,CLEVRTex}/{Single,Multiple}_{Atomic,Non-Atomic}/..."""
    return _genuine("samples")


@pytest.fixture(scope="session")
def svib_combinations() -> Path:
    """Released lists of combinations: {clevr,clevrtex}_{core,test,train}_binds*.json"""
    return _genuine("combinations")


@pytest.fixture(scope="package", autouse=True)
def _no_yardsticks() -> Iterator[None]:
    """Yardsticks take four times as long as the model. Programs that tests start always compute them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(YARDSTICKS, lambda *arguments: [])
        yield


@pytest.fixture(autouse=True)
def _yardsticks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests marked `yardsticks` compute them."""
    if request.node.get_closest_marker("yardsticks") is not None:
        monkeypatch.setattr(YARDSTICKS, yardstick_jobs)
