"""What adopting would bring under management, and what keeps it from it. Plain values."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.placement import Offer
from vgpumgr.model.vm import InstancePart, VmSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPart:
    """A GPU part that a foreign domain has: all of an allocation but its ids.

    ``slots`` are free in the ledger; ``gpu`` is our id, ``parent`` that of an mdev.
    """

    gpu: str
    device: str
    offer: Offer
    slots: tuple[int, ...]
    parent: str = ""
    companions: tuple[str, ...] = ()
    vf: int | None = None
    instance: InstancePart | None = None
    placement_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A foreign domain. ``why`` has every reason that it cannot be adopted for; empty: it can.

    ``xml`` is its definition, ``uuid`` libvirt's id of it; ``notes`` are worth knowing.
    """

    host: str
    name: str
    uuid: str = ""
    running: bool = False
    autostart: bool = False
    xml: str = ""
    spec: VmSpec | None = None
    parts: tuple[FoundPart, ...] = ()
    cpus: tuple[int, ...] = ()
    numa_node: int | None = None
    why: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def possible(self) -> bool:
        """Can it be adopted?"""
        return not self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    """Something foreign on a GPU that no domain names, or partitioning that no layout declares.

    ``next`` is what to type to have it gone, or managed.
    """

    host: str
    gpu: str
    subject: str
    text: str
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All of it, by host; ``not_read`` are hosts (with the reason) of which nothing is said."""

    candidates: tuple[Candidate, ...] = ()
    loose: tuple[Loose, ...] = ()
    not_read: tuple[str, ...] = ()
