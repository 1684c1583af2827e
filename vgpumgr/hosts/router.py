"""Every host by its address: simulated ones here, real ones there."""

from __future__ import annotations

from collections.abc import Callable

from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host, Hosts

SIMULATED = "sim://"


class HostRouter:
    """Fulfils ``ports.Hosts``. Each side is made when its first host is opened."""

    def __init__(self, *, simulated: Callable[[], Hosts], real: Callable[[], Hosts]) -> None:
        self._make = {True: simulated, False: real}
        self._made: dict[bool, Hosts] = {}

    def open(self, record: HostRecord) -> Host:
        """The host, by whatever way its address names."""
        simulated = record.address.startswith(SIMULATED)
        if simulated not in self._made:
            self._made[simulated] = self._make[simulated]()
        return self._made[simulated].open(record)

    def close(self) -> None:
        """Drop all connections."""
        for hosts in self._made.values():
            hosts.close()
