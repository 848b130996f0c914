"""The documents agree with the code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.test_imports import BASICS, ROOMS

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)#]*)(?P<anchor>#[^)]*)?\)")
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "tools")]

import agreement  # noqa: E402
import generate  # noqa: E402


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "constraints.txt"])
def test_documents_exist(name: str) -> None:
    assert (ROOT / name).stat().st_size > 100


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 8 * 1024


def test_constraints_pin_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *extras["dev"], *extras["docs"]]
    names = {re.split(r"[<>=!~ \[]", line, maxsplit=1)[0].lower() for line in named}
    pinned = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    assert names <= pinned


def test_contributing_lists_the_rooms_in_order() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = [match["name"] for match in generate.ROOM.finditer(text)]
    assert listed == [room for room in ROOMS if not room.startswith("__")]
    assert all(f"`{name}`" in text for name in BASICS)


@pytest.mark.parametrize("name", generate.TABLES)
def test_generated_tables_are_tables(name: str) -> None:
    rows = [line for line in generate.TABLES[name]().splitlines() if line.startswith("|")]
    assert len(rows) > 2
    assert "nan" not in "".join(rows)


def test_every_generated_table_is_on_a_page() -> None:
    marks = [mark["name"] for page in PAGES for mark in generate.MARK.finditer(page.read_text(encoding="utf-8"))]
    assert sorted(marks) == sorted(generate.TABLES)


def test_the_table_of_metrics_has_every_metric() -> None:
    from alebrije.metrics import catalog

    assert all(f"| `{name}` |" in generate.metrics() for name in catalog())


def test_agreement_has_every_metric() -> None:
    from alebrije.metrics import catalog

    stored = json.loads(agreement.RECORD.read_text(encoding="utf-8"))
    compared = {name for rows in stored["rows"].values() for row in rows for name in row["metrics"]}
    assert set(catalog()) <= compared


def test_the_page_of_agreement_shows_its_record() -> None:
    stored = json.loads(agreement.RECORD.read_text(encoding="utf-8"))
    page = agreement.PAGE.read_text(encoding="utf-8")
    assert all(made in page for made in agreement.tables(stored).values())


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    """`make docs` also checks links, but only between pages of the site."""
    for link in LINK.finditer(page.read_text(encoding="utf-8")):
        target = link["target"]
        if target and not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"- {page.name}\n" not in navigation] == []


def test_root_documents_become_pages() -> None:
    for page, document in generate.ROOT_PAGES.items():
        text = generate.root_page(page)
        assert "](docs/" not in text
        assert not re.search(r"\]\((README|CONTRIBUTING|CHANGELOG)\.md", text), document


def test_every_room_has_a_page_of_the_api_reference() -> None:
    pages = dict(generate.api_pages())
    assert set(pages) == {"api/index.md", *(f"api/{room}.md" for room in generate.rooms())}
    assert all(f"alebrije.{room}" in pages["api/index.md"] for room in generate.rooms())


def test_the_instrument_of_the_guide_works(tmp_path: Path) -> None:
    """The example in docs/add-an-instrument.md runs as if it were a fifth folder of alebrije.instruments."""
    page = (ROOT / "docs" / "add-an-instrument.md").read_text(encoding="utf-8")
    files = re.findall(
        r'^```python title="src/alebrije/instruments/(brightness/\w+\.py)"\n(.*?)^```$', page, re.M | re.S
    )
    assert len(files) == 6
    for name, body in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(body)
    study = ["study", "brightness", "--size", "tiny", "--out", "results"]
    script = (
        "from alebrije import instruments\n"
        f"instruments.__path__.append({str(tmp_path)!r})\n"
        "instruments.NAMES += ('brightness',)\n"
        "from alebrije.cli import main\n"
        f"main({study}); main(['report', 'results'])\n"
        "main(['eval', 'oracle', '--tests', 'brightness', '--size', 'tiny', '--out', 'results'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Its codes predict the brightness (R2 0.95)" in done.stdout
    report = (tmp_path / "results" / "report.html").read_text(encoding="utf-8")
    assert all(f"Its codes {words} the brightness" in report for words in ("predict", "do not predict"))
