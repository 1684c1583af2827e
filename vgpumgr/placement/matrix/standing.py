"""Which hosts the rules about hosts themselves leave to a type of request."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from vgpumgr.placement.board import BoardBook
from vgpumgr.placement.demand import Demand
from vgpumgr.placement.matrix.hosts import host_class
from vgpumgr.placement.matrix.wants import Flags, Ints
from vgpumgr.placement.rules.host import refuse_always, refuse_company
from vgpumgr.placement.state import HostState

_BOARDS = BoardBook()
"""These rules do not look at GPUs."""


class Standing:
    """Labels, networks, pools, names, and for types with such wishes the VMs that are there."""

    def __init__(self, hosts: Sequence[HostState]) -> None:
        self._hosts = hosts
        self._number = {host.name: number for number, host in enumerate(hosts)}
        self._classes: dict[Hashable, int] = {}
        self._class = np.zeros(len(hosts), np.int64)
        self._example: list[HostState] = []
        for number in range(len(hosts)):
            self.renew(number)

    def renew(self, number: int) -> None:
        """The host's supply is another."""
        supply = self._hosts[number].supply
        key = host_class(supply)
        if key not in self._classes:
            self._classes[key] = len(self._classes)
            self._example.append(HostState(supply, 0, _BOARDS))
        self._class[number] = self._classes[key]

    def reorder(self, hosts: Sequence[HostState], order: Ints) -> None:
        """Put the hosts in another order."""
        self._hosts = hosts
        self._number = {host.name: number for number, host in enumerate(hosts)}
        self._class = self._class[order]

    def of(self, demand: Demand) -> Flags:
        """The hosts that these rules leave to the type."""
        found = self.always(demand)
        if choosy(demand):
            alone = np.array(
                [not host.touched and not host.supply.vm_labels for host in self._hosts], np.bool_
            )
            empty = np.flatnonzero(found & alone)
            # What holds for one host without VMs holds for all of them.
            if len(empty) and not self._company(int(empty[0]), demand):
                found[empty] = False
            for host in np.flatnonzero(found & ~alone).tolist():
                found[host] = self._company(host, demand)
        return found

    def always(self, demand: Demand) -> Flags:
        """The same as far as rules go which no VM that comes or goes changes."""
        classes = np.array([refuse_always(host, demand) is None for host in self._example], bool)
        found: Flags = classes[self._class]
        if demand.hosts:
            named = np.zeros(len(found), bool)
            named[[self._number[name] for name in demand.hosts if name in self._number]] = True
            found &= named
        return found

    def on(self, number: int, demand: Demand) -> bool:
        """Whether these rules leave the host to the type."""
        host = self._hosts[number]
        named = not demand.hosts or host.name in demand.hosts
        return named and refuse_always(host, demand) is None and self._company(number, demand)

    def _company(self, number: int, demand: Demand) -> bool:
        """Whether the VMs on the host leave it to the type."""
        return refuse_company(self._hosts[number], demand) is None


def choosy(demand: Demand) -> bool:
    """Whether it matters to the type which VMs are on a host."""
    return bool(demand.together_with or demand.apart_from)
