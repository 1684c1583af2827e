"""A VM in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vgpumgr.model.vm.spec import VmSpec


class VmState(StrEnum):
    """A VM in the ledger. One that is shelved is off and holds no GPU part, CPU or memory: its
    definition and its disks are kept on its host until it is started again.
    """

    RESERVED = "reserved"
    ACTIVE = "active"
    MIGRATING = "migrating"
    SHELVED = "shelved"
    DELETING = "deleting"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class VmPlace:
    """A place on a host: memory bound to ``numa_node``, ``cpus`` the host CPUs pinned there."""

    host: str
    numa_node: int | None = None
    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VmRecord:
    """A VM in the ledger. ``running`` is what the user last asked for.

    ``volumes`` are the (pool, name) pairs made for this VM, ``cpus`` the host CPUs pinned to it.
    ``moving_to`` is set while a migration takes it there: until that ends it holds both places.
    ``definition`` is the domain XML that an adopted VM came with, less our mark: it is what the VM
    is defined from. Empty for a VM that we made, whose definition follows from its spec.
    """

    id: str
    spec: VmSpec
    host: str
    state: VmState
    running: bool
    generation: int
    numa_node: int | None = None
    cpus: tuple[int, ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()
    created_at: float = 0.0
    moving_to: VmPlace | None = None
    definition: str = ""

    @property
    def name(self) -> str:
        """The user's name for it, which is also the domain's name."""
        return self.spec.name
