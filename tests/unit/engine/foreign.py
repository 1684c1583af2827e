"""What somebody made by hand on a simulated host, past everything that vgpumgr decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.contract.simulated.host import SimMachine
from tests.simworld import OLD, SimWorld, host
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimHost

UUID = "1dc2f94f-bb27-4186-a8b5-97c5e784fc0a"
MDEV = "11111111-2222-3333-4444-555555555555"


def mdev_hostdev(uuid: str) -> str:
    return (
        "<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>"
        f"<source><address uuid='{uuid}'/></source></hostdev>"
    )


def pci_hostdev(address: str, *, managed: str = "no") -> str:
    domain, bus, rest = address.split(":")
    slot, function = rest.split(".")
    return (
        f"<hostdev mode='subsystem' type='pci' managed='{managed}'><source>"
        f"<address domain='0x{domain}' bus='0x{bus}' slot='0x{slot}' function='0x{function}'/>"
        "</source></hostdev>"
    )


def domain(name: str, *devices: str, uuid: str = UUID, extra: str = "") -> str:
    """As virt-manager would write it: a console of its own kind, a tablet, a title."""
    return f"""<domain type='kvm'>
  <name>{name}</name>
  <uuid>{uuid}</uuid>
  <title>made by hand</title>
  <memory unit='MiB'>512</memory>
  <vcpu>2</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/></features>
  <devices>{"".join(devices)}
    <interface type='network'><source network='default'/></interface>
    <input type='tablet' bus='usb'/>
    <graphics type='spice'/>
  </devices>{extra}
</domain>"""


@dataclass(frozen=True)
class Hands:
    """A host on which somebody works: ``root`` is a root shell, ``host`` what virsh would do."""

    world: SimWorld
    host: Host
    root: SimMachine

    def mdev(self, profile: str, uuid: str = MDEV, number: int = 0) -> str:
        """``mdevctl start``; the hostdev that names it."""
        gpu = self.world.gpu(number)
        parents = {each.address: each.mdev_types for each in gpu.vfs} or {
            gpu.device: gpu.mdev_types
        }
        parent, types = next(iter(parents.items()))
        kind = next(each.type_id for each in types if each.profile == profile)
        self.root.write(f"/sys/class/mdev_bus/{parent}/mdev_supported_types/{kind}/create", uuid)
        return mdev_hostdev(uuid)

    def vgpu(self, type_id: int, vf: int = 0) -> str:
        """A type written to a VF; the hostdev that names it."""
        address = self.world.gpu().vfs[vf].address
        path = f"/sys/bus/pci/devices/{address}/nvidia/current_vgpu_type"
        self.root.write(path, str(type_id))
        return pci_hostdev(address)

    def bound(self, address: str) -> str:
        """``driverctl set-override … vfio-pci``; the hostdev that names it."""
        device = f"/sys/bus/pci/devices/{address}"
        self.root.run("modprobe", "vfio-pci")
        self.root.write(f"{device}/driver_override", "vfio-pci\n")
        if self.root.exists(f"{device}/driver"):
            self.root.write(f"{device}/driver/unbind", address)
        self.root.write("/sys/bus/pci/drivers_probe", address)
        return pci_hostdev(address)

    def run(self, xml: str, *, start: bool = True) -> None:
        self.host.domains.define(xml)
        if start:
            self.host.domains.start(self.names()[-1])

    def names(self) -> list[str]:
        return [each.name for each in self.host.domains.list()]

    def shown(self) -> object:
        """All that is on the host, claims included, and every definition."""
        texts = {name: _tidy(self.host.domains.xml(name)) for name in self.names()}
        return replace(self.world.facts(), epoch=None), texts


def _tidy(xml: str) -> str:
    """libvirt leaves metadata that held our mark alone as an empty element."""
    bare = xml.replace("<metadata/>", "").replace('"', "'")
    return "".join(line.strip() for line in bare.splitlines())


@contextmanager
def hands(
    folder: Path, where: SimHost, layout: GpuLayout | None = None, *others: SimHost
) -> Iterator[Hands]:
    """The layout is another fleet's work: it leaves no trace in our ledger."""
    world = SimWorld(folder, where, *others)
    if layout is not None:
        with_layout(world, layout)
    reached = world.hosts.open(world.ledger.host(where.name))
    yield Hands(world, reached, SimMachine(world.sim.hosts[where.name]))
    world.close()


def with_layout(world: SimWorld, layout: GpuLayout) -> None:
    """Partitioned as by somebody's script."""
    reached = world.hosts.open(world.ledger.host("h1"))
    gpu = world.gpu().device
    helper = reached.helper
    if layout.mig is not None:
        helper.call("mig_mode_set", {"gpu": gpu, "enabled": layout.mig})
    if layout.vfs is not None:
        count = world.gpu().sriov_total if layout.vfs == VFS_MAX else layout.vfs
        helper.call("vfs_set", {"gpu": gpu, "count": count})
    if layout.mixed_size:
        helper.call("mixed_size_set", {"gpu": gpu, "enabled": True})
    for each in layout.instances or ():
        make_instance(world, helper.call, gpu, each)


def make_instance(world: SimWorld, call: object, gpu: str, goal: InstanceGoal) -> None:
    mig = world.gpu().mig
    assert mig is not None
    profile = next(each for each in mig.profiles if each.name == goal.profile)
    args = {"gpu": gpu, "profile_id": profile.profile_id, "size": profile.size}
    call("gi_create", {**args, "start": goal.start, "compute": []})  # type: ignore[operator]


T4 = host("T4", "T4")
A40 = host("A40", versions=OLD)
L40S = host("L40S")
A100 = host("A100-PCIE-80GB")
FLEX = host("FLEX-170")
