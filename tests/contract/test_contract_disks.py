"""The cases of disks on a simulated host, and on a real one with libvirt and QEMU."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libvirt
import libvirt_qemu
import pytest

from tests import nshosts, storage_servers
from tests.contract import backup_cases, plugged_disk_cases
from tests.contract.bench import Case, Cases
from tests.contract.disk_bench import BACKUPS, CEPH, FILES, HOST, LVM, NFS, DiskBench, TestedPool
from tests.contract.disk_cases import CASES, KILLS
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.domain import VolumeFacts
from vgpumgr.model.errors import HostRefused, HostUnreachable, VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.ports import Hosts
from vgpumgr.model.sim_fleet import SimFleet, SimHost
from vgpumgr.model.vm_backup import BackupTarget
from vgpumgr.sim.in_process import InProcessHosts
from vgpumgr.sim.libvirt.volume_files import VolumeFiles

SIZE = 64 << 10
# A few seconds each on a real host.
MAIN = 2


class SimDisks:
    """Guests of a simulated host."""

    def __init__(self, files: VolumeFiles) -> None:
        self.files = files

    def write(self, domain: str, disk: VolumeFacts, value: int) -> None:
        self.files.guest_writes(disk.path, bytes([value]) * 16)

    def read(self, domain: str, disk: VolumeFacts) -> int:
        return (self.files.content(disk.path).data or b"\0")[0]


class QemuDisks:
    """Guests of a real host: QEMU writes for one that runs, qemu-io for one that is off."""

    def __init__(self, where: nshosts.NamespaceHost) -> None:
        self.where = where

    def write(self, domain: str, disk: VolumeFacts, value: int) -> None:
        self._do(domain, disk, f"write -P {value} 0 {SIZE}")

    def read(self, domain: str, disk: VolumeFacts) -> int:
        copy = "/var/lib/libvirt/read"
        convert = ("convert", "-U", "-f", disk.format, "-O", "raw", _place(disk), copy)
        self._do(domain, disk, "flush")
        self.where.run("qemu-img", *convert)
        return self.where.path(copy).read_bytes()[0]

    def _do(self, domain: str, disk: VolumeFacts, words: str) -> None:
        uri = f"qemu+unix:///system?socket={self.where.libvirt_socket}"
        connection = libvirt.open(uri)
        try:
            found = connection.lookupByName(domain)
            if not found.isActive():
                self.where.run("qemu-io", "-f", disk.format, "-c", words, _place(disk))
                return
            number = (
                found.XMLDesc(0)
                .split("<disk ")
                .index(next(each for each in found.XMLDesc(0).split("<disk ") if disk.path in each))
            )
            backend = f"/machine/peripheral/virtio-disk{number - 1}/virtio-backend"
            libvirt_qemu.qemuMonitorCommand(
                found,
                f'qemu-io -d {backend} "{words}"',
                libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP,
            )
        finally:
            connection.close()


def simulated(folder: Path, pool: TestedPool) -> Iterator[DiskBench]:
    opened: list[InProcessHosts] = []

    def hosts(ledger: Ledger) -> tuple[Hosts, HostRecord]:
        identity = (ledger.fleet_id(), ledger.epoch())
        fleet = SimFleet(name="disks", hosts=(SIMULATED,))
        opened.append(InProcessHosts(fleet, identity=lambda: identity))
        return opened[0], HostRecord(name=HOST, address=f"sim://{HOST}")

    bench = DiskBench(folder, hosts, pool)
    bench.disks = SimDisks(opened[0].fleet.host(HOST).storage)
    yield bench
    bench.ledger.close()
    opened[0].close()


def _place(disk: VolumeFacts) -> str:
    """As QEMU's tools name it."""
    ceph = disk.pool == storage_servers.CEPH_POOL
    return storage_servers.ceph_image(disk.path) if ceph else disk.path


SIMULATED = SimHost(
    name=HOST,
    pools=("default", NFS.name, LVM.name, CEPH.name, BACKUPS),
    shared_pools=(NFS.name,),
    lvm_pools=(LVM.name,),
    ceph_pools=(CEPH.name,),
)


@pytest.fixture(
    scope="module", params=[FILES, NFS, LVM, CEPH], ids=lambda pool: str(getattr(pool, "name", ""))
)
def simulated_host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DiskBench]:
    yield from simulated(tmp_path_factory.mktemp("simulated"), request.param)


@pytest.fixture
def simulated_bench(simulated_host: DiskBench) -> Iterator[DiskBench]:
    yield simulated_host
    simulated_host.clear()


