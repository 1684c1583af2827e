"""What must be killed at: every kind of step and every verb that the engine has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.faults.points import AFTER, BEFORE, EFFECT, Point
from vgpumgr.engine import steps
from vgpumgr.engine.verbs import VERBS
from vgpumgr.layout import journal
from vgpumgr.model.journal import StepState

# It looks, and that is all it does.
CHANGES_NOTHING = frozenset({steps.ConfirmGone.__name__})
_CHANGE = steps.ChangePart.__name__


def kinds() -> frozenset[str]:
    """Every kind of step; a layout's change counts once for each part that it can change."""
    parts = {f"{_CHANGE}:{part}" for part in journal._KINDS}
    return frozenset(steps._KINDS.keys() - {_CHANGE} | parts)


def uncovered(passed: Iterable[Point]) -> list[str]:
    """Transitions of steps and ends of verbs that no point of these is at."""
    seen = {(point.at, words) for point in passed for words in _words(point)}
    return sorted(f"{at} {' '.join(words)}" for at, words in _wanted() if (at, words) not in seen)


def _wanted() -> Iterator[tuple[str, tuple[str, ...]]]:
    intent, done = StepState.INTENT.value, StepState.DONE.value
    for kind in kinds():
        yield from ((at, (kind, intent)) for at in (BEFORE, AFTER))
        if kind not in CHANGES_NOTHING:
            yield EFFECT, (kind, intent)
        yield AFTER, (kind, done)
    for verb in VERBS:
        yield AFTER, (verb, "task", done)


def _words(point: Point) -> Iterator[tuple[str, ...]]:
    """Of ``create RealiseDevice intent: helper mdev_create``: (RealiseDevice, intent), too."""
    for what in point.what:
        words = (what.rpartition(": ")[0] if point.at == EFFECT else what).split()
        yield tuple(words)
        yield tuple(words[1:])
