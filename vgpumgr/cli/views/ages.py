"""What the last observation said, and how long ago that was."""

from __future__ import annotations

import time
from collections.abc import Iterable

from vgpumgr.model.host import HostRecord


def observed_states(hosts: Iterable[HostRecord]) -> dict[tuple[str, str], str]:
    """Power state per (host, domain name), as last seen."""
    return {
        (host.name, domain.name): str(domain.state)
        for host in hosts
        if host.facts
        for domain in host.facts.domains
    }


def observed_ats(hosts: Iterable[HostRecord]) -> dict[str, float | None]:
    """When each host was last seen, in Unix seconds."""
    return {host.name: host.observed_at for host in hosts}


def age(observed_at: float | None) -> str:
    """``12s``, ``5m``, ``3h``, ``2d``; a dash for never."""
    if observed_at is None:
        return "-"
    return _rounded(time.time() - observed_at)


def until(at: float) -> str:
    """``in 3h``, or ``now`` once it has come; Unix seconds."""
    left = at - time.time()
    return f"in {_rounded(left)}" if left > 0 else "now"


def _rounded(span_s: float) -> str:
    seconds = max(0, int(span_s))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
