"""What somebody does after a crash, until everything has ended."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.faults.scenario import Scenario
from vgpumgr.app.composition import App
from vgpumgr.engine.controller.controller import Controller
from vgpumgr.engine.controller.cycle_schedule import ProbePauses
from vgpumgr.engine.controller.cycle_threads import SerialCycleRunner
from vgpumgr.model.errors import Conflict, VgpumgrError

PATIENCE_S = 20.0
INTERVAL_S = 30.0
_POLL_S = 0.01


def again(app: App, scenario: Scenario) -> None:
    """The same command, typed again; where it is refused, ``operation resume`` and once more."""
    refused = _refused(app, scenario)
    resume(app, scenario)
    if isinstance(refused, Conflict):
        _refused(app, scenario)
        resume(app, scenario)


def resume(app: App, _: Scenario) -> None:
    """``operation resume`` for each that is open."""
    for operation in reversed(app.ledger.operations(open_only=True)):
        _patiently(lambda id_=operation.id: app.engine.resume(id_))


def undo(app: App, scenario: Scenario) -> None:
    """``operation undo``; what only goes forward is resumed."""
    for operation in app.ledger.operations(open_only=True):
        try:
            _patiently(lambda id_=operation.id: app.engine.undo(id_))
        except Conflict:
            continue
    resume(app, scenario)


def serve(app: App, _: Scenario) -> None:
    """What ``vgpumgr serve`` does when it comes up: turns of all hosts, until all has ended."""
    clock = app.engine.clock
    controller = Controller(
        app.engine, SerialCycleRunner(clock), ProbePauses(INTERVAL_S), emit=lambda _event: None
    )
    deadline = time.monotonic() + PATIENCE_S
    controller.once()
    while app.ledger.operations(open_only=True) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        controller.once()


ENDS: dict[str, Callable[[App, Scenario], None]] = {
    "again": again,
    "resume": resume,
    "undo": undo,
    "serve": serve,
}


def _refused(app: App, scenario: Scenario) -> VgpumgrError | None:
    """Run the command; what it is refused with is its user's to read (gone already, say)."""
    try:
        _patiently(lambda: scenario.command(app))
    except VgpumgrError as error:
        return error
    return None


def _patiently(do: Callable[[], object]) -> None:
    """A session that was killed holds what it had claimed until its server has noticed."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            do()
        except Conflict as error:
            if not error.message.endswith("is running") or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return
