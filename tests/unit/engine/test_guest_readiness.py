"""How a guest's state follows from looks at it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vgpumgr.engine.vms.guest_readiness import GuestLook, after, pause_s
from vgpumgr.guests.check_verdict import CheckVerdict
from vgpumgr.model.guest import SETTLE_S, GuestPhase, GuestRecord

NEW = GuestRecord(vm_id="a")
BOOTING = GuestLook(failed=CheckVerdict(booting=True, why="cloud-init is at work"))
BROKEN = GuestLook(failed=CheckVerdict(why="Docker does not answer"))
SLOW = GuestLook(failed=CheckVerdict(why="it has not joined", settle_s=90.0))
FINAL = GuestLook(failed=CheckVerdict(final=True, why="cloud-init failed: x"))
WELL, OFF, MUTE = GuestLook(), GuestLook(runs=False), GuestLook(mute=True)
WITHIN_S = 600.0


def seen(*looks: tuple[float, GuestLook], before: GuestRecord = NEW) -> tuple[str, str]:
    record = before
    for at, look in looks:
        record = after(record, look, WITHIN_S, 1000.0 + at)
    return str(record.phase), record.why


@pytest.mark.parametrize(
    "looks, phase, why",
    [
        ([(0, OFF)], "unknown", "it is off"),
        ([(0, MUTE)], "starting", "its agent does not answer"),
        ([(0, MUTE), (600, MUTE)], "starting", "its agent does not answer"),
        (
            [(0, MUTE), (601, MUTE)],
            "failed",
            "it was not ready within 10 min: its agent does not answer",
        ),
        ([(0, BOOTING), (601, BOOTING)], "failed", "it was not ready within 10 min: cloud-init is"),
        ([(0, BOOTING), (300, WELL)], "ready", ""),
        ([(0, BOOTING), (300, BROKEN)], "starting", "Docker does not answer"),
        ([(0, BOOTING), (300, BROKEN), (300 + SETTLE_S, BROKEN)], "failed", "Docker does not"),
        ([(0, BOOTING), (300, BROKEN), (310, WELL)], "ready", ""),
        ([(0, BOOTING), (300, SLOW), (389, SLOW)], "starting", "it has not joined"),
        ([(0, BOOTING), (300, SLOW), (390, SLOW)], "failed", "it has not joined"),
        ([(0, FINAL)], "failed", "cloud-init failed: x"),
        ([(0, FINAL), (900, WELL)], "ready", ""),
        ([(0, WELL), (300, BROKEN)], "starting", "Docker does not answer"),
        ([(0, WELL), (300, BROKEN), (300 + SETTLE_S, BROKEN)], "failed", "Docker does not answer"),
        ([(0, WELL), (9000, MUTE)], "starting", "its agent does not answer"),
        ([(0, WELL), (9000, MUTE), (9601, MUTE)], "failed", "it was not ready within 10 min"),
        ([(0, WELL), (300, OFF), (9000, MUTE)], "starting", "its agent does not answer"),
        ([(0, BROKEN), (300, OFF), (9000, BROKEN)], "starting", "Docker does not answer"),
        ([(0, FINAL), (10, MUTE)], "failed", "cloud-init failed: x"),
        ([(0, GuestLook(refused="disabled"))], "failed", "its agent runs no programs: disabled"),
    ],
)
def test_a_guest_is_what_its_looks_say(looks, phase, why):
    found, said = seen(*looks)
    assert found == phase
    assert said.startswith(why)


def test_when_it_was_ready_first_stays_and_a_phase_keeps_its_time():
    first = after(NEW, WELL, WITHIN_S, 1000.0)
    again = after(first, WELL, WITHIN_S, 2000.0)
    assert again == first
    failed = after(first, FINAL, WITHIN_S, 3000.0)
    back = after(failed, WELL, WITHIN_S, 4000.0)
    assert (back.ready_at, back.since) == (1000.0, 4000.0)


def test_looks_become_rarer_the_longer_nothing_changes():
    starting = GuestRecord(vm_id="a", phase=GuestPhase.STARTING, since=1000.0)
    assert [pause_s(starting, 1000.0 + lasted) for lasted in (0, 100, 900)] == [5.0, 10.0, 30.0]
    failed = replace(starting, phase=GuestPhase.FAILED)
    assert [pause_s(failed, 1000.0 + lasted) for lasted in (0, 200, 9000)] == [60.0, 200.0, 600.0]
    assert pause_s(replace(starting, phase=GuestPhase.READY), 9000.0) == 300.0
