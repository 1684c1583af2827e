"""The prose that users and readers meet, and the words that do not belong into it.

Prose is the docstrings and string literals of ``vgpumgr/``, README, SECURITY, CONTRIBUTING and
``docs/``, without code: spans and blocks in backticks, literals of one word, and the page of the
glossary, which lists the words. ``tests/banned_words.toml`` holds the words with what is said
instead and how often each is left. ``python -m tests.prose`` prints each with its places;
``--lower`` writes the counts of today into the file where they are lower.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = ROOT / "tests" / "banned_words.toml"
PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/**/*.md")
GLOSSARY = ROOT / "docs" / "glossary.md"


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of prose; ``line`` is where it begins in ``file``."""

    file: str
    line: int
    words: str


@dataclass(frozen=True, slots=True)
class BannedWord:
    """A pattern, what is said instead, and how often the pattern may still be met."""

    pattern: str
    say: str
    at_most: int

    def places(self) -> list[str]:
        """Where the word is, as ``file:line``."""
        found = re.compile(self.pattern.replace(" ", r"\s"), re.IGNORECASE)
        return [
            f"{text.file}:{text.line + text.words.count(chr(10), 0, match.start())}"
            for text in prose()
            for match in found.finditer(text.words)
        ]


def banned_words() -> list[BannedWord]:
    """The words in the order of their file."""
    return [BannedWord(**each) for each in tomllib.loads(WORDS.read_text())["word"]]


@cache
def prose() -> tuple[Text, ...]:
    """All prose, code left out with its lines kept."""
    return (*_sources(), *_pages())


def without_code(text: str) -> str:
    """The text without what is in backticks; lines stay, their indentation does not."""
    pattern = r"(?ms)^ *```.*?^ *```|``[^`]+``|`[^`\n]+`"
    left = re.sub(pattern, lambda match: "`" + "\n" * match[0].count("\n"), text)
    return re.sub(r" *\n *", "\n", left)


def _sources() -> Iterator[Text]:
    for file in sorted((ROOT / "vgpumgr").rglob("*.py")):
        if "ansible_collections" not in file.parts:
            name = str(file.relative_to(ROOT))
            for line, literal in _literals(ast.parse(file.read_text())):
                if " " in literal:
                    yield Text(name, line, without_code(literal))


def _literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """String literals with their lines; what an f-string fills in is ``{}``."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(map(_part, node.values))
        else:
            todo += ast.iter_child_nodes(node)


def _part(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "{}"


def _pages() -> Iterator[Text]:
    for pattern in PAGES:
        for file in sorted(ROOT.glob(pattern)):
            if file != GLOSSARY:
                yield Text(str(file.relative_to(ROOT)), 1, without_code(file.read_text()))


def _lower() -> None:
    """Write today's counts into the file of words, where they are lower."""
    text = WORDS.read_text()
    for word in banned_words():
        now = min(word.at_most, len(word.places()))
        entry = rf"(pattern = '{re.escape(word.pattern)}'\nsay = .*\nat_most = )\d+"
        text = re.sub(entry, lambda match, now=now: f"{match[1]}{now}", text)  # type: ignore[misc]
    WORDS.write_text(text)


def main() -> int:
    """Print each word with its places, or lower the counts."""
    if "--lower" in sys.argv[1:]:
        _lower()
        return 0
    for word in banned_words():
        places = word.places()
        print(f"{len(places)} of at most {word.at_most}: {word.pattern}  (say: {word.say})")
        for place in places:
            print(f"  {place}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
