"""What is said of a request that was looked at: where it goes, or why it cannot, and what helps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from vgpumgr.model.placement import Reason, nearest_first


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something that makes a refused request fit; it was tried.

    ``kind`` is stable (``framework``, ``layout``, ``stop``, …), ``text`` what to change, ``host``
    where the VM then goes, ``next`` what to type or write for it.
    """

    kind: str
    text: str
    host: str
    next: str = ""

    @property
    def words(self) -> str:
        """How a sentence goes on after *it fits*."""
        return f"{self.text}, on {self.host}" if self.host else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One VM: the host it goes to (None: nowhere), and a reason per GPU or host.

    ``changes`` are there for a VM that goes nowhere: one of a kind, the cheapest first. ``same_as``
    is a VM that was refused with it, of which just the same was said: that is kept once.
    ``standing`` is set where it is no new request that fits or does not: ``is on one already``,
    ``waits in the queue, position 2: …``.
    """

    vm: str
    host: str | None
    reasons: tuple[Reason, ...] = ()
    changes: tuple[Change, ...] = ()
    same_as: str = ""
    standing: str = ""

    @property
    def line(self) -> str:
        """All of it in one line: the host, or how many GPUs and hosts fail which rule."""
        if self.standing:
            return f"{self.vm} {self.standing}"
        if self.host is not None:
            return f"{self.vm} fits: it goes to {self.host}"
        if not self.reasons:
            return f"{self.vm} fits nowhere: no host is enrolled"
        rules = Counter(reason.code for reason in nearest_first(self.reasons) if reason.code)
        failed = ", ".join(f"{count} × {code}" for code, count in rules.items())
        return f"{self.vm} fits nowhere: {failed or self.reasons[0].text}"
