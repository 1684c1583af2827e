"""Which hosts Prometheus asks itself, as its HTTP service discovery reads them.

A host that runs the exporter has a label ``exporter``: its port, or the address and port at which
Prometheus reaches it. Source of the format: Prometheus documentation, http_sd_config.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vgpumgr.model.host import HostRecord
from vgpumgr.telemetry.fleet_frame import RACK

EXPORTER = "exporter"
_META = "__meta_vgpumgr_"


def scrape_targets(hosts: Iterable[HostRecord]) -> list[dict[str, Any]]:
    """A group for each host that has the label, unless it is at rest."""
    return [
        {"targets": [target], "labels": _labels(host)}
        for host in hosts
        if not host.at_rest
        for target in (_target(host),)
        if target
    ]


def _target(host: HostRecord) -> str:
    told = host.labels.get(EXPORTER, "")
    return f"{_machine(host)}:{told}" if told.isdecimal() else told


def _machine(host: HostRecord) -> str:
    """``root@gpu1:22`` and ``root@[fd00::1]:22`` without user and port; others have a name."""
    if host.address == "local" or "://" in host.address:
        return host.name
    place = host.address.rpartition("@")[2]
    if place.startswith("["):
        return place.partition("]")[0] + "]"
    name = place.partition(":")[0]
    return f"[{place}]" if place.count(":") > 1 else name


def _labels(host: HostRecord) -> dict[str, str]:
    found = {f"{_META}host": host.name}
    return {**found, f"{_META}rack": host.labels[RACK]} if host.labels.get(RACK) else found
