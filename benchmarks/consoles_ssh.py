"""Consoles over real SSH: how soon a picture comes, how soon after a key, and for how long.

``python -m benchmarks.consoles_ssh [--vms 50] [--pictures 100] [--keys 500] [--idle 0]``, as root:
a host in a namespace of this machine with its own sshd, libvirtd and QEMU (TCG), and the installed
helper. Each VM runs a boot sector that gives the screen's first character another colour at every
key. A picture: a new SSH connection, the helper, the VNC handshake and the whole screen; what the
API adds to it is in ``benchmarks.consoles``. A key: from the press until its new pixels have come,
one console after the other while all are open; ``key_without_ssh`` is the same at QEMU's own
socket. QEMU looks for changes as a key comes, before the guest has drawn, and then not for 80 ms;
the page sends more input meanwhile (``screen.js``), by which it looks 30 ms after the last time. So
does this; ``unreminded`` is without. With ``--idle SECONDS`` all consoles are left alone so long,
and must still answer a key. Viewers, sshd and the VMs share the processors. Prints JSON,
milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from uuid import UUID

from benchmarks.consoles import spread
from tests import nshosts
from tests.e2e.test_real_console import FLEET, reached
from tests.vncviewer import Viewer
from vgpumgr import domainxml
from vgpumgr.model.domain import DomainDisk, DomainPlan, Ownership
from vgpumgr.model.host import Versions
from vgpumgr.model.ports import Host

BOOT = bytes.fromhex(
    "b800b8 8ec0"  # es: the screen's memory
    "b401 b90020 cd10"  # no cursor: it blinks
    "26c6060000db"  # the first character is a full block
    "31c0 cd16"  # wait for a key
    "26fe060100"  # another colour
    "ebf5"  # and again
)
SECTOR, DISK = 510, 1 << 20
IMAGES = "/var/lib/libvirt/images"
PART = (16, 16)
"""The first character and a half, in pixels: QEMU sends by sixteen."""
RELEASE = struct.pack(">BBHII", 255, 0, 0, 0, 0x6F)
"""The release of F24, by its place on the keyboard."""
REMINDED_S = (0.012, 0.042, 0.072)
"""When the page sends it after a key: ``screen.js``."""
LOST_S = 20.0
"""What takes longer has been lost."""


def plan(name: str, number: int) -> DomainPlan:
    """A VM that does nothing but show its keys."""
    return DomainPlan(
        name=name,
        uuid=str(UUID(int=(0x4B20D080 << 96) + number)),
        ownership=Ownership(fleet=FLEET, vm=name, vm_id=name, generation=1),
        vcpus=1,
        memory_mib=32,
        firmware="bios",
        accelerator="tcg",
        graphics=True,
        disks=(DomainDisk(path=f"{IMAGES}/{name}.raw", format="raw", target="vda"),),
    )


@contextmanager
def running(host: Host, where: nshosts.NamespaceHost, names: Sequence[str]) -> Iterator[None]:
    """All of them, each with a screen that answers keys."""
    versions = Versions(libvirt=host.probe().versions.libvirt)
    for number, name in enumerate(names):
        disk = where.path(f"{IMAGES}/{name}.raw")
        disk.write_bytes(BOOT.ljust(SECTOR, b"\0") + b"\x55\xaa")
        os.truncate(disk, DISK)
        host.domains.define(domainxml.render(plan(name, number), versions))
        host.domains.start(name)
    try:
        yield
    finally:
        for name in names:
            host.domains.destroy(name)
            host.domains.undefine(name)


class KeyedViewer(Viewer):
    """A viewer that waits for pixels to change, as those of people do."""

    def begin(self) -> tuple[int, int]:
        """Shake hands; the size of the screen."""
        self.greet()
        screen = self.screen()
        return screen.width, screen.height

    def key(self, *, down: bool) -> None:
        """Half of a press."""
        self.socket.sendall(struct.pack(">BBxxI", 4, down, ord("a")))

    def awaited(self) -> None:
        """Ask for what changes in the first character."""
        self.socket.sendall(struct.pack(">BBHHHH", 3, 1, 0, 0, *PART))

    def changed(self) -> None:
        """Read what was asked for."""
        while True:
            kind, count = struct.unpack(">BxH", self.read(4))
            assert kind == 0
            for _ in range(count):
                _, _, wide, high, encoding = struct.unpack(">HHHHi", self.read(12))
                assert encoding == 0
                self.read(4 * wide * high)
            if count:
                return

    def answers(self, reminded: Sequence[float] = ()) -> float:
        """Seconds from a key to its pixels. ``reminded``: after so many seconds each, the release
        of a key that is not held, as the page sends it.
        """
        self.awaited()
        came = threading.Event()
        thread = threading.Thread(target=self._remind, args=(came, reminded), daemon=True)
        began = time.perf_counter()
        self.key(down=True)
        thread.start()
        self.changed()
        took = time.perf_counter() - began
        came.set()
        thread.join()
        self.key(down=False)
        return took

    def _remind(self, came: threading.Event, times: Sequence[float]) -> None:
        before = 0.0
        for each in times:
            if came.wait(each - before):
                return
            self.socket.sendall(RELEASE)
            before = each


def over_ssh(host: Host, name: str) -> KeyedViewer:
    """A viewer through sshd and the helper."""
    return KeyedViewer("", host.console(name, name))


def without_ssh(where: nshosts.NamespaceHost, name: str) -> KeyedViewer:
    """A viewer at the socket that libvirt made for the VM's screen."""
    (path,) = where.path("/var/lib/libvirt/qemu").glob(f"domain-*-{name}/vnc.sock")
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(LOST_S)
    folder = os.open(path.parent, os.O_PATH)  # the whole path is longer than a socket's may be
    try:
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    return KeyedViewer("", connection)


