"""Quotas: kept, and held by the ledger in the transaction that would take more."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.unit.store.values import SLOTS, allocation, fleet, open_ledger, start, vm
from vgpumgr.model.errors import NotFound, QuotaExceeded, VgpumgrError
from vgpumgr.model.operation import Reservation
from vgpumgr.model.quota import Quota
from vgpumgr.model.vm import VmRecord, VmState
from vgpumgr.store import SqlLedger

GIB = 1024


def of_tenant(name: str, tenant: str = "render") -> VmRecord:
    made = vm(name)
    return replace(made, spec=replace(made.spec, tenant=tenant))


def makes(
    ledger: SqlLedger, name: str, slots: range, tenant: str = "render", mib: int = 4 * GIB
) -> Reservation:
    """A VM of a tenant with these slots of the first GPU."""
    desk = of_tenant(name, tenant)
    part = replace(allocation(desk, ledger.gpus()[0], slots), memory_mib=mib)
    return start(part, vms=[desk])


def test_a_quota_is_read_as_it_was_set_last(url: str) -> None:
    ledger = fleet(url)
    wanted = Quota(tenant="render", gpu_memory_mib=96 * GIB, profiles={"A40-8Q": 10}, weight=2.0)
    ledger.set_quota(Quota(tenant="render", vms=1))
    ledger.set_quota(wanted)
    ledger.set_quota(Quota(tenant="cad", gpus=3, reserved={"T4-4Q": 2}))
    assert ledger.quotas() == (Quota(tenant="cad", gpus=3, reserved={"T4-4Q": 2}), wanted)
    assert [each.event for each in ledger.audit(event="quota")] == ["quota.set"] * 3
    ledger.delete_quota("cad")
    assert ledger.quotas() == (wanted,)
    with pytest.raises(NotFound, match="tenant cad has no quota"):
        ledger.delete_quota("cad")


@pytest.mark.parametrize(
    ("quota", "why", "flag"),
    [
        ({"gpu_memory_mib": 7 * GIB}, "GPU memory: 4 GiB of 7 GiB used, 4 GiB asked", "8GiB"),
        ({"gpus": 1}, "GPU parts: 1 of 1 used, 1 asked", "--gpus 2"),
        ({"vcpus": 3}, "vCPUs: 2 of 3 used, 2 asked", "--vcpus 4"),
        ({"vms": 1}, "VMs: 1 of 1 used, 1 asked", "--vms 2"),
        ({"profiles": {"T4-4Q": 1}}, "T4-4Q: 1 of 1 used, 1 asked", "--profile T4-4Q=2"),
    ],
)
def test_what_would_go_beyond_a_quota_writes_nothing(
    url: str, quota: dict[str, object], why: str, flag: str
) -> None:
    ledger = fleet(url)
    ledger.set_quota(Quota(tenant="render", **quota))  # type: ignore[arg-type]
    ledger.reserve(makes(ledger, "a", range(4)))
    with pytest.raises(QuotaExceeded) as caught:
        ledger.reserve(makes(ledger, "b", range(4, 8)))
    assert caught.value.why == f"tenant render: {why}"
    assert flag in caught.value.next
    assert (caught.value.code, caught.value.exit_status) == ("quota-exceeded", 5)
    assert [each.name for each in ledger.vms()] == ["a"]
    ledger.reserve(makes(ledger, "c", range(4, 8), tenant="cad"))


def test_what_is_held_beyond_a_lowered_quota_stays_and_may_shrink(url: str) -> None:
    ledger = fleet(url)
    ledger.reserve(makes(ledger, "a", range(4)))
    ledger.reserve(makes(ledger, "b", range(4, 8)))
    ledger.set_quota(Quota(tenant="render", gpus=0, vcpus=1))
    [a, b] = ledger.vms()
    ledger.reserve(start(changed_vms=(replace(a, state=VmState.DELETING),)))
    grown = replace(b, generation=b.generation + 1, spec=replace(b.spec, vcpus=8))
    with pytest.raises(QuotaExceeded, match="quota of tenant render") as caught:
        ledger.reserve(start(changed_vms=(grown,)))
    assert caught.value.why == "tenant render: vCPUs: 4 of 1 used, 6 asked"


def test_a_part_made_before_its_memory_was_kept_counts_by_its_share_of_the_gpu(url: str) -> None:
    ledger = fleet(url)
    ledger.set_quota(Quota(tenant="render", gpu_memory_mib=8 * GIB))
    made = makes(ledger, "a", range(4))
    ledger.reserve(replace(made, allocations=(replace(made.allocations[0], memory_mib=None),)))
    with pytest.raises(QuotaExceeded) as caught:
        ledger.reserve(makes(ledger, "b", range(4, SLOTS)))
    assert "7.5 GiB of 8 GiB used" in caught.value.why


def test_two_at_once_never_hold_more_than_the_quota(url: str) -> None:
    """Each alone would fit, and they take different slots: only the quota is between them."""
    ledgers = [fleet(url), open_ledger(url)]
    ledgers[0].set_quota(Quota(tenant="render", gpu_memory_mib=4 * GIB))
    plans = [makes(ledgers[0], f"vm-{n}", range(n * 4, n * 4 + 4)) for n in range(2)]
    meeting, ends = threading.Barrier(2), []

    def reserve(ledger: SqlLedger, plan: Reservation) -> None:
        meeting.wait()
        try:
            ledger.reserve(plan)
        except VgpumgrError as error:
            ends.append(error.code)
        else:
            ends.append("won")

    threads = [
        threading.Thread(target=reserve, args=each) for each in zip(ledgers, plans, strict=True)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(ends) == ["quota-exceeded", "won"]
    assert len(ledgers[0].allocations()) == 1
