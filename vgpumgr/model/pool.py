"""A VDI pool as its file declares it: sizes, schedules, names, entitlements, timeouts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

from vgpumgr.model.load_scale import ScalePolicy
from vgpumgr.model.pool_schedule import Schedule
from vgpumgr.model.profile_disk import ProfileDiskSpec
from vgpumgr.model.vm import VmSpec

_PATTERN = re.compile(r"([a-z0-9-]*)\{n(?::([1-5]))?\}([a-z0-9-]*)")


@dataclass(frozen=True, slots=True)
class Naming:
    """``before``, a number of at least ``digits`` digits, ``after``."""

    before: str
    digits: int = 1
    after: str = ""

    @classmethod
    def parse(cls, pattern: str) -> Naming | None:
        """The pattern's parts; None where it is none."""
        found = _PATTERN.fullmatch(pattern)
        if found is None:
            return None
        return cls(found[1], int(found[2] or 1), found[3])

    def __str__(self) -> str:
        width = f":{self.digits}" if self.digits > 1 else ""
        return f"{self.before}{{n{width}}}{self.after}"

    def name(self, number: int) -> str:
        """The name of desktop ``number``, from 1 on."""
        return f"{self.before}{number:0{self.digits}d}{self.after}"

    def free(self, taken: Collection[str]) -> Iterator[str]:
        """Names that are not ``taken``, lowest number first; they never end."""
        return (name for number in count(1) if (name := self.name(number)) not in taken)

    def covers(self, name: str) -> bool:
        """Whether a desktop could be called so."""
        number = name.removeprefix(self.before).removesuffix(self.after)
        return number.isdecimal() and number.isascii() and self.name(int(number)) == name


MAX_DESKTOPS = 10_000


class PoolKind(StrEnum):
    """Whether a desktop belongs to any user until logoff, or to one user for good."""

    FLOATING = "floating"
    DEDICATED = "dedicated"


class UpdateWhen(StrEnum):
    """When desktops in use get a new image: when their users log off, or users are logged off."""

    AT_LOGOFF = "at-logoff"
    AT_ONCE = "at-once"


class ScaleIn(StrEnum):
    """What becomes of a desktop too many: deleted with its disks, or off with its disks kept."""

    DELETE = "delete"
    SHELVE = "shelve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Desktops there are at least and at most, and how many of them are ready for nobody yet."""

    min: int
    spare: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entitlement:
    """The users and groups that may have a desktop, ``per_user`` of them at a time."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    per_user: int = 1

    def admits(self, user: str, groups: Collection[str]) -> bool:
        """Whether the user may have a desktop, by name or by group."""
        return user in self.users or not self.groups.isdisjoint(groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePolicy:
    """How a new image comes: one canary that stays ready ``soak_s``, then ``step`` at a time.

    At least ``min_ready`` desktops stay ready for users meanwhile (None: half of the spares).
    ``max_failures`` desktops that never became ready stop it (one canary does); with ``rollback``
    the old image comes back.
    """

    when: UpdateWhen = UpdateWhen.AT_LOGOFF
    step: int = 5
    min_ready: int | None = None
    soak_s: float = 300.0
    max_failures: int = 1
    rollback: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """After so many seconds an idle session is disconnected, a disconnected one logged off.

    None: never. A session is in use while the engines of its vGPU are busy for more than the share
    ``idle_below`` of the time, and not by its login alone; None: they do not count.
    """

    idle_s: float | None = None
    disconnect_s: float | None = None
    idle_below: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoheal:
    """A broken desktop is recreated ``after_s``, then after twice as long, and so on.

    After ``attempts`` in a row it is left for somebody to look at; 0: nothing is healed.
    """

    after_s: float = 60.0
    attempts: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """A pool as asked for.

    ``desktop`` is what each of its VMs asks for, under the pool's own name; ``image`` is
    ``name@version``. ``zone`` is the time zone of ``schedules``. Desktops are there ``prewarm_s``
    before a schedule asks for them, and only those that nobody had for ``shrink_after_s`` go when
    they are too many. ``scale``: there are as many as their load asks for, too. ``priority``: of
    two pools that need the last GPU, more comes first. ``learned_hours``: as many are spare as
    users came on this weekday before, in the ``prewarm_s`` to come. ``profile_disk``: each user has
    a disk, which is attached to the desktop that the user is on.
    """

    name: str
    image: str
    desktop: VmSpec
    naming: Naming
    size: Size
    entitlement: Entitlement
    kind: PoolKind = PoolKind.FLOATING
    schedules: tuple[Schedule, ...] = ()
    zone: str = "UTC"
    priority: int = 0
    update: UpdatePolicy = field(default_factory=UpdatePolicy)
    timeouts: Timeouts = field(default_factory=Timeouts)
    autoheal: Autoheal = field(default_factory=Autoheal)
    scale_in: ScaleIn = ScaleIn.DELETE
    prewarm_s: float = 900.0
    shrink_after_s: float = 900.0
    scale: ScalePolicy | None = None
    learned_hours: bool = False
    profile_disk: ProfileDiskSpec | None = None

    @property
    def calendars(self) -> frozenset[str]:
        """The calendars that its schedules go by."""
        return frozenset(each.except_on for each in self.schedules) - {""}

    @property
    def profile(self) -> str:
        """The profile of a desktop's first GPU part; empty where it has none, or asks by size."""
        return self.desktop.gpus[0].profile if self.desktop.gpus else ""
