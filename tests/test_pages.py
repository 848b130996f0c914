"""The pages of docs/: run every command and every Python block, in the order of the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import Program, Programs

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"console", "python", "text", "json"}
FILE = re.compile(r'title="(?P<name>[^"]+)"')


def blocks(page: Path) -> list[tuple[str, str]]:
    """The kind and the body of every block of code."""
    return [(match["kind"].strip(), match["body"]) for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def follow(page: Path, folder: Path, programs: Programs) -> int:
    """Run the blocks of a page in a folder, and count the programs."""
    home = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
    done = 0
    for kind, body in blocks(page):
        language, _, options = kind.partition(" ")
        assert language in KINDS, f"{page.name}: a block of {language!r} is neither run nor called text"
        if file := FILE.search(options):
            path = folder / file["name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
        elif language == "python":
            run(programs, ["python", "-c", body], folder, home)
            done += 1
        elif language == "console":
            for line in body.splitlines():
                if line.startswith("$ "):
                    run(programs, shlex.split(line[2:]), folder, home)
                    done += 1
    return done


def run(programs: Programs, command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Run a program, with one untrained twin in place of three: nothing here reads the numbers."""
    assert not {"|", "&", "&&", ";", "<", ">"} & set(command), f"{command} needs a shell, and there is none"
    output = folder / ".output"
    (code,) = programs.run(Program(command, folder, environment, output, twins=1))
    assert code == 0, f"{' '.join(command)}\n{output.read_text()[-5000:]}"
    output.unlink()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path, programs: Programs) -> None:
    expected = sum(
        line.startswith("$ ") for kind, body in blocks(page) if kind == "console" for line in body.splitlines()
    )
    expected += sum(kind == "python" for kind, _ in blocks(page))
    assert follow(page, tmp_path, programs) == expected


def test_a_failing_command_fails_the_page(tmp_path: Path, programs: Programs) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ alebrije metrics\n$ alebrije metricks\n```\n")
    with pytest.raises(AssertionError, match="metricks"):
        follow(page, tmp_path, programs)
    page.write_text("```sh\nalebrije metrics\n```\n")
    with pytest.raises(AssertionError, match="neither run nor called text"):
        follow(page, tmp_path, programs)


def test_programs_are_isolated(tmp_path: Path, programs: Programs) -> None:
    """All are forked from one process that has torch, and none sees what another did to it."""
    first, second, said = tmp_path / "first", tmp_path / "second", tmp_path / "said"
    first.mkdir()
    second.mkdir()
    spoil = "import os, torch; torch.zeros = None; os.environ['SPOILT'] = '1'; os.chdir('/'); raise SystemExit(7)"
    assert programs.run(Program(["python", "-c", spoil], first, os.environ, said)) == [7]
    show = "import os, sys, torch; print(os.getcwd(), sys.argv, os.environ.get('SPOILT'), float(torch.zeros(1)))"
    assert programs.run(Program(["python", "-c", show], second, {"TOLD": "1"}, said)) == [0]
    assert said.read_text() == f"{second} ['-c'] None 0.0\n"


def test_commands_in_the_text_exist() -> None:
    """Subcommands that the running text names are subcommands."""
    listing = subprocess.run([sys.executable, "-m", "alebrije", "--help"], capture_output=True, text=True, check=True)
    known = set(re.findall(r"\b[a-z]+\b", listing.stdout))
    for page in [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for name in re.findall(r"`alebrije ([a-z]+)", page.read_text(encoding="utf-8")):
            assert name in known, f"{page.name} names `alebrije {name}`"
