"""``host add --bootstrap`` over real SSH with real Ansible and the role that needs no systemd.

What needs a whole host (kernel line, libvirt's units, a reboot) is tried in the lab.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nshosts
from tests.e2e.support import Cli, new_cli
from vgpumgr.app.bootstrap import playbook_run

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]

PLAY = {
    "hosts": "all",
    "gather_facts": False,
    "become": True,
    "tasks": [{"ansible.builtin.include_role": {"name": "vgpumgr.host.helper"}}],
}


@pytest.fixture(scope="module")
def fleet() -> Iterator[nshosts.NamespaceFleet]:
    if why := nshosts.missing():
        pytest.skip(why)
    made = nshosts.NamespaceFleet(1)
    # Ansible keeps its temporary files in the user's home, which is else the machine's own.
    host = made.hosts[0]
    host.run("mount", "-t", "tmpfs", "tmpfs", "/root")
    # Its programs are the machine's: so are its packages, or Ansible would install them.
    host.path("/var/lib/dpkg").mkdir()
    shutil.copy("/var/lib/dpkg/status", host.path("/var/lib/dpkg/status"))
    yield made
    made.close()


@pytest.fixture
def host(fleet: nshosts.NamespaceFleet) -> nshosts.NamespaceHost:
    return fleet.hosts[0]


@pytest.fixture
def cli(
    fleet: nshosts.NamespaceFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cli]:
    (tmp_path / "play.yml").write_text(json.dumps([PLAY]))
    monkeypatch.setattr(playbook_run, "PLAYBOOK", str(tmp_path / "play.yml"))
    monkeypatch.setenv("VGPUMGR_SSH_CONFIG", str(fleet.ssh_config))
    with new_cli() as made:
        yield made


def add(host: nshosts.NamespaceHost, *more: str, user: str = "root", key: str = "") -> list[str]:
    return [
        "host", "add", host.name, "--address", host.address(user),
        "--fingerprint", key or host.fingerprint, "--bootstrap", "--keep-user", *more,
    ]  # fmt: skip


def test_a_host_is_set_up_once_and_the_second_time_changes_nothing(
    cli: Cli, host: nshosts.NamespaceHost
) -> None:
    planned = cli.fails(10, *add(host, "--check"))
    assert "would install helper" in planned.out
    assert not host.path("/usr/local/lib/vgpumgr").exists()

    first = cli.ok(*add(host))
    assert f"{host.name}  helper: Put it in place: changed" in first.err
    assert f"{host.name}: 1 change; enrolled as root@{host.ip}" in first.err
    assert [each["state"] for each in cli.items("host", "list")] == ["ready"]

    again = cli.ok(*add(host))
    assert f"{host.name}: 0 changes; enrolled as root@{host.ip}" in again.err


def test_a_host_with_another_key_is_told_nothing(cli: Cli, host: nshosts.NamespaceHost) -> None:
    ran = cli.fails(8, *add(host, key=f"SHA256:{'A' * 43}"))
    assert "is not the one given" in ran.err


def test_who_may_not_become_root_hears_what_to_do(cli: Cli, host: nshosts.NamespaceHost) -> None:
    ran = cli.fails(8, *add(host, user="gpuadm"))
    assert f"gpuadm may not become root on {host.name}" in ran.err
    assert "sudo without a password" in ran.err
    assert cli.items("host", "list") == []
