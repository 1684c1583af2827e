"""A host that has booted gets back what is ours, under the ids it had, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import FakeHost
from tests.serving import Killed, Served, kill_at, live_on, serving
from tests.simworld import SimWorld, host
from tests.simworld import vm as small
from tests.unit.engine.test_amnesia import blank
from tests.world import World, effects, vm
from vgpumgr.engine.controller import host_cycle
from vgpumgr.engine.controller.controller_events import EventKind
from vgpumgr.engine.controller.cycle_context import HostCycle
from vgpumgr.engine.controller.operation_recovery import RecoveryReport, recover
from vgpumgr.engine.planning.vm_plan import make_plan
from vgpumgr.model.domain import DomainState
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.host import HostFacts, UnknownPart
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal
from vgpumgr.model.vm import Affinity

pytestmark = pytest.mark.thorough


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.engine.apply([vm("a", "T4-4Q"), vm("b", "T4-4Q")])
    yield made
    made.close()


@pytest.fixture
def served(world: World) -> Served:
    """A controller that has seen the host whole."""
    made = serving(world)
    made.serve(2)
    assert made.kinds() == []
    return made


def runs(world: World, name: str) -> bool:
    return world.host.domains_by_name[name].state is DomainState.RUNNING


def refused(world: World) -> str:
    """Why the host takes no new VM now; empty where it does."""
    plan = make_plan(world.engine.view(), [vm("new", "T4-4Q")], world.engine.place)
    return plan.unplaced[0].reasons[0].text if plan.unplaced else ""


def test_after_a_reboot_the_vms_run_again_with_the_devices_they_had(
    world: World, served: Served
) -> None:
    before = dict(world.host.mdevs)
    world.host.reboot()
    served.serve(31)
    assert world.host.mdevs == before
    assert runs(world, "a") and runs(world, "b")
    assert [kind for kind in served.kinds() if kind is not EventKind.TASK_ENDED] == [
        EventKind.HOST_REBOOTED,
        EventKind.HOST_RESTORED,
    ]
    assert served.state() == "ok"


def test_a_reboot_that_another_command_saw_first_is_seen(world: World, served: Served) -> None:
    world.host.reboot()
    world.engine.refresh()
    served.serve(31)
    assert runs(world, "a") and runs(world, "b")


def test_a_reboot_before_the_controller_first_came_is_seen(world: World) -> None:
    world.host.reboot()
    serving(world).serve(2)
    assert runs(world, "a")


def test_a_reboot_in_the_middle_of_a_turn_is_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends what a dead worker left, and the host boots meanwhile."""
    made, boots = serving(world), iter([world.host.reboot])

    def recover_while_it_boots(of: HostCycle) -> RecoveryReport:
        found = recover(of)
        next(boots, lambda: None)()
        return replace(found, worked=True)

    monkeypatch.setattr(host_cycle, "recover", recover_while_it_boots)
    made.serve(62)
    assert runs(world, "a") and runs(world, "b")
    assert EventKind.HOST_RESTORED in made.kinds()


def test_a_reboot_in_the_middle_of_a_look_is_no_difference(world: World, served: Served) -> None:
    """What a look is made of comes from before the boot and from after it."""
    probe, before = world.host.probe, world.host.probe().boot_id
    world.host.reboot()

    def from_both_sides() -> HostFacts:
        world.host.probe = probe  # type: ignore[method-assign]
        return replace(probe(), boot_id=before)

    world.host.probe = from_both_sides  # type: ignore[method-assign]
    served.serve(62)
    assert runs(world, "a") and runs(world, "b")
    assert EventKind.DRIFT not in served.kinds()
    assert EventKind.HOST_RESTORED in served.kinds()


def test_what_an_operator_stopped_stays_off(world: World, served: Served) -> None:
    world.engine.stop_vms(["a"], force=True, timeout_s=1)
    world.host.reboot()
    served.serve(31)
    assert (runs(world, "a"), runs(world, "b")) == (False, True)


