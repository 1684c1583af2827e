"""What every host must do, simulated or real, where no device is needed: one list of cases."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

import pytest

from vgpumgr import domainxml
from vgpumgr.hosts.facts.examination_facts import examined
from vgpumgr.model.domain import DomainPlan, DomainState, Ownership, VolumeFacts, VolumePlan
from vgpumgr.model.errors import Conflict, HostRefused, HostUnreachable, NotFound
from vgpumgr.model.host import HostRecord
from vgpumgr.model.port_rules import PortFilter, PortRule
from vgpumgr.model.ports import Host, Hosts

MIB = 1 << 20


def domain(host: Host, name: str) -> str:
    plan = DomainPlan(
        name=name,
        uuid=str(uuid.uuid4()),
        vcpus=1,
        memory_mib=64,
        accelerator="tcg",
        firmware="bios",
        ownership=Ownership(fleet="contract", vm=name, vm_id="v-1", generation=1),
    )
    return domainxml.render(plan, host.probe().versions)


def create(host: Host, name: str, mode: str = "fresh", source: str | None = None) -> VolumeFacts:
    base = host.storage.look("default", source) if source else None
    plan = VolumePlan(
        pool="default",
        name=name,
        capacity_bytes=8 * MIB,
        format="qcow2",
        mode=mode,
        source=source,
        source_path=base.path if base else None,
        source_format="qcow2" if base else None,
    )
    copy_from = source if mode == "copy" else None
    return host.storage.create("default", domainxml.volume(plan), copy_from=copy_from)


def test_a_host_is_the_same_object_for_the_same_record(hosts: tuple[Hosts, HostRecord]) -> None:
    way, record = hosts
    assert way.open(record) is way.open(record)


def test_a_probe_reads_everything(host: Host) -> None:
    facts = host.probe()
    assert facts.unknown == ()
    assert facts.host == host.name == "h1"
    assert facts.boot_id and facts.hostname and facts.cpus > 0 and facts.memory_mib > 0
    assert facts.versions.libvirt.count(".") == 2
    assert facts.versions.kernel and facts.versions.qemu and facts.versions.helper
    assert sum(len(node.cpus) for node in facts.numa) == facts.cpus
    (pool,) = facts.pools
    assert (pool.name, pool.kind, pool.active) == ("default", "dir", True)
    assert facts.networks == ("default",)
    assert (facts.domains, facts.mdevs, facts.claims) == ((), (), ())


def test_two_probes_of_an_idle_host_see_the_same(host: Host) -> None:
    first, second = host.probe(), host.probe()
    assert replace(first, memory_mib=0, pools=()) == replace(second, memory_mib=0, pools=())


def test_how_the_host_is_set_up_is_told_part_by_part(host: Host) -> None:
    told = host.helper.call("examine", {})
    seen = examined(told)
    assert seen.user and seen.kernel_line and seen.acpi_tables is not None
    assert seen.iommus is not None and seen.blacklisted is not None
    assert seen.now is not None and abs(seen.now - time.time()) < 60
    unread = {each.part for each in seen.unknown}
    assert unread == {part for part, value in told.items() if value is None}


def test_a_domain_is_defined_started_powered_off_and_forgotten(host: Host) -> None:
    host.domains.define(domain(host, "a"))
    off = host.domains.look("a")
    assert off is not None
    assert (off.state, off.vcpus, off.memory_mib) == (DomainState.SHUTOFF, 1, 64)
    assert off.ownership is not None and off.ownership.vm_id == "v-1"

    host.domains.start("a")
    host.domains.start("a")
    assert host.domains.list() == (replace(off, state=DomainState.RUNNING),)
    assert host.probe().domains == host.domains.list()

    host.domains.destroy("a")
    host.domains.destroy("a")
    assert host.domains.look("a") == off
    host.domains.undefine("a")
    host.domains.undefine("a")
    assert host.domains.look("a") is None
    assert host.domains.list() == ()


def test_a_running_domain_takes_shutdown_and_reboot(host: Host) -> None:
    host.domains.define(domain(host, "a"))
    host.domains.start("a")
    host.domains.reboot("a")
    host.domains.shutdown("a")  # firmware alone may ignore it: powering off always works
    host.domains.destroy("a")
    found = host.domains.look("a")
    assert found is not None and found.state is DomainState.SHUTOFF


def test_what_was_defined_is_read_back(host: Host) -> None:
    wanted = domain(host, "a")
    assert domainxml.differences(wanted, host.domains.define(wanted)) == ()
    assert domainxml.differences(wanted, host.domains.xml("a")) == ()


def test_autostart_is_set_and_taken_back(host: Host) -> None:
    host.domains.define(domain(host, "a"))
    for wanted in (True, False):
        host.domains.set_autostart("a", wanted)
        found = host.domains.look("a")
        assert found is not None and found.autostart is wanted


@pytest.mark.parametrize("verb", ["xml", "start", "shutdown", "reboot", "destroy"])
def test_a_domain_that_is_not_there_is_not_found(host: Host, verb: str) -> None:
    with pytest.raises(NotFound, match="nosuch"):
        getattr(host.domains, verb)("nosuch")


def test_autostart_of_a_domain_that_is_not_there_is_not_found(host: Host) -> None:
    with pytest.raises(NotFound, match="nosuch"):
        host.domains.set_autostart("nosuch", True)


@pytest.mark.parametrize("broken", ["", "<domain", "<domain/>", "<network/>"])
def test_xml_that_makes_no_sense_is_refused_and_defines_nothing(host: Host, broken: str) -> None:
    with pytest.raises(HostRefused) as caught:
        host.domains.define(broken)
    assert caught.value.why
    assert host.domains.list() == ()


def test_an_element_that_libvirt_does_not_know_is_refused_not_dropped(host: Host) -> None:
    with pytest.raises(HostRefused):
        host.domains.define(domain(host, "a").replace("<devices>", "<bogus/><devices>", 1))
    assert host.domains.list() == ()


def test_a_second_domain_of_a_name_is_a_conflict(host: Host) -> None:
    host.domains.define(domain(host, "a"))
    with pytest.raises(Conflict):
        host.domains.define(domain(host, "a"))


def test_a_fresh_volume_is_made_found_and_deleted(host: Host) -> None:
    made = create(host, "disk")
    assert (made.pool, made.name, made.format) == ("default", "disk", "qcow2")
    assert made.capacity_bytes == 8 * MIB and made.path.endswith("/disk")
    assert host.storage.look("default", "disk") == made
    host.storage.delete("default", "disk")
    host.storage.delete("default", "disk")
    assert host.storage.look("default", "disk") is None


def test_an_overlay_names_its_backing_file(host: Host) -> None:
    base = create(host, "base")
    assert create(host, "disk", "overlay", "base").backing_path == base.path


def test_a_copy_stands_alone(host: Host) -> None:
    create(host, "base")
    copied = create(host, "disk", "copy", "base")
    assert (copied.backing_path, copied.capacity_bytes) == (None, 8 * MIB)


def test_a_volume_that_exists_is_a_conflict(host: Host) -> None:
    create(host, "disk")
    with pytest.raises(Conflict):
        create(host, "disk")


def test_what_is_uploaded_is_there(host: Host) -> None:
    """The helper's image inspector sees a qcow2 header only if the bytes arrived."""
    plan = VolumePlan(pool="default", name="seed", capacity_bytes=MIB, format="raw")
    path = host.storage.create("default", domainxml.volume(plan)).path
    assert _inspect(host, path)["format"] == "raw"
    header = bytearray(104)
    header[0:8] = b"QFI\xfb\x00\x00\x00\x03"
    header[20:24] = (16).to_bytes(4, "big")
    header[24:32] = (5 * MIB).to_bytes(8, "big")
    header[100:104] = (104).to_bytes(4, "big")
    host.storage.upload("default", "seed", bytes(header) + bytes(600_000))
    seen = _inspect(host, path)
    assert (seen["format"], seen["virtual_bytes"]) == ("qcow2", 5 * MIB)


