"""Which hosts the rules about hosts themselves leave to a type of request."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from vgpumgr.placement.demand import Demand
from vgpumgr.placement.matrix.hosts import host_class
from vgpumgr.placement.matrix.wants import Flags, Ints
from vgpumgr.placement.rules.host import refuse_always, refuse_company
from vgpumgr.placement.state import HostState


class Standing:
    """Labels, networks, pools, names, and for types with such wishes the VMs that are there."""

    def __init__(self, hosts: Sequence[HostState]) -> None:
        self._hosts = hosts
        self._number = {host.name: number for number, host in enumerate(hosts)}
        known: dict[Hashable, int] = {}
        self._class = np.zeros(len(hosts), np.int64)
        self._example: list[HostState] = []
        for number, host in enumerate(hosts):
            key = host_class(host.supply)
            if key not in known:
                known[key] = len(known)
                self._example.append(host)
            self._class[number] = known[key]

    def reorder(self, hosts: Sequence[HostState], order: Ints) -> None:
        """Put the hosts in another order."""
        self._hosts = hosts
        self._number = {host.name: number for number, host in enumerate(hosts)}
        self._class = self._class[order]

    def always(self, demand: Demand) -> Flags:
        """The hosts that may take the type as far as rules go which nothing changes."""
        classes = np.array([refuse_always(host, demand) is None for host in self._example], bool)
        found: Flags = classes[self._class]
        if demand.hosts:
            named = np.zeros(len(found), bool)
            named[[self._number[name] for name in demand.hosts if name in self._number]] = True
            found &= named
        return found

    def company(self, number: int, demand: Demand) -> bool:
        """Whether the VMs on the host leave it to the type."""
        return refuse_company(self._hosts[number], demand) is None


def choosy(demand: Demand) -> bool:
    """Whether it matters to the type which VMs are on a host."""
    return bool(demand.together_with or demand.apart_from)
