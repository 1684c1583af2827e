"""One reconcile cycle of one host: probe, restore, resume, compare, drain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from vgpumgr.engine.controller import boot_restoration
from vgpumgr.engine.controller.automatic_evacuation import recreate_lost_vms
from vgpumgr.engine.controller.controller_events import ControllerEvent, EventKind, task_event
from vgpumgr.engine.controller.cycle_context import ConvergedLook, HostCycle, error_line
from vgpumgr.engine.controller.gpu_care import care_for_gpus
from vgpumgr.engine.controller.operation_recovery import RecoveryReport, recover
from vgpumgr.engine.drift import drift_survey, host_comparison
from vgpumgr.engine.hosts import host_drain, host_return
from vgpumgr.engine.inventory.ledger_view import read_host_view
from vgpumgr.engine.inventory.observation import NO_ANSWERS, Observation, ProbeAnswer
from vgpumgr.engine.operations.operation_lifecycle import unfinished
from vgpumgr.engine.operations.task_run import CUT
from vgpumgr.engine.pools import session_activity, session_warnings
from vgpumgr.model.desktop import DesktopRecord
from vgpumgr.model.drift import DriftReport
from vgpumgr.model.errors import Conflict, LedgerError, NotFound, VgpumgrError
from vgpumgr.model.host import HostFacts, HostRecord, Membership, UnchangedLook
from vgpumgr.model.operation import FINAL_TASKS, TaskRecord
from vgpumgr.model.ports import WAIT_LIMITS, Host

# Between two questions; a guest that did not answer is left alone for longer.
AGAIN_S, MUTE_S = 60.0, 600.0
# Of one that hangs libvirt waits 5 s for an answer: after so long the others wait for another turn.
SPENT_S = 5.0


def ask_guest_agents(turn: HostCycle) -> None:
    """Ask the guest agents that are due, the longest waiting first."""
    clock, due = turn.context.clock, turn.memory.guests
    rows = {row.vm_id: row for row in session_activity.agents_to_ask(turn.context, turn.host)}
    for gone in due.keys() - rows.keys():
        del due[gone]
    now = clock.monotonic()
    waiting = sorted((due.get(vm, 0.0), vm) for vm in rows if due.get(vm, 0.0) <= now)
    for _, vm in waiting:
        if turn.context.stop.is_set() or clock.monotonic() >= now + SPENT_S:
            return
        due[vm] = clock.monotonic() + (AGAIN_S if _ask(turn, rows[vm]) else MUTE_S)


def warn_users(turn: HostCycle, host: HostRecord) -> None:
    """Tell users of a drained host before their sessions end."""
    if not host.draining or host.logoff_by is None:
        turn.memory.warned.clear()
        return
    for each in session_warnings.tell_users(
        turn.context, turn.host, host.logoff_by, turn.memory.warned
    ):
        kind = EventKind.USER_NOT_TOLD if each.why else EventKind.USER_TOLD
        turn.emit(ControllerEvent(kind=kind, vm=each.desktop, host=turn.host, text=each.text))


def _ask(turn: HostCycle, row: DesktopRecord) -> bool:
    """Did it answer?"""
    there = row.desktop.session
    try:
        found = turn.context.host(turn.host).domains.guest(row.vm_id)
        if there is None or found is None or found.users is None:
            return False
        session_activity.logged_in(turn.context, row.name, there.user, found.users)
    except LedgerError:
        raise
    except VgpumgrError:
        return False  # of a host that does not answer, or a domain that is gone, its turn tells
    return True


def drain_away(turn: HostCycle) -> bool:
    """Move what can be moved now; was anything?"""
    context = replace(turn.context, lanes=turn.side_by_side)
    worked = False
    while not context.stop.is_set():
        done = host_drain.step(context, turn.host)
        for each in done.outcome.vms:
            turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
        worked = worked or bool(done.outcome.vms)
        if not done.outcome.done:
            _tell(turn, done)
            break
    return worked


def remove_evacuation_remains(turn: HostCycle) -> bool:
    """Take away what evacuated VMs left, if the host answers; was there any?"""
    done = host_return.step(turn.context, turn.host)
    for each in done.vms:
        turn.emit(task_event(each, ended=each.state in FINAL_TASKS))
    return bool(done.vms)


def _tell(turn: HostCycle, done: host_drain.DrainReport) -> None:
    for choice in done.staying:
        turn.wait_for(f"{choice.vm.name} stays on {turn.host}: {choice.why}", choice.next)
    empty = not done.staying and not done.outcome.vms
    if empty and not turn.memory.drained:
        text = f"no VM is left on {turn.host}"
        turn.emit(ControllerEvent(kind=EventKind.HOST_DRAINED, host=turn.host, text=text))
    turn.memory.drained = empty


class CycleState(StrEnum):
    """How a cycle ended."""

    OK = "ok"
    PARTLY_READ = "partly-read"
    UNREACHABLE = "unreachable"
    RETURNING = "returning"
    HELD = "held-by-another"
    STOPPED = "stopped"
    MAINTENANCE = "maintenance"
    JOINING = "joining"
    LEAVING = "leaving"
    NOT_ENROLLED = "not-enrolled"


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleEnd:
    """The result of a cycle. ``left`` are operations about the host that it could not end."""

    state: CycleState
    why: str = ""
    drifts: int = 0
    left: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _HostWork(RecoveryReport):
    """Recovery within a host's cycle; ``returning``: a booted host not yet known to be whole."""

    returning: bool = False


