"""A file tree in memory whose files may have behaviour, as those of sysfs do."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

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
    """A folder of empty files whose names are asked for at each look, and of what is put there."""

    names: Callable[[], Iterable[str]] = tuple

    def seen(self) -> dict[str, Node]:
        """The entries there are now."""
        return {**self.entries, **{name: File(lambda: "") for name in self.names()}}


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


_MAX_LINKS = 40


def refusal(number: int, path: str = "") -> OSError:
    """The OSError the kernel would answer with."""
    return OSError(number, os.strerror(number), path or None)


class FileTree:
    """Absolute paths → nodes. Every method raises OSError with the kernel's errno."""

    def __init__(self) -> None:
        self._root = Folder()
        # Folders found since a node was last taken away or replaced.
        self._known: dict[str, tuple[Node, tuple[str, ...]]] = {}

    def folder(self, path: str) -> None:
        """Make a folder and those above it; one that is there stays."""
        self._make(_parts(path))

    def lazy(self, path: str, fill: Callable[[], None]) -> None:
        """Make a folder that ``fill`` completes when it is first looked into."""
        self._make(_parts(path)).fill = fill

    def mount(self, path: str, folder: Folder) -> None:
        """Put a folder that was made beforehand."""
        self._put(path, folder)

    def file(self, path: str, reader: Reader | None = None, writer: Writer | None = None) -> None:
        """Put a file, with the folders above it."""
        self._put(path, File(reader, writer))

    def listing(self, path: str, names: Callable[[], Iterable[str]]) -> None:
        """Put a folder whose entries, empty files all, may be others at each look."""
        self._put(path, Listing(names=names))

    def text(self, path: str, content: str) -> None:
        """Put a read-only file with fixed content."""
        self._put(path, File(lambda: content))

    def link(self, path: str, target: str, *, relative: bool = True) -> None:
        """Put a symbolic link; ``target`` is absolute."""
        self._put(path, Link(target, relative))

    def drop(self, path: str) -> None:
        """Remove a node and all below it; an absent one is no error."""
        *above, name = _parts(path)
        self._forget_ways(self._make(above).entries.pop(name, None))

    def read(self, path: str) -> str:
        """A file's content."""
        node = self._file(path)
        if node.reader is None:
            raise refusal(errno.EACCES, path)
        return node.reader()

    def write(self, path: str, text: str) -> None:
        """Hand ``text`` to the file's behaviour."""
        node = self._file(path)
        if node.writer is None:
            raise refusal(errno.EACCES, path)
        node.writer(text)

    def names(self, path: str) -> list[str]:
        """The names in a folder."""
        node, _ = self._walk(path)
        if not isinstance(node, Folder):
            raise refusal(errno.ENOTDIR, path)
        return sorted(node.seen())

    def exists(self, path: str) -> bool:
        """Does the path lead anywhere?"""
        try:
            self._walk(path)
        except OSError:
            return False
        return True

    def readlink(self, path: str) -> str:
        """What a link says. EINVAL when it is no link."""
        *above, name = _parts(path)
        folder, names = self._walk("/" + "/".join(above))
        node = folder.seen().get(name) if isinstance(folder, Folder) else None
        if node is None:
            raise refusal(errno.ENOENT, path)
        if not isinstance(node, Link):
            raise refusal(errno.EINVAL, path)
        return "../" * len(names) + node.target.lstrip("/") if node.relative else node.target

    def real(self, path: str) -> str:
        """The path with every link followed."""
        return "/" + "/".join(self._walk(path)[1])

    def _file(self, path: str) -> File:
        node, _ = self._walk(path)
        if not isinstance(node, File):
            raise refusal(errno.EISDIR, path)
        return node

    def _put(self, path: str, node: Node) -> None:
        *above, name = _parts(path)
        entries = self._make(above).entries
        self._forget_ways(entries.get(name))
        entries[name] = node

    def _forget_ways(self, gone: Node | None) -> None:
        """No way leads through a file; through a folder or link many may."""
        if gone is not None and not isinstance(gone, File):
            self._known.clear()

    def _make(self, parts: Iterable[str]) -> Folder:
        folder = self._root
        for part in parts:
            below = folder.entries.get(part)
            if below is None:
                below = folder.entries[part] = Folder()
            if not isinstance(below, Folder):
                raise refusal(errno.ENOTDIR, part)
            folder = below
        return folder

    def _walk(self, path: str, links: int = 0) -> tuple[Node, tuple[str, ...]]:
        """The node a path leads to, and the names on the real way there."""
        known = self._known.get(path)
        if known is not None:
            return known
        found = self._last_step(path, links)
        if isinstance(found[0], Folder):
            self._known[path] = found
        return found

    def _last_step(self, path: str, links: int) -> tuple[Node, tuple[str, ...]]:
        above, _, name = path.rpartition("/")
        if not above and not name:
            return self._root, ()
        folder, names = self._walk(above, links)
        if name in {"", "."}:
            return folder, names
        if name == "..":
            return self._walk("/" + "/".join(names[:-1]), links)
        if not isinstance(folder, Folder):
            raise refusal(errno.ENOTDIR, path)
        below = folder.seen().get(name)
        if below is None:
            raise refusal(errno.ENOENT, path)
        if not isinstance(below, Link):
            return below, (*names, name)
        if links == _MAX_LINKS:
            raise refusal(errno.ELOOP, path)
        return self._walk(below.target, links + 1)


@lru_cache(maxsize=65536)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in {"", "."})
