"""Atomic writes: a killed process or a full disk leaves the old file."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from alebrije.atomic import write_atomically
from alebrije.errors import InputError


class TestWriteAtomically:
    def test_writes_everything(self, tmp_path: Path) -> None:
        text = "größe\n" * 100_000
        write_atomically(tmp_path / "x.json", text)
        assert (tmp_path / "x.json").read_bytes() == text.encode("utf-8")
        assert os.listdir(tmp_path) == ["x.json"]

    def test_replaces_what_was_there(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        for text in ("a long first text", "short", ""):
            write_atomically(str(path), text)
            assert path.read_text() == text
        assert os.listdir(tmp_path) == ["x.json"]

    def test_a_relative_path_without_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        write_atomically("x.json", "new")
        assert (tmp_path / "x.json").read_text() == "new"

    @pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
    @pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
    def test_a_failure_leaves_the_old_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
    ) -> None:
        def fail(*_: Any) -> None:
            raise error

        path = tmp_path / "x.json"
        path.write_text("old")
        monkeypatch.setattr(os, call, fail)
        with pytest.raises(type(error)):
            write_atomically(path, "new")
        monkeypatch.undo()
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["x.json"]

    def test_text_that_has_no_encoding_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        path.write_text("old")
        with pytest.raises(UnicodeEncodeError):
            write_atomically(path, "new \udcff")
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["x.json"]

    def test_a_disk_that_is_really_full_leaves_the_old_file(self, tmp_path: Path) -> None:
        """The system refuses to let any file grow past 1,000 bytes."""
        path = tmp_path / "x.json"
        path.write_text("old")
        code = (
            "import resource, signal, sys\n"
            "from alebrije.atomic import write_atomically\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
            "try: write_atomically(sys.argv[1], 'x' * 100_000)\n"
            "except OSError as error: print(type(error).__name__)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
        assert done.stdout == "OSError\n"
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["x.json"]

    def test_killed_before_the_rename_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        path.write_text("old")
        code = (
            "import os, sys, time\n"
            "from alebrije.atomic import write_atomically\n"
            "os.fsync = lambda _: (print('written', flush=True), time.sleep(60))\n"
            "write_atomically(sys.argv[1], 'new' * 100_000)\n"
        )
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "written\n"
            assert path.read_text() == "old"
            child.send_signal(signal.SIGKILL)
        assert child.returncode == -signal.SIGKILL
        assert path.read_text() == "old"
        write_atomically(path, "new")
        assert path.read_text() == "new"

    def test_killed_at_any_moment_leaves_one_whole_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        texts = {letter * 300_000 for letter in "ab"}
        code = (
            "import sys\n"
            "from alebrije.atomic import write_atomically\n"
            "write_atomically(sys.argv[1], 'a' * 300_000)\n"
            "print('started', flush=True)\n"
            "while True:\n"
            "    for letter in 'ba': write_atomically(sys.argv[1], letter * 300_000)\n"
        )
        for wait in (0.0, 0.013, 0.1):
            with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as child:
                assert child.stdout is not None
                assert child.stdout.readline() == "started\n"
                end = time.monotonic() + wait
                while time.monotonic() < end:
                    assert path.read_text() in texts  # a reader never sees half a file
                child.kill()
            assert path.read_text() in texts

    @pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
    def test_the_mode_is_that_of_any_new_file(self, tmp_path: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            write_atomically(tmp_path / "x.json", "new")
            assert os.umask(umask) == umask, "the umask was changed"
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "x.json").stat().st_mode) == 0o666 & ~umask

    def test_refuses_a_folder_and_a_missing_one(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        with pytest.raises(InputError, match="is a folder"):
            write_atomically(tmp_path / "folder", "new")
        with pytest.raises(InputError, match="does not exist"):
            write_atomically(tmp_path / "missing" / "x.json", "new")
        assert os.listdir(tmp_path) == ["folder"]
        assert os.listdir(tmp_path / "folder") == []