def run_cycle(turn: HostCycle) -> CycleEnd:
    """The whole cycle of a host that no other controller works on; LedgerError ends it.

    The cycle of a host that shows what it showed, and of which the ledger says what it said when
    nothing was left to do, is a probe.
    """
    ledger, claim = turn.context.ledger, f"host:{turn.host}"
    if not ledger.claim(claim):
        return CycleEnd(state=CycleState.HELD)
    try:
        last, turn.memory.converged = turn.memory.converged, None
        if last is None or _is_doubtful(turn, last):
            return _take(turn, NO_ANSWERS)
        turn.lane.expect(WAIT_LIMITS.look_s)
        at = turn.context.clock.now()
        answer = _probed(turn.context.hosts.open(last.record))
        if answer is not last.told:
            return _take(turn, {turn.host: answer})
        turn.shared.looks.add(UnchangedLook(host=turn.host, before=last.observed_at, at=at))
        turn.memory.converged = replace(last, observed_at=at)
        if last.agents:
            ask_guest_agents(turn)
        warn_users(turn, last.record)
        return CycleEnd(state=CycleState.OK, drifts=last.drifts)
    finally:
        ledger.release(claim)


def _probed(host: Host) -> ProbeAnswer:
    try:
        return host.probe()
    except VgpumgrError as error:
        return error


# So long a host may say "unchanged" before it is compared all the same, in seconds.
WHOLE_S = 600.0


def _is_doubtful(turn: HostCycle, last: ConvergedLook) -> bool:
    shared = turn.shared
    return (
        shared.changed.since(turn.host, last.count)
        or shared.looks.outdated(turn.host)
        or turn.context.clock.monotonic() >= last.whole_until
    )


def _take(turn: HostCycle, answers: Mapping[str, ProbeAnswer]) -> CycleEnd:
    """The whole cycle; ``answers``: what the host has answered just now, if it was asked."""
    turn.lane.expect(WAIT_LIMITS.look_s)
    count = turn.shared.changed.count
    try:
        before = turn.context.ledger.host(turn.host)
    except NotFound:
        return CycleEnd(state=CycleState.NOT_ENROLLED)
    if before.at_rest:
        return _rest(turn, before)
    is_new = not before.settled_boot
    before = boot_restoration.remember_boot(turn, before)
    since, observed = _look(turn, answers)
    error = observed.failed.get(turn.host)
    if error is not None and not isinstance(error, Conflict):
        recreate_lost_vms(turn, before)
        return CycleEnd(state=CycleState.UNREACHABLE, why=error_line(error))
    turn.memory.off_since = None
    turn.lane.expect(WAIT_LIMITS.work_s)
    done = _work(turn, before, observed.facts.get(turn.host))
    turn.lane.expect(WAIT_LIMITS.look_s)
    if turn.context.stop.is_set():
        return CycleEnd(state=CycleState.STOPPED, left=done.left)
    if done.worked:
        since, observed = _look(turn)
    report = _compare(turn, before, observed, since, done.left)
    facts = observed.facts.get(turn.host)
    if not done.returning and _booted_meanwhile(turn, before, facts, report):
        return CycleEnd(state=CycleState.OK, left=done.left)
    # Of what a boot took, the host's return tells, until the host is whole.
    for event in turn.memory.known.update(
        report, boot_restoration.boot_losses(report) if done.returning else ()
    ):
        turn.emit(event)
    if not done.returning:
        ask_guest_agents(turn)
        warn_users(turn, before)
        if is_new:
            boot_restoration.tell_left_off(turn, report)
    end = _end(turn, facts, report, done)
    if end == CycleEnd(state=CycleState.OK, drifts=end.drifts) and not done.worked:
        _remember(turn, observed, count, end.drifts)
    return end


def _remember(turn: HostCycle, observed: Observation, count: int, drifts: int) -> None:
    """Where nothing is left to do, the next cycle may be a short one."""
    kept = observed.kept.get(turn.host)
    record = turn.context.ledger.host(turn.host)
    if kept is None or turn.reasons or record.draining or _has_work(turn):
        return
    turn.memory.converged = ConvergedLook(
        record=record,
        told=kept.told,
        count=count,
        observed_at=kept.at,
        whole_until=turn.context.clock.monotonic() + WHOLE_S,
        drifts=drifts,
        agents=any(vm.spec.agent for vm in turn.context.ledger.vms(turn.host)),
    )


def _has_work(turn: HostCycle) -> bool:
    """Is an operation about the host open? The trail tells of its begin and end, not of the death
    of its worker.
    """
    ledger = turn.context.ledger
    open_ = ledger.operations(open_only=True)
    return any(turn.host in task.hosts for each in open_ for task in ledger.tasks(each.id))


