"""Errors of libvirt, translated into those of the error tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import libvirt

from vgpumgr.model.errors import (
    Conflict,
    HostRefused,
    HostUnreachable,
    InUse,
    NotFound,
    NotPermitted,
    OutcomeUnknown,
    VgpumgrError,
)

ABSENT = frozenset(
    {
        libvirt.VIR_ERR_NO_DOMAIN,
        libvirt.VIR_ERR_NO_STORAGE_POOL,
        libvirt.VIR_ERR_NO_STORAGE_VOL,
        libvirt.VIR_ERR_NO_NETWORK,
    }
)
_DENIED = frozenset(
    {
        libvirt.VIR_ERR_AUTH_FAILED,
        libvirt.VIR_ERR_AUTH_CANCELLED,
        libvirt.VIR_ERR_AUTH_UNAVAILABLE,
        libvirt.VIR_ERR_ACCESS_DENIED,
        libvirt.VIR_ERR_OPERATION_DENIED,
    }
)
_EXISTS = frozenset({libvirt.VIR_ERR_DOM_EXIST, libvirt.VIR_ERR_STORAGE_VOL_EXIST})
_IN_USE = ("in use", "being used", "already in use")
# QEMU's hint to any device that VFIO does not give, whatever the reason.
_HINT = "not already in use"


@contextmanager
def calling(connection: Any, doing: str, *others: Any, changes: bool = False) -> Iterator[None]:
    """Run libvirt calls, on ``others`` as well, and translate what they raise.

    ``doing`` completes the sentence "cannot …"; ``changes`` says that a cut call may have had
    its effect, so that a broken connection is OutcomeUnknown, not HostUnreachable.
    """
    try:
        yield
    except libvirt.libvirtError as error:
        gone = any(map(broken, (connection, *others)))
        raise translated(error, doing, broken=gone, changes=changes) from error


def translated(
    error: libvirt.libvirtError, doing: str, *, broken: bool = False, changes: bool = False
) -> VgpumgrError:
    """The model's error for one of libvirt's; ``broken`` when the connection is gone."""
    why = str(error)
    message = f"cannot {doing}"
    if broken and changes:
        return OutcomeUnknown(message, why=f"the connection to libvirt broke: {why}")
    if broken:
        return HostUnreachable(message, why=f"the connection to libvirt broke: {why}")
    code = error.get_error_code()
    if code in ABSENT:
        return NotFound(message, why=why)
    if code in _DENIED:
        return NotPermitted(message, why=why)
    said = why.replace(_HINT, "")
    if code == libvirt.VIR_ERR_RESOURCE_BUSY or any(words in said for words in _IN_USE):
        return InUse(message, why=why)
    if code in _EXISTS or "already exists" in why:
        return Conflict(message, why=why)
    return HostRefused(message, why=why)


def is_absent(error: libvirt.libvirtError) -> bool:
    """Did libvirt say that the object surely does not exist?"""
    return error.get_error_code() in ABSENT


def is_unsupported(error: libvirt.libvirtError) -> bool:
    """Did this driver refuse a flag or a call that it does not know?"""
    return "unsupported flags" in str(error) or (
        error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT
    )


def broken(connection: Any) -> bool:
    """Is the connection gone, as far as was noticed?"""
    try:
        return connection is not None and connection.isAlive() != 1
    except libvirt.libvirtError:
        return True
