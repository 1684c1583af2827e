"""Moves between two hosts: what is asked before, what is done, and what both hosts show after."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.movers import (
    BYTES,
    NEW,
    assert_settled_on,
    desk,
    make,
    mover,
    running,
    two_hosts,
)
from tests.world import IMAGE, World
from vgpumgr.engine.execute import by_lane
from vgpumgr.engine.steps import MoveDomain, from_record
from vgpumgr.engine.supply import build_fleet
from vgpumgr.model.domain import DomainState, KeptBeside, VolumeFacts
from vgpumgr.model.errors import (
    Conflict,
    HostRefused,
    HostUnreachable,
    Interrupted,
    NoPlacement,
    NotFound,
    OutcomeUnknown,
    StaleGeneration,
    VgpumgrError,
)
from vgpumgr.model.host import NumaNode
from vgpumgr.model.journal import TaskRecord
from vgpumgr.model.migration import LiveMove, MoveProgress
from vgpumgr.model.vm import Affinity, DiskMode, DiskSpec, GpuRequest, VmState


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = two_hosts(tmp_path)
    make(made, desk())
    yield made
    made.close()


def moved(world: World, **options: object) -> None:
    world.engine.migrate("desk", "h2", **options).raise_for_failure()  # type: ignore[arg-type]


def refused(world: World, kind: type[VgpumgrError], *, cold: bool = False) -> str:
    """The refusal's words; nothing was changed on either host or in the ledger."""
    before = [host.left() for host in world.hosts.values()]
    with pytest.raises(VgpumgrError) as raised:
        world.engine.migrate("desk", "h2", cold=cold)
    assert type(raised.value) is kind, raised.value.why
    assert [host.left() for host in world.hosts.values()] == before
    assert world.vm("desk").state is VmState.ACTIVE
    assert len(world.ledger.allocations()) <= 1
    assert raised.value.next
    return f"{raised.value.message} {raised.value.why}"


# -- what is done --------------------------------------------------------------------------------


def test_a_running_vm_moves_with_a_new_device_and_its_own_identity(world: World) -> None:
    before, [old] = world.vm("desk"), world.ledger.allocations()
    moved(world)
    assert_settled_on(world, "h2")
    after, [new] = world.vm("desk"), world.ledger.allocations()
    assert (after.id, after.volumes, after.running) == (before.id, before.volumes, True)
    assert new.id != old.id and new.device != old.device and new.profile == old.profile
    [sent] = [args[0] for name, args in world.hosts["h1"].calls if name == "migrate"]
    assert isinstance(sent, LiveMove)
    assert sent.copied == ("vda",)
    assert new.device in sent.live_xml and new.device in sent.persistent_xml
    assert old.device not in sent.live_xml + sent.persistent_xml
    assert before.id in sent.persistent_xml
    assert old.id in {each.id for each in world.ledger.allocations(released=True)}


def test_the_seed_goes_along_though_qemu_copies_no_cdrom(world: World) -> None:
    seeds = {name for _, name in world.hosts["h1"].volumes if name.endswith(".iso")}
    content = [world.hosts["h1"].uploads[name] for name in seeds]
    moved(world)
    assert [world.hosts["h2"].uploads[name] for name in seeds] == content


def test_a_cold_move_stops_carries_and_starts(world: World) -> None:
    moved(world, cold=True)
    assert_settled_on(world, "h2")
    h1 = [name for name, _ in world.hosts["h1"].calls]
    assert "migrate" not in h1
    assert h1.index("shutdown") < h1.index("copy_to")
    assert BYTES in world.hosts["h2"].uploads.values()


def test_a_vm_that_is_off_stays_off(world: World) -> None:
    world.engine.stop_vms(["desk"], force=True, timeout_s=1.0)
    moved(world)
    assert_settled_on(world, "h2", runs=False)
    assert not world.vm("desk").running


def test_whole_gpus_move_cold(tmp_path: Path) -> None:
    world = two_hosts(tmp_path)
    make(world, desk("passthrough"))
    assert "cannot move while desk runs" in refused(world, Conflict)
    moved(world, cold=True)
    assert_settled_on(world, "h2")
    assert world.hosts["h1"].drivers["0000:41:00.0"] == "nvidia"
    world.close()


def test_a_vm_without_gpu_moves_between_older_hosts(tmp_path: Path) -> None:
    old = replace(NEW, libvirt="9.0.0", qemu="7.2.0")
    world = two_hosts(tmp_path, mover("h1", 1, versions=old), mover("h2", 2, versions=old))
    make(world, desk(profile=""))
    moved(world)
    assert_settled_on(world, "h2")
    world.close()


