"""Which unit tests matter for a module of the product, or for a helper of the tests.

All that reach the module by imports: those that import it, those that import what imports it, and
so on, twice; and all of its rooms: the folders of tests/unit that are named like a package that the
module lies in. The best come first: those that import the module itself, then those of its rooms,
and of these the ones that name most of what the module is called and defines, where a name that few
tests know counts for more. At most 30 files are given.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from tools.source_tree import Source, SourceTree

TESTS = "tests/unit"
DEPTH = 2
MAX_TEST_FILES = 30


@dataclass(frozen=True)
class Selection:
    """The unit tests of a checkout: what they import, and the words in them."""

    code: SourceTree

    def tests_for(self, module: str) -> list[str]:
        """Paths of the unit tests for a module, best first; the folder of all where none is."""
        distance, rooms = self._distances(module), set(module.split(".")[1:-1])
        names = _defined(self.code.sources.get(module)) | _name_parts(module)
        order: dict[str, tuple[bool, bool, float, str]] = {}
        for path, words in self._words.items():
            in_room = not rooms.isdisjoint(PurePath(path).parts[2:-1])
            if in_room or path in distance:
                weight = sum(1 / self._known_by[name] for name in names & words)
                order[path] = (distance.get(path) != 1, not in_room, -weight, path)
        return sorted(order, key=order.__getitem__)[:MAX_TEST_FILES] or [TESTS]

    def _distances(self, module: str) -> dict[str, int]:
        """By path of a test: over how many imports it reaches the module."""
        found: dict[str, int] = {}
        nearest, seen = {module}, {module}
        for distance in range(1, DEPTH + 2):
            nearest = {each for name in nearest for each in self._importers[name]} - seen
            seen |= nearest
            sources = [self.code.sources[name] for name in nearest]
            found |= {source.path: distance for source in sources if is_test(source)}
        return found

    @cached_property
    def _importers(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for source, target in self.code.edges():
            found[target].add(source)
        return found

    @cached_property
    def _words(self) -> dict[str, set[str]]:
        tests = [source for source in self.code.sources.values() if is_test(source)]
        return {
            test.path: set(re.findall(r"\w+", test.text)) | _name_parts(test.name) for test in tests
        }

    @cached_property
    def _known_by(self) -> Counter[str]:
        return Counter(word for words in self._words.values() for word in words)


def is_test(source: Source) -> bool:
    """A file of unit tests, no helper of theirs."""
    return source.path.startswith(f"{TESTS}/") and PurePath(source.path).name.startswith("test_")


def _defined(source: Source | None) -> set[str]:
    """The names of the functions, methods and classes that a file gives to others."""
    text = source.text if source else ""
    return set(re.findall(r"(?m)^ *(?:def|class) ([A-Za-z]\w+)", text))


def _name_parts(module: str) -> set[str]:
    """``of.disk_images`` → ``-disk``, ``-images``: no word of a text is like these."""
    return {f"-{part}" for part in module.rpartition(".")[2].split("_")} - {"-test"}
