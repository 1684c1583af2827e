"""The Python files of a checkout and who imports whom, read without importing any.

What stands under ``TYPE_CHECKING`` imports nothing; an import inside a function counts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """One file: its dotted name (of an ``__init__.py`` the package's), path and text."""

    name: str
    path: str
    is_init: bool
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The file's AST."""
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> int:
        """How many lines the file has."""
        return len(self.text.splitlines())

    @property
    def package(self) -> str:
        """The folder it lies in, dotted."""
        return self.name if self.is_init else self.name.rpartition(".")[0]

    @cached_property
    def only_reexports(self) -> bool:
        """An ``__init__.py`` of a docstring, imports and ``__all__``."""
        return self.is_init and all(map(_is_reexport, self.tree.body))

    @cached_property
    def imports(self) -> list[tuple[str, str]]:
        """All imports at run time: the module, and the name taken from it, or ``""``."""
        found: list[tuple[str, str]] = []
        for node in _run_nodes(self.tree):
            if isinstance(node, ast.Import):
                found += [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += [(self._absolute(node), alias.name) for alias in node.names]
        return found

    def _absolute(self, node: ast.ImportFrom) -> str:
        above = self.package.split(".")
        parts = above[: len(above) - node.level + 1] if node.level else []
        return ".".join([*parts, node.module] if node.module else parts)


@dataclass(frozen=True)
class SourceTree:
    """Files by dotted name."""

    sources: Mapping[str, Source]

    @property
    def modules(self) -> list[Source]:
        """The files other than ``__init__.py``."""
        return [source for source in self.sources.values() if not source.is_init]

    def imported(self, module: str, name: str) -> str | None:
        """The file that ``from module import name`` names, as written; None outside the product."""
        inner = f"{module}.{name}"
        return next((found for found in (inner, module) if found in self.sources), None)

    def origin(self, module: str, name: str) -> str | None:
        """The same, followed through packages that only re-export the name."""
        seen = set()
        while (found := self.imported(module, name)) is not None and found not in seen:
            seen.add(found)
            if not self.sources[found].only_reexports or found != module:
                return found
            again = [each for each in self.sources[found].imports if each[1] == name]
            if not again:
                return found
            module = again[0][0]
        return found

    def edges(self) -> Iterator[tuple[str, str]]:
        """Which module imports which, re-exports followed; what only re-exports imports none."""
        for source in self.sources.values():
            if not source.only_reexports:
                for module, name in source.imports:
                    found = self.origin(module, name)
                    if found is not None and found != source.name:
                        yield source.name, found


def read(root: Path, *folders: str) -> SourceTree:
    """All Python files below these folders of a checkout."""
    found = {}
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*.py")):
        relative = path.relative_to(root)
        is_init = path.name == "__init__.py"
        name = ".".join((relative.parent if is_init else relative.with_suffix("")).parts)
        found[name] = Source(name, str(relative), is_init, path.read_text())
    return SourceTree(found)


def _run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield other
                yield from _run_nodes(other)
        else:
            yield child
            yield from _run_nodes(child)


def _is_reexport(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "__all__"
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or isinstance(node, ast.Import | ast.ImportFrom)
