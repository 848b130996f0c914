"""What is imported when, and by whom: a light start, rooms in order, nothing that unpickles."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

SOURCE = Path(str(files("alebrije")))
MODULES = sorted(SOURCE.rglob("*.py"))
HEAVY = {"torch", "numpy", "scipy", "sklearn", "pydantic", "matplotlib", "safetensors", "joblib", "numba"}
# the order of CONTRIBUTING.md: a module imports from its own room and from rooms before it
ROOMS = ["encoding", "scenes", "render", "worlds", "data", "probes", "metrics", "models", "train", "zoo"]
ROOMS += ["adapters", "results", "scoring", "studies", "sheets", "report", "instruments", "evaluate", "demo", "cli"]
ROOMS += ["__main__"]
BASICS = ("arrays", "atomic", "checks", "compiled", "errors", "files", "fingerprint", "graphs", "imports", "kernels")
BASICS += ("seeding", "suggest")


def packages_after(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds after running `code`."""
    show = "import sys, json; sys.stderr.write(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{show}"], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr))


def test_import_is_light() -> None:
    loaded = packages_after("import alebrije; alebrije.__version__; dir(alebrije)")
    assert "alebrije" in loaded
    assert not loaded & HEAVY


def test_help_is_light() -> None:
    loaded = packages_after(
        "import contextlib, io\n"
        "from alebrije.cli import main\n"
        "for arguments in (['--help'], ['score', '--help'], ['version'], ['score', 'a.npz', '--bootstrap', '1']):\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):\n"
        "        main(arguments)"
    )
    assert "tyro" in loaded
    assert not loaded & HEAVY


def test_the_check_would_notice() -> None:
    loaded = packages_after("from alebrije import metrics")
    assert loaded >= {"torch", "numpy"}
    assert not loaded & {"sklearn", "numba"}  # each takes a good part of a second, and most metrics do without


def test_the_installed_command_shows_its_help() -> None:
    script = Path(sys.executable).parent / "alebrije"
    command = [str(script)] if script.exists() else [sys.executable, "-m", "alebrije"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "score" in done.stdout


def test_every_public_room_can_be_reached() -> None:
    import alebrije

    for name in alebrije.__all__:
        assert getattr(alebrije, name) is not None
    with pytest.raises(AttributeError, match="no_such_room"):
        alebrije.no_such_room  # noqa: B018


def room_of(module: str) -> str | None:
    """The room of a dotted module name; None for what is not ours and for what lies before all rooms."""
    parts = module.split(".")
    if parts[0] != "alebrije" or len(parts) == 1 or parts[1] in (*BASICS, "__init__", "__version__"):
        return None
    return parts[1]


def imported_modules(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    """Every module that `module` names in an import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")
            base = parts[: len(parts) - node.level + is_package] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def backward_imports(text: str, module: str, is_package: bool = False) -> list[str]:
    """What `module` imports from rooms further down than its own."""
    own = room_of(module)
    place = len(ROOMS) if module == "alebrije" else -1  # the package itself is the door to all rooms
    place = ROOMS.index(own) if own is not None else place
    wanted = {name: room_of(name) for name in imported_modules(ast.parse(text), module, is_package)}
    return [name for name, room in wanted.items() if room in ROOMS and ROOMS.index(room) > place]


def dotted(path: Path) -> str:
    return ".".join(("alebrije", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_rooms_are_imported_in_order(path: Path) -> None:
    module = dotted(path)
    assert room_of(module) in (None, *ROOMS), "a room that CONTRIBUTING.md does not have"
    assert backward_imports(path.read_text(), module, path.name == "__init__.py") == []


def test_backward_imports_are_noticed() -> None:
    assert backward_imports("from alebrije.scoring import run_metric", "alebrije.metrics.dci")
    assert backward_imports("from alebrije import results", "alebrije.metrics.dci")
    assert backward_imports("def f():\n from ..cli import main", "alebrije.data.array_files")
    assert backward_imports("import alebrije.metrics", "alebrije.probes", is_package=True)
    assert backward_imports("from alebrije import results", "alebrije.errors")
    assert not backward_imports("from alebrije.evaluate import evaluate", "alebrije", is_package=True)
    assert not backward_imports("from alebrije.probes import boost_trees", "alebrije.metrics.dci")
    assert not backward_imports("from .array_files import read_arrays", "alebrije.data", is_package=True)


BARRED = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal", "torchvision"}
SAFE = {"numpy": ("allow_pickle", False), "torch": ("weights_only", True)}


def unsafe_loads(text: str) -> list[str]:
    """Imports of what unpickles (or of torchvision), and loads that do not say they will not."""
    tree = ast.parse(text)
    found = [name for name in imported_modules(tree, "alebrije.x", False) if name.split(".")[0] in BARRED]
    aliases = {"np": "numpy", "numpy": "numpy", "torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module in (*SAFE, "joblib"):
            found += [f"{node.module}.load" for alias in node.names if alias.name == "load"]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
            owner = aliases.get(ast.unparse(node.func.value), ast.unparse(node.func.value))
            if owner == "joblib":
                found.append("joblib.load")
            elif owner in SAFE:
                name, value = SAFE[owner]
                said = {k.arg: k.value for k in node.keywords}.get(name)
                if not (isinstance(said, ast.Constant) and said.value is value):
                    found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_nothing_is_unpickled(path: Path) -> None:
    assert unsafe_loads(path.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "def f():\n import torchvision.models",
        "import numpy as np\nnp.load('x')",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "import numpy as np\nsure = False\nnp.load('x', allow_pickle=sure)",
        "import torch as t\nt.load('x', weights_only=False)",
        "from torch import load",
        "import joblib\njoblib.load('x')",
    ],
)
def test_unsafe_loads_are_noticed(text: str) -> None:
    assert unsafe_loads(text)


def test_safe_loads_are_let_through() -> None:
    loads = "np.load(p, allow_pickle=False); torch.load(p, weights_only=True); json.load(p)"
    assert unsafe_loads(f"import json, torch, numpy as np\n{loads}") == []


def test_type_hints_ship() -> None:
    assert (SOURCE / "py.typed").is_file()
