"""Mediated devices of any vendor as the helper makes and removes them (§2, §3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.bench import Cases, new_uuid
from tests.contract.mdev_bench import MdevBench
from vgpumgr.model.domain import MdevHostdev
from vgpumgr.model.errors import Conflict, HostRefused, InUse, NotFound

CASES = Cases[MdevBench]()
# For parents that are there at once after a boot.
REBOOT_CASES = Cases[MdevBench]()


@CASES.case()
def an_mdev_is_made_seen_and_removed(bench: MdevBench) -> None:
    device = new_uuid()
    assert bench.look(device)["exists"] is False
    made = bench.create(device)
    seen = bench.look(device)
    assert made["state"] == "in-state"
    assert (seen["exists"], seen["parent"], seen["type"]) == (True, bench.parent, bench.type_id)
    assert isinstance(seen["iommu_group"], int)
    assert seen["in_use"] is False
    facts = bench.host.probe()
    assert device in [each.uuid for each in facts.mdevs]
    assert f"mdev-{device}" in [each.unit for each in facts.claims]
    bench.remove(device)
    assert bench.look(device)["exists"] is False


@CASES.case()
def making_an_mdev_again_under_the_same_claim_is_no_error(bench: MdevBench) -> None:
    device = new_uuid()
    bench.create(device)
    assert bench.create(device)["state"] == "in-state"
    bench.remove(device)


@CASES.case()
def removing_an_mdev_again_is_no_error(bench: MdevBench) -> None:
    device = new_uuid()
    bench.create(device)
    bench.remove(device)
    bench.remove(device)


@CASES.case()
def an_unknown_type_is_not_found_and_leaves_no_claim(bench: MdevBench) -> None:
    with pytest.raises(NotFound):
        bench.create(new_uuid(), "no-such-type")
    assert bench.claims == ()


@CASES.case()
def an_unknown_parent_is_not_found(bench: MdevBench) -> None:
    with pytest.raises(NotFound):
        replace(bench, parent="no-such-parent").create(new_uuid())


@CASES.case()
def one_mdev_lowers_what_is_left_of_every_type(bench: MdevBench) -> None:
    before = bench.available(bench.type_id), bench.available(bench.other_type)
    device = new_uuid()
    bench.create(device)
    after = bench.available(bench.type_id), bench.available(bench.other_type)
    assert after[0] == before[0] - 1
    assert after[1] < before[1]
    bench.remove(device)
    assert (bench.available(bench.type_id), bench.available(bench.other_type)) == before


@CASES.case()
def as_many_as_announced_fit_and_the_next_is_refused(bench: MdevBench) -> None:
    devices = [new_uuid() for _ in range(bench.available(bench.type_id))]
    for device in devices:
        bench.create(device)
    with pytest.raises(HostRefused):
        bench.create(new_uuid())
    assert len(bench.claims) == len(devices)
    for device in devices:
        bench.remove(device)


@CASES.case()
def an_mdev_is_given_back_only_under_its_claim(bench: MdevBench) -> None:
    device = new_uuid()
    bench.create(device)
    with pytest.raises(Conflict):
        bench.remove(device, owner="two")
    with pytest.raises(Conflict):
        bench.create(device, owner="two")
    assert bench.look(device)["exists"] is True
    bench.remove(device)


@CASES.case()
def a_foreign_mdev_is_seen_and_left_alone(bench: MdevBench) -> None:
    device = new_uuid()
    bench.by_hand(device)
    seen = bench.look(device)
    assert (seen["exists"], seen["claim"]) == (True, None)
    with pytest.raises(Conflict):
        bench.remove(device)
    with pytest.raises(Conflict):
        bench.create(device)
    assert bench.look(device)["exists"] is True
    bench.drop(device)


@CASES.case("2.9")
def an_mdev_that_a_vm_holds_is_in_use(bench: MdevBench) -> None:
    device = new_uuid()
    bench.create(device)
    with bench.running("holder", MdevHostdev(uuid=device)):
        assert bench.look(device)["in_use"] is True
        with pytest.raises(InUse):
            bench.remove(device)
        assert bench.look(device)["exists"] is True
        assert isinstance(bench.refused_start("second", MdevHostdev(uuid=device)), InUse)
    assert bench.look(device)["in_use"] is False
    bench.remove(device)


@CASES.case()
def a_vm_does_not_start_with_an_mdev_that_does_not_exist(bench: MdevBench) -> None:
    assert isinstance(bench.refused_start("nothing", MdevHostdev(uuid=new_uuid())), HostRefused)


@REBOOT_CASES.case("3.15")
def an_mdev_is_gone_after_a_boot_until_it_is_restored(bench: MdevBench) -> None:
    ours, foreign = new_uuid(), new_uuid()
    bench.create(ours)
    bench.by_hand(foreign)
    bench.may_suffer.reboot()
    assert bench.host.probe().mdevs == ()
    assert bench.call("restore") == {"restored": [f"mdev-{ours}"], "failed": []}
    assert [each.uuid for each in bench.host.probe().mdevs] == [ours]
