"""Delete, start, stop and reboot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.world import World, effects, vm, with_disk
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    NotFound,
    OutcomeUnknown,
)
from vgpumgr.model.operation import TaskState
from vgpumgr.model.vm import VmState

FULL = with_disk("web", "T4-4Q")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def empty(world: World) -> dict[str, object]:
    return world.host.left()


# -- delete ------------------------------------------------------------------------------------


def test_a_deleted_vm_leaves_nothing_behind_but_history(
    world: World, empty: dict[str, object]
) -> None:
    world.engine.apply([FULL, vm("big")])
    world.engine.delete(["web", "big"], keep_disks=False, force=True).raise_for_failure()
    assert world.host.left() == empty
    assert (world.names(), world.free_slots()) == ([], 16)
    (closed,) = world.ledger.allocations(released=True)
    assert (closed.vm, closed.state) == ("web", AllocationState.RELEASED)
    assert [op.kind for op in world.ledger.operations()] == ["delete", "apply"]


def test_a_running_vm_is_not_deleted_without_force(world: World) -> None:
    """It was started after the last observation: the host is asked anew."""
    world.engine.apply([FULL])
    with pytest.raises(Conflict, match="still running: web") as caught:
        world.engine.delete(["web"], keep_disks=False, force=False)
    assert (caught.value.exit_status, "--force" in caught.value.next) == (4, True)
    assert world.host.left()["domains"] == {"web": "running"}
    world.engine.stop_vms(["web"], force=False, timeout_s=5)
    world.engine.delete(["web"], keep_disks=False, force=False).raise_for_failure()


def test_a_vm_that_nobody_can_look_at_is_not_deleted_without_force(world: World) -> None:
    world.engine.apply([FULL])
    world.host.down = True
    with pytest.raises(HostUnreachable, match="cannot tell whether web runs"):
        world.engine.delete(["web"], keep_disks=False, force=False)
    assert world.vm("web").state is VmState.ACTIVE


def test_disks_stay_where_asked(world: World) -> None:
    world.engine.apply([FULL])
    world.engine.delete(["web"], keep_disks=True, force=True).raise_for_failure()
    assert len(world.host.volumes) == 2
    assert (world.host.domains_by_name, world.host.mdevs) == ({}, {})


def test_only_volumes_made_for_the_vm_go(world: World) -> None:
    world.engine.apply([FULL, with_disk("other", "T4-4Q")])
    world.engine.delete(["web"], keep_disks=False, force=True)
    assert {name.split("-")[0] for _, name in world.host.volumes} == {"other"}


def test_an_unknown_name_deletes_nothing_at_all(world: World) -> None:
    world.engine.apply([vm("web")])
    with pytest.raises(NotFound):
        world.engine.delete(["web", "wob"], keep_disks=False, force=True)
    assert world.names() == ["web"]


def test_deleting_a_half_made_vm_takes_its_creation_back(
    world: World, empty: dict[str, object]
) -> None:
    world.host.refuse("start", OutcomeUnknown("cut"))
    world.engine.apply([FULL])
    world.engine.delete(["web"], keep_disks=False, force=True).raise_for_failure()
    assert world.host.left() == empty
    assert (world.names(), world.free_slots()) == ([], 16)
    assert world.ledger.operations(open_only=True) == ()


def test_deleting_one_half_made_vm_leaves_the_others_of_its_operation(world: World) -> None:
    world.host.refuse("start", OutcomeUnknown("cut"), times=2)
    _, outcome = world.engine.apply([vm("a"), vm("b")])
    world.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    assert [(each.name, each.state) for each in world.ledger.vms()] == [("b", VmState.RESERVED)]
    world.engine.resume(outcome.operation).raise_for_failure()
    assert world.vm("b").state is VmState.ACTIVE


def test_a_half_made_vm_that_runs_is_deleted_by_force_only(world: World) -> None:
    world.host.refuse("start", OutcomeUnknown("cut"), after=True)
    world.engine.apply([vm("web")])
    with pytest.raises(Conflict, match="still running"):
        world.engine.delete(["web"], keep_disks=False, force=False)
    assert world.host.domains_by_name["web"]
    world.engine.delete(["web"], keep_disks=False, force=True).raise_for_failure()
    assert (world.names(), world.host.domains_by_name) == ([], {})


def test_a_half_made_vm_that_cannot_be_taken_back_stays_and_says_why(world: World) -> None:
    world.host.refuse("start", OutcomeUnknown("cut"))
    world.engine.apply([FULL])
    world.host.refuse("mdev_remove", HostRefused("held"))
    with pytest.raises(HostRefused, match="held"):
        world.engine.delete(["web"], keep_disks=False, force=True)
    assert (world.names(), world.free_slots()) == (["web"], 12)
    world.engine.delete(["web"], keep_disks=False, force=True).raise_for_failure()
    assert (world.names(), world.free_slots()) == ([], 16)


@pytest.mark.parametrize("verb", ["destroy", "undefine", "volume_delete", "mdev_remove"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", [HostRefused("no"), OutcomeUnknown("cut")], ids=type)
def test_an_interrupted_delete_goes_on_with_the_same_command(
    world: World, empty: dict[str, object], verb: str, after: bool, error: HostRefused
) -> None:
    world.engine.apply([FULL])
    world.host.refuse(verb, error, after=after)
    outcome = world.engine.delete(["web"], keep_disks=False, force=True)
    with pytest.raises(type(error)):
        outcome.raise_for_failure()
    assert world.vm("web").state is VmState.DELETING
    assert world.free_slots() == 12, "units are free when the devices surely are"
    again = world.engine.delete(["web"], keep_disks=False, force=True)
    assert [each.state for each in again.vms] == [TaskState.DONE]
    assert world.host.left() == empty
    assert (world.names(), world.free_slots()) == ([], 16)


def test_a_delete_stuck_on_one_host_does_not_hold_up_another(tmp_path: Path) -> None:
    hosts = [FakeHost(name=f"h{n}", gpus=[t4(n)], parents=[t4_parent(n)]) for n in range(2)]
    world = World(tmp_path, *hosts)
    world.engine.apply([vm("a", "passthrough"), vm("b", "passthrough")])
    stuck = world.hosts[world.vm("a").host]
    stuck.down = True
    with pytest.raises(HostUnreachable):
        world.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    outcome = world.engine.delete(["a", "b"], keep_disks=False, force=True)
    assert [(each.vm, each.state) for each in outcome.done] == [("b", TaskState.DONE)]
    stuck.down = False
    world.engine.delete(["a"], keep_disks=False, force=True).raise_for_failure()
    assert world.names() == []
    world.close()


def test_apply_makes_anew_what_an_interrupted_delete_was_taking_away(world: World) -> None:
    world.engine.apply([FULL])
    first = world.vm("web").id
    world.host.refuse("undefine", OutcomeUnknown("cut"))
    world.engine.delete(["web"], keep_disks=False, force=True)
    world.engine.apply([FULL])[1].raise_for_failure()
    assert world.vm("web").id != first
    assert (len(world.host.mdevs), len(world.host.volumes)) == (1, 2)


def test_deleting_after_a_host_reboot_clears_the_claims(
    world: World, empty: dict[str, object]
) -> None:
    """The mdev is gone, its claim is not; a delete that is cut and resumed must see that."""
    world.engine.apply([FULL])
    world.host.reboot()
    world.host.refuse("mdev_remove", OutcomeUnknown("cut"))
    world.engine.delete(["web"], keep_disks=False, force=True)
    world.engine.delete(["web"], keep_disks=False, force=True).raise_for_failure()
    assert world.host.left() == empty


def test_a_domain_that_took_the_name_meanwhile_survives_the_delete(world: World) -> None:
    world.engine.apply([vm("web", "T4-4Q")])
    world.host.foreign_domain("web")
    world.engine.delete(["web"], keep_disks=False, force=True).raise_for_failure()
    assert world.host.left()["domains"] == {"web": "running"}
    assert (world.host.mdevs, world.names()) == ({}, [])


# -- power -------------------------------------------------------------------------------------


def test_a_start_after_a_host_reboot_makes_the_same_mdev_again(world: World) -> None:
    world.engine.apply([vm("web", "T4-4Q")])
    before = dict(world.host.mdevs)
    world.host.reboot()
    world.host.calls.clear()
    world.engine.start(["web"]).raise_for_failure()
    assert world.host.mdevs == before
    assert effects(world.host) == ["mdev_create", "start"]


def test_a_lost_domain_is_defined_again_before_the_start(world: World) -> None:
    world.engine.apply([FULL])
    xml = world.host.xml_by_name["web"]
    world.host.domains_by_name.clear()
    world.host.xml_by_name.clear()
    world.host.calls.clear()
    world.engine.start(["web"]).raise_for_failure()
    assert effects(world.host) == ["mdev_create", "define", "start"]
    assert world.host.xml_by_name["web"] == xml


def test_a_start_of_a_defined_domain_leaves_its_definition_alone(world: World) -> None:
    """It was defined after the last observation: the host is asked anew."""
    world.engine.apply([vm("web")])
    world.host.calls.clear()
    world.engine.start(["web"]).raise_for_failure()
    assert effects(world.host) == ["start"]


def test_stop_waits_for_the_guest(world: World) -> None:
    world.engine.apply([vm("web")])
    world.engine.stop_vms(["web"], force=False, timeout_s=5).raise_for_failure()
    assert world.host.left()["domains"] == {"web": "shutoff"}
    assert world.vm("web").running is False
    world.engine.start(["web"])
    assert world.vm("web").running is True


def test_a_guest_that_ignores_acpi_needs_force(world: World) -> None:
    world.engine.apply([vm("web")])
    world.host.guests_ignore_acpi = True
    started = world.clock.now()
    with pytest.raises(DeadlineExceeded, match="did not power off in 7 s") as caught:
        world.engine.stop_vms(["web"], force=False, timeout_s=7).raise_for_failure()
    assert caught.value.next == "vgpumgr vm stop web --force"
    assert 7 <= world.clock.now() - started < 8
    assert world.vm("web").running is True
    world.engine.stop_vms(["web"], force=True, timeout_s=7).raise_for_failure()


def test_a_domain_that_is_shutting_down_is_not_off_yet(world: World) -> None:
    world.engine.apply([vm("web")])
    domain = world.host.domains_by_name["web"]
    world.host.domains_by_name["web"] = replace(domain, state=DomainState.OTHER)
    with pytest.raises(Conflict, match="still running"):
        world.engine.delete(["web"], keep_disks=False, force=False)
    world.engine.stop_vms(["web"], force=True, timeout_s=1).raise_for_failure()
    assert "destroy" in effects(world.host)


@pytest.mark.parametrize(("force", "calls"), [(False, ["reboot"]), (True, ["destroy", "start"])])
def test_reboot(world: World, force: bool, calls: list[str]) -> None:
    world.engine.apply([vm("web")])
    world.host.calls.clear()
    world.engine.reboot(["web"], force=force).raise_for_failure()
    assert effects(world.host) == calls


def test_a_foreign_domain_is_never_stopped(world: World) -> None:
    world.engine.apply([vm("web")])
    world.host.foreign_domain("web")
    with pytest.raises(Conflict, match="not ours"):
        world.engine.stop_vms(["web"], force=True, timeout_s=1).raise_for_failure()
    assert world.host.left()["domains"] == {"web": "running"}


def test_a_start_that_ends_at_once_is_a_refusal(world: World) -> None:
    world.engine.apply([vm("web")])
    world.engine.stop_vms(["web"], force=True, timeout_s=1)
    world.host.domains._start = lambda name: None  # type: ignore[method-assign]
    with pytest.raises(HostRefused, match="started and stopped again"):
        world.engine.start(["web"]).raise_for_failure()


def test_a_pool_that_vanished_is_told_and_no_traceback(world: World) -> None:
    world.engine.apply([FULL])
    world.host.domains_by_name.clear()
    world.host.pools = ()
    with pytest.raises(NotFound, match="shows no storage pool default"):
        world.engine.start(["web"])
