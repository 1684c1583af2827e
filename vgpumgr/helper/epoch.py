"""The epoch of each fleet's controllers: a host keeps the highest it has seen of a fleet, and
refuses a lower one of the same fleet. Fleets that share a host do not share an epoch.
"""

from __future__ import annotations

from vgpumgr.helper import claims, errors, fleets, state
from vgpumgr.helper.call import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.files import TEMPORARY
from vgpumgr.helper.system import System

MOST = 10**9
"""An epoch begins with a take-over or a restore: no controller comes to so many."""

FLEETS = 64
"""Whose epochs are remembered."""


def every(system: System) -> dict[str, int]:
    """The highest epoch seen, by fleet; a fleet that was never here is not among them."""
    kept = system.list(state.EPOCHS) if system.exists(state.EPOCHS) else ()
    known = {name for name in kept if not name.endswith(TEMPORARY)}
    known |= {*fleets.enrolled(system), *(claim["fleet"] for claim in _claims(system))}
    return {fleet: current(system, fleet) for fleet in sorted(known)}


def current(system: System, fleet: str) -> int:
    """The highest epoch seen of a fleet; 0 where it was never here."""
    own = _read(system, f"{state.EPOCHS}/{fleet}")
    return _inherited(system, fleet) if own is None else own


def check(call: Call) -> None:
    """Refuse an older controller of this fleet; remember a newer one before it does anything."""
    if call.epoch > MOST:
        raise HelperError(errors.BAD_ARGUMENT, f"epoch {call.epoch} is more than {MOST}")
    seen = current(call.system, call.fleet)
    if call.epoch < seen:
        raise HelperError(
            errors.STALE_EPOCH,
            "this controller was superseded",
            f"it speaks for epoch {call.epoch}, the host has seen {seen}",
        )
    if call.epoch > seen:
        _require_place(call)
        state.store(call.system, f"{state.EPOCHS}/{call.fleet}", f"{call.epoch}\n")


def _require_place(call: Call) -> None:
    """An id is made up easily: so many are remembered, and no more."""
    kept = call.system.list(state.EPOCHS) if call.system.exists(state.EPOCHS) else ()
    if call.fleet not in kept and len(kept) >= FLEETS:
        raise HelperError(
            errors.REFUSED,
            f"{len(kept)} fleets have been here",
            f"as root on the host: rm {state.EPOCHS}/ID of those that are gone",
        )


def _inherited(system: System, fleet: str) -> int:
    """Of one epoch for all fleets, as an older helper kept it: it is the only fleet's, and of
    several nobody can tell whose; what a fleet's own claims say holds in any case.
    """
    seen: list[int] = [each["epoch"] for each in _claims(system) if each["fleet"] == fleet]
    if not set(fleets.enrolled(system)) - {fleet}:
        seen.append(_read(system, state.EPOCH) or 0)
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
