"""Real sshd, real libvirtd, real QEMU: enrol, probe, run, and survive what hosts do to one."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import nshosts
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.program_runner import CallCut
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.hosts.ssh.ssh_connection import SshConnection
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    HostKeyChanged,
    HostUnreachable,
    NotPermitted,
    OutcomeUnknown,
    UsageError,
    VgpumgrError,
)
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]

DOMAIN = (
    "<domain type='qemu'><name>{}</name><memory unit='MiB'>32</memory><vcpu>1</vcpu>"
    "<os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features></domain>"
)
DEADLINE_S = 2.0


@pytest.fixture(scope="module")
def fleet() -> Iterator[nshosts.NamespaceFleet]:
    if why := nshosts.missing():
        pytest.skip(why)
    made = nshosts.NamespaceFleet(2)
    yield made
    made.close()


@pytest.fixture
def reach(fleet: nshosts.NamespaceFleet) -> Iterator[Callable[..., RealHosts]]:
    """Makes ``RealHosts``; all are closed afterwards."""
    made: list[RealHosts] = []

    def make(**options: object) -> RealHosts:
        settings = {"ssh_config": fleet.ssh_config, "identity": lambda: ("e2e", 1), **options}
        made.append(RealHosts(**settings))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def enrolled(fleet: nshosts.NamespaceFleet) -> tuple[HostRecord, ...]:
    """Both hosts, with keys pinned and the helper installed."""
    hosts = RealHosts(ssh_config=fleet.ssh_config, identity=lambda: ("e2e", 1))
    records = tuple(_pinned(hosts, each) for each in fleet.hosts)
    for record in records:
        hosts.open(record).installation.install()
        hosts.open(record).probe()
    hosts.close()
    return records


def _pinned(hosts: RealHosts, host: nshosts.NamespaceHost, user: str = "root") -> HostRecord:
    record = HostRecord(name=host.name, address=host.address(user))
    return real_hosts.pin_host_key(hosts, record, host.fingerprint, _never)


def _never(name: str, key: str) -> None:
    raise AssertionError(f"{name}: {key} was to be accepted")


@pytest.fixture
def first(reach: Callable[..., RealHosts], enrolled: tuple[HostRecord, ...]) -> Iterator[Host]:
    """The first host, without domains before and after."""
    host = reach().open(enrolled[0])
    yield host
    for each in host.domains.list():
        host.domains.destroy(each.name)
        host.domains.undefine(each.name)


def test_a_probe_is_one_helper_channel_beside_one_libvirt_bridge(
    reach: Callable[..., RealHosts], enrolled: tuple[HostRecord, ...]
) -> None:
    hosts = reach()
    connection = hosts.runner(enrolled[0])
    assert isinstance(connection, SshConnection)
    facts = hosts.open(enrolled[0]).probe()
    assert (facts.unknown, connection.channels_opened) == ((), 2)
    hosts.open(enrolled[0]).probe()
    assert connection.channels_opened == 3, "the bridge stays open, each probe is one channel"


def test_a_real_guest_is_created_started_stopped_and_deleted(first: Host) -> None:
    made = first.storage.create(
        "default",
        "<volume><name>guest.qcow2</name><capacity unit='MiB'>16</capacity>"
        "<target><format type='qcow2'/></target></volume>",
    )
    disk = (
        "<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/>"
        f"<source file='{made.path}'/><target dev='vda' bus='virtio'/></disk></devices></domain>"
    )
    first.domains.define(DOMAIN.format("guest").replace("</domain>", disk))
    first.domains.start("guest")
    found = first.domains.look("guest")
    assert found is not None and found.state is DomainState.RUNNING
    first.domains.destroy("guest")
    first.domains.undefine("guest")
    first.storage.delete("default", "guest.qcow2")
    assert first.domains.list() == ()
    assert first.storage.look("default", "guest.qcow2") is None


def test_libvirtd_that_exits_and_comes_back_is_not_noticed(
    first: Host, fleet: nshosts.NamespaceFleet
) -> None:
    """A look and a change, each the first call after a restart; the guest runs on."""
    first.domains.define(DOMAIN.format("a"))
    first.domains.start("a")
    for use in (first.domains.list, lambda: first.domains.set_autostart("a", True)):
        fleet.hosts[0].stop_libvirtd()
        fleet.hosts[0].start_libvirtd()
        use()
    found = first.domains.look("a")
    assert found is not None
    assert (found.state, found.autostart) == (DomainState.RUNNING, True)


def test_without_libvirt_a_probe_says_so_and_a_change_is_unreachable(
    reach: Callable[..., RealHosts],
    fleet: nshosts.NamespaceFleet,
    enrolled: tuple[HostRecord, ...],
) -> None:
    fleet.hosts[1].stop_libvirtd()
    try:
        host = reach().open(enrolled[1])
        facts = host.probe()
        assert [part.part for part in facts.unknown] == ["libvirt"]
        assert "libvirt-sock" in facts.unknown[0].why
        assert facts.cpus > 0 and facts.domains == ()
        with pytest.raises(HostUnreachable) as caught:
            host.domains.define(DOMAIN.format("a"))
        assert "systemctl status libvirtd" in caught.value.next
    finally:
        fleet.hosts[1].start_libvirtd()


def test_a_libvirtd_that_hangs_is_cut_at_the_deadline_while_other_hosts_go_on(
    reach: Callable[..., RealHosts],
    fleet: nshosts.NamespaceFleet,
    enrolled: tuple[HostRecord, ...],
) -> None:
    hosts = reach(call_timeout_s=DEADLINE_S, connect_timeout_s=DEADLINE_S)
    hung, other = (hosts.open(record) for record in enrolled)
    hung.domains.define(DOMAIN.format("a"))
    other.domains.list()
    fleet.hosts[0].signal_libvirtd(signal.SIGSTOP)
    try:
        errors: dict[str, Exception | None] = {}
        look = threading.Thread(target=_try, args=(errors, "look", hung.domains.list))
        look.start()
        _try(errors, "other", lambda: [other.domains.list() for _ in range(20)])
        look.join(timeout=60)
        _try(errors, "again", lambda: hung.domains.undefine("a"))
    finally:
        fleet.hosts[0].signal_libvirtd(signal.SIGCONT)
    assert errors["other"] is None
    assert isinstance(errors["look"], DeadlineExceeded)
    assert isinstance(errors["again"], DeadlineExceeded)
    assert [each.name for each in hung.domains.list()] == ["a"]
    hung.domains.undefine("a")


def test_a_change_that_was_cut_is_of_unknown_outcome(
    reach: Callable[..., RealHosts],
    fleet: nshosts.NamespaceFleet,
    enrolled: tuple[HostRecord, ...],
) -> None:
    host = reach(call_timeout_s=DEADLINE_S).open(enrolled[0])
    host.domains.list()
    fleet.hosts[0].signal_libvirtd(signal.SIGSTOP)
    try:
        with pytest.raises(OutcomeUnknown) as caught:
            host.domains.define(DOMAIN.format("a"))
    finally:
        fleet.hosts[0].signal_libvirtd(signal.SIGCONT)
    assert "2 s" in caught.value.why
    # It had been sent: the daemon does it when it wakes. Hence: look, never assume.
    nshosts.poll(lambda: host.domains.look("a") is not None, "the late define")
    host.domains.undefine("a")


def _try(errors: dict[str, Exception | None], name: str, call: Callable[[], object]) -> None:
    errors[name] = None
    try:
        call()
    except VgpumgrError as caught:
        errors[name] = caught


def test_a_changed_host_key_is_refused_until_it_is_trusted(
    reach: Callable[..., RealHosts],
    fleet: nshosts.NamespaceFleet,
    enrolled: tuple[HostRecord, ...],
) -> None:
    other = replace(enrolled[0], host_key=fleet.hosts[1].fingerprint)
    hosts = reach()
    with pytest.raises(HostKeyChanged) as caught:
        hosts.open(other).probe()
    assert fleet.hosts[0].fingerprint in caught.value.why
    assert caught.value.next.startswith(f"vgpumgr host trust {other.name} ")
    with pytest.raises(HostKeyChanged):
        real_hosts.pin_host_key(hosts, enrolled[0], fleet.hosts[1].fingerprint, _never)
    trusted = real_hosts.pin_host_key(hosts, other, fleet.hosts[0].fingerprint, _never)
    assert hosts.open(trusted).probe().unknown == ()


def test_a_host_may_be_pinned_by_any_of_its_keys(
    reach: Callable[..., RealHosts],
    fleet: nshosts.NamespaceFleet,
    enrolled: tuple[HostRecord, ...],
) -> None:
    other = nshosts.fingerprint(fleet.hosts[0].path("/etc/ssh/host_key_ecdsa.pub"))
    hosts = reach()
    pinned = real_hosts.pin_host_key(hosts, enrolled[0], other, _never)
    assert pinned.host_key == other != fleet.hosts[0].fingerprint
    assert hosts.open(pinned).probe().unknown == ()


def test_an_unknown_key_is_shown_and_asked_for(
    reach: Callable[..., RealHosts], fleet: nshosts.NamespaceFleet
) -> None:
    where, asked = fleet.hosts[0], []
    record = HostRecord(name="new", address=where.address())
    pinned = real_hosts.pin_host_key(
        reach(), record, "", lambda name, key: asked.append((name, key))
    )
    assert asked == [("new", where.fingerprint)]
    assert pinned.host_key == where.fingerprint


def test_a_key_that_the_host_does_not_take_is_not_permitted(
    reach: Callable[..., RealHosts],
    fleet: nshosts.NamespaceFleet,
    enrolled: tuple[HostRecord, ...],
    tmp_path: Path,
) -> None:
    config = tmp_path / "config"
    config.write_text(f"IdentityFile {fleet.hosts[0].private_key}\nIdentitiesOnly yes\n")
    with pytest.raises(NotPermitted) as caught:
        reach(ssh_config=config).open(enrolled[0]).probe()
    assert "was not accepted" in caught.value.why
    assert "ssh-copy-id" in caught.value.next


def test_a_name_that_does_not_resolve_and_a_closed_port_are_unreachable(
    reach: Callable[..., RealHosts], fleet: nshosts.NamespaceFleet
) -> None:
    record = HostRecord(name="x", address="root@nosuch.invalid", host_key="SHA256:x")
    with pytest.raises(HostUnreachable, match="does not resolve"):
        reach().open(record).probe()
    record = replace(record, address=f"root@{fleet.hosts[0].ip}:9")
    with pytest.raises(HostUnreachable, match="cannot be reached"):
        reach().open(record).probe()


def test_a_host_is_reached_through_a_jump_host_of_the_ssh_configuration(
    reach: Callable[..., RealHosts],
    fleet: nshosts.NamespaceFleet,
    enrolled: tuple[HostRecord, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``inner`` is an alias; the jump host's own key must be in known_hosts."""
    jump, inner = fleet.hosts
    config = tmp_path / "config"
    config.write_text(
        f"Host inner\n  HostName {inner.ip}\n  ProxyJump root@{jump.ip}\n"
        f"Host *\n  IdentityFile {fleet.key}\n  IdentitiesOnly yes\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    record = replace(enrolled[1], address="root@inner")
    with pytest.raises(HostKeyChanged) as caught:
        reach(ssh_config=config).open(record).probe()
    assert "known_hosts" in caught.value.next

    (tmp_path / ".ssh").mkdir()
    public = jump.private_key.with_suffix(".pub").read_text()
    (tmp_path / ".ssh" / "known_hosts").write_text(f"{jump.ip} {public}")
    assert reach(ssh_config=config).open(record).probe().unknown == ()
    # HostName makes known_hosts entries of the address count for the alias.
    asked: list[str] = []
    real_hosts.pin_host_key(
        reach(ssh_config=config), record, "", lambda _name, key: asked.append(key)
    )
    assert asked == [inner.fingerprint]


def test_without_a_sudo_rule_a_probe_is_partial_and_prints_the_rule(
    reach: Callable[..., RealHosts],
    fleet: nshosts.NamespaceFleet,
    enrolled: tuple[HostRecord, ...],
) -> None:
    hosts = reach()
    record = _pinned(hosts, fleet.hosts[0], "gpuadm")
    facts = hosts.open(record).probe()
    assert facts.cpus > 0 and facts.versions.libvirt
    (missing,) = [part for part in facts.unknown if part.part == "root"]
    assert 'gpuadm ALL=(root) NOPASSWD: /usr/local/lib/vgpumgr/vgpumgr-helper ""' in missing.why
    with pytest.raises(NotPermitted, match="sudo"):
        hosts.open(record).helper.call("restore", {})
    with pytest.raises(NotPermitted, match="install"):
        hosts.open(record).installation.install()


@pytest.mark.skipif(shutil.which("sudo") is None, reason="sudo is not installed")
def test_an_ordinary_user_with_sudo_enrols_and_keeps_one_rule(
    reach: Callable[..., RealHosts], fleet: nshosts.NamespaceFleet
) -> None:
    """The installation needs sudo for everything, once; what stays admits the helper alone."""
    (where,) = fleet.add(1)
    where.path("/etc/sudoers.d/setup").write_text("gpuadm ALL=(root) NOPASSWD: ALL\n")
    hosts = reach()
    record = _pinned(hosts, where, "gpuadm")
    hosts.open(record).installation.install()
    where.path("/etc/sudoers.d/setup").unlink()
    assert hosts.open(record).probe().unknown == ()
    assert hosts.open(record).helper.call("restore", {}) == {"restored": [], "failed": []}
    refused = hosts.runner(record).run(("sudo", "-n", "id"), b"", 10.0)
    assert refused.status != 0


def test_a_bare_host_is_probed_by_a_streamed_helper_and_cannot_be_changed(
    reach: Callable[..., RealHosts], fleet: nshosts.NamespaceFleet
) -> None:
    (where,) = fleet.add(1, libvirtd=False)
    hosts = reach()
    record = replace(_pinned(hosts, where), probe_only=True)
    facts = hosts.open(record).probe()
    assert facts.cpus > 0 and facts.versions.helper
    assert [part.part for part in facts.unknown] == ["libvirt"]
    with pytest.raises(NotPermitted, match="probe-only"):
        hosts.open(record).helper.call("restore", {})
    assert not where.path("/usr/local/lib/vgpumgr").exists()


def uninstall(host: Host) -> None:
    host.helper.call("forget", {})
    host.installation.remove()


def test_uninstall_leaves_nothing_and_refuses_while_a_claim_is_left(
    reach: Callable[..., RealHosts], fleet: nshosts.NamespaceFleet
) -> None:
    (where,) = fleet.add(1, libvirtd=False)
    hosts = reach()
    record = _pinned(hosts, where)
    hosts.open(record).installation.install()
    claim = where.path("/var/lib/vgpumgr/claims/pci-0000:41:00.0.json")
    claim.parent.mkdir(parents=True)
    claim.write_text("{}")
    with pytest.raises(Conflict):
        uninstall(hosts.open(record))
    claim.unlink()
    uninstall(hosts.open(record))
    assert not where.path("/usr/local/lib/vgpumgr").exists()
    assert not where.path("/var/lib/vgpumgr").exists()
    with pytest.raises(HostUnreachable, match="cannot be started"):
        hosts.open(record).helper.call("version", {})


def test_a_host_that_dies_in_the_middle_is_reported_not_waited_for(
    reach: Callable[..., RealHosts], fleet: nshosts.NamespaceFleet
) -> None:
    (where,) = fleet.add(1)
    hosts = reach(call_timeout_s=DEADLINE_S, connect_timeout_s=DEADLINE_S)
    record = _pinned(hosts, where)
    hosts.open(record).installation.install()
    host = hosts.open(record)
    host.probe()
    where.close()
    with pytest.raises((HostUnreachable, DeadlineExceeded)):
        host.domains.list()
    with pytest.raises((HostUnreachable, DeadlineExceeded)):
        host.probe()


def test_a_pulled_cable_is_cut_at_the_deadline_and_healed_by_the_next_call(
    reach: Callable[..., RealHosts],
    fleet: nshosts.NamespaceFleet,
    enrolled: tuple[HostRecord, ...],
) -> None:
    """Packets vanish without a word: only our own clock notices."""
    host = reach(call_timeout_s=2.0, connect_timeout_s=10.0).open(enrolled[1])
    host.probe()
    fleet.cable(enrolled[1].name, "down")
    try:
        with pytest.raises(DeadlineExceeded):
            host.domains.list()
        with pytest.raises((DeadlineExceeded, HostUnreachable)):
            host.helper.call("version", {})
    finally:
        fleet.cable(enrolled[1].name, "up")
    nshosts.poll(lambda: _succeeds(host.probe), "the host to be reached again")


def _succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except VgpumgrError:
        return False
    return True


def test_at_most_eight_channels_are_open_at_once(
    reach: Callable[..., RealHosts], enrolled: tuple[HostRecord, ...]
) -> None:
    """sshd admits ten sessions; the ninth of ours waits, and says so when none becomes free."""
    connection = reach(connect_timeout_s=5.0).runner(enrolled[0])
    assert isinstance(connection, SshConnection)
    channels = [connection.open(("cat",)) for _ in range(8)]
    with pytest.raises(HostUnreachable, match="all 8 SSH channels"):
        connection.open(("cat",))
    channels[0].close()
    channels[0].close()
    assert connection.run(("cat",), b"x" * 3_000_000, 10.0).out == b"x" * 3_000_000
    for each in channels:
        each.close()


def test_an_endless_answer_is_cut(
    reach: Callable[..., RealHosts], enrolled: tuple[HostRecord, ...]
) -> None:
    with pytest.raises(CallCut, match="bytes of output"):
        reach().runner(enrolled[0]).run(("cat", "/dev/zero"), b"", 60.0)


def test_a_user_outside_the_group_libvirt_is_told_so(
    reach: Callable[..., RealHosts], fleet: nshosts.NamespaceFleet
) -> None:
    where = fleet.hosts[0]
    record = _pinned(reach(), where, "gpuadm")
    where.path("/run/libvirt/libvirt-sock").chmod(0o700)
    try:
        with pytest.raises(NotPermitted, match="denies access") as caught:
            reach().open(record).domains.list()
        assert "usermod -aG libvirt" in caught.value.next
    finally:
        where.path("/run/libvirt/libvirt-sock").chmod(0o770)


def test_a_host_whose_ssh_configuration_is_refused_does_not_harm_others(
    reach: Callable[..., RealHosts],
    fleet: nshosts.NamespaceFleet,
    enrolled: tuple[HostRecord, ...],
    tmp_path: Path,
) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host odd\n  ProxyCommand nc %h %p\nHost *\n  IdentityFile {fleet.key}\n"
        "  IdentitiesOnly yes\n"
    )
    hosts = reach(ssh_config=config)
    odd = hosts.open(HostRecord(name="odd", address="root@odd", host_key="SHA256:x"))
    for use in (odd.probe, lambda: odd.domains.list(), lambda: odd.storage.pools()):
        with pytest.raises(UsageError, match="ProxyCommand is not supported"):
            use()
    assert hosts.open(enrolled[0]).probe().unknown == ()
