"""A pool's desktop as it is, and who would like one. Times are Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
class Session:
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
    session: Session | None = None
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
class Ask:
    """A user who would like a desktop, ``since`` when."""

    user: str
    since: float
    groups: frozenset[str] = frozenset()
