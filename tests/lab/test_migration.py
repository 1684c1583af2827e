"""VMs between two real hosts: running with device and disk, and off; and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.bench import Case, state
from tests.contract.move_bench import Mdevs, MoveBench
from tests.contract.move_cases import CASES, DEVICE_CASES, DISK_CASES, WHOLE_CASES
from tests.lab import fleet, moving
from tests.lab.labhost import ANSWER_S, CONNECT_S, LabHost, Vgpumgr
from tests.lab.moving import VM, Two, device, goes_on, number, until_done
from vgpumgr.hosts import real_hosts
from vgpumgr.hosts.real_hosts import RealHosts
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

FAILED, CONFLICT = 1, 4
DISPLAY_MODEL = "1234:1111"
DISPLAY = "0000:01:00.0"
CERTIFICATE = "/etc/pki/qemu/server-cert.pem"


@pytest.fixture(scope="module")
def pair(both: Vgpumgr, lab: LabHost, lab2: LabHost) -> Iterator[Two]:
    """Both hosts take running VMs on the private link."""
    with moving.taking_vms(both, lab, lab2) as made:
        yield made


@pytest.fixture
def two(pair: Two) -> Iterator[Two]:
    """After each test the hosts are as before."""
    before = [host.dump() for host in pair.hosts]
    yield pair
    pair.vgpumgr.delete_all()
    after = [host.settled(was) for host, was in zip(pair.hosts, before, strict=True)]
    assert after == before


def test_a_running_vm_goes_over_with_its_device_and_disk_and_comes_home(two: Two) -> None:
    here, there = two.create("mtty-1", autostart=True)
    plan = two.vgpumgr("vm", "migrate", VM, "--to", there.name, "--dry-run", "-o", "json").json
    (disk,) = plan["disks"]
    assert (plan["live"], plan["possible"], disk["copied"]) == (True, True, True)
    assert disk["size_bytes"] == moving.IMAGE_BYTES
    said = two.vgpumgr("vm", "migrate", VM, "--to", there.name, "--dry-run").out
    assert f"{disk['name']} is copied to {there.name}: 16 MiB" in said

    counted = number(here)
    for source, target in ((here, there), (there, here)):
        before = device(source)
        two.move(target)
        counted = goes_on(target, counted)
        two.is_alone_on(target)
        (part,) = two.shown()["gpus"]
        assert part["device"] == device(target) != before
        assert part["device"] in target.virsh("dumpxml --inactive", VM)
        assert "enable" in target.virsh(f"dominfo {VM} | grep Autostart")


def test_a_vm_with_a_whole_gpu_stays_while_it_runs_and_moves_cold(two: Two) -> None:
    whole = [{"profile": "passthrough", "model": DISPLAY_MODEL}]
    here, there = two.create(gpus=whole)
    counted = number(here)
    said = two.move(there, code=CONFLICT)
    assert "cannot move while desk runs" in said
    assert "--cold" in said
    goes_on(here, counted)
    two.is_alone_on(here)

    two.move(there, "--cold")
    assert there.virsh("domstate", VM) == "running"
    assert number(there) >= 0
    two.is_alone_on(there)


def test_a_vm_that_is_off_moves_and_stays_off(two: Two) -> None:
    here, there = two.create("mtty-2")
    two.vgpumgr("vm", "stop", VM)
    assert here.virsh("domstate", VM) == "shut off"
    two.move(there)
    assert there.virsh("domstate", VM) == "shut off"
    two.is_alone_on(there)
    two.vgpumgr("vm", "start", VM)
    assert number(there) >= 0


def test_a_device_whose_driver_cannot_migrate_keeps_the_vm(two: Two) -> None:
    here, there = two.create("lab-701")
    counted, before = number(here), device(here)
    assert "migrat" in two.move(there, code=FAILED)
    goes_on(here, counted)
    assert device(here) == before
    two.is_alone_on(here)


def test_without_the_targets_certificate_nothing_goes_over_and_the_vm_runs_on(two: Two) -> None:
    here, there = two.create("mtty-1")
    counted = number(here)
    there.root(f"mv {CERTIFICATE} {CERTIFICATE}.away")
    try:
        said = two.move(there, code=FAILED)
    finally:
        there.root(f"mv {CERTIFICATE}.away {CERTIFICATE}")
    assert "certificate" in said or "credentials" in said
    goes_on(here, counted)
    two.is_alone_on(here)


@pytest.mark.parametrize("by", ["resume", "the same command"])
def test_a_move_whose_command_is_killed_ends_with_one_that_runs(two: Two, by: str) -> None:
    here, there = two.create("mtty-1")
    counted = number(here)
    migrate = ("vm", "migrate", VM, "--to", there.name)
    two.takes(there, "--bandwidth", "1MiB")
    try:
        with two.vgpumgr.begin(*migrate) as process:
            assert process.stderr is not None
            told = next((line for line in process.stderr if " left" in line), "")
            process.kill()
        assert told, "it ended without a word of how far it is"
    finally:
        two.takes(there)
    (operation,) = two.open_operations()
    until_done(two.vgpumgr, *(migrate if by != "resume" else ("operation", "resume", operation)))
    goes_on(there, counted)
    two.is_alone_on(there)


# -- through the ports


@pytest.fixture(scope="module")
def bench(pair: Two) -> Iterator[MoveBench]:
    real = RealHosts(
        ssh_config=fleet.FLEET / "ssh_config",
        own_key=fleet.FLEET / "state/keys/id_ed25519",
        identity=lambda: ("contract", 1),
        connect_timeout_s=CONNECT_S,
        call_timeout_s=ANSWER_S,
    )
    source, target = (_opened(real, host) for host in pair.hosts)
    to, back = (MigrationAddress(address=host.ip) for host in reversed(pair.hosts))
    yield MoveBench(
        source=source, target=target, to=to, back=back, kind=Mdevs("mtty", "mtty-1"), whole=DISPLAY
    )
    real.close()


def _opened(real: RealHosts, host: LabHost) -> Host:
    record = HostRecord(name=host.name, address=host.enrolled_address)
    return real.open(real_hosts.pin_host_key(real, record, host.fingerprint, _nobody_asks))


def _nobody_asks(name: str, key: str) -> None:
    raise AssertionError(f"{name} showed {key}, which nobody pinned")


def cases() -> list[Any]:
    lists = (CASES, DEVICE_CASES, WHOLE_CASES, DISK_CASES)
    return [pytest.param(case, id=case.__name__) for each in lists for case in each]


@pytest.mark.parametrize("case", cases())
def test_the_contract(bench: MoveBench, case: Case[MoveBench]) -> None:
    hosts = (bench.source, bench.target)
    before = [state(each.probe()) for each in hosts]
    case(bench)
    assert [state(each.probe()) for each in hosts] == before, "the case left something behind"
