"""What the pool controller looks at, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.pool.booking import Booking
from vgpumgr.model.pool.desktop import Ask, Desktop
from vgpumgr.model.pool.rollout import Rollout
from vgpumgr.model.pool.spec import PoolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """A pool at ``now``.

    ``startable`` is how many more of its desktops the GPUs could start now, without what is kept
    for bookings of other pools. ``draining`` maps hosts that are drained to the time at which
    sessions there end; None: whenever they do. ``bookings`` are those that this pool serves.
    ``closing``: it empties as users log off.
    """

    pool: PoolSpec
    desktops: tuple[Desktop, ...]
    now: float
    startable: int
    asks: tuple[Ask, ...] = ()
    rollout: Rollout | None = None
    draining: Mapping[str, float | None] = field(default_factory=dict)
    bookings: tuple[Booking, ...] = ()
    closing: bool = False

    @property
    def image(self) -> str:
        """The image of desktops that are made now."""
        return self.rollout.current if self.rollout else self.pool.image


class Do(StrEnum):
    """What to do with a desktop.

    ``recreate``: the same name, fresh from the image. ``update``: an owner's desktop gets its first
    disk from the image and keeps the others. ``heal``: started anew, where it was or elsewhere.
    """

    CREATE = "create"
    START = "start"
    RECREATE = "recreate"
    UPDATE = "update"
    HEAL = "heal"
    SHELVE = "shelve"
    DELETE = "delete"
    ASSIGN = "assign"
    DISCONNECT = "disconnect"
    LOGOFF = "logoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAction:
    """One thing to do, and why in one line.

    ``seen`` is the desktop that it was decided on (None: there is none yet): whoever carries it out
    must find it just so, in the transaction that takes it, or leave it to the next turn. ``image``
    is what it is made from, ``user`` who gets it or leaves it, ``booking`` the booking redeemed.
    """

    do: Do
    desktop: str
    why: str
    seen: Desktop | None = None
    image: str = ""
    user: str = ""
    booking: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """A pool in numbers, before the turn's actions.

    ``spare`` are ready for nobody yet, ``startable`` could be started beside them; ``wanted`` is
    how many desktops there should be, ``coming`` how many are being made.
    """

    used: int
    spare: int
    coming: int
    broken: int
    wanted: int
    startable: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWarning:
    """Something to act on; ``code`` is stable.

    ``no-room``: not all wanted can be started. ``low-room``: fewer could be started than spares are
    wanted. ``full``: the maximum is reached. ``gave-up``: a desktop healed, or updated, in
    vain. ``stopped``: a new image was stopped.
    """

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTurn:
    """What to do now, in that order; one action per desktop at most. No action: all is well."""

    actions: tuple[PoolAction, ...]
    counts: Counts
    rollout: Rollout | None = None
    warnings: tuple[PoolWarning, ...] = ()
