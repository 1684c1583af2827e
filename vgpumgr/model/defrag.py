"""Defragmentation as values: what is wanted, who may move, the moves, and what is in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.placement import Placed, Reason
from vgpumgr.model.vm import VmSpec


class How(StrEnum):
    """How a VM moves: while it runs, stopped for it, or because it is off anyway."""

    LIVE = "live"
    OFF = "off"
    COLD = "cold"


CARRIED_MIB_S = 1024
"""What is carried over in a second, where it is estimated: a link of 10 Gbit/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a VM gets to a host; ``copies``: its disks lie on no pool that both hosts share."""

    how: How
    copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A VM where it is now.

    ``placed.request`` is what it needs elsewhere: a running one the very parts it has. ``ways`` are
    the hosts it may go to; none: ``stays`` says why. What moves with it, in MiB: the memory of its
    GPU parts and its own (both 0 for a VM that is off), and its disks where they have to be copied.
    """

    placed: Placed
    ways: Mapping[str, Way] = field(default_factory=dict)
    gpu_mib: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    stays: str = ""

    def mib(self, way: Way) -> int:
        """What a move by ``way`` carries over."""
        carried = self.disk_mib if way.copies else 0
        return carried + (self.gpu_mib + self.memory_mib if way.how is How.LIVE else 0)

    def pause_s(self, way: Way) -> int:
        """For how long its guest stands still, as an estimate; 0 for a VM that is off.

        Live: the device's memory goes over while the guest is paused, where the driver has nothing
        better. Cold: the disks; powering off and booting come on top.
        """
        carried = {How.LIVE: self.gpu_mib, How.COLD: self.mib(way), How.OFF: 0}[way.how]
        return -(-carried // CARRIED_MIB_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """So many GPUs on which nothing lives, those that are empty now included."""

    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Room for so many more of the request at once."""

    request: VmSpec
    count: int = 1


Goal = Empty | Room


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A VM goes from one place to another, on another host.

    ``hop``: it goes on from there later, its last place not being free yet.
    """

    source: Placed
    target: Placed
    way: Way
    mib: int
    pause_s: int = 0
    hop: bool = False

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
class Moves:
    """Carried out in this order they reach the goal; each one's place is free when it is due, while
    the VM still holds the one it has.

    ``fewest``: fewer cannot do.
    """

    moves: tuple[Move, ...] = ()
    fewest: bool = False

    @property
    def mib(self) -> int:
        """What they carry over in all."""
        return sum(move.mib for move in self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMoves:
    """No way was found. ``reachable`` is how far towards the goal there is one (empty GPUs, or
    requests); ``needs`` the number of moves that would do where fewer were allowed.
    """

    reachable: int = 0
    needs: int | None = None
    obstacles: tuple[Obstacle, ...] = ()
