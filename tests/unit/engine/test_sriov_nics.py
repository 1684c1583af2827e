"""NICs of VMs that are VFs of their host's: placed, claimed, set, read back and released."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.drift.drift_survey import survey
from vgpumgr.engine.reservation.shelf_reservations import StopManner
from vgpumgr.helper import errors
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System
from vgpumgr.helper.verbs import nic_verbs
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.errors import Conflict, HostRefused
from vgpumgr.model.nic import SriovNic
from vgpumgr.model.sim_fleet import SimNic
from vgpumgr.model.vm import Affinity, VmSpec
from vgpumgr.model.vm_devices import NicSpec

FABRIC = SriovNic(network="fabric", vlan=20)


def nics(*wanted: SriovNic) -> dict[str, Any]:
    return {"nics": tuple(NicSpec(sriov=each) for each in wanted)}


def joined(world: SimWorld, name: str, *interfaces: str) -> None:
    """Have a host's NICs on the physical network ``fabric``."""
    record = world.ledger.host(name)
    world.ledger.update_host(replace(record, physical_networks={"fabric": interfaces}))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    near = (SimNic(name="ens1f0", vfs=2, near_gpu=1), SimNic(name="ens2f0", vfs=2, near_gpu=0))
    made = SimWorld(
        tmp_path,
        host("T4", "T4", nics=near),
        host("T4", name="h2", nics=(SimNic(name="ens9", vfs=1),)),
        host("T4", name="h3"),
    )
    made.engine.refresh()
    joined(made, "h1", "ens1f0", "ens2f0")
    joined(made, "h2", "ens9")
    yield made
    made.close()


def seen(world: SimWorld, name: str, number: int = 0) -> dict[str, Any]:
    """What the PF has set for a VM's n-th VF."""
    record = world.ledger.vm(name)
    opened = world.hosts.open(world.ledger.host(record.host))
    return dict(opened.helper.call("nic_vf_look", {"address": record.nic_functions[number]}))


def reasons(world: SimWorld, spec: VmSpec) -> dict[str, str]:
    """Why each host refuses a VM."""
    (refused,) = world.engine.plan([spec]).unplaced
    return {each.host: each.text for each in refused.reasons}


def interfaces(world: SimWorld, name: str) -> list[str]:
    record = world.ledger.vm(name)
    nics_there = world.facts(record.host).nics
    return [
        nic.name
        for address in record.nic_functions
        for nic in nics_there
        if address in {vf.address for vf in nic.vfs}
    ]


ON_H1 = Affinity(hosts=("h1",))


def test_a_vm_has_the_vf_nearest_to_its_gpu(world: SimWorld) -> None:
    """ens1f0 is below the root port of the second GPU, ens2f0 below that of the first."""
    for name in ("a", "b", "c"):
        world.apply(vm(name, "T4-8Q", **nics(FABRIC), affinity=ON_H1))
        record = world.ledger.vm(name)
        held = next(each for each in world.ledger.allocations() if each.vm_id == record.id)
        gpus = [each.device for each in world.facts().gpus]
        nearest = ["ens2f0", "ens1f0"][gpus.index(held.parent)]
        assert interfaces(world, name) == [nearest]


def test_what_the_file_asks_for_is_set_and_read_back(world: SimWorld) -> None:
    asked = replace(FABRIC, trust=True, spoof_check=False)
    world.apply(vm("a", "T4-8Q", **nics(asked), affinity=ON_H1))
    found = seen(world, "a")
    assert (found["vlan"], found["trust"], found["spoof_check"]) == (20, True, False)
    assert found["mac"].startswith("52:54:00:")
    assert found["claim"]["allocation"] == world.ledger.vm("a").id
    xml = world.hosts.open(world.ledger.host("h1")).domains.xml("a")
    assert '<interface type="hostdev" managed="yes">' in xml
    assert '<tag id="20"/>' in xml
    assert 'memballoon model="none"' in xml


