"""A fault campaign: damage files, kill processes, fill the disk, share folders, and compare what comes out.

    python tools/fault_campaign.py            # all of it, two to ten minutes on two cores
    python tools/fault_campaign.py --quick    # a sample, as in the tests

Every attempt copies an undisturbed folder or starts from nothing, causes a fault, runs the command, and compares the
values with those of an undisturbed run. An attempt is *repaired* if all values are right, *refused* if the command
ends with a sentence and shows no wrong value, and *wrong* otherwise: another value, a traceback, or no end.

Commands run in forks of this process, which has torch loaded. A full and a read-only disk need the right to mount.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

LOADED = ("torch._dynamo", "rich.console", "matplotlib.figure", "jinja2", "scipy.stats")
OURS: tuple[str, ...] = (
    "cli.progress",
    "evaluate",
    "report.page",
    "data.datasets",
    "models.autoencoders",
    "train.run",
    "studies.run",
)
OURS += (
    "studies.run",
    "instruments.grouping.study",
    "instruments.grouping.section",
    "studies.commands",
    "adapters.check",
)
CACHE = "cache"  # the machine's cache of `eval`, beside its results; the other commands run without one
HANG = 240.0  # seconds after which a command counts as hanging
REPAIRED, REFUSED, WRONG = "repaired", "refused", "wrong"

EVAL = ("eval", "pixels", "--tests", "grouping", "--size", "tiny", "--jobs", "1", "--out", "results")
STUDY = ("study", "grouping", "--size", "tiny", "--models", "pixels", "oracle", "noise", "--out", "results")
MAKE = ("make", "sprites", "--n", "700", "--size", "16", "--out", "images")
_BRIEF = ("--preset", "tiny", "--set", "steps=8", "batch=8", "--save-every", "2", "--images", "32", "--device", "cpu")
TRAIN = ("train", "beta-vae", *_BRIEF, "--out", "run")


# ------------------------------------------------------------------------------------------------------- commands


@dataclass(frozen=True)
class Outcome:
    """How a command ended; no code means that it did not end by itself."""

    code: int | None
    text: str
    seconds: float


def start(words: Sequence[str], folder: Path, output: int, largest_file: int | None = None) -> int:
    """Fork a process that runs `alebrije` in a folder, in a process group of its own, and writes to a pipe."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        os.setpgid(0, 0)
        with open(os.devnull) as nothing:
            for number, end in ((0, nothing.fileno()), (1, output), (2, output)):
                os.dup2(end, number)
        os.chdir(folder)
        os.environ["ALEBRIJE_CACHE"] = CACHE if words[0] == "eval" else "off"
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        sys.argv = ["alebrije", *words]
        from alebrije.cli import main

        try:
            main(list(words))
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def finish(child: int, reader: int, seconds: float = HANG) -> Outcome:
    """Wait for a process and read what it prints; after `seconds` it is killed with its children."""
    begun, code, said = time.monotonic(), None, b""
    os.set_blocking(reader, False)
    while time.monotonic() - begun < seconds:
        said += _available(reader)
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(0.01)
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    said += _available(reader)
    os.close(reader)
    return Outcome(code, said.decode(errors="replace"), time.monotonic() - begun)


def _available(reader: int) -> bytes:
    """What can be read from a pipe without waiting."""
    said = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(reader, 65_536):
            said += part
    return said


def run(words: Sequence[str], folder: Path, **limits: Any) -> Outcome:
    """Run a command to its end."""
    reader, writer = os.pipe()
    child = start(words, folder, writer, **limits)
    os.close(writer)
    return finish(child, reader)


# --------------------------------------------------------------------------------------------------------- values


def cell_values(folder: Path) -> dict[str, Any]:
    """What the library reads from a result folder: cell -> scores and intervals."""
    from alebrije.studies.folder import ResultFolder

    done = [result for result in ResultFolder(folder / "results").store.all() if result.status == "done"]
    return {result.key: {name: value.model_dump() for name, value in result.values.items()} for result in done}


def image_values(folder: Path) -> dict[str, Any]:
    """What the library reads from an image cache: a digest of each array."""
    from alebrije.data import open_cache

    cache = open_cache(folder / "images")
    return {name: hashlib.sha256(cache[name][:].tobytes()).hexdigest() for name in cache.arrays} | cache.settings


def weight_values(folder: Path) -> dict[str, Any]:
    """What the library reads from the run of a training: the fingerprint of the model."""
    from alebrije import adapters

    encoder = adapters.load(f"checkpoint:{folder / 'run'}")
    return {"weights": encoder.fingerprint, "size": encoder.preprocessing.size, "plan": repr(encoder.plan)}


READERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "eval": cell_values,
    "study": cell_values,
    "make": image_values,
    "train": weight_values,
}


