"""The pure comparison: one change by hand, one difference, named with what helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.drift import values
from tests.unit.drift.cases import CASES, F, M, foreign_mdev, forgotten, layout, on_driver, vgpu
from tests.unit.drift.values import FLEETS
from vgpumgr.engine.drift.host_comparison import OperationsInProgress
from vgpumgr.model.drift import DriftKind as Kind
from vgpumgr.model.operation import TaskRecord


@pytest.mark.parametrize("name", FLEETS)
def test_an_untouched_fleet_has_no_drift(name: str) -> None:
    assert FLEETS[name]().drifts() == ()


@pytest.mark.parametrize("name", CASES)
def test_a_change_by_hand_is_named(name: str) -> None:
    case = CASES[name]
    found = case.change(case.fleet()).drifts()
    assert sorted(each.kind for each in found) == sorted(case.kinds)
    lines = "\n".join(f"{each.text} → {each.next}" for each in found)
    for words in case.said:
        assert words in lines
    for each in found:
        assert each.host == "h1"
        assert each.subject
        assert each.wanted != each.found
        assert each.next


def test_every_kind_is_seen() -> None:
    seen = {kind for case in CASES.values() for kind in case.kinds}
    assert seen == set(Kind) - {Kind.GPU_EVIDENCE}


def test_the_order_is_stable() -> None:
    fleet = layout(foreign_mdev(values.mdev()))
    many = fleet.with_facts(claims=(), mdevs=tuple(reversed(fleet.facts.mdevs[1:])))
    again = many.with_facts(domains=tuple(reversed(many.facts.domains)))
    assert len(many.drifts()) > 3
    assert many.drifts() == again.drifts()
    hosts_and_vms = [(each.host, each.vm) for each in many.drifts()]
    assert hosts_and_vms == sorted(hosts_and_vms)


def test_a_vm_that_is_worked_on_is_left_out() -> None:
    gone = values.mdev().with_facts(domains=(), mdevs=(), claims=())
    assert len(gone.drifts()) == 3
    task = TaskRecord(
        id="t", operation="o", vm_id=gone.vm.id, vm="web", host="h1", verb="start", steps=()
    )
    assert replace(gone, work=OperationsInProgress(busy=(task,))).drifts() == ()


def test_a_vm_that_is_deleted_meanwhile_leaves_nothing_over() -> None:
    """The probe saw it whole; the ledger has it no more."""
    fleet = values.mdev()
    task = TaskRecord(
        id="t", operation="o", vm_id=fleet.vm.id, vm="web", host="h1", verb="delete", steps=()
    )
    assert replace(forgotten(fleet), work=OperationsInProgress(busy=(task,))).drifts() == ()


def test_a_change_of_bookkeeping_is_no_drift() -> None:
    """Labels are written into the definition at its next change only."""
    fleet = values.mdev()
    spec = replace(fleet.vm.spec, labels={"team": "blue"})
    assert fleet.with_vm(spec=spec, generation=9).drifts() == ()


def test_a_newer_libvirt_is_no_drift() -> None:
    """What we would define otherwise today is no change by hand."""
    for make in FLEETS.values():
        fleet = make()
        for version in ("9.0.0", "12.0.0"):
            facts = replace(
                fleet.facts,
                kvm=not fleet.facts.kvm,
                versions=replace(fleet.facts.versions, libvirt=version),
            )
            records = tuple(replace(host, facts=facts) for host in fleet.view.hosts)
            assert fleet.with_view(hosts=records).drifts() == ()


UNREAD = {
    "libvirt": (M, ("libvirt",), {"domains": (), "pools": ()}),
    "domains": (M, ("domains",), {"domains": ()}),
    "mdevs": (M, ("mdevs",), {"mdevs": ()}),
    "claims": (M, ("claims",), {"claims": ()}),
    "devices": (F, ("devices",), {"gpus": ()}),
    "fabric": (F, ("fabric",), {"fabric": None}),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_could_not_be_read_differs_in_nothing(name: str) -> None:
    fleet, parts, lost = UNREAD[name]
    assert fleet().with_facts(**lost).drifts() != ()
    assert fleet().with_facts(**lost).unread(*parts).with_facts(**lost).drifts() == ()


def test_one_thing_that_could_not_be_read_differs_in_nothing() -> None:
    one = values.mdev()
    claim, uuid = one.facts.claims[0].unit, one.facts.mdevs[0].uuid
    assert one.with_facts(claims=()).unread(f"claims {claim}").drifts() == ()
    assert one.with_facts(mdevs=()).unread(f"mdevs {uuid}").drifts() == ()
    vf = values.vendor_vf()
    unread = vf.unread(f"vfs {vf.allocation.device} vgpu")
    assert on_driver(None)(unread).drifts() == ()
    assert vgpu(type_id=None, placement_id=None)(vf).drifts() == ()
    cut = values.instance()
    mig = cut.gpu.mig
    assert mig is not None
    blind = cut.with_gpu(mig=replace(mig, instances=None))
    assert [each for each in blind.drifts() if each.kind is not Kind.LAYOUT] == []
