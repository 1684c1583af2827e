"""Reasons in the order in which they matter, and those of one kind of board as one. Pure.

The rule, used wherever reasons are shown: first what keeps the request out of the whole fleet
(quota, bookings, the queue), then what is nearest to a yes. Nearest is what has room (or would
have it if somebody left); then what one layout would make; then a GPU that makes the part and lacks
room, then a host that lacks vCPUs or memory, then what is closed or lacks something that is no
room, then what the request itself would rather not have, and last what was never meant or could
never do it. Of two that are as near, the one that lacks less comes first, measured by what is asked
for, then the first of the fleet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from vgpumgr.model.placement.decision import FAR_REASONS, FITS, Reason
from vgpumgr.model.words import counted

_NEAREST_FIRST = (
    frozenset({"quota", "booked", "queue", "placed"}),
    frozenset({FITS, "resident"}),
    frozenset({"needs-layout"}),
    frozenset(
        {
            "free-slots", "no-start", "no-vf", "mig-room", "mig-slices", "mig-media",
            "max-instances", "driver-available", "same-size", "gpu-count", "partition", "in-use",
            "given-whole", "numa",
        }
    ),
    frozenset({"vcpus", "memory", "hugepages", "pinned-cpus"}),
    frozenset(
        {
            "host-blocked", "gpu-blocked", "passthrough-blocked", "image", "network", "bridge",
            "storage-pool", "name-taken",
        }
    ),
    frozenset(
        {"max-per-vm", "mix-in-vm", "framework", "together-with", "apart-from", "host-labels"}
    ),
    frozenset({"gpu-memory", "no-gpu", *FAR_REASONS}),
)  # fmt: skip
_RANKS = {code: rank for rank, codes in enumerate(_NEAREST_FIRST) for code in codes}
_ROOM, _UNKNOWN, _FAR = 3, 5, len(_NEAREST_FIRST) - 1
_NUMBERS = re.compile(r"\d+")
# What reasons call what there is, and what is needed.
_HAVE = ("free", "have", "left", "free_mib")
_NEED = ("need", "need_mib")


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """What one rule says of the GPUs of one board model, or of hosts; the nearest one first."""

    reasons: tuple[Reason, ...]

    @property
    def nearest(self) -> Reason:
        """The one that lacks least."""
        return self.reasons[0]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Of which hosts, each once."""
        return tuple(dict.fromkeys(each.host for each in self.reasons))

    @property
    def far(self) -> bool:
        """Were they never meant, or could they never do it?"""
        return rank(self.nearest) == _FAR

    @property
    def text(self) -> str:
        """One sentence for all: as it is where all say the same, else the nearest's."""
        if len(self.reasons) == 1:
            return self.nearest.text
        if self.alike:
            return sentence(self.nearest)
        return f"{self.nearest.text} (and {self.others})"

    @property
    def alike(self) -> bool:
        """Do all say the very same?"""
        return len({sentence(each) for each in self.reasons}) == 1

    @property
    def others(self) -> str:
        """``3 more GPUs alike, on h2``: those beside the nearest; empty where it is alone."""
        more = counted(len(self.reasons) - 1, "more GPU" if self.nearest.gpu else "more host")
        others = [name for name in self.hosts if name != self.nearest.host]
        if len(self.reasons) == 1:
            return ""
        if not others or not self.nearest.gpu:
            return f"{more} alike"
        return f"{more} alike, on {others[0] if len(others) == 1 else f'{len(others)} hosts'}"


def rank(reason: Reason) -> int:
    """How far from a yes: 0 is what keeps the request out of the whole fleet."""
    return _RANKS.get(reason.code, _UNKNOWN)


def nearest_first(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """By the rule that this module states."""
    return tuple(sorted(reasons, key=lambda each: (rank(each), _lacks(each))))


def by_board(reasons: Iterable[Reason]) -> tuple[ReasonGroup, ...]:
    """Reasons of one rule and one board model together, in the order of the nearest of each.

    What differs in more than numbers and in what is in the way is told apart.
    """
    found: dict[tuple[str, str, str], list[Reason]] = {}
    for each in nearest_first(reasons):
        found.setdefault((each.code, each.model, _stem(each)), []).append(each)
    return tuple(ReasonGroup(tuple(group)) for group in found.values())


def sentence(reason: Reason) -> str:
    """The text without the GPU's address."""
    return reason.text.replace(f" {reason.device}", "") if reason.device else reason.text


def _stem(reason: Reason) -> str:
    """What of a sentence is the same for all that are refused alike."""
    if rank(reason) == _ROOM:
        return ""
    said = sentence(reason)
    return _NUMBERS.sub("", said.replace(reason.host, "") if reason.host else said)


def _lacks(reason: Reason) -> float:
    """The share of what is needed that is not there; 1 where the numbers do not say."""
    have, need = (_number(reason, keys) for keys in (_HAVE, _NEED))
    if have is None or not need:
        return 1.0
    return max(0.0, (need - have) / need)


def _number(reason: Reason, keys: Iterable[str]) -> int | None:
    found = (reason.facts.get(key) for key in keys)
    return next((each for each in found if isinstance(each, int)), None)
