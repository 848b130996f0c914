"""Whether Triton kernels can be compiled on this machine."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

_COMPILERS = (os.environ.get("CC"), shutil.which("gcc"), shutil.which("clang"))  # Triton compiles its launchers from C

HAS_TRITON = find_spec("triton") is not None and any(_COMPILERS)
