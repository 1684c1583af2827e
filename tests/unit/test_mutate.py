"""Which mutations a piece of code has, and which tests they are shown to."""

from __future__ import annotations

import ast

import pytest

from tools.mutate import drawn, matching_tests, mutations
from tools.source_tree import Source, SourceTree


def source(path: str, text: str) -> Source:
    return Source(path.removesuffix(".py").replace("/", "."), path, False, text)


def mutants(text: str) -> list[str]:
    code = source("vgpumgr/a.py", text)
    return [mutation.applied(text) for mutation in mutations(code)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b", ["(a <= b)"]),
        ("a == b is c", ["(a != b is c)", "(a == b is not c)"]),
        ("a and b", ["(a or b)"]),
        ("a + b", ["(a - b)"]),
        ("x[3]", ["x[(4)]", "x[(2)]"]),
        ("if not a: b", ["if (a): b"]),
        ("def f():\n  return a", ["def f():\n  return None"]),
        ("'ü', a < b", ["'ü', (a <= b)"]),
        ("f(\n  a <\n  b, c)", ["f(\n  (a <= b), c)"]),
    ],
)
def test_one_place_changes(text: str, expected: list[str]) -> None:
    found = mutants(text)
    assert found == expected
    assert [ast.parse(each) for each in found]


@pytest.mark.parametrize(
    "text",
    [
        '"""1 < 2"""',
        "x: int | None = f()",
        "def f(a: A | B) -> C | D: ...",
        "g(f'{a + b}', 'c' + d, True)",
        "return None",
        "@f(3)\ndef g(): ...",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert mutants(text) == []


def test_the_seed_decides_the_order() -> None:
    text = "\n".join(f"x = {number}" for number in range(50))
    code = SourceTree({"vgpumgr.a": source("vgpumgr/a.py", text)})
    assert drawn(code, "abc") == drawn(code, "abc") != drawn(code, "abd")


def test_the_nearest_tests_come_first() -> None:
    files = {
        "vgpumgr/store/a.py": "",
        "vgpumgr/store/b.py": "import vgpumgr.store.a",
        "vgpumgr/app/c.py": "import vgpumgr.store.b",
        "vgpumgr/app/d.py": "import vgpumgr.app.c",
        "tests/helping.py": "import vgpumgr.store.a",
        "tests/unit/store/test_b.py": "import vgpumgr.store.b",
        "tests/unit/app/test_a.py": "from vgpumgr.store import a",
        "tests/unit/store/test_z.py": "from vgpumgr.store import a",
        "tests/unit/test_helped.py": "from tests import helping",
        "tests/unit/app/test_c.py": "import vgpumgr.app.c",
        "tests/unit/app/test_d.py": "import vgpumgr.app.d",
        "tests/unit/store/test_others.py": "",
        "tests/e2e/test_a.py": "import vgpumgr.store.a",
    }
    code = SourceTree({each.name: each for each in map(source, files, files.values())})
    assert matching_tests(code, "vgpumgr.store.a") == [
        "tests/unit/store/test_z.py",
        "tests/unit/app/test_a.py",
        "tests/unit/store/test_b.py",
        "tests/unit/test_helped.py",
        "tests/unit/app/test_c.py",
        "tests/unit/store/test_others.py",
    ]


def test_without_importers_the_rooms_tests_run_else_all() -> None:
    test = source("tests/unit/store/test_b.py", "")
    code = SourceTree({test.name: test})
    assert matching_tests(code, "vgpumgr.store.a") == ["tests/unit/store/test_b.py"]
    assert matching_tests(code, "vgpumgr.app.a") == ["tests/unit"]
