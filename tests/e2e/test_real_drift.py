"""Drift on a host with real SSH, real libvirt and real QEMU, changed with virsh behind our back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests import nshosts
from tests.e2e.support import Cli, new_cli

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]

SPARE = "/var/lib/libvirt/images/spare.raw"
EDITED = "/var/lib/libvirt/images/edited.xml"


@pytest.fixture(scope="module")
def fleet() -> Iterator[nshosts.NamespaceFleet]:
    if why := nshosts.missing():
        pytest.skip(why)
    made = nshosts.NamespaceFleet(1)
    yield made
    made.close()


@dataclass(frozen=True)
class Bench:
    """One VM, web, on one host; ``virsh`` is what a second terminal types."""

    cli: Cli
    host: nshosts.NamespaceHost

    def virsh(self, *words: str) -> str:
        return self.host.run("virsh", "-q", "-c", "qemu:///system", *words)

    def edit(self, pattern: str, text: str) -> None:
        """``virsh edit``, by hand of sed."""
        old = self.virsh("dumpxml", "--inactive", "web")
        new = re.sub(pattern, text, old)
        assert new != old
        self.host.path(EDITED).write_text(new)
        self.virsh("define", EDITED)

    def volume(self) -> str:
        return str(self.cli.items("vm", "list")[0]["volumes"][0]["name"])

    def named(self) -> list[tuple[str, str]]:
        ran = self.cli.fails(10, "drift", "-o", "json")
        return [(item["kind"], item["subject"]) for item in ran.json["items"]]

    def again(self) -> None:
        """Defined as the ledger has it, whatever was done to it."""
        self.cli("vm", "stop", "web", "--force")
        self.host.run("sh", "-c", "virsh -q -c qemu:///system undefine web; true")
        self.cli.ok("vm", "start", "web")


@pytest.fixture(scope="module")
def bench(fleet: nshosts.NamespaceFleet) -> Iterator[Bench]:
    host = fleet.hosts[0]
    with pytest.MonkeyPatch.context() as patch, new_cli() as cli:
        patch.setenv("VGPUMGR_SSH_CONFIG", str(fleet.ssh_config))
        cli.ok("host", "add", host.name, "--address", host.address(), "--fingerprint",
               host.fingerprint)  # fmt: skip
        cli.ok("apply", "-f", cli.documents(
            {
                "name": "web",
                "vcpus": 1,
                "memory": "64MiB",
                "firmware": "bios",
                "disks": [{"size": "16MiB"}],
                "cloud_init": {"user_data": "#cloud-config\n"},
            }
        ))  # fmt: skip
        host.run("truncate", "-s", "1M", SPARE)
        yield Bench(cli, host)
        host.run("rm", "-f", SPARE, EDITED)
        cli("vm", "delete", "web", "--force", "-y")
        cli.ok("host", "remove", host.name, "-y")


@pytest.fixture(autouse=True)
def _ssh_config(fleet: nshosts.NamespaceFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPUMGR_SSH_CONFIG", str(fleet.ssh_config))


def many_while_it_runs(b: Bench) -> None:
    b.edit(r"(<(memory|currentMemory) unit='KiB'>)\d+", r"\g<1>131072")
    b.edit(r"(<vcpu placement='static'>|cores=')1", r"\g<1>2")
    b.virsh("autostart", "web")
    b.virsh("attach-disk", "web", SPARE, "vdb", "--config")
    b.virsh("change-media", "web", "sda", "--eject", "--live", "--force")
    b.virsh("suspend", "web")


def gone(b: Bench) -> None:
    b.virsh("destroy", "web")
    b.virsh("undefine", "web")
    b.virsh("vol-delete", b.volume(), "default")


# what is done by hand, and by what it is named
BY_HAND: dict[str, tuple[Callable[[Bench], object], list[tuple[str, str]]]] = {
    "many while it runs": (
        many_while_it_runs,
        [
            ("attached", "disk sda"),
            ("definition", "autostart"),
            ("definition", "disk vdb"),
            ("definition", "memory"),
            ("definition", "vcpus"),
            ("power", "domain web"),
        ],
    ),
    "destroy": (lambda b: b.virsh("destroy", "web"), [("power", "domain web")]),
    "undefine of a running one": (
        lambda b: b.virsh("undefine", "web"),
        [("domain-transient", "domain web")],
    ),
    "all gone": (gone, [("domain-missing", "domain web"), ("volume-missing", "default/VOLUME")]),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_what_virsh_did_is_named(name: str, bench: Bench) -> None:
    assert bench.cli.ok("drift").out == "no difference: 1 VM on 1 host\n"
    volume = bench.volume()
    change, wanted = BY_HAND[name]
    change(bench)
    assert bench.named() == [(kind, what.replace("VOLUME", volume)) for kind, what in wanted]
    if name == "all gone":
        bench.virsh("vol-create-as", "default", volume, "16M", "--format", "qcow2")
    bench.again()
