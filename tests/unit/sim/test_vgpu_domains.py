"""Domains with vGPUs and VFs: what libvirt, QEMU and the driver refuse (behaviour §5, §7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.sim.boards import FIRST, NEW, OLD, ONE, TWO, to_vfio, virtual, write
from tests.unit.sim.values import PLAN, named, refused
from vgpumgr import domainxml
from vgpumgr.model.domain import MdevHostdev, PciHostdev
from vgpumgr.model.errors import HostRefused, InUse
from vgpumgr.model.host import HostRecord, Versions
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.sim import injection
from vgpumgr.sim.in_process import InProcessHosts
from vgpumgr.sim.injection import fault_words
from vgpumgr.sim.machine import host_programs
from vgpumgr.sim.machine.host_programs import PATH
from vgpumgr.sim.machine.kernel import Kernel
from vgpumgr.sim.simulated_host import SimulatedHost


class World:
    """One simulated host with all VFs on."""

    def __init__(self, *boards: SimBoard, versions: Versions, fabric: str = "") -> None:
        made = SimHost(name="h1", boards=boards, versions=versions, fabric=fabric)
        self.hosts = InProcessHosts(SimFleet(name="f", hosts=(made,)), identity=lambda: ("f", 1))
        self.host: Host = self.hosts.open(HostRecord(name="h1", address="sim://h1"))
        self.kernel.modprobe("vfio-pci")
        if self.kernel.nvidia:
            host_programs.run(self.kernel, [PATH, "-e", "ALL"])

    @property
    def simulated(self) -> SimulatedHost:
        return self.hosts.fleet.hosts["h1"]

    @property
    def kernel(self) -> Kernel:
        return self.simulated.kernel

    def define(self, name: str, *devices: str) -> None:
        hostdevs = [PciHostdev(address=d) if ":" in d else MdevHostdev(uuid=d) for d in devices]
        plan = replace(named(PLAN, name, len(name)), hostdevs=tuple(hostdevs))
        self.host.domains.define(domainxml.render(plan, self.kernel.host.versions))

    def start(self, name: str, *devices: str) -> None:
        self.define(name, *devices)
        self.host.domains.start(name)

    def type(self, vf: str, text: str = "1147") -> None:
        write(self.kernel, vf, "nvidia/current_vgpu_type", text)


def world(*boards: str, versions: Versions = NEW) -> World:
    return World(*(SimBoard(board=each) for each in boards), versions=versions)


def test_a_vf_wants_a_type() -> None:
    """§5: open of an unconfigured VF ENODEV."""
    here = world("L40S")
    vf = virtual(here.kernel)[0]
    with pytest.raises(HostRefused) as caught:
        here.start("vm", vf)
    assert caught.value.errno_name == "ENODEV"
    here.type(vf)
    here.host.domains.start("vm")
    assert here.kernel.nvidia[FIRST].vgpus[0].vm == "vm"
    assert here.kernel.busy_groups() == {here.kernel.group_of(vf)}


def test_a_vf_of_a_vendors_driver_is_never_managed() -> None:
    """§5: <hostdev type='pci' managed='no'>, managed must be no."""
    here = world("L40S")
    vf = virtual(here.kernel)[0]
    here.type(vf)
    here.define("vm", vf)
    xml = here.host.domains.xml("vm").replace("managed='no'", "managed='yes'")
    here.host.domains.define(xml.replace('managed="no"', 'managed="yes"'))
    refused(HostRefused, "must not be managed", lambda: here.host.domains.start("vm"))


def test_an_older_libvirt_wants_it_on_vfio() -> None:
    """§12: variant-driver VF with managed=no 9.7.0."""
    here = world("L40S", versions=replace(NEW, libvirt="9.0.0"))
    vf = virtual(here.kernel)[0]
    here.type(vf)
    refused(HostRefused, "must be manually detached", lambda: here.start("vm", vf))


def test_a_vf_serves_one_running_domain_and_is_ended_late() -> None:
    """§5: EPERM while open, EBUSY while the plugin ends."""
    here = world("L40S")
    vf = virtual(here.kernel)[0]
    here.type(vf)
    here.start("vm", vf)
    refused(InUse, "in use by driver QEMU, domain vm", lambda: here.start("other", vf))
    refused_to_clear(here, vf, "EPERM")
    here.host.domains.destroy("vm")
    refused_to_clear(here, vf, "EBUSY")
    here.kernel.clock.wait(2)
    here.type(vf, "0")
    assert here.kernel.nvidia[FIRST].vgpus == ()


def refused_to_clear(here: World, vf: str, name: str) -> None:
    import errno

    with pytest.raises(OSError) as caught:
        here.type(vf, "0")
    assert errno.errorcode[caught.value.errno or 0] == name


def test_a_fixed_place_that_is_taken_fails_the_start_not_the_write() -> None:
    """§7: mdev: an invalid or taken id makes the VM start fail."""
    here = world("L40S", versions=OLD)
    first, second = virtual(here.kernel)[:2]
    for vf, uuid in ((first, ONE), (second, TWO)):
        write(here.kernel, vf, "mdev_supported_types/nvidia-1147/create", uuid)
    at = f"/sys/bus/mdev/devices/{TWO}/nvidia"
    here.kernel.tree.write(f"{at}/vgpu_params", "vgpu-placement-id=0")
    with pytest.raises(HostRefused) as caught:
        here.start("vm", TWO)
    assert caught.value.errno_name == "EBUSY"
    assert (here.kernel.held, here.simulated.domains.look("vm").state.value) == ({}, "shutoff")  # type: ignore[union-attr]
    assert here.kernel.memory.nodes[0].free_mib == here.kernel.memory.nodes[0].mib
    here.kernel.tree.write(f"{at}/vgpu_params", "vgpu-placement-id=3")
    here.host.domains.start("vm")
    assert here.kernel.tree.read(f"{at}/placement_id") == "3\n"


def test_several_vgpus_start_together_or_not_at_all() -> None:
    here = world("L40S", "L40S", versions=OLD)
    first, second = (virtual(here.kernel, gpu.address)[0] for gpu in here.kernel.gpus)
    for vf, uuid in ((first, ONE), (second, TWO)):
        write(here.kernel, vf, "mdev_supported_types/nvidia-1147/create", uuid)
    params = f"/sys/bus/mdev/devices/{TWO}/nvidia/vgpu_params"
    here.kernel.tree.write(params, "vgpu-placement-id=99")
    with pytest.raises(HostRefused):
        here.start("vm", ONE, TWO)
    assert {vgpu.vm for gpu in here.kernel.nvidia.values() for vgpu in gpu.vgpus} == {""}
    here.kernel.tree.write(params, " ")
    here.host.domains.start("vm")
    assert {vgpu.vm for gpu in here.kernel.nvidia.values() for vgpu in gpu.vgpus} == {"vm"}


def test_a_plain_vf_goes_to_a_guest_on_vfio() -> None:
    """§16: VF bound to vfio-pci and given to the VM as a plain PCI hostdev."""
    here = World(SimBoard(board="MI300X", vfs=8), versions=OLD)
    vf, other = virtual(here.kernel)[:2]
    refused(HostRefused, "must be manually detached", lambda: here.start("vm", vf))
    to_vfio(here.kernel, vf)
    here.host.domains.start("vm")
    assert here.kernel.pci.functions[vf].dirty
    to_vfio(here.kernel, other)
    here.start("second", other)


def test_usb_c_beside_the_gpu_makes_the_group_not_viable() -> None:
    """§11: every endpoint of the group on a vfio driver or unbound."""
    here = world("RTX8000P")
    for number in (0, 1, 2):
        to_vfio(here.kernel, f"0000:41:00.{number}")
    refused(HostRefused, "is not viable", lambda: here.start("vm", FIRST))
    to_vfio(here.kernel, "0000:41:00.3")
    here.host.domains.start("vm")


def test_a_lost_gpu_starts_no_domain() -> None:
    here = world("H100-PCIE-80GB")
    host_programs.run(here.kernel, [PATH, "-d", "ALL"])
    to_vfio(here.kernel, FIRST)
    injection.inject_gpu(here.kernel, FIRST, ["lost"])
    refused(HostRefused, "Unknown PCI header type '127'", lambda: here.start("vm", FIRST))


def test_gpus_outside_their_partition_start_and_are_told() -> None:
    """fabric_partitions.yaml: Fabric Manager refuses no start; the guest's cuInit fails (802)."""
    here = World(
        SimBoard(board="H100-SXM5-80GB", count=8), versions=replace(NEW), fabric="HGX-H100-8"
    )
    host_programs.run(here.kernel, [PATH, "-d", "ALL"])
    here.kernel.clock.wait(30)
    by_module = {gpu.module_id: gpu.address for gpu in here.kernel.nvidia.values()}
    for number in (1, 3):
        to_vfio(here.kernel, by_module[number])
    here.start("vm", by_module[1], by_module[3])
    assert here.simulated.guests_without_fabric() == ("vm",)
    host_programs.run(here.kernel, ["fmpm", "-a", "3"])
    assert here.simulated.guests_without_fabric() == ()


def test_power_takes_types_mdevs_vfs_and_faults() -> None:
    """§4, §5, §8: VFs vanish, types reset to 0, instances never survive."""
    here = world("L40S")
    vf = virtual(here.kernel)[0]
    here.type(vf)
    here.start("vm", vf)
    here.hosts.fleet.inject("h1", ["gpu", FIRST, "lost"])
    assert fault_words(here.simulated) == (f"gpu {FIRST} lost",)
    here.hosts.fleet.inject("h1", ["reboot"])
    assert (virtual(here.kernel), here.kernel.nvidia[FIRST].vgpus) == ([], ())
    assert (here.kernel.held, fault_words(here.simulated)) == ({}, ())


def test_clear_clears_gpus_too() -> None:
    here = world("L40S")
    for words in (["latency", "0"], ["gpu", FIRST, "client", "python"], ["gpu", FIRST, "ecc"]):
        here.hosts.fleet.inject("h1", words)
    here.hosts.fleet.inject("h1", ["clear"])
    assert fault_words(here.simulated) == ()
