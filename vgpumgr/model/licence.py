"""Licences of guests' vGPU drivers: editions, the seats that there are, and what needs one.

A guest's driver takes a seat of the licence server when it starts, and is throttled without one.
The series of a vGPU type says the edition: A is for applications, B for desktops, Q for
workstations, C for computing (NVIDIA's licensing guide, vGPU 12 and later). Whole GPUs and virtual
functions of other vendors need none that is counted here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

from vgpumgr.model.errors import NoSeatLeft

MOST_SEATS = 10_000_000

# ``A40-8Q``, ``H100-1-10CME``; and of MIG profiles by which a C type, or with graphics a Q type,
# is meant: ``1g.10gb``, ``1g.24gb+gfx``.
_TYPE = re.compile(r".*-[0-9]+([ABCQ])[A-Z]*[0-9]*", re.ASCII)
_MIG = re.compile(r"[0-9]+g\.[0-9]+gb(\+[a-z.]+)*", re.ASCII)
_GRAPHICS = "+gfx"


class Edition(StrEnum):
    """What is licensed, by the name that users write."""

    VAPPS = "vapps"
    VPC = "vpc"
    VWS = "vws"
    NVAIE = "nvaie"

    @property
    def product(self) -> str:
        """The product, as NVIDIA writes it."""
        return _TITLES[self]

    @property
    def series(self) -> str:
        """The letter of the vGPU types that need it."""
        return next(series for series, edition in _SERIES.items() if edition is self)


_TITLES = {
    Edition.VAPPS: "vApps",
    Edition.VPC: "vPC",
    Edition.VWS: "RTX vWS",
    Edition.NVAIE: "AI Enterprise",
}
_SERIES = {"A": Edition.VAPPS, "B": Edition.VPC, "Q": Edition.VWS, "C": Edition.NVAIE}


@lru_cache(maxsize=4096)
def edition_of(profile: str) -> Edition | None:
    """The edition that a guest with that profile needs; None where none is counted."""
    if found := _TYPE.fullmatch(profile):
        return _SERIES[found[1]]
    if _MIG.fullmatch(profile):
        return Edition.VWS if _GRAPHICS in profile else Edition.NVAIE
    return None


def seats_of(profiles: Iterable[str]) -> dict[str, int]:
    """The seats that one VM takes with parts of these profiles: one of each edition."""
    return dict.fromkeys(sorted({found for one in profiles if (found := edition_of(one))}), 1)


def seats_taken(parts: Iterable[tuple[str, str]]) -> Counter[str]:
    """The seats by edition that VMs take, from each part's VM (its id) and profile."""
    pairs = {(vm, found) for vm, profile in parts if (found := edition_of(profile))}
    return Counter(edition for _, edition in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """The seats of an edition. An edition without one is not limited."""

    edition: Edition
    seats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatShortage:
    """An edition of which fewer seats are left than are asked for."""

    edition: Edition
    used: int
    asked: int
    seats: int


def shortages(
    licences: Iterable[Licence], used: Mapping[str, int], asked: Mapping[str, int]
) -> Iterator[SeatShortage]:
    """The editions of which ``asked`` would be too many on top of ``used``; none that it does not
    touch.
    """
    for each in licences:
        more, has = asked.get(each.edition, 0), used.get(each.edition, 0)
        if more > 0 and has + more > each.seats:
            yield SeatShortage(edition=each.edition, used=has, asked=more, seats=each.seats)


def shortage_text(found: SeatShortage) -> str:
    """``licence vws: 40 of 40 seats used, 1 asked``."""
    return f"licence {found.edition}: {found.used} of {found.seats} seats used, {found.asked} asked"


def no_seat_left(found: Sequence[SeatShortage]) -> NoSeatLeft:
    """The error for VMs for which there are too few seats."""
    first = found[0]
    return NoSeatLeft(
        f"no licence seat is left of {first.edition.product} ({first.edition})",
        why="; ".join(map(shortage_text, found)),
        next=f"vgpumgr licence list, or {seats_command(first)} once there are more",
    )


def seats_command(found: SeatShortage) -> str:
    """What to type where the licence server has that many seats."""
    return f"vgpumgr licence set {found.edition} --seats {found.used + found.asked}"


class LicenceLedger(Protocol):
    """Licence seats in the ledger: every ``reserve`` is held to them, whatever was planned."""

    def licences(self) -> tuple[Licence, ...]:
        """Every edition whose seats are declared, by name."""

    def set_licence(self, licence: Licence) -> None:
        """Write an edition's seats over the ones that it had. Seats taken beyond them stay."""

    def delete_licence(self, edition: Edition) -> None:
        """Count its seats no more; NotFound for an edition whose seats are not declared."""
