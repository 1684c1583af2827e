"""Has a host booted, and is all that is ours there again? Until then it takes no new VMs."""

from __future__ import annotations

from vgpumgr.engine.reconcile.context import Turn
from vgpumgr.engine.reconcile.events import Event, EventKind
from vgpumgr.engine.use_cases.marks import mark
from vgpumgr.model.domain import DomainState
from vgpumgr.model.drift import Drift, DriftKind, DriftReport
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.words import spanned

# So many VMs are named in a command to type.
_MOST = 5
# Differences that say that something a boot took is not back, or not known to be.
_LACKS = frozenset(
    {
        DriftKind.UNFINISHED,
        DriftKind.REINSTALLED,
        DriftKind.DOMAIN_MISSING,
        DriftKind.DEVICE_MISSING,
        DriftKind.DEVICE_DIFFERS,
        DriftKind.DEVICE_DRIVER,
        DriftKind.DEVICE_TAKEN,
        DriftKind.INSTANCE_MISSING,
        DriftKind.PARTITION_INACTIVE,
        DriftKind.CLAIM_MISSING,
        DriftKind.CLAIM_DIFFERS,
        DriftKind.LAYOUT,
        DriftKind.GPU_MISSING,
        DriftKind.GPU_LOST,
        DriftKind.GPU_EVIDENCE,
    }
)


def remember_boot(turn: Turn, before: HostRecord) -> HostRecord:
    """The boot it was last seen in, kept before a look writes another one over it."""
    if before.settled_boot or before.facts is None:
        return before
    return mark(turn.session, turn.host, settled_boot=before.facts.boot_id)


def has_rebooted(before: HostRecord, facts: HostFacts) -> bool:
    """Has it booted since it was last seen whole (by a controller that never looked: seen)?"""
    last = before.settled_boot or (before.facts.boot_id if before.facts else "")
    return bool(last) and last != facts.boot_id


def tell_reboot(turn: Turn, facts: HostFacts) -> None:
    """Once for each boot."""
    if turn.memory.rebooted != facts.boot_id:
        turn.memory.rebooted = facts.boot_id
        text = f"{turn.host} has rebooted; its lost state is being restored"
        turn.emit(Event(kind=EventKind.HOST_REBOOTED, host=turn.host, text=text))


def tell_left_off(turn: Turn, report: DriftReport) -> None:
    """Of a host that was not seen whole before nobody can tell whether a boot or a person stopped
    its VMs: they are left off, by name.
    """
    off = [drift.vm for drift in report.drifts if _is_off(drift)]
    if off:
        turn.wait_for(
            f"left off on {turn.host}: {spanned(off)}: serve has not seen the complete "
            "host before, so it cannot tell a reboot from a manual shutdown",
            f"vgpumgr vm start {' '.join(off[:_MOST])}{' …' if len(off) > _MOST else ''}",
        )


def settle(turn: Turn, facts: HostFacts, report: DriftReport, *, rebooted: bool) -> bool:
    """Write down that the host is whole under this boot, where it is; is it?"""
    lacking = lacks(report)
    unread = [part for part in report.not_read if part.host == turn.host]
    if rebooted and (lacking or unread or report.skipped):
        if lacking and not turn.memory.waits:
            turn.wait_for(f"incomplete since its reboot: {lacking[0].text}", lacking[0].next)
        return False
    mark(turn.session, turn.host, settled_boot=facts.boot_id)
    if rebooted:
        text = f"{turn.host} is restored after its reboot, and accepts VMs again"
        turn.emit(Event(kind=EventKind.HOST_RESTORED, host=turn.host, text=text))
    turn.memory.waits[:] = turn.reasons
    return True


def lacks(report: DriftReport) -> list[Drift]:
    """The differences that a boot may have made."""
    return [drift for drift in report.drifts if _lacks(drift)]


def _lacks(drift: Drift) -> bool:
    return _is_off(drift) or drift.kind in _LACKS


def _is_off(drift: Drift) -> bool:
    return drift.kind is DriftKind.POWER and drift.wanted == str(DomainState.RUNNING)
