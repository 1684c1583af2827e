"""Hosts in the ledger: enrolled once, changed by compare-and-swap, removed when empty."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.store.values import allocation, board, fleet, open_ledger, see, start, vm
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.errors import Conflict, NotFound, StaleGeneration
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.host import HostRecord
from vgpumgr.model.operation import TaskMoved, TaskState
from vgpumgr.model.vm import VmState


def record(name: str, **fields: object) -> HostRecord:
    return HostRecord(**({"name": name, "address": f"root@{name}"} | fields))  # type: ignore[arg-type]


def test_every_field_an_operator_sets_comes_back(url: str) -> None:
    given = record(
        "h1",
        host_key="SHA256:x",
        cordoned=True,
        labels={"rack": "a"},
        cpu_overcommit=1.5,
        reserved_memory_mib=4096,
        accelerator="tcg",
        probe_only=True,
    )
    ledger = open_ledger(url)
    ledger.add_host(given)
    assert ledger.host("h1") == given
    ledger.close()


def test_hosts_are_listed_by_name(url: str) -> None:
    ledger = open_ledger(url)
    for name in ("b", "c", "a"):
        ledger.add_host(record(name))
    assert [host.name for host in ledger.hosts()] == ["a", "b", "c"]
    ledger.close()


def test_namesakes_bear_the_name_or_the_address_and_are_enrolled(url: str) -> None:
    ledger = open_ledger(url)
    for name in ("c", "b", "a", "gone"):
        ledger.add_host(record(name))
    ledger.remove_host("gone")
    found = ledger.namesakes("c", "root@a")
    assert found == (ledger.host("a"), ledger.host("c"))
    assert ledger.namesakes("gone", "root@gone") == ()
    ledger.close()


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (record("h1", address="root@elsewhere"), "host h1 is already enrolled"),
        (record("h2", address="root@h1"), "root@h1 is already enrolled"),
    ],
)
def test_a_name_or_address_is_enrolled_once(url: str, second: HostRecord, says: str) -> None:
    ledger = open_ledger(url)
    ledger.add_host(record("h1"))
    with pytest.raises(Conflict, match=says) as caught:
        ledger.add_host(second)
    assert "vgpumgr host show h1" in caught.value.next
    assert len(ledger.hosts()) == 1
    ledger.close()


def test_an_update_keeps_what_was_observed_and_raises_the_generation(url: str) -> None:
    ledger = fleet(url)
    before = ledger.host("h1")
    ledger.update_host(replace(before, cordoned=True, facts=None, address="admin@h1"))
    after = ledger.host("h1")
    assert after == replace(
        before, cordoned=True, address="admin@h1", generation=before.generation + 1
    )
    assert after.facts is not None
    ledger.close()


def test_of_two_updates_from_one_reading_the_second_is_refused(url: str) -> None:
    ledger = fleet(url)
    read = ledger.host("h1")
    ledger.update_host(replace(read, cordoned=True))
    with pytest.raises(StaleGeneration):
        ledger.update_host(replace(read, cpu_overcommit=9.0))
    assert ledger.host("h1").cpu_overcommit == read.cpu_overcommit
    ledger.close()


def test_an_update_cannot_take_another_hosts_address(url: str) -> None:
    ledger = fleet(url, ["h1", "h2"])
    with pytest.raises(Conflict, match="root@h2 is already enrolled"):
        ledger.update_host(replace(ledger.host("h1"), address="root@h2"))
    ledger.close()


def test_a_misspelt_host_gets_a_suggestion_and_a_strange_one_the_list(url: str) -> None:
    ledger = fleet(url, ["gpu-rack-1", "gpu-rack-2"])
    for call in (ledger.host, ledger.remove_host, lambda n: ledger.observation_failed(n, "e")):
        with pytest.raises(NotFound) as caught:
            call("gpu-rak-1")
        assert "gpu-rack-1" in caught.value.why
        assert caught.value.next == "vgpumgr host show gpu-rack-1"
    with pytest.raises(NotFound) as caught:
        ledger.host("zzz")
    assert caught.value.next == "vgpumgr host list"
    ledger.close()


def test_a_failed_observation_is_remembered_and_changes_nothing_else(url: str) -> None:
    ledger = fleet(url)
    before = ledger.host("h1")
    ledger.observation_failed("h1", "no route to host \udcff\0")
    assert ledger.host("h1") == replace(before, last_error="no route to host ??")
    see(ledger, "h1", board("h1", 1))
    assert ledger.host("h1").last_error == ""
    ledger.close()


def test_a_host_with_an_allocation_or_a_vm_stays(url: str) -> None:
    ledger = fleet(url)
    [gpu] = ledger.gpus()
    desk, plain = vm("desk"), vm("plain")
    made = start(allocation(desk, gpu, [0]), vms=[desk, plain])
    ledger.reserve(made)
    with pytest.raises(Conflict, match="h1 is in use") as caught:
        ledger.remove_host("h1")
    assert caught.value.why == "2 VMs and 1 allocations are on it"
    for task in made.tasks:
        ledger.record(
            TaskMoved(task=task.id, state=TaskState.UNDOING),
            TaskMoved(
                task=task.id,
                state=TaskState.UNDONE,
                vm_id=task.vm_id,
                vm_state=VmState.DELETED,
                allocations=AllocationState.RELEASED,
            ),
        )
    ledger.remove_host("h1")
    assert ledger.hosts() == ledger.gpus() == ()
    assert len(ledger.allocations(released=True)) == 1
    ledger.close()


def test_a_removed_hosts_name_is_free_and_its_gpus_are_known_again(url: str) -> None:
    ledger = fleet(url)
    [before] = ledger.gpus()
    ledger.remove_host("h1")
    ledger.add_host(record("h2", address="root@h1"))
    see(ledger, "h2", board("h1", 1))
    [after] = ledger.gpus()
    assert (after.id, after.host, after.state) == (before.id, "h2", GpuState.HEALTHY)
    ledger.add_host(record("h1", address="root@new"))
    ledger.close()
