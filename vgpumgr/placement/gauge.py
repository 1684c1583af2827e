"""The fragmentation gauge: how much of what is free is of no use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFragmentation:
    """One host: free GPU memory, and how much of it no request of the mix can use there.

    A GPU's free memory is of no use where no request of the mix finds room on it, with the vCPUs
    and memory that the host has left. ``expected_mib`` is what a request drawn from the mix cannot
    use on average: it is never less.
    """

    host: str
    free_mib: float
    unusable_mib: float
    expected_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """The fleet's gauge, and its hosts in the fleet's order; hosts without GPUs are left out."""

    hosts: tuple[HostFragmentation, ...]

    @property
    def free_mib(self) -> float:
        """Free GPU memory in all."""
        return sum(host.free_mib for host in self.hosts)

    @property
    def unusable_mib(self) -> float:
        """Free GPU memory that no request of the mix can use where it is."""
        return sum(host.unusable_mib for host in self.hosts)

    @property
    def share(self) -> float:
        """Unusable ÷ free, between 0 and 1; 0 where nothing is free."""
        free = self.free_mib
        return self.unusable_mib / free if free else 0.0
