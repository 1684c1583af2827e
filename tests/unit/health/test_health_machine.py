"""A GPU's health: what each signal makes of it, how that ends, and that nothing counts twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vgpumgr.health import health_machine
from vgpumgr.health.health_machine import GpuLook, advance, is_liftable, lifted, reset
from vgpumgr.model.gpu import GpuFacts, GpuHealth
from vgpumgr.model.health import (
    NO_EVIDENCE,
    ActionClass,
    GpuReadings,
    HealthRecord,
    HealthState,
    PcieLink,
    XidLine,
)

GPU = "0000:41:00.0"
WELL = GpuFacts(device=GPU, path="/sys/x", model="A40", health=GpuHealth.OK)


def read(**values: object) -> GpuFacts:
    return replace(WELL, readings=replace(GpuReadings(), **values))  # type: ignore[arg-type]


def line(seq: int, xid: int, text: str = "") -> XidLine:
    return XidLine(seq=seq, address=GPU, xid=xid, text=text)


def seen(
    before: HealthRecord = NO_EVIDENCE,
    facts: GpuFacts = WELL,
    *xids: XidLine,
    at: float = 100.0,
    boot: str = "b1",
    driver: str = "550.90.05",
) -> HealthRecord:
    return advance(before, GpuLook(facts=facts, boot=boot, driver=driver, xids=xids, at=at))


@pytest.mark.parametrize(
    ("facts", "state", "asks"),
    [
        (WELL, HealthState.HEALTHY, ActionClass.NONE),
        (replace(WELL, health=GpuHealth.UNKNOWN), HealthState.HEALTHY, ActionClass.NONE),
        (
            replace(WELL, health=GpuHealth.UNKNOWN, health_detail="NVML gives no handle"),
            HealthState.QUARANTINED,
            ActionClass.UNREAD,
        ),
        (replace(WELL, health=GpuHealth.LOST), HealthState.LOST, ActionClass.LOST),
        (replace(WELL, health=GpuHealth.FAILED), HealthState.QUARANTINED, ActionClass.REPLACE),
        (
            replace(WELL, health=GpuHealth.RESET_REQUIRED),
            HealthState.QUARANTINED,
            ActionClass.RESET,
        ),
        (read(row_remap_failed=True), HealthState.QUARANTINED, ActionClass.REPLACE),
        (read(sram_exceeded=True), HealthState.QUARANTINED, ActionClass.REPLACE),
        (read(rows_uncorrected=511), HealthState.HEALTHY, ActionClass.NONE),
        (read(rows_uncorrected=512), HealthState.QUARANTINED, ActionClass.REPLACE),
        (read(pages_corrected=2, pages_uncorrected=60), HealthState.HEALTHY, ActionClass.NONE),
        (
            read(pages_corrected=2, pages_uncorrected=61),
            HealthState.QUARANTINED,
            ActionClass.REPLACE,
        ),
        (read(row_remap_pending=True), HealthState.QUARANTINED, ActionClass.RESET_WHEN_IDLE),
        (read(retirement_pending=True), HealthState.QUARANTINED, ActionClass.RESET_WHEN_IDLE),
        (read(uncorrected_errors=1), HealthState.DEGRADED, ActionClass.CHECK),
        (read(recovery_action=0), HealthState.HEALTHY, ActionClass.NONE),
        (read(recovery_action=1), HealthState.QUARANTINED, ActionClass.RESET),
        (read(recovery_action=2), HealthState.QUARANTINED, ActionClass.RESTART_HOST),
        (read(recovery_action=3), HealthState.DEGRADED, ActionClass.CHECK),
        (read(recovery_action=99), HealthState.QUARANTINED, ActionClass.UNREAD),
        (read(slowed=("sw-thermal",)), HealthState.HEALTHY, ActionClass.NONE),
        (read(slowed=("hw-thermal",)), HealthState.DEGRADED, ActionClass.CHECK),
        (read(slowed=("power-brake",)), HealthState.DEGRADED, ActionClass.CHECK),
        (read(width=PcieLink(now=8, most=16)), HealthState.DEGRADED, ActionClass.CHECK),
        (read(generation=PcieLink(now=1, most=4)), HealthState.DEGRADED, ActionClass.CHECK),
    ],
)
def test_what_is_read_of_a_gpu(facts: GpuFacts, state: HealthState, asks: ActionClass) -> None:
    found = seen(facts=facts)
    assert (found.state, found.asks) == (state, asks)
    assert bool(found.why) is (state is not HealthState.HEALTHY)
    over = seen(found, at=100.0 + health_machine.LINGER_S)
    assert (over.state, over.evidence) == (HealthState.HEALTHY, ())


@pytest.mark.parametrize(
    ("xid", "state"),
    [
        (13, HealthState.HEALTHY),
        (43, HealthState.HEALTHY),
        (154, HealthState.HEALTHY),
        (92, HealthState.DEGRADED),
        (167, HealthState.DEGRADED),
        (9999, HealthState.DEGRADED),
        (63, HealthState.QUARANTINED),
        (48, HealthState.QUARANTINED),
        (119, HealthState.QUARANTINED),
        (79, HealthState.QUARANTINED),
    ],
)
def test_what_an_xid_says_where_the_driver_tells_no_recovery_action(
    xid: int, state: HealthState
) -> None:
    found = seen(NO_EVIDENCE, WELL, line(5, xid))
    assert found.state is state
    assert found.xids == {str(xid): 1}
    assert seen(found, at=1e9).state is state, "no time alone ends it"
    assert seen(found, boot="b2").state is HealthState.HEALTHY


def test_the_recovery_action_wins_over_the_xids_that_it_follows() -> None:
    none, asked = read(recovery_action=0), read(recovery_action=1)
    assert seen(NO_EVIDENCE, none, line(5, 48), driver="570.1").state is HealthState.HEALTHY
    assert seen(NO_EVIDENCE, asked, line(5, 48), driver="570.1").asks is ActionClass.RESET
    assert seen(NO_EVIDENCE, none, line(5, 48), driver="550.1").state is HealthState.QUARANTINED
    assert seen(NO_EVIDENCE, none, line(5, 48), driver="").state is HealthState.QUARANTINED
    assert seen(NO_EVIDENCE, none, line(5, 143), driver="570.1").asks is ActionClass.RESET
    assert seen(NO_EVIDENCE, none, line(5, 119), driver="580.1").asks is ActionClass.RESET
    found = seen(NO_EVIDENCE, none, line(5, 48, "DBE at 0x12"), driver="570.1")
    assert found.evidence[0].text == "Xid 48 (ROBUST_CHANNEL_GPU_ECC_DBE): DBE at 0x12"


def test_no_line_counts_twice_however_often_it_is_seen() -> None:
    lines = [line(5, 119), line(7, 119), line(9, 31)]
    first = seen(NO_EVIDENCE, WELL, *lines)
    assert first.xids == {"119": 2, "31": 1}
    assert seen(first, WELL, *lines, at=200.0) is first
    more = seen(first, WELL, *lines, line(12, 119), at=300.0)
    assert (more.xids, more.evidence[0].count) == ({"119": 3, "31": 1}, 3)
    assert (more.evidence[0].since, more.evidence[0].last) == (100.0, 300.0)
    older = seen(more, WELL, *lines, at=301.0)
    assert older is more, "a look that began earlier brings nothing back"


def test_a_boot_begins_the_numbers_anew() -> None:
    first = seen(NO_EVIDENCE, WELL, line(900, 119))
    booted = seen(first, WELL, line(3, 119), boot="b2", at=200.0)
    assert (booted.xids, booted.seq, booted.state) == ({"119": 2}, 3, HealthState.QUARANTINED)


def test_what_comes_and_goes_with_the_load_lingers_and_is_written_down_once_a_minute() -> None:
    hot = read(slowed=("hw-thermal",))
    first = seen(facts=hot)
    assert seen(first, hot, at=159.0) is first
    later = seen(first, hot, at=160.0)
    assert later.evidence[0].last == 160.0
    assert seen(later, at=700.0).state is HealthState.DEGRADED
    assert seen(later, at=760.0).state is HealthState.HEALTHY


def test_a_reset_ends_what_xids_reported_and_not_what_is_read() -> None:
    found = seen(NO_EVIDENCE, read(row_remap_failed=True), line(5, 119))
    after = reset(found, 200.0)
    assert [each.signal for each in after.evidence] == ["row-remap-failed"]
    assert reset(seen(NO_EVIDENCE, WELL, line(5, 119)), 200.0).state is HealthState.HEALTHY
    again = seen(reset(seen(NO_EVIDENCE, WELL, line(5, 119)), 200.0), WELL, line(5, 119), at=300.0)
    assert again.state is HealthState.HEALTHY, "the line from before the reset is counted"


def test_a_gpu_that_fails_again_within_thirty_days_stays_out_until_it_is_lifted() -> None:
    first = seen(NO_EVIDENCE, WELL, line(5, 119), at=1000.0)
    well = seen(first, boot="b2", at=2000.0)
    assert well.state is HealthState.HEALTHY
    again = seen(well, WELL, line(5, 119), boot="b2", at=3000.0)
    assert health_machine.REPEATED in {each.signal for each in again.evidence}
    for after in (reset(again, 3500.0), seen(again, boot="b3", at=4000.0)):
        assert (after.state, after.asks) == (HealthState.QUARANTINED, ActionClass.REPLACE)
        assert after.why == "it stopped taking VMs 2 times within 30 days"
    trusted = lifted(seen(again, boot="b3", at=4000.0), 5000.0)
    assert (trusted.state, trusted.serious, trusted.evidence) == (HealthState.HEALTHY, (), ())
    assert seen(trusted, WELL, line(1, 119), boot="b4", at=6000.0).serious == (6000.0,)


def test_a_month_between_two_faults_is_long_enough() -> None:
    first = seen(NO_EVIDENCE, WELL, line(5, 119), at=1000.0)
    later = 1000.0 + health_machine.WITHIN_S
    again = seen(seen(first, boot="b2", at=2000.0), WELL, line(5, 119), boot="b2", at=later)
    assert [each.signal for each in again.evidence] == ["xid-119"]
    assert again.serious == (later,)


def test_a_storm_is_one_fault() -> None:
    found = seen(NO_EVIDENCE, WELL, line(5, 119), at=1000.0)
    for number in range(6, 40):
        found = seen(found, WELL, line(number, 62), at=1000.0 + number)
    assert found.serious == (1000.0,)
    assert health_machine.REPEATED not in {each.signal for each in found.evidence}


def test_what_waits_for_an_idle_moment_is_no_fault_that_counts() -> None:
    found = seen(facts=read(row_remap_pending=True))
    assert (found.state, found.serious) == (HealthState.QUARANTINED, ())


def test_a_lift_forgets_what_was_and_keeps_what_is_read() -> None:
    found = seen(NO_EVIDENCE, read(row_remap_failed=True), line(5, 119))
    assert is_liftable(found)
    after = lifted(found, 200.0)
    assert ([each.signal for each in after.evidence], after.serious) == (["row-remap-failed"], ())
    assert not is_liftable(after)
    assert not is_liftable(seen())


def test_the_state_keeps_the_time_since_which_it_holds() -> None:
    found = seen(NO_EVIDENCE, WELL, line(5, 119), at=100.0)
    assert found.since == 100.0
    assert seen(found, read(row_remap_failed=True), at=200.0).since == 100.0
    assert seen(found, boot="b2", at=300.0).since == 300.0
