"""Boards that should take no VM take none, whatever their fault; how that is told, and lifted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simworld import NEW, SimWorld, host, vm
from vgpumgr.model.errors import Conflict, VgpumgrError
from vgpumgr.model.health import ActionClass, HealthState
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.sim.injection import inject

FIRST = "0000:41:00.0"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SimWorld]:
    """A host of two T4, which need no layout, and retire pages of memory."""
    found = SimWorld(tmp_path, host("T4", "T4", versions=NEW))
    found.engine.refresh()
    yield found
    found.close()


@pytest.fixture
def ampere(tmp_path: Path) -> Iterator[SimWorld]:
    """A host of two A100, which remap rows of memory."""
    found = SimWorld(tmp_path, host("A100-PCIE-40GB", "A100-PCIE-40GB", versions=NEW))
    found.cut(GpuLayout(vfs=VFS_MAX))
    yield found
    found.close()


def fault(world: SimWorld, *words: str, gpu: str = FIRST) -> None:
    inject(world.sim.host("h1"), ["gpu", gpu, *words])


def state(world: SimWorld, number: int = 0) -> tuple[HealthState, ActionClass]:
    found = world.ledger.gpus()[number].health
    return found.state, found.asks


FAULTS = {
    "hidden": (HealthState.QUARANTINED, ActionClass.UNREAD, "NVML gives no handle"),
    "lost": (HealthState.LOST, ActionClass.LOST, "it fell off the bus"),
    "retired 63": (HealthState.QUARANTINED, ActionClass.REPLACE, "63 memory pages were retired"),
    "recovery 1": (HealthState.QUARANTINED, ActionClass.RESET, "the driver asks for a GPU reset"),
    "recovery 2": (HealthState.QUARANTINED, ActionClass.RESTART_HOST, "a reboot of the host"),
    "xid 119": (HealthState.QUARANTINED, ActionClass.RESET, "the driver asks for a GPU reset"),
    "xid 79": (HealthState.LOST, ActionClass.LOST, "it fell off the bus"),
}


@pytest.mark.parametrize("words", FAULTS)
def test_a_board_with_such_a_fault_takes_no_vm(world: SimWorld, words: str) -> None:
    wanted, asks, text = FAULTS[words]
    check(world, "T4-4Q", words, (wanted, asks), text)


AMPERE_FAULTS = {
    "remap-failed": (ActionClass.REPLACE, "could not be remapped"),
    "remap-pending": (ActionClass.RESET_WHEN_IDLE, "wait for a reset"),
    "sram": (ActionClass.REPLACE, "its SRAM has more uncorrectable errors"),
}


@pytest.mark.parametrize("words", AMPERE_FAULTS)
def test_a_board_whose_memory_cannot_be_repaired_takes_no_vm(ampere: SimWorld, words: str) -> None:
    asks, text = AMPERE_FAULTS[words]
    check(ampere, "A100-10C", words, (HealthState.QUARANTINED, asks), text)


def check(
    world: SimWorld, profile: str, words: str, wanted: tuple[HealthState, ActionClass], text: str
) -> None:
    """The other board is filled, and the next VM is refused with the fault in its reason."""
    fault(world, *words.split())
    world.apply(*(vm(f"v{n}", profile) for n in range(4)))
    assert {each.gpu for each in world.ledger.allocations()} == {world.ledger.gpus()[1].id}
    assert state(world) == wanted
    assert text in world.supply().blocked
    with pytest.raises(VgpumgrError) as full:
        world.apply(vm("more", profile))
    assert text in full.value.why


@pytest.mark.parametrize("words", ["xid 31", "xid 43", "xid 13"])
def test_what_a_guest_did_wrong_speaks_against_no_board(world: SimWorld, words: str) -> None:
    fault(world, *words.split())
    world.engine.refresh()
    assert state(world) == (HealthState.HEALTHY, ActionClass.NONE)
    assert world.ledger.gpus()[0].health.xids == {words.split()[1]: 1}


@pytest.mark.parametrize("words", ["width 8", "hot", "errors 2", "xid 92", "xid 9999"])
def test_a_degraded_board_takes_vms(ampere: SimWorld, words: str) -> None:
    fault(ampere, *words.split())
    ampere.engine.refresh()
    assert state(ampere)[0] is HealthState.DEGRADED
    assert ampere.supply().blocked == ""


def test_each_change_is_in_the_trail_with_what_speaks_for_it(ampere: SimWorld) -> None:
    fault(ampere, "remap-failed")
    ampere.engine.refresh()
    ampere.engine.refresh()
    inject(ampere.sim.host("h1"), ["clear"])
    ampere.engine.refresh()
    told = [(each.event, each.detail) for each in ampere.ledger.audit(event="gpu.health-")]
    assert told[::-1] == [
        (
            "gpu.health-quarantined",
            "was healthy; a memory row could not be remapped (asks for: replace); "
            "evidence: row-remap-failed",
        ),
        (
            "gpu.health-healthy",
            "was quarantined; no longer: a memory row could not be remapped",
        ),
    ]


def test_an_xid_is_counted_once_however_often_it_is_seen(world: SimWorld) -> None:
    fault(world, "xid", "31")
    for _ in range(3):
        world.engine.refresh()
    fault(world, "xid", "31")
    world.engine.refresh()
    world.restart()
    world.engine.refresh()
    assert world.ledger.gpus()[0].health.xids == {"31": 2}
    assert world.ledger.gpus()[1].health.xids == {}


def test_what_was_reported_is_lifted_and_what_is_read_is_not(world: SimWorld) -> None:
    fault(world, "xid", "9999")
    fault(world, "xid", "140")
    world.engine.refresh()
    gpu = world.ledger.gpus()[0]
    with pytest.raises(Conflict, match="is reset-required"):
        world.engine.lift(gpu.id)
    inject(world.sim.host("h1"), ["clear"])
    world.engine.refresh()
    assert state(world) == (HealthState.QUARANTINED, ActionClass.RESET), "Xid 140 stays"
    world.engine.lift(gpu.id)
    assert state(world) == (HealthState.HEALTHY, ActionClass.NONE)
    with pytest.raises(Conflict, match="is not quarantined"):
        world.engine.lift(gpu.id)


def test_a_boot_ends_what_was_reported(world: SimWorld) -> None:
    fault(world, "xid", "140")
    world.engine.refresh()
    inject(world.sim.host("h1"), ["reboot"])
    world.engine.refresh()
    assert state(world) == (HealthState.HEALTHY, ActionClass.NONE)
    assert world.ledger.gpus()[0].health.xids == {"140": 1}
