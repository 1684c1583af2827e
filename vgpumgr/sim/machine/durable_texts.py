"""The state that survives a power cut: texts by host and key, in one append-only journal file.

Nothing is synced to disk: it is the power of the simulated hosts that is cut, not this
machine's.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, MutableMapping
from pathlib import Path


class Durable(MutableMapping[str, str]):
    """One host's durable texts. Reads are from memory, writes go through to the journal."""

    def __init__(self, host: str, journal: DurableJournal | None = None) -> None:
        self._host = host
        self._journal = journal
        self._texts: dict[str, str] = dict(journal.found.pop(host, {})) if journal else {}

    def __getitem__(self, key: str) -> str:
        return self._texts[key]

    def __setitem__(self, key: str, text: str) -> None:
        self._texts[key] = text
        self._log(key, text)

    def __delitem__(self, key: str) -> None:
        del self._texts[key]
        self._log(key, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def under(self, prefix: str) -> dict[str, str]:
        """The texts whose key starts with ``prefix``, by the rest of their key."""
        return {
            key.removeprefix(prefix): text
            for key, text in self._texts.items()
            if key.startswith(prefix)
        }

    def _log(self, key: str, text: str | None) -> None:
        if self._journal is not None:
            self._journal.append(self._host, key, text)


class DurableJournal:
    """The file behind all hosts' durable texts.

    Opening it rewrites it without what was overwritten since; ``found`` is what it held.
    """

    def __init__(self, path: Path) -> None:
        self.found: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        self._load(path)
        fresh = path.with_suffix(".new")
        fresh.write_text("".join(self._lines()))
        fresh.replace(path)
        self._file = path.open("ab", buffering=0)

    def append(self, host: str, key: str, text: str | None) -> None:
        """Write one change down; ``text`` None is a removal."""
        line = json.dumps([host, key, text]) + "\n"
        with self._lock:
            self._file.write(line.encode())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _load(self, path: Path) -> None:
        if not path.exists():
            return
        for line in path.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):  # cut while it was written
                break
            host, key, text = json.loads(line)
            texts = self.found.setdefault(host, {})
            if text is None:
                texts.pop(key, None)
            else:
                texts[key] = text

    def _lines(self) -> Iterator[str]:
        for host, texts in self.found.items():
            for key, text in texts.items():
                yield json.dumps([host, key, text]) + "\n"
