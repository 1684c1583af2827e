"""Answers kept as long as the ledger is as it was: many who ask the same are answered once.

Where others change the ledger all the time, an answer is renewed at most for a fifth of the time
that it takes. A change that was made here is in every answer after it.
"""

from __future__ import annotations

import gzip
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

OLDEST_S = 10.0
"""An answer that tells how long ago something was is right to this."""
SHARE = 5
MOST = 512
"""The number of answers that are kept."""
_WORTH_PACKING = 16 << 10


class LiveAnswer:
    """An answer as it was made."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._lock = threading.Lock()
        self._packed = b""

    def packed(self) -> bytes:
        """It by gzip, packed once; empty where it is too short for that."""
        with self._lock:
            if not self._packed and len(self.data) >= _WORTH_PACKING:
                self._packed = gzip.compress(self.data, compresslevel=1)
            return self._packed


@dataclass(slots=True)
class _Kept:
    lock: threading.Lock = field(default_factory=threading.Lock)
    answer: LiveAnswer | None = None
    version: Hashable = None
    changes: int = -1
    made_at: float = 0.0
    took_s: float = 0.0


class LiveAnswers:
    """Answers by what was asked, and by whose scope; safe to share between threads."""

    def __init__(
        self, version: Callable[[], Hashable], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._version = version
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._changes = 0

    def changed(self) -> None:
        """Something was changed here: answers from before are good no longer."""
        with self._lock:
            self._changes += 1

    def answer(
        self, key: Hashable, make: Callable[[], bytes], *, newest: bool = False
    ) -> LiveAnswer:
        """The answer to ``key``, made by ``make`` where there is none that is good; its errors are
        raised, and not kept. ``newest``: for who has heard of a change, and will not ask
        again: one from before any change is not good.
        """
        kept = self._of(key)
        with kept.lock:
            version, changes, now = self._version(), self._changes, self._clock()
            if kept.answer is not None and self._is_good(kept, version, changes, now, newest):
                return kept.answer
            kept.answer = LiveAnswer(make())
            kept.version, kept.changes, kept.made_at = version, changes, now
            kept.took_s = self._clock() - now
            return kept.answer

    @staticmethod
    def _is_good(kept: _Kept, version: Hashable, changes: int, now: float, newest: bool) -> bool:
        age_s = now - kept.made_at
        if version == kept.version:
            return age_s < OLDEST_S
        return not newest and changes == kept.changes and age_s < SHARE * kept.took_s

    def _of(self, key: Hashable) -> _Kept:
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
            return kept
