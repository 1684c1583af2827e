"""The reset of a PCI function between one guest and the next.

Which one had it is noted below /run, so a reboot, which resets everything, forgets it.
"""

from __future__ import annotations

import errno

from vgpumgr.helper import claims, errors, pci, sysfs
from vgpumgr.helper.devices import viability
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.system import System

GIVEN = "/run/vgpumgr/given"

# The holder of a function that came back: nobody's, and used.
_NOBODY = "-"


def check(system: System, address: str, holder: str) -> None:
    """Refuse ENOTTY, before anything is written, where a reset is due and none is possible."""
    if is_due(system, address, holder) and not system.exists(_file(address)):
        raise _impossible(address)


def is_due(system: System, address: str, holder: str) -> bool:
    """Whether somebody else than ``holder`` had the function since the host's start."""
    return sysfs.optional_text(system, f"{GIVEN}/{address}") not in (None, holder)


def before_guest(system: System, addresses: tuple[str, ...], holder: str) -> None:
    """Reset what is due and note the new holder; a companion without a reset method stays.

    Linux removes the ``reset`` file of a function that has no method, or answers ENOTTY.
    """
    for address in addresses:
        if is_due(system, address, holder):
            viability.check_idle(system, address)
            _reset(system, address, must=address == addresses[0])
        _note(system, address, holder)


def given(system: System, addresses: tuple[str, ...], holder: str) -> None:
    """Note a guest that has them already, by another hand."""
    for address in addresses:
        _note(system, address, holder)


def given_back(system: System, address: str) -> None:
    """Note that the holder is done with it."""
    if system.exists(f"{GIVEN}/{address}"):
        _note(system, address, _NOBODY)


def _note(system: System, address: str, holder: str) -> None:
    path = f"{GIVEN}/{address}"
    if sysfs.optional_text(system, path) != holder:
        claims.store_state(system, path, f"{holder}\n")


def _reset(system: System, address: str, *, must: bool) -> None:
    if not system.exists(_file(address)):
        if must:
            raise _impossible(address)
        return
    try:
        system.write(_file(address), "1")
    except OSError as error:
        if error.errno != errno.ENOTTY:
            raise errors.from_effect(error, f"{address} was not reset") from error
        if must:
            raise _impossible(address) from error


def _file(address: str) -> str:
    return f"{pci.path(address)}/reset"


def _impossible(address: str) -> HelperError:
    return HelperError(
        errors.REFUSED,
        f"{address} cannot be reset between two guests",
        "a guest had it since the host's start, and the kernel knows no way to reset it "
        "(reset_method is empty): restart the host",
        errno.errorcode[errno.ENOTTY],
    )
