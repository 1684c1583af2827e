"""Health of GPUs: what their drivers read and report, what that asks for, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ActionClass(StrEnum):
    """What an Xid, a recovery action or a reading of the GPU asks for, the least first.

    ``GUEST``: the work that met it starts again; ``FOLLOW``: another signal says what to do;
    ``CHECK``: a person is to look; ``UNKNOWN``: no source says what is to be done;
    ``RESET_WHEN_IDLE``: work goes on until the next reset; ``UNREAD``: its state cannot be read;
    ``REPLACE``: no reset helps; ``LOST``: the GPU does not answer.
    """

    NONE = "none"
    GUEST = "guest"
    FOLLOW = "follow"
    CHECK = "check"
    UNKNOWN = "unknown"
    RESET_WHEN_IDLE = "reset-when-idle"
    UNREAD = "unread"
    RESET = "reset"
    RESTART_HOST = "restart-host"
    REPLACE = "replace"
    LOST = "lost"

    @property
    def rank(self) -> int:
        """How serious it is: a higher one wins over a lower one."""
        return _RANKS[self]


_RANKS = {each: rank for rank, each in enumerate(ActionClass)}


class HealthState(StrEnum):
    """What follows for the GPU: *degraded* takes VMs, *quarantined* none, and what runs goes on.

    *lost* does not answer: what ran on it has stopped.
    """

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    QUARANTINED = "quarantined"
    LOST = "lost"

    @property
    def takes_vms(self) -> bool:
        """May VMs be placed on the GPU?"""
        return self in {HealthState.HEALTHY, HealthState.DEGRADED}


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLink:
    """A link that is less than board and slot have together: its width, or its generation."""

    now: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReadings:
    """What was read of a GPU that may speak against it. None: the board has no such thing, or its
    driver does not tell.

    ``uncorrected_errors`` of memory are since the last reset. Rows are remapped on Ampere and
    later, pages retired before. ``slowed`` are reasons for lower clocks (``hw-thermal``,
    ``sw-thermal``, ``power-brake``). ``width`` and ``generation`` are set where the link has less.
    """

    recovery_action: int | None = None
    uncorrected_errors: int | None = None
    rows_corrected: int | None = None
    rows_uncorrected: int | None = None
    row_remap_pending: bool = False
    row_remap_failed: bool = False
    pages_corrected: int | None = None
    pages_uncorrected: int | None = None
    retirement_pending: bool = False
    sram_exceeded: bool = False
    slowed: tuple[str, ...] = ()
    width: PcieLink | None = None
    generation: PcieLink | None = None


NO_READINGS = GpuReadings()


@dataclass(frozen=True, slots=True, kw_only=True)
class XidLine:
    """A line of a host's kernel log: ``seq`` is the kernel's number of it in this boot.

    ``instance`` is the MIG GPU instance that it is about, None for the whole GPU.
    """

    seq: int
    address: str
    xid: int
    instance: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that speaks against a GPU.

    ``signal`` names it for good (``xid-48``, ``row-remap-failed``). ``standing``: it is read at
    each look, and over when it is read no more; an event stays until a reset, a boot or a
    person ends it. ``since`` and ``last`` are Unix seconds, ``count`` how often it was reported.
    """

    signal: str
    asks: ActionClass
    text: str
    standing: bool
    since: float
    last: float
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRecord:
    """What the ledger remembers of a GPU's health.

    ``since`` (Unix seconds) is when it came to this state. ``boot`` and ``seq`` are the cursor:
    Xids of that boot up to that number are counted. ``xids`` is how often each was reported since
    the GPU is known, by its number as text. ``serious`` are the times, the latest last, at which it
    stopped taking VMs; a person's lift forgets them.
    """

    state: HealthState = HealthState.HEALTHY
    since: float = 0.0
    evidence: tuple[Evidence, ...] = ()
    boot: str = ""
    seq: int = -1
    xids: Mapping[str, int] = field(default_factory=dict)
    serious: tuple[float, ...] = ()

    @property
    def asks(self) -> ActionClass:
        """The most serious of what its evidence asks for."""
        return max((each.asks for each in self.evidence), key=_rank, default=ActionClass.NONE)

    @property
    def why(self) -> str:
        """The most serious evidence in words; of as serious ones what is read now, then the latest.
        Empty without any.
        """
        order = sorted(self.evidence, key=lambda each: (each.asks.rank, each.standing, each.last))
        return order[-1].text if order else ""


NO_EVIDENCE = HealthRecord()


def _rank(asks: ActionClass) -> int:
    return asks.rank
