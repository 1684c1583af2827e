"""Desktops of VDI pools: states, sessions, bookings, rollouts, decisions, ledger records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.holiday_calendar import Holidays
from vgpumgr.model.load_scale import LoadWindow
from vgpumgr.model.pool import PoolSpec


class DesktopState(StrEnum):
    """What is known of a desktop.

    ``failed``: it never became ready, or its guest died. ``lost``: its host is proven to be off;
    with a host, what is left of it lies there.
    ``unknown``: it could not be looked at, which says nothing of it. ``leaving``: it is being
    deleted or shelved.
    """

    CREATING = "creating"
    READY = "ready"
    FAILED = "failed"
    LOST = "lost"
    UNKNOWN = "unknown"
    SHELVED = "shelved"
    LEAVING = "leaving"

    @property
    def holds_place(self) -> bool:
        """Whether what it held of a GPU is its own still."""
        return self not in {DesktopState.LOST, DesktopState.SHELVED}


@dataclass(frozen=True, slots=True, kw_only=True)
class DesktopSession:
    """A user on a desktop: ``active`` is when it was used last.

    ``disconnected`` is since when nobody looks at it, None while somebody does; ``booking`` the id
    of the booking that it redeems.
    """

    user: str
    since: float
    active: float
    disconnected: float | None = None
    booking: str = ""

    @property
    def watched(self) -> bool:
        """Was it ever seen to be used? Otherwise nobody can say that it is idle."""
        return self.active > self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class Desktop:
    """One desktop: ``since`` is when its state began, or its last session ended.

    ``owner`` has it for good (dedicated pools). ``stained``: somebody was on it since it was made.
    ``failures`` counts those in a row on its image. ``host`` is empty while it has no place.
    """

    name: str
    state: DesktopState
    image: str
    since: float
    host: str = ""
    owner: str = ""
    session: DesktopSession | None = None
    stained: bool = False
    failures: int = 0

    @property
    def used(self) -> bool:
        """Whether it is somebody's: nothing takes it then."""
        return self.session is not None or bool(self.owner)

    @property
    def free(self) -> bool:
        """Whether it is ready, fresh, and nobody's."""
        return self.ready and not self.used and not self.stained

    @property
    def ready(self) -> bool:
        """Whether it runs."""
        return self.state is DesktopState.READY

    @property
    def coming(self) -> bool:
        """Whether it is being made, or started."""
        return self.state is DesktopState.CREATING

    @property
    def broken(self) -> bool:
        """Whether it is known not to work."""
        return self.state in {DesktopState.FAILED, DesktopState.LOST}

    @property
    def runs(self) -> bool:
        """Whether it may hold a place on a GPU: it counts for the pool's maximum."""
        return self.state not in {DesktopState.SHELVED, DesktopState.LEAVING}


@dataclass(frozen=True, slots=True, kw_only=True)
class DesktopRequest:
    """A user who would like a desktop, ``since`` when."""

    user: str
    since: float
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """``count`` × ``profile`` for ``group`` from ``start`` to before ``end`` (Unix seconds)."""

    id: str
    group: str
    profile: str
    count: int
    start: float
    end: float

    def holds(self, start: float, end: float) -> bool:
        """Whether it touches the time from ``start`` to ``end``, both of it."""
        return self.start <= end and start < self.end


class RolloutPhase(StrEnum):
    """One desktop first, then step by step. Stopped: no further. Back: the old image again."""

    CANARY = "canary"
    ROLLING = "rolling"
    DONE = "done"
    STOPPED = "stopped"
    BACK = "back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """``image`` replaces ``previous``, ``since`` when; ``why`` it stopped."""

    image: str
    previous: str
    since: float
    phase: RolloutPhase = RolloutPhase.CANARY
    why: str = ""

    @property
    def current(self) -> str:
        """The image that desktops get now, the canary apart."""
        return (
            self.image if self.phase in {RolloutPhase.ROLLING, RolloutPhase.DONE} else self.previous
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """A pool at ``now``.

    ``startable`` is how many more of its desktops the GPUs could start now, without what is kept
    for bookings of other pools. ``draining`` maps hosts that are drained to the time at which
    sessions there end; None: whenever they do. ``bookings`` are those that this pool serves.
    ``closing``: it empties as users log off. ``load`` is what the desktops' load asks for; None: it
    does not count. ``holidays`` are the days of the calendars that schedules go by. ``expected`` is
    how many users will probably come while a desktop is being made.
    """

    pool: PoolSpec
    desktops: tuple[Desktop, ...]
    now: float
    startable: int
    asks: tuple[DesktopRequest, ...] = ()
    rollout: Rollout | None = None
    draining: Mapping[str, float | None] = field(default_factory=dict)
    bookings: tuple[Booking, ...] = ()
    closing: bool = False
    load: LoadWindow | None = None
    holidays: Holidays = field(default_factory=dict)
    expected: int = 0

    @property
    def image(self) -> str:
        """The image of desktops that are made now."""
        return self.rollout.current if self.rollout else self.pool.image


class DesktopVerb(StrEnum):
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

    do: DesktopVerb
    desktop: str
    why: str
    seen: Desktop | None = None
    image: str = ""
    user: str = ""
    booking: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCounts:
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
    wanted. ``full``: the maximum is reached. ``no-figures``: desktops do not tell their load.
    ``gave-up``: a desktop healed, or updated, in vain. ``stopped``: a new image was stopped.
    """

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDecision:
    """What to do now, in that order; one action per desktop at most. No action: all is well."""

    actions: tuple[PoolAction, ...]
    counts: PoolCounts
    rollout: Rollout | None = None
    warnings: tuple[PoolWarning, ...] = ()


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
    doing: DesktopVerb | None = None
    vm_id: str = ""
    why: str = ""
    closed_at: float | None = None
    generation: int = 0

    @property
    def name(self) -> str:
        """Its name, which is also its VM's."""
        return self.desktop.name


@dataclass(frozen=True, slots=True, kw_only=True)
class DesktopRequestRecord:
    """A user who waits for a desktop of a pool (its id)."""

    id: str
    pool: str
    ask: DesktopRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSession:
    """A user's time on a desktop; ``closed_at`` None while it lasts."""

    desktop: str
    user: str
    since: float
    booking: str = ""
    why: str = ""
    closed_at: float | None = None
