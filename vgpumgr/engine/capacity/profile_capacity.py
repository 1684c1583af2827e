"""Capacity left per profile, and how long it lasts at the present growth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vgpumgr.model.gpu import Framework
from vgpumgr.model.history import Holding
from vgpumgr.model.supply import Fleet, GpuSupply, Offer
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.placement import headroom
from vgpumgr.placement.headroom import ENOUGH_DAYS, Futures, Lasting

# What was refused is not in it: it was never held. Counted are GPUs, so that slots of all sizes go
# together: half of a GPU is 0.5.


DAY_S = 86_400.0
# Older days are of another time.
_MOST_DAYS = 90


class UsageGrowth:
    """The history of allocations on a fleet's GPUs, up to ``now`` (Unix seconds)."""

    def __init__(self, fleet: Fleet, holdings: Sequence[Holding], now: float) -> None:
        self._gpus = {gpu.id: gpu for host in fleet.hosts for gpu in host.gpus}
        self._holdings = holdings
        self._now = now
        self._futures: dict[frozenset[str], Futures] = {}

    @cached_property
    def days(self) -> int:
        """Whole days of history, 90 at most."""
        first = min((each.since for each in self._holdings), default=self._now)
        return min(_MOST_DAYS, max(0, int((self._now - first) // DAY_S)))

    def lasting(self, profile: str, fits: int) -> Lasting | None:
        """How long ``fits`` more of a profile are enough, as all that lies on the GPUs which make
        it changes; None with fewer than 14 days of history.
        """
        made = [
            (gpu, offer)
            for gpu in self._gpus.values()
            for offer in gpu.offers
            if offer.profile == profile
        ]
        if self.days < ENOUGH_DAYS or not made:
            return None
        size = sum(_share(gpu, offer) for gpu, offer in made) / len(made)
        models = frozenset(gpu.model for gpu, _ in made)
        if models not in self._futures:
            self._futures[models] = Futures(self._changes(models))
        # The last one is gone when less than its size is left.
        return self._futures[models].lasting((fits - 1) * size)

    def _changes(self, models: frozenset[str]) -> list[float]:
        """By day, the oldest first: GPUs of these models taken, less those given back."""
        changes = [0.0] * self.days
        for each in self._holdings:
            gpu = self._gpus.get(each.gpu)
            if gpu is None or gpu.model not in models:
                continue
            share = each.units / max(1, gpu.units)
            for at, change in ((each.since, share), (each.until, -share)):
                day = -1 if at is None else int((self._now - at) // DAY_S)
                if 0 <= day < self.days:
                    changes[self.days - 1 - day] += change
        return changes


def _share(gpu: GpuSupply, offer: Offer) -> float:
    return offer.units / max(1, gpu.units)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRoom:
    """How many more VMs with one part of a profile fit, and how many parts are in use.

    ``memory_mib`` is 0 for whole GPUs: it differs from board to board. ``frameworks`` are the ways
    in which the fleet's hosts make it: one profile may be an mdev here and a VF there. ``lasting``
    is how long that is enough by ``history_days`` of history, None where these are too few.
    ``fits_after`` is how many it would be after a layout with the lines ``layout`` on empty GPUs;
    0 where no layout makes it more.
    """

    profile: str
    frameworks: tuple[Framework, ...]
    memory_mib: int
    fits: int
    in_use: int
    verified: bool
    lasting: Lasting | None = None
    history_days: int = 0
    fits_after: int = 0
    layout: str = ""


def capacity(
    fleet: Fleet, shape: VmSpec, profiles: Iterable[str] = (), growth: UsageGrowth | None = None
) -> tuple[ProfileRoom, ...]:
    """Headroom of every profile that some GPU of the fleet can make.

    ``shape`` gives the VM's vCPUs, memory and constraints; its GPUs are replaced by one part of
    the profile. The number is exact: that many more requests succeed and the next is refused.
    """
    offers = _offers(fleet)
    wanted = set(profiles)
    rooms = (
        ProfileRoom(
            profile=name,
            frameworks=_frameworks(fleet, name),
            memory_mib=_memory(offer),
            fits=headroom(fleet, one_of(shape, name)),
            in_use=_in_use(fleet, name),
            verified=offer.verified,
        )
        for name, offer in sorted(offers.items())
        if not wanted or name in wanted
    )
    if growth is None:
        return tuple(rooms)
    return tuple(
        replace(
            room,
            lasting=growth.lasting(room.profile, room.fits),
            history_days=growth.days,
        )
        for room in rooms
    )


def one_of(shape: VmSpec, profile: str) -> VmSpec:
    """The shape with exactly one part of the profile."""
    return VmSpec(
        name=shape.name,
        vcpus=shape.vcpus,
        memory_mib=shape.memory_mib,
        gpus=(GpuRequest(profile=profile),),
        affinity=shape.affinity,
        labels=shape.labels,
    )


def _offers(fleet: Fleet) -> dict[str, Offer]:
    return {
        offer.profile: offer for host in fleet.hosts for gpu in host.gpus for offer in gpu.offers
    }


def _frameworks(fleet: Fleet, profile: str) -> tuple[Framework, ...]:
    offers = (offer for host in fleet.hosts for gpu in host.gpus for offer in gpu.offers)
    return tuple(sorted({offer.framework for offer in offers if offer.profile == profile}))


def _in_use(fleet: Fleet, profile: str) -> int:
    return sum(
        usage.profile == profile
        for host in fleet.hosts
        for gpu in host.gpus
        for usage in gpu.usages
    )


def _memory(offer: Offer) -> int:
    return 0 if offer.framework is Framework.PASSTHROUGH else offer.memory_mib