def test_a_guest_that_shut_itself_down_is_told_and_not_started(
    world: World, served: Served
) -> None:
    facts = world.host.domains_by_name["a"]
    world.host.domains_by_name["a"] = replace(facts, state=DomainState.SHUTOFF)
    served.serve(100)
    (event,) = served.told(EventKind.DRIFT)
    assert (event.drift, event.vm, event.next) == ("power", "a", "vgpumgr vm start a")
    assert not runs(world, "a")
    assert len(world.ledger.operations()) == 1


def test_no_new_vm_is_placed_until_the_host_is_whole(world: World, served: Served) -> None:
    assert refused(world) == ""
    world.host.refuse("start", HostRefused("libvirt said no"), about="'b'", times=3)
    world.host.reboot()
    served.serve(25)
    world.engine.refresh()
    assert "rebooted: vgpumgr serve is restoring its state" in refused(world)
    assert runs(world, "a")
    served.serve(60)
    assert runs(world, "b")
    assert refused(world) == ""
    (waits,) = served.told(EventKind.HOST_WAITS)
    assert "b: libvirt said no" in waits.text


def test_what_cannot_start_is_not_tried_without_end(world: World, served: Served) -> None:
    world.host.refuse("start", HostRefused("libvirt said no"), about="'b'", times=10_000)
    world.host.reboot()
    served.serve(600, beat_s=20)
    tries = sum(name == "start" for name in effects(world.host))
    assert tries <= 16
    assert served.state() == "returning"


def test_uncordon_takes_a_host_as_it_is(world: World, served: Served) -> None:
    world.host.refuse("start", HostRefused("libvirt said no"), about="'b'", times=10_000)
    world.host.reboot()
    served.serve(40)
    world.engine.undrain("h1")
    served.serve(40)
    assert refused(world) == ""
    assert {e.drift for e in served.told(EventKind.DRIFT)} >= {str(DriftKind.POWER)}


def test_nothing_is_started_while_libvirt_cannot_be_asked(world: World, served: Served) -> None:
    world.host.reboot()
    world.host.unknown = (UnknownPart(part="libvirt", why="it starts"),)
    calls = effects(world.host)
    served.serve(40)
    assert effects(world.host) == calls
    assert served.state() == "returning"
    world.host.unknown = ()
    served.serve(31)
    assert runs(world, "a")


def test_a_vm_that_was_seen_running_elsewhere_is_not_started_again(tmp_path: Path) -> None:
    world = World(tmp_path, FakeHost("h1"), FakeHost("h2", gpus=[], parents=[]))
    world.engine.apply([vm("a", "T4-4Q")])
    served = serving(world)
    served.serve(2)
    mark = world.host.domains_by_name["a"].ownership
    other = world.hosts["h2"]
    other.foreign_domain("a")
    other.domains_by_name["a"] = replace(other.domains_by_name["a"], ownership=mark)
    served.serve(31)
    world.host.reboot()
    served.serve(31)
    assert not runs(world, "a")
    (waits,) = {event.text for event in served.told(EventKind.HOST_WAITS)} - {""}
    assert "a domain of it was seen running on h2" in waits
    world.close()


def test_a_frozen_ledger_starts_nothing(world: World, served: Served) -> None:
    world.ledger.freeze("hosts know more")
    world.host.reboot()
    served.serve(31)
    assert not runs(world, "a")
    assert "hosts know more" in served.told(EventKind.HOST_WAITS)[0].text
    assert "hosts know more" in served.told(EventKind.LEDGER_FROZEN)[0].text
    assert served.status.frozen == "hosts know more"
    assert len(world.ledger.operations()) == 1


def test_on_a_host_that_was_installed_anew_nothing_is_made_again(tmp_path: Path) -> None:
    world = SimWorld(tmp_path, host("T4"), host("T4", name="h2"))
    world.apply(small("a", "T4-4Q", affinity=Affinity(hosts=("h1",))))
    served = Served(world.engine)
    served.controller.once()
    world.sim.inject("h1", ["reboot"])
    blank(world, "h1")
    served.controller.once()
    assert world.facts().domains == ()
    assert len(world.ledger.operations()) == 1
    assert any("reinstalled" in event.text for event in served.told(EventKind.HOST_WAITS))
    world.close()


