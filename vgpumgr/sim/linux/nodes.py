"""What a file tree in memory is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Reader = Callable[[], str]
Writer = Callable[[str], None]


@dataclass(slots=True)
class Folder:
    """Name → node. ``fill`` puts in the rest of the nodes when somebody first looks."""

    entries: dict[str, Node] = field(default_factory=dict)
    fill: Callable[[], None] | None = None

    def seen(self) -> dict[str, Node]:
        """The entries, all of them there."""
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill()
        return self.entries


@dataclass(slots=True)
class Listing(Folder):
    """A folder of empty files whose names are asked for at each look."""

    names: Callable[[], Iterable[str]] = tuple

    def seen(self) -> dict[str, Node]:
        """The entries there are now."""
        return {name: File(lambda: "") for name in self.names()}


@dataclass(slots=True)
class File:
    """A file; without ``reader`` it is write-only, without ``writer`` read-only."""

    reader: Reader | None = None
    writer: Writer | None = None


@dataclass(slots=True)
class Link:
    """A symbolic link to an absolute path; ``relative`` is how sysfs writes it, not procfs."""

    target: str
    relative: bool = True


Node = Folder | File | Link
