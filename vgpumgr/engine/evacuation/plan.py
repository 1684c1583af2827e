"""What becomes of each VM of a host that was lost."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.engine.pooling.sessions import AtWork
from vgpumgr.model.host import HostRecord
from vgpumgr.model.placement import Placed
from vgpumgr.model.vm import VmRecord


@dataclass(frozen=True, slots=True)
class Remade:
    """A VM that is recreated, and where."""

    vm: VmRecord
    placed: Placed


@dataclass(frozen=True, slots=True)
class Stays:
    """A VM that stays as it is: ``why``, and what to type. ``crowded``: no other host takes it;
    ``pool``: it is a desktop of that pool, and whoever is on it gets another.
    """

    vm: VmRecord
    why: str
    next: str
    crowded: bool = False
    pool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuationPlan:
    """All VMs of the host that was lost; ``users`` had a session on one of them."""

    lost: HostRecord
    remade: tuple[Remade, ...] = ()
    staying: tuple[Stays, ...] = ()
    users: tuple[AtWork, ...] = ()

    @property
    def crowded(self) -> bool:
        """Could one more host take a VM that stays?"""
        return any(each.crowded for each in self.staying)
