"""What apply would do: create, leave alone, start, change, go on; and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.world import World, effects, vm, with_disk
from vgpumgr.engine.planning.vm_admission import no_placement
from vgpumgr.model.apply_plan import ActionKind, Plan
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    Interrupted,
    NoPlacement,
    OutcomeUnknown,
)
from vgpumgr.model.history import RequestOutcome
from vgpumgr.model.host import UnknownPart
from vgpumgr.model.operation import TaskState
from vgpumgr.model.placement import NotPlaced, Reason
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_devices import CloudInit


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_after_ctrl_c_a_vm_is_not_said_to_have_no_place(world: World) -> None:
    """What looks for room ends with it: nothing found says nothing, and is not kept."""
    wanted = [with_disk("web", "T4-4Q"), with_disk("huge", "T4-4Q", vcpus=500)]
    world.engine.stop.set()
    for act in (world.engine.plan, world.engine.apply):
        with pytest.raises(Interrupted, match="interrupted"):
            act(wanted)
    assert world.ledger.requests(since=0.0, limit=9) == ()
    world.engine.stop.clear()
    with pytest.raises(NoPlacement):
        world.engine.apply(wanted)


def kinds(plan: Plan) -> list[tuple[str, ActionKind]]:
    return [(action.vm.name, action.kind) for action in plan.actions]


def test_a_plan_changes_nothing(world: World) -> None:
    plan = world.engine.plan([with_disk("web", "T4-4Q")])
    assert kinds(plan) == [("web", ActionKind.CREATE)]
    assert plan.actions[0].details == ("T4-4Q on 0000:41:00.0 (slots 0-3)",)
    assert (effects(world.host), world.names(), world.ledger.operations()) == ([], [], ())


def test_a_name_that_a_foreign_domain_has_is_refused_before_anything_is_made(
    world: World,
) -> None:
    world.host.foreign_domain("web")
    with pytest.raises(NoPlacement) as caught:
        world.engine.apply([with_disk("web", "T4-4Q")])
    assert "h1 has a foreign domain named web" in caught.value.why
    assert effects(world.host) == []
    world.engine.apply([with_disk("other", "T4-4Q")])[1].raise_for_failure()


def test_the_same_file_again_changes_nothing(world: World) -> None:
    specs = [with_disk("web", "T4-4Q"), vm("plain")]
    world.engine.apply(specs)
    world.host.calls.clear()
    plan, outcome = world.engine.apply(specs)
    assert (plan.changes, plan.unchanged) == (0, ("web", "plain"))
    assert (outcome.operation, effects(world.host)) == ("", [])


def test_actions_come_in_the_order_of_the_file(world: World) -> None:
    world.engine.apply([vm("b")])
    plan = world.engine.plan([vm("c"), vm("b", vcpus=4), vm("a")])
    assert [name for name, _ in kinds(plan)] == ["c", "b", "a"]


def test_what_the_file_no_longer_names_stays(world: World) -> None:
    world.engine.apply([vm("a"), vm("b")])
    plan, _ = world.engine.apply([vm("a")])
    assert plan.changes == 0
    assert world.names() == ["a", "b"]


def test_a_vm_that_should_run_and_does_not_is_started(world: World) -> None:
    world.engine.apply([vm("web", "T4-4Q")])
    world.host.reboot()
    plan, outcome = world.engine.apply([vm("web", "T4-4Q")])
    outcome.raise_for_failure()
    assert kinds(plan) == [("web", ActionKind.START)]
    assert world.host.left()["domains"] == {"web": "running"}


def test_a_crashed_vm_is_started(world: World) -> None:
    world.engine.apply([vm("web")])
    crashed = replace(world.host.domains_by_name["web"], state=DomainState.CRASHED)
    world.host.domains_by_name["web"] = crashed
    assert kinds(world.engine.plan([vm("web")])) == [("web", ActionKind.START)]


def test_a_vm_that_its_user_stopped_stays_off(world: World) -> None:
    world.engine.apply([vm("web")])
    world.engine.stop_vms(["web"], force=False, timeout_s=5)
    assert world.engine.plan([vm("web")]).changes == 0


def test_a_vm_whose_host_did_not_answer_is_not_taken_for_stopped(world: World) -> None:
    world.engine.apply([vm("web")])
    world.host.down = True
    plan = world.engine.plan([vm("web")])
    assert plan.changes == 0
    assert plan.warnings == ("h1: host h1 does not answer",)


def test_a_vm_whose_libvirt_did_not_answer_is_not_taken_for_stopped(world: World) -> None:
    world.engine.apply([vm("web")])
    world.host.domains_by_name.clear()
    world.host.unknown = (UnknownPart(part="libvirt", why="it hangs"),)
    assert world.engine.plan([vm("web")]).changes == 0


# -- changes -----------------------------------------------------------------------------------


def test_a_change_that_needs_a_stop_is_refused_without_restart(world: World) -> None:
    world.engine.apply([vm("web")])
    with pytest.raises(Conflict, match="needs a stop of web") as caught:
        world.engine.apply([vm("web", memory_mib=4096)])
    assert caught.value.exit_status == 4
    assert caught.value.why == "memory: 2GiB → 4GiB"
    assert "--restart" in caught.value.next
    assert world.vm("web").spec.memory_mib == 2048


def test_with_restart_the_vm_is_stopped_changed_and_started(world: World) -> None:
    world.engine.apply([vm("web", "T4-4Q")])
    world.host.calls.clear()
    _, outcome = world.engine.apply([vm("web", "T4-4Q", memory_mib=4096)], restart=True)
    outcome.raise_for_failure()
    shown = [e for e in effects(world.host) if e in {"shutdown", "define", "mdev_create", "start"}]
    assert shown == ["shutdown", "define", "mdev_create", "start"]
    domain = world.host.domains_by_name["web"]
    assert (domain.memory_mib, domain.state) == (4096, DomainState.RUNNING)
    assert world.vm("web").spec.memory_mib == 4096
    assert len(world.host.mdevs) == 1
    assert world.engine.plan([vm("web", "T4-4Q", memory_mib=4096)]).changes == 0


def test_a_stopped_vm_is_changed_without_a_stop_and_stays_off(world: World) -> None:
    world.engine.apply([vm("web")])
    world.engine.stop_vms(["web"], force=True, timeout_s=1)
    world.engine.apply([vm("web", memory_mib=4096)])[1].raise_for_failure()
    domain = world.host.domains_by_name["web"]
    assert (domain.memory_mib, domain.state) == (4096, DomainState.SHUTOFF)


@pytest.mark.parametrize("on", [True, False])
def test_autostart_changes_on_a_running_vm(world: World, on: bool) -> None:
    world.engine.apply([vm("web", autostart=not on)])
    assert world.host.domains_by_name["web"].autostart is not on
    world.engine.apply([vm("web", autostart=on)])[1].raise_for_failure()
    assert world.host.domains_by_name["web"].autostart is on
    assert "shutdown" not in effects(world.host)


def test_labels_change_in_the_ledger_alone(world: World) -> None:
    world.engine.apply([vm("web")])
    world.host.calls.clear()
    world.engine.apply([vm("web", labels={"team": "blue"})])[1].raise_for_failure()
    assert world.vm("web").spec.labels == {"team": "blue"}
    assert effects(world.host) == []


@pytest.mark.parametrize(
    "changed", [with_disk("web", ""), vm("web", cloud_init=CloudInit(user_data="x"))]
)
def test_what_is_fixed_at_birth_cannot_change(world: World, changed: VmSpec) -> None:
    world.engine.apply([vm("web")])
    with pytest.raises(Conflict, match=r"cannot change .* in place") as caught:
        world.engine.apply([changed], restart=True)
    assert caught.value.next.startswith("vgpumgr vm delete web")
    assert world.vm("web").spec == vm("web")


def test_a_change_on_a_host_that_did_not_answer_is_refused(world: World) -> None:
    world.engine.apply([vm("web")])
    world.host.down = True
    with pytest.raises(HostUnreachable, match="web cannot be changed"):
        world.engine.apply([vm("web", memory_mib=4096)], restart=True)
    assert world.vm("web").spec.memory_mib == 2048
    world.engine.apply([vm("web", labels={"a": "b"})])


def test_a_refused_change_waits_and_a_newer_one_takes_its_place(world: World) -> None:
    """The way out of a definition that libvirt refuses is to write another one."""
    world.engine.apply([vm("web")])
    world.host.refuse("define", about="4194304", times=99)
    bad, good = vm("web", memory_mib=4096), vm("web", memory_mib=1024)
    for _ in range(2):
        _, outcome = world.engine.apply([bad], restart=True)
        with pytest.raises(HostRefused):
            outcome.raise_for_failure()
    world.engine.apply([good], restart=True)[1].raise_for_failure()
    domain = world.host.domains_by_name["web"]
    assert (domain.memory_mib, domain.state) == (1024, DomainState.RUNNING)
    assert world.settled()


def test_a_refused_change_goes_on_when_the_host_takes_it(world: World) -> None:
    world.engine.apply([vm("web")])
    world.host.refuse("define")
    changed = vm("web", memory_mib=4096)
    world.engine.apply([changed], restart=True)
    world.engine.apply([changed], restart=True)[1].raise_for_failure()
    assert world.host.domains_by_name["web"].memory_mib == 4096
    assert world.settled()


def test_a_vm_with_a_refused_change_can_be_deleted_and_made_anew(world: World) -> None:
    world.engine.apply([vm("web")])
    world.host.refuse("define")
    world.engine.apply([vm("web", memory_mib=4096)], restart=True)
    world.engine.delete(["web"], keep_disks=False, force=True).raise_for_failure()
    world.engine.apply([vm("web", memory_mib=512)])[1].raise_for_failure()
    assert world.host.domains_by_name["web"].memory_mib == 512
    assert world.settled()


def test_a_guest_that_ignores_the_power_button_is_not_changed(world: World) -> None:
    world.engine.apply([vm("web")])
    world.host.guests_ignore_acpi = True
    _, outcome = world.engine.apply([vm("web", memory_mib=4096)], restart=True)
    with pytest.raises(DeadlineExceeded, match="did not power off"):
        outcome.raise_for_failure()
    assert world.host.domains_by_name["web"].memory_mib == 2048


# -- what does not fit -------------------------------------------------------------------------


def test_one_misfit_and_nothing_is_made(world: World) -> None:
    with pytest.raises(NoPlacement, match="b cannot be placed") as caught:
        world.engine.apply([vm("a", "passthrough"), vm("b", "passthrough")])
    assert caught.value.exit_status == 5
    assert "passthrough needs an empty GPU" in caught.value.why
    assert (world.names(), world.ledger.operations()) == ([], ())
    assert (world.free_slots(), effects(world.host)) == (16, [])


def test_of_a_misfit_the_refusal_is_kept_with_its_reasons(world: World) -> None:
    with pytest.raises(NoPlacement):
        world.engine.apply([vm("a"), vm("b", "A100-40C")])
    (request,) = world.ledger.requests()
    assert (request.answer, request.spec.name) == (RequestOutcome.REFUSED, "b")
    assert request.explanation is not None
    assert "does not offer A100-40C" in request.explanation.reasons[0].text


def test_with_partial_what_fits_is_made(world: World) -> None:
    plan, outcome = world.engine.apply(
        [vm("a", "passthrough"), vm("b", "passthrough")], partial=True
    )
    outcome.raise_for_failure()
    assert [refused.request.name for refused in plan.unplaced] == ["b"]
    assert world.names() == ["a"]


def test_with_partial_and_nothing_that_fits_it_is_refused(world: World) -> None:
    with pytest.raises(NoPlacement):
        world.engine.apply([vm("a", "A100-40C")], partial=True)


def test_without_any_host_the_error_says_so() -> None:
    error = no_placement([NotPlaced(request=vm("a"), reasons=())])
    assert (error.exit_status, error.why) == (5, "no host is enrolled")


def test_hosts_that_did_not_answer_make_it_unreachable(world: World) -> None:
    world.engine.refresh()
    world.host.down = True
    with pytest.raises(HostUnreachable) as caught:
        world.engine.apply([vm("a")])
    assert caught.value.exit_status == 6


def test_a_long_list_of_reasons_is_cut() -> None:
    reasons = tuple(Reason(code=f"x{n}", host=f"h{n}", text=f"reason {n}") for n in range(20))
    error = no_placement([NotPlaced(request=vm("a"), reasons=reasons)] * 3)
    assert error.message == "a and 2 more cannot be placed"
    assert error.why.endswith("reason 7; and 12 more GPUs or hosts")


# -- going on ----------------------------------------------------------------------------------


def test_an_unfinished_vm_is_shown_as_going_on(world: World) -> None:
    world.host.refuse("define", OutcomeUnknown("cut"))
    world.engine.apply([vm("web")])
    plan = world.engine.plan([vm("web")])
    assert kinds(plan) == [("web", ActionKind.RESUME)]
    assert plan.actions[0].details == ("unfinished: reserved",)


def test_apply_finishes_what_another_file_left_behind_only_if_it_names_it(world: World) -> None:
    world.host.refuse("define", OutcomeUnknown("cut"))
    world.engine.apply([vm("web")])
    world.engine.apply([vm("other")])[1].raise_for_failure()
    assert [str(record.state) for record in world.ledger.vms()] == ["active", "reserved"]
    _, outcome = world.engine.apply([vm("web")])
    assert [(each.vm, each.state) for each in outcome.vms] == [("web", TaskState.DONE)]


def test_a_vm_placed_on_a_second_host_when_the_first_is_full(tmp_path: Path) -> None:
    hosts = [FakeHost(name=f"h{n}", gpus=[t4(n)], parents=[t4_parent(n)]) for n in range(2)]
    world = World(tmp_path, *hosts)
    world.engine.apply([vm("a", "passthrough")])
    world.engine.apply([vm("b", "passthrough")])[1].raise_for_failure()
    assert {record.host for record in world.ledger.vms()} == {"h0", "h1"}
    world.close()
