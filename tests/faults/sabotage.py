"""Guards of the engine taken away on purpose: whoever checks it must see that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vgpumgr.engine.operations.task_run import TaskRun
from vgpumgr.engine.steps.device_steps import RealiseDevice, ReleaseDevice
from vgpumgr.engine.steps.move_steps import StartMoved
from vgpumgr.engine.steps.volume_steps import CreateVolume
from vgpumgr.model.operation import InState, StepMoved, StepState, Transition
from vgpumgr.store import SqlLedger


def late_intent() -> None:
    """An intent is on disk only once its effect has happened."""
    record, held = SqlLedger.record, list[Transition]()

    def lazy(ledger: SqlLedger, *transitions: Transition) -> None:
        if held:
            record(ledger, *held)
            held.clear()
        held.extend(each for each in transitions if _is_intent(each))
        if kept := [each for each in transitions if not _is_intent(each)]:
            record(ledger, *kept)

    SqlLedger.record = lazy  # type: ignore[method-assign]


def _is_intent(transition: Transition) -> bool:
    return isinstance(transition, StepMoved) and transition.state is StepState.INTENT


def blind_undo() -> None:
    """Devices are not taken back."""
    _replace(RealiseDevice, "undo", lambda _step, _host: None)


def blind_release() -> None:
    """After a crash a device is taken for released without a look."""
    _replace(ReleaseDevice, "look", lambda _step, _host: InState())


def half_volume() -> None:
    """What a cut call left of a volume is not taken away."""
    _replace(CreateVolume, "undo", lambda _step, _host: None)


def no_look() -> None:
    """After a crash nobody looks: whatever was begun is taken for done."""
    _replace(TaskRun, "_happened", lambda _run, _step: True)


def start_unseen() -> None:
    """A VM is started where it went though nobody saw it off where it was."""
    _replace(StartMoved, "look", lambda _step, _source, _target: InState())


def _replace(kind: type, name: str, method: Callable[..., Any]) -> None:
    setattr(kind, name, method)


ALL: dict[str, Callable[[], None]] = {
    "late intent": late_intent,
    "blind undo": blind_undo,
    "blind release": blind_release,
    "half volume": half_volume,
    "no look": no_look,
    "start unseen": start_unseen,
}
