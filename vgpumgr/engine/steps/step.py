"""The contract of every step: look, act, verify, undo; its record in the journal."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.errors import Damaged, NotFound, VgpumgrError
from vgpumgr.model.operation import Observed, StepRecord
from vgpumgr.model.ports import Clock, Host
from vgpumgr.model.secret import SecretValue
from vgpumgr.model.vm import VmRecord

# A long step tells how far it is once per so much of the whole.
TOLD_EVERY = 0.05


class UndoNotPossible(VgpumgrError):
    """This step only goes forward (a deleted volume does not come back)."""

    code = "operation.no-undo"


# Every step by its name in the journal.
_KINDS: dict[str, type[Step | TwoHostStep]] = {}


def _no_ledger(name: str) -> VmRecord:
    raise NotFound(f"there is no ledger here to read VM {name} from")


def _no_secrets(tenant: str, name: str) -> SecretValue:
    raise NotFound(f"there are no secrets here to read {name} of tenant {tenant} from")


@dataclass(frozen=True, slots=True)
class StepSurroundings:
    """The surroundings of a long step: the clock, the user's interrupt, the progress report, the
    ledger's record of a VM by its name, and a secret by its tenant and name.
    """

    clock: Clock
    stop: threading.Event
    tell: Callable[[str], None]
    vm: Callable[[str], VmRecord] = _no_ledger
    secret: Callable[[str, str], SecretValue] = _no_secrets


@dataclass(frozen=True, slots=True)
class Step(ABC):
    """One effect on one host. Acting on a host that is already in state changes nothing.

    ``atomic`` False: a cut call may leave half of it behind, which a look cannot tell from the
    whole; the engine then takes it back and acts anew. ``settles`` True: once it has happened its
    task only goes forward, and what came before it is not looked at again.
    """

    atomic: ClassVar[bool] = True
    settles: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        _KINDS[cls.__name__] = cls

    @property
    @abstractmethod
    def summary(self) -> str:
        """A line for people."""

    @abstractmethod
    def look(self, host: Host) -> Observed:
        """Is the host as this step leaves it?"""

    @abstractmethod
    def act(self, host: Host, clock: Clock) -> None:
        """Act, and verify by reading back; raises when the host refuses."""

    def within(self, host: Host, around: StepSurroundings) -> None:
        """Act, with the surroundings of a long step."""
        self.act(host, around.clock)

    def undo(self, host: Host) -> None:
        """Undo it; an effect that never happened is no error."""
        raise UndoNotPossible(f"{self.summary}: cannot be undone on {host.name}")


@dataclass(frozen=True, slots=True)
class TwoHostStep(ABC):
    """One effect on two hosts: the host that a VM leaves, and its target."""

    atomic: ClassVar[bool] = True
    settles: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        _KINDS[cls.__name__] = cls

    @property
    @abstractmethod
    def summary(self) -> str:
        """A line for people."""

    @abstractmethod
    def look(self, source: Host, target: Host) -> Observed:
        """Are both as this step leaves them?"""

    def renew(self, source: Host, target: Host) -> None:
        """Take away what a cut attempt left, before it is acted anew; mostly nothing is."""
        return

    @abstractmethod
    def act(self, source: Host, target: Host, around: StepSurroundings) -> None:
        """Act, and verify by reading back; raises when a host refuses."""

    def undo(self, source: Host, target: Host) -> None:
        """Undo it; an effect that never happened is no error."""
        raise UndoNotPossible(f"{self.summary}: cannot be undone on {source.name}")


def to_records(
    work: Iterable[Step | TwoHostStep], elsewhere: Mapping[int, str] = MappingProxyType({})
) -> tuple[StepRecord, ...]:
    """Steps as the journal keeps them; ``elsewhere`` names another host by a step's number."""
    return tuple(
        StepRecord(
            seq=seq, kind=type(step).__name__, args=to_plain(step), host=elsewhere.get(seq, "")
        )
        for seq, step in enumerate(work)
    )


def settles(record: StepRecord) -> bool:
    """Does a task only go forward once this has happened?"""
    return _KINDS[record.kind].settles


def from_record(record: StepRecord) -> Step | TwoHostStep:
    """The step that a journal record describes; Damaged for a record of no known step."""
    try:
        return from_plain(_KINDS[record.kind], record.args)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise Damaged(
            f"damaged: step {record.seq} ({record.kind}) of an operation in the ledger",
            why=f"{type(error).__name__}: {error}",
            next="vgpumgr store restore BACKUP",
        ) from error
