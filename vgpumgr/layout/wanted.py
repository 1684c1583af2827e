"""What a GPU is to look like: a goal made whole, with the places that VMs hold."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.layout.profiles import Profile
from vgpumgr.model.gpu import GpuInstance
from vgpumgr.model.layout import Scheduler


@dataclass(frozen=True, slots=True)
class Want:
    """One GPU instance. ``start`` None: any place. ``compute`` (CI profile ids) None: any."""

    profile: Profile
    start: int | None = None
    compute: tuple[int, ...] | None = None

    def keeps(self, instance: GpuInstance) -> bool:
        """Is this instance what is wanted?"""
        here = self.start in {None, instance.start}
        there = tuple(sorted(each.profile_id for each in instance.compute))
        same = instance.profile_id == self.profile.id
        return same and here and self.compute in {None, there}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The state to reach; a goal's open parts are wanted as they are now.

    ``scheduler`` None leaves the driver's default. ``fixed`` are GPU instances (made or still to
    be made) that belong to VMs: never touched, always in the way. ``used`` are first slices of
    instances that guests use.
    """

    mig: bool
    vfs: int
    mixed_size: bool
    scheduler: Scheduler | None
    instances: tuple[Want, ...] = ()
    fixed: tuple[GpuInstance, ...] = ()
    used: frozenset[int] = frozenset()
