"""Two lab hosts between which VMs move, each with a guest that counts."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.lab.counter import BOOT_SECTOR
from tests.lab.labhost import LabHost, Vgpumgr

VM = "desk"
IMAGE = "counter.raw"
# Noise, so that all of it has to be carried.
IMAGE_BYTES = 16 << 20
POOL_PATH = "/var/lib/libvirt/images"
COUNTS_WITHIN_S = 120.0
SETTLES_WITHIN_S = 300.0


@dataclass(frozen=True)
class Two:
    """Both hosts of the fleet, and where the VM is."""

    vgpumgr: Vgpumgr
    hosts: tuple[LabHost, LabHost]

    def create(self, *profiles: str, **more: Any) -> tuple[LabHost, LabHost]:
        """The VM on any of the hosts, counting; that host and the other one."""
        disk = {"mode": "copy", "image": IMAGE, "image_format": "raw", "format": "raw"}
        gpus = [{"profile": each} for each in profiles]
        document = {"name": VM, "gpus": gpus, "disks": [disk], **more}
        self.vgpumgr("apply", "-f", self.vgpumgr.file(document))
        here = self.shown()["host"]
        first, second = self.hosts
        return (first, second) if first.name == here else (second, first)

    def shown(self) -> dict[str, Any]:
        """What ``vm show`` says."""
        found: dict[str, Any] = self.vgpumgr("vm", "show", VM, "-o", "json").json
        return found

    def move(self, target: LabHost, *more: str, code: int = 0) -> str:
        """``vm migrate``; what it wrote for people."""
        return self.vgpumgr("vm", "migrate", VM, "--to", target.name, *more, code=code).err

    def takes(self, host: LabHost, *more: str) -> None:
        """Where a host takes running VMs: on the private link."""
        self.vgpumgr("host", "migration", host.name, "--address", host.ip, *more)

    def open_operations(self) -> list[str]:
        """The ids of the unfinished ones."""
        items = self.vgpumgr("operation", "list", "--open", "-o", "json").json["items"]
        return [each["name"] for each in items]

    def is_alone_on(self, host: LabHost) -> None:
        """It is defined on one host, and the other has nothing of it; the fleet agrees."""
        (other,) = (each for each in self.hosts if each is not host)
        seen, left = host.dump(), other.dump()
        assert (seen["domains"], left["domains"]) == ([VM], [])
        assert left["claims"] == left["mdevs"] == []
        assert not [line for line in left["volumes"] if VM in line]
        shown = self.shown()
        assert (shown["host"], shown["state"], shown["moving_to"]) == (host.name, "active", None)
        assert len(self.vgpumgr("allocation", "list", "-o", "json").json["items"]) == len(
            shown["gpus"]
        )
        assert self.open_operations() == []
        self.vgpumgr("drift")


def number(host: LabHost) -> int:
    """What the guest counts right now."""
    return numbers(host, 2)[-1]


def numbers(host: LabHost, count: int) -> list[int]:
    """Numbers as they come out of the guest's serial line; the first may be cut and is left out."""
    line = host.virsh("ttyconsole", VM)
    read = f"timeout {COUNTS_WITHIN_S:g} head -n {count + 1} {line}"
    heard = host.root(f"{read} || true").splitlines()[1:]
    assert len(heard) == count, f"it does not count on {host.name}: {heard}\n{inside(host)}"
    return [int(each) for each in heard]


def inside(host: LabHost) -> str:
    """What QEMU knows of a guest that is silent: whether it halts, waits for a tick, or cannot
    send.
    """
    asked = ("info status", "info registers", "info pic", "info irq", "info chardev")
    return "\n".join(
        f"{each}:\n" + host.virsh(f"qemu-monitor-command --hmp {VM} '{each}' || true")
        for each in (*asked, "info registers")
    )


def goes_on(host: LabHost, before: int) -> int:
    """It runs there and counts on, without a gap in what is heard; a number of now."""
    assert host.virsh("domstate", VM) == "running"
    heard = numbers(host, 5)
    assert heard == list(range(heard[0], heard[0] + 5))
    assert heard[0] > before
    return heard[-1]


def device(host: LabHost) -> str:
    """The host's one mediated device."""
    (found,) = host.dump()["mdevs"]
    return str(found)


@contextmanager
def image(host: LabHost) -> Iterator[None]:
    """The guest's disk in the host's pool, to be copied from."""
    path = f"{POOL_PATH}/{IMAGE}"
    noise = f"head -c {IMAGE_BYTES - len(BOOT_SECTOR)} /dev/urandom"
    host.root(f"{{ base64 -d; {noise}; }} > {path}", base64.b64encode(BOOT_SECTOR).decode())
    host.virsh("pool-refresh default")
    yield
    host.virsh(f"vol-delete {IMAGE} default")


@contextmanager
def taking_vms(vgpumgr: Vgpumgr, *hosts: LabHost) -> Iterator[Two]:
    """Both hosts take running VMs on the private link, and have the guest's disk."""
    first, second = hosts
    made = Two(vgpumgr, (first, second))
    with ExitStack() as images:
        for host in made.hosts:
            made.takes(host)
            images.enter_context(image(host))
        yield made


def until_done(vgpumgr: Vgpumgr, *args: str) -> None:
    """The command, until it ends well: libvirt may still be at what a dead client had begun."""
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while True:
        with vgpumgr.begin(*args) as process:
            out, err = process.communicate(timeout=SETTLES_WITHIN_S)
        if process.returncode == 0:
            return
        assert time.monotonic() < deadline, f"exit {process.returncode}\n{out}\n{err}"
