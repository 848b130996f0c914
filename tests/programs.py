"""Programs that start at once: a process that has loaded torch forks for each of them.

Loading torch takes longer than most of what the pages ask of it. What a program does is the same as when it was started
anew: it has a process of its own, with its own arguments, folder and environment, and its first place on the path.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

LOADED = ("torch._dynamo", "alebrije.cli", "alebrije.report.page", "alebrije.studies", "alebrije.train.loop")


@dataclass(frozen=True)
class Program:
    """`alebrije ...` or `python -c ...`, where it is run, the file that gets all that it says, and how many untrained
    twins of each model it examines.
    """

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    said: Path
    twins: int = 3


class Programs:
    """Runs programs, one after another or beside each other."""

    def __init__(self) -> None:
        ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.server: subprocess.Popen[str] = subprocess.Popen([sys.executable, __file__], text=True, **ends)

    def run(self, *programs: Program) -> list[int]:
        """The exit codes of programs that run at the same time."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        asked = [vars(program) | {"environment": dict(program.environment)} for program in programs]
        print(json.dumps(asked, default=str), file=self.server.stdin, flush=True)  # paths as they are written
        codes: list[int] = json.loads(self.server.stdout.readline())
        return codes

    def close(self) -> None:
        """End the process that forks."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()


def serve() -> None:
    """Forks for the programs of every line, and tells how they ended."""
    for name in LOADED:
        __import__(name)
    gc.freeze()  # nobody looks for rubbish in what is shared: to look would copy it, most of all when a program ends
    for line in sys.stdin:
        children = []
        for program in json.loads(line):
            children.append(os.fork())
            if children[-1] == 0:
                become(**program)
        print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], flush=True)


def become(command: list[str], folder: str, environment: dict[str, str], said: str, twins: int) -> None:
    """Be the program from here on."""
    from alebrije.studies.untrained import untrained_twins

    untrained_twins.__defaults__ = (twins,)
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
