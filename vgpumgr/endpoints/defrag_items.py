"""Defragmentation in JSON: its goal, the moves, and what is in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from vgpumgr.endpoints.outcomes import OutcomeItem, UserItem, outcome_item, user_items
from vgpumgr.model.defrag import DefragGoal, NoDefragMoves, Obstacle, VmMove

if TYPE_CHECKING:
    from vgpumgr.engine.defrag.defrag_apply import DefragReport
    from vgpumgr.engine.defrag.defrag_plan import DefragPlan


class MovedPart(TypedDict):
    """A GPU part as it is after a move."""

    profile: str
    device: str
    gpu: str


DefragMoveItem = TypedDict(
    "DefragMoveItem",
    {
        "name": str,
        "from": str,
        "from_devices": list[str],
        "to": str,
        "how": str,
        "within": bool,
        "user": str | None,
        "cuts_off": bool,
        "hop": bool,
        "mib": int,
        "pause_s": int,
        "parts": list[MovedPart],
    },
)
"""A VM goes to another host, or ``within`` its host to other GPUs: ``how`` is live, cold, off or
at-logoff. ``hop``: it goes on from there later. ``mib`` are carried over, for ``pause_s`` its guest
stands still. ``user`` is at work on it."""


class ObstacleItem(TypedDict):
    """Why a GPU, or where ``gpu`` is empty a whole host, is of no help to the goal."""

    host: str
    gpu: str
    device: str
    model: str
    code: str
    text: str


class FragmentationChangeItem(TypedDict):
    """The share of free GPU memory that is fragmented, before and after."""

    before: float
    after: float


class DefragPlanItem(TypedDict):
    """The moves that reach the goal, in this order; where it is not ``possible``, the obstacles.
    ``refused`` names the VMs that a host would not take, ``users`` would be cut off.
    """

    name: str
    goal: str
    possible: bool
    fewest: bool
    moves: list[DefragMoveItem]
    mib: int
    fragmentation: FragmentationChangeItem
    obstacles: list[ObstacleItem]
    refused: list[str]
    users: list[UserItem]


class DefragEnd(DefragPlanItem, OutcomeItem):  # type: ignore[misc]
    """A plan, and its end: the moves that are ``done``, and those ``waiting`` for a logoff."""

    done: list[DefragMoveItem]
    waiting: list[DefragMoveItem]


def defrag_item(plan: DefragPlan) -> DefragPlanItem:
    """The JSON of a plan."""
    found = plan.found
    no_way = isinstance(found, NoDefragMoves)
    moves = () if isinstance(found, NoDefragMoves) else found.moves
    return {
        "name": "defrag",
        "goal": goal_words(plan.wanted.goal, plan.wanted.share),
        "possible": not no_way,
        "fewest": not isinstance(found, NoDefragMoves) and found.fewest,
        "moves": [_move(move) for move in moves],
        "mib": sum(move.mib for move in moves),
        "fragmentation": {"before": round(plan.before, 4), "after": round(plan.after, 4)},
        "obstacles": [_obstacle(each) for each in getattr(found, "obstacles", ())],
        "refused": list(plan.refused),
        "users": user_items(plan.users),
    }


def defragmented_item(done: DefragReport) -> DefragEnd:
    """The JSON of what was done."""
    return {
        **defrag_item(done.plan),
        **outcome_item(done.outcome),
        "done": [_move(move) for move in done.done],
        "waiting": [_move(move) for move in done.waiting],
    }


def goal_words(goal: DefragGoal | None, share: float) -> str:
    """What is to be reached."""
    return f"fragmentation of at most {share:.0%}" if goal is None else goal.words


def _move(move: VmMove) -> DefragMoveItem:
    return {
        "name": move.vm,
        "from": move.source.host,
        "from_devices": list(dict.fromkeys(part.device for part in move.source.assignments)),
        "to": move.target.host,
        "how": str(move.way.how),
        "within": move.within,
        "user": move.user or None,
        "cuts_off": move.cuts_off,
        "hop": move.hop,
        "mib": move.mib,
        "pause_s": move.pause_s,
        "parts": [
            {"profile": part.offer.profile, "device": part.device, "gpu": part.gpu}
            for part in move.target.assignments
        ],
    }


def _obstacle(each: Obstacle) -> ObstacleItem:
    return {
        "host": each.host,
        "gpu": each.gpu,
        "device": each.device,
        "model": each.model,
        "code": each.code,
        "text": each.text,
    }