def booted(where: nshosts.NamespaceHost, names: Sequence[str]) -> None:
    """Wait until every VM answers keys."""
    for name in names:
        with without_ssh(where, name) as viewer:
            viewer.begin()

            def block(viewer: KeyedViewer = viewer) -> bool:
                return all(viewer.picture(*PART)[:: 4 * PART[0]])  # its left edge

            nshosts.poll(block, f"{name} to boot", 300.0)


def pictures(host: Host, names: Sequence[str], count: int) -> list[float]:
    """From nothing to the whole screen, in seconds."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        with over_ssh(host, names[number % len(names)]) as viewer:
            viewer.picture(*viewer.begin())
            times.append(time.perf_counter() - began)
    return times


def keys(
    viewers: Sequence[KeyedViewer], count: int, reminded: Sequence[float] = ()
) -> dict[str, float]:
    """From a key to its pixels, one console after the other."""
    for viewer in viewers:
        viewer.picture(*PART)
    return spread([viewers[number % len(viewers)].answers(reminded) for number in range(count)])


def idle(viewers: Sequence[KeyedViewer], seconds: float) -> dict[str, float]:
    """How many still answer a key after so long without a word."""
    time.sleep(seconds)
    alive = 0
    for viewer in viewers:
        try:
            viewer.answers()
            alive += 1
        except (ConnectionError, OSError):
            continue
    return {"seconds": seconds, "open": len(viewers), "still_alive": alive}


def measured(
    host: Host, where: nshosts.NamespaceHost, given: argparse.Namespace
) -> dict[str, object]:
    """All of it."""
    names = [f"desk-{number:02d}" for number in range(1, given.vms + 1)]
    told: dict[str, object] = {}
    with running(host, where, names), ExitStack() as stack:
        booted(where, names)
        told["load_before"] = os.getloadavg()[0]
        told["picture_over_ssh"] = spread(pictures(host, names, given.pictures))
        near = [stack.enter_context(without_ssh(where, name)) for name in names]
        for viewer in near:
            viewer.begin()
        told["key_without_ssh_unreminded"] = keys(near, given.keys)
        told["key_without_ssh"] = keys(near, given.keys, REMINDED_S)
        for viewer in near:
            viewer.socket.close()
        viewers = [stack.enter_context(over_ssh(host, name)) for name in names]
        for viewer in viewers:
            viewer.begin()
        told["key_over_ssh_unreminded"] = keys(viewers, given.keys)
        told[f"key_over_ssh_with_{given.vms}_open"] = keys(viewers, given.keys, REMINDED_S)
        told["load_after_keys"] = os.getloadavg()[0]
        print(json.dumps(told), file=sys.stderr, flush=True)
        if given.idle:
            told["idle"] = idle(viewers, given.idle)
            told["load_after_idle"] = os.getloadavg()[0]
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vms", type=int, default=50)
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--idle", type=float, default=0.0)
    given = parser.parse_args()
    if why := nshosts.missing():
        sys.exit(f"no namespace hosts here: {why}")
    facts = {"benchmark": "consoles_ssh", "vms": given.vms, "cpus": os.cpu_count()}
    with closing(nshosts.NamespaceFleet(1)) as fleet, reached(fleet) as host:
        host.installation.install()
        told = measured(host, fleet.hosts[0], given)
    print(json.dumps({**facts, **told}, indent=2))


if __name__ == "__main__":
    main()