@pytest.fixture(scope="module")
def where() -> Iterator[nshosts.NamespaceHost]:
    if why := storage_servers.missing() or storage_servers.ceph_missing():
        pytest.skip(why)
    server = storage_servers.NfsServer()
    fleet = nshosts.NamespaceFleet(1, prepare=server.prepare)
    server.mount(fleet.hosts[0])
    storage_servers.start_ceph(fleet.hosts[0])
    _add_pool(fleet.hosts[0], BACKUPS)
    _add_pool(fleet.hosts[0], SMALL, size="4m")
    yield fleet.hosts[0]
    fleet.close()
    server.close()


SMALL = "small"


def _add_pool(where: nshosts.NamespaceHost, name: str, size: str = "") -> None:
    path = f"/var/lib/libvirt/{name}"
    where.run("mkdir", path)
    if size:
        where.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path)
    connection = libvirt.open(f"qemu+unix:///system?socket={where.libvirt_socket}")
    target = f"<target><path>{path}</path></target>"
    pool = connection.storagePoolDefineXML(f"<pool type='dir'><name>{name}</name>{target}</pool>")
    pool.create()
    connection.close()


def real(where: nshosts.NamespaceHost, folder: Path, pool: TestedPool) -> Iterator[DiskBench]:
    opened: list[RealHosts] = []

    def hosts(ledger: Ledger) -> tuple[Hosts, HostRecord]:
        identity = (ledger.fleet_id(), ledger.epoch())
        real = RealHosts(
            ssh_config=where.ssh_config,
            identity=lambda: identity,
            local_prefix=where.enter,
            libvirt_sockets=(where.libvirt_socket,),
        )
        opened.append(real)
        record = HostRecord(name=HOST, address="local")
        real.open(record).installation.install()
        return real, record

    bench = DiskBench(folder, hosts, pool)
    bench.disks = QemuDisks(where)
    yield bench
    bench.ledger.close()
    opened[0].close()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(FILES, id=FILES.name),
        pytest.param(NFS, id=NFS.name, marks=pytest.mark.release),
        pytest.param(CEPH, id=CEPH.name),
    ],
)
def real_host(
    where: nshosts.NamespaceHost,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[DiskBench]:
    yield from real(where, tmp_path_factory.mktemp("real"), request.param)


@pytest.fixture
def real_files(where: nshosts.NamespaceHost, tmp_path: Path) -> Iterator[DiskBench]:
    for bench in real(where, tmp_path, FILES):
        yield bench
        bench.clear()


@pytest.fixture
def real_bench(real_host: DiskBench) -> Iterator[DiskBench]:
    yield real_host
    real_host.clear()


def _answers(where: nshosts.NamespaceHost) -> bool:
    try:
        libvirt.open(f"qemu+unix:///system?socket={where.libvirt_socket}").close()
    except libvirt.libvirtError:
        return False
    return True


def run_real(where: nshosts.NamespaceHost, bench: DiskBench, case: Case[DiskBench]) -> None:
    """A case on a real host; again where libvirtd crashed meanwhile, which is no fault of ours."""
    libvirtd = where.libvirtd_pid
    try:
        case(bench)
    except VgpumgrError:
        nshosts.poll(lambda: _answers(where), "libvirtd to answer")
        if where.libvirtd_pid == libvirtd:
            raise
        bench.clear()
        case(bench)


def cases(
    found: Cases[DiskBench], *, first: int | None = None, rest: Any = pytest.mark.thorough
) -> list[Any]:
    """Those after the ``first`` few are marked as the ``rest``."""
    listed = list(found)
    marks = [() if first is None or number < first else rest for number in range(len(listed))]
    return [
        pytest.param(each, id=each.__name__, marks=mark)
        for each, mark in zip(listed, marks, strict=True)
    ]


# A kill at each write takes minutes for each case of a pool that other machines serve.
KILLED_ON = pytest.mark.parametrize(
    "real_host",
    [
        pytest.param(FILES, id=FILES.name),
        *(pytest.param(pool, id=pool.name, marks=pytest.mark.release) for pool in (NFS, CEPH)),
    ],
    indirect=True,
    scope="module",
)


@pytest.mark.parametrize("case", cases(CASES))
def test_a_simulated_host(simulated_bench: DiskBench, case: Case[DiskBench]) -> None:
    case(simulated_bench)


@pytest.mark.parametrize("case", cases(plugged_disk_cases.CASES))
def test_a_disk_more_on_a_simulated_host(simulated_bench: DiskBench, case: Case[DiskBench]) -> None:
    case(simulated_bench)


@pytest.mark.root
@pytest.mark.libvirtd
@pytest.mark.thorough
@pytest.mark.parametrize("case", cases(plugged_disk_cases.CASES))
def test_a_disk_more_on_a_real_host(
    where: nshosts.NamespaceHost, real_bench: DiskBench, case: Case[DiskBench]
) -> None:
    run_real(where, real_bench, case)


@pytest.mark.thorough
@pytest.mark.parametrize("case", cases(KILLS))
def test_a_simulated_host_killed(simulated_bench: DiskBench, case: Case[DiskBench]) -> None:
    case(simulated_bench)


@pytest.mark.root
@pytest.mark.libvirtd
@pytest.mark.parametrize("case", cases(CASES, first=MAIN))
def test_a_real_host(
    where: nshosts.NamespaceHost, real_bench: DiskBench, case: Case[DiskBench]
) -> None:
    run_real(where, real_bench, case)


@pytest.mark.root
@pytest.mark.libvirtd
@pytest.mark.thorough
@pytest.mark.timeout(900)
@KILLED_ON
@pytest.mark.parametrize("case", cases(KILLS, first=1, rest=pytest.mark.release))
def test_a_real_host_killed(real_bench: DiskBench, case: Case[DiskBench]) -> None:
    case(real_bench)


@pytest.mark.parametrize("case", cases(backup_cases.CASES))
def test_backups_of_a_simulated_host(simulated_bench: DiskBench, case: Case[DiskBench]) -> None:
    case(simulated_bench)


@pytest.mark.thorough
@pytest.mark.parametrize("case", cases(backup_cases.KILLS))
def test_backups_of_a_simulated_host_killed(
    simulated_bench: DiskBench, case: Case[DiskBench]
) -> None:
    case(simulated_bench)


@pytest.mark.root
@pytest.mark.libvirtd
@pytest.mark.parametrize("case", cases(backup_cases.CASES, first=MAIN))
def test_backups_of_a_real_host(
    where: nshosts.NamespaceHost, real_bench: DiskBench, case: Case[DiskBench]
) -> None:
    run_real(where, real_bench, case)


@pytest.mark.root
@pytest.mark.libvirtd
@pytest.mark.thorough
@pytest.mark.timeout(900)
@KILLED_ON
@pytest.mark.parametrize("case", cases(backup_cases.KILLS, first=1, rest=pytest.mark.release))
def test_backups_of_a_real_host_killed(real_bench: DiskBench, case: Case[DiskBench]) -> None:
    case(real_bench)


@pytest.mark.root
@pytest.mark.libvirtd
@pytest.mark.parametrize("running", [False, True], ids=["off", "running"])
def test_a_full_target_leaves_nothing_behind(
    real_files: DiskBench, where: nshosts.NamespaceHost, running: bool
) -> None:
    bench = real_files
    bench.make(bench.pool.disk(16))
    bench.stop()
    [(pool, volume)] = bench.vm().volumes
    disk = bench.host.storage.look(pool, volume)
    assert disk is not None
    where.run("qemu-io", "-f", "qcow2", "-c", "write -P 7 0 12M", disk.path)
    if running:
        bench.start()
    bench.engine.refresh()
    bench.ledger.set_backup_target(BackupTarget(name="small", pool=SMALL))
    with pytest.raises(HostRefused) as caught:
        bench.engine.back_up("a", "small")[0].raise_for_failure()
    assert "No space left" in caught.value.why
    assert bench.runs() is running
    assert bench.host.storage.volumes(SMALL) == ()
    assert bench.ledger.vm_backups() == () and not bench.unfinished()
    bench.ledger.delete_backup_target("small")


@pytest.mark.root
@pytest.mark.libvirtd
@pytest.mark.thorough
def test_a_case_is_run_again_where_libvirtd_crashed_and_for_nothing_else(
    where: nshosts.NamespaceHost, real_files: DiskBench
) -> None:
    runs: list[str] = []

    def crashes_once(bench: DiskBench) -> None:
        runs.append(where.libvirtd_pid)
        if len(runs) == 1:
            where.signal_libvirtd(signal.SIGSEGV)
            raise HostUnreachable("libvirt on h1 cannot be reached")
        bench.make(bench.pool.disk(16))

    def refuses(_: DiskBench) -> None:
        runs.append("refused")
        raise HostRefused("no")

    run_real(where, real_files, crashes_once)
    assert len(set(runs)) == 2
    with pytest.raises(HostRefused):
        run_real(where, real_files, refuses)
    assert runs.count("refused") == 1
