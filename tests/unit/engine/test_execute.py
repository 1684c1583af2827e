"""What apply does on a host, in which order, and what is left when the host says no."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.fakes import FakeHost, t4, t4_parent
from tests.world import World, vm, with_disk
from vgpumgr.model.allocation import AllocationState
from vgpumgr.model.domain import DomainState, VolumeFacts
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    InUse,
    LedgerError,
    OutcomeUnknown,
    PartlyDone,
)
from vgpumgr.model.operation import (
    OperationState,
    StepMoved,
    StepState,
    TaskMoved,
    TaskState,
    Transition,
)
from vgpumgr.model.vm import VmState

EFFECTS = {"mdev_create", "vfio_bind", "volume_create", "upload", "define", "start"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


class Listening:
    """A ledger that tells of every ``record`` before and after it; the rest goes through."""

    def __init__(self, ledger: object, heard: list[object]) -> None:
        self._ledger = ledger
        self._heard = heard

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    def record(self, *transitions: Transition) -> None:
        self._ledger.record(*transitions)  # type: ignore[attr-defined]
        self._heard.append(transitions)


def moves(heard: Sequence[object]) -> list[list[tuple[int, StepState]]]:
    """Per commit, the steps that moved."""
    return [
        [(each.seq, each.state) for each in entry if isinstance(each, StepMoved)]
        for entry in heard
        if isinstance(entry, tuple)
    ]


def test_a_vm_with_everything_runs_after_apply(world: World) -> None:
    plan, outcome = world.engine.apply([with_disk("web", "T4-4Q")])
    outcome.raise_for_failure()
    assert plan.changes == 1
    host = world.host
    assert [d.state for d in host.domains_by_name.values()] == [DomainState.RUNNING]
    assert list(host.mdevs.values()) == [("0000:41:00.0", "nvidia-232")]
    assert len(host.volumes) == 2
    assert len(host.uploads) == 1
    record = world.vm("web")
    assert (record.state, record.running) == (VmState.ACTIVE, True)
    (held,) = world.ledger.allocations()
    assert held.state is AllocationState.ACTIVE
    assert host.domains_by_name["web"].devices == (held.device,)
    assert world.settled()


def test_no_effect_starts_before_its_intent_is_on_disk(world: World) -> None:
    heard: list[object] = []
    world.host.on_call = heard.append
    engine = world.engine_over(Listening(world.ledger, heard))  # type: ignore[arg-type]
    engine.apply([with_disk("web", "T4-4Q")])
    intended, effects = 0, 0
    for each in heard:
        if isinstance(each, tuple):
            intended += sum(seq[1] is StepState.INTENT for seq in moves([each])[0])
        elif each in EFFECTS - {"upload"}:
            effects += 1
            assert effects <= intended
    assert effects == 5


def test_the_confirm_of_a_step_and_the_intent_of_the_next_are_one_commit(world: World) -> None:
    heard: list[object] = []
    engine = world.engine_over(Listening(world.ledger, heard))  # type: ignore[arg-type]
    engine.apply([vm("web", "T4-4Q")])
    intent, done = StepState.INTENT, StepState.DONE
    assert moves(heard) == [
        [(0, intent)],
        [(0, done), (1, intent)],
        [(1, done), (2, intent)],
        [(2, done)],
        [],
    ]
    last = heard[-2]
    assert isinstance(last, tuple)
    assert isinstance(last[-1], TaskMoved)
    assert last[-1].state is TaskState.DONE


@pytest.mark.parametrize("verb", ["mdev_create", "volume_create", "upload", "define", "start"])
def test_a_refusal_anywhere_takes_everything_back(world: World, verb: str) -> None:
    before = world.host.left()
    world.host.refuse(verb)
    _, outcome = world.engine.apply([with_disk("web", "T4-4Q")])
    with pytest.raises(HostRefused, match="the kernel said no"):
        outcome.raise_for_failure()
    assert world.host.left() == before
    assert world.names() == []
    assert world.free_slots() == 16
    assert outcome.state is OperationState.UNDONE
    assert world.ledger.operation(outcome.operation).state is OperationState.UNDONE
    assert [a.state for a in world.ledger.allocations(released=True)] == [AllocationState.RELEASED]


def test_undo_goes_in_reverse(world: World) -> None:
    world.host.refuse("start")
    world.engine.apply([with_disk("web", "T4-4Q")])
    undoing = {"undefine", "volume_delete", "mdev_remove"}
    assert [name for name, _ in world.host.calls if name in undoing] == [
        "undefine",
        "volume_delete",
        "volume_delete",
        "mdev_remove",
    ]


def test_a_whole_gpu_goes_back_to_its_driver_when_the_start_is_refused(tmp_path: Path) -> None:
    audio = "0000:41:00.1"
    gpu = t4(0, group_devices=("0000:41:00.0", audio))
    world = World(tmp_path, FakeHost(gpus=[gpu]))
    world.host.drivers[audio] = "snd"
    before = world.host.left()
    world.host.refuse("start")
    world.engine.apply([vm("big", "passthrough")])
    assert "vfio_bind" in {name for name, _ in world.host.calls}
    assert world.host.left() == before
    world.close()


def test_one_refused_vm_leaves_the_others_running(world: World) -> None:
    world.host.refuse("define", about=">b<")
    _, outcome = world.engine.apply([vm("a"), vm("b"), vm("c")])
    with pytest.raises(PartlyDone, match="2 of 3"):
        outcome.raise_for_failure()
    assert world.names() == ["a", "c"]
    assert outcome.state is OperationState.PARTLY
    world.engine.apply([vm("a"), vm("b"), vm("c")])[1].raise_for_failure()
    assert world.names() == ["a", "b", "c"]


def foreign_domain_appears(world: World, name: str) -> None:
    """Somebody makes it with virsh after the plan was made."""

    def appear(call: str) -> None:
        if call == "mdev_create":
            world.host.foreign_domain(name)

    world.host.on_call = appear


def test_a_foreign_domain_of_the_same_name_survives(world: World) -> None:
    before = world.host.left()
    foreign_domain_appears(world, "web")
    _, outcome = world.engine.apply([with_disk("web", "T4-4Q")])
    with pytest.raises(Conflict, match="not ours"):
        outcome.raise_for_failure()
    assert world.host.left() == {**before, "domains": {"web": "running"}}
    assert world.names() == []


def test_a_foreign_thing_stays_untouched_when_the_undo_has_to_be_tried_again(
    world: World,
) -> None:
    foreign_domain_appears(world, "web")
    world.host.refuse("mdev_remove")
    _, outcome = world.engine.apply([vm("web", "T4-4Q")])
    assert [each.state for each in outcome.vms] == [TaskState.UNDOING]
    assert world.free_slots() == 12, "units are held while something of them may stand"
    world.engine.undo(outcome.operation)
    assert world.host.left()["domains"] == {"web": "running"}
    assert world.host.mdevs == {}
    assert world.free_slots() == 16
    assert world.names() == []


def test_a_foreign_volume_of_the_same_name_survives(world: World) -> None:
    def be_first(name: str) -> None:
        if name == "volume_look":
            volume = str(world.host.calls[-1][1][0])
            world.host.volumes["default", volume] = VolumeFacts(
                pool="default", name=volume, path="/theirs", capacity_bytes=1, format="raw"
            )

    world.host.on_call = be_first
    world.host.refuse("mdev_remove")
    _, outcome = world.engine.apply([with_disk("web", "T4-4Q")])
    with pytest.raises(Conflict, match="exists already"):
        outcome.raise_for_failure()
    world.engine.undo(outcome.operation)
    assert [volume.path for volume in world.host.volumes.values()] == ["/theirs"]
    assert world.names() == []


def test_a_gpu_that_another_fleet_took_meanwhile_is_left_to_it(world: World) -> None:
    world.host.refuse("vfio_bind", OutcomeUnknown("cut"))
    _, outcome = world.engine.apply([vm("big", "passthrough")])
    theirs = {"fleet": "other", "allocation": "x", "generation": 1, "vm": "y"}
    world.host.claims["pci-0000:41:00.0"] = theirs
    world.host.drivers["0000:41:00.0"] = "vfio-pci"
    undone = world.engine.undo(outcome.operation)
    assert [each.state for each in undone.vms] == [TaskState.UNDONE]
    assert world.host.drivers["0000:41:00.0"] == "vfio-pci"
    assert world.free_slots() == 16


@pytest.mark.parametrize("on", [True, False])
def test_a_cut_before_the_autostart_flag_is_seen(world: World, on: bool) -> None:
    """The definition stands, the flag beside it does not: that is not yet as wanted."""
    if not on:
        world.engine.apply([vm("web", autostart=True)])
    world.host.refuse("autostart", OutcomeUnknown("cut"))
    for _ in range(2):
        _, outcome = world.engine.apply([vm("web", autostart=on)])
    outcome.raise_for_failure()
    assert world.host.domains_by_name["web"].autostart is on
    assert world.settled()


def test_an_mdev_under_another_claim_is_never_removed(world: World) -> None:
    """The helper refuses; what carries no claim of ours is not ours to take back."""
    world.host.refuse("mdev_create", Conflict("claimed otherwise"))
    _, outcome = world.engine.apply([vm("web", "T4-4Q")])
    with pytest.raises(Conflict, match="claimed otherwise"):
        outcome.raise_for_failure()
    assert "mdev_remove" not in {name for name, _ in world.host.calls}
    assert world.free_slots() == 16


def test_a_gpu_in_use_is_given_back_whole(world: World) -> None:
    """In use may come after the claim was written: whatever stands under it is released."""
    world.host.refuse("vfio_bind", InUse("busy"), after=True)
    before = world.host.left()
    _, outcome = world.engine.apply([vm("big", "passthrough")])
    with pytest.raises(InUse):
        outcome.raise_for_failure()
    assert world.host.left() == before


def test_an_undo_that_fails_waits_with_its_units_held(world: World) -> None:
    world.host.refuse("start")
    world.host.refuse("mdev_remove", InUse("still open"))
    _, outcome = world.engine.apply([vm("web", "T4-4Q")])
    assert [each.state for each in outcome.vms] == [TaskState.UNDOING]
    assert outcome.state is OperationState.INTERRUPTED
    assert world.free_slots() == 12
    again = world.engine.undo(outcome.operation[:8])
    assert [each.state for each in again.vms] == [TaskState.UNDONE]
    assert (world.host.mdevs, world.free_slots()) == ({}, 16)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", [OutcomeUnknown("cut"), DeadlineExceeded("cut")], ids=type)
@pytest.mark.parametrize("verb", ["mdev_create", "volume_create", "upload", "define", "start"])
def test_after_a_cut_call_a_look_decides(
    world: World, verb: str, error: Exception, after: bool
) -> None:
    """The call may have had its effect or not: the VM waits, and the next apply finishes it."""
    world.host.refuse(verb, error, after=after)  # type: ignore[arg-type]
    spec = with_disk("web", "T4-4Q")
    _, outcome = world.engine.apply([spec])
    assert [each.state for each in outcome.vms] == [TaskState.RUNNING]
    assert world.free_slots() == 12
    with pytest.raises(type(error)):
        outcome.raise_for_failure()
    _, again = world.engine.apply([spec])
    again.raise_for_failure()
    assert [each.state for each in again.vms] == [TaskState.DONE]
    left = world.host.left()
    assert left["domains"] == {"web": "running"}
    assert left["claims"] == ["web"]
    assert (len(world.host.mdevs), len(world.host.volumes)) == (1, 2)
    assert world.settled()


def test_a_copy_that_was_cut_is_made_anew_and_not_taken_for_whole(world: World) -> None:
    world.host.refuse("volume_create", OutcomeUnknown("cut"), after=True)
    world.engine.apply([with_disk("web", "")])
    world.engine.apply([with_disk("web", "")])
    names = [name for name, _ in world.host.calls if name in {"volume_create", "volume_delete"}]
    assert names == ["volume_create", "volume_delete", "volume_create", "volume_create"]


def test_what_cannot_be_looked_at_stops_and_is_never_acted_upon(world: World) -> None:
    world.host.refuse("mdev_create", OutcomeUnknown("cut"))
    _, outcome = world.engine.apply([vm("web", "T4-4Q")])
    world.host.refuse("mdev_look", OutcomeUnknown("unreadable"))
    world.host.calls.clear()
    again = world.engine.resume(outcome.operation)
    assert [each.state for each in again.vms] == [TaskState.RUNNING]
    assert [name for name, _ in world.host.calls] == ["mdev_look"]


def test_a_host_lost_in_the_middle_leaves_the_others_done(tmp_path: Path) -> None:
    hosts = [FakeHost(name=f"h{n}", gpus=[t4(n)], parents=[t4_parent(n)]) for n in range(3)]
    world = World(tmp_path, *hosts)
    specs = [vm(f"vm{n}", "passthrough") for n in range(3)]
    lost = hosts[1]

    def lose(name: str) -> None:
        if name == "define":
            lost.down = True

    lost.on_call = lose
    lost.refuse("define", HostUnreachable("the connection broke"))
    _, outcome = world.engine.apply(specs)
    with pytest.raises(PartlyDone, match="2 of 3") as caught:
        outcome.raise_for_failure()
    assert caught.value.exit_status == 7
    (waiting,) = [each for each in outcome.vms if each.state is not TaskState.DONE]
    assert waiting.host == "h1"
    assert [len(host.domains_by_name) for host in hosts] == [1, 0, 1]

    _, still = world.engine.apply([*specs, vm("more")])
    with pytest.raises(PartlyDone):
        still.raise_for_failure()
    assert "more" in world.names(), "a lost host does not hold up the others"

    lost.down, lost.on_call = False, lambda _: None
    world.engine.apply(specs)[1].raise_for_failure()
    assert world.settled()
    assert lost.left()["domains"] == {waiting.vm: "running"}
    assert world.free_slots() == 0
    world.close()


def test_a_lane_ends_at_the_first_unreachable_call(world: World) -> None:
    world.engine.refresh()
    specs = [vm("a"), vm("b")]
    world.host.on_call = lambda _: setattr(world.host, "down", True)
    _, outcome = world.engine.apply(specs)
    assert [each.state for each in outcome.vms] == [TaskState.RUNNING, TaskState.PENDING]


def test_a_ledger_that_fails_stops_before_the_effect(world: World) -> None:
    class Full(Listening):
        def record(self, *transitions: Transition) -> None:
            if not self._heard and any(isinstance(t, StepMoved) and t.seq for t in transitions):
                self._heard.append("once")
                raise LedgerError("the disk is full")
            self._ledger.record(*transitions)  # type: ignore[attr-defined]

    engine = world.engine_over(Full(world.ledger, []))  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="the disk is full"):
        engine.apply([vm("web", "T4-4Q")])
    assert [name for name, _ in world.host.calls if name != "probe"] == ["mdev_create"]
    world.restart().apply([vm("web", "T4-4Q")])[1].raise_for_failure()
    assert world.settled()


def test_what_libvirt_drops_is_a_refusal(world: World) -> None:
    define = world.host.domains._define

    def forgetful(xml: str) -> str:
        define(xml)
        return xml.replace("<hostdev", "<x-hostdev").replace("</hostdev", "</x-hostdev")

    world.host.domains._define = forgetful  # type: ignore[method-assign]
    _, outcome = world.engine.apply([vm("web", "T4-4Q")])
    with pytest.raises(HostRefused, match="did not take all") as caught:
        outcome.raise_for_failure()
    assert "hostdev" in caught.value.why
    assert world.host.domains_by_name == {}


def test_a_missing_image_is_told_before_anything_is_reserved(world: World) -> None:
    world.host.images.clear()
    with pytest.raises(Exception, match=r"disk image debian.qcow2 is not in pool default"):
        world.engine.apply([with_disk("web")])
    assert world.names() == []
    assert world.ledger.operations() == ()


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        ({"format": "raw"}, "is raw, not qcow2"),
        ({"backing": "/etc/shadow"}, "backing file outside the pool"),
        ({"backing": "nbd:10.0.0.1:1"}, "backing file outside the pool"),
        ({"data_file": "/dev/sda"}, "data in another file"),
    ],
)
def test_an_image_that_reaches_outside_is_refused(
    world: World, seen: dict[str, object], says: str
) -> None:
    world.host.images["debian.qcow2"] = seen
    with pytest.raises(Exception, match=says):
        world.engine.apply([with_disk("web")])
    assert world.names() == []
