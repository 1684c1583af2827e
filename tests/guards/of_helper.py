"""The guards of the helper: epoch, claims, open VFIO handles."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.guards.registry import Guard, Happened, Place, patched
from tests.simworld import SimWorld, host, vm
from vgpumgr.helper import claims, fleets
from vgpumgr.helper.devices import viability
from vgpumgr.helper.dispatch import handle
from vgpumgr.sim.drivers.pci_drivers import VfioPci

FLEET = "the-fleet"
FREE = {"allocation": "a-1", "generation": 1, "vm": "a"}
OTHER = {"allocation": "a-2", "generation": 1, "vm": "b"}


class Machine:
    """One simulated host with a T4, spoken to by controllers."""

    def __init__(self, place: Place) -> None:
        self.world = SimWorld(place.folder, host("T4"))
        self.sim = self.world.sim.host("h1")
        self.gpu = self.sim.kernel.gpus[0].address

    def ask(self, verb: str, *, epoch: int = 1, fleet: str = FLEET, **args: Any) -> bool:
        """One verb as a controller of that epoch; was it done?"""
        request = {"verb": verb, "args": args, "fleet": fleet, "epoch": epoch}
        return bool(handle(request, self.sim.system)["ok"])

    def make_mdev(self, made: str, claim: dict[str, object], **speaks: Any) -> bool:
        types = f"/sys/class/mdev_bus/{self.gpu}/mdev_supported_types"
        kind = self.sim.kernel.tree.names(types)[0]
        return self.ask("mdev_create", parent=self.gpu, type=kind, uuid=made, claim=claim, **speaks)

    @property
    def mdevs(self) -> set[str]:
        return set(self.sim.kernel.mdevs.devices)


@contextmanager
def machine(place: Place) -> Iterator[Machine]:
    made = Machine(place)
    yield made
    made.world.close()


def a_change_from_an_older_epoch(place: Place) -> None:
    """Another controller took over; the one from before wakes up in the middle of its work."""
    with machine(place) as it:
        assert it.make_mdev(str(uuid.uuid4()), FREE, epoch=2)
        before = it.mdevs
        it.make_mdev(str(uuid.uuid4()), OTHER, epoch=1)
        if it.mdevs != before:
            raise Happened("a controller that was taken over from changed a host")


def two_owners_of_a_function(place: Place) -> None:
    """Two ledgers, or one twice restored, have given the same GPU away."""
    with machine(place) as it:
        first = it.ask("vfio_bind", address=it.gpu, **{"with": []}, claim=FREE)
        second = it.ask("vfio_bind", address=it.gpu, **{"with": []}, claim=OTHER)
        assert first
        if second:
            raise Happened("one function was given to two owners")


def a_stranger_removed(place: Place) -> None:
    """Somebody made an mdev by hand: nothing on the host says that it is ours."""
    with machine(place) as it:
        made = str(uuid.uuid4())
        types = f"/sys/class/mdev_bus/{it.gpu}/mdev_supported_types"
        kind = it.sim.kernel.tree.names(types)[0]
        it.sim.kernel.tree.write(f"{types}/{kind}/create", made)
        it.ask("mdev_remove", uuid=made, claim=FREE)
        if made not in it.mdevs:
            raise Happened("an mdev that another hand made was removed")


def taken_from_a_running_guest(place: Place) -> None:
    """The ledger says that it is free; a guest has it open."""
    with machine(place) as it:
        it.world.apply(vm("a", "passthrough"))
        [held] = it.world.ledger.allocations()
        claim = {"allocation": held.id, "generation": held.generation, "vm": held.vm}
        it.ask("vfio_release", address=held.device, claim=claim, fleet=it.world.ledger.fleet_id())
        if it.sim.kernel.pci.functions[held.device].driver != "vfio-pci":
            raise Happened("a GPU was taken away under a running guest")


def _whatever_is_there(call: Any, unit: str, _presented: object) -> Any:
    return claims.load(call.system, unit)


def _gives_in(driver: VfioPci, function: Any) -> None:
    """A kernel that does not refuse either: a real one waits for the guest, or warns."""
    driver._bound.discard(function.address)


_no_epoch = patched(fleets, "check_epoch", lambda _: None)
_no_taking = patched(claims, "may_take", _whatever_is_there)
_no_holding = patched(claims, "must_hold", _whatever_is_there)
_no_idle = patched(viability, "check_idle", lambda *_: None)
_no_kernel = patched(VfioPci, "detach", _gives_in)

GUARDS = (
    Guard(
        "epoch",
        "helper/fleets.py: check_epoch",
        "a controller that was taken over from changes a host",
        _no_epoch,
        a_change_from_an_older_epoch,
        (_no_taking, _no_holding),
    ),
    Guard(
        "claim to take",
        "helper/claims.py: may_take",
        "a host gives one device to two owners",
        _no_taking,
        two_owners_of_a_function,
        (_no_epoch, _no_holding),
    ),
    Guard(
        "claim to hold",
        "helper/claims.py: must_hold",
        "a device that another hand made is removed",
        _no_holding,
        a_stranger_removed,
        (_no_epoch, _no_taking),
    ),
    Guard(
        "release",
        "helper/devices/viability.py: check_idle",
        "a device is taken from a running guest",
        _no_idle,
        taken_from_a_running_guest,
        (_no_epoch, _no_kernel),
    ),
)