def test_it_moves_back(world: World) -> None:
    moved(world)
    world.engine.migrate("desk", "h1").raise_for_failure()
    assert_settled_on(world, "h1")


def test_pinning_is_fitted_to_the_target(tmp_path: Path) -> None:
    nodes = (NumaNode(id=0, cpus=(8, 9, 10, 11), memory_mib=65536),)
    world = two_hosts(tmp_path, mover("h1", 1), mover("h2", 2, numa=nodes))
    make(world, desk(pin_cpus=True))
    assert world.vm("desk").cpus == (0, 1)
    moved(world)
    assert world.vm("desk").cpus == (8, 9)
    xml = world.hosts["h2"].xml_by_name["desk"]
    assert 'cpuset="8"' in xml and 'cpuset="0"' not in xml
    world.close()


def test_disks_on_a_shared_pool_stay(tmp_path: Path) -> None:
    hosts = [mover(name, n, pool_kind="netfs") for n, name in enumerate(("h1", "h2"), 1)]
    hosts[1].volumes = hosts[0].volumes
    hosts[1].uploads = hosts[0].uploads
    world = two_hosts(tmp_path, *hosts)
    make(world, desk())
    before = set(hosts[0].volumes)
    moved(world)
    assert set(hosts[1].volumes) == before and before
    called = {name for host in hosts for name, _ in host.calls}
    assert not called & {"copy_to", "volume_delete"}
    world.close()


def test_autostart_is_never_set_on_both(world: World) -> None:
    seen: list[int] = []

    def look(_: str) -> None:
        found = (host.domains_by_name.get("desk") for host in world.hosts.values())
        seen.append(sum(each is not None and each.autostart for each in found))

    for host in world.hosts.values():
        host.on_call = look
    moved(world, cold=True)
    assert max(seen) == 1


def test_progress_is_told(world: World) -> None:
    lines: list[str] = []
    engine = replace(world.engine, tell=lines.append)
    engine.migrate("desk", "h2", cold=True).raise_for_failure()
    assert any(
        line.startswith("desk: copy volume default/") and "512 MiB" in line for line in lines
    )
    assert "desk: start domain desk, h1 → h2" in lines


# -- what is asked before ------------------------------------------------------------------------


def meddle(world: World, **changes: object) -> None:
    record = world.ledger.host("h2")
    world.ledger.update_host(replace(record, **changes))  # type: ignore[arg-type]


