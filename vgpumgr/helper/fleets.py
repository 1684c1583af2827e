"""Which fleets have enrolled this host: each leaves a mark, so that none takes another's helper."""

from __future__ import annotations

from vgpumgr.helper import claims, state
from vgpumgr.helper.system import System


def enrolled(system: System) -> tuple[str, ...]:
    """Their ids, sorted; a fleet that enrolled the host before there were marks has none."""
    return tuple(system.list(state.FLEETS)) if system.exists(state.FLEETS) else ()


def join(system: System, fleet: str) -> None:
    """Leave the mark; it is on disk when this returns."""
    state.store(system, f"{state.FLEETS}/{fleet}", "")


def leave(system: System, fleet: str) -> None:
    """Take the mark away, and where nobody is left that needs any of it, all state."""
    state.remove(system, f"{state.FLEETS}/{fleet}")
    if not enrolled(system) and not claims.units(system):
        _forget_all(system)


def _forget_all(system: System) -> None:
    for folder in (state.CLAIMS, state.FLEETS, state.EPOCHS, state.FOLDER):
        if system.exists(folder):
            for name in system.list(folder):
                state.remove(system, f"{folder}/{name}")
            state.remove(system, folder)
