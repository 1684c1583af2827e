"""Capacity left per profile, and how long it lasts at the present growth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.planning.licence_limits import seats_used
from vgpumgr.model.gpu import Framework
from vgpumgr.model.history import Holding
from vgpumgr.model.licence import edition_of
from vgpumgr.model.supply import Fleet, GpuSupply, Offer
from vgpumgr.placement.fleet_room import FleetRoom
from vgpumgr.placement.headroom import ENOUGH_DAYS, Futures, Lasting

# What was refused is not in it: it was never held. Counted are GPUs, so that slots of all sizes go
# together: half of a GPU is 0.5.


DAY_S = 86_400.0
# Older days are of another time.
MOST_DAYS = 90
"""Of history that are looked at."""


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
        return min(MOST_DAYS, max(0, int((self._now - first) // DAY_S)))

    def lasting(self, profile: str, fits: int) -> Lasting | None:
        """How long ``fits`` more of a profile are enough, as all that lies on the GPUs which make
        it changes; None with fewer than 14 days of history.
        """
        if self.days < ENOUGH_DAYS or profile not in self._makers:
            return None
        models, size = self._makers[profile]
        if models not in self._futures:
            self._futures[models] = Futures(self._changes(models))
        # The last one is gone when less than its size is left.
        return self._futures[models].lasting((fits - 1) * size)

    @cached_property
    def _makers(self) -> dict[str, tuple[frozenset[str], float]]:
        """By profile the models that make it, and what share of a GPU one takes on average."""
        made: dict[str, list[tuple[str, float]]] = {}
        for gpu in self._gpus.values():
            for offer in gpu.offers:
                made.setdefault(offer.profile, []).append((gpu.model, _share(gpu, offer)))
        return {
            profile: (
                frozenset(model for model, _ in found),
                sum(share for _, share in found) / len(found),
            )
            for profile, found in made.items()
        }

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
    room: FleetRoom, profiles: Collection[str] = (), growth: UsageGrowth | None = None
) -> tuple[ProfileRoom, ...]:
    """The room of every profile that some GPU of the fleet can make.

    The number is exact: that many more requests with one part of it succeed and the next is
    refused.
    """
    made, used = by_profile(room.gpus_by_last), _in_use(room.fleet)
    wanted = sorted(name for name in made if not profiles or name in profiles)
    return tuple(_room(name, made[name], room.fits(name), used[name], growth) for name in wanted)


def by_profile(gpus: Iterable[GpuSupply]) -> dict[str, list[Offer]]:
    """The offers of these GPUs by profile."""
    found: dict[str, list[Offer]] = {}
    for gpu in gpus:
        for offer in gpu.offers:
            found.setdefault(offer.profile, []).append(offer)
    return found


def _room(
    name: str, offers: Sequence[Offer], fits: int, used: int, growth: UsageGrowth | None
) -> ProfileRoom:
    last = offers[-1]
    return ProfileRoom(
        profile=name,
        frameworks=frameworks_of(offers),
        memory_mib=0 if last.framework is Framework.PASSTHROUGH else last.memory_mib,
        fits=fits,
        in_use=used,
        verified=last.verified,
        lasting=growth.lasting(name, fits) if growth else None,
        history_days=growth.days if growth else 0,
    )


def frameworks_of(offers: Iterable[Offer]) -> tuple[Framework, ...]:
    """The ways in which these offers are made."""
    return tuple(sorted({offer.framework for offer in offers}))


def _in_use(fleet: Fleet) -> Counter[str]:
    """Parts in use by profile."""
    gpus = (gpu for host in fleet.hosts for gpu in host.gpus)
    return Counter(usage.profile for gpu in gpus for usage in gpu.usages)


class SeatsLeft:
    """The seats that are left of each edition as the ledger is."""

    def __init__(self, view: LedgerView) -> None:
        used = seats_used(view)
        self._left = {
            each.edition: max(0, each.seats - used[each.edition]) for each in view.licences
        }
        self._open: set[str] = set()

    def of(self, room: ProfileRoom) -> dict[str, int | str | None]:
        """The fields of a profile's capacity that seats say, or bound."""
        edition = edition_of(room.profile)
        left = self._left.get(edition) if edition else None
        if edition and left is None:
            self._open.add(edition.value)
        bound = {} if left is None else self._bound(room, left)
        return {**bound, "edition": edition.value if edition else "", "seats_left": left}

    def _bound(self, room: ProfileRoom, left: int) -> dict[str, int | str | None]:
        fits, after = min(room.fits, left), min(room.fits_after, left)
        return {"fits": fits, "fits_after": after if after > fits else 0}

    def notes(self) -> Iterator[str]:
        """What is not counted, once any is."""
        if self._left and self._open:
            names = ", ".join(sorted(self._open))
            yield f"licence seats are not declared, and so not limited, of: {names}"
