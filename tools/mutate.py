"""Changes the product in one place at a time and asks whether a unit test notices.

``python -m tools.mutate --first 0 --count 60`` draws mutations in an order that the commit's hash
decides, so that a run can stop and go on: ``--first 6`` begins where ``--count 6`` ended. They are
made in a copy of the commit, a git worktree of its own. The unit tests that matter for the mutated
module (tools/test_selection.py) run until the first fails, and a failure counts only if that test
passes without the mutation.

Prints JSON on standard output, also when interrupted: which mutations were ``caught`` (and by
what), which ``survived``, and which were ``timed_out``: no test had failed when time was up.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

from tools.source_tree import Source, SourceTree, read
from tools.test_selection import Selection

ROOT = Path(__file__).parents[1]
PRODUCT = "vgpumgr"
MAX_UNFIT = 10
TEST_TIMEOUT_S = 60

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutation:
    """One place of one file, and what stands there instead. Columns are of UTF-8 bytes."""

    module: str
    path: str
    line: int
    start: int
    end_line: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        old, new = (shorten(text, 100, placeholder=" …") for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {old} -> {new}"

    def applied(self, text: str) -> str:
        """The file's text with the mutation made."""
        lines = text.encode().splitlines(keepends=True)
        before = b"".join([*lines[: self.line - 1], lines[self.line - 1][: self.start]])
        after = b"".join([lines[self.end_line - 1][self.end :], *lines[self.end_line :]])
        return (before + self.new.encode() + after).decode()


def mutations(source: Source) -> list[Mutation]:
    """All mutations of a file: none in annotations, docstrings and formatted strings."""
    return [
        _mutation(source, node, new)
        for node in _evaluated(source.tree)
        for new in _alternatives(node)
    ]


def _mutation(source: Source, node: ast.expr | ast.stmt, new: ast.AST) -> Mutation:
    assert node.end_lineno is not None and node.end_col_offset is not None
    old, text = ast.unparse(node), ast.unparse(new)
    if isinstance(new, ast.expr):  # parsed again where it stood, whatever stands around it
        text = f"({text})"
    place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    return Mutation(source.name, source.path, *place, old, text)


def _evaluated(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"} or isinstance(value, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                if isinstance(child, ast.expr | ast.stmt):
                    yield child
                yield from _evaluated(child)


def _alternatives(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    match node:
        case ast.Compare(ops=ops):
            for number, op in enumerate(ops):
                other = copy.deepcopy(node)
                other.ops[number] = COMPARISONS[type(op)]()
                yield other
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) in OPERATORS and not _is_text(left) and not _is_text(right):
                yield ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))


def _is_text(node: ast.expr) -> bool:
    constant = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return constant or isinstance(node, ast.JoinedStr)


def drawn(code: SourceTree, seed: str) -> list[Mutation]:
    """All mutations of the product in the order that the seed decides."""
    product = sorted(name for name in code.sources if name.split(".")[0] == PRODUCT)
    files = [code.sources[name] for name in product]
    found = [mutation for source in files for mutation in mutations(source)]
    random.Random(seed).shuffle(found)
    return found


@contextmanager
def copied(commit: str) -> Iterator[Path]:
    """A checkout of the commit that is thrown away afterwards."""
    with tempfile.TemporaryDirectory(prefix="vgpumgr-mutate-") as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--detach", str(tree), commit)
        try:
            (tree / ".venv").symlink_to(sys.prefix)
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*args: str) -> str:
    ran = subprocess.run(["git", *args], cwd=ROOT, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@dataclass(frozen=True, slots=True)
class Trial:
    """Mutants of the checkout in ``tree``, each given ``limit_s`` seconds."""

    tree: Path
    tests: Selection
    limit_s: float

    def outcome(self, mutation: Mutation) -> tuple[str, str]:
        """``caught``, ``survived`` or ``timed_out``; and by which test, or of how many files."""
        tests, unfit = self.tests.tests_for(mutation.module), list[str]()
        while tests and len(unfit) < MAX_UNFIT:
            with self._mutated(mutation):
                failed = self._first_failure(tests, unfit)
            if failed is None:
                return "timed_out", f"{len(tests)} test files"
            if not failed:
                break
            if self._first_failure([failed], []) == "":
                return "caught", failed
            unfit.append(failed)  # it fails without the mutation too
            tests = [path for path in tests if path != failed]
        return "survived", f"{len(tests)} test files"

    @contextmanager
    def _mutated(self, mutation: Mutation) -> Iterator[None]:
        file, text = self.tree / mutation.path, self.tests.code.sources[mutation.module].text
        file.write_text(mutation.applied(text))
        try:
            yield
        finally:
            file.write_text(text)

    def _first_failure(self, tests: Sequence[str], but: Sequence[str]) -> str | None:
        """The first test that fails, ``""`` if none does, None if time is up before."""
        argv = ["nice", sys.executable, "-m", "pytest", "-q", "-x", "-n0"]
        argv += [f"--timeout={TEST_TIMEOUT_S}", *tests, *(f"--deselect={name}" for name in but)]
        environ = {**os.environ, "PYTHONPATH": str(self.tree)}
        process = subprocess.Popen(
            argv, cwd=self.tree, env=environ, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what its tests had started
            process.wait()
        if process.returncode in {0, 5}:  # 5: no tests were left to run
            return ""
        named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
        return named[1] if named else tests[0]


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutate the product, and see which tests notice.")
    parser.add_argument("--first", type=int, default=0, help="go on after this many")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each mutation")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--list", action="store_true", help="show them alone")
    asked = parser.parse_args()
    commit = _git("rev-parse", asked.commit)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes: dict[str, list[dict[str, str]]] = {"caught": [], "survived": [], "timed_out": []}
    with copied(commit) as tree:
        code = read(tree, PRODUCT, "tests")
        trial = Trial(tree, Selection(code), asked.limit)
        chosen = drawn(code, commit)[asked.first : asked.first + asked.count]
        with suppress(KeyboardInterrupt):
            for number, mutation in enumerate(chosen, asked.first):
                if asked.list:
                    print(f"{number}: {mutation}")
                    continue
                outcome, by = trial.outcome(mutation)
                outcomes[outcome].append({"mutation": str(mutation), "by": by})
                print(f"{number}: {outcome}: {mutation} ({by})", file=sys.stderr)
    if not asked.list:
        done = sum(map(len, outcomes.values()))
        print(
            json.dumps({"commit": commit, "first": asked.first, "done": done, **outcomes}, indent=1)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
