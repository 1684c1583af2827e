"""Which known GPU is the one a probe sees? Pure.

Evidence in the order of its strength: the NVML UUID, the board's serial number, the place (host
and device). GPUs of one board share its serial (A16, M10), so a serial never overrules two UUIDs
that differ. Evidence that points at two GPUs stops: a person has to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import GpuFacts, GpuState


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the ledger knows of a GPU: its evidence, its state, and what was last written of it.

    ``held_slots`` is one more than its highest held slot. ``facts`` and ``supply`` are the stored
    text, to tell whether anything changed.
    """

    id: str
    host: str
    device: str
    uuid: str | None
    serial: str | None
    vendor_device: str
    state: GpuState
    units: int
    held_slots: int = 0
    facts: str = ""
    supply: str = ""

    def place(self) -> str:
        """Where it is, in words."""
        return f"{self.device} on {self.host}"


def recognise(host: str, seen: Sequence[GpuFacts], known: Iterable[Known]) -> list[Known | None]:
    """The known GPU behind each GPU seen, None for a new one; Conflict when evidence disagrees."""
    known = tuple(known)
    found = [_match(host, each, known) for each in seen]
    owners: dict[str, GpuFacts] = {}
    for each, match in zip(seen, found, strict=True):
        _refuse_twice(host, match, each, owners)
        if match is not None:
            _refuse_elsewhere(host, match, each)
        _refuse_displaced(host, match, each, known)
    return found


def _match(host: str, seen: GpuFacts, known: Sequence[Known]) -> Known | None:
    by_uuid = next((k for k in known if seen.uuid and k.uuid == seen.uuid), None)
    by_serial = [k for k in known if seen.serial and k.serial == seen.serial]
    if by_uuid is not None:
        _refuse_other_serial(host, seen, by_uuid, by_serial)
        return by_uuid
    possible = [k for k in by_serial if not _differ(k.uuid, seen.uuid)]
    here = [k for k in known if (k.host, k.device) == (host, seen.device) and _may_be(k, seen)]
    if possible:
        return next((k for k in possible if k in here), possible[0])
    return min(here, key=lambda k: k.state is GpuState.MISSING, default=None)


def _differ(one: str | None, other: str | None) -> bool:
    """Known on both sides, and not the same."""
    return bool(one) and bool(other) and one != other


def _may_be(known: Known, seen: GpuFacts) -> bool:
    """Does nothing speak against the GPU at its old place being the same one?"""
    return not (
        _differ(known.uuid, seen.uuid)
        or _differ(known.serial, seen.serial)
        or _differ(known.vendor_device, seen.vendor_device)
    )


def _refuse_other_serial(
    host: str, seen: GpuFacts, by_uuid: Known, by_serial: Sequence[Known]
) -> None:
    others = [
        k
        for k in by_serial
        if k is not by_uuid and (by_uuid.serial != seen.serial or k.uuid is None)
    ]
    if others:
        raise _conflict(
            host,
            seen,
            f"its UUID {seen.uuid} is that of {by_uuid.id} ({by_uuid.place()}), "
            f"its serial {seen.serial} that of {others[0].id} ({others[0].place()})",
        )


def _refuse_twice(
    host: str, match: Known | None, seen: GpuFacts, owners: dict[str, GpuFacts]
) -> None:
    key = match.id if match else seen.uuid or seen.device
    first = owners.setdefault(key, seen)
    if first is not seen:
        raise _conflict(
            host,
            seen,
            f"{first.device} and {seen.device} both show the evidence of {key} "
            f"(UUID {seen.uuid}, serial {seen.serial})",
        )


def _refuse_elsewhere(host: str, match: Known, seen: GpuFacts) -> None:
    if match.host == host:
        return
    if match.state is not GpuState.MISSING:
        why = f"it is {match.id}, which is still seen at {match.place()}"
    elif match.held_slots:
        why = f"it is {match.id}, whose units at {match.place()} are still allocated"
    else:
        return
    raise _conflict(host, seen, why)


def _refuse_displaced(
    host: str, match: Known | None, seen: GpuFacts, known: Sequence[Known]
) -> None:
    for old in known:
        at_its_place = (old.host, old.device) == (host, seen.device) and old is not match
        if at_its_place and old.held_slots:
            raise _conflict(
                host,
                seen,
                f"it shows {match.id if match else 'a new GPU'} (UUID {seen.uuid}, serial "
                f"{seen.serial}), but {old.id} (UUID {old.uuid}, serial {old.serial}) "
                "is allocated there",
            )


def _conflict(host: str, seen: GpuFacts, why: str) -> Conflict:
    return Conflict(
        f"cannot tell which GPU {seen.device} on {host} is",
        why=why,
        next=f"vgpumgr gpu list; put the GPU back, or free it, then vgpumgr host probe {host}",
    )
