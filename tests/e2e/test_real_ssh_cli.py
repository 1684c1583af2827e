"""The program as a user types it, on hosts with real SSH, real libvirt and real QEMU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import nshosts
from tests.e2e.support import Cli, new_cli

pytestmark = [pytest.mark.mainline, pytest.mark.root, pytest.mark.libvirtd]


@pytest.fixture(scope="module")
def fleet() -> Iterator[nshosts.NamespaceFleet]:
    if why := nshosts.missing():
        pytest.skip(why)
    made = nshosts.NamespaceFleet(2)
    yield made
    made.close()


@pytest.fixture
def cli(fleet: nshosts.NamespaceFleet, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    monkeypatch.setenv("VGPUMGR_SSH_CONFIG", str(fleet.ssh_config))
    with new_cli() as made:
        yield made


def add(host: nshosts.NamespaceHost, fingerprint: str = "") -> tuple[str, ...]:
    return (
        "host", "add", host.name, "--address", host.address(),
        "--fingerprint", fingerprint or host.fingerprint,
    )  # fmt: skip


def vm(name: str) -> dict[str, object]:
    return {
        "name": name,
        "vcpus": 1,
        "memory": "64MiB",
        "firmware": "bios",
        "disks": [{"size": "16MiB"}],
    }


def dump(host: nshosts.NamespaceHost) -> str:
    """What we could leave behind on a host, the helper and its epoch aside."""
    return host.run(
        "sh", "-c",
        "virsh -c qemu:///system list --all --name; ls /var/lib/libvirt/images; "
        "ls /var/lib/vgpumgr/claims 2>/dev/null; ls /run/libvirt/qemu | grep -c xml; true",
    )  # fmt: skip


def test_enrol_apply_stop_start_and_delete_leave_the_hosts_as_they_were(
    cli: Cli, fleet: nshosts.NamespaceFleet
) -> None:
    for host in fleet.hosts:
        cli.ok(*add(host))
    assert [item["state"] for item in cli.items("host", "list")] == ["ready", "ready"]
    before = [dump(host) for host in fleet.hosts]
    for host in fleet.hosts:
        assert f"{host.name}: helper " in cli.ok("host", "upgrade", host.name).err
        assert host.run("/usr/local/lib/vgpumgr/vgpumgr-helper", "--restore") == ""

    given = cli.documents(vm("desk-1"), vm("desk-2"))
    cli.ok("apply", "-f", given)
    assert (
        "nothing to change"
        in cli.ok("apply", "-f", given).err.lower() + cli.ok("plan", "-f", given).out.lower()
    )
    running = "".join(host.run("virsh", "-c", "qemu:///system", "list") for host in fleet.hosts)
    assert running.count(" running") == 2

    cli.ok("vm", "stop", "desk-1", "--force")
    cli.ok("vm", "start", "desk-1")
    for host in fleet.hosts:
        host.stop_libvirtd()
        host.start_libvirtd()
    cli.ok("vm", "reboot", "desk-2")
    cli.ok("delete", "-f", given, "-y", "--force")
    assert [dump(host) for host in fleet.hosts] == before
    assert cli.items("vm", "list") == []

    for host in fleet.hosts:
        cli.ok("host", "remove", host.name, "-y")
        assert not host.path("/usr/local/lib/vgpumgr").exists()
        assert not host.path("/var/lib/vgpumgr").exists()


def test_a_wrong_fingerprint_enrols_nothing(cli: Cli, fleet: nshosts.NamespaceFleet) -> None:
    first, second = fleet.hosts
    ran = cli.fails(8, *add(first, second.fingerprint))
    assert first.fingerprint in ran.err and "ssh-keygen -lf" in ran.err
    assert cli.items("host", "list") == []


def test_a_host_that_does_not_resolve_is_exit_6(cli: Cli) -> None:
    cli.fails(
        6, "host", "add", "x", "--address", "root@nosuch.invalid", "--fingerprint",
        "SHA256:" + "A" * 43,
    )  # fmt: skip
    assert cli.items("host", "list") == []


def test_an_ordinary_user_without_sudo_is_refused_with_the_rule_to_add(
    cli: Cli, fleet: nshosts.NamespaceFleet
) -> None:
    host = fleet.hosts[0]
    arguments = ("--address", host.address("gpuadm"), "--fingerprint", host.fingerprint)
    ran = cli.fails(8, "host", "add", "x", *arguments)
    assert "NOPASSWD: /usr/local/lib/vgpumgr/vgpumgr-helper" in ran.err
    cli.ok("host", "add", "x", *arguments, "--no-install")
    assert cli.items("host", "list")[0]["name"] == "x"
    cli.ok("host", "remove", "x", "-y")
