"""The pages of docs/: every command in them is run, in the order in which a reader meets them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from programs import Program, Programs

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {"console", "python", "text", "json", ""}


def blocks(page: Path) -> list[tuple[str, str]]:
    """The kind and the body of every block of code."""
    return [(found["kind"].strip(), found["body"]) for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def follow(page: Path, folder: Path, programs: Programs) -> int:
    """Does in a folder what a page says, and counts what was done."""
    home = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
    done = 0
    for kind, body in blocks(page):
        language, _, file = kind.partition(" file=")
        assert language in KINDS, f"{page.name}: a block of {language!r} is neither run nor called text"
        if file:
            (folder / file).write_text(body)
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
    assert not {"|", "&", "&&", ";", "<", ">"} & set(command), f"{command} needs a shell, and here is none"
    said = folder / ".said"
    (code,) = programs.run(Program(command, folder, environment, said))
    assert code == 0, f"{' '.join(command)}\n{said.read_text()[-5000:]}"
    said.unlink()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_says_works(page: Path, tmp_path: Path, programs: Programs) -> None:
    wanted = sum(
        line.startswith("$ ") for kind, body in blocks(page) if kind == "console" for line in body.splitlines()
    )
    wanted += sum(kind == "python" for kind, _ in blocks(page))
    assert follow(page, tmp_path, programs) == wanted


def test_a_command_that_fails_is_noticed(tmp_path: Path, programs: Programs) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ alebrije metrics\n$ alebrije metricks\n```\n")
    with pytest.raises(AssertionError, match="metricks"):
        follow(page, tmp_path, programs)
    page.write_text("```sh\nalebrije metrics\n```\n")
    with pytest.raises(AssertionError, match="neither run nor called text"):
        follow(page, tmp_path, programs)


def test_programs_know_nothing_of_each_other(tmp_path: Path, programs: Programs) -> None:
    """They come from one process that has torch, and none sees what another has done to it."""
    first, second, said = tmp_path / "first", tmp_path / "second", tmp_path / "said"
    first.mkdir()
    second.mkdir()
    spoil = "import os, torch; torch.zeros = None; os.environ['SPOILT'] = '1'; os.chdir('/'); raise SystemExit(7)"
    assert programs.run(Program(["python", "-c", spoil], first, os.environ, said)) == [7]
    show = "import os, sys, torch; print(os.getcwd(), sys.argv, os.environ.get('SPOILT'), float(torch.zeros(1)))"
    assert programs.run(Program(["python", "-c", show], second, {"TOLD": "1"}, said)) == [0]
    assert said.read_text() == f"{second} ['-c'] None 0.0\n"


def test_commands_outside_of_blocks_exist() -> None:
    """Subcommands that are named in the running text are subcommands."""
    listing = subprocess.run([sys.executable, "-m", "alebrije", "--help"], capture_output=True, text=True, check=True)
    known = set(re.findall(r"\b[a-z]+\b", listing.stdout))
    for page in [*PAGES, ROOT / "README.md"]:
        for name in re.findall(r"`alebrije ([a-z]+)", page.read_text(encoding="utf-8")):
            assert name in known, f"{page.name} speaks of `alebrije {name}`"
