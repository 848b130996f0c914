"""A griffe extension: examples and shapes in docstrings become code on the pages of the API reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*\n(?:(?!\s*$).*\n)*", re.MULTILINE)
CODE = re.compile(r"(```.*?```|``.*?``|`.*?`)", re.DOTALL)
SHAPE = re.compile(r"\[[A-Z0-9][\w ,.*/+-]*\]")  # [B, K, D] would be read as a link


class Examples(griffe.Extension):
    """Put fences around lines that begin with `>>>` and the output below them, and mark shapes as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, a class, a function or an attribute."""
        if obj.docstring is not None:
            text = EXAMPLE.sub(lambda example: f"\n```pycon\n{example[0]}```\n", obj.docstring.value.rstrip() + "\n")
            parts = CODE.split(text)  # prose and code take turns
            parts[::2] = [SHAPE.sub(lambda shape: f"`{shape[0]}`", part) for part in parts[::2]]
            obj.docstring.value = "".join(parts)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Let a package's function hide a submodule of the same name, as `metrics.dci` does in Python."""
        for package in (member for member in pkg.members.values() if isinstance(member, griffe.Module)):
            for name in map(str, package.exports or ()):
                submodule = package.members.get(name)
                if isinstance(submodule, griffe.Module) and name in submodule.members:
                    self._rewrite_all(submodule)  # `on_object` no longer reaches it
                    package.members[name] = griffe.Alias(name, submodule.members[name], parent=package)

    def _rewrite_all(self, obj: griffe.Object) -> None:
        self.on_object(obj=obj)
        for member in obj.members.values():
            if isinstance(member, griffe.Object):
                self._rewrite_all(member)
