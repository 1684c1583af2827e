"""The process that is the hosts: it outlives clients, and killing it is a power cut."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests import strangers
from vgpumgr import domainxml
from vgpumgr.model.domain import DomainPlan, DomainState, MdevHostdev, Ownership, PciHostdev
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    InUse,
    NotFound,
    NotPermitted,
    OutcomeUnknown,
    UsageError,
)
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import DEFAULT_VERSIONS, SimBoard, SimFleet, SimHost
from vgpumgr.sim import control
from vgpumgr.sim.sim_client import SimHosts
from vgpumgr.sim.transport import fleet_socket

T4 = "0000:41:00.0"
Connect = Callable[..., SimHosts]
FLEET = SimFleet(
    name="pair",
    hosts=tuple(SimHost(name=name, boards=(SimBoard(board="T4"),)) for name in ("h1", "h2")),
)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    folder = tmp_path / "sim"
    yield folder
    control.down(folder)


@pytest.fixture
def connect(state: Path) -> Iterator[Connect]:
    made: list[SimHosts] = []

    def new(timeout_s: float = 30.0) -> SimHosts:
        made.append(SimHosts(state, timeout_s, identity=lambda: ("fleet", 1)))
        return made[-1]

    yield new
    for each in made:
        each.close()


@pytest.fixture
def hosts(state: Path, connect: Connect) -> SimHosts:
    control.up(FLEET, state)
    return connect()


def open_host(hosts: SimHosts, name: str = "h1") -> Host:
    return hosts.open(HostRecord(name=name, address=f"sim://{name}"))


def uuid_of(number: int, host: int = 0) -> str:
    return f"4b20d080-1b54-4048-85b3-{host:06d}{number:06d}"


def make_vm(host: Host, number: int, host_number: int = 0, type_id: str = "nvidia-232") -> None:
    uuid, name = uuid_of(number, host_number), f"vm-{host_number}-{number}"
    claim = {"allocation": uuid, "generation": 1, "vm": name}
    host.helper.call("mdev_create", {"parent": T4, "type": type_id, "uuid": uuid, "claim": claim})
    plan = DomainPlan(
        name=name,
        uuid=uuid,
        vcpus=1,
        memory_mib=1024,
        accelerator="kvm",
        hostdevs=(MdevHostdev(uuid=uuid),),
        ownership=Ownership(fleet="fleet", vm=name, vm_id=name, generation=1),
    )
    host.domains.define(domainxml.render(plan, DEFAULT_VERSIONS))
    host.domains.start(name)


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A child that ended and that nobody has waited for.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_it_answers_from_the_moment_it_is_up(state: Path) -> None:
    assert not control.status(state).up
    control.up(FLEET, state)
    found = control.status(state)
    assert (found.up, found.fleet, found.hosts) == (True, "pair", ("h1", "h2"))
    control.down(state)
    control.down(state)
    assert not control.status(state).up


def test_the_same_fleet_may_be_switched_on_twice_another_may_not(state: Path) -> None:
    control.up(FLEET, state)
    pid = control.status(state).pid
    control.up(FLEET, state)
    assert control.status(state).pid == pid
    with pytest.raises(Conflict) as caught:
        control.up(SimFleet(name="other"), state)
    assert caught.value.next == "vgpumgr sim down"


def test_a_fleet_that_cannot_exist_says_why(state: Path) -> None:
    fleet = SimFleet(name="odd", hosts=(SimHost(name="h1", boards=(SimBoard(board="T5"),)),))
    with pytest.raises(UsageError, match="no board 'T5'"):
        control.up(fleet, state)


def test_without_the_process_hosts_are_unreachable(connect: Connect) -> None:
    with pytest.raises(HostUnreachable) as caught:
        open_host(connect()).probe()
    assert caught.value.next == "vgpumgr sim up"


def test_only_hosts_of_the_fleet_are_reached(hosts: SimHosts) -> None:
    with pytest.raises(HostUnreachable) as caught:
        open_host(hosts, "h11").probe()
    assert "did you mean h" in caught.value.why
    with pytest.raises(HostUnreachable):
        hosts.open(HostRecord(name="h1", address="root@h1"))


def test_a_host_is_opened_once(hosts: SimHosts) -> None:
    assert open_host(hosts) is open_host(hosts)


def test_a_vm_is_made_over_the_socket_and_outlives_its_client(
    hosts: SimHosts, state: Path, connect: Connect
) -> None:
    make_vm(open_host(hosts), 1)
    hosts.close()
    found = open_host(connect()).probe()
    assert [each.state for each in found.domains] == [DomainState.RUNNING]
    assert [each.uuid for each in found.mdevs] == [uuid_of(1)]
    assert control.status(state).running_domains == 1


def test_errors_arrive_as_they_were_raised(hosts: SimHosts) -> None:
    host = open_host(hosts)
    with pytest.raises(NotFound) as absent:
        host.domains.start("nobody")
    assert "no domain nobody" in absent.value.message
    with pytest.raises(HostRefused) as refused:
        host.storage.create("default", "<volume/>")
    assert refused.value.why


def test_bytes_travel(hosts: SimHosts) -> None:
    host = open_host(hosts)
    xml = (
        "<volume><name>seed</name><capacity>4096</capacity>"
        "<target><format type='raw'/></target></volume>"
    )
    host.storage.create("default", xml)
    host.storage.upload("default", "seed", bytes(range(256)) * 8)
    pool = "/var/lib/libvirt/images"
    seen = host.helper.call("image_inspect", {"path": f"{pool}/seed", "pool_path": pool})
    assert (seen["format"], seen["virtual_bytes"]) == ("raw", 4096)


def test_killing_it_is_a_power_cut(hosts: SimHosts, state: Path) -> None:
    host = open_host(hosts)
    make_vm(host, 1)
    boot_id = host.probe().boot_id
    pid = control.status(state).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid))
    with pytest.raises(HostUnreachable):
        host.probe()
    control.up(FLEET, state)
    after = host.probe()
    assert after.boot_id != boot_id
    assert after.mdevs == ()
    assert [each.unit for each in after.claims] == [f"mdev-{uuid_of(1)}"]
    assert [(each.name, each.state) for each in after.domains] == [("vm-0-1", DomainState.SHUTOFF)]
    assert host.helper.call("restore", {})["failed"] == []
    host.domains.start("vm-0-1")


def test_it_ends_when_its_folder_is_gone(hosts: SimHosts, state: Path) -> None:
    pid = control.status(state).pid
    assert pid is not None
    shutil.rmtree(state)
    eventually(lambda: not is_alive(pid))


def test_two_ups_at_once_make_one_fleet(state: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: control.up(FLEET, state), range(2)))
    assert control.status(state).up


def test_a_folder_that_others_may_enter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(dir="/tmp") as runtime:  # short: a long one would not be used at all
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        folder = Path(runtime) / "vgpumgr"
        folder.mkdir()
        folder.chmod(0o755)
        with pytest.raises(NotPermitted):
            fleet_socket.socket_path(Path(runtime) / "sim")


@pytest.mark.root
def test_another_users_folder_or_link_in_its_place_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In /tmp anybody can be there first."""
    place = Path("/tmp", f"vgpumgr-{4_000_000_000}")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)
    for squat in ("os.mkdir(p, 0o777)", "os.symlink('/', p)", "os.symlink('/nowhere', p)"):
        strangers.said(f"p = {str(place)!r}\n{squat}")
        assert os.path.lexists(place)
        try:
            with pytest.raises(NotPermitted, match="not a folder of ours alone"):
                fleet_socket.socket_path(tmp_path)
        finally:
            place.unlink() if place.is_symlink() else place.rmdir()


