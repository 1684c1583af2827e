"""Which way a host is reached, by its address."""

from __future__ import annotations

from collections.abc import Callable

from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host, Hosts

SIMULATED = "sim://"


class HostRouter:
    """``sim://NAME`` goes to the simulated fleet, everything else to real hosts.

    Each way is made on first use, so that a simulated fleet never loads SSH.
    """

    def __init__(self, *, simulated: Callable[[], Hosts], real: Callable[[], Hosts]) -> None:
        self._simulated = simulated
        self._real = real

    def open(self, record: HostRecord) -> Host:
        """The host of a ledger record."""
        way = self._simulated if is_simulated(record) else self._real
        return way().open(record)

    def close(self) -> None:
        """Nothing of its own to drop: the ways are closed by who made them."""


def is_simulated(record: HostRecord) -> bool:
    """Is this a simulated host?"""
    return record.address.startswith(SIMULATED)
