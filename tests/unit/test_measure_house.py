"""How the code is measured, counted by hand on a product of a few files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.measure_house import (
    LIMITS,
    broken,
    measure,
    package_cycles,
    shared,
    single_importers,
    table,
)
from tools.source_tree import SourceTree, read

ROOT = Path(__file__).parents[2]


def tree(folder: Path, files: Mapping[str, str]) -> SourceTree:
    """A product of these files, by path below it."""
    for path, text in {"__init__.py": "", **files}.items():
        file = folder / "vgpumgr" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for above in file.relative_to(folder).parents[:-1]:
            (folder / above / "__init__.py").touch()
        file.write_text(text)
    return read(folder, "vgpumgr")


def test_files_lines_and_statements(tmp_path: Path) -> None:
    long = "\n".join(["x = 1"] * 50)
    figures = measure(tree(tmp_path, {"a.py": "x = 1\ny = 2", "b.py": long, "c.py": "if x:\n  y"}))
    assert (figures["files"], figures["modules"]) == (4, 3)
    assert figures["lines"] == 0 + 2 + 50 + 2
    assert figures["statements"] == 2 + 50 + 2
    assert (figures["file_lines_median"], figures["file_lines_max"]) == (2, 50)
    assert figures["files_under_40_lines_pct"] == pytest.approx(66.7)


def test_an_init_shares_no_basename(tmp_path: Path) -> None:
    files = {"a/plan.py": "", "b/plan.py": "", "a/x.py": "", "b/y.py": ""}
    assert measure(tree(tmp_path, files))["shared_basenames_pct"] == 50


def test_each_class_of_a_shared_name_counts_private_and_nested_ones_too(tmp_path: Path) -> None:
    files = {"a.py": "class _X:\n    class Y: ...", "b.py": "class _X: ...\nclass Z: ..."}
    assert measure(tree(tmp_path, files))["shared_class_names_pct"] == 50
    assert shared([]) == 0


def test_functions_are_measured_without_their_decorators(tmp_path: Path) -> None:
    code = "@f\n@g\ndef a():\n    def b():\n        return 1\n    return b\n"
    figures = measure(tree(tmp_path, {"a.py": code}))
    assert (figures["function_lines_median"], figures["function_lines_p90"]) == (3.0, 4)


def test_heads_are_docstrings_and_imports(tmp_path: Path) -> None:
    code = (
        '"""Two\nlines."""\n\nfrom a import (\n    b,\n)\n\ndef f():\n    import c\n    return b\n'
    )
    assert measure(tree(tmp_path, {"a.py": code}))["heads_pct"] == 60


@pytest.mark.parametrize(
    ("importers", "alone"),
    [
        pytest.param({"p/a.py": "from vgpumgr.p.used import x"}, True, id="one beside it"),
        pytest.param({"p/a.py": "from .used import x"}, True, id="relative"),
        pytest.param({"p/a.py": "from vgpumgr.p import used"}, True, id="the module"),
        pytest.param({"p/a.py": "def f():\n import vgpumgr.p.used"}, True, id="in a function"),
        pytest.param({"p/__init__.py": "from vgpumgr.p.used import x"}, True, id="its package"),
        pytest.param({"q/a.py": "from vgpumgr.p.used import x"}, False, id="one elsewhere"),
        pytest.param(
            {"p/a.py": "from .used import x", "p/b.py": "from .used import x"}, False, id="two"
        ),
        pytest.param(
            {"p/a.py": "from .used import x", "q/b.py": "from ..p.used import x"},
            False,
            id="one more elsewhere",
        ),
        pytest.param(
            {"p/a.py": "if TYPE_CHECKING:\n from .used import x\nelse:\n x = 1"}, False, id="types"
        ),
        pytest.param({}, False, id="none"),
    ],
)
def test_a_single_importer_lies_in_the_same_folder(
    tmp_path: Path, importers: Mapping[str, str], alone: bool
) -> None:
    found = single_importers(tree(tmp_path, {"p/used.py": "x = 1", **importers}))
    assert found == (["vgpumgr.p.used"] if alone else [])


def test_folders_that_import_each_other_are_a_cycle(tmp_path: Path) -> None:
    files = {
        "p/a.py": "from vgpumgr.q.deep.b import x",
        "q/deep/b.py": "from vgpumgr.r import x",
        "r.py": "from vgpumgr.p.c import y\nx = 1",
        "p/c.py": "y = 1",
        "s.py": "from vgpumgr.p.a import x",
    }
    assert package_cycles(tree(tmp_path, files)) == [["vgpumgr.p", "vgpumgr.q", "vgpumgr.r"]]


def test_cycles_are_found_inside_a_package(tmp_path: Path) -> None:
    files = {
        "p/a/one.py": "from vgpumgr.p.b.one import x",
        "p/b/one.py": "",
        "p/b/two.py": "import vgpumgr.p.a.two",
        "p/a/two.py": "",
    }
    assert package_cycles(tree(tmp_path, files)) == [["vgpumgr.p.a", "vgpumgr.p.b"]]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {
                "p/a.py": "if typing.TYPE_CHECKING:\n from vgpumgr.q.b import x",
                "q/b.py": "from vgpumgr.p import a",
            },
            id="for types alone",
        ),
        pytest.param(
            {"p/a.py": "from vgpumgr.p.b import x", "p/b.py": "from vgpumgr.p.a import y"},
            id="modules without a folder",
        ),
        pytest.param(
            {
                "__init__.py": "from vgpumgr.q.b import x\n__all__ = ['x']",
                "p/a.py": "from vgpumgr import x",
                "q/b.py": "x = 1",
                "q/c.py": "from vgpumgr import x",
            },
            id="a package that re-exports",
        ),
    ],
)
def test_what_is_no_cycle(tmp_path: Path, files: Mapping[str, str]) -> None:
    assert package_cycles(tree(tmp_path, files)) == []


def test_a_reexported_name_is_imported_from_where_it_is_defined(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "from vgpumgr.p.inner import x",
        "p/inner/__init__.py": "from .here import x",
        "p/inner/here.py": "from vgpumgr.q import y\nx = 1",
        "q.py": "from vgpumgr.p import x\ny = 1",
    }
    found = tree(tmp_path, files)
    assert found.origin("vgpumgr.p", "x") == "vgpumgr.p.inner.here"
    assert found.origin("vgpumgr.p", "inner") == "vgpumgr.p.inner"
    assert found.origin("os", "path") is None
    assert package_cycles(found) == [["vgpumgr.p", "vgpumgr.q"]]


def test_a_limit_is_broken_above_it_alone() -> None:
    figures = {"package_cycles": 1, "file_lines_max": 450, "cycles": [["a", "b"]]}
    assert broken(figures, LIMITS) == ["package_cycles"]
    first, second, third = table(figures, LIMITS).splitlines()
    assert first.split() == ["package_cycles", "1", "<=", "0", "over"]
    assert second.split() == ["file_lines_max", "450", "<=", "450"]
    assert third == "cycle: a b"


@pytest.mark.parametrize(("check", "code"), [([], 0), (["--check"], 1)])
def test_check_is_what_makes_a_broken_limit_fail(
    tmp_path: Path, check: list[str], code: int
) -> None:
    tree(tmp_path, {"a.py": "x = 1"})  # a file under 40 lines
    argv = [sys.executable, "-m", "tools.measure_house", str(tmp_path), *check]
    assert subprocess.run(argv, cwd=ROOT, capture_output=True).returncode == code


def test_a_folder_without_the_product_is_an_error_not_a_good_house(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tools.measure_house", str(tmp_path), "--check"]
    assert subprocess.run(argv, cwd=ROOT, capture_output=True).returncode == 2