def test_a_host_in_maintenance_is_left_alone(world: World, served: Served) -> None:
    world.engine.stop_vms(["a", "b"], force=True, timeout_s=1)
    world.engine.enter_maintenance("h1")
    world.host.down = True
    served.serve(100)
    assert served.state() == "maintenance"
    assert served.kinds() == []


def test_a_controller_killed_while_it_restores_is_followed_by_one_that_goes_on(
    world: World, served: Served
) -> None:
    world.host.reboot()
    kill_at(world, "start", after=1)
    with pytest.raises(Killed):
        served.serve(31)
    live_on(world)
    world.restart()
    serving(world).serve(31)
    assert runs(world, "a") and runs(world, "b")
    assert world.settled()


LAYOUTS = {
    "vfs": ("L40S", GpuLayout(vfs=VFS_MAX, mixed_size=True), ("L40S-8Q", "L40S-16Q")),
    "mig": (
        "A100-PCIE-80GB",
        GpuLayout(mig=True, vfs=VFS_MAX, instances=(InstanceGoal(profile="3g.40gb"),)),
        ("3g.40gb",),
    ),
    "passthrough": ("L40S", GpuLayout(), ("passthrough",)),
}


@pytest.mark.parametrize(("board", "layout", "profiles"), LAYOUTS.values(), ids=LAYOUTS)
def test_layouts_come_back_before_the_vms(
    tmp_path: Path, board: str, layout: GpuLayout, profiles: tuple[str, ...]
) -> None:
    """The host itself restores nothing: it has no boot unit."""
    world = SimWorld(tmp_path, host(board))
    world.cut(layout)
    world.apply(*(small(f"v{number}", each) for number, each in enumerate(profiles)))
    served = Served(world.engine)
    served.controller.once()
    devices = {each.name: each.devices for each in world.facts().domains}
    world.sim.inject("h1", ["reboot"])
    status = served.controller.once()
    assert [each.state for each in status.hosts] == ["ok"], served.events
    found = world.facts().domains
    assert {each.name: each.devices for each in found} == devices
    assert {each.state for each in found} == {DomainState.RUNNING}
    assert not world.engine.drift().drifts
    assert EventKind.HOST_RESTORED in served.kinds()
    world.close()


def test_a_gpu_that_cannot_be_partitioned_again_keeps_only_its_own_vms(tmp_path: Path) -> None:
    world = SimWorld(tmp_path, host("A100-PCIE-80GB", "L40S"))
    world.cut(GpuLayout(vfs=VFS_MAX))
    world.apply(small("held", "A100D-8C"), small("free", "L40S-8Q"))
    served = Served(world.engine)
    served.controller.once()
    world.sim.inject("h1", ["reboot"])
    world.sim.inject("h1", ["gpu", world.gpu(0).device, "fail", "unbind", "50"])
    status = served.controller.once()
    assert [each.state for each in status.hosts] == ["returning"]
    states = {each.name: each.state for each in world.facts().domains}
    assert states == {"held": DomainState.SHUTOFF, "free": DomainState.RUNNING}
    world.sim.inject("h1", ["clear"])
    end = time.monotonic() + 60
    while [each.state for each in status.hosts] != ["ok"]:  # it pauses before it tries again
        assert time.monotonic() < end, served.events
        status = served.controller.once()
    world.close()


def test_no_new_vm_is_placed_on_a_host_that_is_being_shut_down(world: World) -> None:
    probe = world.host.probe
    world.host.probe = lambda: replace(probe(), stopping=True)  # type: ignore[method-assign]
    world.engine.refresh()
    assert "it is being shut down" in refused(world)


def test_what_is_left_off_at_a_first_look_is_told_by_name(world: World) -> None:
    """The host booted, and another command looked at it before the first controller came."""
    world.host.reboot()
    world.engine.refresh()
    served = serving(world)
    served.serve(2)
    found = [e for e in served.told(EventKind.HOST_WAITS) if "left off" in e.text]
    assert len(found) == 1
    told = found[0]
    assert "a, b" in told.text
    assert told.next.startswith("vgpumgr vm start ")
