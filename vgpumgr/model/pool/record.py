"""Pools as the ledger keeps them. Plain values; times are Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.pool.desktop import Ask, Desktop
from vgpumgr.model.pool.rollout import Rollout
from vgpumgr.model.pool.spec import PoolSpec
from vgpumgr.model.pool.turn import Do


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRecord:
    """A pool. ``closing``: it empties as users log off; ``leaving``: it goes when it is empty."""

    id: str
    spec: PoolSpec
    created_at: float
    rollout: Rollout | None = None
    closing: bool = False
    leaving: bool = False
    closed_at: float | None = None
    generation: int = 0

    @property
    def name(self) -> str:
        """The user's name for it."""
        return self.spec.name

    @property
    def image(self) -> str:
        """The image of desktops that are made now."""
        return self.rollout.current if self.rollout else self.spec.image


@dataclass(frozen=True, slots=True, kw_only=True)
class DesktopRecord:
    """A desktop of a pool (its id): the intent, where its VM is the fact.

    ``doing`` is what was decided and has not been seen to be done; ``vm_id`` its VM's, from the
    reservation that made it on. ``why`` is what happened to it last. Written back it must be at its
    ``generation`` still; one of generation 0 is new, one with ``closed_at`` is gone.
    """

    id: str
    pool: str
    desktop: Desktop
    doing: Do | None = None
    vm_id: str = ""
    why: str = ""
    closed_at: float | None = None
    generation: int = 0

    @property
    def name(self) -> str:
        """Its name, which is also its VM's."""
        return self.desktop.name


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAsk:
    """A user who waits for a desktop of a pool (its id)."""

    id: str
    pool: str
    ask: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSession:
    """A user's time on a desktop; ``closed_at`` None while it lasts."""

    desktop: str
    user: str
    since: float
    booking: str = ""
    why: str = ""
    closed_at: float | None = None
