"""The inner loop: which files count as changed, which tests are chosen, when it ends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import quick
from tools.source_tree import Source, SourceTree, read

TESTS = ("tests/unit/store/test_a.py", "tests/unit/store/test_b.py", "tests/unit/test_docs.py")


def tree(**texts: str) -> SourceTree:
    """Two modules of the store, a test of each; more files by path."""
    files = {
        "vgpumgr/store/a.py": "",
        "vgpumgr/store/b.py": "",
        TESTS[0]: "import vgpumgr.store.a",
        TESTS[1]: "import vgpumgr.store.b",
        TESTS[2]: "",
    }
    made = [
        Source(path.removesuffix(".py").replace("/", "."), path, False, text)
        for path, text in (files | texts).items()
    ]
    return SourceTree({each.name: each for each in made})


def git(folder: Path, *args: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A branch that left main with a file of its own."""
    git(tmp_path, "init", "-q", "-b", "main")
    for name in ("kept", "edited", "removed"):
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    git(tmp_path, "switch", "-qc", "branch")
    (tmp_path / "committed").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "two")
    return tmp_path


def test_what_differs_from_main_counts_as_changed(checkout: Path) -> None:
    (checkout / "edited").write_text("else")
    (checkout / "removed").unlink()
    (checkout / "new").write_text("")
    assert quick.changed_files(None, checkout) == ["committed", "edited", "new"]
    assert quick.changed_files("HEAD", checkout) == ["edited", "new"]


def test_without_a_main_branch_what_is_not_committed_counts(checkout: Path) -> None:
    git(checkout, "branch", "-D", "main")
    (checkout / "new").write_text("")
    assert quick.changed_files(None, checkout) == ["new"]


def test_a_base_that_is_no_commit_is_refused(checkout: Path) -> None:
    with pytest.raises(ValueError, match="no commit nonsense in this checkout"):
        quick.changed_files("nonsense", checkout)


def test_changed_tests_come_first_then_the_best_of_each_changed_module() -> None:
    assert quick.chosen_tests(tree(), ["vgpumgr/store/b.py"]) == [TESTS[1], TESTS[0]]
    changed = ["vgpumgr/store/a.py", "vgpumgr/store/b.py", TESTS[1]]
    assert quick.chosen_tests(tree(), changed) == [TESTS[1], TESTS[0]]
    both = ["vgpumgr/store/a.py", "docs/page.md"]
    assert quick.chosen_tests(tree(), both) == [TESTS[0], TESTS[2], TESTS[1]]


def test_a_file_that_is_not_python_has_the_tests_beside_it() -> None:
    assert quick.beside(TESTS, "vgpumgr/store/rows.sql") == list(TESTS[:2])
    assert quick.beside(TESTS, "docs/page.md") == [TESTS[2]]
    assert quick.beside(TESTS, "Makefile") == []


def test_the_core_runs_where_nothing_matters_and_its_files_are_there() -> None:
    core = quick.chosen_tests(tree(), [])
    assert core == quick.chosen_tests(tree(), ["Makefile"])
    assert [path for path in core if not (quick.ROOT / path).is_file()] == []


def test_imports_are_remembered_until_the_file_changes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "b.py"
    for text in ("import a.c", "import a.c", "from a import d"):
        file.write_text(text)
        (tmp_path / "a" / "c.py").write_text("")
        (tmp_path / "a" / "d.py").write_text("")
        code = read(tmp_path, "a")
        quick.remember_imports(code, tmp_path / "build" / "imports.json")
        [(_, target)] = code.edges()
        assert target == ("a.d" if "d" in text else "a.c")


class Terminal:
    """What pytest would show."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, line: str) -> None:
        self.lines.append(line)


def test_no_test_is_started_when_time_is_up_and_that_is_said(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    item, terminal = request.node, Terminal()
    for until in ("inf", "0", "0"):
        monkeypatch.setenv(quick.UNTIL, until)
        started = quick.pytest_runtest_protocol(item) is None
        assert started is (until == "inf")
    quick.pytest_terminal_summary(terminal)
    assert terminal.lines == ["left, time was up: 2 tests of tests/unit/test_quick.py"]
