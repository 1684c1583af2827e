"""Placement's answer: a decision or ordered reasons, and explanations with helpful changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vgpumgr.model.formats import counted
from vgpumgr.model.layout import GpuLayout
from vgpumgr.model.supply import FreeVf, Offer
from vgpumgr.model.vm import VmSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why one GPU (or one host, ``gpu`` empty) refused: the first rule that failed.

    ``code`` is stable (``same-size``, ``memory``, …); ``facts`` are its numbers; ``text`` is the
    sentence a user reads, numbers included.
    """

    code: str
    host: str
    text: str
    gpu: str = ""
    device: str = ""
    model: str = ""
    facts: Mapping[str, int | str] = field(default_factory=dict)


FITS = "fits"
"""The ``code`` of what is said about a GPU or host where the request fits."""

# Codes of reasons that say least: the GPU or host was never meant, or could never do it.
FAR_REASONS = frozenset({"profile", "model", "affinity-hosts"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One GPU part for one VM: which GPU, which offer, which slots of it.

    ``start`` is the ``at`` of the place chosen (MIG: of the instance), ``vf`` the function taken;
    ``make_instance`` False: the GPU instance at ``start`` exists already. ``layout`` is how the
    GPU, which is empty, is partitioned before: it makes no such part as it is.
    """

    gpu: str
    device: str
    offer: Offer
    slots: tuple[int, ...]
    start: int | None = None
    vf: FreeVf | None = None
    make_instance: bool = False
    frame_rate_limiter: bool | None = None
    layout: GpuLayout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A yes: the host, the parts, and where CPUs and memory go.

    ``partition`` is the NVSwitch partition that the whole GPUs make up, where the host has them.
    ``nic_functions`` are the VFs that are its NICs with SR-IOV, in their order.
    """

    request: VmSpec
    host: str
    assignments: tuple[Assignment, ...]
    numa_node: int | None = None
    cpus: tuple[int, ...] = ()
    partition: int | None = None
    nic_functions: tuple[str, ...] = ()

    @property
    def partitions(self) -> bool:
        """Is a GPU partitioned for it?"""
        return any(part.layout is not None for part in self.assignments)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPlaced:
    """A no, with one reason per GPU (or per host that failed before its GPUs were looked at)."""

    request: VmSpec
    reasons: tuple[Reason, ...]


Decision = Placed | NotPlaced


# The rule, used wherever reasons are shown: first what keeps the request out of the whole fleet
# (quota, bookings, the queue), then what is nearest to a yes. Nearest is what has room (or would
# have it if somebody left); then what one layout would make; then a GPU that makes the part and
# lacks room, then a host that lacks vCPUs or memory, then what is closed or lacks something that is
# no room, then what the request itself would rather not have, and last what was never meant or
# could never do it. Of two that are as near, the one that lacks less comes first, measured by what
# is asked for, then the first of the fleet.


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
