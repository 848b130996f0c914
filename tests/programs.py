"""Programs that start at once: a process that has loaded torch forks for each of them.

Loading torch takes longer than most of what the pages ask of it. What a program does is the same as when it was started
anew: it has a process of its own, with its own arguments, folder and environment, and its first place on the path.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

LOADED = ("torch._dynamo", "alebrije.cli", "alebrije.report.page", "alebrije.studies", "alebrije.train.loop")


class Programs:
    """Runs `alebrije ...` and `python -c ...`, one after another."""

    def __init__(self) -> None:
        ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.server: subprocess.Popen[str] = subprocess.Popen([sys.executable, __file__], text=True, **ends)

    def run(self, command: Sequence[str], folder: Path, environment: Mapping[str, str], said: Path) -> int:
        """The exit code of a command; what it says is in the file `said`."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        asked = {"command": list(command), "folder": str(folder), "environment": dict(environment), "said": str(said)}
        print(json.dumps(asked), file=self.server.stdin, flush=True)
        return int(self.server.stdout.readline())

    def close(self) -> None:
        """End the process that forks."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()


def serve() -> None:
    """Forks for every line that asks for a program, and tells how it ended."""
    for name in LOADED:
        __import__(name)
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            become(**asked)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(command: list[str], folder: str, environment: dict[str, str], said: str) -> None:
    """Be the program from here on."""
    with open(os.devnull) as nothing, open(said, "w") as file:
        for number, end in ((0, nothing), (1, file), (2, file)):
            os.dup2(end.fileno(), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    main = sys.modules["__main__"] = ModuleType("__main__")
    if command[0] == "alebrije":
        code = "from alebrije.cli import main\nmain()"
        sys.argv, sys.path[0] = command, str(Path(sys.executable).parent)
    else:
        *_, code = command
        sys.argv, sys.path[0] = ["-c"], ""
    exec(code, main.__dict__)
    sys.exit()


if __name__ == "__main__":
    serve()
