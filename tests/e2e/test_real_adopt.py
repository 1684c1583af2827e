"""Adopting on a host with real SSH, libvirt and QEMU: a guest that runs notices nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import nshosts
from tests.e2e.support import Cli, new_cli

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]

FILE = "/var/lib/libvirt/images/desk.xml"
DESK = """<domain type='qemu'>
  <name>desk</name>
  <metadata><x:note xmlns:x='https://example.org/notes'>made by hand</x:note></metadata>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/></features>
  <devices><graphics type='vnc'><listen type='socket'/></graphics><memballoon model='none'/>
  </devices>
</domain>"""


@pytest.fixture(scope="module")
def fleet() -> Iterator[nshosts.NamespaceFleet]:
    if why := nshosts.missing():
        pytest.skip(why)
    made = nshosts.NamespaceFleet(1)
    yield made
    made.close()


@pytest.fixture
def host(fleet: nshosts.NamespaceFleet) -> nshosts.NamespaceHost:
    return fleet.hosts[0]


@pytest.fixture
def cli(
    fleet: nshosts.NamespaceFleet, host: nshosts.NamespaceHost, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cli]:
    """The host is enrolled, and desk runs on it, made with virsh."""
    monkeypatch.setenv("VGPUMGR_SSH_CONFIG", str(fleet.ssh_config))
    with new_cli() as found:
        found.ok("host", "add", host.name, "--address", host.address(), "--fingerprint",
                 host.fingerprint)  # fmt: skip
        host.path(FILE).write_text(DESK)
        virsh(host, "define", FILE)
        virsh(host, "start", "desk")
        yield found


def virsh(host: nshosts.NamespaceHost, *words: str) -> str:
    return host.run("virsh", "-q", "-c", "qemu:///system", *words)


def test_a_guest_that_runs_is_adopted_changed_and_deleted(
    cli: Cli, host: nshosts.NamespaceHost
) -> None:
    number, defined = virsh(host, "domid", "desk"), virsh(host, "dumpxml", "--inactive", "desk")
    assert "yes" in cli.ok("adopt", host.name).out
    cli.ok("adopt", host.name, "--vm", "desk", "--apply")
    assert virsh(host, "domid", "desk") == number, "it was not started anew"
    cli.ok("drift", "--ignore-foreign")
    marked = virsh(host, "dumpxml", "--inactive", "desk")
    assert "made by hand" in marked
    without = [line for line in marked.splitlines() if "v:vm" not in line]
    assert without == defined.splitlines(), "nothing but the mark has changed"
    virsh(host, "autostart", "desk")
    virsh(host, "destroy", "desk")
    assert cli.fails(10, "heal").out.count("heal  ") == 2
    cli.ok("heal", "--apply", "-y")
    assert virsh(host, "domstate", "desk").strip() == "running"
    assert "made by hand" in virsh(host, "dumpxml", "--inactive", "desk")
    virsh(host, "destroy", "desk")
    virsh(host, "undefine", "desk")
    cli.ok("vm", "start", "desk")
    assert "made by hand" in virsh(host, "dumpxml", "--inactive", "desk"), "as it came"
    cli.ok("vm", "delete", "desk", "--force", "-y")
    assert "desk" not in virsh(host, "list", "--all", "--name")
