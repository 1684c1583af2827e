"""A GPU's health from one look to the next: evidence comes and goes, and the state follows.

What is read is over when it is read no more. An Xid is an event: it stays until the GPU is reset,
its host boots, or a person lifts it. A GPU that stops taking VMs for the second time within thirty
days stays out until a person lifts it: of GPUs that had failed once, in the records of a machine of
18,688 GPUs (olcf/TitanGPULife), 8 of 100 failed again within two days, of all others 1 in 3,000.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vgpumgr import catalog
from vgpumgr.model.gpu import GpuFacts, GpuHealth
from vgpumgr.model.health import (
    ActionClass,
    Evidence,
    GpuReadings,
    HealthRecord,
    HealthState,
    PcieLink,
    XidLine,
)

# NVIDIA's DCGM fails a board with this number of remapped rows, or of retired pages
# (common/DcgmGPUHardwareLimits.h).
MOST_ROWS, MOST_PAGES = 512, 63
# What lowers clocks although nothing is wrong with the work: temperature and the power supply.
_SLOWING = {
    "hw-thermal": "its hardware lowers its clocks because of its temperature",
    "power-brake": "its power supply lowers its clocks",
}


@dataclass(frozen=True, slots=True)
class Signal:
    """One thing that speaks against a GPU, by its lasting name, and what it asks for."""

    name: str
    asks: ActionClass
    text: str


def standing(facts: GpuFacts) -> tuple[Signal, ...]:
    """All that speaks against the GPU now, each name once; none of a GPU that cannot be asked."""
    return tuple({each.name: each for each in _signals(facts)}.values())


def _signals(facts: GpuFacts) -> Iterator[Signal]:
    read, detail = facts.readings, facts.health_detail
    if facts.health is GpuHealth.LOST:
        yield Signal("lost", ActionClass.LOST, _with("it fell off the bus", detail))
    elif facts.health is GpuHealth.UNKNOWN and detail:
        yield Signal("unread", ActionClass.UNREAD, _with("its health is unknown", detail))
    yield from _memory(facts)
    yield from _recovery(read)
    yield from _around(read)
    if facts.health is GpuHealth.RESET_REQUIRED and not _explains_reset(read):
        yield Signal("reset-required", ActionClass.RESET, _with("it needs a reset", detail))


def _memory(facts: GpuFacts) -> Iterator[Signal]:
    read, replace = facts.readings, ActionClass.REPLACE
    if read.row_remap_failed or facts.health is GpuHealth.FAILED:
        yield Signal("row-remap-failed", replace, "a memory row could not be remapped")
    if read.sram_exceeded:
        text = "its SRAM has more uncorrectable errors than NVIDIA allows"
        yield Signal("sram-errors", replace, text)
    if (read.rows_uncorrected or 0) >= MOST_ROWS:
        yield Signal("rows-remapped", replace, f"{read.rows_uncorrected} memory rows were remapped")
    pages = (read.pages_corrected or 0) + (read.pages_uncorrected or 0)
    if pages >= MOST_PAGES:
        yield Signal("pages-retired", replace, f"{pages} memory pages were retired")
    waiting = ActionClass.RESET_WHEN_IDLE
    if read.row_remap_pending:
        yield Signal("row-remap-pending", waiting, "remapped memory rows wait for a reset")
    if read.retirement_pending:
        yield Signal("retirement-pending", waiting, "retired memory pages wait for a reset")
    if read.uncorrected_errors:
        text = f"{read.uncorrected_errors} uncorrected memory errors since its last reset"
        yield Signal("uncorrected-errors", ActionClass.CHECK, text)


def _recovery(read: GpuReadings) -> Iterator[Signal]:
    if not read.recovery_action:
        return
    known = catalog.recovery_actions().get(read.recovery_action)
    if known is None:
        text = f"the driver asks for recovery action {read.recovery_action}"
        yield Signal("recovery-action", ActionClass.UNREAD, text)
    else:
        yield Signal("recovery-action", known.action_class, known.words)


def _around(read: GpuReadings) -> Iterator[Signal]:
    """What is around the GPU: heat, power, its slot."""
    for reason in read.slowed:
        if reason in _SLOWING:
            yield Signal(f"slowed-{reason}", ActionClass.CHECK, _SLOWING[reason])
    if read.width is not None:
        yield Signal(
            "pcie-width", ActionClass.CHECK, _link(read.width, "its PCIe link is x{} of x{}")
        )
    if read.generation is not None:
        words = "its PCIe link is generation {} of {}"
        yield Signal("pcie-generation", ActionClass.CHECK, _link(read.generation, words))


def _link(link: PcieLink, words: str) -> str:
    return words.format(link.now, link.most)


def _explains_reset(read: GpuReadings) -> bool:
    waits = read.row_remap_pending or read.retirement_pending or read.row_remap_failed
    return bool(waits or read.recovery_action)


def _with(words: str, detail: str) -> str:
    return f"{words}: {detail}" if detail else words


# What comes and goes with the load (heat, a link that saves power) is over when it was not read
# for ten minutes; meanwhile it is written down once a minute that it still is. In seconds.
LINGER_S, AGAIN_S = 600.0, 60.0
# How often within how many seconds a GPU may stop taking VMs before a person has to lift it.
MOST_SERIOUS, WITHIN_S = 2, 30 * 86_400.0
REPEATED = "repeated"
# A fault that a reset or a boot cures counts; what waits for an idle moment, or was not read, not.
_SERIOUS = ActionClass.RESET.rank

_STATES = {
    ActionClass.CHECK: HealthState.DEGRADED,
    ActionClass.UNKNOWN: HealthState.DEGRADED,
    ActionClass.RESET_WHEN_IDLE: HealthState.QUARANTINED,
    ActionClass.UNREAD: HealthState.QUARANTINED,
    ActionClass.RESET: HealthState.QUARANTINED,
    ActionClass.RESTART_HOST: HealthState.QUARANTINED,
    ActionClass.REPLACE: HealthState.QUARANTINED,
    ActionClass.LOST: HealthState.LOST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLook:
    """One look at a GPU: what was read, the boot of its host and its driver's version, the Xids of
    the host's log that are about it, and when (Unix seconds).
    """

    facts: GpuFacts
    boot: str
    driver: str
    xids: Sequence[XidLine]
    at: float


def advance(before: HealthRecord, look: GpuLook) -> HealthRecord:
    """The health after a look. The same object where nothing has changed."""
    booted = look.boot != before.boot
    new = [line for line in look.xids if booted or line.seq > before.seq]
    evidence = (
        *_still_standing(before, look),
        *_reported([each for each in _events(before) if not booted or _lasts(each)], new, look),
    )
    if not (new or evidence or before.evidence or before.xids or before.serious):
        return before  # of a GPU that nothing was ever said of, not even the boot is remembered
    counts = Counter(before.xids) + Counter(str(line.xid) for line in new)
    after = replace(
        before,
        evidence=evidence,
        boot=look.boot,
        seq=max((line.seq for line in new), default=-1 if booted else before.seq),
        xids=dict(counts),
    )
    after = _settled(before, after, look.at)
    return before if after == before else after


def reset(before: HealthRecord, at: float) -> HealthRecord:
    """The health of a GPU that was reset just now: what Xids reported before is over."""
    kept = tuple(each for each in before.evidence if each.standing or _lasts(each))
    return _settled(before, replace(before, evidence=kept), at)


def lifted(before: HealthRecord, at: float) -> HealthRecord:
    """The health of a GPU that a person trusts again: what is read of it counts, and nothing of
    what was.
    """
    kept = tuple(each for each in before.evidence if each.standing)
    return _settled(before, replace(before, evidence=kept, serious=()), at)


def is_liftable(record: HealthRecord) -> bool:
    """Is there anything that :func:`lifted` would forget?"""
    return bool(record.serious) or any(not each.standing for each in record.evidence)


def state_of(record: HealthRecord) -> HealthState:
    """What its evidence makes of the GPU."""
    return _STATES.get(record.asks, HealthState.HEALTHY)


def _still_standing(before: HealthRecord, look: GpuLook) -> Iterator[Evidence]:
    known = {each.signal: each for each in before.evidence if each.standing}
    for signal in standing(look.facts):
        yield _seen(known.pop(signal.name, None), signal, look.at)
    for each in known.values():
        if each.asks is ActionClass.CHECK and look.at - each.last < LINGER_S:
            yield each


def _seen(known: Evidence | None, signal: Signal, at: float) -> Evidence:
    if known is None or at < known.last:
        return Evidence(
            signal=signal.name,
            asks=signal.asks,
            text=signal.text,
            standing=True,
            since=known.since if known else at,
            last=at,
        )
    again = signal.asks is ActionClass.CHECK and at - known.last >= AGAIN_S
    return replace(known, asks=signal.asks, text=signal.text, last=at if again else known.last)


def _events(record: HealthRecord) -> list[Evidence]:
    return [each for each in record.evidence if not each.standing]


def _lasts(each: Evidence) -> bool:
    """Does it outlive a reset and a boot?"""
    return each.signal == REPEATED


def _reported(
    events: Sequence[Evidence], new: Sequence[XidLine], look: GpuLook
) -> tuple[Evidence, ...]:
    """The events, with the new Xids that say something of the GPU."""
    found = {each.signal: each for each in events}
    for line in new:
        asks = asked_by(line.xid, look.facts, look.driver)
        if asks.rank < ActionClass.FOLLOW.rank:
            continue
        name = f"xid-{line.xid}"
        known = found.get(name)
        found[name] = Evidence(
            signal=name,
            asks=asks,
            text=xid_words(line),
            standing=False,
            since=known.since if known else look.at,
            last=look.at,
            count=known.count + 1 if known else 1,
        )
    return tuple(found.values())


def asked_by(xid: int, facts: GpuFacts, driver: str) -> ActionClass:
    """What an Xid asks for on this GPU: where the driver's recovery action follows it, that tells
    what is to be done, and the Xid nothing of its own.
    """
    known = catalog.xid(xid)
    linked = known.linked if known is not None else None
    if linked is None or facts.readings.recovery_action is None:
        return catalog.xid_class(xid)
    branch = driver.partition(".")[0]
    follows = branch.isdecimal() and int(branch) >= linked
    return ActionClass.FOLLOW if follows else catalog.xid_class(xid)


def xid_words(line: XidLine) -> str:
    """``Xid 48 (ROBUST_CHANNEL_GPU_ECC_DBE) in GPU instance 5: pid=12, …``."""
    known = catalog.xid(line.xid)
    name = f" ({known.name})" if known is not None else ""
    where = f" in GPU instance {line.instance}" if line.instance is not None else ""
    words = f"Xid {line.xid}{name}{where}"
    return f"{words}: {line.text}" if line.text else words


def _settled(before: HealthRecord, after: HealthRecord, at: float) -> HealthRecord:
    """With the state that follows, and the evidence of a fault that has come back."""
    now = state_of(after)
    if before.state.takes_vms and not now.takes_vms and after.asks.rank >= _SERIOUS:
        recent = (*(each for each in after.serious if at - each < WITHIN_S), at)
        after = replace(after, serious=recent)
        if len(recent) >= MOST_SERIOUS:
            after = replace(after, evidence=(*_but_repeated(after), _repeated(len(recent), at)))
    now = state_of(after)
    return replace(after, state=now, since=before.since if now is before.state else at)


def _but_repeated(record: HealthRecord) -> Iterator[Evidence]:
    return (each for each in record.evidence if each.signal != REPEATED)


def _repeated(times: int, at: float) -> Evidence:
    days = round(WITHIN_S / 86_400)
    return Evidence(
        signal=REPEATED,
        asks=ActionClass.REPLACE,
        text=f"it stopped taking VMs {times} times within {days} days",
        standing=False,
        since=at,
        last=at,
        count=times,
    )