def values_of(words: Sequence[str], folder: Path) -> tuple[dict[str, Any], str]:
    """The values in a folder after a command, and the sentence if they were refused."""
    from alebrije.errors import InputError

    try:
        return json.loads(json.dumps(READERS[words[0]](folder), default=str)), ""
    except InputError as error:
        return {}, str(error)


def judge(words: Sequence[str], outcomes: Sequence[Outcome], folder: Path, expected: dict[str, Any]) -> tuple[str, str]:
    """The verdict on an attempt, and the reason."""
    for outcome in outcomes:
        if outcome.code is None:
            return WRONG, f"no end after {HANG:.0f} seconds"
        if "Traceback (most recent call last)" in outcome.text or outcome.code not in (0, 1, 2):
            return WRONG, f"exit code {outcome.code}: {outcome.text[-300:]}"
    with contextlib.redirect_stderr(io.StringIO()):
        found, sentence = values_of(words, folder)
    for name, value in found.items():
        if expected.get(name) != value:
            return WRONG, f"other values of {name}"
    if found == expected and not outcomes[-1].code:
        return REPAIRED, ""
    refused = next((outcome.text.strip() for outcome in outcomes if outcome.code and outcome.text.strip()), "")
    spoken = sentence or refused  # output of a command that succeeded does not explain a missing value
    return (REFUSED, spoken[-300:]) if spoken else (WRONG, "values are missing without a word")


# --------------------------------------------------------------------------------------------------------- damage


def _flip(path: Path, draw: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(bytes(content))


def _other_content(path: Path, draw: random.Random) -> None:
    """Other bytes behind the header of an array, in the same number: only a checksum can notice them."""
    content = path.read_bytes()
    kept = content[:128] if content.startswith(b"\x93NUMPY") else b""
    path.write_bytes(kept + draw.randbytes(len(content) - len(kept)))


def _replace_by(make: Callable[[Path], object]) -> Callable[[Path, random.Random], None]:
    def damage(path: Path, draw: random.Random) -> None:
        path.unlink()
        make(path)

    return damage


def _other(path: Path, draw: random.Random) -> None:
    """The content of another file of the folder, of the same kind if there is one."""
    top = next(parent for parent in path.parents if parent.name in ("results", "images", "run", CACHE))
    others = [each for each in sorted(top.rglob("*")) if each.is_file() and each != path]
    alike = [each for each in others if each.suffix == path.suffix]
    path.write_bytes(draw.choice(alike or others).read_bytes())


DAMAGES: dict[str, Callable[[Path, random.Random], object]] = {
    "bit flip": _flip,
    "truncated": lambda path, draw: os.truncate(path, draw.randrange(max(path.stat().st_size, 1))),
    "empty": lambda path, draw: os.truncate(path, 0),
    "deleted": lambda path, draw: path.unlink(),
    "bytes appended": lambda path, draw: path.write_bytes(path.read_bytes() + draw.randbytes(9)),
    "garbage": lambda path, draw: path.write_bytes(draw.randbytes(max(path.stat().st_size, 9))),
    "other content": _other_content,
    "another file": _other,
    "pipe": _replace_by(os.mkfifo),
    "folder": _replace_by(Path.mkdir),
    "endless device": _replace_by(lambda path: path.symlink_to("/dev/zero")),
}


def damage_attempt(
    words: Sequence[str], whole: Path, name: str, kind: str, seed: int, expected: dict[str, Any], work: Path
) -> tuple[str, str]:
    """Damage one file of a copy of a folder, run the command that filled it, and compare."""
    shutil.copytree(whole, work / "copy", symlinks=True)
    path = work / "copy" / name
    DAMAGES[kind](path, random.Random(f"{seed} {name} {kind}"))
    outcomes = []
    if "cells" in path.parts:
        outcomes.append(run(("results", "results", "--format", "json"), work / "copy"))
        before = judge(words, outcomes, work / "copy", expected)  # no wrong value before it is computed again
        if before[0] == WRONG and "without a word" not in before[1]:
            return before
    elif {"data", "runs", CACHE} & set(path.parts):
        shutil.rmtree(work / "copy" / "results" / "cells")  # so that the damaged file is needed
    outcomes.append(run(words, work / "copy"))
    return judge(words, outcomes, work / "copy", expected)


# ------------------------------------------------------------------------------------------- kills, disks, company


def kill_attempt(words: Sequence[str], seconds: float, seed: int, expected: Any, work: Path) -> tuple[str, str]:
    """Kill a command at a random moment, up to three times, then let the same command end."""
    draw = random.Random(seed)
    for _ in range(draw.randint(1, 3)):
        with open(os.devnull, "w") as nothing:
            child = start(words, work, nothing.fileno())
        time.sleep(draw.uniform(0, seconds))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL) if draw.random() < 0.7 else os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return judge(words, [run(words, work)], work, expected)


