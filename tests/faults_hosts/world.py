"""What hosts and ledger show, as the independent checker wants it (tests/checker/README.md)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import libvirt

from tests.checker import store
from tests.nshosts import NamespaceHost

HELPER = "/usr/local/lib/vgpumgr/vgpumgr-helper"
_STATES = {
    libvirt.VIR_DOMAIN_RUNNING: "running",
    libvirt.VIR_DOMAIN_PAUSED: "paused",
    libvirt.VIR_DOMAIN_SHUTOFF: "shutoff",
    libvirt.VIR_DOMAIN_CRASHED: "crashed",
}
_AT_ONCE = 4


def dump(ledger: str, hosts: dict[str, NamespaceHost]) -> dict[str, Any]:
    """The store's rows and every host, at rest."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        seen = dict(zip(hosts, pool.map(_host, hosts.values()), strict=True))
    twice = [f"mdev {uuid} on {name}" for name in hosts for uuid in held_twice(hosts[name])]
    watch = {"dual_running_s": 0.0, "shared": twice}
    return {"store": store.read(ledger), "hosts": seen, "watch": watch}


def held_twice(host: NamespaceHost) -> list[str]:
    """Devices that a second QEMU wanted while a first one held them."""
    told = host.path("/run/emulated/held-twice")
    return told.read_text().split() if told.exists() else []


def _host(host: NamespaceHost) -> dict[str, Any]:
    request = json.dumps({"verb": "probe", "args": {}})
    argv = [*host.enter, HELPER]
    said = subprocess.run(argv, input=request, capture_output=True, text=True, check=True)
    connection = libvirt.open(f"qemu+unix:///system?socket={host.libvirt_socket}")
    try:
        return {
            "probe": json.loads(said.stdout)["result"],
            "domains": [_domain(each) for each in connection.listAllDomains()],
            "volumes": [[pool, name] for pool, name in _volumes(connection, host)],
        }
    finally:
        connection.close()


def _domain(domain: libvirt.virDomain) -> dict[str, Any]:
    persistent = bool(domain.isPersistent())
    return {
        "name": domain.name(),
        "uuid": domain.UUIDString(),
        "state": _STATES.get(domain.state()[0], "other"),
        "persistent": persistent,
        "autostart": bool(domain.autostart()) if persistent else False,
        "xml": domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE if persistent else 0),
    }


def _volumes(connection: libvirt.virConnect, host: NamespaceHost) -> Iterator[tuple[str, str]]:
    """By the folder itself: what libvirt lists is what it knew at its last refresh."""
    for pool in connection.listAllStoragePools():
        if pool.isActive():
            images = host.path("/var/lib/libvirt/images")
            yield from ((pool.name(), each.name) for each in images.iterdir() if each.is_file())
