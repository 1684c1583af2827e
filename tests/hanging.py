"""Hosts that take their time, or hang, on virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tests.fakes import FakeClock
from vgpumgr.model.errors import DeadlineExceeded
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.ports import Host, Hosts

# What a host that hangs takes until the deadlines of its calls have cut them all.
DEADLINE_S = 26.0


@dataclass
class SlowHosts:
    """Other hosts, each look at which takes ``takes_s`` seconds; those of ``hung`` never answer."""

    hosts: Hosts
    clock: FakeClock
    takes_s: Mapping[str, float]
    hung: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def open(self, record: HostRecord) -> Host:
        return _Slow(self, self.hosts.open(record))  # type: ignore[return-value]

    def close(self) -> None:
        self.hosts.close()

    def look(self, name: str, probe: Callable[[], HostFacts]) -> HostFacts:
        self.asked.append(name)
        if name in self.hung:
            self.clock.wait(DEADLINE_S)
            raise DeadlineExceeded(f"libvirt on {name} did not answer within {DEADLINE_S:g} s")
        self.clock.wait(self.takes_s[name])
        return probe()


class _Slow:
    def __init__(self, slow: SlowHosts, host: Host) -> None:
        self._slow = slow
        self._host = host

    def __getattr__(self, name: str) -> object:
        return getattr(self._host, name)

    def probe(self) -> HostFacts:
        return self._slow.look(self._host.name, self._host.probe)


def spread(names: Iterable[str], first_s: float = 0.3, last_s: float = 0.7) -> dict[str, float]:
    """What each takes, evenly between these."""
    listed = list(names)
    step = (last_s - first_s) / max(1, len(listed) - 1)
    return {name: first_s + step * number for number, name in enumerate(listed)}
