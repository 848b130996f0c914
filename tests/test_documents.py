"""The documents say what the code does."""

from pathlib import Path

import pytest

from alebrije.report.tables import catalog_markdown

ROOT = Path(__file__).parent.parent


def test_the_metric_table_of_the_readme_is_that_of_the_catalog():
    assert catalog_markdown() in (ROOT / "README.md").read_text(encoding="utf-8"), "run `make readme`"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "constraints.txt"])
def test_documents_are_there(name):
    assert (ROOT / name).stat().st_size > 100


def test_constraints_pin_every_dependency():
    import re
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=!~ ]", line, maxsplit=1)[0].lower() for line in wanted}
    pinned = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    assert names <= pinned
