"""What root does with virsh, mdevctl and sysfs behind our back, and that our advice cures it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.simulated.host import SimMachine
from tests.simworld import OLD, SimWorld, host, vm
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.drift import DriftKind as Kind
from vgpumgr.model.drift import DriftReport
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimHost
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.model.vm_devices import DiskSpec
from vgpumgr.sim.drivers.vgpu_files import PLUGIN_ENDS_S

CLAIMS = "/var/lib/vgpumgr/claims"
MDEVS = "/sys/bus/mdev/devices"
FOREIGN_MDEV = "11111111-2222-3333-4444-555555555555"
DISKS = (DiskSpec(size_bytes=1 << 30),)


@dataclass(frozen=True)
class Bench:
    """A host with VM web on it; ``root`` is its root shell, ``host`` what virsh would change."""

    world: SimWorld
    host: Host
    root: SimMachine

    @property
    def allocation(self) -> Allocation:
        return self.world.ledger.allocations()[0]

    @property
    def found(self) -> DriftReport:
        return self.world.engine.drift()

    def off(self) -> None:
        """Power it off, and wait for the plugin of its vGPU to end."""
        self.host.domains.destroy("web")
        self.root.wait(PLUGIN_ENDS_S)

    def remove_claim(self) -> None:
        unit = f"mdev-{self.allocation.device}"
        kind = unit if self.allocation.framework == "mdev" else f"pci-{self.allocation.device}"
        self.root.simulated.kernel.remove(f"{CLAIMS}/{kind}.json")

    def edit(self, pattern: str, text: str) -> None:
        """``virsh edit``."""
        old = self.host.domains.xml("web")
        new = re.sub(pattern, text, old)
        assert new != old
        self.host.domains.define(new)

    def obey(self, advice: str) -> None:
        """Type what a difference advises, on our side and on the host."""
        for command in re.split(r"; |, then ", advice.split("   ")[0]):
            self._type(command.removeprefix("on h1: "))

    def _type(self, command: str) -> None:
        engine = self.world.engine
        match command.split():
            case ["vgpumgr", "vm", "start", name]:
                engine.start([name]).raise_for_failure()
            case ["vgpumgr", "vm", "stop", name]:
                engine.stop_vms([name], force=False, timeout_s=5).raise_for_failure()
                self.root.wait(PLUGIN_ENDS_S)
            case ["vgpumgr", "layout", "apply"]:
                engine.layout_apply(None)[1].raise_for_failure()
            case ["virsh", "undefine", "--keep-nvram", "--keep-tpm", name]:
                self.host.domains.undefine(name)
            case ["virsh", "autostart", "--disable", name]:
                self.host.domains.set_autostart(name, on=False)
            case ["virsh", "nodedev-reattach", device]:
                self._reattach(device.removeprefix("pci_"))
            case ["echo", value, ">", path]:
                self.root.write(path, value)
            case ["rm", path]:
                self.root.simulated.kernel.remove(path)
            case _:
                raise AssertionError(f"advice that is no command: {command}")

    def _reattach(self, name: str) -> None:
        domain, bus, slot, function = name.split("_")
        rebind(self, f"{domain}:{bus}:{slot}.{function}")


def rebind(bench: Bench, address: str) -> None:
    """From vfio-pci to the host's own driver."""
    device = f"/sys/bus/pci/devices/{address}"
    bench.root.write(f"{device}/driver_override", "\n")
    bench.root.write(f"{device}/driver/unbind", address)
    bench.root.write("/sys/bus/pci/drivers_probe", address)


Made = AbstractContextManager[Bench]


@contextmanager
def bench(
    folder: Path, where: SimHost, spec: VmSpec, layout: GpuLayout | None = None
) -> Iterator[Bench]:
    world = SimWorld(folder, where)
    if layout is not None:
        world.cut(layout)
    world.apply(spec)
    reached = world.hosts.open(world.ledger.host("h1"))
    yield Bench(world, reached, SimMachine(world.sim.hosts["h1"]))
    world.close()


def on_t4(folder: Path) -> Made:
    return bench(folder, host("T4"), vm("web", "T4-4Q", disks=DISKS))


def on_l40s(folder: Path) -> Made:
    return bench(folder, host("L40S"), vm("web", "L40S-8Q"), GpuLayout(vfs=VFS_MAX))


def on_a40(folder: Path) -> Made:
    where = host("A40", versions=OLD)
    return bench(folder, where, vm("web", "A40-8Q"), GpuLayout(vfs=VFS_MAX))


def on_flex(folder: Path) -> Made:
    return bench(folder, host("FLEX-170"), vm("web", "FLEX-170-1of5"), GpuLayout(vfs=5))


def whole(folder: Path) -> Made:
    return bench(folder, host("T4"), vm("web", gpus=(GpuRequest(profile="passthrough"),)))


