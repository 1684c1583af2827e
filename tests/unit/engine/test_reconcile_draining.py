"""`serve` empties a host that is draining, VM after VM, and says what stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.serving import Served
from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.controller.controller_events import EventKind
from vgpumgr.model.domain import MigrationAddress
from vgpumgr.model.vm import VmSpec


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    made = SimWorld(tmp_path, host("T4", name="h1"), host("T4", name="h2"))
    for name in ("h1", "h2"):
        change(made, name, migration=MigrationAddress(address=name))
    yield made
    made.close()


def change(world: SimWorld, name: str, **fields: object) -> None:
    record = world.ledger.host(name)
    world.ledger.update_host(replace(record, **fields))  # type: ignore[arg-type]


def make_on_h1(world: SimWorld, *vms: VmSpec) -> None:
    change(world, "h2", cordoned=True)
    world.apply(*vms)
    change(world, "h2", cordoned=False)


def test_every_vm_that_can_go_is_moved_in_one_turn(world: SimWorld) -> None:
    make_on_h1(world, *(vm(f"d{number}", "T4-4Q") for number in range(3)))
    change(world, "h1", cordoned=True, draining=True)
    served = Served(world.engine)
    served.controller.once()
    assert {each.host for each in world.ledger.vms()} == {"h2"}
    assert EventKind.HOST_DRAINED in served.kinds()
    served.controller.once()
    assert served.kinds().count(EventKind.HOST_DRAINED) == 1


def test_what_stays_is_told_once_with_the_reason(world: SimWorld) -> None:
    make_on_h1(world, vm("big", "passthrough"))
    change(world, "h1", cordoned=True, draining=True)
    served = Served(world.engine)
    served.controller.once()
    served.controller.once()
    assert world.ledger.vm("big").host == "h1"
    (event,) = served.told(EventKind.HOST_WAITS)
    assert event.text.startswith("big stays on h1: ")
