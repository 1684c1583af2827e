"""A simulated host refuses what libvirt, QEMU and VFIO would, and forgets only what they would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.sim.values import (
    A6000,
    AUDIO,
    CLAIM,
    H100,
    MDEV,
    PLAN,
    POOL,
    SIM,
    bind,
    define,
    make_mdev,
    make_volume,
    named,
    refused,
)
from vgpumgr import domainxml
from vgpumgr.model.domain import (
    DomainDisk,
    DomainNic,
    DomainState,
    MdevHostdev,
    NumaSeat,
    NumaShare,
    PciHostdev,
)
from vgpumgr.model.errors import Conflict, HostRefused, InUse, NotFound
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import DEFAULT_VERSIONS, SimFleet
from vgpumgr.sim.in_process import InProcessHosts


@pytest.fixture
def hosts() -> Iterator[InProcessHosts]:
    found = InProcessHosts(SimFleet(name="f", hosts=(SIM,)), identity=lambda: ("f", 1))
    yield found
    found.close()


@pytest.fixture
def host(hosts: InProcessHosts) -> Host:
    return hosts.open(HostRecord(name="h1", address="sim://h1"))


# -- domains


def test_a_domain_is_defined_started_and_forgotten(host: Host) -> None:
    xml = define(host, PLAN)
    assert domainxml.differences(domainxml.render(PLAN, DEFAULT_VERSIONS), xml) == ()
    assert host.domains.xml("vm") == xml
    host.domains.start("vm")
    host.domains.start("vm")
    found = host.domains.look("vm")
    assert found is not None
    assert (found.state, found.vcpus, found.memory_mib) == (DomainState.RUNNING, 2, 4096)
    assert found.ownership == PLAN.ownership
    host.domains.shutdown("vm")
    host.domains.destroy("vm")
    host.domains.undefine("vm")
    host.domains.undefine("vm")
    assert host.domains.look("vm") is None
    assert host.domains.list() == ()


def test_what_is_not_there_is_not_found(host: Host) -> None:
    for act in (host.domains.xml, host.domains.start, host.domains.shutdown, host.domains.destroy):
        with pytest.raises(NotFound):
            act("nobody")


def test_a_domain_that_is_off_is_not_rebooted(host: Host) -> None:
    define(host, PLAN)
    refused(HostRefused, "not running", lambda: host.domains.reboot("vm"))
    host.domains.start("vm")
    host.domains.reboot("vm")


def test_a_name_belongs_to_one_uuid(host: Host) -> None:
    define(host, PLAN)
    with pytest.raises(Conflict):
        define(host, named(PLAN, "vm", 2))


@pytest.mark.parametrize(
    ("xml", "words"),
    [
        ("<domain/>", "without a name"),
        ("<network/>", "<domain> expected"),
        ("<domain type='kvm'><name>a", "not well-formed"),
        ("<domain type='kvm'><name>a</name><bogus/></domain>", "schema"),
    ],
)
def test_xml_that_libvirt_would_not_take_is_refused(host: Host, xml: str, words: str) -> None:
    with pytest.raises(HostRefused) as caught:
        host.domains.define(xml)
    assert words in caught.value.why


def test_a_host_without_kvm_defines_no_kvm_domain() -> None:
    fleet = SimFleet(name="f", hosts=(replace(SIM, kvm=False),))
    hosts = InProcessHosts(fleet)
    host = hosts.open(HostRecord(name="h1", address="sim://h1"))
    assert host.probe().kvm is False
    refused(HostRefused, "domaintype=kvm", lambda: define(host, PLAN))
    define(host, replace(PLAN, accelerator="tcg"))
    hosts.close()


def test_a_definition_without_uuid_gets_one(host: Host) -> None:
    xml = domainxml.render(PLAN, DEFAULT_VERSIONS).replace(f"<uuid>{PLAN.uuid}</uuid>", "")
    assert "<uuid>" in host.domains.define(xml)


def test_undefining_a_running_domain_leaves_it_running_until_it_is_off(host: Host) -> None:
    define(host, PLAN)
    host.domains.start("vm")
    host.domains.undefine("vm")
    found = host.domains.look("vm")
    assert found is not None
    assert (found.state, found.persistent) == (DomainState.RUNNING, False)
    host.domains.destroy("vm")
    assert host.domains.look("vm") is None


def test_a_redefined_domain_runs_on_with_what_it_has_and_starts_with_the_new(host: Host) -> None:
    define(host, PLAN)
    host.domains.start("vm")
    define(host, replace(PLAN, memory_mib=8192))
    found = host.domains.look("vm")
    assert found is not None
    assert (found.state, found.memory_mib) == (DomainState.RUNNING, 4096)
    host.domains.destroy("vm")
    host.domains.start("vm")
    found = host.domains.look("vm")
    assert found is not None
    assert found.memory_mib == 8192


def test_an_mdev_serves_one_running_domain(host: Host) -> None:
    make_mdev(host)
    plan = replace(PLAN, hostdevs=(MdevHostdev(uuid=MDEV),))
    define(host, plan)
    define(host, named(plan, "other", 2))
    host.domains.start("vm")
    refused(InUse, "in use by driver QEMU, domain vm", lambda: host.domains.start("other"))
    host.domains.destroy("vm")
    host.domains.start("other")


def test_an_mdev_that_does_not_exist_is_refused(host: Host) -> None:
    define(host, replace(PLAN, hostdevs=(MdevHostdev(uuid=MDEV),)))
    refused(HostRefused, f"mediated device '{MDEV}' not found", lambda: host.domains.start("vm"))


def test_a_function_must_be_on_vfio_and_its_group_viable(host: Host) -> None:
    plan = replace(PLAN, hostdevs=(PciHostdev(address=A6000),))
    define(host, plan)
    refused(HostRefused, "must be manually detached", lambda: host.domains.start("vm"))
    bind(host, A6000, AUDIO)
    host.domains.start("vm")
    host.domains.destroy("vm")
    host.helper.call("vfio_release", {"address": A6000, "claim": CLAIM})


def test_a_group_with_a_member_on_a_host_driver_is_not_viable(
    host: Host, hosts: InProcessHosts
) -> None:
    bind(host, A6000, AUDIO)
    write = hosts.fleet.hosts["h1"].kernel.tree.write
    write(f"/sys/bus/pci/devices/{AUDIO}/driver_override", "\n")
    write("/sys/bus/pci/drivers/vfio-pci/unbind", AUDIO)
    write("/sys/bus/pci/drivers_probe", AUDIO)
    define(host, replace(PLAN, hostdevs=(PciHostdev(address=A6000),)))
    refused(HostRefused, "is not viable", lambda: host.domains.start("vm"))


def test_a_function_that_is_not_there_is_refused(host: Host) -> None:
    define(host, replace(PLAN, hostdevs=(PciHostdev(address="0000:99:00.0"),)))
    refused(HostRefused, "0000:99:00.0 not found", lambda: host.domains.start("vm"))


def test_memory_runs_out(host: Host) -> None:
    big = replace(PLAN, memory_mib=20 * 1024)
    define(host, big)
    define(host, named(big, "other", 2))
    host.domains.start("vm")
    refused(HostRefused, "Cannot allocate memory", lambda: host.domains.start("other"))
    host.domains.destroy("vm")
    host.domains.start("other")


def on_node(node: int, *, strict: bool = True) -> NumaSeat:
    return NumaSeat(shares=(NumaShare(node=node),), strict=strict)


def test_memory_of_a_preferred_node_runs_over_into_another(host: Host) -> None:
    near = on_node(1, strict=False)
    define(host, replace(PLAN, memory_mib=3072, hugepage_kib=1 << 20, seat=near))
    host.domains.start("vm")
    pages = [node.hugepages_free[1 << 20] for node in host.probe().numa]
    assert pages == [4, 1]
    more = replace(PLAN, memory_mib=2048, hugepage_kib=1 << 20, seat=near)
    define(host, named(more, "other", 2))
    host.domains.start("other")
    assert [node.hugepages_free[1 << 20] for node in host.probe().numa] == [3, 0]


def test_each_cell_of_a_guest_has_its_memory_from_its_node(host: Host) -> None:
    shares = (
        NumaShare(node=0, cpus=(0, 1, 2, 3), vcpus=(0,), memory_mib=1024),
        NumaShare(node=1, cpus=(4, 5, 6, 7), vcpus=(1,), memory_mib=3072),
    )
    spread = replace(
        PLAN, vcpus=2, memory_mib=4096, hugepage_kib=1 << 20, seat=NumaSeat(shares=shares)
    )
    define(host, spread)
    host.domains.start("vm")
    assert [node.hugepages_free[1 << 20] for node in host.probe().numa] == [3, 1]
    host.domains.destroy("vm")
    nowhere = replace(shares[1], node=7)
    define(host, replace(spread, seat=NumaSeat(shares=(shares[0], nowhere))))
    refused(HostRefused, "NUMA node 7", lambda: host.domains.start("vm"))
    assert [node.hugepages_free[1 << 20] for node in host.probe().numa] == [4, 4]


def test_memory_of_one_node_runs_out(host: Host) -> None:
    define(host, replace(PLAN, memory_mib=20 * 1024, seat=on_node(1)))
    refused(HostRefused, "Cannot allocate memory", lambda: host.domains.start("vm"))


def test_huge_pages_are_taken_and_given_back(host: Host) -> None:
    def free() -> list[int]:
        return [node.hugepages_free[1 << 20] for node in host.probe().numa]

    assert free() == [4, 4]
    define(host, replace(PLAN, memory_mib=3072, hugepage_kib=1 << 20, seat=on_node(1)))
    host.domains.start("vm")
    assert free() == [4, 1]
    other = named(replace(PLAN, hugepage_kib=1 << 20, seat=on_node(1)), "other", 2)
    define(host, other)
    refused(HostRefused, "backing store", lambda: host.domains.start("other"))
    host.domains.destroy("vm")
    assert free() == [4, 4]


def test_a_page_size_that_the_host_has_not_is_refused(host: Host) -> None:
    define(host, replace(PLAN, hugepage_kib=2048))
    refused(HostRefused, "hugetlbfs mount for 2048 KiB", lambda: host.domains.start("vm"))


def test_cpus_and_nodes_must_exist(host: Host) -> None:
    define(host, replace(PLAN, cpus=(0, 8)))
    refused(HostRefused, "no CPU 8", lambda: host.domains.start("vm"))
    define(host, replace(PLAN, seat=on_node(2)))
    refused(HostRefused, "NUMA node 2", lambda: host.domains.start("vm"))


def test_networks_and_bridges_must_exist(host: Host) -> None:
    define(host, replace(PLAN, nics=(DomainNic(mac="52:54:00:00:00:01", network="lan"),)))
    refused(NotFound, "matching name 'lan'", lambda: host.domains.start("vm"))
    define(host, replace(PLAN, nics=(DomainNic(mac="52:54:00:00:00:01", bridge="br9"),)))
    refused(HostRefused, "'br9'", lambda: host.domains.start("vm"))


def test_a_disk_must_exist_and_serves_one_running_domain(host: Host) -> None:
    disk = DomainDisk(path=f"{POOL}/vm.qcow2", format="qcow2", target="vda")
    plan = replace(PLAN, disks=(disk,))
    define(host, plan)
    refused(HostRefused, "No such file", lambda: host.domains.start("vm"))
    make_volume(host, "vm.qcow2")
    host.domains.start("vm")
    define(host, named(plan, "other", 2))
    refused(InUse, '"write" lock', lambda: host.domains.start("other"))


def test_a_refused_start_takes_nothing(host: Host) -> None:
    make_mdev(host)
    plan = replace(PLAN, hostdevs=(MdevHostdev(uuid=MDEV),), memory_mib=64 * 1024)
    define(host, plan)
    with pytest.raises(HostRefused):
        host.domains.start("vm")
    assert host.helper.call("mdev_look", {"uuid": MDEV})["in_use"] is False


# -- power


def test_a_reboot_takes_domains_mdevs_and_binds_and_leaves_the_rest(
    host: Host, hosts: InProcessHosts
) -> None:
    before = host.probe()
    make_mdev(host)
    bind(host, H100)
    make_volume(host, "vm.qcow2")
    define(host, replace(PLAN, hostdevs=(MdevHostdev(uuid=MDEV),)))
    host.domains.set_autostart("vm", on=True)
    host.domains.start("vm")
    hosts.fleet.inject("h1", ["reboot"])
    after = host.probe()
    assert after.boot_id != before.boot_id
    assert (after.mdevs, [gpu.driver for gpu in after.gpus]) == ((), ["nvidia"] * 3)
    assert [each.unit for each in after.claims] == [f"mdev-{MDEV}", f"pci-{H100}"]
    assert [(each.name, each.state, each.autostart) for each in after.domains] == [
        ("vm", DomainState.SHUTOFF, True)
    ]
    assert host.storage.look("default", "vm.qcow2") is not None
    assert host.helper.call("restore", {})["failed"] == []
    host.domains.start("vm")
    with pytest.raises(Conflict):
        make_volume(host, "vm.qcow2")


def test_a_domain_that_needs_nothing_made_comes_up_with_its_host(
    host: Host, hosts: InProcessHosts
) -> None:
    define(host, PLAN)
    host.domains.set_autostart("vm", on=True)
    hosts.fleet.inject("h1", ["reboot"])
    found = host.domains.look("vm")
    assert found is not None
    assert found.state is DomainState.RUNNING


def test_a_host_with_the_unit_restores_before_it_starts_its_vms(
    host: Host, hosts: InProcessHosts
) -> None:
    make_mdev(host)
    bind(host, H100)
    define(host, replace(PLAN, hostdevs=(MdevHostdev(uuid=MDEV),)))
    host.domains.set_autostart("vm", on=True)
    hosts.fleet.host("h1").install()
    hosts.fleet.inject("h1", ["reboot"])
    after = host.probe()
    assert [each.state for each in after.domains] == [DomainState.RUNNING]
    assert [mdev.uuid for mdev in after.mdevs] == [MDEV]
    assert [gpu.driver for gpu in after.gpus].count("vfio-pci") == 1
    hosts.fleet.host("h1").uninstall()
    hosts.fleet.host("h1").uninstall()
    hosts.fleet.inject("h1", ["reboot"])
    assert host.probe().mdevs == ()


def test_declared_versions_are_what_a_probe_reads(host: Host) -> None:
    found = host.probe()
    assert replace(found.versions, helper="") == DEFAULT_VERSIONS
    assert (found.cpus, found.memory_mib, found.iommu, found.kvm) == (8, 32 * 1024, True, True)
    assert (found.networks, found.bridges) == (("default",), ("br0",))
    assert found.unknown == ()
