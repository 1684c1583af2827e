"""The plan of `apply`: actions on VMs, queued VMs, VMs without a place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.rolling import Rolling
from vgpumgr.model.vm import VmRecord, VmSpec


class ActionKind(StrEnum):
    """What happens to one VM."""

    CREATE = "create"
    START = "start"
    CHANGE = "change"
    RESUME = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One VM's change. ``details`` are lines for people; ``needs_restart`` is set for a change.

    ``placed`` is set for create, and for a change of GPU parts or CPUs; ``record`` for every VM the
    ledger knows already. ``replace``:
    the change cannot be made in place, ``apply`` refuses it, and this is the way on; ``FILE`` in it
    stands for the user's file. ``wave`` is the wave of a ``rolling`` change that it belongs to,
    counted from 1; 0: it is made at once. ``releases_first``: the VM releases its own GPU parts
    before it takes those of ``placed``.
    """

    kind: ActionKind
    vm: VmSpec
    host: str
    details: tuple[str, ...] = ()
    needs_restart: bool = False
    placed: Placed | None = None
    record: VmRecord | None = None
    replace: str = ""
    rolling: Rolling | None = None
    wave: int = 0
    releases_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedVm:
    """A VM that waits for room, or is about to; ``position`` 1 is the next."""

    vm: VmSpec
    position: int
    why: str
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All actions in the order of the file, what could not be placed, what waits for room, and what
    has converged.

    ``warnings`` name hosts that could not be read, ``notes`` are what else is worth knowing. VMs
    ``in_own_way`` are not placed, and would be if they held no GPU part.
    """

    actions: tuple[Action, ...] = ()
    unplaced: tuple[NotPlaced, ...] = ()
    unchanged: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    waiting: tuple[QueuedVm, ...] = ()
    notes: tuple[str, ...] = ()
    in_own_way: tuple[str, ...] = ()

    @property
    def entering(self) -> tuple[VmSpec, ...]:
        """The VMs that are new in the queue."""
        return tuple(each.vm for each in self.waiting if each.new)

    @property
    def changes(self) -> int:
        """How many VMs would change, or begin to wait."""
        return len(self.actions) + len(self.entering)

    @property
    def waves(self) -> int:
        """How many waves there are."""
        return max((action.wave for action in self.actions), default=0)

    @property
    def first(self) -> Plan:
        """The plan of what is done at once, and in the first wave."""
        now = tuple(action for action in self.actions if action.wave <= 1)
        return replace(self, actions=now)

    @property
    def replaced(self) -> tuple[Action, ...]:
        """The changes that need a new VM: while there is one, ``apply`` changes nothing."""
        return tuple(each for each in self.actions if each.replace)
