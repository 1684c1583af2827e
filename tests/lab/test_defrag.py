"""Room made by a real live migration: two hosts have a port of mtty free each, two are wanted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.lab import moving
from tests.lab.labhost import LabHost, Vgpumgr
from tests.lab.moving import VM, Two, goes_on, number

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

CANNOT_BE_PLACED, CHANGES_PENDING = 5, 10
# Ports of mtty in all, and those that are left to us on each host.
PORTS, OURS = 24, 2
NEIGHBOUR, BIG = "neighbour", "big"
WANTED = ("--for", "mtty-2", "--vcpus", "1", "--memory", "256MiB")


@pytest.fixture(scope="module")
def two(both: Vgpumgr, lab: LabHost, lab2: LabHost) -> Iterator[Two]:
    """Both hosts take running VMs on the private link."""
    with moving.taking_vms(both, lab, lab2) as made:
        yield made


@pytest.fixture
def crowded(two: Two) -> Iterator[Two]:
    """Devices made by hand hold all ports but two on either host; they are there to the end."""
    before = [host.dump() for host in two.hosts]
    by_hand = [{str(uuid.uuid4()) for _ in range((PORTS - OURS) // 2)} for _ in two.hosts]
    names = [host.name for host in two.hosts]
    with ExitStack() as undo:
        for host, mdevs in zip(two.hosts, by_hand, strict=True):
            for mdev in sorted(mdevs):
                host.make_mdev("mtty", "mtty-2", mdev)
                undo.callback(host.drop_mdev, mdev)
        two.vgpumgr("host", "probe", *names)
        yield two
        two.vgpumgr.delete_all()
        left = [set(host.dump()["mdevs"]) for host in two.hosts]
        assert left == by_hand
    after = [host.settled(was) for host, was in zip(two.hosts, before, strict=True)]
    assert after == before
    two.vgpumgr("host", "probe", *names)


def one_each(two: Two) -> tuple[LabHost, LabHost]:
    """A VM with a port on either host, both counting; the lighter one's host, and the other's."""
    disk = {"mode": "copy", "image": moving.IMAGE, "image_format": "raw", "format": "raw"}
    small = {"gpus": [{"profile": "mtty-1"}], "disks": [disk]}
    light, heavy = {"name": VM, **small}, {"name": NEIGHBOUR, "memory": "320MiB", **small}
    two.vgpumgr("apply", "-f", two.vgpumgr.file(light, heavy))
    at = {name: vm["host"] for name, vm in two.vgpumgr.vms().items()}
    assert at[VM] != at[NEIGHBOUR]
    first, second = two.hosts
    return (first, second) if first.name == at[VM] else (second, first)


def test_a_request_that_fits_on_no_host_fits_after_one_live_move(crowded: Two) -> None:
    vgpumgr = crowded.vgpumgr
    here, there = one_each(crowded)
    counted = number(here)
    big = {"name": BIG, "gpus": [{"profile": "mtty-2"}]}
    vgpumgr("apply", "-f", vgpumgr.file(big), code=CANNOT_BE_PLACED)

    planned = ("defrag", "plan", *WANTED, "--detailed-exitcode", "-o", "json")
    (move,) = vgpumgr(*planned, code=CHANGES_PENDING).json["moves"]
    assert (move["name"], move["how"]) == (VM, "live")
    assert (move["from"], move["to"]) == (here.name, there.name)
    goes_on(here, counted)

    vgpumgr("defrag", "apply", *WANTED)
    goes_on(there, counted)
    assert crowded.shown()["host"] == there.name
    assert VM not in here.dump()["domains"]
    assert crowded.open_operations() == []

    vgpumgr("apply", "-f", vgpumgr.file(big))
    assert vgpumgr.vms()[BIG]["host"] == here.name
    assert here.virsh("domstate", BIG) == "running"
    vgpumgr("drift", "--ignore-foreign")
