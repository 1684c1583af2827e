"""What is done about a GPU, by the class of what it asks for; and what is due of it now."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from vgpumgr.model.health import ActionClass, HealthRecord


class HealthAction(StrEnum):
    """``TELL`` is always done. ``CORDON``: quarantine it until a person lifts it. ``DRAIN``: move
    its VMs to other hosts while they run; ``EVACUATE``: a VM that cannot is stopped for it.
    ``RESET``: once nothing uses it.
    """

    TELL = "tell"
    CORDON = "cordon"
    DRAIN = "drain"
    EVACUATE = "evacuate"
    RESET = "reset"


class HealthMode(StrEnum):
    """Does `serve` act, or say what it would do?"""

    DRY_RUN = "dry-run"
    ACT = "act"


Actions = tuple[HealthAction, ...]
DEFAULT_ACTIONS: Mapping[ActionClass, Actions] = MappingProxyType(
    {
        ActionClass.RESET_WHEN_IDLE: (HealthAction.RESET,),
        ActionClass.RESET: (HealthAction.RESET,),
        ActionClass.REPLACE: (HealthAction.DRAIN,),
    }
)
# Of all others something can be asked, and nothing is done but told.
ACTIONABLE = tuple(each for each in ActionClass if each.rank >= ActionClass.CHECK.rank)
RESETTABLE = frozenset({ActionClass.RESET_WHEN_IDLE, ActionClass.RESET})
# When more GPUs than this share of the fleet, and more than so few, are out at the same time, the
# fault is not of the boards (a driver, a rack's cooling): a person decides.
MOST_SHARE, MOST_FEW = 0.1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPolicy:
    """The actions by class; a class that is not named is told."""

    mode: HealthMode = HealthMode.DRY_RUN
    actions: Mapping[ActionClass, Actions] = field(default_factory=lambda: DEFAULT_ACTIONS)

    def of(self, asks: ActionClass) -> Actions:
        """What is done about a GPU that asks for this, telling apart, in its order."""
        wanted = self.actions.get(asks, ())
        return tuple(each for each in HealthAction if each in wanted and each is not _TELL)


_TELL = HealthAction.TELL


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSituation:
    """A GPU's health, whether it is quarantined already, and how many VMs hold parts of it."""

    health: HealthRecord
    quarantined: bool
    vms: int


def due(policy: HealthPolicy, situation: GpuSituation) -> HealthAction | None:
    """The next thing to be done about the GPU; None where nothing is left, or it is to be told
    alone.
    """
    asks = situation.health.asks
    for action in policy.of(asks):
        match action:
            case HealthAction.CORDON if not situation.quarantined:
                return action
            case HealthAction.DRAIN | HealthAction.EVACUATE if situation.vms:
                return _strongest(policy, asks)
            case HealthAction.RESET if _is_for_reset(situation):
                return action
    return None


def _is_for_reset(situation: GpuSituation) -> bool:
    """Nothing uses it, a reset helps, and no person has set it aside."""
    left_alone = situation.vms or situation.quarantined
    return not left_alone and situation.health.asks in RESETTABLE


def _strongest(policy: HealthPolicy, asks: ActionClass) -> HealthAction:
    """Who is to be evacuated is first moved while it runs, where it can be."""
    evacuates = HealthAction.EVACUATE in policy.of(asks)
    return HealthAction.EVACUATE if evacuates else HealthAction.DRAIN


def too_many(out: int, gpus: int) -> bool:
    """Are more GPUs out at the same time than boards that fail by themselves?"""
    return out > max(MOST_FEW, math.floor(gpus * MOST_SHARE))


def parse_actions(text: str) -> dict[ActionClass, Actions]:
    """``reset=drain+reset replace=evacuate``: over the defaults. ValueError says what is wrong."""
    found = dict(DEFAULT_ACTIONS)
    for word in text.replace(",", " ").split():
        name, equals, listed = word.partition("=")
        if not equals or name not in list(ActionClass):
            known = ", ".join(ACTIONABLE)
            raise ValueError(f"{word!r} is not CLASS=ACTION+ACTION, CLASS one of {known}")
        asks = ActionClass(name)
        found[asks] = tuple(map(_action, listed.split("+")))
        if asks not in ACTIONABLE:
            raise ValueError(f"of {name} nothing follows for the GPU")
        if HealthAction.RESET in found[asks] and asks not in RESETTABLE:
            raise ValueError(f"a reset does not help a GPU that asks for {name}")
    return found


def _action(word: str) -> HealthAction:
    if word not in list(HealthAction):
        raise ValueError(f"{word!r} is not an action: {', '.join(HealthAction)}")
    return HealthAction(word)
