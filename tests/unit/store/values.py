"""Small values for the tests of the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from vgpumgr.model.allocation import Allocation, AllocationState
from vgpumgr.model.gpu import GpuFacts, GpuRecord, MdevType
from vgpumgr.model.history import RequestOutcome, RequestRecord
from vgpumgr.model.host import HostFacts, HostRecord, Versions
from vgpumgr.model.operation import (
    OperationRecord,
    OperationState,
    Reservation,
    StepRecord,
    TaskMoved,
    TaskRecord,
    TaskState,
)
from vgpumgr.model.placement import Explanation, Reason
from vgpumgr.model.vm import GpuRequest, VmRecord, VmSpec, VmState
from vgpumgr.store import SqlLedger
from vgpumgr.store import open_ledger as open_for_good

SLOTS = 8
_numbers = count(1)


def gpu(device: str = "0000:41:00.0", **fields: object) -> GpuFacts:
    """A T4 as NVML and sysfs show it."""
    values: dict[str, object] = {
        "device": device,
        "path": f"/sys/devices/pci0000:40/{device}",
        "model": "Tesla T4",
        "vendor_device": "10de:1eb8",
        "uuid": f"GPU-{device}",
        "serial": f"S-{device}",
        "memory_mib": 15360,
        "mdev_types": (MdevType(type_id="nvidia-232", name="GRID T4-4Q", available=4),),
        "type_units": {"nvidia-232": 4},
    }
    return GpuFacts(**(values | fields))  # type: ignore[arg-type]


def facts(host: str = "h1", *gpus: GpuFacts, **fields: object) -> HostFacts:
    """A host that shows these GPUs."""
    values: dict[str, object] = {
        "host": host,
        "boot_id": "b1",
        "hostname": host,
        "versions": Versions(libvirt="9.0.0", qemu="7.2.0"),
        "cpus": 16,
        "memory_mib": 64000,
        "iommu": True,
        "kvm": True,
        "gpus": gpus,
    }
    return HostFacts(**(values | fields))  # type: ignore[arg-type]


_opened: list[SqlLedger] = []


def open_ledger(url: str | Path, **options: Any) -> SqlLedger:
    """A ledger that is closed when its test is over."""
    _opened.append(open_for_good(url, **options))
    return _opened[-1]


def close_all() -> None:
    """Close every ledger that a test opened."""
    while _opened:
        _opened.pop().close()


def fleet(url: str | Path, hosts: Iterable[str] = ("h1",), gpus: int = 1) -> SqlLedger:
    """A ledger with hosts enrolled and observed; GPU n of a host sits at 0000:4n:00.0."""
    ledger = open_ledger(url)
    for host in hosts:
        ledger.add_host(HostRecord(name=host, address=f"root@{host}"))
        see(ledger, host, *(board(host, number) for number in range(1, gpus + 1)))
    return ledger


def board(host: str, number: int, **fields: object) -> GpuFacts:
    """GPU ``number`` of a host, with evidence that no other GPU has."""
    values = {
        "device": f"0000:4{number}:00.0",
        "uuid": f"GPU-{host}-{number}",
        "serial": f"S-{host}-{number}",
    }
    return gpu(**(values | fields))  # type: ignore[arg-type]


def see(ledger: SqlLedger, host: str, *gpus: GpuFacts, **fields: object) -> None:
    """Observe a host that shows these GPUs."""
    ledger.observe(facts(host, *gpus, **fields), {each.device: SLOTS for each in gpus}, 100.0)


def vm(name: str, host: str = "h1", **fields: object) -> VmRecord:
    """A VM that was just placed."""
    spec = VmSpec(name=name, vcpus=2, memory_mib=2048, gpus=(GpuRequest(profile="T4-4Q"),))
    values: dict[str, object] = {
        "id": f"vm-{next(_numbers)}",
        "spec": spec,
        "host": host,
        "state": VmState.RESERVED,
        "running": True,
        "generation": 1,
        "volumes": (("default", f"{name}.qcow2"),),
        "created_at": 50.0,
    }
    return VmRecord(**(values | fields))  # type: ignore[arg-type]


def allocation(
    owner: VmRecord, on: GpuRecord, slots: Iterable[int], device: str = ""
) -> Allocation:
    """Units of a GPU for a VM."""
    id_ = f"a-{next(_numbers)}"
    return Allocation(
        id=id_,
        vm_id=owner.id,
        vm=owner.name,
        host=on.host,
        gpu=on.id,
        profile="T4-4Q",
        framework="mdev",
        device=device or id_,
        slots=tuple(slots),
        type_id="nvidia-232",
        parent=on.facts.device,
        companions=("0000:41:00.1",),
        created_at=60.0,
    )


def start(*allocations: Allocation, vms: Iterable[VmRecord] = (), **fields: object) -> Reservation:
    """An operation that makes these VMs, one task of two steps each."""
    vms = tuple(vms)
    id_ = f"op-{next(_numbers):04}"
    values: dict[str, object] = {
        "operation": OperationRecord(
            id=id_, kind="apply", state=OperationState.RUNNING, epoch=1, started_at=70.0
        ),
        "tasks": tuple(task(each, id_) for each in vms),
        "vms": vms,
        "allocations": allocations,
    }
    return Reservation(**(values | fields))  # type: ignore[arg-type]


def task(owner: VmRecord, operation: str, verb: str = "create", steps: int = 2) -> TaskRecord:
    """A task with steps that do nothing."""
    return TaskRecord(
        id=f"t-{next(_numbers)}",
        operation=operation,
        vm_id=owner.id,
        vm=owner.name,
        host=owner.host,
        verb=verb,
        steps=tuple(
            StepRecord(seq=seq, kind="nothing", args={"name": owner.name, "nested": {"a": [1]}})
            for seq in range(steps)
        ),
    )


def end(ledger: SqlLedger, made: Reservation) -> None:
    """Every task of the reservation is undone; its VMs are deleted."""
    for each in made.tasks:
        ledger.record(
            TaskMoved(task=each.id, state=TaskState.UNDOING),
            TaskMoved(
                task=each.id,
                state=TaskState.UNDONE,
                vm_id=each.vm_id,
                vm_state=VmState.DELETED,
                vm_running=False,
                allocations=AllocationState.RELEASED,
            ),
        )


def refused(name: str, *, at: float = 1.0, text: str = "r") -> RequestRecord:
    """A request that fitted nowhere."""
    said = Explanation(vm=name, host=None, reasons=(Reason(code="vcpus", host="h1", text=text),))
    spec = VmSpec(name=name, vcpus=2, memory_mib=2048)
    return RequestRecord(vm=name, at=at, answer=RequestOutcome.REFUSED, spec=spec, explanation=said)
