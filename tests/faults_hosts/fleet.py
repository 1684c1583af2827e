"""Namespace hosts with a parent of mediated devices each, enrolled, behind the proxy."""

from __future__ import annotations

import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import nshosts
from tests.faults_hosts.proxy import Proxy
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.helper.helper_launch import LAUNCHER
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.host import HostRecord

ON_HOST = Path(__file__).with_name("onhost")
MDEVS = 4
IMAGE = "halt.img"
# cli; hlt: a guest that takes no CPU.
HALT = b"\xfa\xf4\xeb\xfd".ljust(510, b"\0") + b"\x55\xaa"
# Fails where libvirt finds no QEMU that works.
RUNS_GUESTS = ("virsh", "-c", "qemu:///system", "domcapabilities", "--arch", "x86_64")
FILE_SYSTEMS = {"/var/lib": "64m", "/etc/libvirt": "64m", "/run": "64m"}
_FIRST_PORT = 20000
_AT_ONCE = 4


class Fleet:
    """``hosts`` by name, and ``records`` to enrol them by."""

    def __init__(self, count: int, folder: Path) -> None:
        self.folder = folder
        self._namespaces = nshosts.NamespaceFleet(0, prepare=_prepare(folder), sizes=FILE_SYSTEMS)
        self.ssh_config = self._namespaces.ssh_config
        self.hosts: dict[str, nshosts.NamespaceHost] = {}
        self.records: dict[str, HostRecord] = {}
        self.proxy = Proxy()
        nshosts.keygen(self.other_key)
        try:
            self._bring_up(count)
        except BaseException:
            self.close()
            raise

    @property
    def other_key(self) -> Path:
        """An SSH key that no host has."""
        return self.folder / "other-host-key"

    def close(self) -> None:
        """End all of it."""
        self.proxy.close()
        self._namespaces.close()

    def _bring_up(self, count: int) -> None:
        # The first finds out what QEMU can do; the others read that from its cache.
        for some in (1, *(min(8, count - n) for n in range(1, count, 8))):
            for host in self._namespaces.add(some):
                self.hosts[host.name] = host
        real = RealHosts(ssh_config=self.ssh_config, identity=lambda: (str(uuid.uuid4()), 1))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            enrolled = pool.map(lambda host: self._enrol(real, host), self.hosts.values())
            self.records = {record.name: record for record in enrolled}
        real.close()

    def _enrol(self, real: RealHosts, host: nshosts.NamespaceHost) -> HostRecord:
        port = _FIRST_PORT + int(host.name.removeprefix("h"))
        address = f"root@{self.proxy.before(host.name, port, host.ip)}"
        record = HostRecord(name=host.name, address=address)
        record = real_hosts.pin_host_key(real, record, host.fingerprint, _never)
        host.run(*RUNS_GUESTS)
        real.open(record).installation.install()
        host.path(LAUNCHER).write_text((ON_HOST / "launcher").read_text())
        host.path(f"/var/lib/libvirt/images/{IMAGE}").write_bytes(HALT.ljust(64 << 10, b"\0"))
        return record


def _prepare(folder: Path) -> tuple[str, ...]:
    """What each host runs first; libvirtd's preloaded library is built for all of them."""
    library = folder / "memlock.so"
    source = str(ON_HOST / "memlock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), source], check=True)
    return (sys.executable, "-I", str(ON_HOST / "prepare.py"), str(ON_HOST), str(MDEVS),
            str(library))  # fmt: skip


def _never(name: str, key: str) -> None:
    raise AssertionError(f"{name} showed {key}, which nobody pinned")
