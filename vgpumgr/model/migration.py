"""Moving a VM from one host to another: how a host is reached by another, and what to move."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationAddress:
    """A host's ``migration:`` block: where other hosts send a running VM.

    ``tls_name`` is the name in its certificate; empty means ``address``. ``bandwidth_mib_s`` None
    leaves QEMU's own limit.
    """

    address: str
    tls: bool = True
    tls_name: str = ""
    bandwidth_mib_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMove:
    """One running domain to another host.

    ``live_xml`` is the running domain as the target is to have it (its devices, its pinning),
    ``persistent_xml`` the definition that stays there. ``copied`` are the targets (``vda``) of the
    disks whose data goes along; volumes for them exist on the target.
    """

    name: str
    live_xml: str
    persistent_xml: str
    to: MigrationAddress
    copied: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveProgress:
    """How far a live move is: bytes of memory and copied disks."""

    total_bytes: int
    left_bytes: int
