"""Moves between two hosts: what is asked before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.movers import (
    NEW,
    assert_settled_on,
    desk,
    make,
    mover,
    two_hosts,
)
from tests.unit.engine.moving import desk_of_two, moved, refused
from tests.world import IMAGE, World
from vgpumgr.model.domain import DomainState, KeptBeside, VolumeFacts
from vgpumgr.model.errors import (
    Conflict,
    HostRefused,
    HostUnreachable,
    NoPlacement,
    NotFound,
    VgpumgrError,
)
from vgpumgr.model.vm import Affinity, GpuRequest
from vgpumgr.model.vm_devices import DiskMode, DiskSpec


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with desk_of_two(tmp_path) as made:
        yield made


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
    assert "an affinity that allows only h1" in refused(world, Conflict)
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