def test_a_deleted_vm_leaves_its_vf_as_a_new_one_is(world: SimWorld) -> None:
    world.apply(
        vm("a", "T4-8Q", **nics(replace(FABRIC, trust=True, spoof_check=False)), affinity=ON_H1)
    )
    address = world.ledger.vm("a").nic_functions[0]
    world.delete("a")
    opened = world.hosts.open(world.ledger.host("h1"))
    found = opened.helper.call("nic_vf_look", {"address": address})
    assert found["claim"] is None
    assert (found["trust"], found["spoof_check"], found["vlan"]) == (False, True, 0)
    assert found["mac"] == "00:00:00:00:00:00"


def test_no_two_vms_have_one_vf_and_a_full_nic_says_so(world: SimWorld) -> None:
    wanted = nics(SriovNic(physical="ens1f0"))
    world.apply(*(vm(name, **wanted) for name in ("a", "b")))
    held = [world.ledger.vm(name).nic_functions for name in ("a", "b")]
    assert len({each for one in held for each in one}) == 2
    told = reasons(world, vm("c", **wanted))
    assert told["h1"] == "ens1f0 of h1 has 0 of 2 VFs free, 1 needed"
    assert told["h2"] == "h2 has no NIC ens1f0 with SR-IOV (it has: ens9)"
    assert told["h3"] == "h3 has no NIC ens1f0 with SR-IOV (it has: none)"
    world.delete("a")
    world.apply(vm("c", **wanted))


def test_several_vfs_of_one_vm_are_of_several_nics(world: SimWorld) -> None:
    world.apply(
        vm(
            "a",
            "T4-8Q",
            **nics(FABRIC, SriovNic(physical="ens2f0"), FABRIC, FABRIC),
            affinity=ON_H1,
        )
    )
    assert sorted(interfaces(world, "a")) == ["ens1f0", "ens1f0", "ens2f0", "ens2f0"]
    assert interfaces(world, "a")[1] == "ens2f0"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"nics": (SimNic(name="n0", up=False),)}, "h1: n0 is down: ip link set dev n0 up"),
        ({"nics": (SimNic(name="n0", vfs=0),)}, "n0 of h1 has no VF on"),
        (
            {"nics": (SimNic(name="n0"),), "iommu": False},
            "h1: without an IOMMU no VF of n0 can be given to a VM",
        ),
    ],
)
def test_a_nic_that_cannot_be_given_says_why(
    tmp_path: Path, fields: dict[str, Any], why: str
) -> None:
    made = SimWorld(tmp_path, host("T4", **fields))
    made.engine.refresh()
    try:
        assert reasons(made, vm("a", **nics(SriovNic(physical="n0")))) == {"h1": why}
    finally:
        made.close()


def test_a_driver_without_trust_undoes_the_vm(tmp_path: Path) -> None:
    made = SimWorld(tmp_path, host("T4", nics=(SimNic(name="n0", trusts=False),)))
    made.engine.refresh()
    try:
        with pytest.raises(HostRefused, match="n0 does not set its VF 0 so") as caught:
            made.apply(vm("a", **nics(SriovNic(physical="n0", trust=True))))
        assert caught.value.why.endswith("ip said: RTNETLINK answers: Operation not supported")
        assert not made.ledger.vms()
        assert not made.facts().claims
        made.apply(vm("b", **nics(SriovNic(physical="n0"))))
    finally:
        made.close()


def test_live_is_refused_with_the_nic_and_cold_moves(world: SimWorld) -> None:
    for name in ("h1", "h2"):
        target = world.ledger.host(name)
        world.ledger.update_host(replace(target, migration=MigrationAddress(address=name)))
    world.apply(vm("a", **nics(FABRIC), affinity=Affinity(hosts=("h1", "h2"))))
    here = world.ledger.vm("a").host
    there = "h2" if here == "h1" else "h1"
    before = world.ledger.vm("a").nic_functions[0]
    plan = world.engine.move_plan("a", there)
    (refused,) = [each for each in plan.checks if each.name == "sriov"]
    assert "NIC 0 of a is a VF of physical network 'fabric'" in refused.text
    assert refused.next.endswith("--cold")
    assert not refused.holds
    world.engine.migrate("a", there, cold=True).raise_for_failure()
    record = world.ledger.vm("a")
    assert record.host == there
    assert record.nic_functions
    assert seen(world, "a")["vlan"] == 20
    source = world.hosts.open(world.ledger.host(here))
    assert source.helper.call("nic_vf_look", {"address": before})["claim"] is None