def mdevctl_stop(b: Bench) -> None:
    b.off()
    b.root.write(f"{MDEVS}/{b.allocation.device}/remove", "1")


def mdevctl_start(b: Bench) -> None:
    kind = f"/sys/class/mdev_bus/{b.allocation.parent}/mdev_supported_types/{b.allocation.type_id}"
    b.root.write(f"{kind}/create", FOREIGN_MDEV)


def other_type(b: Bench) -> None:
    b.off()
    current = f"/sys/bus/pci/devices/{b.allocation.device}/nvidia/current_vgpu_type"
    b.root.write(current, "0")
    other = b.root.read(current.replace("current_vgpu_type", "creatable_vgpu_types"))
    number = next(n for n in re.findall(r"^\s*(\d+)", other, re.M) if n != b.allocation.type_id)
    b.root.write(current, number)


def vfs_off(b: Bench) -> None:
    b.off()
    b.root.write(f"{MDEVS}/{b.allocation.device}/remove", "1")
    b.root.run("/usr/lib/nvidia/sriov-manage", "-d", b.world.gpu().device)


def no_numvfs(b: Bench) -> None:
    b.off()
    b.root.write(f"/sys/bus/pci/devices/{b.world.gpu().device}/sriov_numvfs", "0")


def rebound(b: Bench) -> None:
    b.off()
    rebind(b, b.allocation.device)


def undefined(b: Bench) -> None:
    b.off()
    b.host.domains.undefine("web")


def volume_deleted(b: Bench) -> None:
    b.off()
    for pool, name in b.world.ledger.vm("web").volumes:
        b.host.storage.delete(pool, name)


def memory(b: Bench) -> None:
    b.edit(r"(<(memory|currentMemory) unit=.KiB.>)\d+", r"\g<1>1048576")


# what is done, where; the kinds it is named by; whether the advice is typed and cures it
HANDS: dict[str, tuple[Callable[[Path], Made], Callable[[Bench], None], set[Kind], bool]] = {
    "virsh destroy": (on_t4, Bench.off, {Kind.POWER}, True),
    "virsh undefine": (on_t4, undefined, {Kind.DOMAIN_MISSING}, True),
    "virsh undefine of a running one": (
        on_t4,
        lambda b: b.host.domains.undefine("web"),
        {Kind.DOMAIN_TRANSIENT},
        True,
    ),
    "virsh edit: memory": (on_t4, memory, {Kind.DEFINITION}, False),
    "virsh edit: mark": (
        on_t4,
        lambda b: b.edit(r"fleet=\"[^\"]+\"", 'fleet="mine"'),
        {Kind.MARK},
        True,
    ),
    "virsh autostart": (
        on_t4,
        lambda b: b.host.domains.set_autostart("web", on=True),
        {Kind.DEFINITION},
        True,
    ),
    "mdevctl stop": (on_t4, mdevctl_stop, {Kind.POWER, Kind.DEVICE_MISSING}, True),
    "mdevctl start": (on_t4, mdevctl_start, {Kind.FOREIGN}, True),
    "a claim removed": (on_t4, Bench.remove_claim, {Kind.CLAIM_MISSING}, True),
    "a claim of a VF removed": (on_l40s, Bench.remove_claim, {Kind.CLAIM_MISSING}, True),
    "a claim of a whole GPU removed": (whole, Bench.remove_claim, {Kind.CLAIM_MISSING}, True),
    "vol-delete": (on_t4, volume_deleted, {Kind.POWER, Kind.VOLUME_MISSING}, False),
    "a VF's type rewritten": (on_l40s, other_type, {Kind.POWER, Kind.DEVICE_DIFFERS}, True),
    "sriov-manage -d": (on_a40, vfs_off, {Kind.POWER, Kind.DEVICE_MISSING, Kind.LAYOUT}, True),
    "sriov_numvfs": (on_flex, no_numvfs, {Kind.POWER, Kind.DEVICE_MISSING, Kind.LAYOUT}, True),
    "a VF rebound": (on_flex, rebound, {Kind.POWER, Kind.DEVICE_DRIVER}, True),
    "a GPU rebound": (whole, rebound, {Kind.POWER, Kind.DEVICE_DRIVER}, True),
}


@pytest.mark.parametrize("name", HANDS)
def test_a_change_behind_our_back_is_named_and_our_advice_cures_it(
    name: str, tmp_path: Path
) -> None:
    where, change, kinds, cured = HANDS[name]
    with where(tmp_path) as made:
        assert made.found == DriftReport(hosts=1, vms=1)
        change(made)
        named = made.found
        assert {each.kind for each in named.drifts} == kinds
        assert named == made.found, "a look changed something, or kept the difference for normal"
        if cured:
            # The last one knows most of what is to be done: a device comes before power.
            made.obey(max((each.next for each in named.drifts), key=len))
            assert made.found.drifts == ()