def _inspect(host: Host, path: str) -> dict[str, object]:
    pool = path.rpartition("/")[0]
    return host.helper.call("image_inspect", {"path": path, "pool_path": pool})


@pytest.mark.parametrize("kind", ["qcow2", "raw"])
def test_a_volume_grows_and_never_shrinks(host: Host, kind: str) -> None:
    plan = VolumePlan(pool="default", name="disk", capacity_bytes=1 << 20, format=kind)
    host.storage.create("default", domainxml.volume(plan))
    for wanted, found in ((3 << 20, 3 << 20), (3 << 20, 3 << 20), (1 << 20, 3 << 20)):
        host.storage.grow("default", "disk", wanted)
        seen = host.storage.look("default", "disk")
        assert seen is not None and (seen.capacity_bytes, seen.format) == (found, kind)
    host.storage.delete("default", "disk")
    with pytest.raises(NotFound):
        host.storage.grow("default", "disk", 4 << 20)


def test_a_network_filter_of_ours_is_defined_once_and_forgotten(host: Host) -> None:
    rules = PortFilter(False, (PortRule.parse("tcp/22"), PortRule.parse("udp/5000-5010")))
    for _ in range(2):
        host.domains.define_filter(rules.name, domainxml.port_filter(rules))
    for _ in range(2):
        host.domains.drop_filter(rules.name)


