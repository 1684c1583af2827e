"""Which fleets have enrolled this host: each leaves a mark, so that none takes another's helper."""

from __future__ import annotations

from vgpumgr.helper import claims, errors, state
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.files import TEMPORARY
from vgpumgr.helper.system import System

MOST = 16
"""So many fleets may share a host: a mark is a name that anybody who may call us can write."""


def enrolled(system: System) -> tuple[str, ...]:
    """Their ids, sorted; a fleet that enrolled the host before there were marks has none."""
    return tuple(name for name in _names(system) if not name.endswith(TEMPORARY))


def join(system: System, fleet: str) -> None:
    """Leave the mark; it is on disk when this returns."""
    _sweep(system)
    there = enrolled(system)
    if fleet not in there and len(there) >= MOST:
        message = f"{len(there)} fleets have enrolled this host"
        raise HelperError(errors.REFUSED, message, f"at most {MOST} may: {', '.join(there)}")
    state.store(system, f"{state.FLEETS}/{fleet}", "")


def leave(system: System, fleet: str) -> None:
    """Take the mark away, and where nobody is left that needs any of it, all state."""
    _sweep(system)
    state.remove(system, f"{state.FLEETS}/{fleet}")
    if not enrolled(system) and not claims.units(system):
        _forget_all(system)


def _names(system: System) -> tuple[str, ...]:
    return tuple(system.list(state.FLEETS)) if system.exists(state.FLEETS) else ()


def _sweep(system: System) -> None:
    """What a write left behind that was cut; we hold the host's lock, so none is under way."""
    for name in _names(system):
        if name.endswith(TEMPORARY):
            state.remove(system, f"{state.FLEETS}/{name}")


def _forget_all(system: System) -> None:
    for folder in (state.CLAIMS, state.FLEETS, state.EPOCHS, state.FOLDER):
        if system.exists(folder):
            for name in system.list(folder):
                state.remove(system, f"{folder}/{name}")
            state.remove(system, folder)
