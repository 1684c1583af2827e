"""What libvirt is asked for in a move, and what its failures mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import libvirt
import pytest

from vgpumgr.model.domain import KeptBeside, LiveMove, MigrationAddress, MoveProgress
from vgpumgr.model.errors import HostRefused, NotFound, OutcomeUnknown
from vgpumgr.virt import live_migration
from vgpumgr.virt.libvirt_domains import LibvirtDomains

TLS = MigrationAddress(address="10.0.0.2", tls_name="h2.example")
PLAIN = MigrationAddress(address="fd00::2", tls=False, bandwidth_mib_s=100)
MOVE = LiveMove(name="web", live_xml="<live/>", persistent_xml="<kept/>", to=TLS)
RUNNING, PAUSED = libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_PAUSED
SHUTOFF = libvirt.VIR_DOMAIN_SHUTOFF


def error(code: int, text: str = "no") -> libvirt.libvirtError:
    made = libvirt.libvirtError(text)
    made.err = (code, 0, text, 2, "", "", "", 0, 0)
    made.args = (text,)
    return made


ABSENT = error(libvirt.VIR_ERR_NO_DOMAIN)
REFUSED = error(libvirt.VIR_ERR_OPERATION_FAILED, "migration failed: no route to host")


@dataclass
class FakeConnection:
    """One domain, or none; ``act`` is what a migration does to both."""

    now: int | None
    act: Callable[[], None] = lambda: None
    alive: bool = True
    asked: list[Any] = field(default_factory=list)

    def isAlive(self) -> int:  # noqa: N802
        return int(self.alive)

    def lookupByName(self, name: str) -> FakeConnection:  # noqa: N802
        if not self.alive:
            raise error(libvirt.VIR_ERR_RPC, "End of file while reading data")
        if self.now is None:
            raise ABSENT
        return self

    def state(self) -> list[Any]:
        return [self.now, 0]

    def migrate3(self, target: Any, parameters: Any, flags: int) -> None:
        self.asked = [target, parameters, flags]
        self.act()


def pair(act: Callable[[], None] = lambda: None) -> tuple[FakeConnection, FakeConnection]:
    return FakeConnection(RUNNING, act), FakeConnection(None)


def moved(source: FakeConnection, target: FakeConnection, move: LiveMove = MOVE) -> None:
    def arrive() -> None:
        source.now, target.now = SHUTOFF, RUNNING

    source.act = arrive
    live_migration.migrate(source, target, move)


def test_a_move_is_live_kept_and_never_post_copy() -> None:
    source, target = pair()
    moved(source, target)
    asked, parameters, flags = source.asked
    assert asked is target
    assert parameters == {
        "migrate_uri": "tcp://10.0.0.2",
        "destination_xml": "<live/>",
        "persistent_xml": "<kept/>",
        "tls.destination": "h2.example",
    }
    assert flags & libvirt.VIR_MIGRATE_LIVE
    assert flags & libvirt.VIR_MIGRATE_PERSIST_DEST
    assert flags & libvirt.VIR_MIGRATE_TLS
    for never in ("POSTCOPY", "UNDEFINE_SOURCE", "UNSAFE", "PEER2PEER", "NON_SHARED_DISK"):
        assert not flags & getattr(libvirt, f"VIR_MIGRATE_{never}")


def test_without_tls_with_a_limit_and_with_disks() -> None:
    source, target = pair()
    moved(source, target, replace(MOVE, to=PLAIN, copied=("vda", "vdb")))
    _, parameters, flags = source.asked
    assert parameters["migrate_uri"] == "tcp://[fd00::2]"
    assert parameters["bandwidth"] == 100
    assert parameters["migrate_disks"] == ["vda", "vdb"]
    assert "tls.destination" not in parameters
    assert not flags & libvirt.VIR_MIGRATE_TLS
    assert flags & libvirt.VIR_MIGRATE_NON_SHARED_DISK


def failing(
    refusal: libvirt.libvirtError, here: int | None, *, broken: str = ""
) -> type[Exception]:
    source, target = pair()

    def fail() -> None:
        source.now = here
        source.alive, target.alive = broken != "source", broken != "target"
        raise refusal

    source.act = fail
    with pytest.raises((HostRefused, OutcomeUnknown)) as caught:
        live_migration.migrate(source, target, MOVE)
    assert caught.value.why
    return caught.type


def test_a_failure_is_a_refusal_only_where_the_source_runs_on() -> None:
    assert failing(REFUSED, RUNNING) is HostRefused
    assert failing(REFUSED, PAUSED) is OutcomeUnknown
    assert failing(REFUSED, SHUTOFF) is OutcomeUnknown
    assert failing(REFUSED, None) is OutcomeUnknown


@pytest.mark.parametrize("end", ["source", "target"])
def test_a_broken_connection_is_unknown_even_if_the_source_runs(end: str) -> None:
    assert failing(REFUSED, RUNNING, broken=end) is OutcomeUnknown


@pytest.mark.parametrize(("here", "there"), [(RUNNING, RUNNING), (SHUTOFF, PAUSED), (PAUSED, None)])
def test_success_is_read_back(here: int, there: int | None) -> None:
    source, target = pair()

    def half() -> None:
        source.now, target.now = here, there

    source.act = half
    with pytest.raises(OutcomeUnknown, match="not in the expected state"):
        live_migration.migrate(source, target, MOVE)


@pytest.mark.parametrize("state", [PAUSED, SHUTOFF])
def test_only_a_running_domain_is_moved(state: int) -> None:
    with pytest.raises(HostRefused):
        live_migration.migrate(FakeConnection(state), FakeConnection(None), MOVE)
    with pytest.raises(NotFound):
        live_migration.migrate(FakeConnection(None), FakeConnection(None), MOVE)


class FakeJob:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def jobStats(self) -> Any:  # noqa: N802
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    abortJob = jobStats  # noqa: N815


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"type": libvirt.VIR_DOMAIN_JOB_NONE}, None),
        ({"type": libvirt.VIR_DOMAIN_JOB_COMPLETED, "data_total": 9}, None),
        ({"type": libvirt.VIR_DOMAIN_JOB_UNBOUNDED}, (0, 0)),
        (
            {"type": libvirt.VIR_DOMAIN_JOB_UNBOUNDED, "data_total": 9, "data_remaining": 4},
            (9, 4),
        ),
        (error(libvirt.VIR_ERR_OPERATION_UNSUPPORTED, "only on the source host"), (0, 0)),
        (error(libvirt.VIR_ERR_OPERATION_INVALID, "domain is not running"), None),
    ],
)
def test_progress(answer: Any, told: tuple[int, int] | None) -> None:
    wanted = None if told is None else MoveProgress(total_bytes=told[0], left_bytes=told[1])
    assert live_migration.progress(FakeJob(answer)) == wanted


def test_cancelling_nothing_is_no_error_and_failing_to_cancel_is() -> None:
    live_migration.cancel(FakeJob(None))
    live_migration.cancel(FakeJob(error(libvirt.VIR_ERR_OPERATION_INVALID, "no job is active")))
    with pytest.raises(libvirt.libvirtError):
        live_migration.cancel(FakeJob(error(libvirt.VIR_ERR_INTERNAL_ERROR)))


DOMAIN = (
    "<domain type='test'><name>a</name><uuid>6f1c5e4e-8f8e-4d6b-9f29-0f5f1f0c7b01</uuid>"
    "<memory unit='MiB'>64</memory><vcpu>2</vcpu>"
    "<os><type>hvm</type></os>{cpu}</domain>"
)


NODE = "<node><cpu><mhz>6000</mhz><model>i686</model><active>16</active></cpu></node>"


@pytest.fixture
def domains(tmp_path: Path) -> LibvirtDomains:
    """A test driver of its own: ``test:///default`` is one for the whole process."""
    config = tmp_path / "node.xml"
    config.write_text(NODE)
    found = LibvirtDomains(libvirt.open(f"test://{config}"))
    found.define(DOMAIN.format(cpu=""))
    return found


