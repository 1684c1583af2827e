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
from vgpumgr.health.standing_signals import Signal, standing
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.health import ActionClass, Evidence, HealthRecord, HealthState, XidLine

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
