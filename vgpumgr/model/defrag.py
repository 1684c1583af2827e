"""Defragmentation as values: what is wanted, who may move, the moves, and what is in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.formats import counted
from vgpumgr.model.placement import Placed, Reason
from vgpumgr.model.vm import VmSpec


class MoveMode(StrEnum):
    """How a VM moves: while it runs, stopped for it, or because it is off anyway; ``at-logoff``:
    stopped for it once the user who is at work on it has logged off.
    """

    LIVE = "live"
    OFF = "off"
    COLD = "cold"
    LOGOFF = "at-logoff"


CARRIED_MIB_S = 1024
"""What is carried over in a second, where it is estimated: a link of 10 Gbit/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRoute:
    """How a VM gets to a host; ``copies``: its disks lie on no pool that both hosts share. To
    another GPU of its own host a VM is never carried running: libvirt migrates between hosts alone.
    """

    how: MoveMode
    copies: bool = False

    @property
    def stops(self) -> bool:
        """Is a VM that runs stopped for it, now or at the logoff?"""
        return self.how in {MoveMode.COLD, MoveMode.LOGOFF}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A VM where it is now.

    ``placed.request`` is what it needs elsewhere: a running one the very parts it has. ``ways`` are
    the other hosts it may go to, ``within`` how it gets to other GPUs of its own; none: ``stays``
    says why. What moves with it, in MiB: the memory of its
    GPU parts and its own (both 0 for a VM that is off), and its disks where they have to be copied.
    ``user`` is at work on it; of as many moves those are chosen that concern the fewest users.
    """

    placed: Placed
    ways: Mapping[str, MoveRoute] = field(default_factory=dict)
    within: MoveRoute | None = None
    gpu_mib: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    stays: str = ""
    user: str = ""

    @property
    def movable(self) -> bool:
        """Has it a way to anywhere?"""
        return bool(self.ways) or self.within is not None

    def way(self, host: str) -> MoveRoute | None:
        """How it gets to a host; None: not at all."""
        return self.within if host == self.placed.host else self.ways.get(host)

    def mib(self, way: MoveRoute) -> int:
        """What a move by ``way`` carries over."""
        carried = self.disk_mib if way.copies else 0
        return carried + (self.gpu_mib + self.memory_mib if way.how is MoveMode.LIVE else 0)

    def pause_s(self, way: MoveRoute) -> int:
        """For how long its guest stands still, as an estimate; 0 for a VM that is off.

        Live: the device's memory goes over while the guest is paused, where the driver has nothing
        better. Cold: the disks; powering off and booting come on top.
        """
        if way.how is MoveMode.OFF:
            return 0
        carried = self.gpu_mib if way.how is MoveMode.LIVE else self.mib(way)
        return -(-carried // CARRIED_MIB_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyGpus:
    """The goal of a number of GPUs without occupants, those that are empty now included."""

    gpus: int

    @property
    def words(self) -> str:
        """``2 empty GPUs``."""
        return counted(self.gpus, "empty GPU")


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeRoom:
    """Room for so many more of the request at once."""

    request: VmSpec
    count: int = 1

    @property
    def words(self) -> str:
        """``room for 2 × T4-4Q``."""
        return f"room for {self.count} × {self.request.gpus[0].profile}"


DefragGoal = EmptyGpus | FreeRoom


@dataclass(frozen=True, slots=True, kw_only=True)
class VmMove:
    """A VM goes from one place to another, on another host or on other GPUs of its own.

    ``hop``: it goes on from there later, its last place not being free yet. ``user`` is at work on
    it.
    """

    source: Placed
    target: Placed
    way: MoveRoute
    mib: int
    pause_s: int = 0
    hop: bool = False
    user: str = ""

    @property
    def within(self) -> bool:
        """Does it stay on its host? Its disks do then."""
        return self.source.host == self.target.host

    @property
    def cuts_off(self) -> bool:
        """Does it end the session of its user?"""
        return bool(self.user) and self.way.how is MoveMode.COLD

    @property
    def vm(self) -> str:
        """Which VM."""
        return self.source.request.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a GPU, or where ``gpu`` is empty a whole host, is of no help to the goal.

    ``code`` is a placement rule's, or ``resident``: somebody on the GPU does not leave.
    """

    host: str
    text: str
    code: str
    gpu: str = ""
    device: str = ""
    model: str = ""

    @property
    def reason(self) -> Reason:
        """The same as placement says it."""
        return Reason(
            code=self.code, host=self.host, text=self.text, gpu=self.gpu, device=self.device,
            model=self.model,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragMoves:
    """Carried out in this order they reach the goal; each one's place is free when it is due, while
    the VM still holds the one it has.

    ``fewest``: fewer cannot do.
    """

    moves: tuple[VmMove, ...] = ()
    fewest: bool = False

    @property
    def mib(self) -> int:
        """What they carry over in all."""
        return sum(move.mib for move in self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoDefragMoves:
    """No way was found. ``reachable`` is how far towards the goal there is one (empty GPUs, or
    requests); ``needs`` the number of moves that would do where fewer were allowed.
    """

    reachable: int = 0
    needs: int | None = None
    obstacles: tuple[Obstacle, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogoffMove:
    """A move that waits until ``user`` has logged off: the VM ``leaves`` GPUs (our ids), cold, for
    those that it ``takes`` on ``host``, which may be its own. ``why`` is the goal; ``asked_at`` is
    Unix seconds.
    """

    id: str
    vm_id: str
    vm: str
    user: str
    host: str
    leaves: tuple[str, ...]
    takes: tuple[str, ...]
    why: str
    asked_at: float
