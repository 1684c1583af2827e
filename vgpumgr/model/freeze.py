"""A ledger that may not allocate: it went back in time, and the hosts know more than it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpumgr.model.errors import Frozen
from vgpumgr.model.vm import Allocation, VmRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Why nothing may be allocated, and since when (Unix seconds)."""

    why: str
    at: float

    def refusal(self, what: str = "nothing is allocated or started") -> Frozen:
        """The error for what may not be done meanwhile."""
        return Frozen(f"the ledger is frozen: {what}", why=self.why, next="vgpumgr store thaw")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What a ledger ever knew: the generations of VMs, allocations and GPUs by id, those of
    closed rows included.
    """

    fleet: str
    epoch: int
    vms: Mapping[str, int] = field(default_factory=dict)
    allocations: Mapping[str, int] = field(default_factory=dict)
    gpus: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsTruth:
    """What the hosts know and the ledger does not, as its rows are to be.

    ``vms`` are new, ``changed`` replace rows of a lower generation, ``given_back`` are allocations
    that the VM's own mark, newer than ours, names no more. ``gpus`` are generations to reach at
    least. ``forgotten`` are VMs (by id) that no host shows a trace of, closed at the operator's
    word.
    """

    vms: tuple[VmRecord, ...] = ()
    changed: tuple[VmRecord, ...] = ()
    allocations: tuple[Allocation, ...] = ()
    given_back: tuple[str, ...] = ()
    gpus: Mapping[str, int] = field(default_factory=dict)
    forgotten: tuple[str, ...] = ()
