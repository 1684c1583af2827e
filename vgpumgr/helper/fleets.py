"""The fleets that have enrolled this host, and the highest controller epoch it has seen of each.

Each fleet leaves a mark, so that none takes another's helper. An epoch lower than the highest
one of the same fleet is refused; fleets that share a host do not share an epoch.
"""

from __future__ import annotations

from vgpumgr.helper import claims, errors
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.durable_files import TEMPORARY
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

MOST_FLEETS = 16
"""So many fleets may share a host: a mark is a name that anybody who may call us can write."""


def enrolled(system: System) -> tuple[str, ...]:
    """Their ids, sorted; a fleet that enrolled the host before there were marks has none."""
    return tuple(name for name in _names(system) if not name.endswith(TEMPORARY))


def join(system: System, fleet: str) -> None:
    """Leave the mark; it is on disk when this returns."""
    _sweep(system)
    there = enrolled(system)
    if fleet not in there and len(there) >= MOST_FLEETS:
        message = f"{len(there)} fleets have enrolled this host"
        raise HelperError(errors.REFUSED, message, f"at most {MOST_FLEETS} may: {', '.join(there)}")
    claims.store_state(system, f"{claims.FLEETS}/{fleet}", "")


def leave(system: System, fleet: str) -> None:
    """Take the mark away, and where nobody is left that needs any of it, all state."""
    _sweep(system)
    claims.remove_state(system, f"{claims.FLEETS}/{fleet}")
    if not enrolled(system) and not claims.units(system):
        _forget_all(system)


def _names(system: System) -> tuple[str, ...]:
    return tuple(system.list(claims.FLEETS)) if system.exists(claims.FLEETS) else ()


def _sweep(system: System) -> None:
    """What a write left behind that was cut; we hold the host's lock, so none is under way."""
    for name in _names(system):
        if name.endswith(TEMPORARY):
            claims.remove_state(system, f"{claims.FLEETS}/{name}")


def _forget_all(system: System) -> None:
    for folder in (claims.CLAIMS, claims.FLEETS, claims.EPOCHS, claims.FOLDER):
        if system.exists(folder):
            for name in system.list(folder):
                claims.remove_state(system, f"{folder}/{name}")
            claims.remove_state(system, folder)


MOST_EPOCH = 10**9
"""An epoch begins with a take-over or a restore: no controller comes to so many."""

FLEETS = 64
"""Whose epochs are remembered."""


def every_epoch(system: System) -> dict[str, int]:
    """The highest epoch seen, by fleet; a fleet that was never here is not among them."""
    kept = system.list(claims.EPOCHS) if system.exists(claims.EPOCHS) else ()
    known = {name for name in kept if not name.endswith(TEMPORARY)}
    known |= {*enrolled(system), *(claim["fleet"] for claim in _claims(system))}
    return {fleet: current_epoch(system, fleet) for fleet in sorted(known)}


def current_epoch(system: System, fleet: str) -> int:
    """The highest epoch seen of a fleet; 0 where it was never here."""
    own = _read(system, f"{claims.EPOCHS}/{fleet}")
    return _inherited(system, fleet) if own is None else own


def check_epoch(call: Call) -> None:
    """Refuse an older controller of this fleet; remember a newer one before it does anything."""
    if call.epoch > MOST_EPOCH:
        raise HelperError(errors.BAD_ARGUMENT, f"epoch {call.epoch} is more than {MOST_EPOCH}")
    seen = current_epoch(call.system, call.fleet)
    if call.epoch < seen:
        raise HelperError(
            errors.STALE_EPOCH,
            "this controller was superseded",
            f"it speaks for epoch {call.epoch}, the host has seen {seen}",
        )
    if call.epoch > seen:
        _require_place(call)
        claims.store_state(call.system, f"{claims.EPOCHS}/{call.fleet}", f"{call.epoch}\n")


def _require_place(call: Call) -> None:
    """An id is made up easily: so many are remembered, and no more."""
    kept = call.system.list(claims.EPOCHS) if call.system.exists(claims.EPOCHS) else ()
    if call.fleet not in kept and len(kept) >= FLEETS:
        raise HelperError(
            errors.REFUSED,
            f"{len(kept)} fleets have been here",
            f"as root on the host: rm {claims.EPOCHS}/ID of those that are gone",
        )


def _inherited(system: System, fleet: str) -> int:
    """Of one epoch for all fleets, as an older helper kept it: it is the only fleet's, and of
    several nobody can tell whose; what a fleet's own claims say holds in any case.
    """
    seen: list[int] = [each["epoch"] for each in _claims(system) if each["fleet"] == fleet]
    if not set(enrolled(system)) - {fleet}:
        seen.append(_read(system, claims.EPOCH) or 0)
    return max(seen, default=0)


def _claims(system: System) -> list[claims.Claim]:
    return [claim for _, claim, _ in claims.every(system) if claim is not None]


def _read(system: System, path: str) -> int | None:
    try:
        text = system.read(path).strip()
    except FileNotFoundError:
        return None
    if not (text.isascii() and text.isdigit()):
        raise HelperError(errors.UNKNOWN, "the host's epoch is damaged", f"{path}: {text!r}")
    return int(text)
