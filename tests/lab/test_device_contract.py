"""The cases that a simulated host passes, on real kernel devices (docs/lab.md).

Not for the lab, because NVIDIA's own driver alone answers: ``sriov.NVIDIA_CASES`` and
``NVIDIA_FAULT_CASES`` (sriov-manage, unbindLock), ``passthrough.CLIENT_CASES`` (device nodes that
programs hold), ``vgpu`` and ``admission`` (frame buffer, series, log lines of the resource
manager), all of MIG, mixed-size mode and NVML. ``plain_vf.GIM_CASES`` want AMD's driver,
``fabric`` wants NVSwitches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract import (
    mdev_cases,
    mdev_core_cases,
    passthrough_cases,
    plain_vf_cases,
    sriov_cases,
    vendor_vf_cases,
)
from tests.contract.bench import Bench, Case, Cases, state
from tests.contract.mdev_bench import MdevBench
from tests.contract.passthrough_cases import PassthroughBench
from tests.contract.plain_vf_cases import PlainVfBench
from tests.contract.sriov_cases import SriovBench
from tests.contract.vendor_vf_bench import VendorVfBench
from tests.lab.labhost import LabHost
from tests.lab.labmachine import LabFaults, LabMachine
from vgpumgr.model.ports import Host

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

DISPLAY, MDEV_DISPLAY = "0000:01:00.0", "0000:03:00.0"
PLAIN_PF, VENDOR_PF = "0000:04:00.0", "0000:05:00.0"
TOTAL, COUNT = 7, 4
BOOT_UNIT = "vgpumgr-restore.service"


@dataclass(frozen=True)
class Parent:
    """Types of an mdev parent; ``bounded``: one whole pass belongs to every CI run."""

    large: str
    small: str
    bounded: bool = False


PARENTS = {
    "mbochs": Parent("mbochs-large", "mbochs-small"),
    "mtty": Parent("mtty-2", "mtty-1"),
    MDEV_DISPLAY: Parent("lab-704", "lab-701", bounded=True),
}
# One of each kind of device that a VM gets, and each kind of refusal, in three minutes.
BOUNDED = {
    "a_function_is_bound_seen_and_given_back",
    "a_function_that_a_vm_holds_is_in_use",
    "a_type_is_written_and_0_destroys_it",
    "a_vf_is_bound_by_its_address_and_given_back",
    "a_vgpu_is_made_seen_and_released",
    "a_vgpu_that_a_vm_has_open_is_not_destroyed",
    "an_mdev_that_a_vm_holds_is_in_use",
    "one_mdev_lowers_what_is_left_of_every_type",
    "vfs_lie_where_offset_and_stride_say",
    "what_is_no_type_is_refused",
}


def cases(*lists: Cases[Any], bounded: bool = True) -> list[Any]:
    """Parameters, with the mark of the CI run."""
    return [
        pytest.param(case, id=case.__name__, marks=_marks(case, bounded=bounded))
        for each in lists
        for case in each
    ]


def _marks(case: Case[Any], *, bounded: bool) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.bounded,) if bounded and case.__name__ in BOUNDED else ()


def on_parents(*lists: Cases[Any]) -> list[Any]:
    return [
        pytest.param(name, *each.values, id=f"{each.id}-{name}", marks=each.marks)
        for name, parent in PARENTS.items()
        for each in cases(*lists, bounded=parent.bounded)
    ]


@pytest.mark.parametrize(("parent", "case"), on_parents(mdev_core_cases.CASES, mdev_cases.CASES))
def test_mediated_devices(case: Case[MdevBench], parent: str, lab: LabHost, lab_host: Host) -> None:
    run(case, mdev_bench(parent, lab, lab_host))


@pytest.mark.parametrize("case", cases(passthrough_cases.CASES, passthrough_cases.RESET_CASES))
def test_whole_functions(case: Case[PassthroughBench], lab: LabHost, lab_host: Host) -> None:
    run(case, PassthroughBench(host=lab_host, machine=LabMachine(lab), gpu=DISPLAY))


@pytest.mark.parametrize("case", cases(sriov_cases.CASES, sriov_cases.NUMVFS_CASES))
def test_physical_functions(case: Case[SriovBench], lab: LabHost, lab_host: Host) -> None:
    turn(lab_host, PLAIN_PF, 0)
    run(case, sriov_bench(lab, lab_host))


@pytest.mark.parametrize("case", cases(plain_vf_cases.CASES, plain_vf_cases.NUMVFS_CASES))
def test_plain_vfs(case: Case[PlainVfBench], lab: LabHost, lab_host: Host) -> None:
    run(case, plain_vf_bench(turn(lab_host, PLAIN_PF, COUNT), lab, lab_host))


@pytest.mark.parametrize("case", cases(vendor_vf_cases.CASES))
def test_vendor_vfs(case: Case[VendorVfBench], lab: LabHost, lab_host: Host) -> None:
    run(case, vendor_vf_bench(turn(lab_host, VENDOR_PF, TOTAL), lab, lab_host))


@pytest.fixture
def nothing_restored(lab: LabHost) -> Iterator[None]:
    """The cases restore by themselves: the boot unit, where there is one, keeps out of it."""
    asked = f"systemctl is-enabled {BOOT_UNIT} 2>/dev/null; true"
    enabled = lab.root(asked) == "enabled"
    if enabled:
        lab.root(f"systemctl --quiet disable {BOOT_UNIT}")
    yield
    if enabled:
        lab.root(f"systemctl --quiet enable {BOOT_UNIT}")


@pytest.mark.reboot
@pytest.mark.usefixtures("nothing_restored")
@pytest.mark.parametrize("parent", PARENTS)
@pytest.mark.parametrize("case", cases(mdev_cases.REBOOT_CASES))
def test_mediated_devices_after_a_boot(
    case: Case[MdevBench], parent: str, lab: LabHost, lab_host: Host
) -> None:
    boot(case, mdev_bench(parent, lab, lab_host))


@pytest.mark.reboot
@pytest.mark.usefixtures("nothing_restored")
@pytest.mark.parametrize("case", cases(sriov_cases.REBOOT_CASES))
def test_physical_functions_after_a_boot(
    case: Case[SriovBench], lab: LabHost, lab_host: Host
) -> None:
    boot(case, sriov_bench(lab, lab_host))
    turn(lab_host, PLAIN_PF, 0)


@pytest.mark.reboot
@pytest.mark.usefixtures("nothing_restored")
@pytest.mark.parametrize("case", cases(plain_vf_cases.NUMVFS_REBOOT_CASES))
def test_plain_vfs_after_a_boot(case: Case[PlainVfBench], lab: LabHost, lab_host: Host) -> None:
    vfs = turn(lab_host, PLAIN_PF, COUNT)
    boot(case, plain_vf_bench(vfs, lab, lab_host))
    turn(lab_host, PLAIN_PF, 0)


@pytest.mark.reboot
@pytest.mark.usefixtures("nothing_restored")
@pytest.mark.parametrize("case", cases(vendor_vf_cases.REBOOT_CASES))
def test_vendor_vfs_after_a_boot(case: Case[VendorVfBench], lab: LabHost, lab_host: Host) -> None:
    vfs = turn(lab_host, VENDOR_PF, TOTAL)
    boot(case, vendor_vf_bench(vfs, lab, lab_host))
    turn(lab_host, VENDOR_PF, 0)


def mdev_bench(parent: str, lab: LabHost, host: Host) -> MdevBench:
    elsewhere = next(each for each in PARENTS if each != parent)
    return MdevBench(
        host=host,
        machine=LabMachine(lab),
        faults=LabFaults(lab, host),
        parent=parent,
        type_id=PARENTS[parent].large,
        other_type=PARENTS[parent].small,
        elsewhere=(elsewhere, PARENTS[elsewhere].small),
        full="ENOSPC",
    )


def sriov_bench(lab: LabHost, host: Host) -> SriovBench:
    return SriovBench(
        host=host,
        machine=LabMachine(lab),
        faults=LabFaults(lab, host),
        pf=PLAIN_PF,
        total=TOTAL,
        count=COUNT,
    )


def plain_vf_bench(vfs: tuple[str, ...], lab: LabHost, host: Host) -> PlainVfBench:
    return PlainVfBench(
        host=host, machine=LabMachine(lab), faults=LabFaults(lab, host), pf=PLAIN_PF, vfs=vfs
    )


def vendor_vf_bench(vfs: tuple[str, ...], lab: LabHost, host: Host) -> VendorVfBench:
    """Types of 2, 4 and 16 GiB; the card has 16."""
    return VendorVfBench(
        host=host,
        machine=LabMachine(lab),
        faults=LabFaults(lab, host),
        pf=VENDOR_PF,
        vfs=vfs[:4],
        type_id=802,
        other_type=803,
        full=805,
    )


def turn(host: Host, pf: str, count: int) -> tuple[str, ...]:
    """So many VFs on; their addresses."""
    vfs = host.helper.call("vfs_set", {"gpu": pf, "count": count})["vfs"]
    assert isinstance(vfs, list)
    return tuple(vfs)


@pytest.fixture(scope="module", autouse=True)
def layouts_aside(lab: LabHost) -> Iterator[None]:
    """The cases speak of a host that keeps no layout; the fleet's own are back afterwards."""
    kept = "/var/lib/vgpumgr/claims"
    lab.root(f"mkdir -p {kept}.aside; mv -f {kept}/layout-* {kept}.aside/ 2>/dev/null; true")
    yield
    lab.root(f"mv -f {kept}.aside/layout-* {kept}/ 2>/dev/null; rmdir {kept}.aside")


@pytest.fixture(scope="module", autouse=True)
def vfs_off_at_the_end(lab_host: Host) -> Iterator[None]:
    yield
    for pf in (PLAIN_PF, VENDOR_PF):
        turn(lab_host, pf, 0)


def run(case: Case[Any], bench: Bench) -> None:
    """The host is afterwards as it was; what a failed case left is taken away."""
    before = state(bench.host.probe())
    try:
        case(bench)
    finally:
        left = state(bench.host.probe())
        bench.clean()
    assert left == before, "the case left something behind"


def boot(case: Case[Any], bench: Bench) -> None:
    """What the case leaves claimed is taken away."""
    try:
        case(bench)
    finally:
        bench.clean()
