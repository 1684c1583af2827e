"""Which mutations a piece of code has."""

from __future__ import annotations

import ast

import pytest

from tools.mutate import drawn, mutations
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
