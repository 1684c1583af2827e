"""Answers kept as long as the ledger is as it was: many who ask the same are answered once.

Where the ledger changes all the time, an answer is made anew at most for a fifth of the time that
it takes; it is never older than a second.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

OLDEST_S = 1.0
"""An answer that tells how long ago something was is right to this."""
SHARE = 5
MOST = 512
"""The number of answers that are kept."""


@dataclass(slots=True)
class _LiveAnswer:
    lock: threading.Lock = field(default_factory=threading.Lock)
    version: Hashable = None
    data: bytes = b""
    made_at: float = -OLDEST_S
    took_s: float = 0.0


class LiveAnswers:
    """Answers by what was asked, and by whose scope; safe to share between threads."""

    def __init__(
        self, version: Callable[[], Hashable], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._version = version
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _LiveAnswer] = OrderedDict()

    def answer(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """The answer to ``key``, made by ``make`` where there is none that is good; its errors are
        raised, and kept by nobody.
        """
        kept = self._of(key)
        with kept.lock:
            version = self._version()
            age_s = self._clock() - kept.made_at
            if age_s < OLDEST_S and (version == kept.version or age_s < SHARE * kept.took_s):
                return kept.data
            began = self._clock()
            kept.data = make()
            kept.version, kept.made_at = version, began
            kept.took_s = self._clock() - began
            return kept.data

    def _of(self, key: Hashable) -> _LiveAnswer:
        with self._lock:
            kept = self._kept.setdefault(key, _LiveAnswer())
            self._kept.move_to_end(key)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
            return kept
