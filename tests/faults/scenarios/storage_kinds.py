"""A VM with a disk of LVM's and one of Ceph's: made, grown, kept as it is, brought back, cloned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import Command, Place, Prepare, Scenario
from tests.faults.scenarios.ways import WAYS
from vgpumgr.app.composition import App
from vgpumgr.model.vm_devices import DiskMode, DiskSpec

_WAY = WAYS["mdev"]
_DISKS = tuple(DiskSpec(pool=pool, size_bytes=4 << 20, format="raw") for pool in ("fast", "ceph"))
_MADE = _WAY.desk(disks=_DISKS)
_GROWN = replace(_MADE, disks=tuple(replace(each, size_bytes=8 << 20) for each in _DISKS))
_HOSTS = tuple(
    replace(each, pools=("default", "fast", "ceph"), lvm_pools=("fast",), ceph_pools=("ceph",))
    for each in _WAY.hosts("h1")
)


def _enrolled(place: Place) -> None:
    _WAY.enrol(place, "h1")


def _made(place: Place) -> None:
    place.apply(_MADE)


def _off(place: Place) -> None:
    place.engine.stop_vms(["desk"], force=True, timeout_s=5.0).raise_for_failure()


def _taken(*names: str) -> Prepare:
    def prepare(place: Place) -> None:
        for name in names:
            place.engine.take_snapshot("desk", name).raise_for_failure()

    return prepare


def _clone(app: App) -> None:
    spec = app.engine.clone_spec(app.ledger.vm("desk"), "twin", "s1")
    app.engine.apply([spec])[1].raise_for_failure()


def _copied(place: Place) -> None:
    """Volumes that stay of a VM, for others to be made from."""
    place.apply(replace(_MADE, name="base", gpus=()))
    place.engine.stop_vms(["base"], force=True, timeout_s=5.0).raise_for_failure()


def _copies(app: App) -> None:
    volumes = app.ledger.vm("base").volumes
    disks = tuple(
        replace(disk, mode=DiskMode.COPY, image=name, image_format="raw")
        for disk, (_, name) in zip(_DISKS, volumes, strict=True)
    )
    app.engine.apply([replace(_MADE, disks=disks)])[1].raise_for_failure()


def _scenario(operation: str, part: str, command: Command, *prepare: Prepare) -> Scenario:
    return Scenario(
        operation=operation,
        part=part,
        hosts=_HOSTS,
        command=command,
        prepare=(_enrolled, *prepare),
    )


def _scenarios() -> Iterator[Scenario]:
    yield _scenario("create", "thin volumes", commands.apply(_MADE))
    grow = commands.apply(_GROWN, restart=True)
    yield _scenario("grow", "thin volumes", grow, _made)
    take = commands.take_snapshot("desk", "s1")
    yield _scenario("snapshot", "thin volumes", take, _made, _off)
    back = commands.revert("desk", "s1", restart=True)
    yield _scenario("revert", "thin volumes", back, _made, _off, _taken("s1"))
    drop = commands.delete_snapshot("desk", "s1")
    yield _scenario("delete snapshot", "thin volumes", drop, _made, _off, _taken("s1", "s2"))
    yield _scenario("clone", "thin volumes", _clone, _made, _off, _taken("s1"))
    yield _scenario("create", "copies of thin volumes", _copies, _copied)
    yield _scenario("delete", "thin volumes", commands.delete("desk"), _made, _off, _taken("s1"))


SCENARIOS = tuple(_scenarios())