def test_a_vlan_and_another_nic_are_changed_with_a_restart(world: SimWorld) -> None:
    world.apply(vm("a", "T4-8Q", **nics(FABRIC), affinity=ON_H1))
    more = vm("a", "T4-8Q", **nics(replace(FABRIC, vlan=30, trust=True), FABRIC), affinity=ON_H1)
    with pytest.raises(Conflict, match="the change needs a stop of a"):
        world.engine.apply([more])
    world.engine.apply([more], restart=True)[1].raise_for_failure()
    assert len(world.ledger.vm("a").nic_functions) == 2
    found = seen(world, "a")
    assert (found["vlan"], found["trust"]) == (30, True)
    fewer = vm("a", "T4-8Q", affinity=ON_H1)
    world.engine.apply([fewer], restart=True)[1].raise_for_failure()
    assert world.ledger.vm("a").nic_functions == ()
    assert not any(claim.wanted["kind"] == "nic" for claim in world.facts().claims)


def test_a_shelved_vm_leaves_its_vf_to_others(world: SimWorld) -> None:
    wanted = nics(SriovNic(physical="ens9", vlan=7))
    world.apply(vm("a", **wanted))
    world.engine.shelve(["a"], StopManner(force=True)).raise_for_failure()
    world.apply(vm("b", **wanted))
    world.delete("b")
    world.engine.start(["a"]).raise_for_failure()
    assert seen(world, "a")["vlan"] == 7


def test_after_a_boot_trust_is_as_it_was(world: SimWorld) -> None:
    world.apply(vm("a", "T4-8Q", **nics(replace(FABRIC, trust=True)), affinity=ON_H1))
    world.sim.hosts["h1"].power_off()
    world.sim.hosts["h1"].power_on()
    opened = world.hosts.open(world.ledger.host("h1"))
    opened.helper.call("restore", {})
    assert seen(world, "a")["trust"] is True
    world.engine.start(["a"]).raise_for_failure()
    assert seen(world, "a")["vlan"] == 20


def test_nothing_of_it_is_drift(world: SimWorld) -> None:
    world.apply(vm("a", "T4-8Q", **nics(FABRIC)))
    assert [each.text for each in world.engine.drift().drifts] == []


def test_a_vf_that_its_host_uses_meanwhile_has_its_vm_tried_elsewhere(
    world: SimWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_free, refused = nic_verbs._require_free, list[str]()

    def used(system: System, address: str) -> None:
        if not refused:
            refused.append(address)
            raise HelperError(
                errors.IN_USE, f"{address} is in use by the host", "its interface is up"
            )
        require_free(system, address)

    monkeypatch.setattr(nic_verbs, "_require_free", used)
    world.apply(vm("a", "T4-8Q", **nics(FABRIC)))
    assert refused
    record = world.ledger.vm("a")
    made = next(each for each in world.ledger.operations() if each.kind == "apply")
    hosts = [each.host for each in world.ledger.tasks(made.id)]
    assert len(hosts) == 2 and hosts[0] != hosts[1] == record.host
    first = world.hosts.open(world.ledger.host(hosts[0])).helper
    assert first.call("nic_vf_look", {"address": refused[0]})["claim"] is None
    assert not [each for each in world.ledger.refusals() if each.counts]
    assert survey(world.engine).drifts == ()


def test_a_renamed_vm_has_its_vf_by_its_new_name(world: SimWorld) -> None:
    world.apply(vm("a", "T4-8Q", **nics(FABRIC), affinity=ON_H1))
    world.engine.rename("a", "b", stop=StopManner(force=True)).raise_for_failure()
    assert seen(world, "b")["claim"]["vm"] == "b"
    assert survey(world.engine).drifts == ()
    world.delete("b")
    assert all(each.vm != "b" for each in world.facts("h1").claims)