def _rest(turn: HostCycle, before: HostRecord) -> CycleEnd:
    """End interrupted operations, and remains of evacuated VMs, on a host in maintenance (it may be
    off) and on a host that joins or leaves (it has no helper).
    """
    turn.lane.expect(WAIT_LIMITS.work_s)
    left = recover(turn).left
    if before.evacuated:
        _attempt(turn, remove_evacuation_remains)
    member = before.membership is Membership.MEMBER
    state = CycleState.MAINTENANCE if member else CycleState(before.membership.value)
    return CycleEnd(state=state, left=left)


def _look(
    turn: HostCycle, answers: Mapping[str, ProbeAnswer] = NO_ANSWERS
) -> tuple[float, Observation]:
    since = turn.context.clock.now()
    observed = turn.context.refresh([turn.host], answers)
    for line in observed.set_aside:
        turn.wait_for(line)
    return since, observed


def _work(turn: HostCycle, before: HostRecord, facts: HostFacts | None) -> _HostWork:
    """Layouts first: what was cut may need them."""
    if facts is None:
        return _HostWork()
    returning = boot_restoration.has_rebooted(before, facts)
    restoring = returning and _may_restore(turn, before, facts)
    worked = restoring and _attempt(turn, boot_restoration.restore_layouts)
    found = recover(turn)
    if found.worked:
        _look(turn)
    if restoring:
        worked = _attempt(turn, boot_restoration.restore_vms) or worked
        if worked:
            turn.shared.patience.failed(_boot(turn))  # unless the host turns out to be whole
    elif before.draining and not returning:
        worked = _attempt(turn, drain_away)
    if not returning:
        worked = _attempt(turn, care_for_gpus) or worked
    return _HostWork(worked=worked or found.worked, left=found.left, returning=returning)


def _may_restore(turn: HostCycle, before: HostRecord, facts: HostFacts) -> bool:
    boot_restoration.tell_reboot(turn, facts)
    why = boot_restoration.restoration_obstacle(turn, facts)
    if why:
        turn.wait_for(f"nothing is restored: {why}", f"vgpumgr drift {turn.host}")
    return not why and not before.probe_only and turn.shared.patience.ready(_boot(turn))


def _boot(turn: HostCycle) -> str:
    return f"boot:{turn.host}"


def _attempt(turn: HostCycle, work: Callable[[HostCycle], bool]) -> bool:
    """Bring something back and look again; what refuses is told, and tried again later."""
    try:
        if not work(turn):
            return False
    except LedgerError:
        raise
    except VgpumgrError as error:
        turn.wait_for(error_line(error), error.next)
        if isinstance(error, CUT):
            return True
    _look(turn)
    return True


def _compare(
    turn: HostCycle, before: HostRecord, observed: Observation, since: float, left: frozenset[str]
) -> DriftReport:
    view = read_host_view(turn.context.ledger, turn.host)
    found = partial(_worked_on, turn, since, left)
    return drift_survey.report(turn.context, [before], observed, view, found)


def _booted_meanwhile(
    turn: HostCycle, before: HostRecord, facts: HostFacts | None, report: DriftReport
) -> bool:
    """Whether the host booted during the look: the next cycle restores it, and no drift is
    reported.

    A look is several calls. A host that boots between them shows the present under its old boot id,
    so where anything is lacking it is asked once more.
    """
    if facts is None or boot_restoration.has_rebooted(before, facts):
        return facts is not None
    if not boot_restoration.boot_losses(report):
        return False
    _, again = _look(turn)
    now = again.facts.get(turn.host)
    return now is None or boot_restoration.has_rebooted(before, now)


def _worked_on(
    turn: HostCycle, since: float, left: frozenset[str]
) -> host_comparison.OperationsInProgress:
    """Operations of other processes during the cycle, and operations that no process could end."""
    ledger = turn.context.ledger
    busy: list[TaskRecord] = []
    interrupted: list[TaskRecord] = []
    for operation in ledger.operations(since=since):
        tasks = ledger.tasks(operation.id)
        if operation.id in left:
            interrupted += unfinished(tasks)
        else:
            busy += tasks
    return host_comparison.OperationsInProgress(tuple(busy), tuple(interrupted))


def _end(
    turn: HostCycle, facts: HostFacts | None, report: DriftReport, done: _HostWork
) -> CycleEnd:
    whole = facts is not None and boot_restoration.settle(
        turn, facts, report, rebooted=done.returning
    )
    if whole:
        turn.shared.patience.done(_boot(turn))
    end = CycleEnd(state=CycleState.OK, drifts=len(report.drifts), left=done.left)
    if done.returning and not whole:
        return replace(end, state=CycleState.RETURNING, why="; ".join(turn.memory.waits))
    if report.not_read:
        first = report.not_read[0]
        return replace(end, state=CycleState.PARTLY_READ, why=f"{first.part}: {first.why}")
    return end
