"""The inner loop: ruff on what has changed, and the unit tests that matter for it, in 20 seconds.

``python -m tools.quick`` looks at the files that differ from the base (``--base``; left out, where
this branch left ``origin/main`` or ``main``), with those that are not committed or not tracked.
Tests that have changed run first, then those that tools/test_selection.py finds for each changed
module, in turns, the best first; for a file that is not Python, tests whose path has the name of
one of its folders. Where nothing has changed, CORE runs. When ``--seconds`` are over no more tests
are started, and the files that were left are named: ``make test`` runs all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import zip_longest
from pathlib import Path, PurePath

import pytest

from tools.source_tree import SourceTree, read
from tools.test_selection import TESTS, Selection, is_test

ROOT = Path(__file__).parents[1]
IMPORTS = ROOT / "build" / "quick-imports.json"
FOLDERS = ("vgpumgr", "tests", "tools", "benchmarks")
CORE = (
    "spec/test_load.py", "domainxml/test_golden.py", "placement/test_rules.py",
    "layout/test_change_plan.py", "gpu/test_frameworks.py", "helper/test_vfio.py",
    "store/test_reserve.py", "engine/test_plan.py", "engine/test_execute.py",
    "sim/test_kernel.py", "checks/test_checks.py", "cli/test_words.py", "catalog/test_mig.py",
)  # fmt: skip
MARKERS = "not thorough and not root and not libvirtd and not hw and not lab"
PROCESSES = 2
MAX_FILES = 30
UNTIL = "VGPUMGR_QUICK_TEST_UNTIL"


def changed_files(base: str | None, root: Path = ROOT) -> list[str]:
    """Paths of the files of a checkout that differ from the base and are there.

    ValueError where ``base`` is no commit.
    """

    def git(*args: str) -> str:
        ran = subprocess.run(["git", *args], cwd=root, capture_output=True, text=True)
        return ran.stdout.strip()

    if base is not None and not git("rev-parse", "-q", "--verify", f"{base}^{{commit}}"):
        raise ValueError(f"no commit {base} in this checkout; git log --oneline shows some")
    if base is None:
        known = [
            name for name in ("origin/main", "main") if git("rev-parse", "-q", "--verify", name)
        ]
        base = git("merge-base", "HEAD", known[0]) if known else "HEAD"
    differing = git("diff", "--name-only", base).splitlines()
    new = git("ls-files", "--others", "--exclude-standard").splitlines()
    return [path for path in dict.fromkeys(differing + new) if (root / path).is_file()]


def chosen_tests(code: SourceTree, changed: Sequence[str]) -> list[str]:
    """Paths of the tests for these files, those that matter most first; else CORE."""
    sources = {source.path: source for source in code.sources.values()}
    tests = [path for path, source in sources.items() if is_test(source)]
    selection = Selection(code)
    ranked = [
        selection.tests_for(sources[path].name) if path in sources else beside(tests, path)
        for path in changed
        if path not in tests
    ]
    turns = [path for turn in zip_longest(*ranked) for path in turn if path not in {None, TESTS}]
    found = dict.fromkeys([path for path in changed if path in tests] + turns)
    return list(found) or [f"{TESTS}/{path}" for path in CORE]


def beside(tests: Sequence[str], path: str) -> list[str]:
    """The tests whose path has the name of a folder of this file's, that of the innermost first."""
    file = PurePath(path)
    folders = ["docs"] if file.suffix == ".md" else list(reversed(file.parts[:-1]))
    names = [folder.replace("-", "_") for folder in folders]
    return [test for name in names for test in tests if name in test.removeprefix(TESTS)]


def remember_imports(code: SourceTree, file: Path) -> None:
    """Parse only what has changed since the last time, as the file knows it."""
    known = json.loads(file.read_text()) if file.is_file() else {}
    found = {}
    for source in code.sources.values():
        key = hashlib.sha256(f"{source.path}\n{source.text}".encode()).hexdigest()
        facts = known.get(key) or {name: getattr(source, name) for name in _FROM_THE_TREE}
        vars(source).update(facts)  # cached properties
        found[key] = facts
    if found.keys() != known.keys():
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(found))


_FROM_THE_TREE = ("imports", "only_reexports")


# -- a plugin of pytest, in the processes that run the tests ---------------------------------------
_left: dict[Path, int] = {}


def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Start no test when time is up."""
    if time.monotonic() < float(os.environ[UNTIL]):
        return None
    _left[item.path] = _left.get(item.path, 0) + 1
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not started."""
    for path, count in _left.items():
        terminalreporter.write_line(f"left, time was up: {count} tests of {path.relative_to(ROOT)}")


# -- the command -----------------------------------------------------------------------------------
_NO_TESTS = int(pytest.ExitCode.NO_TESTS_COLLECTED)
_LINT = (("check", "-q"), ("format", "--check", "-q"))
_PYTEST = (
    "-q",
    "-n0",
    "--no-header",
    "--tb=short",
    "--maxfail=5",
    "-p",
    "tools.quick",
    "-m",
    MARKERS,
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Lint and test what has changed, quickly.")
    parser.add_argument("--base", help="the commit to compare with")
    parser.add_argument("--seconds", type=float, default=17.0, help="when no more tests start")
    parser.add_argument("--list", action="store_true", help="name the tests, best first, alone")
    asked = parser.parse_args(argv)
    until = time.monotonic() + asked.seconds
    try:
        changed = changed_files(asked.base)
    except ValueError as error:
        parser.error(str(error))
    code = read(ROOT, *FOLDERS)
    remember_imports(code, IMPORTS)
    tests = chosen_tests(code, changed)
    if asked.list:
        print("\n".join(tests))
        return 0
    print(f"{len(changed)} changed files, {len(tests)} test files that matter", flush=True)
    return int(run(tests, [path for path in changed if path.endswith(".py")], until))


def run(tests: Sequence[str], python: Sequence[str], until: float) -> bool:
    """Whether ruff or a test failed. No test is started after ``until``, by the monotonic clock."""
    begun, commands = time.monotonic(), [("ruff", *how, *python) for how in _LINT if python]
    now, later = tests[:MAX_FILES], tests[MAX_FILES:]
    lanes = [now[number::PROCESSES] for number in range(PROCESSES)]
    commands += [("pytest", *_PYTEST, *lane) for lane in lanes if lane]
    with ThreadPoolExecutor(len(commands)) as pool:
        ended = list(pool.map(partial(_ran, until), commands))
    for each in ended:
        print(each.stdout, end="")
    cpu = sum(os.times()[:4])
    print(f"{time.monotonic() - begun:.0f} seconds, {cpu:.0f} of CPU")
    if later:
        print(f"left, too many for the inner loop: {' '.join(later)}")
    return any(each.returncode not in {0, _NO_TESTS} for each in ended)


def _ran(until: float, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    argv, environ = [sys.executable, "-m", *command], {**os.environ, UNTIL: str(until)}
    return subprocess.run(
        argv, cwd=ROOT, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


if __name__ == "__main__":
    sys.exit(main())
