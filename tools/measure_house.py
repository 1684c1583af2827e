"""Measures how the product's code is cut into files: ``python -m tools.measure_house [TREE]``.

Prints JSON on standard output and a table on standard error. ``--check`` exits 1 where a limit is
broken, ``--profile`` also counts what a client enters for two requests. TREE is any checkout.
Shares are in percent. What is counted:

- **files, statements, lines**: all ``*.py`` below ``vgpumgr/``; a statement is a node of the AST.
- **modules**: files other than ``__init__.py``. An ``__init__.py`` that holds imports, ``__all__``
  and a docstring alone is no part of a cycle: who imports a name from it imports the module that
  the name is from.
- **shared basenames**: modules whose file name another module has too.
- **shared class names**: classes, private and nested ones included, whose name another has too.
- **single importers**: modules that exactly one other file imports, and that file lies in the same
  folder. Imports count as written, anywhere in a file, those of ``__init__.py`` too; only what
  stands under ``TYPE_CHECKING`` does not count.
- **cycles**: groups of sub-packages and modules of one package that import each other round, at
  least one of them a sub-package. An import deep inside counts for the folders that it joins.
- **functions**: from ``def`` to the last line, methods and nested functions included.
- **heads**: lines of module docstrings and of imports, of all lines.
"""

from __future__ import annotations

import argparse
import ast
import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.profile_requests import profile
from tools.source_tree import SourceTree, read

PRODUCT = "vgpumgr"
SHORT_LINES = 40
# The highest value allowed; cycles by number.
LIMITS: Mapping[str, float] = {
    "files_under_40_lines_pct": 8,
    "shared_basenames_pct": 20,
    "shared_class_names_pct": 2,
    "single_importer_modules_pct": 15,
    "package_cycles": 0,
    "file_lines_max": 450,
    "function_lines_median": 8,
}
PROFILE_LIMITS: Mapping[str, float] = {
    "apply_files": 130,
    "apply_functions": 1023,
    "vm_start_files": 85,
}


def measure(tree: SourceTree) -> dict[str, Any]:
    """All figures of one checkout, by name."""
    sources = list(tree.sources.values())
    lines = [source.lines for source in sources]
    nodes = [node for source in sources for node in ast.walk(source.tree)]
    functions = [_length(node) for node in nodes if isinstance(node, _FUNCTIONS)]
    modules = [source for source in sources if not source.is_init]
    cycles = package_cycles(tree)
    return {
        "files": len(sources),
        "modules": len(modules),
        "lines": sum(lines),
        "statements": sum(isinstance(node, ast.stmt) for node in nodes),
        "file_lines_median": _median(lines),
        "file_lines_p90": _p90(lines),
        "file_lines_max": max(lines, default=0),
        "files_under_40_lines_pct": _percent(
            sum(module.lines < SHORT_LINES for module in modules), len(modules)
        ),
        "shared_basenames_pct": shared(module.name.rpartition(".")[2] for module in modules),
        "shared_class_names_pct": shared(n.name for n in nodes if isinstance(n, ast.ClassDef)),
        "single_importer_modules_pct": _percent(len(single_importers(tree)), len(modules)),
        "package_cycles": len(cycles),
        "cycles": cycles,
        "function_lines_median": _median(functions),
        "function_lines_p90": _p90(functions),
        "heads_pct": _percent(sum(_head_lines(source.tree) for source in sources), sum(lines)),
    }


def shared(names: Iterable[str]) -> float:
    """How many of the names, in percent, another one equals."""
    counts = Counter(names)
    return _percent(sum(n for n in counts.values() if n > 1), counts.total())


def single_importers(tree: SourceTree) -> list[str]:
    """The modules that one file alone imports, a file of the same folder."""
    importers: dict[str, set[str]] = defaultdict(set)
    for source in tree.sources.values():
        for module, name in source.imports:
            found = tree.imported(module, name)
            if found is not None and found != source.name:
                importers[found].add(source.name)
    return [
        module.name
        for module in tree.modules
        if [tree.sources[each].package for each in importers[module.name]] == [module.package]
    ]


def package_cycles(tree: SourceTree) -> list[list[str]]:
    """The groups of siblings that import each other round, a sub-package among them."""
    siblings: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for source, target in tree.edges():
        ours, theirs = source.split("."), target.split(".")
        depth = next(
            (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
            min(len(ours), len(theirs)),
        )
        package = ".".join(ours[:depth])
        siblings[package][_child(ours, depth)].add(_child(theirs, depth))
    groups = [group for graph in siblings.values() for group in _components(graph)]
    packages = {source.package for source in tree.sources.values()}
    return sorted(group for group in groups if packages.intersection(group))


def _child(parts: Sequence[str], depth: int) -> str:
    """What of a module is beside its siblings; a package's own ``__init__`` is one of its own."""
    return ".".join(parts[: depth + 1]) if len(parts) > depth else ".".join([*parts, "__init__"])


def _components(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of two and more."""
    reach = {node: _reachable(graph, node) for node in graph}
    groups = {
        tuple(sorted(other for other in reach[node] if node in reach.get(other, ())))
        for node in graph
    }
    return [list(group) for group in groups if len(group) > 1]


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        new = graph.get(todo.pop(), set()) - seen
        seen |= new
        todo += new
    return seen


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _head_lines(tree: ast.Module) -> int:
    docstring = tree.body[:1] if ast.get_docstring(tree) is not None else []
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return sum(map(_length, [*docstring, *imports]))


def _median(values: Sequence[int]) -> float:
    return statistics.median(values) if values else 0


def _p90(values: Sequence[int]) -> int:
    return sorted(values)[int(len(values) * 0.9)] if values else 0


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def broken(figures: Mapping[str, Any], limits: Mapping[str, float]) -> list[str]:
    """The figures over their limits."""
    return [name for name, limit in limits.items() if figures.get(name, 0) > limit]


def table(figures: Mapping[str, Any], limits: Mapping[str, float]) -> str:
    """A line per figure, with its limit where it has one."""
    over = broken(figures, limits)
    rows = []
    for name, value in figures.items():
        if isinstance(value, int | float):
            limit = f"<= {limits[name]:g}" if name in limits else ""
            rows.append(
                f"{name:28} {value:>8}  {limit:8}{'  over' if name in over else ''}".rstrip()
            )
    return "\n".join([*rows, *(f"cycle: {' '.join(group)}" for group in figures["cycles"])])


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how the product is cut into files.")
    parser.add_argument("tree", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--profile", action="store_true", help="count what two requests enter")
    parser.add_argument("--check", action="store_true", help="exit 1 where a limit is broken")
    asked = parser.parse_args()
    code = read(asked.tree, PRODUCT)
    if not code.sources:
        parser.error(f"no {PRODUCT}/ with Python files in {asked.tree}")
    figures, limits = measure(code), dict(LIMITS)
    if asked.profile:
        limits |= PROFILE_LIMITS
        figures["profile"] = profile(asked.tree)
        for request, entered in figures["profile"].items():
            for what in ("files", "functions", "calls"):
                figures[f"{request.replace(' ', '_')}_{what}"] = entered[what]
    print(json.dumps(figures, indent=1))
    print(table(figures, limits), file=sys.stderr)
    return 1 if asked.check and broken(figures, limits) else 0


if __name__ == "__main__":
    sys.exit(main())
