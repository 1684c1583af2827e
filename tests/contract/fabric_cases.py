"""NVSwitch partitions under Fabric Manager (§16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.contract.bench import Bench, Cases, claim
from vgpumgr.model.errors import Conflict, HostRefused, InUse, NotFound
from vgpumgr.model.host import FabricPartitionFacts

IN_USE, UNINITIALIZED, BAD_PARAMETER, NOT_CONFIGURED = -7, -4, -1, -8
NO_PARTITION = 63


@dataclass(frozen=True, kw_only=True)
class FabricBench(Bench):
    """A host with an NVSwitch board, no partition of it active."""

    def partitions(self) -> tuple[FabricPartitionFacts, ...]:
        fabric = self.host.probe().fabric
        assert fabric is not None
        return fabric.partitions

    def of(self, count: int) -> FabricPartitionFacts:
        """The first partition of so many GPUs."""
        return next(each for each in self.partitions() if len(each.gpus) == count)

    def active(self) -> set[int]:
        return {each.id for each in self.partitions() if each.active}

    def activate(self, number: int, gpus: Sequence[int], owner: str = "one") -> dict[str, object]:
        args = {"partition": number, "gpus": list(gpus)}
        return self.call("fabric_activate", **args, claim=claim(owner))

    def deactivate(self, number: int, owner: str = "one") -> dict[str, object]:
        return self.call("fabric_deactivate", partition=number, claim=claim(owner))

    def by_hand(self, option: str, number: int) -> int:
        """``fmpm``'s code."""
        status = self.machine.run("fmpm", option, str(number))[0]
        return status - 256 if status > 128 else status


CASES = Cases[FabricBench]()
REBOOT_CASES = Cases[FabricBench]()
# From H100 on: only NVML tells which GPU Fabric Manager means.
MODULE_ID_CASES = Cases[FabricBench]()


@CASES.case("16.8")
def a_partition_is_activated_and_deactivated(bench: FabricBench) -> None:
    pair = bench.of(2)
    assert bench.activate(pair.id, pair.gpus) == {"active": True}
    assert bench.activate(pair.id, pair.gpus) == {"active": True}
    assert bench.active() == {pair.id}
    assert f"fabric-{pair.id}" in [each.unit for each in bench.host.probe().claims]
    assert bench.deactivate(pair.id) == bench.deactivate(pair.id) == {"active": False}
    assert bench.active() == set()


@CASES.case("16.9")
def partitions_that_share_a_gpu_exclude_each_other(bench: FabricBench) -> None:
    pair = bench.of(2)
    bench.activate(pair.id, pair.gpus)
    for other in bench.partitions():
        if other.id == pair.id:
            continue
        if set(other.gpus) & set(pair.gpus):
            assert bench.by_hand("-a", other.id) == IN_USE
            with pytest.raises(InUse):
                bench.activate(other.id, other.gpus, owner="two")
            assert bench.active() == {pair.id}
        else:
            bench.activate(other.id, other.gpus, owner="two")
            bench.deactivate(other.id, owner="two")
    assert [each.unit for each in bench.host.probe().claims] == [f"fabric-{pair.id}"]
    bench.deactivate(pair.id)


@CASES.case("16.10")
def fabric_manager_refuses_what_makes_no_sense(bench: FabricBench) -> None:
    pair = bench.of(2)
    assert bench.by_hand("-d", pair.id) == UNINITIALIZED
    assert bench.by_hand("-a", NO_PARTITION) == BAD_PARAMETER
    assert bench.by_hand("-a", pair.id) == 0
    assert bench.by_hand("-a", pair.id) == IN_USE
    assert bench.by_hand("-d", pair.id) == 0


@CASES.case("16.11")
def a_partition_is_these_gpus_and_no_others(bench: FabricBench) -> None:
    pair = bench.of(2)
    wrong = (pair.gpus[0], next(n for n in range(1, 9) if n not in pair.gpus))
    for gpus in (wrong, pair.gpus[:1]):
        with pytest.raises(HostRefused, match="other GPUs"):
            bench.activate(pair.id, gpus)
    with pytest.raises(NotFound):
        bench.activate(NO_PARTITION, pair.gpus)
    assert (bench.active(), bench.host.probe().claims) == (set(), ())


@CASES.case()
def a_partition_is_deactivated_only_under_its_claim(bench: FabricBench) -> None:
    pair = bench.of(2)
    bench.activate(pair.id, pair.gpus)
    with pytest.raises(Conflict):
        bench.deactivate(pair.id, owner="two")
    with pytest.raises(Conflict):
        bench.activate(pair.id, pair.gpus, owner="two")
    assert bench.active() == {pair.id}
    bench.deactivate(pair.id)


@CASES.case()
def a_foreign_partition_is_left_alone(bench: FabricBench) -> None:
    pair = bench.of(2)
    assert bench.by_hand("-a", pair.id) == 0
    with pytest.raises(InUse):
        bench.activate(pair.id, pair.gpus)
    with pytest.raises(Conflict):
        bench.deactivate(pair.id)
    assert bench.active() == {pair.id}
    assert bench.by_hand("-d", pair.id) == 0


@CASES.case("16.12")
def gpus_are_ready_once_their_partition_is_active(bench: FabricBench) -> None:
    pair = bench.of(2)
    bench.activate(pair.id, pair.gpus)
    for gpu in bench.host.probe().gpus:
        wanted = "completed" if gpu.module_id in pair.gpus else "in-progress"
        assert gpu.fabric_state == wanted
    bench.deactivate(pair.id)


@MODULE_ID_CASES.case("16.13")
def a_module_id_is_not_read_while_the_gpu_is_on_vfio(bench: FabricBench) -> None:
    first = bench.host.probe().gpus[0]
    assert first.module_id is not None
    bench.bind(first.device)
    assert bench.facts(first.device).module_id is None
    bench.unbind(first.device)
    assert bench.facts(first.device).module_id == first.module_id


@REBOOT_CASES.case("16.14")
def a_boot_deactivates_all_and_fabric_manager_takes_a_while(bench: FabricBench) -> None:
    pair = bench.of(2)
    bench.activate(pair.id, pair.gpus)
    bench.may_suffer.reboot()
    assert bench.by_hand("-a", pair.id) == NOT_CONFIGURED
    assert bench.call("restore") == {"restored": [f"fabric-{pair.id}"], "failed": []}
    assert bench.active() == {pair.id}
