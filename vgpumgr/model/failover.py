"""The failover reserve: how many lost hosts the fleet keeps capacity for."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.vm import DEFAULT_POLICY, PlacementPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverReserve:
    """``hosts`` may be lost at once, and the VMs of any of them still find a place, as
    ``policy`` would choose it; 0: nothing is kept.
    """

    hosts: int = 0
    policy: PlacementPolicy = DEFAULT_POLICY


NO_RESERVE = FailoverReserve()
MOST_LOST = 2
"""Hosts of a reserve: every pair of hosts is tried where it is two."""


@dataclass(frozen=True, slots=True)
class HostLoss:
    """Hosts that would be lost together, how many VMs would be recreated elsewhere, and which of
    them (by name) would have no place.
    """

    hosts: tuple[str, ...]
    vms: int
    homeless: tuple[str, ...] = ()