def test_a_running_domain_is_read_to_be_moved_and_one_that_is_off_is_not(
    domains: LibvirtDomains,
) -> None:
    with pytest.raises(HostRefused, match="cannot read running domain a"):
        domains.live_xml("a")
    domains.start("a")
    assert "<name>a</name>" in domains.live_xml("a")


def test_a_paused_domain_goes_on(domains: LibvirtDomains) -> None:
    domains.start("a")
    domains._connection.lookupByName("a").suspend()
    domains.resume("a")
    domains.resume("a")
    found = domains.look("a")
    assert found is not None
    assert found.state == "running"
    domains.destroy("a")
    with pytest.raises(HostRefused):
        domains.resume("a")


def test_snapshots_and_saved_memory_beside_a_domain_are_seen(domains: LibvirtDomains) -> None:
    assert domains.kept_beside("a") == KeptBeside()
    domains.start("a")
    domain = domains._connection.lookupByName("a")
    domain.snapshotCreateXML("<domainsnapshot><name>one</name></domainsnapshot>", 0)
    assert domains.kept_beside("a") == KeptBeside(snapshots=1)
    domain.managedSave(0)
    assert domains.kept_beside("a") == KeptBeside(snapshots=1, saved_state=True)


def test_a_domain_that_is_not_there_moves_nowhere(domains: LibvirtDomains) -> None:
    assert domains.migration_progress("nosuch") is None
    domains.cancel_migration("nosuch")
    for act in (domains.live_xml, domains.resume, domains.kept_beside):
        with pytest.raises(NotFound):
            act("nosuch")


@dataclass
class FakeCpus:
    answer: Any
    asked: list[Any] = field(default_factory=list)

    def isAlive(self) -> int:  # noqa: N802
        return 1

    def compareHypervisorCPU(self, *arguments: Any) -> int:  # noqa: N802
        self.asked += arguments
        if isinstance(self.answer, Exception):
            raise self.answer
        return int(self.answer)


CUSTOM = "<cpu mode='custom' match='exact'><model>EPYC</model></cpu>"


@pytest.mark.parametrize(
    ("cpu", "answer", "fits"),
    [
        ("", 2, None),
        ("<cpu mode='host-passthrough'/>", 2, None),
        ("<cpu mode='maximum'/>", 2, None),
        (CUSTOM, libvirt.VIR_CPU_COMPARE_SUPERSET, True),
        (CUSTOM, libvirt.VIR_CPU_COMPARE_IDENTICAL, True),
        (CUSTOM, libvirt.VIR_CPU_COMPARE_INCOMPATIBLE, False),
        (CUSTOM, error(libvirt.VIR_ERR_CONFIG_UNSUPPORTED), None),
        (CUSTOM, error(libvirt.VIR_ERR_NO_SUPPORT), None),
    ],
)
def test_a_cpu_fits_does_not_or_nobody_knows(cpu: str, answer: Any, fits: bool | None) -> None:
    assert LibvirtDomains(FakeCpus(answer)).cpu_fits(DOMAIN.format(cpu=cpu)) is fits


def test_a_comparison_that_failed_is_no_answer() -> None:
    connection = FakeCpus(error(libvirt.VIR_ERR_INTERNAL_ERROR, "no QEMU"))
    with pytest.raises(HostRefused, match="compare the guest's CPU"):
        LibvirtDomains(connection).cpu_fits(DOMAIN.format(cpu=CUSTOM))
