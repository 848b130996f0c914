"""Files are opened only if they are regular and of a plausible size, and only by `alebrije.files`."""

from __future__ import annotations

import ast
import os
import socket
import zipfile
from pathlib import Path

import pytest

from alebrije.errors import InputError, plain
from alebrije.files import check_regular, check_unpacked_size, open_regular, parse_json, read_bytes, read_json
from tests.test_imports import MODULES, SOURCE

READERS = {"read_text", "read_bytes", "load_file", "safe_open", "ZipFile", "File", "open", "load", "fromfile", "memmap"}
LOADERS = {"json", "np", "numpy", "torch"}  # whose `load` reads files
# after `open_regular` or `check_regular` of the same file, or of content that was read already
CHECKED = {
    "atomic.py": {"os.open"},  # folders, to sync or lock them
    "cli/__init__.py": {"os.open"},  # /dev/null, to write to it
    "data/array_files.py": {"np.load", "safe_open"},
    "data/checked_arrays.py": {"np.memmap"},
    "data/grids.py": {"zipfile.ZipFile", "h5py.File", "archive.open"},
    "data/mpi3d_file.py": {"archive.open"},  # to write
    "data/movi.py": {"Image.open"},  # of bytes
    "data/svib.py": {"Image.open"},
    "data/user_images.py": {"Image.open"},
    "files.py": {"os.open"},
    "instruments/neurons/images.py": {"zipfile.ZipFile"},
    "metrics/lpips.py": {"load_file", "torch.load", "zipfile.ZipFile"},
    "render/fields.py": {"np.load", "path.open"},  # comes with the library
    "results/published.py": {"files('alebrije.results').joinpath('published', f'{name}.csv').read_text"},
    "studies/folder.py": {"np.load", "zipfile.ZipFile", "os.open"},
    "train/checkpoint.py": {"load_file"},
    "zoo/entries.py": {"load_file"},  # after check_file
}


def opening_calls(text: str) -> set[str]:
    """The calls in a source that open a file for reading, or may do so."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        mode = next((a.value for a in node.args[:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)), "r")
        if isinstance(node.func, ast.Name):
            ours = name in ("read_text", "read_bytes", "load")  # functions of alebrije
        else:
            ours = name == "load" and ast.unparse(node.func).partition(".")[0] not in LOADERS
        if name in READERS and not ours and mode not in ("w", "wb", "a"):
            found.add(ast.unparse(node.func))
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_opens_files_itself(path: Path) -> None:
    assert opening_calls(path.read_text()) <= CHECKED.get(str(path.relative_to(SOURCE)), set())


OPENING = "open(p)|p.open('rb')|p.open()|open(p, 'r+')|Path(p).read_text()|p.read_bytes()|np.load(p)|h5py.File(p, 'r')"
OPENING += "|zipfile.ZipFile(p)|Image.open(p)|load_file(p)|torch.load(p)|json.load(p)"


@pytest.mark.parametrize("text", OPENING.split("|"))
def test_opening_calls_are_noticed(text: str) -> None:
    assert opening_calls(text)


def odd(kind: str, path: Path) -> Path:
    """Something at the path that is no regular file."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    return path


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "socket"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    odd(kind, Path("x"))
    for read in (open_regular, check_regular, read_json, lambda path: read_bytes(path, 10)):
        with pytest.raises(InputError, match=r"^x: is (not a regular file|a folder, not a file)$"):
            read("x")


def test_a_missing_file_stays_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "x")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1 << 40)  # takes no space
    with pytest.raises(InputError, match=r"has 1,099,511,627,776 bytes, more than the 1,000 that are plausible"):
        read_bytes(tmp_path / "x", 1000)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a file without a size is needed")
def test_a_file_without_a_size_is_read_up_to_the_limit() -> None:
    assert len(read_bytes("/proc/self/status", 1 << 20)) > 100
    with pytest.raises(InputError, match="has more than 10 bytes"):
        read_bytes("/proc/self/status", 10)


def test_json_that_is_nested_too_deeply() -> None:
    with pytest.raises(InputError, match=r"^x\.json: is nested too deeply$"):
        parse_json("[" * 200_000, "x.json")


def test_an_archive_that_unpacks_to_too_much(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(1 << 20))
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        check_unpacked_size(archive, "x.zip", 1 << 20)
        with pytest.raises(InputError, match=r"x\.zip: unpacks to 0\.0 GB, more than is plausible"):
            check_unpacked_size(archive, "x.zip", (1 << 20) - 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x07", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("a\rb\x00c\x7f\u202ed", "abcd"),
        ("tab\tand\nline, größe 😀", "tab\tand\nline, größe 😀"),
        ("\x1b]unfinished text stays", "unfinished text stays"),
    ],
)
def test_control_sequences_are_removed(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert str(InputError(f"{text}!")) == f"{expected}!"