REFUSALS: dict[str, tuple[Callable[[World], object], type[VgpumgrError], str]] = {
    "cordoned": (lambda w: meddle(w, cordoned=True), Conflict, "h2 is cordoned"),
    "no address": (lambda w: meddle(w, migration=None), Conflict, "no migration address"),
    "name": (lambda w: w.hosts["h2"].foreign_domain("desk"), Conflict, "a domain desk already"),
    "driver": (
        lambda w: setattr(w.hosts["h2"], "versions", replace(NEW, driver="570.1")),
        Conflict,
        "h1 has driver 550.54.16, h2 570.1",
    ),
    "driver unknown": (
        lambda w: setattr(w.hosts["h2"], "versions", replace(NEW, driver="")),
        Conflict,
        "h2 unknown",
    ),
    "old qemu": (
        lambda w: setattr(w.hosts["h2"], "versions", replace(NEW, qemu="8.0.0")),
        Conflict,
        "8.1 is needed",
    ),
    "older": (
        lambda w: setattr(w.hosts["h2"], "versions", replace(NEW, libvirt="8.6.1")),
        Conflict,
        "libvirt 8.6.1 on h2 is older than 9.7.0 on h1",
    ),
    "cpu": (lambda w: setattr(w.hosts["h2"], "cpu_fits", False), Conflict, "lacks what desk's CPU"),
    "cpu unknown": (
        lambda w: setattr(w.hosts["h2"], "cpu_fits", None),
        Conflict,
        "the models are unknown and unknown",
    ),
    "room": (
        lambda w: w.hosts["h2"].foreign_mdev("m", "0000:41:00.0", "nvidia-233"),
        NoPlacement,
        "T4",
    ),
    "pool": (lambda w: setattr(w.hosts["h2"], "pools", ("other",)), NoPlacement, "storage pool"),
    "ecc": (
        lambda w: (
            setattr(w.hosts["h2"], "gpus", [replace(w.hosts["h2"].gpus[0], ecc=True)])
            or setattr(w.hosts["h1"], "gpus", [replace(w.hosts["h1"].gpus[0], ecc=False)])
        ),
        Conflict,
        "ECC",
    ),
    "down": (lambda w: setattr(w.hosts["h2"], "down", True), HostUnreachable, "h2"),
    "paused": (
        lambda w: w.hosts["h1"].domains._change("desk", state=DomainState.PAUSED),
        Conflict,
        "desk is paused on h1",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_keeps_a_running_vm_is_said_before_anything_is_changed(
    world: World, case: str
) -> None:
    spoil, kind, words = REFUSALS[case]
    spoil(world)
    assert words in refused(world, kind)


@pytest.mark.parametrize("cold", [False, True], ids=["live", "cold"])
@pytest.mark.parametrize(
    ("kept", "words"),
    [(KeptBeside(snapshots=2), "2 snapshots"), (KeptBeside(saved_state=True), "memory")],
)
def test_what_would_stay_behind_keeps_it(
    world: World, kept: KeptBeside, words: str, cold: bool
) -> None:
    world.hosts["h1"].kept_beside["desk"] = kept
    assert words in refused(world, Conflict, cold=cold)


def test_every_reason_is_given_at_once(world: World) -> None:
    meddle(world, migration=None, cordoned=True)
    world.hosts["h2"].cpu_fits = False
    words = refused(world, Conflict)
    assert all(part in words for part in ("cordoned", "no migration address", "CPU"))
    plan = world.engine.move_plan("desk", "h2")
    assert {check.name for check in plan.checks if not check.holds} >= {"cordon", "address", "cpu"}
    assert any(check.holds for check in plan.checks)


def test_alike_cpus_will_do_where_libvirt_cannot_compare(tmp_path: Path) -> None:
    hosts = [mover(f"h{n}", n, cpu_fits=None, cpu_model="EPYC 7763") for n in (1, 2)]
    world = two_hosts(tmp_path, *hosts)
    make(world, desk())
    moved(world)
    assert_settled_on(world, "h2")
    world.close()


def test_a_volume_of_that_name_on_the_target_is_not_overwritten(world: World) -> None:
    [(key, facts), *_] = world.hosts["h1"].volumes.items()
    world.hosts["h2"].volumes[key] = facts
    assert "exists already on h2" in refused(world, Conflict)
    assert "exists already on h2" in refused(world, Conflict, cold=True)


def test_an_unknown_host_or_the_same_one(world: World) -> None:
    with pytest.raises(NotFound):
        world.engine.migrate("desk", "h3")
    with pytest.raises(Conflict, match="desk is on h1 already"):
        world.engine.migrate("desk", "h1")


def test_affinity_holds_for_moves_too(tmp_path: Path) -> None:
    world = two_hosts(tmp_path)
    make(world, desk(affinity=Affinity(hosts=("h1",))))
    assert "may run on h1 alone" in refused(world, Conflict)
    world.close()


def test_the_same_board_is_needed_to_run_on(tmp_path: Path) -> None:
    """By size any profile would do; a running guest has one of a T4."""
    world = two_hosts(tmp_path)
    make(world, desk(gpus=(GpuRequest(memory_mib=4096, framework="mdev"),)))
    other = replace(world.hosts["h2"].gpus[0], model="P4", vendor_device="10de:1bb3")
    world.hosts["h2"].gpus = [other]
    assert "T4" in refused(world, NoPlacement)
    world.close()


@pytest.fixture
def overlaid(tmp_path: Path) -> Iterator[World]:
    """A VM whose disk is laid over an image that both hosts have."""
    made = two_hosts(tmp_path)
    for host in made.hosts.values():
        host.volumes["default", IMAGE] = VolumeFacts(
            pool="default", name=IMAGE, path=f"/pools/default/{IMAGE}", capacity_bytes=9, format="x"
        )
        host.uploads[IMAGE] = b"debian"
    make(made, desk(disks=(DiskSpec(mode=DiskMode.OVERLAY, image=IMAGE),), cloud_init=None))
    yield made
    made.close()


def test_an_overlay_moves_over_an_equal_image(overlaid: World) -> None:
    plan = overlaid.engine.move_plan("desk", "h2")
    assert any("is the same on h2 (compared by digest)" in check.text for check in plan.checks)
    moved(overlaid)
    assert_settled_on(overlaid, "h2")


def test_another_image_of_that_name_is_seen(overlaid: World) -> None:
    overlaid.hosts["h2"].uploads[IMAGE] = b"other"
    assert "is another image on h2" in refused(overlaid, Conflict)
    assert "is another image on h2" in refused(overlaid, Conflict, cold=True)


def test_no_image_at_all(overlaid: World) -> None:
    del overlaid.hosts["h2"].volumes["default", IMAGE]
    assert "is not on h2" in refused(overlaid, NotFound)


def test_where_bytes_cannot_be_compared_it_says_so(overlaid: World) -> None:
    overlaid.hosts["h2"].refuse("file_digest", HostRefused("no such verb"))
    plan = overlaid.engine.move_plan("desk", "h2")
    assert any("size alone" in check.text and check.holds for check in plan.checks)


# -- what goes wrong -----------------------------------------------------------------------------


def test_a_refused_move_leaves_all_as_it_was_and_can_be_tried_again(world: World) -> None:
    before = world.hosts["h1"].left()
    world.hosts["h1"].refuse("migrate")
    with pytest.raises(HostRefused):
        moved(world)
    assert_settled_on(world, "h1")
    assert world.hosts["h1"].left() == before
    moved(world)
    assert_settled_on(world, "h2")


def test_a_move_that_was_cut_goes_on_with_devices_made_anew(world: World) -> None:
    """A device that took part in a move receives no second one (mtty: EBADF)."""

    def cut(phase: str) -> None:
        if phase == "prepare":
            world.hosts["h2"].domains_by_name.pop("desk")
            raise OutcomeUnknown("the connection broke")

    world.hosts["h1"].on_phase = cut
    with pytest.raises(OutcomeUnknown):
        moved(world)
    assert world.vm("desk").state is VmState.MIGRATING
    world.hosts["h1"].on_phase = lambda _: None
    moved(world)
    assert_settled_on(world, "h2")


def test_a_guest_that_ignores_acpi_stays_where_it_runs(world: World) -> None:
    world.hosts["h1"].guests_ignore_acpi = True
    with pytest.raises(VgpumgrError) as late:
        moved(world, cold=True, timeout_s=5.0)
    assert late.value.exit_status == 9
    assert_settled_on(world, "h1")


def test_a_start_that_fails_brings_it_back(world: World) -> None:
    world.hosts["h2"].refuse("start")
    with pytest.raises(HostRefused):
        moved(world, cold=True)
    assert_settled_on(world, "h1")


def test_a_copy_that_differs_is_never_trusted(world: World) -> None:
    h1, h2 = world.hosts["h1"], world.hosts["h2"]

    def spoil(call: str) -> None:
        if call == "file_digest":
            h2.uploads |= {name: b"rotten" for _, name in h2.volumes}

    h2.on_call = spoil
    with pytest.raises(HostRefused, match="is not what was sent"):
        moved(world, cold=True)
    h2.on_call = lambda _: None
    assert_settled_on(world, "h1")
    assert BYTES in h1.uploads.values()


def test_somebody_who_starts_it_meanwhile_wins(world: World) -> None:
    """The copy is older than what runs: it goes, the VM stays."""
    h1, h2 = world.hosts["h1"], world.hosts["h2"]

    def start(call: str) -> None:
        if call == "define":
            h1.domains._change("desk", state=DomainState.RUNNING)

    h2.on_call = start
    with pytest.raises(Conflict, match="domain desk runs on h1"):
        moved(world, cold=True)
    h2.on_call = lambda _: None
    assert_settled_on(world, "h1")


def test_neither_undo_nor_renewal_ends_a_receiver_that_is_kept(world: World) -> None:
    """A finish that began after the look: the receiver is all that is left of the guest."""
    h1, h2 = world.hosts["h1"], world.hosts["h2"]

    def finish_begins(phase: str) -> None:
        if phase == "perform":
            h2.domains._change("desk", persistent=True)
            raise OutcomeUnknown("the connection broke")

    h1.on_phase = finish_begins
    with pytest.raises(OutcomeUnknown):
        moved(world)
    [operation] = world.ledger.operations(open_only=True)
    [task] = world.ledger.tasks(operation.id)
    [step] = [from_record(each) for each in task.steps if each.kind == "MoveDomain"]
    assert isinstance(step, MoveDomain)
    for way in (step.undo, step.renew):
        with pytest.raises(OutcomeUnknown) as unknown:
            way(h1, h2)
        assert "paused on h2 and may run there soon" in unknown.value.why
        assert h2.domains_by_name["desk"].state is DomainState.PAUSED
        assert h1.domains_by_name["desk"].state is DomainState.PAUSED


def test_two_that_run_are_for_an_operator(world: World) -> None:
    def both(phase: str) -> None:
        if phase == "finish":
            world.hosts["h1"].domains._change("desk", state=DomainState.RUNNING)
            raise OutcomeUnknown("the connection broke")

    world.hosts["h1"].on_phase = both
    with pytest.raises(OutcomeUnknown):
        moved(world)
    [operation] = world.ledger.operations(open_only=True)
    for way in (world.engine.resume, world.engine.undo):
        [vm] = way(operation.id).vms
        assert vm.error is not None and "runs on h1 and on h2" in f"{vm.error.why}"
    assert running(world) == ["h1", "h2"]
    assert len(world.ledger.allocations()) == 2


def test_ctrl_c_cancels_a_live_move_and_the_vm_runs_on(world: World) -> None:
    """libvirt ends the move when it is told to; here it notices in its next phase."""
    h1 = world.hosts["h1"]
    h1.moving["desk"] = MoveProgress(total_bytes=100, left_bytes=90)

    def press(phase: str) -> None:
        if phase != "begin":
            return
        world.engine.stop.set()
        while "desk" in h1.moving:
            time.sleep(0.01)
        raise HostRefused("operation aborted by client")

    h1.on_phase = press
    outcome = world.engine.migrate("desk", "h2")
    assert outcome.interrupted
    with pytest.raises(Interrupted):
        outcome.raise_for_failure()
    assert ("cancel_migration", ("desk",)) in h1.calls
    assert running(world) == ["h1"]
    world.engine.stop.clear()
    h1.on_phase = lambda _: None
    world.engine.undo(outcome.operation)
    assert_settled_on(world, "h1")


def test_others_wait_for_a_move_that_has_not_ended(world: World) -> None:
    world.hosts["h1"].refuse("copy_to", OutcomeUnknown("cut"))
    with pytest.raises(OutcomeUnknown):
        moved(world)
    for act in (
        lambda: world.engine.stop_vms(["desk"], force=True, timeout_s=1.0),
        lambda: world.engine.start(["desk"]),
        lambda: world.engine.delete(["desk"], keep_disks=False, force=True),
        lambda: world.engine.migrate("desk", "h1"),
    ):
        with pytest.raises(Conflict):
            act()
    with pytest.raises(Conflict, match="in use"):
        world.ledger.remove_host("h2")
    world.engine.apply([desk()])[1].raise_for_failure()
    assert_settled_on(world, "h2")


def test_a_vm_that_moves_takes_room_on_both_hosts(world: World) -> None:
    world.hosts["h1"].refuse("copy_to", OutcomeUnknown("cut"))
    with pytest.raises(OutcomeUnknown):
        moved(world)
    held = world.ledger.allocations()
    assert sorted(each.host for each in held) == ["h1", "h2"]
    world.engine.refresh()
    fleet = build_fleet(world.engine.view())
    assert [host.free_vcpus for host in fleet.hosts] == [126, 126]
    assert all(not host.foreign_domains for host in fleet.hosts)


def test_what_is_settled_is_not_taken_back(world: World) -> None:
    world.hosts["h1"].refuse("undefine")
    with pytest.raises(HostRefused):
        moved(world)
    [operation] = world.ledger.operations(open_only=True)
    [vm] = world.engine.undo(operation.id).vms
    assert isinstance(vm.error, Conflict) and "resume" in vm.error.next
    world.engine.resume(operation.id).raise_for_failure()
    assert_settled_on(world, "h2")


def test_room_that_was_taken_meanwhile_is_planned_anew(world: World) -> None:
    """The database referees: the target's GPU moved between plan and reservation."""
    other = world.open()
    real = type(other).reserve
    tries: list[int] = []

    class Racing:
        def __getattr__(self, name: str) -> object:
            return getattr(world.ledger, name)

        def reserve(self, start: object) -> None:
            tries.append(1)
            if len(tries) == 1:
                raise StaleGeneration("somebody was faster")
            real(world.ledger, start)  # type: ignore[arg-type]

    world.engine_over(Racing()).migrate("desk", "h2").raise_for_failure()  # type: ignore[arg-type]
    assert len(tries) == 2
    assert_settled_on(world, "h2")


# -- lanes ---------------------------------------------------------------------------------------


def task(id_: str, host: str, peer: str = "") -> TaskRecord:
    return TaskRecord(
        id=id_, operation="o", vm_id=id_, vm=id_, host=host, peer=peer, verb="x", steps=()
    )


def test_hosts_that_share_a_task_share_a_lane() -> None:
    tasks = [
        task("a", "h1"),
        task("b", "h2"),
        task("c", "h3"),
        task("d", "h2", "h1"),
        task("e", "h1"),
    ]
    lanes = by_lane(tasks)
    assert sorted([each.id for each in lane] for lane in lanes.values()) == [
        ["a", "b", "d", "e"],
        ["c"],
    ]


def test_opposite_moves_share_one_lane() -> None:
    assert len(by_lane([task("a", "h1", "h2"), task("b", "h2", "h1"), task("c", "h3", "h2")])) == 1
