"""What must be killed at: every step, verb and write that the product has.

``covered.json`` names a scenario for each, and was written by a run that passed them all: what is
not in it has no kill points.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.faults.mortal import READS
from tests.faults.points import AFTER, BEFORE, EFFECT, Point
from vgpumgr.engine.operations.operation_records import VERBS, OnRefusal
from vgpumgr.engine.steps import step
from vgpumgr.engine.steps.layout_steps import ChangePart
from vgpumgr.engine.steps.nic_steps import CheckNicFunctions
from vgpumgr.engine.steps.repair_steps import ConfirmGone
from vgpumgr.engine.steps.wave_steps import AwaitWave
from vgpumgr.layout import partition_changes
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.operation import StepState, TaskState

RECORD = Path(__file__).with_name("covered.json")
# They look, and that is all they do.
CHANGES_NOTHING = frozenset({ConfirmGone.__name__, CheckNicFunctions.__name__})
# It is never acted: what it says is done by tasks of their own.
_NEVER_ACTED = frozenset({AwaitWave.__name__})
_CHANGE = ChangePart.__name__
# They write what other points are named by.
_JOURNAL = frozenset({"reserve", "record"})
# No use case of the engine writes so: a simulated fleet comes up with its hosts, a person
# interrupts a command, a backup is put in the ledger's place. Hosts that show nothing new are
# looked at between use cases: a controller that dies there has lost a time of day. So are guests,
# whose state is what their next look says.
_OF_NO_USE_CASE = frozenset(
    {"add_host", "leave_operations", "raise_epoch", "looked_again", "note_guests"}
)
# Roles, tokens, logins, secrets, flavours, prices, licences, backup targets, webhooks, calendars,
# notifications, requests over HTTP and the trail's seal are a transaction each, and no host is
# asked for them; tests/api/kills.py kills servers in the midst of them.
_OF_ACCESS = frozenset(
    {
        *("bind_role", "unbind_role", "add_api_token", "use_api_token", "revoke_api_token"),
        *("set_secret", "remove_secret", "set_flavour", "delete_flavour"),
        *("set_price_book", "remove_price_book", "set_licence", "delete_licence"),
        *("set_power_budgets", "remove_power_budget"),
        *("set_notification", "remove_notification", "set_calendar", "remove_calendar"),
        *("put_profile_disk", "forget_profile_disk"),  # tests/unit/engine/test_profile_disks.py
        *("notified", "notification_failed", "tell_notices"),
        *("set_backup_target", "delete_backup_target"),
        *("add_webhook", "pause_webhook", "resume_webhook", "remove_webhook", "webhook_rotated"),
        *("webhook_delivered", "webhook_failed"),  # tests/e2e/test_webhooks.py kills a delivery
        *("begin_login", "see_login", "end_login", "record_access", "record_upload"),
        *("end_request", "seal_trail", "forget_requests", "forget_logins", "forget_tokens"),
    }
)

Transition = tuple[str, tuple[str, ...]]


def kinds() -> frozenset[str]:
    """Every kind of step; a layout's change counts once for each part that it can change."""
    parts = {f"{_CHANGE}:{part}" for part in partition_changes._KINDS}
    return frozenset(step._KINDS.keys() - {_CHANGE} - _NEVER_ACTED | parts)


def uncovered(passed: Iterable[Point]) -> list[str]:
    """What no point of these is at."""
    seen = {each for point in passed for each in _transitions(point)}
    return sorted(text(each) for each in wanted() if each not in seen)


def each_once(passed: Mapping[str, Sequence[Point]]) -> dict[str, tuple[int, ...]]:
    """Of each scenario the points, by number, that are the first at something to be killed at."""
    left = set(wanted())
    found: dict[str, tuple[int, ...]] = {}
    for name, points in passed.items():
        for number, each in enumerate(points, 1):
            here = left.intersection(_transitions(each))
            if here:
                left -= here
                found[name] = (*found.get(name, ()), number)
    return found


def recorded() -> dict[str, str]:
    """By transition, the scenario that passes it."""
    found: dict[str, str] = json.loads(RECORD.read_text())
    return found


def record(passed: Mapping[str, Sequence[Point]]) -> None:
    """Write that down anew, with few scenarios."""
    found = {text(each): name for name, each in _cover(passed)}
    RECORD.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")


def _cover(passed: Mapping[str, Sequence[Point]]) -> Iterator[tuple[str, Transition]]:
    """The scenario that passes most of what is left, until nothing is left that any passes."""
    left = set(wanted())
    having = {name: {t for p in points for t in _transitions(p)} for name, points in passed.items()}
    while having:
        best = max(sorted(having), key=lambda name: len(having[name] & left))
        gain = having[best] & left
        if not gain:
            return
        yield from ((best, each) for each in gain)
        left -= gain


def text(transition: Transition) -> str:
    """``after create task done``."""
    at, words = transition
    return f"{at} {' '.join(words)}"


def wanted() -> Iterator[Transition]:
    """Steps begun, done and, where a task is taken back, undone; ends of tasks; other writes."""
    yield from _of_steps()
    for name, verb in VERBS.items():
        yield AFTER, (name, "task", TaskState.DONE.value)
        if verb.on_refusal is OnRefusal.UNDO:
            yield AFTER, (name, "task", TaskState.UNDONE.value)
    for name in set(dir(Ledger)) - READS - _JOURNAL - _OF_NO_USE_CASE - _OF_ACCESS:
        if not name.startswith("_"):
            yield from ((at, tuple(name.split("_"))) for at in (BEFORE, AFTER))


def _of_steps() -> Iterator[Transition]:
    intent, done = StepState.INTENT.value, StepState.DONE.value
    for kind in kinds():
        yield from ((at, (kind, intent)) for at in (BEFORE, AFTER))
        if kind not in CHANGES_NOTHING:
            yield EFFECT, (kind, intent)
        yield AFTER, (kind, done)


def _transitions(point: Point) -> Iterator[Transition]:
    """Of ``create RealiseDevice intent: helper mdev_create``: (RealiseDevice, intent), too."""
    for what in point.what:
        words = (what.rpartition(": ")[0] if point.at == EFFECT else what).split()
        yield point.at, tuple(words)
        yield point.at, tuple(words[1:])