def limit_attempt(words: Sequence[str], seed: int, expected: Any, work: Path) -> tuple[str, str]:
    """A disk that refuses files beyond some size; afterwards the same command has room."""
    limit = random.Random(seed).choice((0, 500, 3_000, 20_000, 100_000))
    first = run(words, work, largest_file=limit)
    verdict = judge(words, [first], work, expected)
    return verdict if verdict[0] == WRONG else judge(words, [run(words, work)], work, expected)


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """A disk of a few kilobytes, mounted at the folder."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def full_disk_attempt(words: Sequence[str], seed: int, expected: Any, work: Path) -> tuple[str, str]:
    """A full disk, which gets more room afterwards."""
    with small_disk(work / "disk", random.Random(seed).choice((4, 16, 64, 200))):
        first = run(words, work / "disk")
        verdict = judge(words, [first], work / "disk", expected)
        if verdict[0] == WRONG:
            return verdict
        subprocess.run(["mount", "-o", "remount,size=64m", work / "disk"], check=True)
        return judge(words, [run(words, work / "disk")], work / "disk", expected)


def read_only_attempt(words: Sequence[str], whole: Path, seed: int, expected: Any, work: Path) -> tuple[str, str]:
    """A read-only disk: empty, or with everything on it already."""
    with small_disk(work / "disk", 65_536):
        if seed % 2:
            shutil.copytree(whole, work / "disk", dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", work / "disk"], check=True)
        return judge(words, [run(words, work / "disk")], work / "disk", expected)


def company_attempt(words: Sequence[str], count: int, expected: Any, work: Path) -> tuple[str, str]:
    """Several processes that run the same command on one folder at the same time."""
    pipes = [os.pipe() for _ in range(count)]
    children = [start(words, work, writer) for _, writer in pipes]
    for _, writer in pipes:
        os.close(writer)
    outcomes = [finish(child, reader) for child, (reader, _) in zip(children, pipes, strict=True)]
    first = judge(words, outcomes, work, expected)
    if first[0] == WRONG:
        return first
    return judge(words, [*outcomes, run(words, work)], work, expected)


# ------------------------------------------------------------------------------------------------------- campaign


@dataclass(frozen=True)
class Attempt:
    """One fault: the row of the table that it counts in, its name, and what it does in a folder of its own."""

    row: str
    name: str
    work: Callable[[Path], tuple[str, str]]


@dataclass(frozen=True)
class Whole:
    """An undisturbed run: its folder, its values and its seconds."""

    words: Sequence[str]
    folder: Path
    values: dict[str, Any]
    seconds: float

    @property
    def files(self) -> list[str]:
        """All files in the folder."""
        return sorted(str(each.relative_to(self.folder)) for each in self.folder.rglob("*") if each.is_file())


def undisturbed(words: Sequence[str], folder: Path) -> Whole:
    """Run a command in a new folder."""
    folder.mkdir()
    outcome = run(words, folder)
    if outcome.code:
        raise SystemExit(f"alebrije {' '.join(words)} fails without any fault: {outcome.text}")
    values, sentence = in_fork(partial(values_of, words, folder), folder.with_suffix(".json"))
    if not values:
        raise SystemExit(f"an undisturbed run has no values: {sentence}")
    return Whole(words, folder, values, outcome.seconds)


def in_fork(call: Callable[[], Any], into: Path) -> Any:
    """The JSON value of a call in a fork, so that this process starts no threads."""
    child = os.fork()
    if child == 0:
        try:
            into.write_text(json.dumps(call(), default=str))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit("the values of an undisturbed run cannot be read")
    return json.loads(into.read_text())


def attempts(wholes: dict[str, Whole], seed: int, kills: int, mounts: bool, quick: bool) -> list[Attempt]:
    """Every fault of the campaign; a sample of them if it is to be quick."""
    found = []
    for whole in wholes.values():
        command, words = whole.words[0], whole.words
        # what a study stores is like what `eval` stores, except the arrays that are not in the cache
        for name in whole.files if command != "study" else [one for one in whole.files if "/data/" in one]:
            row = "damaged file, machine cache" if name.startswith(CACHE) else f"damaged file, {command}"
            for kind in DAMAGES:
                work = partial(damage_attempt, words, whole.folder, name, kind, seed, whole.values)
                found.append(Attempt(row, f"{name}: {kind}", work))
        for number in range(kills):
            work = partial(kill_attempt, words, whole.seconds, seed + number, whole.values)
            found.append(Attempt(f"kill -9, {command}", f"number {number}", work))
        for number in range(max(kills // 3, 1)):
            work = partial(limit_attempt, words, seed + number, whole.values)
            found.append(Attempt("limit on the size of files", f"{command} {number}", work))
            if mounts:
                work = partial(full_disk_attempt, words, seed + number, whole.values)
                found.append(Attempt("full disk", f"{command} {number}", work))
                work = partial(read_only_attempt, words, whole.folder, number, whole.values)
                found.append(Attempt("read-only disk", f"{command} {number}", work))
        for count in (2, 4):
            work = partial(company_attempt, words, count, whole.values)
            found.append(Attempt(f"{count} processes on one folder", command, work))
    if not quick:
        return found
    draw, rows = random.Random(seed), sorted({each.row for each in found if each.row[0] != "4"})
    return [
        each
        for row in rows
        for each in draw.sample([one for one in found if one.row == row], 2 if "file," in row else 1)
    ]


def can_mount(folder: Path) -> bool:
    """Whether this process may mount a small disk."""
    try:
        with small_disk(folder / "probe", 64):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def carry_out(todo: Sequence[Attempt], folder: Path, workers: int) -> dict[str, Counter[str]]:
    """Run the attempts, a few at a time, and count their verdicts by row."""
    counts: dict[str, Counter[str]] = {each.row: Counter() for each in todo}
    waiting = list(enumerate(todo))
    running: dict[int, tuple[Attempt, Path]] = {}
    begun = time.monotonic()
    while waiting or running:
        while waiting and len(running) < workers:
            number, attempt = waiting.pop(0)
            work = folder / f"attempt-{number}"
            work.mkdir()
            child = os.fork()
            if child == 0:
                _attempt_and_exit(attempt, work)
            running[child] = attempt, work
        child, _ = os.wait()
        if (ended := len(todo) - len(waiting) - len(running) + 1) % 50 == 0:
            print(f"{ended} of {len(todo)} attempts, {(time.monotonic() - begun) / 60:.1f} minutes", flush=True)
        attempt, work = running.pop(child)
        answer = work.with_suffix(".json")
        verdict, why = json.loads(answer.read_text()) if answer.exists() else (WRONG, "the attempt itself failed")
        counts[attempt.row][verdict] += 1
        if verdict == WRONG:
            print(f"wrong: {attempt.row}: {attempt.name}: {why}", flush=True)
        elif os.environ.get("CAMPAIGN_SHOWS_ALL"):
            print(f"{verdict}: {attempt.row}: {attempt.name}: {why[-160:]!r}", flush=True)
        shutil.rmtree(work, ignore_errors=True)
    print(f"{len(todo)} attempts in {(time.monotonic() - begun) / 60:.1f} minutes", flush=True)
    return counts


def _attempt_and_exit(attempt: Attempt, work: Path) -> None:
    try:
        answer = attempt.work(work)
    except BaseException:
        answer = WRONG, traceback.format_exc()[-600:]
    work.with_suffix(".json").write_text(json.dumps(answer))
    os._exit(0)


def table(counts: dict[str, Counter[str]]) -> str:
    """The counts as a table in Markdown."""
    lines = ["| fault | attempts | repaired | refused | wrong |", "| --- | --- | --- | --- | --- |"]
    total: Counter[str] = sum(counts.values(), Counter())
    for row, each in [*counts.items(), ("all", total)]:
        lines.append(f"| {row} | {sum(each.values())} | {each[REPAIRED]} | {each[REFUSED]} | {each[WRONG]} |")
    return "\n".join(lines)


def main() -> None:
    """Run the campaign; exit with 1 if an outcome was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=12, help="kills of each command")
    parser.add_argument("--workers", type=int, default=2, help="attempts at a time")
    parser.add_argument("--only", default="", help="only rows that contain this text")
    parser.add_argument("--quick", action="store_true", help="a sample: one or two attempts of each kind")
    options = parser.parse_args()
    for name in (*LOADED, *(f"alebrije.{name}" for name in OURS)):
        __import__(name)
    gc.freeze()  # a collection in a fork would copy all memory
    import torch

    torch.set_num_threads(1)  # no pool of threads that a fork would miss
    with tempfile.TemporaryDirectory(prefix="campaign-") as temporary:
        folder = Path(temporary)
        mounts = can_mount(folder)
        if not mounts:
            print("This process may not mount disks, so the full and the read-only disk are left out.")
        commands = (EVAL, MAKE, TRAIN) if options.quick else (EVAL, STUDY, MAKE, TRAIN)
        wholes = {words[0]: undisturbed(words, folder / f"whole-{words[0]}") for words in commands}
        for whole in wholes.values():
            print(f"{whole.words[0]}: {whole.seconds:.1f} s, {len(whole.files)} files", flush=True)
        todo = attempts(wholes, options.seed, 1 if options.quick else options.kills, mounts, options.quick)
        counts = carry_out([each for each in todo if options.only in each.row], folder, options.workers)
    print(table(counts))
    sys.exit(any(each[WRONG] for each in counts.values()))


if __name__ == "__main__":
    main()