def test_a_missing_storage_pool_is_not_found(host: Host) -> None:
    with pytest.raises(NotFound, match="nosuch"):
        host.storage.look("nosuch", "disk")
    with pytest.raises(NotFound, match="nosuch"):
        host.storage.create("nosuch", "<volume><name>x</name><capacity>1</capacity></volume>")


def test_a_missing_volume_is_none_and_cannot_be_copied_or_written(host: Host) -> None:
    assert host.storage.look("default", "nosuch") is None
    with pytest.raises(NotFound, match="nosuch"):
        create_copy_of_nothing(host)
    with pytest.raises(NotFound, match="nosuch"):
        host.storage.upload("default", "nosuch", b"x")


def create_copy_of_nothing(host: Host) -> None:
    plan = VolumePlan(pool="default", name="disk", capacity_bytes=MIB, format="qcow2")
    host.storage.create("default", domainxml.volume(plan), copy_from="nosuch")


def test_volume_xml_that_makes_no_sense_is_refused(host: Host) -> None:
    with pytest.raises(HostRefused):
        host.storage.create("default", "<volume><name>disk</name>")


def test_the_helper_answers_and_refuses_by_its_protocol(host: Host) -> None:
    assert host.helper.call("version", {})["helper"]
    device = str(uuid.uuid4())
    assert host.helper.call("mdev_look", {"uuid": device})["exists"] is False
    with pytest.raises(HostRefused):
        host.helper.call("mdev_look", {"uuid": "../../etc"})
    with pytest.raises(HostRefused):
        host.helper.call("no_such_verb", {})
    claim = {"allocation": "a-1", "generation": 1, "vm": "a"}
    with pytest.raises(NotFound):
        host.helper.call(
            "mdev_create",
            {"parent": "nosuch", "type": "nosuch-1", "uuid": device, "claim": claim},
        )
    assert host.probe().claims == ()


def test_a_host_that_is_not_there_is_unreachable(hosts: tuple[Hosts, HostRecord]) -> None:
    way, record = hosts
    simulated = record.address.startswith("sim://")
    address = "sim://nosuch" if simulated else "root@127.0.0.1:1"
    with pytest.raises(HostUnreachable):
        way.open(HostRecord(name="gone", address=address, host_key=record.host_key)).probe()