def test_a_long_runtime_folder_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    assert len(str(fleet_socket.socket_path(tmp_path))) < 108


# -- faults


def test_a_host_that_hangs_delays_only_itself(
    hosts: SimHosts, state: Path, connect: Connect
) -> None:
    control.inject(state, "h1", ["hang"])
    assert control.status(state).faults == {"h1": ("hang",)}
    impatient = connect(timeout_s=0.3)
    with pytest.raises(DeadlineExceeded):
        open_host(impatient).domains.list()
    with pytest.raises(OutcomeUnknown):
        open_host(impatient).domains.start("vm")
    with pytest.raises(DeadlineExceeded):
        open_host(impatient).probe()
    answered = open_host(hosts, "h2").probe()
    assert answered.unknown == ()
    waiting = threading.Thread(target=open_host(hosts).probe)
    waiting.start()
    control.inject(state, "h1", ["clear"])
    waiting.join(timeout=20)
    assert not waiting.is_alive()


def test_what_was_cut_may_still_be_done(hosts: SimHosts, state: Path, connect: Connect) -> None:
    control.inject(state, "h1", ["hang"])
    uuid = uuid_of(1)
    with pytest.raises(OutcomeUnknown):
        make_vm(open_host(connect(timeout_s=0.3)), 1)
    control.inject(state, "h1", ["clear"])
    host = open_host(hosts)
    eventually(lambda: host.helper.call("mdev_look", {"uuid": uuid})["exists"] is True)


def test_an_unreachable_host_says_so(hosts: SimHosts, state: Path) -> None:
    control.inject(state, "h1", ["unreachable"])
    with pytest.raises(HostUnreachable, match="h1"):
        open_host(hosts).probe()
    assert open_host(hosts, "h2").probe().unknown == ()
    control.inject(state, "h1", ["clear"])
    assert open_host(hosts).probe().unknown == ()


def test_a_slow_host_answers_late(hosts: SimHosts, state: Path) -> None:
    control.inject(state, "h1", ["latency", "0.2"])
    begun = time.monotonic()
    open_host(hosts).domains.list()
    assert time.monotonic() - begun >= 0.2


