"""virt against libvirt's own test driver: intents, and refusals in our words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import libvirt
import pytest

from vgpumgr import domainxml, virt
from vgpumgr.model.domain import DomainState, Ownership
from vgpumgr.model.errors import (
    Conflict,
    HostRefused,
    HostUnreachable,
    InUse,
    NotFound,
    NotPermitted,
    OutcomeUnknown,
)
from vgpumgr.virt.libvirt_errors import translated

DOMAIN = (
    "<domain type='test'><name>{name}</name><memory unit='MiB'>64</memory><vcpu>2</vcpu>"
    "<os><type>hvm</type></os></domain>"
)
VOLUME = (
    "<volume><name>{name}</name><capacity unit='bytes'>1048576</capacity>"
    "<target><format type='qcow2'/></target></volume>"
)
POOL = "default-pool"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[virt.Libvirt]:
    node = tmp_path / "node.xml"
    node.write_text(
        "<node><pool type='dir'><name>default-pool</name><target><path>/default-pool</path>"
        "</target></pool><network><name>default</name><ip address='192.168.122.1' "
        "netmask='255.255.255.0'/></network></node>"
    )
    found = virt.open_uri(f"test://{node}")
    yield found
    found.close()


def test_a_domain_goes_through_its_life(host: virt.Libvirt) -> None:
    defined = host.domains.define(DOMAIN.format(name="a"))
    assert "<name>a</name>" in defined and defined == host.domains.xml("a")

    off = host.domains.look("a")
    assert off is not None
    assert (off.state, off.vcpus, off.memory_mib) == (DomainState.SHUTOFF, 2, 64)
    host.domains.start("a")
    host.domains.start("a")
    host.domains.set_autostart("a", True)
    assert host.domains.list() == (replace(off, state=DomainState.RUNNING, autostart=True),)
    host.domains.shutdown("a")
    host.domains.destroy("a")
    host.domains.undefine("a")
    host.domains.undefine("a")
    assert host.domains.look("a") is None and host.domains.list() == ()


@pytest.mark.parametrize("verb", ["xml", "start", "shutdown", "reboot", "destroy"])
def test_a_domain_that_is_not_there_is_not_found(host: virt.Libvirt, verb: str) -> None:
    with pytest.raises(NotFound, match="nosuch"):
        getattr(host.domains, verb)("nosuch")


def test_xml_that_libvirt_would_silently_drop_is_refused(host: virt.Libvirt) -> None:
    with pytest.raises(HostRefused, match="cannot define"):
        host.domains.define(DOMAIN.format(name="a").replace("<os>", "<bogus/><os>"))
    assert host.domains.list() == ()


def test_a_second_domain_of_the_same_name_is_a_conflict(host: virt.Libvirt) -> None:
    host.domains.define(DOMAIN.format(name="a"))
    other = DOMAIN.format(name="a").replace(
        "<memory", "<uuid>6695eb01-f6a4-8304-79aa-97f2502e1930</uuid><memory"
    )
    with pytest.raises(Conflict):
        host.domains.define(other)


def test_volumes_are_made_copied_found_and_deleted(host: virt.Libvirt) -> None:
    made = host.storage.create(POOL, VOLUME.format(name="v.qcow2"))
    assert (made.path, made.capacity_bytes) == ("/default-pool/v.qcow2", 1 << 20)
    assert host.storage.look(POOL, "v.qcow2") == made
    with pytest.raises(Conflict):
        host.storage.create(POOL, VOLUME.format(name="v.qcow2"))
    host.storage.create(POOL, VOLUME.format(name="w.qcow2"), copy_from="v.qcow2")
    for name in ("v.qcow2", "v.qcow2", "w.qcow2"):
        host.storage.delete(POOL, name)
    assert host.storage.look(POOL, "v.qcow2") is None


def test_a_missing_pool_or_source_volume_is_not_found(host: virt.Libvirt) -> None:
    with pytest.raises(NotFound, match="storage pool nosuch"):
        host.storage.look("nosuch", "v")
    with pytest.raises(NotFound, match="volume nosuch"):
        host.storage.create(POOL, VOLUME.format(name="v"), copy_from="nosuch")
    assert host.storage.look(POOL, "v") is None


def test_pools_networks_and_versions_are_listed(host: virt.Libvirt) -> None:
    (pool,) = host.storage.pools()
    assert (pool.name, pool.kind, pool.path, pool.active) == (POOL, "dir", "/default-pool", True)
    assert host.networks() == ("default",)
    assert all(version.count(".") == 2 for version in host.versions())


def test_a_closed_connection_says_so_and_closing_twice_is_fine(host: virt.Libvirt) -> None:
    assert host.alive()
    host.close()
    host.close()


def test_a_uri_that_leads_nowhere_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(HostUnreachable) as caught:
        virt.open_uri(f"qemu+unix:///system?socket={tmp_path}/nosuch")
    assert "nosuch" in caught.value.why


def test_errors_are_never_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HostUnreachable):
        virt.open_uri(f"qemu+unix:///system?socket={tmp_path}/nosuch")
    assert capfd.readouterr() == ("", "")


def _libvirt_error(code: int, text: str) -> libvirt.libvirtError:
    error = libvirt.libvirtError(text)
    error.err = (code, 0, text, 2, "", "", "", 0, 0)
    error.args = (text,)
    return error


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (libvirt.VIR_ERR_NO_DOMAIN, "Domain not found", NotFound),
        (libvirt.VIR_ERR_NO_STORAGE_VOL, "no storage vol", NotFound),
        (libvirt.VIR_ERR_AUTH_FAILED, "authentication failed", NotPermitted),
        (libvirt.VIR_ERR_OPERATION_DENIED, "operation denied", NotPermitted),
        (
            libvirt.VIR_ERR_OPERATION_INVALID,
            "PCI device 0000:41:00.0 is in use by driver QEMU, domain x",
            InUse,
        ),
        (libvirt.VIR_ERR_RESOURCE_BUSY, "busy", InUse),
        (
            libvirt.VIR_ERR_INTERNAL_ERROR,
            "error getting device from group 14: No such device\nVerify all devices in group 14 "
            "are bound to vfio-<bus> or pci-stub and not already in use",
            HostRefused,
        ),
        (libvirt.VIR_ERR_DOM_EXIST, "domain x", Conflict),
        (libvirt.VIR_ERR_INTERNAL_ERROR, "qemu died", HostRefused),
    ],
)
def test_each_refusal_of_libvirt_has_one_meaning(code: int, text: str, kind: type) -> None:
    found = translated(_libvirt_error(code, text), "do it")
    assert type(found) is kind
    assert found.why == text


def test_a_broken_connection_leaves_a_change_unknown_and_a_look_unreachable() -> None:
    error = _libvirt_error(libvirt.VIR_ERR_RPC, "End of file while reading data")
    assert type(translated(error, "do it", broken=True)) is HostUnreachable
    assert type(translated(error, "do it", broken=True, changes=True)) is OutcomeUnknown


MARK = Ownership(fleet="f", vm="test", vm_id="v", generation=2, allocations=("a", "b"))


def test_a_mark_is_put_on_a_running_domain_and_taken_off(host: virt.Libvirt) -> None:
    """By libvirt itself: in the definition and in what runs, and nothing else changes."""
    domains = host.domains
    domains.define(DOMAIN.format(name="test"))
    domains.start("test")
    before = domains.look("test")
    assert before is not None
    parts = domainxml.parts(domains.xml("test"))
    domains.set_ownership("test", MARK)
    found = domains.look("test")
    assert found == replace(before, ownership=MARK)
    assert domainxml.parse(domains.xml("test")).ownership == MARK
    domains.set_ownership("test", replace(MARK, generation=3, allocations=()))
    again = domains.look("test")
    assert again is not None
    assert again.ownership == replace(MARK, generation=3, allocations=())
    domains.set_ownership("test", None)
    domains.set_ownership("test", None)
    assert domains.look("test") == before
    assert domainxml.parts(domains.xml("test")) == parts
    with pytest.raises(NotFound):
        domains.set_ownership("nobody", MARK)
