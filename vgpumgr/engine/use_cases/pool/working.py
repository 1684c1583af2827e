"""What was taken is done, by the use cases that do it for any VM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from vgpumgr.engine.pooling import failed, not_updated
from vgpumgr.engine.reserving.shelving import Stop
from vgpumgr.engine.running.outcome import Outcome, VmOutcome
from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases import delete, power, shelve
from vgpumgr.engine.use_cases.attempts import until_current
from vgpumgr.engine.use_cases.pool.making import fit, make
from vgpumgr.engine.use_cases.pool.reading import Reading, read
from vgpumgr.engine.use_cases.pool.updating import update
from vgpumgr.model.errors import Interrupted, LedgerError, NoPlacement, VgpumgrError
from vgpumgr.model.journal import TaskState
from vgpumgr.model.pool import DesktopRecord, Do

# A desktop that is put on the shelf is asked to power off, and has this long for it, in seconds.
SHELVE_GRACE_S = 60.0
_OF_ALL = (LedgerError, Interrupted)
_TAKEN_BACK = frozenset({TaskState.UNDONE, TaskState.FAILED})

Rows = Sequence[DesktopRecord]


@dataclass(slots=True)
class Done:
    """What became of the work: what was refused, by name, and by id what is to wait."""

    outcomes: list[VmOutcome] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def work(session: Session, ready: Callable[[str], bool]) -> Done:
    """Go on with all that was taken: first what gives room, then what needs it."""
    done = Done()
    reading = read(session)
    rows = [each for each in reading.rows if each.doing and _free(each, reading)]
    if not rows:
        return done
    going = [each for each in rows if _goes(each, reading) and ready(each.id)]
    _each(session, done, going, _delete)
    resting = [each for each in rows if each.doing is Do.SHELVE and ready(each.id)]
    _each(session, done, resting, _shelve)
    changing = [each for each in rows if each.doing is Do.UPDATE and ready(each.id)]
    _each(session, done, changing, _update)
    _look_at(session, done)  # the last look still shows what was given back
    reading = read(session)
    rows = [each for each in reading.rows if each.doing and _free(each, reading)]
    new = [each for each in rows if _is_new(each, reading) and ready(each.id)]
    fitting, misfits = fit(session, new)
    for row, error in misfits:
        _refused(session, done, row, error)
    _each(session, done, fitting, make)
    back = [each for each in rows if each.doing in {Do.START, Do.HEAL} and ready(each.id)]
    _each(session, done, back, _start)
    _look_at(session, done)
    _turn_back(session, done, changing)
    return done


def _look_at(session: Session, done: Done) -> None:
    touched = {each.host for each in done.outcomes}
    if touched:
        session.refresh(touched)


def _free(row: DesktopRecord, reading: Reading) -> bool:
    """Nobody works on its VM, and its host can be worked with."""
    vm = reading.seen.vms.get(row.vm_id)
    return vm is None or (vm.id not in reading.busy and reading.seen.answers(vm.host))


def _goes(row: DesktopRecord, reading: Reading) -> bool:
    return row.doing in {Do.DELETE, Do.RECREATE} and row.vm_id in reading.seen.vms


def _is_new(row: DesktopRecord, reading: Reading) -> bool:
    if row.doing is Do.CREATE:
        return not row.vm_id
    return row.doing is Do.RECREATE and row.vm_id not in reading.seen.vms


def _each(session: Session, done: Done, rows: Rows, do: Callable[[Session, Rows], Outcome]) -> None:
    """All at once, or where that is refused each by itself."""
    if not rows or session.stop.is_set():
        return
    alone = [[each] for each in rows]
    for group in (rows, *alone) if len(rows) > 1 else alone:
        try:
            outcome = until_current(lambda group=group: do(session, group))  # type: ignore[misc]
        except _OF_ALL:
            raise
        except VgpumgrError as error:
            if len(group) == 1:
                _refused(session, done, group[0], error)
            continue
        done.outcomes += outcome.vms
        if group is rows:
            return


def _refused(session: Session, done: Done, row: DesktopRecord, error: VgpumgrError) -> None:
    """A desktop that holds nothing and finds no room was never there; another fault is its own."""
    done.refused[row.name] = str(error)
    done.failed.append(row.id)
    if row.doing in {Do.DELETE, Do.SHELVE, Do.UPDATE}:
        return
    done.failed.append(row.pool)  # what keeps one from being made may keep the next
    current = next(iter(session.ledger.desktops([row.name])), None)
    if current is None or current.doing is not row.doing:
        return
    if after := _after(session, current, error):
        session.ledger.take_desktops([after])


def _turn_back(session: Session, done: Done, rows: Rows) -> None:
    """Desktops that were refused another image have the one that they had."""
    errors = {each.vm: str(each.error) for each in done.outcomes if each.state in _TAKEN_BACK}
    refused = {**errors, **done.refused}
    if not any(each.name in refused for each in rows):
        return
    reading = read(session)
    found = [
        not_updated(row, reading.seen, refused[row.name])
        for row in reading.rows
        if row.doing is Do.UPDATE and row.name in refused
    ]
    session.ledger.take_desktops(found)


def _after(session: Session, row: DesktopRecord, error: VgpumgrError) -> DesktopRecord | None:
    """What a refused start makes of the row; None: it is to be deleted still."""
    now, why = session.clock.now(), str(error)
    if row.doing not in {Do.CREATE, Do.RECREATE}:
        return failed(row, now, why)
    if row.doing is Do.RECREATE and row.vm_id in {vm.id for vm in session.ledger.vms()}:
        return None
    if isinstance(error, NoPlacement):
        return replace(row, closed_at=now, doing=None, why=why)
    return failed(replace(row, vm_id=""), now, why)


def _delete(session: Session, rows: Rows) -> Outcome:
    return delete.delete(session, [each.name for each in rows], keep_disks=False, force=True)


def _shelve(session: Session, rows: Rows) -> Outcome:
    stop = Stop(timeout_s=SHELVE_GRACE_S, at_last=True)
    return shelve.shelve(session, [each.name for each in rows], stop)


def _update(session: Session, rows: Rows) -> Outcome:
    return update(session, rows, Stop(timeout_s=SHELVE_GRACE_S, at_last=True))


def _start(session: Session, rows: Rows) -> Outcome:
    return power.start(session, [each.name for each in rows])
