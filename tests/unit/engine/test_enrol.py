"""Hosts that come and go: what is refused, what is put back, whose helper is left alone."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.property.test_engine_kill_points import Killed, Mortal
from tests.simworld import SimWorld, host, vm
from vgpumgr.app.diagnosis import examine, examine_host
from vgpumgr.endpoints.host_items import host_state
from vgpumgr.engine.controller.controller import Controller
from vgpumgr.engine.controller.cycle_schedule import ProbePauses
from vgpumgr.engine.controller.cycle_threads import SerialCycleRunner
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.errors import Conflict, Frozen, HostUnreachable, InUse, NoPlacement, NotFound
from vgpumgr.model.examination import CheckOutcome
from vgpumgr.model.host import HostRecord, Membership
from vgpumgr.model.layout import VFS_MAX, GpuLayout, LayoutRule, LayoutSpec
from vgpumgr.model.operation import OperationState
from vgpumgr.model.ports import Host
from vgpumgr.sim.host_faults import VerbRefusals

H2 = HostRecord(name="h2", address="sim://h2")
CLAIM = {"allocation": "a", "generation": 1, "vm": "theirs"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4"), host("L40S", name="h2"))
    made.ledger.remove_host("h2")
    yield made
    made.close()


def add(world: SimWorld, record: HostRecord = H2) -> None:
    world.engine.enrol(record, install=True).raise_for_failure()
    world.engine.refresh()


def remove(world: SimWorld) -> tuple[str, ...]:
    removed = world.engine.remove_host("h2")
    removed.outcome.raise_for_failure()
    return removed.layouts


def h2(world: SimWorld, fleet: str = "") -> Host:
    """The host, as another fleet reaches it."""
    if not fleet:
        return world.hosts.open(H2)
    hosts = world.hosts
    before, hosts._hosts._identity = hosts._hosts._identity, lambda: (fleet, 1)
    try:
        return hosts.open(replace(H2, name=fleet))
    finally:
        hosts._hosts._identity = before


def die(world: SimWorld, at: int, command: str) -> None:
    """Leave the host half in, or half out."""
    engine = replace(world.engine, ledger=Mortal(world.ledger, at, after=True))  # type: ignore[arg-type]
    with pytest.raises(Killed):
        engine.enrol(H2, install=True) if command == "add" else engine.remove_host("h2")
    world.restart()


def members(world: SimWorld) -> dict[str, str]:
    return {each.name: str(each.membership) for each in world.ledger.hosts()}


# -- what was there before ------------------------------------------------------------------------


def test_a_helper_that_another_fleet_uses_stays(world: SimWorld) -> None:
    other = h2(world, "other")
    other.installation.install()
    other.helper.call("fleet_join", {})
    add(world)
    assert len(h2(world).installation.look().fleets) == 2
    remove(world)
    found = h2(world).installation.look()
    assert (found.helper, found.fleets, found.state) == (True, ("other",), True)


def test_a_helper_that_was_there_before_is_not_taken_away_by_an_undo(world: SimWorld) -> None:
    h2(world).installation.install()
    die(world, 3, "add")
    [operation] = world.ledger.operations(open_only=True)
    world.engine.undo(operation.id)
    assert (members(world), h2(world).installation.look().helper) == ({"h1": "member"}, True)


def test_claims_of_another_fleet_hold_nobody_back_once_it_has_its_mark(world: SimWorld) -> None:
    add(world)
    device = world.gpu(host="h2").device
    args = {"gpu": device, "vfs": 0, "claim": CLAIM}
    h2(world, "other").helper.call("layout_claim", args)
    with pytest.raises(InUse):
        remove(world)
    assert members(world)["h2"] == "member"
    h2(world, "other").helper.call("fleet_join", {})
    remove(world)
    assert [each.fleet for each in h2(world, "other").probe().claims] == ["other"]


def test_a_host_that_was_cleaned_by_hand_is_closed(world: SimWorld) -> None:
    add(world)
    h2(world).helper.call("forget", {})
    h2(world).installation.remove()
    remove(world)
    assert members(world) == {"h1": "member"}


# -- refused, and as it was -----------------------------------------------------------------------


def test_a_removal_that_is_refused_puts_layouts_back(world: SimWorld) -> None:
    add(world)
    world.cut(GpuLayout(vfs=VFS_MAX), "h2")
    kept = h2(world).probe().claims
    vf = world.gpu(host="h2").vfs[0].address
    h2(world, "other").helper.call("vfio_bind", {"address": vf, "claim": CLAIM, "with": []})
    with pytest.raises(InUse, match="still carries claims") as refused:
        remove(world)
    assert "pci-" in refused.value.why
    assert members(world)["h2"] == "member"
    assert all(each in h2(world).probe().claims for each in kept)
    assert not world.ledger.operations(open_only=True)
    h2(world, "other").helper.call("vfio_release", {"address": vf, "claim": CLAIM})
    assert remove(world) == (world.hosts.open(H2).probe().gpus[0].device,)


def test_a_host_that_refuses_the_helper_is_not_left_behind(world: SimWorld) -> None:
    world.sim.host("h2").faults.refusals["node.install"] = VerbRefusals(errno.EIO, 1)
    outcome = world.engine.enrol(H2, install=True)
    [only] = outcome.vms
    assert only.error is not None
    assert world.ledger.operation(outcome.operation).state is OperationState.UNDONE
    assert members(world) == {"h1": "member"}
    add(world)


def test_an_unreachable_host_leaves_no_trace(world: SimWorld) -> None:
    world.sim.inject("h2", ("unreachable",))
    with pytest.raises(HostUnreachable):
        add(world)
    assert (world.ledger.operations(), members(world)) == ((), {"h1": "member"})


def test_a_host_in_use_is_not_removed(world: SimWorld) -> None:
    add(world)
    world.ledger.update_host(replace(world.ledger.host("h1"), cordoned=True))
    world.apply(vm("a"))
    with pytest.raises(Conflict, match="h2 is in use"):
        remove(world)
    with pytest.raises(Conflict, match="h2 is in use"):
        world.engine.forget_host("h2")


# -- half in, half out ----------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["add", "remove"])
def test_a_host_that_is_half_a_member_is_left_alone(world: SimWorld, command: str) -> None:
    if command == "remove":
        add(world)
    die(world, 2, command)
    membership = "joining" if command == "add" else "leaving"
    assert members(world)["h2"] == membership == host_state(world.ledger.host("h2"))
    world.ledger.update_host(replace(world.ledger.host("h1"), cordoned=True))
    with pytest.raises(NoPlacement):
        world.apply(vm("a"))
    assert "h2" not in world.engine.refresh().facts
    layout = LayoutSpec(name="x", hosts=("h2",), rules=(LayoutRule(layout=GpuLayout(vfs=0)),))
    assert not world.engine.layout_plan([layout]).gpus


@pytest.mark.parametrize("command", ["add", "remove"])
def test_drift_tells_of_a_host_that_is_half_a_member(world: SimWorld, command: str) -> None:
    if command == "remove":
        add(world)
    die(world, 2, command)
    [operation] = world.ledger.operations(open_only=True)
    [told] = world.engine.drift().drifts
    assert (told.kind, told.host, told.vm) == (DriftKind.UNFINISHED, "h2", "")
    assert told.next == f"vgpumgr operation resume {operation.id[:8]}"
    assert world.engine.drift(["h1"]).drifts == ()
    world.engine.resume(operation.id).raise_for_failure()
    assert world.engine.drift().drifts == ()


def test_doctor_tells_of_a_host_that_is_half_a_member(world: SimWorld) -> None:
    die(world, 2, "add")  # the ledger is opened again by this
    app = SimpleNamespace(
        config=SimpleNamespace(
            ledger="ledger.db",
            defrag_threshold=0.3,
            backup_to=None,
            backup_every=0.0,
            api_listen="",
            api_socket=None,
            api_certificate=None,
            api_key=None,
            api_client_ca=None,
        ),
        engine=world.engine,
        hosts=world.hosts,
        ledger=world.ledger,
        writable_ledger=world.ledger,
        secrets=SimpleNamespace(names=lambda: ()),
    )
    [operation] = world.ledger.operations(open_only=True)
    [found] = [each for each in examine(app) if each.check == "host h2"]  # type: ignore[arg-type]
    assert (found.mark, found.text) == (CheckOutcome.BAD, "host h2 (sim://h2) is joining the fleet")
    assert f"vgpumgr operation undo {operation.id[:8]}" in found.next
    assert found in examine_host(app, "h2")  # type: ignore[arg-type]
    add(world)
    assert not any("joining" in each.text for each in examine(app))  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["add", "remove"])
def test_serve_ends_it_without_a_look_that_its_helper_may_not_answer(
    world: SimWorld, command: str
) -> None:
    if command == "remove":
        add(world)
    die(world, 2, command)
    clock = world.engine.clock
    status = Controller(
        world.engine, SerialCycleRunner(clock), ProbePauses(30.0), emit=lambda _event: None
    ).once()
    ended = {each.name: each.state for each in status.hosts}
    assert ended["h2"] == ("joining" if command == "add" else "leaving")
    assert members(world).get("h2") == ("member" if command == "add" else None)


def test_another_wish_is_refused_with_the_commands_that_help(world: SimWorld) -> None:
    die(world, 3, "add")
    [operation] = world.ledger.operations(open_only=True)
    for other in (replace(H2, labels={"a": "b"}), replace(H2, name="h3")):
        with pytest.raises(Conflict, match=r"h2 .* is joining the fleet") as refused:
            add(world, other)
        assert f"vgpumgr operation resume {operation.id[:8]}" in refused.value.next
        assert f"vgpumgr operation undo {operation.id[:8]}" in refused.value.next
    with pytest.raises(Conflict, match="is joining"):
        remove(world)
    add(world)
    assert members(world)["h2"] == Membership.MEMBER


def test_a_host_that_leaves_is_not_added(world: SimWorld) -> None:
    add(world)
    die(world, 3, "remove")
    with pytest.raises(Conflict, match="is leaving the fleet"):
        add(world)


@pytest.mark.parametrize("command", ["add", "remove"])
def test_a_host_that_is_gone_for_good_is_forgotten_half_way(world: SimWorld, command: str) -> None:
    if command == "remove":
        add(world)
    die(world, 3, command)
    world.sim.inject("h2", ("unreachable",))
    world.engine.forget_host("h2")
    assert (members(world), world.ledger.operations(open_only=True)) == ({"h1": "member"}, ())
    with pytest.raises(NotFound):
        world.engine.remove_host("h2")


def test_a_cut_removal_waits_for_its_host(world: SimWorld) -> None:
    add(world)
    die(world, 3, "remove")
    world.sim.inject("h2", ("unreachable",))
    with pytest.raises(HostUnreachable) as waits:
        remove(world)
    assert waits.value.next
    world.sim.inject("h2", ("clear",))
    remove(world)
    assert members(world) == {"h1": "member"}


def test_a_frozen_ledger_takes_hosts_in_and_nothing_else(world: SimWorld) -> None:
    """What they know is what it has to learn."""
    world.ledger.freeze("it went back in time")
    add(world)
    with pytest.raises(Frozen):
        world.apply(vm("a"))


def test_the_trail_tells_of_hosts_and_takes_them_for_no_vms(world: SimWorld) -> None:
    add(world)
    remove(world)
    trail = world.ledger.audit(host="h2")
    assert not any(each.vm for each in trail)
    told = [each.event for each in reversed(trail)]
    own = [each for each in told if each.startswith("host.")]
    assert own[-4:] == ["host.joining", "host.added", "host.leaving", "host.removed"]
    assert told.count("task.done") == 2