def test_a_verb_is_refused_as_often_as_asked(hosts: SimHosts, state: Path) -> None:
    control.inject(state, "h1", ["refuse", "mdev_create", "EIO", "2"])
    host = open_host(hosts)
    for _ in range(2):
        with pytest.raises(HostRefused) as caught:
            make_vm(host, 1)
        assert caught.value.errno_name == "EIO"
    assert host.probe().claims == ()
    make_vm(host, 1)


def test_a_libvirt_call_is_refused(hosts: SimHosts, state: Path) -> None:
    control.inject(state, "h1", ["refuse", "domains.define", "EIO", "1"])
    with pytest.raises(HostRefused) as caught:
        make_vm(open_host(hosts), 1)
    assert caught.value.errno_name == "EIO"


NO_FAULTS = (
    ["fire"],
    [],
    ["latency"],
    ["latency", "soon"],
    ["latency", "nan"],
    ["refuse", "mdev_create", "EIO"],
    ["refuse", "mdev_create", "EWHAT", "1"],
    ["refuse", "mdev_create", "EIO", "0"],
    ["refuse", "nothing", "EIO", "1"],
    ["gpu"],
    ["gpu", T4, "burn"],
)


def test_a_fault_that_is_none_is_a_usage_error(hosts: SimHosts, state: Path) -> None:
    for words in NO_FAULTS:
        with pytest.raises(UsageError) as caught:
            control.inject(state, "h1", words)
        assert caught.value.next
    assert control.status(state).faults == {}


def test_a_reboot_is_injected(hosts: SimHosts, state: Path) -> None:
    host = open_host(hosts)
    before = host.probe().boot_id
    control.inject(state, "h1", ["reboot"])
    assert host.probe().boot_id != before


def test_a_gpu_misbehaves_until_it_is_cleared(hosts: SimHosts, state: Path) -> None:
    control.inject(state, "h1", ["gpu", T4, "client", "dcgm-exporter"])
    control.inject(state, "h2", ["gpu", T4, "lost"])
    faults = control.status(state).faults
    assert faults == {"h1": (f"gpu {T4} client dcgm-exporter",), "h2": (f"gpu {T4} lost",)}
    claim = {"allocation": "a1", "generation": 1, "vm": "vm"}
    with pytest.raises(InUse) as caught:
        open_host(hosts).helper.call("vfio_bind", {"address": T4, "with": [], "claim": claim})
    assert "open in dcgm-exporter" in caught.value.why
    with pytest.raises(NotFound, match=r"no GPU 0000:99:00\.0"):
        control.inject(state, "h1", ["gpu", "0000:99:00.0", "lost"])
    for name in ("h1", "h2"):
        control.inject(state, name, ["clear"])
    assert control.status(state).faults == {}


def test_status_names_guests_without_their_fabric_partition(state: Path, connect: Connect) -> None:
    boards = (SimBoard(board="H100-SXM5-80GB", count=8),)
    host = SimHost(name="h1", boards=boards, fabric="HGX-H100-8")
    control.up(SimFleet(name="hgx", hosts=(host,)), state)
    reached = open_host(connect())
    claim = {"allocation": "a1", "generation": 1, "vm": "vm"}
    reached.helper.call("vfio_bind", {"address": T4, "with": [], "claim": claim})
    plan = DomainPlan(
        name="vm",
        uuid=uuid_of(1),
        vcpus=1,
        memory_mib=1024,
        accelerator="kvm",
        hostdevs=(PciHostdev(address=T4),),
        ownership=Ownership(fleet="fleet", vm="vm", vm_id="vm", generation=1),
    )
    reached.domains.define(domainxml.render(plan, DEFAULT_VERSIONS))
    reached.domains.start("vm")
    assert control.status(state).without_fabric == {"h1": ("vm",)}
    alone = {"partition": 11, "gpus": [5], "claim": claim}
    reached.helper.call("fabric_activate", alone)
    assert control.status(state).without_fabric == {}


def test_a_thousand_vms_on_a_hundred_hosts(state: Path, connect: Connect) -> None:
    """Not a limit, a number to look at: run with -s."""
    boards = (SimBoard(board="T4"),)
    names = [f"h{number}" for number in range(100)]
    fleet = SimFleet(name="wide", hosts=tuple(SimHost(name=name, boards=boards) for name in names))
    control.up(fleet, state)
    hosts = connect()
    pid = control.status(state).pid
    begun, used = time.monotonic(), _cpu_s(pid)

    def fill(number: int) -> None:
        for vm in range(10):
            make_vm(open_host(hosts, names[number]), vm, number, "nvidia-230")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(fill, range(100)))
    wall, server = time.monotonic() - begun, _cpu_s(pid) - used
    print(f"\n1,000 VMs on 100 hosts: {wall:.2f} s, of which the server's CPU {server:.2f} s")
    assert control.status(state).running_domains == 1000


def _cpu_s(pid: int | None) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
