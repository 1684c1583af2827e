"""Names of a pool's desktops: ``cad-{n:3}`` → ``cad-001``, ``cad-002``, …"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count

_PATTERN = re.compile(r"([a-z0-9-]*)\{n(?::([1-5]))?\}([a-z0-9-]*)")


@dataclass(frozen=True, slots=True)
class Naming:
    """``before``, a number of at least ``digits`` digits, ``after``."""

    before: str
    digits: int = 1
    after: str = ""

    @classmethod
    def parse(cls, pattern: str) -> Naming | None:
        """The pattern's parts; None where it is none."""
        found = _PATTERN.fullmatch(pattern)
        if found is None:
            return None
        return cls(found[1], int(found[2] or 1), found[3])

    def __str__(self) -> str:
        width = f":{self.digits}" if self.digits > 1 else ""
        return f"{self.before}{{n{width}}}{self.after}"

    def name(self, number: int) -> str:
        """The name of desktop ``number``, from 1 on."""
        return f"{self.before}{number:0{self.digits}d}{self.after}"

    def free(self, taken: Collection[str]) -> Iterator[str]:
        """Names that are not ``taken``, lowest number first; they never end."""
        return (name for number in count(1) if (name := self.name(number)) not in taken)

    def covers(self, name: str) -> bool:
        """Whether a desktop could be called so."""
        number = name.removeprefix(self.before).removesuffix(self.after)
        return number.isdecimal() and number.isascii() and self.name(int(number)) == name
